#!/usr/bin/env python3
"""The quickstart's recipe in PyTorch + Transformers, on the same shards: what our time and accuracy are compared with.

    python3 quickstart_pytorch.py DIR [--threads 2] [--epochs 4] [--max-steps N]

DIR holds the shards that bert_hpc_prep made (train-*.h5, test-*.h5). 2 layers of 128, 4 heads of 32, intermediate 512,
dropout 0.1 (attention: none), batch 64 padded to its longest, AdamW 1e-3 with weight decay 0.1 (none on biases and layer
norms), 10% warm-up and then linear, no clipping. --max-steps times that many steps (after 20 untimed ones) and
extrapolates to an epoch, without training on. Needs torch, transformers, h5py; exit status 77 where one is missing.
"""

import argparse
import glob
import json
import os
import sys
import time

try:
    import h5py
    import numpy
    import torch
    import transformers
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

BATCH = 64
UNTIMED = 20


def read_split(folder, split):
    """([ids of each sequence], labels) of every shard of a split, and the number of label names."""
    paths = sorted(glob.glob(os.path.join(folder, f"{split}-*.h5")))
    if not paths:
        sys.exit(f"{folder}: holds no {split}-*.h5; bert_hpc_prep makes them")
    sequences, labels = [], []
    for path in paths:
        with h5py.File(path) as file:
            ids, offsets = file["input_ids"][:], file["offsets"][:]
            sequences += [ids[a:b].astype(numpy.int64) for a, b in zip(offsets[:-1], offsets[1:])]
            labels.append(file["labels"][:].astype(numpy.int64))
            names, words = json.loads(file.attrs["label_names"]), int(file.attrs["vocabulary_size"])
    return sequences, numpy.concatenate(labels), len(names), words


def collate(sequences, labels, chosen):
    width = max(len(sequences[i]) for i in chosen)
    input_ids = torch.zeros(len(chosen), width, dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    for row, i in enumerate(chosen):
        n = len(sequences[i])
        input_ids[row, :n] = torch.from_numpy(sequences[i])
        mask[row, :n] = 1
    return {"input_ids": input_ids, "attention_mask": mask, "labels": torch.from_numpy(labels[chosen])}


def make_optimizer(model, steps):
    undecayed = lambda name: name.endswith("bias") or "LayerNorm" in name  # noqa: E731
    groups = [
        {"params": [p for n, p in model.named_parameters() if not undecayed(n)], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if undecayed(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    warmup = round(0.1 * steps)
    rate = lambda k: (k + 1) / warmup if k < warmup else max(0.0, (steps - k) / (steps - warmup))  # noqa: E731
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def train_step(model, optimizer, schedule, batch):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


@torch.no_grad()
def accuracy(model, sequences, labels):
    model.eval()
    right = 0
    order = numpy.argsort([len(s) for s in sequences], kind="stable")
    for begin in range(0, len(order), 256):
        batch = collate(sequences, labels, order[begin : begin + 256])
        right += int((model(batch["input_ids"], batch["attention_mask"]).logits.argmax(-1) == batch["labels"]).sum())
    model.train()
    return right / len(order)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--max-steps", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    random = numpy.random.default_rng(1)
    sequences, labels, classes, words = read_split(options.folder, "train")
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=128,
        num_labels=classes,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    model = transformers.BertForSequenceClassification(config).train()
    steps_of_epoch = (len(sequences) + BATCH - 1) // BATCH
    optimizer, schedule = make_optimizer(model, steps_of_epoch * options.epochs)
    print(f"{len(sequences)} sequences, {classes} classes, {steps_of_epoch} steps an epoch, {options.threads} threads")
    for epoch in range(options.epochs):
        order = random.permutation(len(sequences))
        begin = time.perf_counter()
        total = 0.0
        for step in range(steps_of_epoch):
            if options.max_steps and step == UNTIMED:
                begin = time.perf_counter()
            if options.max_steps and step == UNTIMED + options.max_steps:
                seconds = (time.perf_counter() - begin) / options.max_steps
                print(f"{1e3 * seconds:.2f} ms a step: {seconds * steps_of_epoch:.1f} s an epoch, extrapolated")
                return 0
            batch = collate(sequences, labels, order[step * BATCH : (step + 1) * BATCH])
            total += train_step(model, optimizer, schedule, batch)
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch + 1}: {seconds:.1f} s, mean loss {total / steps_of_epoch:.4f}", flush=True)
    test_sequences, test_labels, _, _ = read_split(options.folder, "test")
    print(f"test accuracy {accuracy(model, test_sequences, test_labels):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
