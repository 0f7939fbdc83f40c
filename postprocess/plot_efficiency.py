"""Gradient noise scale and batch size, and goodput (throughput times statistical efficiency), against steps. README.md
in this folder explains the terms. McCandlish et al. 2018; Pollux, Qiao et al. 2021."""

import sys

import command  # first: it reports missing packages

import numpy as np
from matplotlib.ticker import LogFormatter

import drawing
import smoothing


def batch_size(run):
    """Sequences per update: the median of the rows."""
    samples = np.asarray(run.steps["samples"])
    return float(np.median(samples / smoothing.updates_of(run))) if len(samples) else float("nan")


def with_gaps(steps, values):
    """Inserts NaN where rows are missing, so that no line crosses a gap in the measurements."""
    steps, values = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if len(steps) < 3:
        return steps, values
    spacing = np.diff(steps)
    gaps = np.flatnonzero(spacing > 2.5 * np.median(spacing)) + 1
    return np.insert(steps, gaps, steps[gaps - 1]), np.insert(values, gaps, np.nan)


def plot(axes, run, values, look, label, style):
    """Draws a line with markers if its points are few, or at points without a neighbour."""
    steps, values = with_gaps(run.efficiency["step"], values)
    at = drawing.x_of(run, steps, style)
    few = np.isfinite(values).sum() <= 50
    drawing.draw_curve(axes, at, values, look, label, marker="o" if few else None)


def known_values(run):
    """Noise scale and goodput, NaN where unknown. Estimates of the noise scale can be negative or infinite, which a
    logarithmic scale cannot show."""
    noise, goodput = (np.asarray(run.efficiency[name], dtype=float) for name in ("noise_scale", "goodput"))
    return np.where(np.isfinite(noise) & (noise > 0), noise, np.nan), goodput


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    shown = [(run, *known_values(run)) for run in runs]
    shown = [entry for entry in shown if np.isfinite(entry[1]).any() or np.isfinite(entry[2]).any()]
    if not shown:
        return []
    several = len(shown) > 1
    figure, (upper, lower) = style.subplots(2, 1, 8, 6, sharex=True)
    for run, noise, goodput in shown:
        look = looks[run.name]
        if np.isfinite(noise).any():
            plot(upper, run, noise, look, run.name if several else "gradient noise scale", style)
        upper.axhline(batch_size(run), color=look.colour, linestyle="--", linewidth=1.2, label=None if several else "batch size")
        if np.isfinite(goodput).any():
            plot(lower, run, smoothing.smooth(goodput), look, run.name if several else "goodput", style)
    if any(np.isfinite(noise).any() for _, noise, _ in shown):
        upper.set_yscale("log")
        upper.yaxis.set_major_formatter(LogFormatter())
        upper.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.2, 0.5)))
    upper.set(ylabel="Gradient noise scale\n(sequences; dashed: batch size)" if several else "Sequences")
    if not several:
        upper.legend()
    lower.set(xlabel=drawing.x_label(style), ylabel="Goodput (sequences/s ×\nstatistical efficiency)")
    lower.set_ylim(bottom=0)
    drawing.whole_steps(lower, style)
    if several:
        drawing.shared_legend(figure, [looks[run.name] for run, _, _ in shown])
    figure.suptitle(style.title_of("Statistical efficiency", [run for run, _, _ in shown]))
    return [("efficiency", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
