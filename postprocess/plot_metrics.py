"""Metrics of the evaluations against steps, one panel per metric; filled is the model that evaluation.best keeps, else the best of
each. A split that is evaluated once, beside others that have curves, stands to the right of them. Runs that were evaluated once
only (mode "evaluate") are left out; their figures stand in the tables."""

import collections
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
Curve = collections.namedtuple("Curve", "run split steps values colour width style marker group")


def filled_row(curve, name):
    """Index of the point to fill: the model that is kept, else the best value's."""
    if rundata.kept_step(curve.run) is not None:
        return rundata.chosen(curve.run, curve.split)[0]
    return rundata.best_of(curve.values, name)


def label_best(axes, step, value, name):
    """Beside the point, on the side where a single curve cannot be: the best is its highest or its lowest point."""
    above = rundata.larger_is_better(name)
    axes.annotate(wording.minus(f"{value:.4g}"), (step, value), xytext=(0, 7 if above else -7), textcoords="offset points",
                  ha="center", va="bottom" if above else "top", fontsize=9, color=axes.lines[-1].get_color())


def line_styles(runs):
    """The splits that have lines to be told apart: with only one of them there is nothing to tell."""
    styles = {split: style for split, style in drawing.split_styles(runs).items() if style["linestyle"] != "none"}
    return styles if len(styles) > 1 else {}


def curves_of(runs, name, looks):
    """Of every run and split that has the metric."""
    several, curves, styles, lines = len(runs) > 1, [], drawing.split_styles(runs), line_styles(runs)
    for run in runs:
        look = looks[run.name]
        for number, (split, columns) in enumerate(sorted(run.evaluations.items())):
            if name in columns and len(columns["step"]) > 0:
                curves.append(Curve(run, split, np.asarray(columns["step"]), np.asarray(columns[name], dtype=float),
                                    look.colour if several else drawing.colour(number + 1), look.width,
                                    lines[split]["linestyle"] if several and split in lines else "-", styles[split]["marker"],
                                    look.group))
    return curves


def labels_of(curves, name):
    """A label for each curve. Where there are several, it tells the filled point's value: between the curves the values would
    cover each other."""
    labels = []
    for curve in curves:
        label = curve.split if len({other.run.name for other in curves}) == 1 else f"{curve.run.name}: {curve.split}"
        row, kept = filled_row(curve, name), rundata.kept_step(curve.run) is not None
        if row is not None and len(curves) > 1:
            many = len(curve.steps) > 1
            label += f", {('kept ' if kept else 'best ') if many else ''}{wording.minus(f'{curve.values[row]:.4g}')}"
            label += f" at step {curve.steps[row]:,}" if many else ""
        labels.append(label)
    return labels


def shares_legend(runs, names, looks):
    """Whether a legend in each panel would leave it no room."""
    labels = [labels_of(curves_of(runs, name, looks), name) for name in names]
    return len(runs) > 1 and any(len(panel) > MOST_LABELS or len(label) > WIDEST_LABEL for panel in labels for label in panel)


def places(curves):
    """Of each curve what is added to its steps: splits with a single point beside curves go to the right of them, runs side by
    side. And the splits' names by where they are then."""
    drawn = [curve for curve in curves if len(curve.steps) > 1]
    if not drawn:
        return [0.0] * len(curves), {}
    begin, end = min(curve.steps[0] for curve in drawn), max(curve.steps[-1] for curve in drawn)
    groups = sorted({curve.group for curve in curves})
    single = sorted({curve.split for curve in curves} - {curve.split for curve in drawn})
    strip = 0.14 * (end - begin)
    middles = {split: end + strip * (0.85 + number) for number, split in enumerate(single)}
    shifts = []
    for curve in curves:
        side = (groups.index(curve.group) + 0.5) / len(groups) - 0.5
        shifts.append(middles[curve.split] + 0.7 * strip * side - curve.steps[0] if curve.split in middles else 0.0)
    return shifts, {middle: split for split, middle in middles.items()}


def draw_panel(axes, curves, name, own_legend):
    """Curves with their filled points."""
    shifts, named = places(curves)
    for curve, shift, label in zip(curves, shifts, labels_of(curves, name)):
        row = filled_row(curve, name)
        look = {"color": curve.colour, "marker": curve.marker, "markersize": 5}
        axes.plot(curve.steps + shift, curve.values, linestyle=curve.style, linewidth=curve.width, markerfacecolor="white",
                  label=label, **look)
        if row is not None:
            if len(curves) == 1:
                label_best(axes, curve.steps[row], curve.values[row], name)
            axes.plot(curve.steps[row] + shift, curve.values[row], linestyle="none", zorder=3, **look)
    axes.margins(x=0.07, y=0.18)
    axes.set(xlabel="Step (updates)", title=wording.capital(wording.spoken(name)))
    unmoved = [step for curve, shift in zip(curves, shifts) if not shift for step in curve.steps]
    ticks = MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]).tick_values(min(unmoved), max(unmoved))
    room = 0.05 * (max(unmoved) - min(unmoved))
    within = [tick for tick in ticks if min(unmoved) - room <= tick <= max(unmoved) + room]
    axes.set_xticks(within if len(set(unmoved)) > 1 else unmoved[:1])
    for middle, split in named.items():
        axes.axvline(middle - 0.07 * (max(unmoved) - min(unmoved)), color="#999999", linewidth=0.8)
        axes.text(middle, 1.0, split, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=9, color="#444444")
    if own_legend:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.19), fontsize=9)


def title(runs):
    kept = all(rundata.kept_step(run) is not None for run in runs)
    return wording.title_of("Evaluations (filled: the model that is kept)" if kept else "Evaluations (best filled)", runs)


def draw(runs):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.steps["step"]) > 0 and rundata.metric_names(run)]
    if not runs:
        return []
    names = list(dict.fromkeys(name for run in runs for name in rundata.metric_names(run)))
    columns = min(len(names), 2)
    rows = math.ceil(len(names) / columns)
    shared = shares_legend(runs, names, looks)
    height = 3.4 + (0 if shared else 0.2 * max(len(curves_of(runs, name, looks)) for name in names))
    figure, grid = plt.subplots(rows, columns, figsize=(4.7 * columns if columns > 1 else 7, height * rows + 0.3), squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, names):
        draw_panel(axes, curves_of(runs, name, looks), name, own_legend=not shared)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    if shared:
        drawing.shared_legend(figure, [looks[run.name] for run in runs], line_styles(runs))
    figure.suptitle(title(runs))
    return [("metrics", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
