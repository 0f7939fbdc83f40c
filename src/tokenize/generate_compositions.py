#!/usr/bin/env python3
"""Makes compositions.inc: Unicode's normal form C as Hugging Face's tokenizers computes it.

Each code point is put to the installed `tokenizers` library itself, as generate_tables.py does for BERT: its normal forms
follow Unicode 9, so that younger characters neither compose nor move. Run: python generate_compositions.py > compositions.inc
"""
import functools

import tokenizers
from generate_tables import HANGUL, hangul_jamo, rows, runs
from tokenizers import normalizers

nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def moves(c):
    """Is `c` a mark that canonical ordering moves? U+0345 has the highest combining class (240), U+0334 the lowest (1)."""
    return nfd("a\u0345" + c) != "a\u0345" + c or nfd("a" + c + "\u0334") != "a" + c + "\u0334" or c in "\u0345\u0334"


def order(a, b):
    a, b = chr(a), chr(b)
    return -1 if nfd("x" + b + a) != "x" + b + a else 1 if nfd("x" + a + b) != "x" + a + b else 0


def main():
    composed, decompositions, marks = [], [], []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000:
            continue
        c = chr(point)
        form = nfd(c)
        if form == c:
            if moves(c):
                marks.append(point)
            assert nfc(c) == c, hex(point)
        elif nfc(c) == c:
            if point in HANGUL:
                assert [ord(x) for x in form] == hangul_jamo(point)
                continue
            first, last = nfc(form[:-1]), form[-1]
            assert len(first) == 1 and nfc(first + last) == c and nfd(last) == last, hex(point)
            composed.append((point, ord(first), ord(last)))
        else:
            assert len(form) <= 4, hex(point)
            decompositions.append((point, form))
    ranks, rank, previous = {}, 0, None
    for point in sorted(marks, key=functools.cmp_to_key(order)):
        rank += previous is None or order(previous, point) != 0
        ranks[point] = rank
        previous = point
    assert rank < 127
    print(f"// Made by generate_compositions.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("// clang-format off")
    print("constexpr Composition compositions[] = {  // code point, and the two that become it")
    rows([(hex(p), hex(a), hex(b)) for p, a, b in composed])
    print("};\nconstexpr Decomposition decompositions[] = {  // code point that the normal form lacks, and what it becomes")
    rows([(hex(p), ", ".join(hex(ord(x)) for x in form.ljust(4, "\0"))) for p, form in decompositions])
    print("};\nconstexpr MarkRun mark_runs[] = {  // first, last, rank: marks by combining class")
    rows([(hex(a), hex(b), str(v)) for a, b, v in runs(sorted(ranks.items()))])
    print("};")


if __name__ == "__main__":
    main()
