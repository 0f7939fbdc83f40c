"""Where the time went: each section's mean over ranks, with the least and the most of any rank, in per cent of the wall time,
as in the table at the log's end."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import drawing
import wording


def draw_run(axes, run):
    low, average, high = (np.asarray(run.timers[key], dtype=float) for key in ("seconds_min", "seconds_avg", "seconds_max"))
    wall = run.timed_seconds
    order = np.argsort(average)
    names = [str(run.timers["name"][i]) for i in order]
    places = np.arange(len(order)) + 1.0  # the largest at the top
    axes.barh(places, average[order], color=drawing.colour(0), height=0.68)
    axes.errorbar(average[order], places, xerr=np.maximum([average[order] - low[order], high[order] - average[order]], 0), fmt="none",
                  ecolor="black", elinewidth=1.2, capsize=3)
    if wall > 0:
        shown = [*zip(places, average[order], np.maximum(average, high)[order])]
        rest = max(0.0, wall - average.sum())
        axes.barh([0], [rest], color="0.75", height=0.68)
        for place, seconds, end in [(0, rest, rest), *shown]:
            axes.annotate(f"{100 * seconds / wall:.1f} %", (end, place), xytext=(6, 0), textcoords="offset points",
                          va="center", fontsize=9.5)
        names, places = ["other", *names], [0, *places]
    axes.set_yticks(places, names)
    axes.set_ylim(places[0] - 0.6, places[-1] + 0.6)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.grid(False, axis="y")
    kind = "Time by section" + (" (last start that finished)" if run.went_on else "")
    whole = f"\n% of {wording.duration_text(wall)} of wall time" if wall > 0 else ""
    axes.set(xlabel="Seconds (mean over ranks; whiskers: least and most of a rank)", title=wording.title_of(kind, [run]) + whole)


def draw(runs):
    runs = [run for run in runs if len(run.timers["name"]) > 0]
    if not runs:
        return []
    heights = [1.4 + 0.32 * len(run.timers["name"]) for run in runs]
    figure, grid = plt.subplots(len(runs), 1, figsize=(8.5, sum(heights) + 0.6 * len(runs)), squeeze=False,
                                gridspec_kw={"height_ratios": heights})
    for axes, run in zip(grid.flat, runs):
        draw_run(axes, run)
    return [("timers", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
