#!/usr/bin/env python3
"""Steps of partial fine-tuning beside steps of full fine-tuning, ours and PyTorch + PEFT's, by turns in one run.

    python3 lora.py --bench BUILD/tests/bench_training [--python PYTHON] [--case base_squad] [--rounds R] [--steps N] [--warmup W]
                    [--threads T] [--precision fp32|bf16|fp16]

A program's time is the least mean of its timed steps over the rounds, which on a busy machine is the one least disturbed.
--python: a Python with torch, transformers and peft (default: this one); where they are missing its columns are empty.
Prints a Markdown table: seconds of a step, how many times faster than the same program's full fine-tuning, how many times
faster than PEFT, and our planned memory. Exit status: 0 measured, 1 our program failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import cases

HERE = os.path.dirname(os.path.abspath(__file__))
CHOICES = {
    "all": ["--trains", "all"],
    "head": ["--trains", "head"],
    "bitfit": ["--trains", "bitfit"],
    "LoRA of query and value": ["--trains", "lora", "--targets", "query,value"],
    "LoRA of all linear layers": ["--trains", "lora", "--targets", "all-linear"],
    "DoRA of query and value": ["--trains", "dora", "--targets", "query,value"],
    "DoRA of all linear layers": ["--trains", "dora", "--targets", "all-linear"],
}
OURS = {"LoRA of query and value": ["--trains", "lora"], "DoRA of query and value": ["--trains", "dora"]}  # the default, whose names follow from the family


def report_of(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return None, done.stderr[-2000:] or done.stdout[-2000:]
    return json.loads(lines[-1]), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--case", default="base_squad")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], default="fp32")
    options = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    times, memory = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path, _ = cases.write_cases(folder, [options.case], "cpu")[options.case]
        common = ["--case", path, "--steps", str(options.steps), "--warmup", str(options.warmup)]
        theirs = [options.python, os.path.join(HERE, "bench_training.py"), "--threads", str(options.threads), "--precision",
                  options.precision]
        for _ in range(options.rounds):
            for choice, arguments in CHOICES.items():
                own = [options.bench, "--compute", options.precision, *OURS.get(choice, arguments), *common]
                report, words = report_of(own, environment)
                if report is None:
                    print(words, file=sys.stderr)
                    return 1
                times.setdefault(choice, []).append(sum(report["seconds"]) / options.steps)
                memory[choice] = (sum(report["bytes"].values()), report["trained"])
                if choice in ("head", "bitfit"):
                    continue
                report, _ = report_of([*theirs, *arguments, *common], environment)
                if report is not None:
                    times.setdefault(("PEFT", choice), []).append(sum(report["seconds"]) / options.steps)
    print(f"{options.case}, {options.precision}, {options.threads} threads, rounds {options.rounds}: the least of each\n")
    print("| trained | parameters | memory without gradients, MiB | s a step | to `all` | PyTorch + PEFT, s | to its `all` | ours to it |")
    print("|---|---|---|---|---|---|---|---|")
    for choice in CHOICES:
        ours, all_ours = min(times[choice]), min(times["all"])
        row = [choice, f"{memory[choice][1]:,}", f"{memory[choice][0] / 2**20:.0f}", f"{ours:.3f}", f"{all_ours / ours:.2f}"]
        if ("PEFT", choice) in times:
            peft, all_theirs = min(times["PEFT", choice]), min(times["PEFT", "all"])
            row += [f"{peft:.3f}", f"{all_theirs / peft:.2f}", f"{peft / ours:.2f}"]
        else:
            row += ["", "", ""]
        print("| " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
