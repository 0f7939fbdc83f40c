"""The profile of [log] profile = true: the calls of one run that took longest, with their share of the steps' time and
their rates; or of several runs side by side the milliseconds of a step by group of calls, and steps/s."""

import math
import sys

import command  # first: it reports missing packages

import drawing
import kernel_mix
from wording import shortened

MOST_CALLS = 16
COLOURS = dict(zip(kernel_mix.GROUPS, [*drawing.COLOURS[:6], "#8C6D31", "#555555", "#9E9AC8", "#F0E442"]))
COLOURS[kernel_mix.OUTSIDE] = "#D9D9D9"


def rates_text(run, call):
    parts = []
    for quantity, unit in (("flops", "GFLOP/s"), ("bytes", "GB/s")):
        value = kernel_mix.rate(run, call, quantity)
        if math.isfinite(value):
            parts.append(f"{value:.3g} {unit}")
    return ", ".join(parts)


def facts_of(run):
    facts = run.profile_facts
    ranks = "" if facts["ranks"] == 1 else f", mean over {int(facts['ranks'])} ranks"
    return f"{kernel_mix.window(run)} on {facts['device']}{ranks}: {kernel_mix.steps_per_second(run):.3g} steps/s"


def draw_run(run, style):
    calls, whole, steps = kernel_mix.calls_of(run), run.profile_facts["seconds"], run.profile_facts["steps"]
    top, others = calls[:MOST_CALLS], calls[MOST_CALLS:]
    bars = [(f"{call.name} ({call.section or 'between sections'})", call.seconds, COLOURS[call.group], rates_text(run, call))
            for call in top]
    if others:
        bars.append((f"{len(others)} other calls", sum(call.seconds for call in others), "#F0F0F0", ""))
    bars.append((kernel_mix.OUTSIDE, max(0.0, whole - sum(call.seconds for call in calls)), COLOURS[kernel_mix.OUTSIDE], ""))
    figure, axes = style.bars(1, 1, 9.5, 1.6 + 0.32 * len(bars))
    for row, (_, seconds, colour, rates) in enumerate(bars):
        axes.barh(row, 1e3 * seconds / steps, color=colour, edgecolor="#888888" if colour == "#F0F0F0" else "none", height=0.72)
        text = f"{100 * seconds / whole:.1f}%" + (f", {rates}" if rates else "")
        axes.annotate(text, (1e3 * seconds / steps, row), xytext=(5, 0), textcoords="offset points", va="center", fontsize="small")
    axes.set_yticks(range(len(bars)), [shortened(name, 52) for name, *_ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1.45e3 * max(seconds for _, seconds, *_ in bars) / steps)
    axes.grid(False, axis="y")
    axes.set(xlabel="Milliseconds of a step", title=style.title_of("Profile", [run], facts_of(run)))
    used = {call.group for call in top}
    handles = [drawing.plt.Rectangle((0, 0), 1, 1, color=COLOURS[group], label=group) for group in kernel_mix.GROUPS if group in used]
    drawing.legend_below(figure, 4, handles=handles)
    return figure


def draw_together(runs, style):
    """A bar for each run, from the groups' milliseconds of a step."""
    found = [kernel_mix.seconds_by_group(run) for run in runs]
    groups = [group for group in (*kernel_mix.GROUPS, kernel_mix.OUTSIDE) if any(group in sums for sums in found)]
    figure, axes = style.bars(1, 1, 9.5, 2.2 + 0.62 * len(runs))
    longest = max(1e3 * run.profile_facts["seconds"] / run.profile_facts["steps"] for run in runs)
    for row, (run, sums) in enumerate(zip(runs, found)):
        left, steps = 0.0, run.profile_facts["steps"]
        for group in groups:
            width = 1e3 * sums.get(group, 0.0) / steps
            axes.barh(row, width, left=left, color=COLOURS[group], edgecolor="white", linewidth=0.5, height=0.7)
            share = width * steps / (1e3 * run.profile_facts["seconds"])
            if width > 0.05 * longest:
                axes.text(left + width / 2, row, f"{100 * share:.0f}%", ha="center", va="center", fontsize="small",
                          color="black" if group in (kernel_mix.OUTSIDE, kernel_mix.OTHER, "embeddings", "activations, biases, dropout") else "white")
            left += width
        axes.annotate(f"{kernel_mix.steps_per_second(run):.3g} steps/s", (left, row), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize="small")
    axes.set_yticks(range(len(runs)), [shortened(run.name, 40) for run in runs])
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * longest)
    axes.grid(False, axis="y")
    axes.set(xlabel="Milliseconds of a step", title=style.title_of("Kernel mix", runs))
    handles = [drawing.plt.Rectangle((0, 0), 1, 1, color=COLOURS[group], label=group) for group in groups]
    drawing.legend_below(figure, 4, handles=handles)
    return figure


def draw(runs, style=drawing.USUAL):
    runs = [run for run in runs if run.profile]
    if not runs:
        return []
    return [("profile", draw_run(runs[0], style) if len(runs) == 1 else draw_together(runs, style))]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
