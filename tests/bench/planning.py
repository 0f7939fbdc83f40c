#!/usr/bin/env python3
"""The simulated step of --validate against the measured one, on a machine that --measure-machine described.

    python3 planning.py [SHARDS] [--program BUILD/bert_hpc] [--prep BUILD/bert_hpc_prep] [--rounds 3] [--output FILE.md]

  SHARDS     the folder that jobs/quickstart.sh filled; without it, shards of random words of similar lengths are made
  --rounds   each round measures the machine, then runs every case (default 3)
  --output   write the table there, as Markdown

Cases: the quick start (input/quickstart.toml, 2 ranks of one thread) and a pipeline of 4 ranks. In each round the machine
is measured with as many ranks as the case has, so that other load of the machine disturbs both equally. A measured step is
the median of spans of 20 steps, the first span left out; the table has the median of the rounds, and the spread of the
ratio simulated / measured. Needs Python with h5py. Exit status: 0, or 1 where a program failed.
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import h5py

import layouts

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPAN = 20
CASES = {
    "quick start, 2 ranks": (2, {}),
    "pipeline of 4 ranks, 1F1B": (4, {
        "model.hidden_size": 256, "model.num_hidden_layers": 8, "model.num_attention_heads": 4,
        "model.intermediate_size": 1024, "parallel.pipeline": 4, "batch.micro_batches": 8,
    }),
}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", nargs="?")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bert_hpc")
    parser.add_argument("--prep", type=pathlib.Path, default=ROOT / "build/bert_hpc_prep")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def call(ranks, command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false")
    for name, value in {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "MCA_rmaps_base_oversubscribe": "1", "MCA_hwloc_base_binding_policy": "none"}.items():
        environment.setdefault(f"OMPI_{name}", value)
    command = (["mpirun", "-n", str(ranks)] if ranks > 1 else []) + [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr[-2000:]}{done.stdout[-2000:]}")
    return done.stdout


def milliseconds(text):
    """Of "12.3 ms per step" or "1.2 s per step"."""
    number, unit = re.search(r"([\d.]+) (ms|s) per step", text).groups()
    return float(number) * (1 if unit == "ms" else 1e3)


def round_of(options, shards, folder, ranks, settings):
    """Milliseconds of a step: simulated, measured."""
    machine, run = folder / f"machine-{ranks}.toml", folder / "run"
    call(ranks, [options.program, "--measure-machine", machine])
    text = re.sub(r"(?m)^(epochs|validation|every_epochs|best) = .*\n", "", (ROOT / "input/quickstart.toml").read_text())
    (folder / "input.toml").write_text(text)
    spans = 1 + -(-options.steps // SPAN)
    settings = {"run.directory": f'"{run}"', "data.train": f'["{shards}/train-*.h5"]', "schedule.steps": SPAN * spans,
                "run.machine": f'"{machine}"', "log.every_steps": SPAN, "log.progress": '"none"', **settings}
    command = [options.program, folder / "input.toml", "--overwrite"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    simulated = milliseconds(call(1, [*command, "--validate", "--ranks", ranks]))
    call(ranks, command)
    with h5py.File(run / "metrics.h5") as file:
        seconds = file["steps/seconds"][1:]
    return simulated, 1e3 * statistics.median(seconds) / SPAN


def processor():
    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{names[0] if names else os.uname().machine}, {os.cpu_count()} cores"


def report(options, results):
    revision = call(1, [options.program, "--version"]).splitlines()[0]
    lines = ["# Simulated and measured steps", "",
             f"Made by `python3 tests/bench/planning.py{'' if options.shards is None else ' SHARDS'} --rounds {options.rounds} "
             f"--steps {options.steps}` on {datetime.date.today()} with {revision}; {processor()}; load at the end "
             f"{os.getloadavg()[0]:.1f}. " +
             ("Shards of random words of the quick start's lengths. " if options.shards is None else "") +
             "The machine was measured by `--measure-machine` with the case's ranks in every round.", "",
             "| case | simulated, ms | measured, ms | simulated / measured | range over the rounds |", "|---|---|---|---|---|"]
    for name, rounds in results.items():
        ratios = sorted(simulated / measured for simulated, measured in rounds)
        lines.append(f"| {name} | {statistics.median(s for s, _ in rounds):.2f} | {statistics.median(m for _, m in rounds):.2f} "
                     f"| {statistics.median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    options = parse_options()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="planning-"))
    try:
        shards = options.shards
        if shards is None:
            layouts.write_shards(folder, options.prep.resolve().parent, 9, 20000, "classification")
            shards = next(folder.rglob("train-*.h5")).parent
        results = {name: [] for name in CASES}
        for number in range(options.rounds):
            for name, (ranks, settings) in CASES.items():
                results[name].append(round_of(options, pathlib.Path(shards).resolve(), folder, ranks, settings))
                print(f"round {number + 1}, {name}: simulated {results[name][-1][0]:.2f} ms, measured {results[name][-1][1]:.2f} ms",
                      flush=True)
        text = report(options, results)
        print(text)
        if options.output:
            options.output.write_text(text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
