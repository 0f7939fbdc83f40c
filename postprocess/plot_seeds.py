"""Runs of one input that differ in run.seed, and variants of that input. Shows for each variant the mean over its
seeds with its standard error, and relative to the first variant the mean of the differences between runs of the
same seed, whose standard error is smaller if seeds matter more than variants. Needs two finished runs of the same
input with different seeds. For a split with several evaluations, it uses that of the best checkpoint, by
evaluation.best, otherwise the last."""

import math
import sys

import command  # first: it reports missing packages

import matplotlib.ticker
import numpy as np

import drawing
import rundata
import variants
import wording

NEEDED = "two finished runs, with evaluations, of the same input that differ in run.seed"


def seed_of(run):
    return rundata.settings(run).get("run.seed", "")


def found_variants(runs):
    """[(name, {seed: run})] of the finished runs, in the given order; of two runs with the same input and seed, the
    first counts."""
    found = {}
    for run in runs:
        if run.status == "finished" and run.evaluations and seed_of(run):
            found.setdefault(tuple(sorted(variants.identity(run).items())), {}).setdefault(seed_of(run), run)
    names = [name or "all runs" for name in variants.names_of([dict(key) for key in found])]
    return list(zip(names, found.values()))


def mean_and_error(values):
    """The mean and its standard error; NaN for a single value."""
    values = np.asarray(list(values), dtype=float)
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return (float(values.mean()) if len(values) else math.nan), float(error)


def choice(by_seed, split):
    """The selected evaluations of the runs."""
    return " or ".join(dict.fromkeys(word for word in (rundata.chosen(run, split)[1] for run in by_seed.values()) if word))


def value(run, split, metric):
    column, (row, _) = run.evaluations.get(split, {}).get(metric, []), rundata.chosen(run, split)
    return float(column[row]) if row is not None and row < len(column) else math.nan


def values_of(by_seed, split, metric):
    values = {seed: value(run, split, metric) for seed, run in by_seed.items()}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def differences(own, first):
    """Differences for the seeds that both variants have."""
    return [own[seed] - first[seed] for seed in own if seed in first]


def comparable(runs):
    """The variants, if any of them has two seeds."""
    found = found_variants(runs)
    return found if any(len(by_seed) > 1 for _, by_seed in found) else []


def splits_and_metrics(found):
    runs = [run for _, by_seed in found for run in by_seed.values()]
    splits = dict.fromkeys(split for run in runs for split in run.evaluations)
    metrics = dict.fromkeys(["loss", *(name for run in runs for name in rundata.metric_names(run))])
    return [(split, metric) for split in splits for metric in metrics]


def table(runs):
    """For every split and metric: each variant's mean, and its difference to the first variant."""
    header = ["split", "evaluation", "metric", "variant", "seeds", "mean", "standard error", "difference", "standard error of the difference",
              "difference in standard errors"]
    rows, found = [], comparable(runs)
    for split, metric in splits_and_metrics(found):
        first = values_of(found[0][1], split, metric)
        for index, (name, by_seed) in enumerate(found):
            own = values_of(by_seed, split, metric)
            if not own:
                continue
            row = [split, choice(by_seed, split), rundata.label_of(list(by_seed.values()), metric), name, len(own), *mean_and_error(own.values())]
            difference, error = mean_and_error(differences(own, first)) if index else (math.nan, math.nan)
            rows.append([*row, difference, error, difference / error if error > 0 else math.nan])
    return header, rows


def headline(found):
    """Split and metric of the picture: those by which the runs' input selects models, otherwise the first."""
    run = next(iter(found[0][1].values()))
    best = rundata.selecting_metric(run)
    metrics = [best] if best in ["loss", *rundata.metric_names(run)] else rundata.metric_names(run) or ["loss"]
    split = "validation" if "validation" in run.evaluations else next(iter(run.evaluations))
    return split, metrics[0]


def draw_points(axes, at, values, colour, interval=None):
    """The values and below them their mean, with 2 standard errors or with an interval (low, high)."""
    mean, error = mean_and_error(values)
    low, high = interval or (mean - 2 * error, mean + 2 * error)
    spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
    axes.plot(values, at + np.asarray(spread), "o", color=colour, alpha=0.5, markersize=5)
    axes.errorbar([mean], [at + 0.27], xerr=None if math.isnan(low) else [[mean - low], [high - mean]], fmt="D", color=colour,
                  markersize=6, capsize=4)


def draw(runs, style=drawing.USUAL):
    found = comparable(runs)
    if not found:
        return []
    split, metric = headline(found)
    columns, colours = [values_of(by_seed, split, metric) for _, by_seed in found], drawing.palette(len(found))
    all_differences = [differences(own, columns[0]) for own in columns]
    height = 1.6 + len(found) * min(0.9, max(0.5, 9 / len(found)))
    figure, panels = style.bars(1, 2 if len(found) > 1 else 1, 10, height, squeeze=False, sharey=True)
    left = panels[0][0]
    for index, own in enumerate(columns):
        if own:
            draw_points(left, index, list(own.values()), colours[index])
    which = choice({(index, seed): run for index, (_, by_seed) in enumerate(found) for seed, run in by_seed.items()}, split)
    name = rundata.label_of([run for _, by_seed in found for run in by_seed.values()], metric)
    left.set(xlabel=wording.capital(f"{name} ({split}: {which})"), ylim=(len(found) - 0.4, -0.5))
    left.set_yticks(range(len(found)), [f"{name}\n{len(own)} seeds" for (name, _), own in zip(found, columns)])
    if len(found) > 1:
        right = panels[0][1]
        right.axvline(0, color="black", linestyle="--", linewidth=1.2)
        for index, values in enumerate(all_differences[1:], 1):
            if values:
                draw_points(right, index, values, colours[index])
        right.set(xlabel="Paired difference from the first variant")
    for axes in panels[0]:
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    figure.suptitle(style.title_of("Seeds", runs, "circles: runs; diamonds: mean ± 2 standard errors"))
    return [("seeds", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__, needed=NEEDED))
