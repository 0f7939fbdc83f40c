"""Precision, recall and F1 of every class, or label name, and of the entities of every type, in the selected evaluation of each
split; of more than 40 the most frequent ones. Rows are sorted by F1."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import plot_confusion
import tables
import wording

MOST = 40
FEWEST = 2  # of one class the table says enough
RATES = (("precision", "precision", ">", 1), ("recall", "recall", "<", 2), ("f1", "F1", "o", 0))


def draw_rates(names, columns, title, style, kind, counted):
    support = np.asarray(columns["support"])
    frequent = np.argsort(-support, kind="stable")[:MOST]
    order = frequent[np.argsort(-np.asarray(columns["f1"])[frequent], kind="stable")]
    rows = np.arange(len(order))
    figure, axes = style.bars(1, 1, 8, max(2.9, 2.1 + 0.26 * len(order)))
    rates = {name: np.asarray(columns[name], dtype=float)[order] for name, *_ in RATES}
    axes.hlines(rows, np.minimum(rates["precision"], rates["recall"]), np.maximum(rates["precision"], rates["recall"]), color="#AAAAAA", linewidth=1.5)
    for name, label, marker, colour in RATES:
        axes.plot(rates[name], rows, marker, color=drawing.colour(colour), markersize=7, markeredgecolor="white", markeredgewidth=0.6, label=label)
    axes.set_yticks(rows, [f"{wording.begun(names[i], 30)} ({support[i]:,})" for i in order], fontsize="medium" if len(order) <= 20 else "small")
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set(xlabel="Precision, recall and F1", ylabel=f"{wording.capital(kind)} ({counted})")
    drawing.legend_below(figure, 3, handles=axes.get_legend_handles_labels()[0])
    figure.suptitle(title)
    return figure


def figures_of(run):
    """(name of the picture, kind, what is counted, split, evaluation, names, columns) of each picture."""
    kind, counted = plot_confusion.KINDS.get(run.task, ("class", "samples"))
    for picture, kind, counted, found in (("classes", kind, counted, tables.class_figures(run)),
                                          ("entities", "entity type", "entities", tables.entity_figures(run))):
        for split, which, names, columns in found:
            if len(columns["support"]) >= FEWEST:
                yield picture, kind, counted, split, which, names, columns


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        for picture, kind, counted, split, which, labels, columns in figures_of(run):
            count = len(columns["support"])
            names = labels if len(labels) == count else [str(i) for i in range(count)]
            shown = f"the {MOST} most frequent of {count:,}" if count > MOST else ""
            heading = {"classes": "Classes", "entities": "Entities"}[picture] + ("" if split == "predictions" else f" ({split})")
            title = style.title_of(heading, [run], "; ".join(part for part in (which, shown) if part))
            name = f"{picture}-{split}" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_rates(names, columns, title, style, kind, counted)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
