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
from make_unigram import DEBERTA, forms, trained
from transformers import AutoTokenizer, PreTrainedTokenizerFast

ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
DEBERTA_ROLES = {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "pad", "cls", "sep", "mask")}
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
            roles = DEBERTA_ROLES if form.startswith("deberta") else ROLES
            theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
            theirs.save_pretrained(given)
            compare(form, options.build, text, lines, given, theirs, folder)
        deberta = trained("nmt_nfkc", **DEBERTA)
        for name, file, model, settings in (("XLMRobertaTokenizer", "sentencepiece.bpe.model", trained("nmt_nfkc"), {"mask_token": OLD_MASK}),
                                            ("CamembertTokenizer", "sentencepiece.bpe.model", trained("nmt_nfkc"), {"mask_token": OLD_MASK}),
                                            ("DebertaV2Tokenizer", "spm.model", deberta, {"vocab_type": "spm"}),
                                            ("DebertaV2TokenizerFast", "spm.model", deberta, {"do_lower_case": True, "split_by_punct": True})):
            if options.form not in (None, name):
                continue
            given = folder / name
            given.mkdir()
            (given / file).write_bytes(model.SerializeToString())
            (given / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, **settings}))
            compare(name, options.build, text, lines, given, AutoTokenizer.from_pretrained(given), folder)


if __name__ == "__main__":
    main()
