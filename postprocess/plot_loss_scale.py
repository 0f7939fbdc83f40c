"""The scale of the loss in fp16, and the updates that it cost, against steps."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

import drawing
import wording


def draw(runs):
    looks = drawing.looks(runs)
    runs = [run for run in runs if len(run.loss_scale["step"]) > 0]
    if not runs:
        return []
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 5.4), sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    for run in runs:
        steps = run.loss_scale["step"]
        marker = "o" if len(steps) == 1 else None
        look = looks[run.name]
        style = {"color": look.colour, "linewidth": look.width, "where": "post", "marker": marker}
        upper.step(steps, run.loss_scale["scale"], **style)
        lower.step(steps, run.loss_scale["skipped"], **style)
    upper.set_yscale("log", base=2)
    upper.set(ylabel="Loss scale")
    lower.set(xlabel="Step (updates)", ylabel="Updates skipped\nso far")
    for axis in (lower.xaxis, lower.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    lower.set_ylim(bottom=0)
    if len(runs) > 1:
        drawing.shared_legend(figure, [looks[run.name] for run in runs])
    figure.suptitle(wording.title_of("Loss scaling", runs))
    return [("loss_scale", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
