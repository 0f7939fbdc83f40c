#!/usr/bin/env python3
"""Compares the ids in bert_hpc_prep's shards with those of Hugging Face's tokenizers for Unigram: on every seventh code
point, random hostile text, code and tables of numbers, and all text files of a folder, with SentencePiece's full table
of characters (nmt_nfkc, as XLM-RoBERTa has it) and each form of make_unigram.py. Tokenizers that bert_hpc_prep writes
are read back by Transformers.

compare_unigram.py [--prep BINARY] --data DIR [--form NAME]    DIR has text anywhere below
"""
import argparse
import pathlib
import tempfile

from compare_byte_bpe import ROOT, compare, prepared
from make_unigram import forms
from transformers import PreTrainedTokenizerFast


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prep", default=str(ROOT / "build/bert_hpc_prep"))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--form")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, lines = prepared(options.data, folder)
        for form, tokenizer in forms("nmt_nfkc"):
            if options.form not in (None, form):
                continue
            given = folder / form.replace(", ", "_")
            given.mkdir()
            theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
                                             cls_token="<s>", sep_token="</s>", mask_token="<mask>")
            theirs.save_pretrained(given)
            compare(form, options.prep, text, lines, given, theirs, folder)


if __name__ == "__main__":
    main()
