"""The pictures of the study of distillation: scores with paired differences, the loss scale, and the use of devices."""

import copy
import textwrap

from matplotlib.ticker import MaxNLocator

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import paired_statistics
import drawing
import plot_devices
import plot_loss_scale
import plot_seeds


def named(study, runs, variants, first_only=True):
    """Runs of these variants under the names of their rows; of each the first seed alone, if so."""
    found = []
    for variant in variants:
        for seed, run in list(paired_statistics.by_seed(study, runs, variant).items())[: 1 if first_only else None]:
            shown = copy.copy(run)
            shown.name = variant.label if first_only or variant.once else f"{variant.label} {seed}"
            found.append(shown)
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
        for position, (_, members) in enumerate(rows):
            values = [of[key].of(run) for run in members]
            interval = paired_statistics.bootstrap(values)
            plot_seeds.draw_points(axis, position, values, drawing.colour(position), interval)
        axis.set(xlabel=of[key].title, ylim=(len(rows) - 0.4, -0.5))
        axis.xaxis.set_major_locator(MaxNLocator(4))
    labels = [textwrap.fill(variant.label, 30) for variant, _ in rows]
    axes[0][0].set_yticks(range(len(rows)), labels, fontsize="small")
    figure.suptitle("Held-out questions\ncircles: seeds; diamonds: means with 95% bootstrap intervals")
    yield "scores", figure


def draw(study, runs):
    yield from draw_scores(study, runs)
    yield from plot_loss_scale.draw(named(study, runs, rows_of(study), first_only=False))
    yield from plot_devices.draw(named(study, runs, rows_of(study)))
