#!/usr/bin/env python3
"""The real program on a case of cases.py: text, bert_hpc_prep, then bert_hpc, so that reading, loading and the trainer's
own work count too.

    python3 program_case.py --case NAME --compute PRECISION [--device cpu|cuda] [--mode train|evaluate|predict|embed|distill]
                            [--task classification|masked_lm] [--steps N] [--rows N] [--set table.key=VALUE]…

BERT_HPC_BUILD is the folder of bert_hpc, BERT_HPC_CPU_BUILD that of bert_hpc_prep (default: BERT_HPC_BUILD). Texts have the
lengths of the case; words are drawn from a vocabulary of one token each. Prints one line that begins with "= ". Training:
milliseconds of a step, tokens a second and real tokens' TFLOP/s, of the second half of the steps (metrics.h5). Other modes:
sequences and tokens a second of the whole set, by the time that the program prints, and its wall time. distill: a student
of half the blocks with its teacher of the case, beside the same student alone and the teacher's evaluation, in turn twice,
the faster of both.
Exit status: that of the program; 77 without h5py.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import cases

try:
    import h5py
except ImportError:
    print("skipped: no h5py")
    sys.exit(77)


def write_rows(folder, case, count):
    """A vocabulary whose words are one token each, and `count` rows with the lengths of the case. Returns the lengths."""
    words = [f"w{i}" for i in range(case["config"]["vocab_size"] - 5)]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words) + "\n")
    draw = random.Random(1)
    flat = [n for step in case["lengths"] for n in step]
    lengths = [flat[i % len(flat)] for i in range(count)]
    with open(folder / "rows.tsv", "w") as file:
        file.write("text\tlabel\n")
        for i, n in enumerate(lengths):
            file.write(" ".join(draw.choices(words, k=n - 2)) + f"\tclass{i % case['labels']}\n")
    return lengths


def prepare(folder, case, task, build):
    (folder / "prep.toml").write_text(f"""
[source]
format = "tsv"
files = ["{folder}/rows.tsv"]
text = "text"
{'label = "label"' if task == "classification" else ""}
[split]
train = 1.0
[tokenizer]
vocabulary = "{folder}/vocab.txt"
max_tokens = {case["cap"]}
[task]
name = "{task}"
[output]
directory = "{folder}/shards"
""")
    subprocess.run([build / "bert_hpc_prep", folder / "prep.toml"], check=True, stdout=subprocess.DEVNULL)


def write_input(folder, case, options, mode, directory, config=None, tables=""):
    config = config or (case["config"] if mode == "train" else {"pretrained": f"{folder}/run/model"})
    model = "\n".join(f'{key} = {value}' if not isinstance(value, str) else f'{key} = "{value}"' for key, value in config.items())
    data = "train" if mode == "train" else "test"
    schedule = f"[schedule]\nsteps = {options.steps}\n[optimizer]\nlearning_rate = 1e-4\n" if mode == "train" else ""
    task = '[embed]\npooling = "mean"' if mode == "embed" else f'[task]\nname = "{options.task}"'
    path = folder / f"{mode}.toml"
    path.write_text(f"""
[run]
mode = "{mode}"
directory = "{directory}"
[model]
{model}
{task}
[data]
{data} = ["{folder}/shards/train-*.h5"]
[batch]
global = {case["batch"]}
[precision]
compute = "{options.compute}"
{schedule}
{tables}
[log]
every_steps = 4
progress = "none"
""")
    return path


def run(build, path, options):
    settings = [word for setting in options.set for word in ("--set", setting)]
    begin = time.monotonic()
    done = subprocess.run([build / "bert_hpc", path, *settings], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    return done.stdout, time.monotonic() - begin


def second_half(directory):
    """Seconds, tokens and number of the steps in the second half of a training."""
    with h5py.File(directory / "metrics.h5") as file:
        steps = file["steps"]["step"][()]
        seconds, tokens = file["steps"]["seconds"][()], file["steps"]["tokens"][()]
    first = len(steps) // 2
    return float(seconds[first:].sum()), int(tokens[first:].sum()), int(steps[-1] - steps[first - 1])


def describe_training(directory, case):
    time_taken, done, count = second_half(directory)
    _, all_tokens, operations = cases.work(case, 0, len(case["lengths"]))
    tera = 1e-12 * operations / all_tokens * done / time_taken
    return f"= {1e3 * time_taken / count:.2f} ms a step, {done / time_taken:.4g} tokens/s, {tera:.4g} TFLOP/s"


def rate_of(output, lengths):
    """Sequences and tokens a second of a mode that reads the whole set once."""
    seconds = float(re.search(r"after ([0-9.]+) s", output)[1])
    return len(lengths) / seconds, sum(lengths) / seconds


def describe_distillation(folder, case, options, lengths, build):
    """The cost of a step with a teacher beside those of its parts, microseconds per thousand tokens."""
    blocks = case["config"]["num_hidden_layers"]
    student = dict(case["config"], num_hidden_layers=blocks // 2)
    teacher = f'[distill]\nteacher = "{folder}/run/model"\nlosses = ["kl"]\ncompute = "{options.compute}"\n'
    teacher += f"initialize = {list(range(0, blocks, 2))}"
    tables = {"alone": "", "distilled": teacher}
    least = {}
    for turn in range(2):
        costs = {}
        for name, table in tables.items():
            directory = folder / f"{name}-{turn}"
            run(build, write_input(folder, case, options, "train", directory, student, table), options)
            time_taken, done, _ = second_half(directory)
            costs[name] = 1e9 * time_taken / done
        output, _ = run(build, write_input(folder, case, options, "evaluate", folder / f"teacher-{turn}"), options)
        costs["teacher"] = 1e9 / rate_of(output, lengths)[1]
        least = {name: min(cost, least.get(name, cost)) for name, cost in costs.items()}
    sum_of_parts = least["alone"] + 1.05 * least["teacher"]
    parts = ", ".join(f"{name} {cost:.4g}" for name, cost in least.items())
    return f"= {parts} us a thousand tokens; distilled / (alone + 1.05 teacher) = {least['distilled'] / sum_of_parts:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", required=True)
    parser.add_argument("--compute", required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--mode", choices=["train", "evaluate", "predict", "embed", "distill"], default="train")
    parser.add_argument("--task", choices=["classification", "masked_lm"], default="classification")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    case = next((case for case in cases.all_cases(options.device) if case["name"] == options.case), None)
    if case is None:
        parser.error(f"no case {options.case} in cases.py")
    build = pathlib.Path(os.environ["BERT_HPC_BUILD"]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lengths = write_rows(folder, case, options.rows)
        prepare(folder, case, options.task, pathlib.Path(os.environ.get("BERT_HPC_CPU_BUILD", build)).resolve())
        steps = options.steps
        if options.mode != "train":
            options.steps = 2
        run(build, write_input(folder, case, options, "train", folder / "run"), options)
        options.steps = steps
        if options.mode == "train":
            print(describe_training(folder / "run", case))
        elif options.mode == "distill":
            print(describe_distillation(folder, case, options, lengths, build))
        else:
            output, wall = run(build, write_input(folder, case, options, options.mode, folder / options.mode), options)
            sequences, tokens = rate_of(output, lengths)
            print(f"= {sequences:.4g} sequences/s, {tokens:.4g} tokens/s, {wall:.1f} s with the start")


if __name__ == "__main__":
    main()
