#!/usr/bin/env python3
"""The quickstart's training, ours and PyTorch's, on the same shards: short spans of both in turn, and their ratio.

    python3 quickstart.py [SHARDS] [--program BUILD/bert_hpc] [--python PYTHON] [--steps N] [--rounds R] [--ranks 2]

  SHARDS     the folder that jobs/quickstart.sh filled (default: quickstart/shards)
  --program  ours; runs under mpirun with input/quickstart.toml, one thread a rank (default: bert_hpc on PATH)
  --python   a Python with torch, transformers and h5py (default: this one); without it only ours is measured
  --steps    timed in each span, after 20 untimed ones (default 100)
  --rounds   how often both run, one after the other (default 3)

PyTorch gets as many threads as ours has ranks. The ratio is the median of the rounds' ratios: other
load of the machine disturbs neighbouring spans equally. Exit status: 0 measured, 1 a program failed, 77 there are no shards or no program.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
UNTIMED = 20


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", nargs="?", default="quickstart/shards")
    parser.add_argument("--program", default="bert_hpc")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    return parser.parse_args()


def call(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def milliseconds_of_ours(options, folder):
    """Of a run that writes a row every UNTIMED steps; the first row is left out."""
    text = (HERE.parent.parent / "input/quickstart.toml").read_text()
    # Steps instead of epochs, and no evaluations.
    text = re.sub(r"(?m)^(epochs|validation|every_epochs|best) = .*\n", "", text)
    path = pathlib.Path(folder) / "input.toml"
    path.write_text(text)
    settings = {
        "run.directory": f'"{folder}/run"',
        "data.train": f'["{options.shards}/train-*.h5"]',
        "schedule.steps": UNTIMED + -(-options.steps // UNTIMED) * UNTIMED,
        "log.every_steps": UNTIMED,
        "log.progress": '"lines"',
    }
    command = ["mpirun", "-n", str(options.ranks), options.program, str(path)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false")
    for name, value in {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "MCA_rmaps_base_oversubscribe": "1", "MCA_hwloc_base_binding_policy": "none"}.items():
        environment.setdefault(f"OMPI_{name}", value)
    call(command, environment)
    probe = ("import h5py, sys; f = h5py.File(sys.argv[1]); s = f['steps/seconds'][1:]; n = f['steps/step'][:]; "
             "print(1e3 * s.sum() / (n[-1] - n[0]))")
    return float(call([options.python, "-c", probe, f"{folder}/run/metrics.h5"]))


def milliseconds_of_pytorch(options):
    command = [options.python, str(HERE / "quickstart_pytorch.py"), options.shards, "--threads", str(options.ranks),
               "--max-steps", str(options.steps)]
    return float(re.search(r"([\d.]+) ms a step", call(command))[1])


def can_import(python, names):
    return subprocess.run([python, "-c", f"import {names}"], capture_output=True).returncode == 0


def main():
    options = parse_options()
    if not list(pathlib.Path(options.shards).glob("train-*.h5")):
        print(f"skipped: no train-*.h5 in {options.shards}; jobs/quickstart.sh makes them")
        return 77
    for program in (options.program, "mpirun"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not at hand")
            return 77
    if not can_import(options.python, "h5py"):
        print(f"skipped: {options.python} has no h5py (--python names one that does)")
        return 77
    with_pytorch = can_import(options.python, "torch, transformers")
    if not with_pytorch:
        print(f"PyTorch: left out, as {options.python} has no torch and transformers (--python names one that does)")
    rounds = []
    for number in range(1, options.rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            ours = milliseconds_of_ours(options, folder)
        text = f"round {number}: ours {ours:.2f} ms a step"
        if with_pytorch:
            theirs = milliseconds_of_pytorch(options)
            rounds.append(theirs / ours)
            text += f", PyTorch {theirs:.2f} ms, ratio {rounds[-1]:.2f}"
        print(text, flush=True)
    if rounds:
        spread = f"{min(rounds):.2f} to {max(rounds):.2f}"
        print(f"ours is {statistics.median(rounds):.2f} times as fast as PyTorch (rounds: {spread}); "
              f"{options.ranks} ranks of one thread against {options.ranks} threads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
