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

from make_unigram import texts, trained

MODEL = "sentencepiece.bpe.model"
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
}


def case(name, model, files, all_texts):
    with tempfile.TemporaryDirectory() as scratch:
        folder, saved = pathlib.Path(scratch) / "given", pathlib.Path(scratch) / "saved"
        folder.mkdir()
        (folder / MODEL).write_bytes(model)
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
    models = {"mapped": trained(user_defined_symbols=["<ent>", "monkeys"]), "identity": trained("identity")}
    models = {name: model.SerializeToString() for name, model in models.items()}
    own = ["the [E1] a[E2]", "<mask> \uff1cmask\uff1e  <mask>", "<ent>the monkeys<ent>", "<PAD><pad>", "\ufb01fi  a fi", "a \u2026 ...\ufb01\u00ad\ufb01", "<s>NOTUSED</s>", "<unk>NOTUSED <unk>"]
    all_texts = [*own, *list(texts())[:70]]
    cases = [{**case(name, models[model], files, all_texts), "model": models[model].hex()} for name, (model, files) in CASES.items()]
    print(json.dumps({"made by": f"make_sentencepiece.py with transformers {transformers.__version__}", "texts": [text.encode().hex() for text in all_texts],
                      "cases": cases}, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
