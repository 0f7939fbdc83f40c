"""What each rank did during the steps: computing, communicating, waiting, and the rest, in per cent of their time."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import drawing
import wording

PARTS = [("computing", "computing"), ("communicating", "sums over replicas that computing did not hide"),
         ("waiting", "waiting for the pipeline or for data")]
MOST = 64  # bars that can be told apart


def steps_seconds(run):
    """The time that the ranks' parts are of. Where a run went on they are of the last start, its rows of all."""
    computing, share = (np.asarray(run.ranks.get(name, []), dtype=float) for name in ("computing", "utilisation"))
    known = np.isfinite(share) & (share > 0) if len(share) == len(computing) else np.array([], dtype=bool)
    if known.any():
        return float(np.median(computing[known] / share[known]))
    return 0.0 if run.went_on else float(np.sum(run.steps["seconds"]))


def draw_run(axes, run):
    total = steps_seconds(run)
    ranks = np.arange(len(run.ranks["host"]))
    shown = ranks if len(ranks) <= MOST else np.unique(np.linspace(0, len(ranks) - 1, MOST).astype(int))
    left = np.zeros(len(shown))
    for i, (name, label) in enumerate(PARTS):
        share = 100 * np.asarray(run.ranks[name], dtype=float)[shown] / total
        axes.barh(range(len(shown)), share, left=left, height=0.8, color=drawing.colour(i), label=label)
        left += share
    axes.barh(range(len(shown)), np.maximum(0, 100 - left), left=left, height=0.8, color="0.85", label="other")
    axes.set_yticks(range(len(shown)), [str(rank) for rank in shown], fontsize=9 if len(shown) <= 32 else 6)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.grid(False, axis="y")
    some = "" if len(shown) == len(ranks) else f" ({len(shown)} of {len(ranks)} ranks)"
    axes.set(xlabel="% of the steps' time", ylabel="Rank", title=wording.title_of("What the ranks did" + some, [run]))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24 if len(shown) < 8 else -0.1), ncol=2, frameon=False)


def draw(runs):
    runs = [run for run in runs if np.sum(run.ranks.get("computing", [0])) > 0 and steps_seconds(run) > 0]
    if not runs:
        return []
    heights = [2.6 + 0.3 * min(len(run.ranks["host"]), MOST // 2) for run in runs]
    figure, grid = plt.subplots(len(runs), 1, figsize=(8.5, sum(heights)), squeeze=False,
                                gridspec_kw={"height_ratios": heights})
    for axes, run in zip(grid.flat, runs):
        draw_run(axes, run)
    return [("ranks", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
