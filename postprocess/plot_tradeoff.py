"""Score of each run against the time of its steps and against its peak memory. The line joins the runs that no other run beats in
both. Needs several runs with the same score."""

import collections
import math
import sys

import command  # first: it reports missing packages

import numpy as np

import comparison
import drawing
import rundata
import wording

NEEDED = "two runs with evaluations of the same metric"
MARKERS = "os^Dv<>PX*"
Point = collections.namedtuple("Point", "run x y look marker")


def seconds_of(run):
    total = float(np.sum(run.steps["seconds"]))
    return total if total > 0 else math.nan


def points_of(runs, cost, score, looks):
    found = []
    for number, run in enumerate(runs):
        x, y = cost(run), comparison.value_of(run, score.split, score.metric)
        if math.isfinite(x) and math.isfinite(y):
            found.append(Point(run, x, y, looks[run.name], MARKERS[number % len(MARKERS)]))
    return found


def unbeaten(points, larger):
    """The points that no other one beats in cost and score, by cost."""
    front = []
    for point in sorted(points, key=lambda point: (point.x, -point.y if larger else point.y)):
        if not front or (point.y > front[-1].y if larger else point.y < front[-1].y):
            front.append(point)
    return front


def draw_panel(axes, points, larger, label):
    front = unbeaten(points, larger)
    axes.plot([point.x for point in front], [point.y for point in front], color="#999999", linewidth=1, zorder=1,
              drawstyle="steps-post")
    for point in points:
        axes.plot([point.x], [point.y], point.marker, color=point.look.colour, markersize=8, markeredgecolor="white", markeredgewidth=0.6,
                  linestyle="none", label=wording.shortened(point.run.name, 40))
    least, most = min(point.x for point in points), max(point.x for point in points)
    axes.margins(x=0.08, y=0.12)
    if most > 10 * least:
        axes.set_xscale("log")
    elif most > 2 * least:
        axes.set_xlim(0, 1.06 * most)
    axes.set(xlabel=label)


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if run.attributes.get("mode", "train") == "train"]
    score = comparison.score_of(runs)
    if len(runs) < 2 or score is None:
        return []
    panels = [(label, points_of(runs, cost, score, looks)) for label, cost in (
        ("Time in steps (s)", seconds_of), ("Peak memory of a rank (MiB)", lambda run: comparison.peak_memory(run) / 2**20))]
    panels = [(label, points) for label, points in panels if len(points) > 1]
    if not panels:
        return []
    larger = rundata.larger_is_better(score.metric, runs[0])
    figure, grid = style.subplots(1, len(panels), 5 * len(panels), 4.6, sharey=True, squeeze=False)
    for axes, (label, points) in zip(grid.flat, panels):
        draw_panel(axes, points, larger, label)
        axes.tick_params(labelleft=True)
    grid[0][0].set(ylabel=wording.capital(score.label))
    width, height = figure.get_size_inches()
    handles = grid[0][0].get_legend_handles_labels()[0]
    columns = 4
    figure.set_size_inches(width, height + 0.2 * style.scale * math.ceil(len(handles[1:]) / columns))
    drawing.legend_below(figure, columns, handles=handles)
    better = "higher" if larger else "lower"
    figure.suptitle(style.title_of("Score against cost", runs, f"{better} and further left is better; line: runs that no other one beats in both"))
    return [("tradeoff", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__, needed=NEEDED))
