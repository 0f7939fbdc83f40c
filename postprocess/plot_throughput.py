"""Tokens and sequences per second against steps (each row faint, smoothed bold), with the steady mean of up to
four runs."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import drawing
import smoothing
import wording


def draw(runs):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.steps["step"]) > 0]
    if not runs:
        return []
    figure, panels = plt.subplots(2, 1, figsize=(8, 6), sharex=True)
    for axes, column, name in zip(panels, ("tokens", "samples"), ("Tokens", "Sequences")):
        tops = []
        for run in runs:
            look, steps = looks[run.name], run.steps["step"]
            seconds = np.asarray(run.steps["seconds"], dtype=float)
            rates = np.divide(run.steps[column], seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
            mean = smoothing.steady_rate(run, column)
            if len(steps) >= 50 and look.faint:
                axes.plot(steps, rates, color=look.colour, alpha=0.22, linewidth=0.8)
            axes.plot(steps, smoothing.smooth(rates, weights=seconds if seconds.any() else None), color=look.colour, linewidth=look.width)
            if look.faint:
                axes.axhline(mean, color=look.colour, linestyle="--", linewidth=1.2, label=f"mean {mean:,.0f}")
            if np.isfinite(rates).any():
                tops.append(np.nanpercentile(rates, 99.5))
        if tops:
            axes.set_ylim(0, 1.12 * max(tops))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set(ylabel=f"{name} per second")
        if len(runs) == 1:
            axes.legend(loc="lower right")
    panels[-1].set_xlabel("Step (updates)")
    if len(runs) > 1:  # their figures stand in the summary
        shown = [looks[run.name] for run in runs]
        drawing.shared_legend(figure, shown, {"mean": {"linestyle": "--"}} if shown[0].faint else None)
    figure.suptitle(wording.title_of("Throughput", runs))
    return [("throughput", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
