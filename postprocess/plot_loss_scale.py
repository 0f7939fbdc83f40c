"""The fp16 loss scale, and the steps skipped because of it, against steps."""

import sys

import command  # first: it reports missing packages

from matplotlib.ticker import MaxNLocator

import drawing


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.loss_scale["step"]) > 0]
    if not runs:
        return []
    figure, (upper, lower) = style.subplots(2, 1, 8, 5.4, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    for run in runs:
        steps = drawing.x_of(run, run.loss_scale["step"], style)
        marker = "o" if len(steps) == 1 else None
        look = looks[run.name]
        line = {"color": look.colour, "linewidth": look.width, "linestyle": look.line, "where": "post", "marker": marker}
        upper.step(steps, run.loss_scale["scale"], **line)
        lower.step(steps, run.loss_scale["skipped"], **line)
    upper.set_yscale("log", base=2)
    upper.set(ylabel="Loss scale")
    lower.set(xlabel=drawing.x_label(style), ylabel="Skipped steps\n(total)")
    drawing.whole_steps(lower, style)
    lower.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    lower.set_ylim(bottom=0)
    if len(runs) > 1:
        drawing.shared_legend(figure, [looks[run.name] for run in runs])
    figure.suptitle(style.title_of("Loss scale (fp16)", runs))
    return [("loss_scale", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
