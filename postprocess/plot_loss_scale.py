"""The scale of the loss in fp16, and the updates that it cost, against steps."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

import drawing
import wording


def draw(runs):
    runs = [run for run in runs if len(run.loss_scale["step"]) > 0]
    if not runs:
        return []
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 5.4), sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    for index, run in enumerate(runs):
        steps = run.loss_scale["step"]
        marker = "o" if len(steps) == 1 else None
        style = {"color": drawing.colour(index), "where": "post", "marker": marker, "label": run.name}
        upper.step(steps, run.loss_scale["scale"], **style)
        lower.step(steps, run.loss_scale["skipped"], **style)
    upper.set_yscale("log", base=2)
    upper.set(ylabel="Loss scale")
    lower.set(xlabel="Step (updates)", ylabel="Updates skipped\nso far")
    for axis in (lower.xaxis, lower.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    lower.set_ylim(bottom=0)
    if len(runs) > 1:
        upper.legend()
    figure.suptitle(wording.title_of("Loss scaling", runs))
    return [("loss_scale", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
