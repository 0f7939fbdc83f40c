"""Gradient noise scale beside the batch size, and goodput (throughput times statistical efficiency) beside throughput,
against steps. McCandlish et al. 2018; Pollux, Qiao et al. 2021."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogFormatter, MaxNLocator

import drawing
import smoothing
import wording


def batch_size(run):
    """Sequences of an update: the most usual one of the rows."""
    samples = np.asarray(run.steps["samples"])
    return float(np.median(samples / smoothing.updates_of(run))) if len(samples) else float("nan")


def plot(axes, steps, values, look, label):
    """A line, with its points marked where they are few: a single one has no line."""
    marker = "o" if np.isfinite(values).sum() <= 50 else None
    axes.plot(steps, values, color=look.colour, linewidth=look.width, marker=marker, markersize=4, label=label)


def draw(runs):
    looks = drawing.looks(runs)
    shown = []
    for run in runs:
        # A noise scale may be estimated as negative or infinite: neither can be drawn on a logarithmic scale.
        noise, goodput = (np.asarray(run.efficiency[name], dtype=float) for name in ("noise_scale", "goodput"))
        noise = np.where(np.isfinite(noise) & (noise > 0), noise, np.nan)
        if np.isfinite(noise).any() or np.isfinite(goodput).any():
            shown.append((run, noise, goodput))
    if not shown:
        return []
    several = len(shown) > 1
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 6), sharex=True)
    for run, noise, goodput in shown:
        look, steps = looks[run.name], run.efficiency["step"]
        if np.isfinite(noise).any():
            plot(upper, steps, noise, look, run.name if several else "noise scale")
        upper.axhline(batch_size(run), color=look.colour, linestyle="--", linewidth=1.2, label=None if several else "batch")
        if np.isfinite(goodput).any():
            plot(lower, steps, smoothing.smooth(goodput), look, run.name if several else "goodput")
    if any(np.isfinite(noise).any() for _, noise, _ in shown):
        upper.set_yscale("log")
        upper.yaxis.set_major_formatter(LogFormatter())
        upper.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.2, 0.5)))
    upper.set(ylabel="Gradient noise scale\n(sequences; dashed: batch)")
    lower.set(xlabel="Step (updates)", ylabel="Goodput (useful\nsequences per second)")
    lower.set_ylim(bottom=0)
    lower.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if several:
        drawing.shared_legend(figure, [looks[run.name] for run, _, _ in shown])
    figure.suptitle(wording.title_of("Statistical efficiency", [run for run, _, _ in shown]))
    return [("efficiency", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
