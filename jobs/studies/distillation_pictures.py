"""The pictures of the study of distillation: scores with paired differences, the loss scale, and the use of devices."""

import copy

import numpy as np

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import paired_statistics
import drawing
import plot_devices
import plot_loss_scale


def named(study, runs, variants, first_only=True):
    """Runs of these variants under the names of their rows; of each the first seed alone, if so."""
    found = []
    for variant in variants:
        for name, seed in study.runs_of(variant):
            if name in runs:
                run = copy.copy(runs[name])
                run.name = (
                    variant.label if first_only or variant.once else f"{variant.label} {seed}"
                )  # one legend for all
                found.append(run)
                if first_only:
                    break
    return found


def rows_of(study):
    return [variant for variant in study.plan.variants if not variant.once and not variant.hidden]


def compared(study, runs):
    """The first seed of each row, and the runs on other ranks."""
    return named(study, runs, [variant for variant in study.plan.variants if not variant.killed and not variant.hidden])


def draw_scores(study, runs):
    """Each row's scores by seed, and their means with bootstrap intervals."""
    of = {measure.key: measure for measure in study.plan.measures}
    keys = ("map", "mrr", "f1")
    rows = [(variant, list(paired_statistics.by_seed(study, runs, variant).values())) for variant in rows_of(study)]
    rows = [(variant, members) for variant, members in rows if members]
    if not rows:
        return
    figure, axes = drawing.USUAL.bars(1, len(keys), 12, 1.8 + 0.55 * len(rows), squeeze=False, sharey=True)
    for axis, key in zip(axes[0], keys):
        for place, (_, members) in enumerate(rows):
            values = np.array([of[key].of(run) for run in members])
            axis.plot(
                values,
                np.full(len(values), place) + np.linspace(-0.1, 0.1, len(values)),
                "o",
                color=drawing.colour(place),
                alpha=0.5,
                markersize=5,
            )
            low, high = paired_statistics.bootstrap(values)
            error = None if np.isnan(low) else [[values.mean() - low], [high - values.mean()]]
            axis.errorbar(
                [values.mean()],
                [place + 0.25],
                xerr=error,
                fmt="D",
                color=drawing.colour(place),
                markersize=6,
                capsize=4,
            )
        axis.set(xlabel=of[key].title, ylim=(len(rows) - 0.4, -0.5))
        axis.xaxis.set_major_locator(drawing.MaxNLocator(4))
    axes[0][0].set_yticks(
        range(len(rows)), [drawing.textwrap.fill(variant.label, 30) for variant, _ in rows], fontsize="small"
    )
    figure.suptitle("Held-out questions\ncircles: seeds; diamonds: means with 95% bootstrap intervals")
    yield "scores", figure


def draw(study, runs):
    yield from draw_scores(study, runs)
    yield from plot_loss_scale.draw(named(study, runs, rows_of(study), first_only=False))
    yield from plot_devices.draw(named(study, runs, rows_of(study)))
