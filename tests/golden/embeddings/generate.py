#!/usr/bin/env python3
"""Writes families.json: hidden states of Hugging Face Transformers, computed in float64, of a small model of each family (the
folders in ../bert) for a few pairs of texts, each computed alone.

    python3 generate.py        needs torch and transformers, whose versions are in the file

A layer's states are those that output_hidden_states gives behind so many blocks: of the families with norms before their sublayers
(GPT-2, ModernBERT, ESM, EuroBERT) the sum that the next block reads, before its norm, and of the last layer the result of the final norm.
Of the 48 columns the file has some.
"""

import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = {"bert": "", "distilbert": "distilbert_", "electra": "electra_", "roberta": "roberta_", "gpt2": "gpt2_",
            "modernbert": "modernbert_", "mpnet": "mpnet_", "esm": "esm_", "nomic_bert": "nomic_bert_", "eurobert": "eurobert_",
            "deberta": "deberta_"}
SPECIAL = {"cls": 2, "sep": 3, "mask": 96}  # padding and [UNK] are 0 and 1, in the order that the family has
LENGTHS = [(3, 1), (17, 13), (1, 6)]  # tokens of both texts; ModernBERT's window has 9
COLUMNS = [0, 13, 30, 47]


def states_of(folder, ids, types):
    """(layers, tokens, columns) of one sequence."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").double().eval()
    more = {"token_type_ids": torch.tensor([types])} if model.config.model_type in ("bert", "electra", "nomic_bert") else {}
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids]), output_hidden_states=True, **more).hidden_states
    assert len(states) == model.config.num_hidden_layers + 1
    return torch.stack([state[0, :, COLUMNS] for state in states]).numpy()


def main():
    draw = numpy.random.RandomState(7)
    pairs = [[draw.randint(4, 96, length).tolist() for length in lengths] for lengths in LENGTHS]
    pairs[1][0][3] = SPECIAL["mask"]  # of which ESM embeds none, but counts it
    golden = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "special": SPECIAL, "columns": COLUMNS, "pairs": pairs}
    for family, prefix in FAMILIES.items():
        folder = HERE.parent / f"bert/{prefix}classification"
        found = []
        for first, second in pairs:
            ids = [SPECIAL["cls"], *first, SPECIAL["sep"], *second, SPECIAL["sep"]]
            found.append(states_of(folder, ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)))
        states = numpy.concatenate(found, axis=1)
        last = len(states) - 1
        golden[family] = {"model": folder.name, **{f"layer {layer}": states[layer].round(7).tolist() for layer in (last - 1, last)}}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items()]
    (HERE / "families.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
