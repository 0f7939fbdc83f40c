"""The ranks' GPUs as reported by NVML: utilisation and power against time; the mean over ranks, shaded from minimum to
maximum."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing


def known(run, name):
    """(seconds, values) of the rows in which a rank's value is known."""
    values = np.asarray(run.rank_samples.get(name, np.empty((0, 0))), dtype=float)
    if values.ndim != 2 or values.size == 0:
        return np.array([]), np.empty((0, 1))
    rows = np.isfinite(values).any(axis=1)
    return np.asarray(run.rank_samples["seconds"], dtype=float)[rows], values[rows]


def draw_one(axes, run, name, factor, look):
    seconds, values = known(run, name)
    if len(seconds) == 0:
        return
    axes.plot(seconds, factor * np.nanmean(values, axis=1), color=look.colour, linewidth=look.width,
              marker="o" if len(seconds) == 1 else None)
    if values.shape[1] > 1:
        axes.fill_between(seconds, factor * np.nanmin(values, axis=1), factor * np.nanmax(values, axis=1), color=look.colour, alpha=0.2,
                          linewidth=0)


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if any(len(known(run, name)[0]) for name in ("utilisation", "power"))]
    if not runs:
        return []
    figure, (upper, lower) = style.subplots(2, 1, 8, 5.4, sharex=True)
    for run in runs:
        draw_one(upper, run, "utilisation", 100, looks[run.name])
        draw_one(lower, run, "power", 1, looks[run.name])
    upper.set(ylabel="GPU busy (% of time)", ylim=(0, 103))
    lower.set(xlabel="Seconds since the start", ylabel="Power (W per GPU)")
    lower.set_ylim(bottom=0)
    if len(runs) > 1:
        drawing.shared_legend(figure, [looks[run.name] for run in runs])
    figure.suptitle(style.title_of("GPUs", runs))
    return [("gpus", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
