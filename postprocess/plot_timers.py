"""Time by section: each section's mean over ranks, with the minimum and maximum over ranks; for a single run also in
per cent of the wall time, as in the table at the log's end. Several runs share the order of sections and the scale."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import wording


def draw_run(axes, run, style):
    found, wall = sections_of(run), run.timed_seconds
    names = [name for name in reversed(order_of([found])) if name != "wall time"]  # the largest at the top
    average, low, high = np.array([found[name] for name in names]).T
    places = np.arange(len(names))
    axes.barh(places, average, color=["0.75" if name == "other" else drawing.colour(0) for name in names], height=0.68)
    timed = np.array(names) != "other"
    if run.rank_count != 1:
        axes.errorbar(average[timed], places[timed], xerr=np.maximum([average - low, high - average], 0)[:, timed], fmt="none",
                      ecolor="black", elinewidth=1.2, capsize=3)
    if wall > 0:
        for place, seconds, end in zip(places, average, np.maximum(average, high)):
            axes.annotate(f"{100 * seconds / wall:.1f}%", (end, place), xytext=(6, 0), textcoords="offset points",
                          va="center", fontsize="small")
    axes.set_yticks(places, names)
    axes.set_ylim(places[0] - 0.6, places[-1] + 0.6)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.grid(False, axis="y")
    kind = "Time by section" + (" (last start)" if run.went_on else "")
    whole = f"% of {wording.duration_text(wall)} of wall time" if wall > 0 else ""
    spread = "mean over ranks; whiskers: min–max over ranks" if run.rank_count != 1 else "one rank"
    axes.set(xlabel=f"Seconds ({spread})", title=style.title_of(kind, [run], whole))


def sections_of(run):
    """{section: (mean, minimum, maximum) seconds}, with the remaining time and the wall time if it is known."""
    low, average, high = run.section_seconds
    found = {str(name): values for name, *values in zip(run.timers["name"], average, low, high)}
    if run.timed_seconds > 0:
        found["other"] = [max(0.0, run.timed_seconds - average.sum())] * 3
        found["wall time"] = [run.timed_seconds] * 3
    return found


def order_of(found):
    """Sections of all runs, largest mean first, then the remaining time and the wall time."""
    names = dict.fromkeys(name for sections in found for name in sections)
    means = {name: np.mean([sections[name][0] for sections in found if name in sections]) for name in names}
    return sorted(names, key=lambda name: (name == "wall time", name == "other", -means[name]))


def draw_together(runs, looks, style):
    """One row per section with a lane for each variant, in which each of its runs is a point."""
    found = [sections_of(run) for run in runs]
    order = order_of(found)
    groups = sorted({looks[run.name].group for run in runs})
    figure, axes = style.bars(1, 1, 8.5, min(1.4 + len(order) * max(0.3, 0.11 + 0.11 * len(groups)), 11))
    for run, sections in zip(runs, found):
        look = looks[run.name]
        lane = 0.76 * ((groups.index(look.group) + 0.5) / len(groups) - 0.5)
        rows = np.array([order.index(name) for name in sections]) + lane
        average, low, high = np.array(list(sections.values())).T
        axes.hlines(rows, np.minimum(low, average), np.maximum(high, average), color=look.colour, linewidth=1.2, alpha=0.7)
        axes.plot(average, rows, "o", color=look.colour, markersize=4.5, markeredgecolor="white", markeredgewidth=0.4)
    for row in range(1, len(order)):
        axes.axhline(row - 0.5, color="#DDDDDD", linewidth=0.6)
    axes.set_yticks(range(len(order)), order)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(False, axis="y")
    resumed = " (last start)" if any(run.went_on for run in runs) else ""
    axes.set(xlabel="Seconds (points: mean over ranks; lines: min–max over ranks)",
             title=style.title_of("Time by section" + resumed, runs))
    drawing.shared_legend(figure, [looks[run.name] for run in runs])
    return figure


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.timers["name"]) > 0]
    if not runs:
        return []
    if len(runs) > 1:
        return [("timers", draw_together(runs, looks, style))]
    figure, axes = style.bars(1, 1, 8.5, 2.0 + 0.32 * len(runs[0].timers["name"]))
    draw_run(axes, runs[0], style)
    return [("timers", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
