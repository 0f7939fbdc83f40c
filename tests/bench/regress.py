#!/usr/bin/env python3
"""Training steps of two revisions, built here and run in turn on the cases of cases.py.

    python3 regress.py OLD NEW [--case NAME]... [--precision fp32|bf16|fp16]... [--rounds 5] [--threads T] [--folder DIR]

  OLD, NEW    revisions of this checkout, or paths of programs (BUILD/tests/bench_training)
  --case      of cases.py (default: all of BERT's)
  --precision precision.compute (default: fp32)
  --rounds    how often both run, one after the other, alternately in the other order
  --threads   of each program (default: the machine's processors)
  --folder    keep the two builds there (default: a temporary folder, removed at the end)

The ratio is OLD's time through NEW's, so that more than 1 means that NEW is faster: the median of the rounds, and the least and the
largest. "stolen" is the share of the processors' time that a virtual machine lost to its neighbours; "other" is what other programs
of this machine took. Rows with much of either are worth another run. Exit status: 0 measured, 1 a build or a program failed.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import cases

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
BERT = [case["name"] for case in cases.all_cases() if "model_type" not in case["config"]]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--case", action="append", choices=[case["name"] for case in cases.all_cases()])
    parser.add_argument("--precision", action="append", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    options.case, options.precision = options.case or BERT, options.precision or ["fp32"]
    return options


def call(command, **keys):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **keys)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def program_of(revision, folder):
    """bench_training of a revision, built in a worktree of its own; a path stays as it is."""
    if os.access(revision, os.X_OK) and os.path.isfile(revision):
        return os.path.abspath(revision)
    commit = call(["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], cwd=CHECKOUT).strip()
    tree = folder / commit[:12]
    program = tree / "build/tests/bench_training"
    if not program.exists():
        if not tree.exists():
            call(["git", "worktree", "add", "--detach", tree, commit], cwd=CHECKOUT)
        # Not by the revision's own script, whose options may be others. Libraries are those of this checkout.
        call(["bash", "-c", f"cd {shlex.quote(str(CHECKOUT))} && . jobs/common.sh && use_cache_prefix && cd {shlex.quote(str(tree))} && "
                            "cmake -S . -B build -DBERT_HPC_TESTS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo"], cwd=tree)
        call(["cmake", "--build", "build", "--parallel", str(os.cpu_count()), "--target", "bench_training"], cwd=tree)
    return str(program)


def processor_time():
    """(all, idle, stolen) of /proc/stat, in ticks of all processors."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return sum(fields), fields[3] + fields[4], fields[7]


def run(program, path, case, precision, threads):
    """(seconds of the timed steps, share of stolen time, share that other programs took)."""
    before, children = processor_time(), os.times()
    command = [program, "--case", path, "--steps", str(case["steps"]), "--warmup", str(case["warmup"]), "--compute", precision]
    output = call(command, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    after, now = processor_time(), os.times()
    everything, idle, stolen = (b - a for a, b in zip(before, after))
    own = (now.children_user + now.children_system - children.children_user - children.children_system) * os.sysconf("SC_CLK_TCK")
    report = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
    everything = max(1, everything)
    return sum(report["seconds"]), stolen / everything, max(0.0, everything - idle - stolen - own) / everything


def row(name, precision, pairs, steps):
    """A line of the table; `pairs` are the rounds' ((seconds, stolen, other) of OLD, the same of NEW)."""
    ratios = [old[0] / new[0] for old, new in pairs]
    millis = [1e3 * statistics.median(pair[i][0] for pair in pairs) / steps for i in (0, 1)]
    stolen, other = (100 * max(one[i] for pair in pairs for one in pair) for i in (1, 2))
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return f"| {name} | {precision} | {millis[0]:.2f} | {millis[1]:.2f} | {statistics.median(ratios):.3f} | {spread} | {stolen:.1f} | {other:.1f} |"


def measure(options, folder):
    builds = [program_of(revision, folder) for revision in (options.old, options.new)]
    print("| case | type | OLD, ms a step | NEW | ratio | of each round | stolen, % | other, % |\n|---|---|---:|---:|---:|---|---:|---:|", flush=True)
    for name, (path, case) in cases.write_cases(folder / "cases", options.case).items():
        for precision in options.precision:
            pairs = []
            for number in range(options.rounds):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                measured = {i: run(builds[i], path, case, precision, options.threads) for i in order}
                pairs.append((measured[0], measured[1]))
            print(row(name, precision, pairs, case["steps"]), flush=True)
    print(f"\nRatios above 1: NEW is faster. {options.threads} threads, {options.rounds} rounds in turn.")


def main():
    options = parse_options()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options, options.folder.resolve())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(options, pathlib.Path(folder))
        finally:
            subprocess.run(["git", "worktree", "prune"], cwd=CHECKOUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
