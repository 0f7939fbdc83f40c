"""The pictures of the study of sources: utilisation, memory and time of each layout, and confusion matrices."""

import copy

import numpy as np

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import drawing
import plot_confusion
import source_tables
import wording
from measures import epoch_seconds, most_of_ranks, of_ranks

CURVES = ("none", "finetuned")


def without_evaluations(run, name, splits):
    """A run under another name, with some splits alone."""
    found = copy.copy(run)
    found.name, found.evaluations = name, {
        split: columns for split, columns in run.evaluations.items() if split in splits
    }
    return found


def first_run(study, runs, name):
    """The first seed's run of a variant and its label, or None."""
    for run, variant, _ in study.runs():
        if variant.name == name and run in runs:
            return runs[run], variant.label
    return None


def chosen(study, runs, encoders):
    """{variant: (run, label)} of the rows with curves and matrices: each encoder's Bi-LSTM, and it fine-tuned."""
    names = [f"{encoder.key}-{row}" for encoder in encoders for row in CURVES]
    return {name: found for name in names if (found := first_run(study, runs, name))}


def compared(study, runs, encoders):
    return [without_evaluations(run, label, ("validation",)) for run, label in chosen(study, runs, encoders).values()]


def rows_of(study, runs, encoder):
    """[(layout, its runs)] of the Bi-LSTM's layouts on one encoder's embeddings."""
    found = {}
    for name, variant, _ in study.runs():
        if name in runs and variant.input == f"{encoder.key}-bilstm-fp16":
            found.setdefault(variant.label.partition(": ")[2], []).append(runs[name])
    return list(found.items())


def mean_by_rank(runs, of):
    return np.mean([np.asarray(of(run), dtype=float) for run in runs], axis=0)


def bars(study, runs, encoders, title, label, of, outer=None, outer_label=""):
    """Bars of each rank by layout, a panel for each encoder; `outer` is drawn as a mark."""
    rows = [rows_of(study, runs, encoder) for encoder in encoders]
    most = max(map(len, rows), default=0)
    if not most:
        return None
    ranks = max(len(mean_by_rank(members, of)) for panel in rows for _, members in panel)
    figure, axes = drawing.USUAL.bars(
        1, len(encoders), 11, 1.8 + 0.2 * most * max(1.6, min(ranks, 4)), squeeze=False, sharex=True
    )
    for axis, encoder, panel in zip(axes[0], encoders, rows):
        height = 0.8 / ranks
        for position, (_, members) in enumerate(panel):
            values = mean_by_rank(members, of)
            marks = mean_by_rank(members, outer) if outer else []
            for rank, value in enumerate(values):
                at = position + (rank - (len(values) - 1) / 2) * height
                axis.barh(at, value, height * 0.92, color=drawing.palette(ranks)[rank])
                if rank < len(marks):
                    axis.plot([marks[rank]], [at], "|", color="black", markersize=7, markeredgewidth=1.6)
        axis.set_yticks(range(len(panel)), [name for name, _ in panel], fontsize="small")
        axis.set(xlabel=label, title=encoder.label, ylim=(len(panel) - 0.4, -0.6))
        axis.grid(False, axis="y")
    handles = (
        [
            drawing.plt.Rectangle((0, 0), 1, 1, color=drawing.palette(ranks)[rank], label=f"rank {rank}")
            for rank in range(ranks)
        ]
        if ranks > 1
        else []
    )
    if outer:
        handles.append(
            drawing.plt.Line2D(
                [],
                [],
                color="black",
                marker="|",
                linestyle="none",
                markersize=8,
                markeredgewidth=1.6,
                label=outer_label,
            )
        )
    figure.suptitle(title)
    if handles:
        drawing.legend_below(figure, 5, handles=handles)
    return figure


def unit_of_time(study, runs, encoders):
    """(name, seconds) of the unit for epochs: minutes, or seconds if all are short."""
    longest = max(
        (epoch_seconds(run) for encoder in encoders for _, members in rows_of(study, runs, encoder) for run in members),
        default=0.0,
    )
    return ("Minutes", 60.0) if longest >= 6 else ("Seconds", 1.0)


def draw(study, runs, encoders):
    unit, seconds = unit_of_time(study, runs, encoders)
    for name, figure in (
        (
            "utilisation",
            bars(
                study,
                runs,
                encoders,
                "Bi-LSTM: utilisation of each rank",
                "Busy (% of time, mean)",
                lambda run: of_ranks(run, "utilisation", 100),
            ),
        ),
        (
            "memory",
            bars(
                study,
                runs,
                encoders,
                "Bi-LSTM: memory of each rank",
                "Memory (MiB)",
                lambda run: of_ranks(run, "memory", 2**-20),
                most_of_ranks,
                "peak (bars: mean)",
            ),
        ),
        (
            "minutes",
            bars(
                study,
                runs,
                encoders,
                "Bi-LSTM: time of an epoch",
                f"{unit} an epoch",
                lambda run: [epoch_seconds(run) / seconds],
            ),
        ),
    ):
        if figure is not None:
            yield name, figure
    for name, (run, label) in chosen(study, runs, encoders).items():
        if source_tables.confusion(run) is not None:
            for _, figure in plot_confusion.draw([without_evaluations(run, label, ("test",))]):
                yield wording.file_name(f"confusion_matrix-{name}"), figure
