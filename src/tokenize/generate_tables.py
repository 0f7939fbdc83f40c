#!/usr/bin/env python3
"""Makes unicode_tables.inc: how Hugging Face's BERT normalizer and pre-tokenizer treat every Unicode code point.

Each of the 1,112,064 code points is put to the installed `tokenizers` library itself, not to a Unicode database: its
several crates follow different Unicode versions, and only its answers define "identical ids". The output names the
version asked. Run: python generate_tables.py > unicode_tables.inc
"""
import functools
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

SPACE, REMOVED, CJK, PUNCTUATION, MARK, BARRIER, REORDERED = 1, 2, 4, 8, 16, 32, 64

cased = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False)
uncased = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
lower = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True)
nfd = normalizers.NFD()
split = pre_tokenizers.BertPreTokenizer()

HANGUL = range(0xAC00, 0xD7A4)


def hangul_jamo(point):
    """The arithmetic decomposition of a syllable, which the C++ code does instead of storing 11,172 rows."""
    index = point - 0xAC00
    jamo = [0x1100 + index // 588, 0x1161 + index % 588 // 28]
    return jamo + ([0x11A7 + index % 28] if index % 28 else [])


def is_nonstarter(c):
    """Does canonical ordering move `c`? U+0345 has the highest combining class (240), U+0334 the lowest (1)."""
    after_highest = nfd.normalize_str("a\u0345" + c)
    before_lowest = nfd.normalize_str("a" + c + "\u0334")
    plain = nfd.normalize_str(c)
    return after_highest != "a\u0345" + plain or before_lowest != "a" + plain + "\u0334" or c in "\u0345\u0334"


def lowered(point):
    """The lower-cased form with its accents, None where it is the code point itself."""
    form = lower.normalize_str("a" + chr(point) + "a")[1:-1].strip(" ")
    return None if form in (chr(point), "") else [ord(x) for x in form]


def ask(point):
    """(flags, lower-cased and stripped form or None where it is the code point itself)."""
    c = chr(point)
    clean = cased.normalize_str("a" + c + "a")
    flags = 0
    if clean == "aa":
        return REMOVED, None
    if clean == "a a":
        return SPACE, None
    if clean == "a " + c + " a":
        flags |= CJK
    else:
        assert clean == "a" + c + "a", (hex(point), clean)
    pieces = [p for p, _ in split.pre_tokenize_str("a" + c + "a")]
    if pieces == ["a", c, "a"]:
        flags |= PUNCTUATION
    else:
        assert pieces == ["a" + c + "a"], (hex(point), pieces)
    form = uncased.normalize_str("a" + c + "a")[1:-1]
    if flags & CJK:
        assert form[0] == form[-1] == " "
        form = form[1:-1]
    assert " " not in form
    if form == "":
        flags |= MARK if is_nonstarter(c) else BARRIER
    elif form == c and is_nonstarter(c):
        flags |= REORDERED
    assert len(form) < 2 or len(split.pre_tokenize_str(form)) == 1, hex(point)
    return flags, None if form in (c, "") else [ord(x) for x in form]


def runs(values):
    """[(first, last, value)] of equal neighbours; `values` is [(point, value)] in order."""
    found = []
    for point, value in values:
        if found and found[-1][1] == point - 1 and found[-1][2] == value:
            found[-1][1] = point
        else:
            found.append([point, point, value])
    return found


def shift_runs(single):
    """[(first, last, step, difference)]: runs of code points, 1 or 2 apart, mapped by one constant difference."""
    found = []
    for point, target in single:
        if found:
            first, last, step, difference = found[-1]
            gap = point - last
            if target - point == difference and gap in (1, 2) and (step in (0, gap)):
                found[-1] = [first, point, gap, difference]
                continue
        found.append([point, point, 0, target - point])
    return [[a, b, step or 1, d] for a, b, step, d in found]


def rows(items, per_line=8):
    for start in range(0, len(items), per_line):
        print("    " + " ".join("{" + ", ".join(item) + "}," for item in items[start : start + per_line]))


def main():
    flags, forms, lowers = {}, {}, {}
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000:
            continue
        flag, form = ask(point)
        if point in HANGUL:
            assert flag == 0 and form == hangul_jamo(point)
            continue
        if flag:
            flags[point] = flag
        if form:
            forms[point] = form
        if lowered(point):
            lowers[point] = lowered(point)
            assert flag == 0 and not any(ask(x)[0] & ~MARK for x in lowers[point]), hex(point)
    moved = [p for p, f in flags.items() if f & REORDERED]
    compare = lambda a, b: 0 if a == b else (
        -1 if nfd.normalize_str("a" + chr(b) + chr(a)) == "a" + chr(a) + chr(b) else
        1 if nfd.normalize_str("a" + chr(a) + chr(b)) == "a" + chr(b) + chr(a) else 0)
    ranked, rank, previous = [], 0, None
    for p in sorted(moved, key=functools.cmp_to_key(compare)):
        rank += previous is None or compare(previous, p) != 0
        ranked.append((p, rank))
        previous = p
    single = [(p, f[0]) for p, f in forms.items() if len(f) == 1]
    several = [(p, f) for p, f in forms.items() if len(f) > 1]
    assert max(len(f) for _, f in several) <= 4
    assert [p for p, f in lowers.items() if len(f) > 1] == [0x130] and lowers[0x130] == [0x69, 0x307]

    print(f"// Made by generate_tables.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("// clang-format off")
    print(f'constexpr char tables_source[] = "tokenizers {tokenizers.__version__}";')
    print("constexpr FlagRun flag_runs[] = {  // first, last, flags")
    rows([(hex(a), hex(b), str(v)) for a, b, v in runs(sorted(flags.items()))])
    print("};\nconstexpr ShiftRun shift_runs[] = {  // first, last, step, difference")
    rows([(hex(a), hex(b), str(s), str(d)) for a, b, s, d in shift_runs(single)])
    print("};\nconstexpr Expansion expansions[] = {  // code point, its form, zero-filled")
    rows([(hex(p), ", ".join(hex(x) for x in f + [0] * (4 - len(f)))) for p, f in several])
    print("};\nconstexpr ShiftRun lower_runs[] = {  // lower case alone; U+0130, two characters, is not here")
    rows([(hex(a), hex(b), str(s), str(d)) for a, b, s, d in shift_runs([(p, f[0]) for p, f in lowers.items() if len(f) == 1])])
    print("};\nconstexpr ReorderRank reorder_ranks[] = {  // kept nonstarters by combining class")
    rows([(hex(p), str(r)) for p, r in sorted(ranked)])
    print("};")
    print(f"{len(flags)} flags, {len(single)} + {len(several)} forms, {len(moved)} reordered, {len(lowers)} lower", file=sys.stderr)


if __name__ == "__main__":
    main()
