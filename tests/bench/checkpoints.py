#!/usr/bin/env python3
"""How long training waits for its checkpoints: short trainings that save often, each beside one that never saves.

    python3 checkpoints.py [--build DIR] [--rounds 3] [--steps 60] [--every 20] [--ranks 2] [--blocks 4] [--hidden 768]
                           [--words 100] [--global 16] [--set table.key=VALUE]...

Prints for each round the share of the wall time of the steps that the slowest rank waited ("checkpoint wait" of the timing
table, of a run that also ends with a checkpoint), what was saved and how often, and how much longer a step took than in the run
without. The aim is a wait of less than 2%. The report says whether it is reached; the exit status does not depend on it,
because disks differ. A run of hours saves every half hour, so `--every` makes this a hard case. Exit status: 0 measured, 1 a program failed.
"""

import argparse
import os
import pathlib
import statistics
import tempfile

import h5py
import layouts

AIM = 0.02


def measure(folder, options, number):
    """(seconds waited by the slowest rank, wall seconds, checkpoints, median seconds a step) of one training."""
    median = layouts.seconds_of_steps(folder, options, number)
    with h5py.File(folder / "run/metrics.h5") as file:
        timers = {name.decode(): index for index, name in enumerate(file["timers/name"][:])}
        index = timers.get("checkpoint wait")
        waited = float(file["timers/seconds_max"][index]) if index is not None else 0.0
        calls = int(file["timers/calls"][index]) if index is not None else 0
        return waited, float(file.attrs["total_seconds"]), calls, median


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    for name, usual in (("rounds", 3), ("steps", 60), ("every", 20), ("ranks", 2), ("blocks", 4), ("hidden", 768),
                        ("words", 100), ("global", 16)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    options.task = "classification"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="bert_hpc_checkpoints_") as name:
        folder = pathlib.Path(name)
        layouts.write_shards(folder, options.build, options.words, 4 * getattr(options, "global"), options.task)
        layouts.write_input(folder / "0.toml", folder, options, "")
        plain = (folder / "0.toml").read_text()
        (folder / "1.toml").write_text(plain + f"[checkpoint]\nevery_steps = {options.every}\n")
        (folder / "0.toml").write_text(plain + f"[checkpoint]\nevery_steps = {10 * options.steps}\n")
        shares = []
        for turn in range(options.rounds):
            *_, without = measure(folder, options, 0)
            waited, wall, calls, median = measure(folder, options, 1)
            newest = max((folder / "run/checkpoints").glob("step-*"))
            size = sum(file.stat().st_size for file in newest.iterdir()) / 2**20
            shares.append(waited / wall)
            print(f"round {turn + 1}: {calls} waits for checkpoints of {size:.0f} MiB, every {options.every} steps: "
                  f"{waited:.3f} of {wall:.1f} s, {100 * waited / wall:.2f}%; {1e3 * median:.1f} ms a step, "
                  f"{median / without:.3f} times that without", flush=True)
        share = statistics.median(shares)
        print(f"training waited {100 * share:.2f}% (median): {'less' if share < AIM else 'NOT less'} than {100 * AIM:.0f}%")


if __name__ == "__main__":
    main()
