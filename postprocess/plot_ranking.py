"""ROC and precision-recall curves with the areas below them, from predictions.h5 with labels: the second of two classes against the
first, each of several classes against the others, or each label name of sets."""

import collections
import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import predictions
import ranking
import wording

MOST = len(drawing.COLOURS)  # curves, so that each has a colour of its own; the most frequent classes or names
POINTS = 2000  # of a curve, drawn at most

Ranked = collections.namedtuple("Ranked", "name scores positive")


def scores_of_second(probabilities):
    """The difference of the two logits, as of the metric roc_auc: near 1 a probability in single precision has fewer digits."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities[:, 1].astype(float)) - np.log(probabilities[:, 0].astype(float))


def ranked_classes(run):
    """The classes or names to draw, and how many could be; a class that no sample has, or that all have, has no curve."""
    data = run.predictions
    if data is None or data["task"] not in ("classification", "multi_label") or data.get("outputs", 0) < 1:
        return [], 0
    labels, names, sets = predictions.labels(run), data["label_names"], data["task"] == "multi_label"
    known = np.flatnonzero(predictions.known(labels).reshape(len(labels), -1).all(axis=1))
    outputs = data["outputs"]
    frequency = labels[known].sum(axis=0) if sets else np.bincount(labels[known], minlength=outputs)
    candidates = [1] if outputs == 2 and not sets else range(outputs)
    candidates = [number for number in candidates if 0 < frequency[number] < len(known)]
    drawn = sorted(sorted(candidates, key=lambda number: -frequency[number])[:MOST])
    if not drawn:
        return [], 0
    columns = predictions.probabilities(run, [0, 1] if outputs == 2 and not sets else drawn)[known]
    scores = [scores_of_second(columns)] if outputs == 2 and not sets else [column.astype(float) for column in columns.T]
    found = [Ranked(names[number] if number < len(names) else str(number), own, labels[known, number] == 1 if sets else labels[known] == number)
             for number, own in zip(drawn, scores)]
    return [one for one in found if np.isfinite(one.scores).any() and not np.isnan(one.scores).any()], len(candidates)


def thinned(x, y):
    at = np.unique(np.linspace(0, len(x) - 1, POINTS).astype(int))
    return np.asarray(x)[at], np.asarray(y)[at]


def draw_run(run, curves, candidates, style):
    figure, (left, right) = style.subplots(1, 2, 10.5, 5)
    handles, width = [], 1.8 if len(curves) < 4 else 1.3
    wide, high = figure.get_size_inches()
    columns = 2 if len(curves) > 1 and wide > 9 * style.scale else 1
    longest = int(wide / columns / style.scale / 0.07) - 50  # characters of a name: a letter of a legend is about 0.07 inch wide
    for curve, colour in zip(curves, drawing.palette(len(curves))):
        wrong, hits, area = ranking.roc(curve.scores, curve.positive)
        recall, precision, average = ranking.precision_recall(curve.scores, curve.positive)
        left.plot(*thinned(wrong, hits), color=colour, linewidth=width)
        # A step's precision is that of its right end, so that the area below the line is the average precision.
        right.plot(*thinned(np.append(0, recall), np.append(precision[0], precision)), color=colour, linewidth=width,
                   drawstyle="steps-pre")
        label = f"{wording.begun(curve.name, max(8, longest))}: ROC AUC {area:.3f}, average precision {average:.3f}"
        handles.append(drawing.plt.Line2D([], [], color=colour, linewidth=3, label=label))
    left.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--")
    left.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel="False positive rate", ylabel="True positive rate (recall)")
    right.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel="Recall", ylabel="Precision")
    samples = len(curves[0].positive)
    details = f"{samples:,} samples" + (f"; the {len(curves)} most frequent of {candidates}" if candidates > len(curves) else "")
    figure.suptitle(style.title_of(f"Ranking ({predictions.split_of(run)})", [run], details))
    figure.set_size_inches(wide, high + 0.22 * style.scale * -(-len(curves) // columns))
    drawing.legend_below(figure, columns, handles=handles)
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        curves, candidates = ranked_classes(run)
        if curves:
            name = "ranking" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_run(run, curves, candidates, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
