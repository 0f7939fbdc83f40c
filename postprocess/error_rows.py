"""The worst predicted rows of a run with labels: of classification and multi_label by their loss, of regression by their absolute
error."""

import collections

import numpy as np

import predictions

MOST = 100  # rows in the CSV file
SMALLEST = 2.0**-149  # above 0 in single precision: where a probability was rounded to 0, the loss counts as 103.3
NEXT_TO_ONE = 2.0**-25  # 1 − p where p was rounded to 1, at most: the loss counts as 17.3

# What the tables of errors list. `title`: of the section in summary.md. `header`: names of the cells.
# `lines`: the worst first. `columns`: names of the texts, from those of the source (firsts, seconds) that predictions were made of.
Worst = collections.namedtuple("Worst", "title header lines columns", defaults=(lambda firsts, seconds: [*firsts, *seconds],))
# `rows`: of the source, with `labels` there, whose texts belong to the line; the first with all its texts, others with the second ones.
# `texts`: those that need no source. `about`: what an excerpt of a long text should show, where the text has it.
Line = collections.namedtuple("Line", "cells rows labels texts about", defaults=((), (), (), ""))


def name_of(data, number):
    names = data["label_names"]
    return names[number] if 0 <= number < len(names) else str(number)


def names_of(data, row):
    return ",".join(name_of(data, number) for number in np.flatnonzero(row == 1))


def worst(severity, known):
    """The rows with the largest severity first, equal ones in the data's order."""
    rows = np.flatnonzero(known & np.isfinite(severity))
    return rows[np.argsort(-severity[rows], kind="stable")[:MOST]]


def of_classes(run, labels):
    data, known = run.predictions, predictions.known(labels)
    taken = np.maximum(labels, 0)
    own = [part[np.arange(len(part)), taken[begin : begin + len(part)]] for begin, part in predictions.parts(run)]
    own = np.concatenate(own).astype(float)
    loss = -np.log(np.maximum(own, SMALLEST))
    header = ["loss", "label", "prediction", "probability_of_label", "probability_of_prediction"]
    return header, [(row, [loss[row], name_of(data, labels[row]), name_of(data, data["prediction"][row]), own[row],
                           float(data["probability"][row])]) for row in worst(loss, known)]


def of_sets(run, labels):
    """The loss is the mean over the names."""
    data, known = run.predictions, predictions.known(labels).all(axis=1)
    losses = []
    for begin, part in predictions.parts(run):
        part = part.astype(float)
        right = np.where(labels[begin : begin + len(part)] == 1, np.maximum(part, SMALLEST), np.maximum(1 - part, NEXT_TO_ONE))
        losses.append(-np.log(right).mean(axis=1))
    loss = np.concatenate(losses)
    return ["loss", "label", "prediction"], [(row, [loss[row], names_of(data, labels[row]), names_of(data, data["prediction"][row])])
                                             for row in worst(loss, known)]


def of_value_columns(run, labels):
    """By the largest error of a row's columns, each in deviations of the column's labels."""
    error = np.asarray(run.predictions["prediction"], dtype=float) - labels
    spread = [np.std(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0 for column in labels.T]
    severity = np.nan_to_num(np.abs(error) / [each or 1.0 for each in spread], nan=-1.0)
    column = severity.argmax(axis=1)
    found = []
    for row in worst(severity.max(axis=1), severity.max(axis=1) >= 0):
        at = (row, column[row])
        found.append((row, [error[at], name_of(run.predictions, column[row]), float(labels[at]), float(run.predictions["prediction"][at])]))
    return ["error", "column", "label", "prediction"], found


def of_values(run, labels):
    if labels.ndim > 1:
        return of_value_columns(run, labels)
    predicted = np.asarray(run.predictions["prediction"], dtype=float)
    error = predicted - labels
    return ["error", "label", "prediction"], [(row, [error[row], float(labels[row]), predicted[row]])
                                              for row in worst(np.abs(error), predictions.known(labels))]


KINDS = {"classification": of_classes, "multi_label": of_sets, "regression": of_values}


def of_run(run):
    """None where labels or probabilities are absent."""
    data = run.predictions
    if data is None or data["task"] not in KINDS or (data["task"] != "regression" and data.get("outputs", 0) < 1):
        return None
    labels = predictions.labels(run)
    if not predictions.known(labels).any():
        return None
    header, found = KINDS[data["task"]](run, labels)
    numbers = [int(data["source_index"][row]) for row, _ in found]
    return Worst("Largest errors", ["row", *header],
                 [Line([str(number), *cells], [number], [cells[1]]) for number, (_, cells) in zip(numbers, found)])
