"""Metrics of the evaluations against steps, one panel per metric. The default is the metric of evaluation.best and the
main one of the task; --metrics all draws every metric, --metrics NAME,NAME the named ones. The filled point is the
best checkpoint's, by evaluation.best, otherwise the best of its curve. A split that is evaluated once is drawn to
the right of the curves of the others. If no split was evaluated more than once there is no picture; the values are
in the tables."""

import collections
import math
import sys

import command  # first: it reports missing packages

import numpy as np
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

import drawing
import rundata
import wording

MOST_LABELS, WIDEST_LABEL = 4, 52  # in a panel's own legend
MAIN = {"classification": ["accuracy", "f1"], "regression": ["r2", "rmse"], "masked_lm": ["perplexity", "accuracy"],
        "masked_lm_pairs": ["perplexity", "pair_accuracy"],
        "causal_lm": ["perplexity", "accuracy"]}
USUAL_PANELS = 2
Curve = collections.namedtuple("Curve", "run split steps values colour width style marker group")


def chosen_metrics(runs, style):
    """The metrics to draw, in the order of their panels."""
    names = list(dict.fromkeys(name for run in runs for name in rundata.metric_names(run)))
    if style.metrics == ["all"]:
        return names
    if style.metrics:
        absent = [name for name in style.metrics if name not in names]
        if absent:
            raise rundata.ReportError(f"There is no metric {absent[0]!r}; there are {', '.join(names)} (and all).")
        return style.metrics
    tasks = dict.fromkeys(run.task for run in runs)
    wanted = []
    for task in tasks:
        own = [run for run in runs if run.task == task]
        candidates = [rundata.selecting_metric(run) for run in own] + MAIN.get(task, [])
        present = [name for name in dict.fromkeys(candidates + names) if any(name in rundata.metric_names(run) for run in own)]
        wanted += present[:USUAL_PANELS]
    return list(dict.fromkeys(wanted))


def filled_row(curve, name):
    """Index of the filled point: that of the best checkpoint, otherwise the best value's."""
    if rundata.best_step(curve.run) is not None:
        return rundata.chosen(curve.run, curve.split)[0]
    return rundata.best_of(curve.values, name, curve.run)


def label_best(axes, x, value, name, run):
    """Writes the value above or below the point, where a single curve cannot be: the best is its highest or its lowest point."""
    above = rundata.larger_is_better(name, run)
    axes.annotate(wording.minus(f"{value:.4g}"), (x, value), xytext=(0, 7 if above else -7), textcoords="offset points",
                  ha="center", va="bottom" if above else "top", fontsize="small", color=axes.lines[-1].get_color())


def line_styles(runs, many):
    """The splits whose line styles, or markers, need a legend; none for a single split."""
    lines = [split for split, style in drawing.split_styles(runs).items() if style["linestyle"] != "none"]
    styles = {split: style for split, style in drawing.split_styles(runs, many).items() if split in lines}
    return styles if len(styles) > 1 else {}


def curves_of(runs, name, looks, style):
    """One curve for every run and split that has the metric."""
    many = drawing.are_many(looks.values())
    several, curves, styles, lines = len(runs) > 1, [], drawing.split_styles(runs), line_styles(runs, many)
    for run in runs:
        look = looks[run.name]
        for split in rundata.in_order(run.evaluations):
            columns = run.evaluations[split]
            if name in columns and len(columns["step"]) > 0:
                curves.append(Curve(run, split, drawing.x_of(run, columns["step"], style), np.asarray(columns[name], dtype=float),
                                    look.colour if several else drawing.role(split, styles)[0], look.width,
                                    look.line if many else lines[split]["linestyle"] if several and split in lines else "-", styles[split]["marker"],
                                    look.group))
    return curves


def labels_of(curves, name, style):
    """A label for each curve. With several curves it includes the filled point's value, because values drawn between
    curves would overlap."""
    labels = []
    for curve in curves:
        label = curve.split if len({other.run.name for other in curves}) == 1 else f"{curve.run.name}: {curve.split}"
        row = filled_row(curve, name)
        if row is not None and len(curves) > 1:
            many = len(curve.steps) > 1
            at = f"{curve.steps[row]:,}" if style.x == "steps" else f"{curve.steps[row]:.3g}"
            label += f", {'best ' if many else ''}{wording.minus(f'{curve.values[row]:.4g}')}"
            label += f" at {drawing.x_label(style).lower()} {at}" if many else ""
        labels.append(label)
    return labels


def shares_legend(runs, names, looks, style):
    """True if a legend in each panel would leave the panel too little space."""
    labels = [labels_of(curves_of(runs, name, looks, style), name, style) for name in names]
    return len(runs) > 1 and any(len(panel) > MOST_LABELS or len(label) > WIDEST_LABEL for panel in labels for label in panel)


def shifts_of(curves):
    """Horizontal shifts of the curves: splits with a single point go to the right of the curves, with runs side by
    side. Also returns the splits' names by their positions there."""
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


def set_ticks(axes, curves, shifts, style):
    """Ticks at evaluated steps, and none in the strips of single points."""
    unmoved = [step for curve, shift in zip(curves, shifts) if not shift for step in curve.steps]
    low, high = min(unmoved), max(unmoved)
    if low == high:
        axes.set_xticks(unmoved[:1])
        return
    inches = axes.figure.get_size_inches()[0] * axes.get_position().width / style.scale
    ticks = MaxNLocator(max(2, min(6, int(inches / 0.6))), integer=style.x == "steps", steps=[1, 2, 5, 10]).tick_values(low, high)
    room = 0.05 * (high - low)
    axes.set_xticks([tick for tick in ticks if low - room <= tick <= high + room])


def draw_panel(axes, curves, name, own_legend, style):
    """Draws curves with their filled points."""
    shifts, named = shifts_of(curves)
    for curve, shift, label in zip(curves, shifts, labels_of(curves, name, style)):
        row = filled_row(curve, name)
        look = {"color": curve.colour, "marker": curve.marker, "markersize": 5}
        axes.plot(curve.steps + shift, curve.values, linestyle=curve.style if len(curve.steps) > 1 else "none", linewidth=curve.width,
                  markerfacecolor="white", label=label, **look)
        if row is not None:
            if len(curves) == 1:
                label_best(axes, curve.steps[row], curve.values[row], name, curve.run)
            axes.plot(curve.steps[row] + shift, curve.values[row], linestyle="none", zorder=3, **look)
    axes.margins(x=0.07, y=0.18)
    label = wording.capital(rundata.label_of([curve.run for curve in curves], name))
    axes.set(xlabel=drawing.x_label(style), ylabel=label)
    set_ticks(axes, curves, shifts, style)
    width = max(curve.steps[-1] for curve in curves) - min(curve.steps[0] for curve in curves)
    for middle, split in named.items():
        axes.axvline(middle - 0.07 * width, color="#999999", linewidth=0.8)
        axes.text(middle, 1.0, split, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize="small", color="#444444")
    if own_legend:  # below the axis label
        below = ScaledTranslation(0, -3.6 * style.scale * drawing.FONT_SIZE / 72, axes.figure.dpi_scale_trans)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=axes.transAxes + below, fontsize="small")


def title(runs, style):
    selected = {rundata.best_step(run) is not None for run in runs}
    filled = {frozenset([True]): "best checkpoint", frozenset([False]): "best of each curve"}.get(frozenset(selected), "best")
    return style.title_of("Evaluations", runs, f"filled marker: {filled}")


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.steps["step"]) > 0 and rundata.metric_names(run)]
    if not any(len(columns["step"]) > 1 for run in runs for columns in run.evaluations.values()):
        return []
    names = chosen_metrics(runs, style)
    columns = min(len(names), 2)
    rows = math.ceil(len(names) / columns)
    shared = shares_legend(runs, names, looks, style)
    height = 3.4 + (0 if shared else 0.2 * max(len(curves_of(runs, name, looks, style)) for name in names))
    figure, grid = style.subplots(rows, columns, 4.7 * columns if columns > 1 else 7, height * rows + 0.55, squeeze=False)
    panels = list(grid.flat)
    for axes, name in zip(panels, names):
        draw_panel(axes, curves_of(runs, name, looks, style), name, not shared, style)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    if shared:
        drawing.shared_legend(figure, [looks[run.name] for run in runs], line_styles(runs, drawing.are_many(looks.values())))
    figure.suptitle(title(runs, style))
    return [("metrics", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
