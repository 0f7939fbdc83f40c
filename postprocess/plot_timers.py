"""Where the time went: each section's mean over ranks, with the least and the most of any rank."""

import sys

import matplotlib.pyplot as plt
import numpy as np

import common


def draw_run(axes, run, most=14):
    average = np.asarray(run.timers["seconds_avg"], dtype=float)
    order = np.argsort(average)[::-1][:most][::-1]
    names = [str(run.timers["name"][i]) for i in order]
    low = average[order] - np.asarray(run.timers["seconds_min"], dtype=float)[order]
    high = np.asarray(run.timers["seconds_max"], dtype=float)[order] - average[order]
    total = float(np.sum(run.steps["seconds"])) or float(average.sum())
    axes.barh(names, average[order], color=common.colour(0), height=0.68)
    axes.errorbar(average[order], range(len(order)), xerr=np.maximum([low, high], 0), fmt="none", ecolor="black",
                  elinewidth=1.2, capsize=3)
    for place, i in enumerate(order):
        end = average[i] + max(high[place], 0)
        axes.annotate(f"{100 * average[i] / total:.1f} %", (end, place), xytext=(6, 0), textcoords="offset points",
                      va="center", fontsize=9.5)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.grid(False, axis="y")
    axes.set(xlabel="Seconds (mean over ranks; whiskers: least and most of a rank)", title=common.title_of("Time by section", [run]))


def draw(runs):
    runs = [run for run in runs if len(run.timers["name"]) > 0]
    if not runs:
        return []
    heights = [0.8 + 0.32 * min(len(run.timers["name"]), 14) for run in runs]
    figure, grid = plt.subplots(len(runs), 1, figsize=(8.5, sum(heights) + 0.6 * len(runs)), squeeze=False,
                                gridspec_kw={"height_ratios": heights})
    for axes, run in zip(grid.flat, runs):
        draw_run(axes, run)
    return [("timers", figure)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__))
