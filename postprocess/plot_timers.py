"""Time by section: for a single run each section's mean over ranks, with the minimum and maximum over ranks, and per cent of
the wall time, as in the table at the log's end; for several runs a bar each, from the sections' means."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import wording


def draw_run(axes, run, style):
    found, wall = sections_of(run), run.timed_seconds
    names = [name for name in reversed(order_of([found])) if name != "wall time"]  # the largest at the top
    average, low, high = np.array([found[name] for name in names]).T
    positions = np.arange(len(names))
    axes.barh(positions, average, color=["0.75" if name == "other" else drawing.colour(0) for name in names], height=0.68)
    if run.rank_count != 1:
        axes.errorbar(average, positions, xerr=np.maximum([average - low, high - average], 0), fmt="none",
                      ecolor="black", elinewidth=1.2, capsize=3)
    if wall > 0:
        for position, seconds, end in zip(positions, average, np.maximum(average, high)):
            axes.annotate(f"{100 * seconds / wall:.1f}%", (end, position), xytext=(6, 0), textcoords="offset points",
                          va="center", fontsize="small")
    axes.set_yticks(positions, names)
    axes.set_ylim(positions[0] - 0.6, positions[-1] + 0.6)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.grid(False, axis="y")
    kind = "Time by section" + (" (last start)" if run.went_on else "")
    whole = f"% of {wording.duration_text(wall)} of wall time" if wall > 0 else ""
    spread = "mean over ranks; whiskers: min–max over ranks" if run.rank_count != 1 else "one rank"
    axes.set(xlabel=f"Seconds ({spread})", title=style.title_of(kind, [run], whole))


def sections_of(run):
    """{section: (mean, minimum, maximum) seconds}, with the wall time if it is known."""
    low, average, high = run.section_seconds
    found = {str(name): values for name, *values in zip(run.timers["name"], average, low, high)}
    if run.timed_seconds > 0:
        found["wall time"] = [run.timed_seconds] * 3
    return found


def order_of(found):
    """Sections of all runs, largest mean first, then the remaining time and the wall time."""
    names = dict.fromkeys(name for sections in found for name in sections)
    means = {name: np.mean([sections[name][0] for sections in found if name in sections]) for name in names}
    return sorted(names, key=lambda name: (name == "wall time", name == "other", -means[name]))


SMALL = 0.02  # a section below this share of every run's time belongs to the rest
SHADES = [*drawing.COLOURS[:6], "#666666", "#8C510A"]


def parts_of(found):
    """Sections with a part of the bars, in their order, and for each run their mean seconds; the rest is "other"."""
    totals = [sum(values[0] for name, values in sections.items() if name != "wall time") for sections in found]
    names = [name for name in order_of(found) if name not in ("other", "wall time")]
    large = [name for name in names if any(total > 0 and sections.get(name, [0])[0] > SMALL * total for sections, total in zip(found, totals))]
    large = large[: len(SHADES)]
    seconds = [[sections.get(name, [0.0])[0] for name in large] for sections in found]
    return [*large, "other"], [[*own, max(0.0, total - sum(own))] for own, total in zip(seconds, totals)]


def draw_together(runs, style):
    """A bar for each run, from the sections' seconds."""
    found = [sections_of(run) for run in runs]
    names, seconds = parts_of(found)
    colours = [*SHADES[: len(names) - 1], "0.85"]
    row_height = 0.42 if len(runs) <= 16 else 0.26
    figure, axes = style.bars(1, 1, 8.5, min(max(3.4, 2.0 + row_height * len(runs)), 13))
    longest = max(map(sum, seconds))
    second = (figure.get_size_inches()[0] - 1.8 * style.scale) / (1.15 * longest)  # inches
    left = np.zeros(len(runs))
    for name, colour, widths in zip(names, colours, np.array(seconds).T):
        axes.barh(np.arange(len(runs)), widths, left=left, height=0.74, color=colour, edgecolor="white", linewidth=0.5, label=name)
        for row, width in enumerate(widths):
            if width * second > 0.4 * style.scale and len(runs) <= 16:
                axes.text(left[row] + width / 2, row, f"{100 * width / sum(seconds[row]):.0f}%", ha="center", va="center", fontsize="small",
                          color="black" if colour in ("0.85", "#E69F00", "#56B4E9") else "white")
        left += widths
    for row, whole in enumerate(left):
        axes.annotate(wording.duration_text(whole), (whole, row), xytext=(5, 0), textcoords="offset points", va="center", fontsize="small")
    axes.set_yticks(range(len(runs)), [wording.shortened(run.name, 40) for run in runs], fontsize="medium" if len(runs) <= 16 else "small")
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.set_xlim(0, 1.15 * longest)
    axes.grid(False, axis="y")
    resumed = " (last start)" if any(run.went_on for run in runs) else ""
    axes.set(xlabel="Seconds (mean over ranks)", title=style.title_of("Time by section" + resumed, runs))
    drawing.legend_below(figure, 4)
    return figure


def draw(runs, style=drawing.USUAL):
    runs = [run for run in runs if len(run.timers["name"]) > 0 and np.sum(run.section_seconds[1]) > 0]
    if not runs:
        return []
    if len(runs) > 1:
        return [("timers", draw_together(runs, style))]
    figure, axes = style.bars(1, 1, 8.5, 2.0 + 0.32 * len(runs[0].timers["name"]))
    draw_run(axes, runs[0], style)
    return [("timers", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
