#!/usr/bin/env python3
"""Makes mpnet.json: ids and offsets of texts as Transformers' MPNetTokenizer gives them, and what it saves.

Run: python make_mpnet.py > mpnet.json    (needs transformers and tokenizers)
"""
import json
import pathlib
import random
import tempfile

import tokenizers
import transformers

# In the order of MPNet's vocabulary, in which BERT's special tokens are ordinary pieces.
PIECES = ("<s> <pad> </s> <unk> [PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! ( ) , . < > [ ] / a b c d e f é ß 中 1 2 ##a ##b ##c ##d ##e ##1 "
          "the cat ##s sat on mat un ##able pad mask cls A The <mask>").split()
POOLS = [["the", "cat", "cats", "sat", "on", "mat", "unable", "The", "CAT"], list("abcdefé12"), [" ", "  ", "\n", "\t", "\u00a0"],
         ["<s>", "</s>", "<pad>", "<unk>", "<mask>", " <mask>", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<MASK>", "< mask>"], ["中", "ß", "É", "e\u0301", "👍", "\u0000"]]


def texts():
    random.seed(7)
    yield from ("", " ", "the cat sat on the mat.", "The CATS", "a <mask> b", "a<mask>b", "a \t <mask>", "[CLS] a [SEP]", "<s>a</s>", "<pad>", "<unk>",
                "[UNK]", "中ß", "éÉ", "x", "a" * 101)
    for _ in range(120):
        yield "".join(random.choice(random.choice(POOLS)) + random.choice(["", " "]) for _ in range(random.randint(1, 14)))


def case(name, all_texts, **settings):
    tokenizer = transformers.MPNetTokenizer(vocab={piece: id for id, piece in enumerate(PIECES)}, **settings)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        saved = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text())
        config = json.loads((pathlib.Path(folder) / "tokenizer_config.json").read_text())
    encodings = [tokenizer(text, add_special_tokens=False, return_offsets_mapping=True) for text in all_texts]
    return {"name": name, "vocabulary": PIECES, "tokenizer": saved, "config": config,
            "single": tokenizer("cat")["input_ids"], "pair": tokenizer("cat", "mat")["input_ids"], "ids": [e["input_ids"] for e in encodings],
            "offsets": [[x for span in e["offset_mapping"] for x in span] for e in encodings]}


def main():
    all_texts = list(texts())
    cases = [case("uncased", all_texts), case("cased", all_texts, do_lower_case=False)]
    print(json.dumps({"made by": f"make_mpnet.py with transformers {transformers.__version__} and tokenizers {tokenizers.__version__}",
                      "texts": [text.encode().hex() for text in all_texts], "cases": cases}, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
