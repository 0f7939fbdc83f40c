"""Layouts of the ranks against each other: short trainings of one model on the same batches, in turn.

Usage: layouts.py [--build DIR] [--rounds 5] [--steps 25] [--ranks 2] [--blocks 8] [--hidden 256] [--words 100]
                  [--global 64] [--task classification|masked_lm] [--set table.key=VALUE]... LAYOUT...

A layout is the keys of [parallel] with commas between them, as in data=2 or pipeline=2,pipeline_schedule="zb_h1"; the
first one is what the others are compared with. Prints for each layout the median over the rounds of its median seconds
a step (the first five steps left out) and of its speed as a ratio to the first one's in the same round.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import h5py

WARM_UP = 5


def write_shards(folder, build, words, rows, task):
    """Rows of random words, from half to one and a half times `words` of them; labels that mean nothing."""
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 6))) for _ in range(3000)]
    lines = ["text\tlabel"]
    for _ in range(rows):
        lines.append(" ".join(draw.choices(vocabulary, k=draw.randint(max(1, words // 2), words * 3 // 2))) +
                     f"\t{draw.choice('abcde')}")
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n")
    (folder / "prep.toml").write_text(f"""
[source]
format = "tsv"
files = ["{folder}/rows.tsv"]
text = "text"
{'label = "label"' if task == "classification" else ""}
[split]
train = 1.0
validation = 0.0
test = 0.0
[tokenizer]
train_size = 8000
max_tokens = 512
[task]
name = "{task}"
[output]
directory = "{folder}/shards"
""")
    subprocess.run([build / "bert_hpc_prep", folder / "prep.toml"], check=True, stdout=subprocess.DEVNULL)


def write_input(path, folder, options, layout):
    path.write_text(f"""
[run]
directory = "{folder}/run"
[model]
hidden_size = {options.hidden}
num_hidden_layers = {options.blocks}
num_attention_heads = {options.hidden // 64}
intermediate_size = {4 * options.hidden}
[task]
name = "{options.task}"
[data]
train = ["{folder}/shards/train-*.h5"]
[batch]
global = {getattr(options, "global")}
[optimizer]
learning_rate = 1e-4
[schedule]
steps = {options.steps}
[log]
every_steps = 1
progress = "none"
[parallel]
""" + "".join(key + "\n" for key in re.split(r",(?![^\[]*\])", layout)))


def seconds_of_steps(folder, options, number):
    command = [shutil.which("mpirun"), "-n", str(options.ranks), options.build / "bert_hpc", folder / f"{number}.toml",
               "--overwrite"] + [word for text in options.set for word in ("--set", text)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    (folder / f"{number}.log").write_text(done.stdout)
    with h5py.File(folder / "run/metrics.h5") as file:
        return statistics.median(list(file["steps/seconds"])[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    for name, usual in (("rounds", 5), ("steps", 25), ("ranks", 2), ("blocks", 8), ("hidden", 256), ("words", 100),
                        ("global", 64)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--task", default="classification")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--logs", action="store_true", help="print what the first run of each layout says of itself")
    parser.add_argument("layouts", nargs="+")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="bert_hpc_layouts_") as name:
        folder = pathlib.Path(name)
        write_shards(folder, options.build, options.words, 4 * getattr(options, "global"), options.task)
        times = []  # (rounds, layouts)
        for number, layout in enumerate(options.layouts):
            write_input(folder / f"{number}.toml", folder, options, layout)
        for turn in range(options.rounds):
            times.append([seconds_of_steps(folder, options, number) for number in range(len(options.layouts))])
            if turn == 0 and options.logs:
                for number in range(len(options.layouts)):
                    print((folder / f"{number}.log").read_text())
        for number, layout in enumerate(options.layouts):
            ratios = sorted(row[0] / row[number] for row in times)
            print(f"{layout}: {1e3 * statistics.median(row[number] for row in times):.1f} ms a step, "
                  f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) times the speed")


if __name__ == "__main__":
    main()
