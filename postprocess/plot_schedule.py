"""Learning rate and gradient norm (before clipping) against steps."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.steps["step"]) > 0]
    if not runs:
        return []
    figure, (rate, norm) = style.subplots(2, 1, 8, 6, sharex=True)
    positive = []
    for run in runs:
        look = looks[run.name]
        norms = np.asarray(run.steps["gradient_norm"], dtype=float)
        drawing.draw_curve(rate, drawing.x_of(run, run.steps["step"], style), run.steps["learning_rate"], look)
        drawing.draw_rows(norm, run, "gradient_norm", look, style=style)
        positive.extend(norms[np.isfinite(norms) & (norms > 0)])
    if positive and max(positive) > 30 * np.median(positive):
        norm.set_yscale("log")
    rate.set(ylabel="Learning rate")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    drawing.whole_steps(norm, style)
    norm.set(xlabel=drawing.x_label(style), ylabel="Gradient norm\n(before clipping)")
    if len(runs) > 1:
        drawing.shared_legend(figure, [looks[run.name] for run in runs], drawing.light_style([norm]))
    elif norm.get_legend_handles_labels()[1]:
        norm.legend()
    figure.suptitle(style.title_of("Learning rate and gradient norm", runs))
    return [("schedule", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
