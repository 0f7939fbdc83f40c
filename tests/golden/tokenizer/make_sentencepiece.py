#!/usr/bin/env python3
"""Makes sentencepiece.json: ids and offsets of hostile texts as Transformers gives them for folders that have a
SentencePiece model and no tokenizer.json, and the tokenizer.json that it saves for them. SentencePiece trains models of
a few hundred pieces here, with a small table of characters or none.

Run: python make_sentencepiece.py > sentencepiece.json    (needs transformers, sentencepiece and protobuf)
"""
import json
import pathlib
import tempfile

import transformers
from transformers import AutoTokenizer

from make_unigram import DEBERTA, texts, trained

OLD_MASK = {"content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False, "normalized": True}


def token(content, **options):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **options}


# Model and further files of each folder.
CASES = {
    "xlm-roberta": ("mapped", {"tokenizer_config.json": {"tokenizer_class": "XLMRobertaTokenizer"}}),
    "camembert": ("mapped", {"tokenizer_config.json": {"tokenizer_class": "CamembertTokenizerFast", "additional_special_tokens": ["<s>NOTUSED", "[E1]"]}}),
    "by model_type": ("identity", {"config.json": {"model_type": "camembert"}}),
    "older files": ("mapped", {
        "tokenizer_config.json": {"tokenizer_class": "XLMRobertaTokenizer", "mask_token": {**OLD_MASK, "__type": "AddedToken"}, "pad_token": "<PAD>"},
        "special_tokens_map.json": {"mask_token": OLD_MASK, "eos_token": "</s>", "sep_token": "</s>"}, "added_tokens.json": {"[E1]": 101, "[E2]": 102, "fi": 103, "\u2026": 104}}),
    "listed tokens": ("identity", {"tokenizer_config.json": {
        "tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": False,
        "added_tokens_decoder": {"0": token("<s>"), "98": token("<mask>", lstrip=True), "99": token("fi", special=False, normalized=True, rstrip=True)}}}),
    "deberta-v2": ("spm", {"config.json": {"model_type": "deberta-v2"}, "tokenizer_config.json": {"do_lower_case": False, "vocab_type": "spm"}}),
    "deberta-v2, split": ("spm", {"tokenizer_config.json": {"tokenizer_class": "DebertaV2TokenizerFast", "do_lower_case": True, "split_by_punct": True, "add_prefix_space": False}}),
    "deberta-v2, other tokens": ("mapped", {
        "tokenizer_config.json": {"tokenizer_class": "DebertaV2Tokenizer", "mask_token": {**OLD_MASK, "__type": "AddedToken", "content": "<mask>"}, "sp_model_kwargs": {}},
        "special_tokens_map.json": {"cls_token": "<s>", "unk_token": "<unk>"}, "added_tokens.json": {"[E1]": 99, "\u2026": 100}}),
}


def file_of(files):
    """The name of the model that the class reads."""
    return "spm.model" if "deberta" in json.dumps(files).lower() else "sentencepiece.bpe.model"


def case(name, model, files, all_texts):
    with tempfile.TemporaryDirectory() as scratch:
        folder, saved = pathlib.Path(scratch) / "given", pathlib.Path(scratch) / "saved"
        folder.mkdir()
        (folder / file_of(files)).write_bytes(model)
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.save_pretrained(saved)
        found = [tokenizer(text, add_special_tokens=False, return_offsets_mapping=True) for text in all_texts]
        return {"name": name, "files": files, "tokenizer": json.loads((saved / "tokenizer.json").read_text()),
                "single": tokenizer("the")["input_ids"], "pair": tokenizer("the", "a")["input_ids"],
                "roles": {role: getattr(tokenizer, f"{role}_token_id") for role in ("cls", "sep", "mask", "pad", "unk")},
                "ids": [one["input_ids"] for one in found], "offsets": [[x for span in one["offset_mapping"] for x in span] for one in found]}


def main():
    models = {"mapped": trained(user_defined_symbols=["<ent>", "monkeys"]), "identity": trained("identity"),
              "spm": trained(user_defined_symbols=["<ent>", "monkeys"], **DEBERTA)}
    models = {name: model.SerializeToString() for name, model in models.items()}
    own = ["the [E1] a[E2]", "<mask> \uff1cmask\uff1e  <mask>", "<ent>the monkeys<ent>", "<PAD><pad>", "\ufb01fi  a fi", "a \u2026 ...\ufb01\u00ad\ufb01", "<s>NOTUSED</s>", "<unk>NOTUSED <unk>",
           "the [MASK] a[MASK]", "[CLS] a [SEP]\n[UNK][PAD]", " \t[mask] Don't!\r\n", "\uff0cThe (monkeys)\u3002\u2028 \x85", "e\u0301\u0323 \u212b\u1100\u1161\u11a8"]
    all_texts = [*own, *list(texts())[:70]]
    cases = [{**case(name, models[model], files, all_texts), "model": models[model].hex(), "file": file_of(files)} for name, (model, files) in CASES.items()]
    print(json.dumps({"made by": f"make_sentencepiece.py with transformers {transformers.__version__}", "texts": [text.encode().hex() for text in all_texts],
                      "cases": cases}, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
