#!/usr/bin/env python3
"""Writes ids.json: hostile strings and the ids that Transformers' BertTokenizer gives them.

The vocabulary has every character that occurs, alone and as "##…", so that each decision of the normalizer shows in the
ids instead of vanishing into [UNK]; a few words on top make longest match matter. Regenerate with Transformers 5:
python make_golden.py > ids.json
"""
import json
import random
import sys
import unicodedata

import tokenizers
import transformers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["un", "##aff", "##able", "play", "##ing", "##ed", "the", "it", "##s", "run", "##ning", "##nin", "é", "ab", "##bc"]


def texts(random_state):
    yield from (b"", b" ", b"\xef\xbb\xbfBOM", b"The unaffable [MASK] plays; it's RUNNING. abc abbc", "naïve Café CAFE\u0301".encode())
    yield from ("ΑΣ ΑΣ. ÄÖÜß ὈΔΥΣΣΕΎΣ İstanbul ıI ẞß ǅ ﬁ Ⅻ Å Ω K".encode(), "한국어 각 ᄀ".encode(), "a≠b ≮ ≯ `῀´ ; · ;".encode())
    yield from ("中文字 漢字 豈 兀 𠀀 〇 々 ア カ゛が".encode(), "👩‍👩‍👧‍👦 🇩🇪 ☺️ 1️⃣".encode(), "ก็ กำ ნ Ა Ꭰ ꭰ".encode())
    yield from ("\u00a0x\u2003y\u3000z\u200bw\u00adv\u2028u\x85t\x1cs\x0br\x00q\x7fp".encode(), b"[CLS][SEP] [cls] [[MASK]] [MASK [PAD]x[UNK]y")
    yield from ("a\u302e\U0001d165\u302f b\U0001d165\u034f\u302e\U0001d16d c\U0001d160\u302e\u0301\u1b44".encode(),)
    for n in (99, 100, 101, 150):
        yield b"a" * n + b" b"
        yield ("é" * n + " e" + "\u0301" * n + "x").encode()
        yield ("😀" * n).encode()
    yield from (b"\xff\xfeab\xc3(\xe2\x82 \xf0\x9f\x98x\xed\xa0\x80y\xc0\x80z\xf4\x90\x80\x80", b"ab\xe2\x82", b"[MA\xffSK][MASK]\xe2[SEP]")
    # Some of every category of Unicode, and combining marks in every order.
    by_category = {}
    for point in range(0x110000):
        by_category.setdefault(unicodedata.category(chr(point)), []).append(chr(point))
    marks = by_category["Mn"] + by_category["Mc"] + by_category["Me"]
    for category, members in sorted(by_category.items()):
        if category == "Cs":
            continue
        for _ in range(6):
            yield "".join(random_state.choice((random_state.choice(members), "A", " ", "é")) for _ in range(8)).encode()
    for _ in range(60):
        yield ("a" + "".join(random_state.choice(marks + ["E", "\U0001d165", "\u302e"] * 200) for _ in range(6))).encode()
    for _ in range(60):
        yield bytes(random_state.choice(b"\xf0\x9f\x98\x80\xed\xa0\xe2\x82\xc3\xa9 aZ\xcc\x81") for _ in range(12))


FORMS = {
    "uncased": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "accented": {"do_lower_case": True, "strip_accents": False},
    "joined": {"do_lower_case": True, "tokenize_chinese_chars": False},
}


def tokenizer(vocabulary, form):
    return transformers.BertTokenizer(vocab={p: i for i, p in enumerate(vocabulary)}, **FORMS[form])


def main():
    cases = list(texts(random.Random(7)))
    plain = [c.decode("utf-8", "replace") for c in cases]
    characters = set()
    for form in FORMS:
        normalizer = tokenizer(SPECIAL, form).backend_tokenizer.normalizer
        for text in plain:
            characters |= set(normalizer.normalize_str(text)) - set(" ")
    pieces = sorted(characters)
    vocabulary = SPECIAL + pieces + ["##" + p for p in pieces] + [w for w in WORDS if w not in pieces]
    ids = {form: tokenizer(vocabulary, form)(plain, add_special_tokens=False)["input_ids"] for form in FORMS}
    json.dump({
        "made by": f"make_golden.py with transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
        "vocabulary": vocabulary,
        "cases": [{"bytes": c.hex(), **{form: ids[form][i] for form in FORMS}} for i, c in enumerate(cases)],
    }, sys.stdout, separators=(",", ":"))
    print(file=sys.stdout)


if __name__ == "__main__":
    main()
