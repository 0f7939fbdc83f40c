"""Predictions for samples without labels: the frequency of each class and the probabilities; the histogram of the
predicted values; or the number of predicted entities of each type. With labels, the confusion matrix and the regression picture replace it."""

import sys

import command  # first: it reports missing packages

import numpy as np
from matplotlib.ticker import MaxNLocator

import drawing
import predicted_entities
import predictions
import wording

MOST = 40  # maximum number of classes drawn


def draw_histogram(axes, values, label):
    drawing.draw_histogram(axes, values, np.median(values), f"median {np.median(values):.3f}")
    axes.set(xlabel=label)
    axes.legend()


def draw_classes(run, predicted, title, style):
    names = run.predictions["label_names"]
    numbers, counts = np.unique(predicted, return_counts=True)
    order = np.argsort(counts, kind="stable")[-MOST:]
    labels = [names[number] if 0 <= number < len(names) else str(number) for number in numbers[order]]
    sure = np.asarray(run.predictions.get("probability", []), dtype=float)
    sure = sure[np.isfinite(sure)]
    panels = 2 if len(sure) > 1 else 1
    figure, grid = style.bars(1, panels, 5.6 * panels, max(4.4, 1.4 + 0.24 * len(order)), squeeze=False)
    axes = grid[0][0]
    axes.barh(range(len(order)), counts[order], color=drawing.colour(0), height=0.72)
    axes.set_yticks(range(len(order)), [wording.begun(label) for label in labels],
                    fontsize="medium" if len(order) <= 20 else "small")
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.grid(False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    some = "" if len(order) == len(numbers) else f" (the {len(order)} most frequent of {len(numbers)})"
    axes.set(xlabel="Samples", ylabel="Predicted class" + some)
    if panels > 1:
        draw_histogram(grid[0][1], sure, "Probability of the predicted class")
    figure.suptitle(title)
    return figure


def draw_entities(run, kind, counts, words, style):
    shown = counts.most_common(MOST)[::-1]
    figure, axes = style.bars(1, 1, 7, max(3.2, 1.6 + 0.26 * len(shown)))
    axes.barh(range(len(shown)), [count for _, count in shown], color=drawing.colour(0), height=0.72)
    axes.set_yticks(range(len(shown)), [f"{wording.begun(name)} ({count:,})" for name, count in shown])
    axes.grid(False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    some = "" if len(shown) == len(counts) else f" (the {len(shown)} most frequent of {len(counts)})"
    axes.set(xlabel=f"Predicted {kind}", ylabel=("Entity type" if kind == "entities" else "Label") + some)
    axes.set_title(style.title_of("Predictions", [run], f"{words:,} words without tags"))
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        data, found = run.predictions, predicted_entities.counts(run)
        if found is not None and found[1]:
            yield wording.file_name("predictions" + (f"-{run.name}" if len(runs) > 1 else "")), draw_entities(run, *found, style)
            continue
        if data is None or data["task"] not in ("classification", "regression") or predictions.known(predictions.labels(run)).any():
            continue
        several = data["label_names"] if data["prediction"].ndim > 1 else [""]
        for column, values in zip(several, np.atleast_2d(data["prediction"].T)):
            predicted = values[np.isfinite(values)]
            if len(predicted) < 2:
                continue
            title = style.title_of("Predictions", [run], f"{len(predicted):,} samples without labels")
            if data["task"] == "classification":
                figure = draw_classes(run, predicted, title, style)
            else:
                figure, axes = style.subplots(1, 1, 7, 4.4)
                draw_histogram(axes, predicted.astype(float), f"Predicted {column or style.label_name or data.get('label_column') or 'value'}")
                axes.set_title(title)
            name = "predictions" + (f"-{run.name}" if len(runs) > 1 else "") + (f"-{column}" if column else "")
            yield wording.file_name(name), figure


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
