#!/usr/bin/env python3
"""The cases of the training benchmark, made by integer arithmetic and one exponential, so that every machine and both
sides (bench_training and bench_training.py) work on the same sequences.

    python3 cases.py FOLDER [cpu|cuda]    writes FOLDER/NAME.json for every case of that kind of device (default cpu)

A case file holds
  name, description, aim     aim: the least ratio to PyTorch padding to the longest that this project wants
  config                     the model, with config.json's key names; dropout 0.1
  labels                     classes of the classification head
  batch                      sequences per step
  cap                        the longest length; PyTorch can also be made to pad to it
  lengths                    one list of `batch` lengths per step; steps beyond the list start again at its beginning
  steps, warmup              timed steps and untimed ones before them, of one round

Token ids come from the generator x <- (1664525 x + 1013904223) mod 2^32, started at 12345 and running through all
tokens of all steps in order: id = 5 + (x >> 8) mod (vocab_size - 5). The label of sequence i of a step is i mod labels.
Token types are 0. Step k, counted from the first warm-up step, works on list k mod len(lengths).
"""

import json
import math
import os
import sys

MODULUS = 1 << 32


class Generator:
    """Numerical Recipes' linear congruential generator: poor, tiny, and the same in every language."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (1664525 * self.state + 1013904223) % MODULUS
        return self.state

    def normal(self):
        """Nearly normal: the sum of twelve uniform numbers, less six."""
        return sum(self.next() >> 8 for _ in range(12)) / (1 << 24) - 6.0


def log_normal_lengths(count, median, spread, shortest, cap, seed):
    generator = Generator(seed)
    return [min(cap, max(shortest, round(median * math.exp(spread * generator.normal())))) for _ in range(count)]


def squad_like(count, seed):
    """Question and passage, as SQuAD's: mean about 165 tokens, one in a hundred beyond 340, cap 384."""
    return log_normal_lengths(count, 148, 0.37, 24, 384, seed)


def gloss_like(count, seed):
    """One short sentence: mean about 17 tokens, cap 64."""
    return log_normal_lengths(count, 15.8, 0.45, 4, 64, seed)


def document_like(count, seed):
    """Parts of documents: mean about 640 tokens, one in seven cut at 1024."""
    return log_normal_lengths(count, 560, 0.48, 64, 1024, seed)


def book_like(count, seed):
    """Long documents: mean about 5,500 tokens, one in six cut at 8192."""
    return log_normal_lengths(count, 5000, 0.5, 512, 8192, seed)


def token_ids(case):
    """Lists of token ids, one list per sequence, nested by step: for the Python side."""
    generator = Generator(12345)
    words = case["config"]["vocab_size"] - 5
    return [[[5 + (generator.next() >> 8) % words for _ in range(n)] for n in step] for step in case["lengths"]]


def model(layers, hidden, heads):
    return {
        "vocab_size": 30522,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 512,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }


def roberta(layers, hidden, heads):
    """With the sizes of model(), so that both take the same time but for what the families differ in."""
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    own = {"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1}  # positions begin after padding's row
    return model(layers, hidden, heads) | own | special


def modernbert(layers, hidden, heads, positions=1024):
    return {
        "model_type": "modernbert",
        "vocab_size": 30522,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 3 * hidden // 2,
        "max_position_embeddings": positions,
        "local_attention": 128,
        "global_attn_every_n_layers": 3,
        "attention_dropout": 0.0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    }


def deberta(layers, hidden, heads):
    """With the sizes of model(), so that a row beside BERT's shows what terms of distances cost."""
    return model(layers, hidden, heads) | {
        "model_type": "deberta-v2",
        "relative_attention": True,
        "position_buckets": 256,
        "max_relative_positions": -1,
        "position_biased_input": False,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "pos_att_type": "p2c|c2p",
        "type_vocab_size": 0,
        "pad_token_id": 0,
    }


def make_case(name, description, aim, config, batch, cap, lengths, lists, steps, warmup):
    flat = lengths(lists * batch, 1)
    return {
        "name": name,
        "description": description,
        "aim": aim,
        "config": config,
        "labels": 2,
        "batch": batch,
        "cap": cap,
        "lengths": [flat[i * batch : (i + 1) * batch] for i in range(lists)],
        "steps": steps,
        "warmup": warmup,
    }


def full(length):
    """Every sequence of this length."""
    return lambda count, seed: [length] * count


def cpu_cases():
    return [
        make_case("base_full", "BERT-base, 128 tokens each", 1.2, model(12, 768, 12), 32, 128, full(128), 2, 2, 1),
        make_case("base_squad", "BERT-base, SQuAD-like lengths", 2.0, model(12, 768, 12), 8, 384, squad_like, 16, 4, 1),
        make_case("minilm_squad", "MiniLM, SQuAD-like lengths", 2.6, model(6, 384, 12), 8, 384, squad_like, 16, 12, 3),
        make_case("mini_short", "mini, short texts", 2.5, model(4, 256, 4), 32, 64, gloss_like, 32, 24, 6),
        make_case("tiny_short", "tiny, short texts", 4.0, model(2, 128, 2), 32, 64, gloss_like, 32, 64, 16),
        make_case("modernbert_long", "ModernBERT, long texts", 3.0, modernbert(6, 384, 6), 8, 1024, document_like, 8, 6, 2),
        make_case("modernbert_8192", "ModernBERT, up to 8,192 tokens", 3.0, modernbert(6, 384, 6, 8192), 4, 8192, book_like, 2, 1, 1),
        make_case("roberta_squad", "RoBERTa-base, SQuAD-like lengths", 2.0, roberta(12, 768, 12), 8, 384, squad_like, 16, 4, 1),
        make_case("deberta_squad", "DeBERTa-v3, MiniLM's sizes, SQuAD-like lengths", 2.6, deberta(6, 384, 12), 8, 384, squad_like, 16, 12, 3),
    ]


def gpu_cases():
    """For a GPU of the H100's kind; a list of lengths more than once in the timed steps."""
    base, large = model(12, 768, 12), model(24, 1024, 16)
    return [
        make_case("base_squad", "BERT-base, SQuAD-like lengths", 2.0, base, 32, 384, squad_like, 16, 48, 16),
        make_case("large_squad", "BERT-large, SQuAD-like lengths", 2.0, large, 32, 384, squad_like, 16, 32, 16),
        make_case("base_512", "BERT-base, 512 tokens each", 1.0, base, 32, 512, full(512), 2, 24, 8),
        make_case("large_512", "BERT-large, 512 tokens each", 1.0, large, 32, 512, full(512), 2, 16, 6),
        make_case("base_short", "BERT-base, short texts", 2.0, base, 32, 64, gloss_like, 32, 96, 32),
        make_case("roberta_squad", "RoBERTa-base, SQuAD-like lengths", 2.0, roberta(12, 768, 12), 32, 384, squad_like, 16, 48, 16),
    ]


def all_cases(device="cpu"):
    return gpu_cases() if device == "cuda" else cpu_cases()


def work(case, first, steps):
    """(sequences, real tokens, floating-point operations) of `steps` steps from step `first` on: 72 L H^2 + 12 L H s
    for a token of a sequence of s tokens, forward and backward, padding not counted; ModernBERT has 24 H^2 + 18 H I
    instead of 72 H^2, and min(s, 129) keys instead of s in two of three layers; DeBERTa has 24 L H s, as each key and
    query has two more products, without the products that make keys and queries of distances."""
    config = case["config"]
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    weights, local = 72.0 * layers * hidden**2, 0
    if config.get("model_type") == "modernbert":
        weights = layers * (24.0 * hidden**2 + 18.0 * hidden * config["intermediate_size"])
        local = sum(i % config["global_attn_every_n_layers"] != 0 for i in range(layers))
    window = config.get("local_attention", 0) + 1
    pair = 24.0 if config.get("model_type") == "deberta-v2" else 12.0
    sequences = tokens = 0
    operations = 0.0
    for step in range(first, first + steps):
        for n in case["lengths"][step % len(case["lengths"])]:
            sequences += 1
            tokens += n
            operations += n * (weights + pair * hidden * ((layers - local) * n + local * min(n, window)))
    return sequences, tokens, operations


def write_cases(folder, names=None, device="cpu"):
    """Writes the case files; returns {name: (path, case)}."""
    os.makedirs(folder, exist_ok=True)
    written = {}
    for case in all_cases(device):
        if names and case["name"] not in names:
            continue
        path = os.path.join(folder, case["name"] + ".json")
        with open(path, "w") as file:
            json.dump(case, file)
        written[case["name"]] = (path, case)
    return written


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-") or sys.argv[2:] not in ([], ["cpu"], ["cuda"]):
        sys.exit(__doc__)
    for name, (path, case) in write_cases(sys.argv[1], device=sys.argv[2] if sys.argv[2:] else "cpu").items():
        lengths = [n for step in case["lengths"] for n in step]
        print(f"{path}: mean {sum(lengths) / len(lengths):.1f}, longest {max(lengths)}")
