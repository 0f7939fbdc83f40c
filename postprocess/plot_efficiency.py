"""Gradient noise scale beside the batch size, and goodput (throughput times statistical efficiency) beside throughput,
against steps. McCandlish et al. 2018; Pollux, Qiao et al. 2021."""

import sys

import matplotlib.pyplot as plt
import numpy as np

import common


def batch_size(run):
    """Sequences of an update: the most usual one of the rows."""
    steps = np.asarray(run.steps["step"])
    if len(steps) == 0:
        return float("nan")
    return float(np.median(np.asarray(run.steps["samples"]) / np.diff(steps, prepend=0)))


def draw(runs):
    runs = [run for run in runs if len(run.efficiency["step"]) > 0]
    if not runs:
        return []
    figure, (noise, goodput) = plt.subplots(2, 1, figsize=(8, 6), sharex=True)
    for index, run in enumerate(runs):
        colour, steps = common.colour(index), run.efficiency["step"]
        noise.plot(steps, run.efficiency["noise_scale"], color=colour, label=run.name if len(runs) > 1 else "noise scale")
        noise.axhline(batch_size(run), color=colour, linestyle="--", linewidth=1.2, label=None if len(runs) > 1 else "batch")
        goodput.plot(steps, common.smooth(run.efficiency["goodput"]), color=colour,
                     label=run.name if len(runs) > 1 else "goodput")
    values = np.concatenate([np.asarray(run.efficiency["noise_scale"], dtype=float) for run in runs])
    if np.any(values > 0):
        noise.set_yscale("log")
    noise.set(ylabel="Gradient noise scale\n(sequences; dashed: batch)")
    goodput.set(xlabel="Step (updates)", ylabel="Goodput (useful\nsequences per second)")
    goodput.set_ylim(bottom=0)
    if len(runs) > 1:
        noise.legend()
    figure.suptitle(common.title_of("Statistical efficiency", runs))
    return [("efficiency", figure)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__))
