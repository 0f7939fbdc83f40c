#!/usr/bin/env python3
"""Attention on a CPU beside PyTorch's, by turns in one run on the same cores.

    python3 attention.py --bench BUILD/tests/bench_attention [--python PYTHON] [--threads T] [--rounds R]

Both compute batches of 12 heads of 32 columns in fp32 with dropout 0.1, forward and backward: ours "fused" and "plain",
PyTorch's "eager" (matrix products, softmax, dropout), as Transformers has it. --python: a Python with torch (default:
this one). The time of each is its best round. Prints a Markdown table of milliseconds. Exit status: 0 measured, 1 a
program failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

HEADS, HEAD_DIM, TOKENS, DROPOUT = 12, 32, 1536, 0.1
LENGTHS = (128, 512)
KINDS = ("fused", "plain")


def torch_side(threads):
    """Prints {length: milliseconds of the fastest of ten passes}."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    found = {}
    for length in LENGTHS:
        shape = (TOKENS // length, HEADS, length, HEAD_DIM)
        query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
        slope = torch.randn(shape)
        seconds = []
        for _ in range(10):
            begin = time.perf_counter()
            scores = query @ key.transpose(-1, -2) * HEAD_DIM**-0.5
            weights = torch.nn.functional.dropout(torch.softmax(scores, -1), DROPOUT, True)
            (weights @ value).backward(slope)
            seconds.append(time.perf_counter() - begin)
        found[length] = 1e3 * min(seconds)
    print(json.dumps(found))


def output_of(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def our_side(options, kind):
    """{length: milliseconds}."""
    text = output_of([options.bench, "fp32", str(HEADS), str(HEAD_DIM), str(TOKENS), kind], options.threads)
    found = {}
    for length in LENGTHS:
        line = rf"^length {length} .*dropout {DROPOUT} +forward +([\d.]+) us .*backward +([\d.]+) us"
        found[length] = sum(map(float, re.search(line, text, re.MULTILINE).groups())) / 1e3
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        return torch_side(options.threads)
    best = {}
    for _ in range(options.rounds):
        own = [options.python, os.path.abspath(__file__), "--torch", "--threads", str(options.threads)]
        eager = json.loads(output_of(own, options.threads))
        sides = {kind: our_side(options, kind) for kind in KINDS}
        sides["eager"] = {length: eager[str(length)] for length in LENGTHS}
        for side, times in sides.items():
            for length, milliseconds in times.items():
                best[side, length] = min(best.get((side, length), milliseconds), milliseconds)
    threads = f"{options.threads} thread{'s' * (options.threads > 1)}"
    print(f"{threads}, best of {options.rounds} rounds, {TOKENS} tokens, ms\n")
    print("| length | PyTorch, eager | plain | fused | eager ÷ plain | eager ÷ fused |\n|---:|---:|---:|---:|---:|---:|")
    for length in LENGTHS:
        eager, plain, fused = (best[side, length] for side in ("eager", "plain", "fused"))
        print(f"| {length} | {eager:.0f} | {plain:.0f} | {fused:.0f} | {eager / plain:.2f} | {eager / fused:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
