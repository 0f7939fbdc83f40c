"""Confusion matrix of each split, of the model that the run keeps (or the last), or of a run's predictions where it has none: rows
are actual classes, columns predicted ones, each row divided by its sum, so that the diagonal is the recall of each class."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import predictions
import rundata
import wording


def matrix_that_counts(run, split):
    """Counts of the evaluation that counts, or of the last that has any, and which that is; or nothing."""
    found = run.evaluations[split].get("confusion_matrix", [])
    row, which = rundata.chosen(run, split)
    if row is None or row >= len(found) or found[row].sum() == 0:
        row, which = next((row for row in range(len(found) - 1, -1, -1) if found[row].sum() > 0), None), "last that has counts"
    return None if row is None else (np.asarray(found[row], dtype=float), rundata.described(run, split, row, which))


def matrices(run):
    """(split, counts, which evaluation, class names) of each; the split of a run that only predicted is "predictions"."""
    found = []
    for split in sorted(run.evaluations):
        counted = matrix_that_counts(run, split)
        if counted is not None:
            found.append((split, *counted, run.label_names))
    if not found:
        counts = predictions.confusion(run)
        if counts is not None:
            found.append(("predictions", counts, "", run.predictions["label_names"]))
    return found


def draw_matrix(counts, names, title):
    classes = len(counts)
    names = [wording.begun(name) for name in (names if len(names) == classes else [str(i) for i in range(classes)])]
    sums = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0)
    # At 33 classes a cell of 0.27 inch still carries a label of 8 points on each axis.
    cell = 0.62 if classes <= 8 else 0.46 if classes <= 16 else 0.27 if classes <= 60 else 0.16
    font = 10 if classes <= 16 else 8 if classes <= 60 else 5
    side = cell * classes
    figure, axes = plt.subplots(figsize=(max(side + 3.4, 5.2), max(side + 2.4, 4.2)))
    image = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
    axes.set_xticks(range(classes), names, rotation=90 if classes > 6 else 30, fontsize=font,
                    ha="center" if classes > 6 else "right", rotation_mode="anchor" if classes <= 6 else None)
    axes.set_yticks(range(classes), names, fontsize=font)
    axes.grid(False)
    axes.set_xticks(np.arange(classes + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(classes + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", color="#EEEEEE", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    if classes <= 16:
        for row, column in np.ndindex(classes, classes):
            if shares[row, column] >= 0.005:
                axes.text(column, row, f"{100 * shares[row, column]:.0f}", ha="center", va="center", fontsize=font,
                          color="white" if shares[row, column] > 0.6 else "black")
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30, pad=0.02)
    bar.set_label("% of the actual class")
    axes.set(xlabel="Predicted class", ylabel="Actual class", title=title)
    return figure


def draw(runs):
    """One after the other, so that only one is open: there may be many."""
    for run in runs:
        for split, counts, which, names in matrices(run):
            total = counts.sum()
            accuracy = np.trace(counts) / total
            figures = f"accuracy {accuracy:.3f} on {int(total):,} samples" + (f"; {which}" if which else "")
            title = f"Confusion matrix: {wording.shortened(run.name, 36)}, {split}\n{figures}"
            name = f"confusion_matrix-{split}" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_matrix(counts, names, title)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
