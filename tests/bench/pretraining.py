#!/usr/bin/env python3
"""Pretraining from scratch, ours and PyTorch's, by one recipe on the same shards: the validation loss of both over several seeds, and
their times.

    python3 pretraining.py TEXT… [--build BUILD] [--python PYTHON] [--seeds 1 2 3] [--steps 240] [--threads 2] [--folder DIR]

  TEXT      plain text, one text a line
  --build   where bert_hpc and bert_hpc_prep are (default: on PATH)
  --python  a Python with torch and transformers (default: this one)
  --folder  keep shards, runs and models there; what is finished is not repeated (default: a temporary folder, removed at the end)

A ModernBERT of 4 x 256 (heads of 64, gated feed-forward layers of 384 columns, window of 32 tokens in two of three layers), 8,192
pieces of byte-level BPE trained on the texts, packed sequences of 128 tokens, 32 a step. AdamW of 1e-3, betas 0.9 and 0.98, weight
decay 0.01, clipping at 1; warm-up of 5% of the steps, 1 - sqrt decay in the last 20%; 30% of the tokens are masked. Initial values,
order and masks of the two programs differ, as their generators do. `bert_hpc` evaluates all models on the same masked tokens (15%) of
the validation split, and runs with as many threads as PyTorch, in one process. PyTorch's time leaves out its first ten steps, ours none.
Prints a Markdown table. Exit status: 0 measured, 1 a program failed, 77 a package or a program is missing.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

try:
    import h5py
except ImportError:
    print("skipped: no h5py")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 32


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=pathlib.Path, nargs="+", metavar="TEXT")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    return parser.parse_args()


def recipe_of(steps):
    return {"steps": steps, "batch": BATCH, "rate": 1e-3, "warmup_steps": steps // 20, "decay_steps": steps // 5, "beta2": 0.98,
            "epsilon": 1e-6, "weight_decay": 0.01, "clip": 1.0, "mask_probability": 0.3}


class Programs:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        # PyTorch keeps its memory between steps, which makes it faster; ours allocates none.
        self.environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="-1",
                                TOKENIZERS_PARALLELISM="false")

    def call(self, command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            sys.exit(f"{command[0]} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def run(self, program, name, tables):
        path = self.folder / f"{name}.toml"
        path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                                for table, keys in tables.items()))
        self.call([self.options.build / program if self.options.build else program, path])

    def prepare(self):
        self.run("bert_hpc_prep", "shards", {
            "source": {"format": "text", "files": [str(path.resolve()) for path in self.options.texts], "unit": "line"},
            "split": {"train": 0.95, "validation": 0.05}, "tokenizer": {"type": "byte_bpe", "train_size": 8192, "max_tokens": 128},
            "task": {"name": "masked_lm"}, "output": {"directory": str(self.folder / "shards")}})

    def train(self, seed):
        """Trains ours; the seconds of its steps."""
        recipe, name = recipe_of(self.options.steps), f"ours-{seed}"
        if not (self.folder / name / "model/model.safetensors").exists():
            self.run("bert_hpc", name, {
                "run": {"mode": "train", "directory": str(self.folder / name), "seed": seed},
                "model": {"family": "modernbert", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
                          "intermediate_size": 384, "max_position_embeddings": 128, "local_attention": 32},
                "task": {"name": "masked_lm", "mask_probability": recipe["mask_probability"]},
                "data": {"train": [str(self.folder / "shards/train-*.h5")]}, "batch": {"global": BATCH},
                "optimizer": {"name": "adamw", "learning_rate": recipe["rate"], "beta2": recipe["beta2"], "epsilon": recipe["epsilon"],
                              "weight_decay": recipe["weight_decay"], "max_gradient_norm": recipe["clip"]},
                "schedule": {"name": "warmup_stable_decay", "decay": "1-sqrt", "steps": recipe["steps"],
                             "warmup_steps": recipe["warmup_steps"], "decay_steps": recipe["decay_steps"]}})
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return float(file["steps/seconds"][:].sum())

    def train_theirs(self, seed, model):
        """Trains PyTorch's; its seconds, scaled to all steps."""
        output, times = self.folder / f"pytorch-{seed}", self.folder / f"pytorch-{seed}.json"
        if not times.exists():
            times.write_text(self.call([self.options.python, HERE / "pretraining_pytorch.py", self.folder / "shards", model, output, "--seed", seed,
                                        "--threads", self.options.threads, "--recipe", json.dumps(recipe_of(self.options.steps))]))
        taken = json.loads(times.read_text())
        return taken["seconds"] * self.options.steps / taken["steps"]

    def loss(self, name, model):
        directory = self.folder / f"loss-{name}"
        if not (directory / "metrics.h5").exists():
            self.run("bert_hpc", directory.name, {
                "run": {"mode": "evaluate", "directory": str(directory), "seed": 1}, "model": {"pretrained": str(model)},
                "task": {"name": "masked_lm", "mask_probability": 0.15}, "data": {"validation": [str(self.folder / "shards/validation-*.h5")]},
                "batch": {"global": 64}})
        with h5py.File(directory / "metrics.h5") as file:
            return float(file["evaluations/validation/loss"][-1])


def row(name, losses, seconds):
    spread = f"{statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    each = ", ".join(f"{loss:.4f}" for loss in losses)
    return f"| {name} | {statistics.mean(losses):.4f} | {spread} | {each} | {', '.join(f'{s:.0f}' for s in seconds)} |"


def measure(options, folder):
    programs = Programs(options, folder)
    if not list(folder.glob("shards/train-*.h5")):
        programs.prepare()
    losses, seconds = {"bert_hpc": [], "PyTorch": []}, {"bert_hpc": [], "PyTorch": []}
    for seed in options.seeds:
        seconds["bert_hpc"].append(programs.train(seed))
        ours = folder / f"ours-{seed}/model"
        seconds["PyTorch"].append(programs.train_theirs(seed, ours))
        losses["bert_hpc"].append(programs.loss(f"ours-{seed}", ours))
        losses["PyTorch"].append(programs.loss(f"pytorch-{seed}", folder / f"pytorch-{seed}"))
        print(f"seed {seed}: " + ", ".join(f"{name} {losses[name][-1]:.4f} in {seconds[name][-1]:.0f} s" for name in losses), flush=True)
    print("| program | validation loss, mean | standard deviation | of each seed | seconds |\n|---|---:|---:|---|---|")
    print("\n".join(row(name, losses[name], seconds[name]) for name in losses))
    if len(options.seeds) > 1:
        of_mean = (sum(statistics.variance(values) for values in losses.values()) / len(options.seeds)) ** 0.5
        difference = statistics.mean(losses["bert_hpc"]) - statistics.mean(losses["PyTorch"])
        print(f"\nDifference of the means: {difference:+.4f}; its standard error: {of_mean:.4f}")
    ratio = statistics.median(theirs / ours for ours, theirs in zip(seconds["bert_hpc"], seconds["PyTorch"], strict=True))
    print(f"Ours takes 1/{ratio:.2f} of PyTorch's time.")


def main():
    options = parse_options()
    for program in ("bert_hpc", "bert_hpc_prep"):
        if shutil.which(str(options.build / program) if options.build else program) is None:
            print(f"skipped: {program} is not at hand")
            return 77
    if subprocess.run([options.python, "-c", "import torch, transformers, h5py"], capture_output=True).returncode != 0:
        print(f"skipped: {options.python} has no torch, transformers and h5py (--python names one that does)")
        return 77
    if options.build:
        options.build = options.build.resolve()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options, options.folder.resolve())
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(options, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
