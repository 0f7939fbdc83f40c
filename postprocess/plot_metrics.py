"""Metrics of the evaluations against steps, one panel per metric. Runs that were evaluated once only (mode "evaluate") have
no curve; their figures stand in the tables."""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np

import common

LARGER_IS_BETTER = ("accuracy", "precision", "recall", "f1", "r2", "correlation", "pearson", "spearman", "mcc", "map", "mrr")


def mark_best(axes, curves, name):
    """Marks the best point of each curve (steps, values, colour). The highest mark is labelled above its point and the
    others below theirs, so that neighbours do not cover each other."""
    larger = any(word in name for word in LARGER_IS_BETTER)
    marks = []
    for steps, values, colour in curves:
        if np.isfinite(values).any():
            best = np.nanargmax(values) if larger else np.nanargmin(values)
            marks.append((values[best], steps[best], colour))
    for rank, (value, step, colour) in enumerate(sorted(marks, reverse=True)):
        above = rank == 0 and (larger or len(marks) > 1)
        axes.annotate(f"{value:.4g}", (step, value), xytext=(0, 7 if above else -7), textcoords="offset points",
                      ha="center", va="bottom" if above else "top", fontsize=9, color=colour)
        axes.plot(step, value, "o", color=colour, markersize=6)


def draw_panel(axes, runs, name):
    several = len(runs) > 1
    curves = []
    for index, run in enumerate(runs):
        for number, (split, columns) in enumerate(sorted(run.evaluations.items())):
            if name not in columns or len(columns["step"]) == 0:
                continue
            colour = common.colour(index if several else number + 1)
            style = common.LINE_STYLES[number % len(common.LINE_STYLES)] if several else "-"
            label = f"{run.name}: {split}" if several else split
            axes.plot(columns["step"], columns[name], color=colour, linestyle=style, marker="o", markersize=4,
                      markerfacecolor="white", label=label)
            curves.append((columns["step"], columns[name], colour))
    mark_best(axes, curves, name)
    axes.margins(x=0.07, y=0.18)
    axes.set(xlabel="Step (updates)", title=common.capital(common.spoken(name)))


def draw(runs):
    runs = [run for run in runs if len(run.steps["step"]) > 0 and common.metric_names(run)]
    if not runs:
        return []
    names = list(dict.fromkeys(name for run in runs for name in common.metric_names(run)))
    columns = min(len(names), 2)
    rows = math.ceil(len(names) / columns)
    figure, grid = plt.subplots(rows, columns, figsize=(4.7 * columns if columns > 1 else 7, 3.3 * rows + 0.6), squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, names):
        draw_panel(axes, runs, name)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    handles = {}
    for axes in panels[: len(names)]:
        handles.update((label, handle) for handle, label in zip(*axes.get_legend_handles_labels()))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 3))
    figure.suptitle(common.title_of("Evaluations (best marked)", runs))
    return [("metrics", figure)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__))
