#!/usr/bin/env python3
"""Compares the ids in bert_hpc_prep's shards, and the characters of each token, with those of Hugging Face's tokenizers for BPE
whose blanks are "▁": on every seventh code point, random hostile text, code and tables of numbers, and all text files of a
folder, in each form of make_metaspace_bpe.py. The vocabulary is trained here on the folder's text. Tokenizers that
bert_hpc_prep writes are read back by Transformers.

compare_metaspace_bpe.py [--build FOLDER] --data DIR [--form NAME]... [--size TOKENS] [--training MB] [--every N]
                         [--save FOLDER]

DIR has text anywhere below; --every compares each N-th line of it all; --save keeps the tokenizer.json of each form, e.g. for tests/bench/prep.py.
"""
import argparse
import pathlib
import tempfile

from compare_byte_bpe import ROOT, compare, prepared
from make_metaspace_bpe import forms
from transformers import PreTrainedTokenizerFast


def training_text(lines, megabytes):
    """Every n-th line, so many that they have about this size, without zero bytes, which no token may have, and special tokens."""
    step = max(1, round(sum(map(len, lines)) / (1e6 * megabytes)))
    return tuple(line[:10000].replace("\0", "").replace("<", "") for line in lines[::step])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--form", action="append")
    parser.add_argument("--size", type=int, default=30000)
    parser.add_argument("--training", type=float, default=20)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, lines = prepared(options.data, folder)
        training = training_text(lines, options.training)
        if options.every > 1:
            lines = lines[:: options.every]
            text.write_text("\n".join(lines) + "\n", newline="")
        for form, tokenizer in forms(size=options.size, texts=training):
            if options.form and form not in options.form:
                continue
            given = (options.save or folder) / form.replace(", ", "_").replace(" ", "_")
            given.mkdir(parents=True, exist_ok=True)
            theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>",
                                             cls_token="<bos>", sep_token="<eos>", mask_token="<mask>")
            theirs.save_pretrained(given)
            compare(f"{form}, {tokenizer.get_vocab_size()} tokens", options.build, text, lines, given, theirs, folder)


if __name__ == "__main__":
    main()
