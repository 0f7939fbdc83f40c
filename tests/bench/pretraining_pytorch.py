#!/usr/bin/env python3
"""The recipe of pretraining.py in PyTorch + Transformers, on the same shards: what our loss and time are compared with.

    python3 pretraining_pytorch.py SHARDS MODEL OUTPUT --recipe JSON --seed N [--threads 2]

  SHARDS   a folder with train-*.h5 of bert_hpc_prep, whose sequences all have the same number of tokens
  MODEL    a Hugging Face folder: its config.json and tokenizer.json are used, its weights are not
  OUTPUT   the trained model goes there
  --recipe steps, batch, rate, warmup_steps, decay_steps, beta2, epsilon, weight_decay, clip, mask_probability

ModernBertForMaskedLM with Transformers' initial values and logits of the masked tokens only; Transformers' collator draws the masks;
fused AdamW, weight decay on matrices alone. Prints JSON: the seconds of all steps but the first ten. Exit status 77: no torch,
transformers or h5py.
"""

import argparse
import glob
import json
import os
import shutil
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

UNTIMED = 10


def sequences_of(folder):
    """[sequences, tokens]; the last, shorter sequence of a shard is left out."""
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "train-*.h5"))):
        with h5py.File(path) as file:
            ids, offsets = file["input_ids"][:], file["offsets"][:]
        lengths = numpy.diff(offsets)
        rows += [ids[offsets[i] : offsets[i + 1]] for i in numpy.flatnonzero(lengths == lengths.max())]
    return numpy.stack(rows).astype(numpy.int64)


def factor(step, recipe):
    """Of the learning rate: linear warm-up, constant, 1 - sqrt(progress) over the last steps."""
    if step < recipe["warmup_steps"]:
        return step / recipe["warmup_steps"]
    first = recipe["steps"] - recipe["decay_steps"]
    return 1.0 - max(0.0, (step - first) / recipe["decay_steps"]) ** 0.5


def optimizer_of(model, recipe):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": recipe["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe["rate"], betas=(0.9, recipe["beta2"]), eps=recipe["epsilon"], fused=True)


def batches(sequences, size, seed):
    random = numpy.random.default_rng(seed)
    while True:
        order = random.permutation(len(sequences))
        for begin in range(0, len(order) - size + 1, size):
            yield sequences[order[begin : begin + size]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards")
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--recipe", type=json.loads, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    recipe = options.recipe
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    config = transformers.AutoConfig.from_pretrained(options.model, sparse_prediction=True)
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=recipe["mask_probability"])
    model = transformers.ModernBertForMaskedLM(config).train()
    optimizer = optimizer_of(model, recipe)
    drawn = batches(sequences_of(options.shards), recipe["batch"], options.seed)
    for step in range(recipe["steps"]):
        if step == UNTIMED:
            begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = recipe["rate"] * factor(step, recipe)
        loss = model(**collate([{"input_ids": row} for row in next(drawn)])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begin
    model.save_pretrained(options.output)
    for name in os.listdir(options.model):
        if "token" in name or "special" in name:
            shutil.copy(os.path.join(options.model, name), options.output)
    print(json.dumps({"seconds": seconds, "steps": recipe["steps"] - UNTIMED}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
