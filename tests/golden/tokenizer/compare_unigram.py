#!/usr/bin/env python3
"""Compares the ids in bert_hpc_prep's shards with those of Hugging Face's tokenizers for Unigram: on every seventh code
point, random hostile text, code and tables of numbers, and all text files of a folder, with SentencePiece's full table
of characters (nmt_nfkc, as XLM-RoBERTa has it) and each form of make_unigram.py, and from SentencePiece's model itself.
Tokenizers that bert_hpc_prep writes are read back by Transformers.

compare_unigram.py [--build FOLDER] --data DIR [--form NAME]    DIR has text anywhere below
"""
import argparse
import json
import pathlib
import tempfile

from compare_byte_bpe import ROOT, compare, prepared
from make_unigram import forms, trained
from transformers import AutoTokenizer, PreTrainedTokenizerFast

OLD_MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": True, "rstrip": False, "single_word": False}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
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
            compare(form, options.build, text, lines, given, theirs, folder)
        for name in ("XLMRobertaTokenizer", "CamembertTokenizer"):
            if options.form not in (None, name):
                continue
            given = folder / name
            given.mkdir()
            (given / "sentencepiece.bpe.model").write_bytes(trained("nmt_nfkc").SerializeToString())
            (given / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, "mask_token": OLD_MASK}))
            compare(name, options.build, text, lines, given, AutoTokenizer.from_pretrained(given), folder)


if __name__ == "__main__":
    main()
