"""Loss against steps: training (each row faint; bold: smoothed, without rows of less than half a batch) and every evaluated split."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import drawing
import smoothing
import wording


def draw_training(axes, run, look, several):
    smoothed = " (smoothed)" if smoothing.smooths(len(run.steps["step"])) else ""
    drawing.draw_rows(axes, run, "loss", look, f"{run.name}: training" if several else "training" + smoothed)


def draw_evaluations(axes, run, look, several, styles):
    for number, (split, columns) in enumerate(sorted(run.evaluations.items())):
        if len(columns["step"]) == 0 or (len(columns["step"]) == 1 and len(run.steps["step"]) == 0):
            continue
        colour = look.colour if several else drawing.colour(number + 1)
        name = f"{run.name}: {split}" if several else split
        style = styles[split] if several or len(columns["step"]) == 1 else styles[split] | {"linestyle": "-"}
        axes.plot(columns["step"], columns["loss"], color=colour, linewidth=look.width, markersize=5, markerfacecolor="white",
                  label=name, **style)


def limit(axes, runs):
    """The scale follows the smoothed curves, so that one wild batch does not flatten everything."""
    tops, bottoms = [], []
    for run in runs:
        loss = run.steps["loss"]
        curves = [smoothing.curve(run, "loss")[1]] + [columns["loss"] for columns in run.evaluations.values()]
        for values in curves:
            values = np.asarray(values)[np.isfinite(values)]
            if len(values):
                tops.append(values.max())
                bottoms.append(values.min())
        if len(loss) and np.isfinite(loss).any():
            finite = loss[np.isfinite(loss)]
            share = 0.5 if len(loss) >= 50 else 0  # few rows are all shown
            bottoms.append(np.percentile(finite, share))
            tops.append(np.percentile(finite, 100 - share))
    if tops and max(tops) > min(bottoms):
        room = 0.06 * (max(tops) - min(bottoms))
        axes.set_ylim(max(0.0, min(bottoms) - room), max(tops) + room)


def loss_label(runs):
    """What the losses are means over: of masked language modelling over the tokens to be predicted."""
    kinds = {"masked tokens" if run.attributes.get("task") == "masked_lm" else "samples" for run in runs}
    return f"Loss (mean over {' or '.join(sorted(kinds, reverse=True))})"


def draw(runs):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.steps["step"]) > 0]
    if not runs:
        return []
    figure, axes = plt.subplots(figsize=(8, 4.8))
    styles = drawing.split_styles(runs)
    for run in runs:
        draw_training(axes, run, looks[run.name], len(runs) > 1)
        draw_evaluations(axes, run, looks[run.name], len(runs) > 1, styles)
    limit(axes, runs)
    axes.set(xlabel="Step (updates)", ylabel=loss_label(runs), title=wording.title_of("Loss", runs))
    if len(runs) > 1:
        shown = [looks[run.name] for run in runs]
        drawing.shared_legend(figure, shown, {"training": {"linestyle": "-"}} | drawing.light_style([axes]) | styles)
    else:
        axes.legend()
    return [("loss", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
