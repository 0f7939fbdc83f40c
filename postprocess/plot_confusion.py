"""Confusion matrix of each split for the best checkpoint (or the last model), or for a run's predictions if there is
none: rows are actual classes with their number of samples, columns predicted ones. Each row is divided by its sum, so that
the diagonal is the recall of each class. --counts draws the numbers of samples instead."""

import sys

import command  # first: it reports missing packages

import matplotlib
import numpy as np

import drawing
import predictions
import rundata
import wording


def matrix_that_counts(run, split):
    """Confusion matrix of the selected evaluation, or of the last one that has a matrix, and a description of that
    evaluation; or None."""
    found = run.evaluations[split].get("confusion_matrix", [])
    row, which = rundata.chosen(run, split)
    if row is None or row >= len(found) or found[row].sum() == 0:
        row, which = next((row for row in range(len(found) - 1, -1, -1) if found[row].sum() > 0), None), "last with counts"
    return None if row is None else (np.asarray(found[row], dtype=float), rundata.described(run, split, row, which))


def matrices(run):
    """(split, counts, description of the evaluation, class names) of each matrix; the split is "predictions" for a run
    that only predicted."""
    found = []
    for split in rundata.in_order(run.evaluations):
        counted = matrix_that_counts(run, split)
        if counted is not None:
            found.append((split, *counted, run.label_names))
    if not found:
        counted = predictions.confusion(run)
        if counted is not None:
            names, counts = counted
            found.append(("predictions", counts, "", names))
    return found


# Inches of a cell and points of text, by the number of classes: with 33 classes a cell of 0.27 inch still fits a label
# of 8 points.
SIZES = [(8, 0.62, 10), (16, 0.46, 10), (60, 0.27, 8), (float("inf"), 0.16, 5)]
MOST_WITH_NUMBERS = 16


def sizes_of(classes, style):
    """Figure width and height in inches, and points of the class names."""
    _, cell, points = next(entry for entry in SIZES if classes <= entry[0])
    scale = (style.font_size or drawing.FONT_SIZE) / drawing.FONT_SIZE
    side = max(cell * scale * classes, 1.8 * scale)
    width, height = side + 4.1 * scale, side + 2.4 * scale
    if style.width:  # the remaining width is text
        side = max(style.width - 4.1 * scale, 0.3 * style.width)
        points = min(points * scale, 72 * side / classes) / scale
        width, height = style.width, side + 2.4 * scale
    return width, height, points * scale


def write_numbers(axes, counts, shares, style, points):
    most = counts.max()
    for row, column in np.ndindex(*counts.shape):
        if shares[row, column] < 0.005:
            continue
        text = f"{int(counts[row, column]):,}" if style.counts else f"{100 * shares[row, column]:.0f}"
        dark = counts[row, column] > 0.6 * most if style.counts else shares[row, column] > 0.6
        axes.text(column, row, text, ha="center", va="center", fontsize=points, color="white" if dark else "black")


def draw_matrix(counts, names, title, style=drawing.USUAL, kind="class", counted="samples"):
    """The rows' labels have the number of samples, or words, of the class."""
    classes = len(counts)
    names = [wording.begun(name) for name in (names if len(names) == classes else [str(i) for i in range(classes)])]
    sums = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0)
    width, height, points = sizes_of(classes, style)
    figure, axes = drawing.plt.subplots(figsize=(width, height))
    image = axes.imshow(counts if style.counts else 100 * shares, cmap="Blues", vmin=0, vmax=None if style.counts else 100)
    axes.set_xticks(range(classes), names, rotation=90 if classes > 6 else 30, fontsize=points,
                    ha="center" if classes > 6 else "right", rotation_mode="anchor" if classes <= 6 else None)
    axes.set_yticks(range(classes), [f"{name} ({int(own):,})" for name, own in zip(names, sums[:, 0])], fontsize=points)
    axes.grid(False)
    axes.set_xticks(np.arange(classes + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(classes + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", color="#EEEEEE", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    if classes <= MOST_WITH_NUMBERS:
        write_numbers(axes, counts, shares, style, points)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30, pad=0.02)
    bar.set_label(wording.capital(counted) if style.counts else f"% of the actual {kind}")
    if style.counts:
        bar.ax.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(6, integer=True))
    axes.set(xlabel=f"Predicted {kind}", ylabel=f"Actual {kind} ({counted})")
    figure.suptitle(title)  # a panel title would be off-centre and too wide for narrow pictures
    return figure


# Of a task, what the rows are and what is counted.
KINDS = {"token_classification": ("tag", "words"), "regression": ("level", "samples")}


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        for split, counts, which, names in matrices(run):
            total = counts.sum()
            accuracy = np.trace(counts) / total
            kind, counted = KINDS.get(run.task, ("class", "samples"))
            figures = f"accuracy {accuracy:.3f} on {int(total):,} {counted}" + (f"; {which}" if which else "")
            title = "Confusion matrix" + ("" if split == "predictions" else f" ({split})")
            name = f"confusion_matrix-{split}" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_matrix(counts, names, style.title_of(title, [run], figures), style, kind, counted)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
