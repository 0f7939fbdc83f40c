#!/usr/bin/env python3
"""Writes added_tokens.json: ids and offset_mapping of Transformers' BertTokenizer with added tokens of every kind, for texts that
hold them between words, blanks, accents, ideographs and control characters. The vocabulary is that of ids.json without the piece
that it has twice.
Regenerate with Transformers 5: python make_added_tokens.py > added_tokens.json
"""
import json
import pathlib
import random
import sys

import tokenizers
import transformers
from make_golden import FORMS, tokenizer
from tokenizers import AddedToken

CONTENTS = ["[E1]", "covid", "COVID", "New York", "naïve", "ÉCOLE", "中文", "中", "<ent>", "<", "##ing", "dog", "dogs", "_x", "½", "İs",
            " lead", "the", "é"]
SEPARATORS = [" ", "", "  ", "\t", "\u00a0", "\n", "\u3000", "_", "-", "1", "\x00", "\u200d"]
TEXTS = [
    "the [E1] phone[E1]was [e1] near COVID-19", "new york New York newyork New  York", "dogs dog Dogs hotdogs dog_ dog1 dog", "naive naïve NAÏVE",
    "école École ÉCOLE", "中文中 中文字", "[MASK] [E1] [SEP][MA\x00SK]", "a½b ½ <ent><ent<", "Is İs is", "", " ", "[E1]",
]


def texts(draw):
    words = CONTENTS + "The phone york Dog DOGS straße 字 [MASK] x_ running".split()
    return TEXTS + ["".join(part for _ in range(draw.randint(1, 8)) for part in (draw.choice(words), draw.choice(SEPARATORS)))
                    for _ in range(20)]


def main():
    draw = random.Random(5)
    vocabulary = list(dict.fromkeys(json.loads((pathlib.Path(__file__).resolve().parent / "ids.json").read_text())["vocabulary"]))
    cases = []
    for number in range(16):
        form = list(FORMS)[number % len(FORMS)]
        made = tokenizer(vocabulary, form)
        switches = ("single_word", "lstrip", "rstrip", "normalized", "special")
        added = []
        for content in draw.sample(CONTENTS, draw.randint(1, 8)):
            token = {name: draw.random() < 0.4 for name in switches}
            made.add_tokens([AddedToken(content, **token)])
            added.append({"content": content, "id": made.convert_tokens_to_ids(content), **token})
        encoded = [(text, made(text, add_special_tokens=False, return_offsets_mapping=True)) for text in texts(draw)]
        cases.append({"form": form, "tokens": added,
                      "texts": [{"text": text, "ids": found["input_ids"], "places": [offset for pair in found["offset_mapping"] for offset in pair]}
                                for text, found in encoded]})
    json.dump({"made by": f"make_added_tokens.py with transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
               "cases": cases}, sys.stdout, separators=(",", ":"))
    print(file=sys.stdout)


if __name__ == "__main__":
    main()
