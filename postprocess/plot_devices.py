"""Utilisation, memory and power of the ranks' devices against time, as NVML reports them for GPUs, or of the processes on CPUs:
the mean over ranks, shaded from minimum to maximum."""

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
    drawing.draw_curve(axes, seconds, factor * np.nanmean(values, axis=1), look)
    if values.shape[1] > 1:
        axes.fill_between(seconds, factor * np.nanmin(values, axis=1), factor * np.nanmax(values, axis=1), color=look.colour, alpha=0.2,
                          linewidth=0)


PANELS = (("utilisation", 100, "Busy (% of time)"), ("memory", 2**-30, "Memory (GiB per rank)"), ("power", 1, "Power (W per GPU)"))


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    panels = [panel for panel in PANELS if any(len(known(run, panel[0])[0]) for run in runs)]
    runs = [run for run in runs if any(len(known(run, name)[0]) for name, _, _ in panels)]
    if not runs:
        return []
    figure, axes = style.subplots(len(panels), 1, 8, 2.7 * len(panels), sharex=True)
    axes = np.atleast_1d(axes)
    for one, (name, factor, label) in zip(axes, panels):
        for run in runs:
            draw_one(one, run, name, factor, looks[run.name])
        one.set(ylabel=label)
        one.set_ylim(bottom=0, top=103 if name == "utilisation" else None)
    axes[-1].set(xlabel="Seconds since the start")
    if len(runs) > 1:
        drawing.shared_legend(figure, [looks[run.name] for run in runs])
    figure.suptitle(style.title_of("Use of devices", runs))
    return [("devices", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
