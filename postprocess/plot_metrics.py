"""Metrics of the evaluations against steps, one panel per metric. Runs that were evaluated once only (mode "evaluate") have
no curve; their figures stand in the tables."""

import math
import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

import drawing
import rundata
import wording

MOST_LABELS, WIDEST_LABEL = 4, 52  # in a panel's own legend


def label_best(axes, step, value, name):
    """Beside the point, on the side where a single curve cannot be: the best is its highest or its lowest point."""
    above = rundata.larger_is_better(name)
    axes.annotate(wording.minus(f"{value:.4g}"), (step, value), xytext=(0, 7 if above else -7), textcoords="offset points",
                  ha="center", va="bottom" if above else "top", fontsize=9, color=axes.lines[-1].get_color())


def curves_of(runs, name):
    """(label, steps, values, colour, line style, marker) of every run and split that has the metric."""
    several, curves, styles = len(runs) > 1, [], drawing.split_styles(runs)
    for index, run in enumerate(runs):
        for number, (split, columns) in enumerate(sorted(run.evaluations.items())):
            if name in columns and len(columns["step"]) > 0:
                curves.append((f"{run.name}: {split}" if several else split, np.asarray(columns["step"]),
                               np.asarray(columns[name], dtype=float), drawing.colour(index if several else number + 1),
                               styles[split]["linestyle"] if several and len(styles) > 1 else "-", styles[split]["marker"]))
    return curves


def labels_of(runs, name):
    """A label for each curve. Where there are several, it tells the best value: between the curves the values would cover
    each other."""
    curves, labels = curves_of(runs, name), []
    for label, steps, values, *_ in curves:
        best = rundata.best_of(values, name)
        told = "" if best is None else wording.minus(f", best {values[best]:.4g}") + (f" at step {steps[best]:,}" if len(steps) > 1 else "")
        labels.append(label + (told if len(curves) > 1 else ""))
    return labels


def shares_legend(runs, names):
    """Whether a legend in each panel would leave it no room."""
    labels = [labels_of(runs, name) for name in names]
    return len(runs) > 1 and any(len(panel) > MOST_LABELS or len(label) > WIDEST_LABEL for panel in labels for label in panel)


def draw_panel(axes, runs, name, own_legend):
    """Curves with their best points filled."""
    curves = curves_of(runs, name)
    for index, ((_, steps, values, colour, style, marker), label) in enumerate(zip(curves, labels_of(runs, name))):
        # Rings of falling size, so that equal curves do not hide each other.
        size = 5 + 2 * min(len(curves) - 1 - index, 4)
        best = rundata.best_of(values, name)
        axes.plot(steps, values, color=colour, linestyle=style, marker=marker, markersize=size, markerfacecolor="white",
                  markeredgewidth=1.3, label=label)
        if best is not None:
            if len(curves) == 1:
                label_best(axes, steps[best], values[best], name)
            axes.plot(steps[best], values[best], marker, color=colour, markersize=size)
    axes.margins(x=0.07, y=0.18)
    axes.set(xlabel="Step (updates)", title=wording.capital(wording.spoken(name)))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    if own_legend:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.19), fontsize=9)


def draw(runs):
    runs = [run for run in runs if len(run.steps["step"]) > 0 and rundata.metric_names(run)]
    if not runs:
        return []
    names = list(dict.fromkeys(name for run in runs for name in rundata.metric_names(run)))
    columns = min(len(names), 2)
    rows = math.ceil(len(names) / columns)
    shared = shares_legend(runs, names)
    height = 3.4 + (0 if shared else 0.2 * max(len(curves_of(runs, name)) for name in names))
    figure, grid = plt.subplots(rows, columns, figsize=(4.7 * columns if columns > 1 else 7, height * rows + 0.3), squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, names):
        draw_panel(axes, runs, name, own_legend=not shared)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    if shared:
        styles = drawing.split_styles(runs)
        drawing.shared_legend(figure, runs, styles if len(styles) > 1 else {})
    figure.suptitle(wording.title_of("Evaluations (best filled)", runs))
    return [("metrics", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
