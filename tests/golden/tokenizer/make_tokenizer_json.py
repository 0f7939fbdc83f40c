#!/usr/bin/env python3
"""Writes tokenizer_uncased.json and tokenizer_cased.json beside this file: what Transformers saves of a BERT tokenizer whose
vocabulary needs every kind of escaping in JSON. Regenerate with Transformers 5: python make_tokenizer_json.py
"""
import pathlib
import tempfile

import transformers

SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ['"', "\\", "/", "\x01", "\x08", "\x0c", "\t", "\x1f", "\x7f", "\u2028", "é", "ß", "中", "😀", "A", "a", "##a", "##é", "##\"", "b c"]


def main():
    for form, lowercase in (("uncased", True), ("cased", False)):
        tokenizer = transformers.BertTokenizer(vocab={piece: i for i, piece in enumerate(SPECIAL + PIECES)},
                                               do_lower_case=lowercase, strip_accents=lowercase)
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            text = (pathlib.Path(folder) / "tokenizer.json").read_bytes()
        (pathlib.Path(__file__).parent / f"tokenizer_{form}.json").write_bytes(text)


if __name__ == "__main__":
    main()
