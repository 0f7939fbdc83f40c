"""Scaling over several runs: time per million tokens against the number of ranks, and the parallel efficiency relative
to the run with the fewest ranks. Compares runs of one model, task, training data, batch, precision, device and
number of threads, and reports the excluded ones. Of several layouts with the same number of ranks, the fastest is
drawn, and named below its number of ranks. Needs such runs with at least two different numbers of ranks."""

import math
import sys
import textwrap

import command  # first: it reports missing packages

import numpy as np

import drawing
import rundata
import smoothing

NEEDED = "finished runs of the same input on different numbers of ranks"
# Each of these changes the time, independent of the number of ranks.
SAME = ("model.", "task.", "data.train", "data.order", "data.padding", "batch.global", "precision.", "optimizer.name", "run.reproducible",
        "parallel.zero", "parallel.offload", "debug.", "log.trace", "log.profile")


def traits(run):
    """The traits in which compared runs must agree."""
    found = {key: value for key, value in rundata.settings(run).items() if key.startswith(SAME)}
    for name in ("threads", "device"):
        found[f"{name} of a rank"] = ", ".join(sorted({str(value) for value in run.ranks.get(name, [])}))
    return found


def fault_of(run):
    """The reason why the run's speed is not representative of its number of ranks; "" if it is."""
    if run.went_on:
        return "was resumed, perhaps on other ranks"
    if run.rank_count == 0:
        return "has no table of ranks, as it has not finished"
    rate = smoothing.steady_rate(run, "tokens")
    return "" if math.isfinite(rate) and rate > 0 else "has no speed"


def difference(own, other):
    """The difference between two runs' traits in words."""
    keys = [key for key in sorted(own.keys() | other.keys()) if own.get(key) != other.get(key)]
    words = [f"{key} = {own.get(key, 'not set')} instead of {other.get(key, 'not set')}" for key in keys[:2]]
    return "has " + ", ".join(words) + (f" and {len(keys) - 2} more" if len(keys) > 2 else "")


def choose(runs):
    """The largest set of comparable runs, by numbers of ranks, then by runs; and (run, reason) of the others."""
    runs = [run for run in runs if len(run.steps["step"]) > 0]
    left_out = [(run, fault_of(run)) for run in runs if fault_of(run)]
    groups = {}
    for run in runs:
        if not fault_of(run):
            groups.setdefault(tuple(sorted(traits(run).items())), []).append(run)
    if not groups:
        return [], left_out
    same = max(groups, key=lambda key: (len({run.rank_count for run in groups[key]}), len(groups[key])))
    left_out += [(run, difference(dict(key), dict(same))) for key in groups if key != same for run in groups[key]]
    return groups[same], left_out


def layout_of(run):
    """The ranks' layout in words, one line each; empty if all ranks are replicas."""
    stated = rundata.settings(run)
    sizes = {name: int(stated.get(f"parallel.{name}", usual)) for name, usual in (("data", 0), ("pipeline", 1), ("tensor", 1))}
    open_ones = [name for name, size in sizes.items() if size == 0]
    if len(open_ones) == 1:
        sizes[open_ones[0]] = run.rank_count // math.prod(size for size in sizes.values() if size)
    elif open_ones:
        return "layout chosen\nby the program"
    if sizes["pipeline"] == sizes["tensor"] == 1:
        return ""
    schedule = stated.get("parallel.pipeline_schedule", "").strip('"') if sizes["pipeline"] > 1 else ""
    return "\n".join([f"{name} {size}" for name, size in sizes.items() if size > 1] + ([schedule] if schedule else []))


def footnote(left_out, most=8):
    lines = [f"Left out: {run.name}, which {reason}." for run, reason in left_out[:most]]
    if len(left_out) > most:
        lines.append(f"Left out: {len(left_out) - most} more.")
    return "\n".join("\n".join(textwrap.wrap(line, 125)) for line in lines)


def times_by_ranks(runs):
    """{ranks: {layout: [seconds per million tokens of each run]}}."""
    times = {}
    for run in runs:
        layouts = times.setdefault(run.rank_count, {})
        layouts.setdefault(layout_of(run), []).append(1e6 / smoothing.steady_rate(run, "tokens"))
    return dict(sorted(times.items()))


def fastest(layouts):
    """The layout with the smallest median, and the times of its runs."""
    return min(layouts.items(), key=lambda item: np.median(item[1]))


def draw(runs, style=drawing.USUAL):
    compared, left_out = choose(runs)
    times = times_by_ranks(compared)
    if len(times) < 2:
        if len({run.rank_count for run in runs if len(run.steps["step"]) > 0}) > 1:
            print("No picture of scaling: no two runs differ in their number of ranks alone.\n" + footnote(left_out))
        return []
    ranks = np.array(list(times))
    chosen = [fastest(layouts) for layouts in times.values()]
    medians = np.array([np.median(values) for _, values in chosen])
    several = any(len(layouts) > 1 for layouts in times.values())
    ideal = medians[0] * ranks[0] / ranks
    efficiency = 100 * ideal / medians
    figure, (left, right) = style.subplots(1, 2, 10, 4.6)
    left.loglog(ranks, ideal, color="black", linestyle="--", linewidth=1.2, label="ideal")
    left.loglog(ranks, medians, color=drawing.colour(0), marker="o", label=f"measured ({'fastest layout, ' if several else ''}median of runs)")
    for count, layouts in times.items():
        values = [value for own in layouts.values() for value in own]
        if len(values) > 1:
            left.loglog([count] * len(values), values, "o", color=drawing.colour(0), alpha=0.4, markersize=4)
    left.set(xlabel="Ranks", ylabel="Seconds per million tokens", title="Time")
    left.legend()
    right.axhline(100, color="black", linestyle="--", linewidth=1.2)
    right.semilogx(ranks, efficiency, color=drawing.colour(0), marker="o")
    for count, value in zip(ranks, efficiency):
        right.annotate(f"{value:.0f}%", (count, value), xytext=(0, -9), textcoords="offset points", ha="center", va="top",
                       fontsize="medium")
    right.set(xlabel="Ranks", ylabel="Parallel efficiency (%)", title=f"Efficiency against {ranks[0]} rank{'s' if ranks[0] > 1 else ''}",
              ylim=(0, max(110, 1.08 * efficiency.max())))
    for axes in (left, right):
        axes.set_xticks(ranks, [f"{count}\n{layout}".strip() for count, (layout, _) in zip(ranks, chosen)])
        axes.minorticks_off()
        axes.margins(x=0.1)
    low, high = min(medians.min(), ideal.min()), max(medians.max(), ideal.max())
    ticks = [base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5) if 0.7 * low <= base * 10.0**power <= 1.4 * high]
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.suptitle(style.title_of("Scaling", compared, f"{len(compared)} runs of the same model, data and batch size"))
    if left_out:
        figure.supxlabel(footnote(left_out), fontsize="small", x=0.02, ha="left")
        print(footnote(left_out).replace("Left out:", "Left out of scaling:"))
    return [("scaling", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__, needed=NEEDED))
