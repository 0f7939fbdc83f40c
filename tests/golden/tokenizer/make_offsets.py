#!/usr/bin/env python3
"""Writes offsets.json: the offset_mapping that Transformers' BertTokenizer gives for the strings of ids.json and for
strings with accents, ideographs, control characters and special tokens between words. Needs ids.json beside it.
Regenerate with Transformers 5: python make_offsets.py > offsets.json
"""
import json
import pathlib
import sys

import tokenizers
import transformers
from make_golden import FORMS, tokenizer

MORE = [
    "Where is Zürich? In der Schweiz.", "un\u0301affable une\u0301e\u0301able", "a\u0301\u0301b  \t playing\u00a0PLAYED",
    "run\u200bning\u00adab\x00bc \u200b\u200b it's", "\ufeffthe\u2028it 中文ab字 。the", "é\u0301é abc" + "é" * 101 + " ab",
    "한국어 각\u1100\u1161 it", "[CLS] the[MASK]ab [SEP]中[UNK]é[PAD]", "İstanbul İI ıt ΑΣ ὈΔΥΣ ǅ",
    "Beyoncé Giselle Knowles-Carter (/biːˈjɒnseɪ/ bee-YON-say) (born September 4, 1981)", "😀the👩‍👩‍👧 🇩🇪ab\u0301 1️⃣",
]


def main():
    golden = json.loads((pathlib.Path(__file__).resolve().parent / "ids.json").read_text())
    cases = [bytes.fromhex(case["bytes"]) for case in golden["cases"]] + [text.encode() for text in MORE]
    plain = [case.decode("utf-8", "replace") for case in cases]
    encoded = {form: tokenizer(golden["vocabulary"], form)(plain, add_special_tokens=False, return_offsets_mapping=True)
               for form in FORMS}
    json.dump({
        "made by": f"make_offsets.py with transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
        "cases": [{"bytes": case.hex(), **{form: [offset for pair in encoded[form]["offset_mapping"][i] for offset in pair]
                                           for form in FORMS}} for i, case in enumerate(cases)],
    }, sys.stdout, separators=(",", ":"))
    print(file=sys.stdout)


if __name__ == "__main__":
    main()
