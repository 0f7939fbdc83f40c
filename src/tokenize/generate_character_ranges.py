#!/usr/bin/env python3
"""Makes character_ranges.inc: the characters that Hugging Face's normalizers NFKD and StripAccents change, asked about every code point.
The library's tables are of an older Unicode than those of Unicode libraries, whose newer characters it leaves as they are.

Run: python generate_character_ranges.py > character_ranges.inc    (needs tokenizers)
"""

import tokenizers
from tokenizers.normalizers import NFKD, StripAccents

LOW, HIGH = "\u0334", "\u0345"  # combining classes 1 and 240, the least and the largest
decompose, strip = NFKD().normalize_str, StripAccents().normalize_str


def ranges(holds):
    found = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000 or not holds(chr(point)):
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def is_ordered(character):
    """Whether it has a combining class: it moves behind a lower one, or before a higher one."""
    after, before = f"x{character}{LOW}", f"x{HIGH}{character}"
    return decompose(character) == character and (decompose(after) != after or decompose(before) != before)


def main():
    print(f"// Made by generate_character_ranges.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("// clang-format off")
    for name, comment, holds in (("decomposed", "NFKD makes others of them", lambda c: decompose(c) != c),
                                 ("ordered", "NFKD orders them by combining class", is_ordered),
                                 ("stripped", "StripAccents removes them", lambda c: strip(c) == "")):
        print(f"constexpr CharacterRange {name}[] = {{  // {comment}")
        texts = [f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges(holds)]
        for begin in range(0, len(texts), 8):
            print("    " + ", ".join(texts[begin : begin + 8]) + ",")
        print("};")


if __name__ == "__main__":
    main()
