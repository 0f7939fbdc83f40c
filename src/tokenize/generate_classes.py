#!/usr/bin/env python3
"""Makes character_classes.inc: which code points Hugging Face's byte-level BPE takes for letters, numbers and blanks.

Each code point is put to the installed `tokenizers` library itself, as generate_tables.py does for BERT: the regular
expressions of its pre-tokenizers follow their own Unicode version. Run: python generate_classes.py > character_classes.inc
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

split = pre_tokenizers.ByteLevel(add_prefix_space=False)
pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
other_split = pre_tokenizers.Split(Regex(pattern), "isolated")
OTHER, LETTER, NUMBER, BLANK = range(4)


def joins(before, c, splitter=split):
    return len(splitter.pre_tokenize_str(before + c)) == 1


def ask(point):
    c = chr(point)
    found = [kind for kind, before in ((OTHER, "!"), (LETTER, "a"), (NUMBER, "1")) if joins(before, c)]
    assert len(found) < 2, hex(point)
    kind = found[0] if found else BLANK
    # Both patterns agree; a line end joins what is before it in the second one.
    assert c in "\r\n" or joins("!", c, other_split) == (kind in (OTHER, LETTER)), hex(point)
    assert joins("1", c, other_split) == (kind == NUMBER), hex(point)
    return kind


def main():
    runs = []
    for point in range(0x110000):
        kind = OTHER if 0xD800 <= point < 0xE000 else ask(point)
        if runs and runs[-1][2] == kind:
            runs[-1][1] = point
        else:
            runs.append([point, point, kind])
    runs = [run for run in runs if run[2] != OTHER]
    print(f"// Made by generate_classes.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("// clang-format off")
    print("constexpr ClassRun class_runs[] = {  // first, last, class")
    for start in range(0, len(runs), 8):
        print("    " + " ".join(f"{{{a:#x}, {b:#x}, {kind}}}," for a, b, kind in runs[start : start + 8]))
    print("};")


if __name__ == "__main__":
    main()
