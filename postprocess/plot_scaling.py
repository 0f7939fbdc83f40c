"""Scaling over several runs: time per million tokens against the number of ranks, and the parallel efficiency against the run
with the fewest ranks. Needs runs with at least two different numbers of ranks."""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np

import common


def times_by_ranks(runs):
    """{ranks: seconds per million tokens, each run's}."""
    times = {}
    for run in runs:
        rate = common.steady_rate(run, "tokens")
        if run.rank_count > 0 and math.isfinite(rate) and rate > 0:
            times.setdefault(run.rank_count, []).append(1e6 / rate)
    return dict(sorted(times.items()))


def draw(runs):
    times = times_by_ranks(runs)
    if len(times) < 2:
        return []
    ranks = np.array(list(times))
    medians = np.array([np.median(values) for values in times.values()])
    ideal = medians[0] * ranks[0] / ranks
    efficiency = 100 * ideal / medians
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6))
    left.loglog(ranks, ideal, color="black", linestyle="--", linewidth=1.2, label="ideal")
    left.loglog(ranks, medians, color=common.colour(0), marker="o", label="measured (median of runs)")
    for count, values in times.items():
        if len(values) > 1:
            left.loglog([count] * len(values), values, "o", color=common.colour(0), alpha=0.4, markersize=4)
    left.set(xlabel="Ranks", ylabel="Seconds per million tokens", title="Time")
    left.legend()
    right.axhline(100, color="black", linestyle="--", linewidth=1.2)
    right.semilogx(ranks, efficiency, color=common.colour(0), marker="o")
    for count, value in zip(ranks, efficiency):
        right.annotate(f"{value:.0f} %", (count, value), xytext=(0, -9), textcoords="offset points", ha="center", va="top",
                       fontsize=10)
    right.set(xlabel="Ranks", ylabel="Parallel efficiency (%)", title=f"Efficiency against {ranks[0]} rank{'s' if ranks[0] > 1 else ''}",
              ylim=(0, max(110, 1.08 * efficiency.max())))
    for axes in (left, right):
        axes.set_xticks(ranks, [str(count) for count in ranks])
        axes.minorticks_off()
        axes.margins(x=0.1)
    low, high = min(medians.min(), ideal.min()), max(medians.max(), ideal.max())
    ticks = [base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5) if 0.7 * low <= base * 10.0**power <= 1.4 * high]
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.suptitle("Scaling")
    return [("scaling", figure)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__))
