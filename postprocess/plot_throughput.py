"""Tokens and sequences per second against steps (each row faint, smoothed bold), with the mean after the warm-up (the
first twentieth of the rows) for up to four runs."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import smoothing
import wording


def draw_rates(axes, run, column, look, style):
    """Draws one run's rates; returns the highest without rare peaks, or None."""
    at = drawing.x_of(run, run.steps["step"], style)
    seconds = np.asarray(run.steps["seconds"], dtype=float)
    rates = np.divide(run.steps[column], seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    if len(at) >= 50 and look.faint:
        axes.plot(at, rates, color=look.colour, alpha=0.22, linewidth=0.8)
    # A line fitted to the last rows may end below 0.
    bold = np.maximum(smoothing.smooth(rates, weights=seconds if seconds.any() else None), 0)
    drawing.draw_curve(axes, at, bold, look)
    if look.faint:
        mean = smoothing.steady_rate(run, column)
        axes.axhline(mean, color=look.colour, linestyle="--", linewidth=1.2)
    return np.nanpercentile(rates, 99.5) if np.isfinite(rates).any() else None


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if np.sum(run.steps["seconds"]) > 0]
    if not runs:
        return []
    figure, panels = style.subplots(2, 1, 8, 6, sharex=True)
    for axes, column, name in zip(panels, ("tokens", "samples"), ("Tokens", "Sequences")):
        tops = [draw_rates(axes, run, column, looks[run.name], style) for run in runs]
        tops = [top for top in tops if top is not None]
        if tops:
            axes.set_ylim(0, 1.12 * max(tops))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.set(ylabel=f"{name}/s")
        if len(runs) == 1:
            mean = wording.rate_text(smoothing.steady_rate(runs[0], column))
            axes.text(1, 1.01, f"dashed: mean {mean} {name.lower()}/s", transform=axes.transAxes, ha="right", va="bottom", fontsize="small")
    drawing.whole_steps(panels[-1], style)
    panels[-1].set_xlabel(drawing.x_label(style))
    if len(runs) > 1:  # the values are in the summary
        shown = [looks[run.name] for run in runs]
        drawing.shared_legend(figure, shown, {"mean": {"linestyle": "--"}} if shown[0].faint else None)
    figure.suptitle(style.title_of("Throughput", runs))
    return [("throughput", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
