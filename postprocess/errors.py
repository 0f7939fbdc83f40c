"""The worst predicted rows of each run with labels: of classification and multi_label by their loss, of regression by their absolute
error; with their texts where the files that bert_hpc_prep read are still there."""

import numpy as np

import predictions
import prepared_text
import source_text
import tables
import wording

MOST = 100  # rows in the CSV file
SHOWN = 10  # rows in summary.md
WIDEST = 300  # characters of a text there
SMALLEST = 2.0**-149  # above 0 in single precision: where a probability was rounded to 0, the loss counts as 103.3
NEXT_TO_ONE = 2.0**-25  # 1 − p where p was rounded to 1, at most: the loss counts as 17.3


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


def of_values(run, labels):
    predicted = np.asarray(run.predictions["prediction"], dtype=float)
    error = predicted - labels
    return ["error", "label", "prediction"], [(row, [error[row], float(labels[row]), predicted[row]])
                                              for row in worst(np.abs(error), predictions.known(labels))]


KINDS = {"classification": of_classes, "multi_label": of_sets, "regression": of_values}


def of_run(run):
    """Names of columns, and (number of the prediction, cells) of the worst rows; no rows where labels or probabilities are absent."""
    data = run.predictions
    if data is None or data["task"] not in KINDS or (data["task"] != "regression" and data.get("outputs", 0) < 1):
        return [], []
    labels = predictions.labels(run)
    return KINDS[data["task"]](run, labels) if predictions.known(labels).any() else ([], [])


def same_label(task, text, label):
    """Is the label in the source that of the shards? Of sets it is not asked, as rare names may have been left out."""
    if task != "regression":
        return task != "classification" or text.startswith(label)
    try:
        return abs(float(text) - label) <= 1e-6 * abs(label)  # shards hold single precision
    except ValueError:
        return False


def texts_of(run, options, rows, labels):
    """Names of columns, {row of the source: texts}, and a sentence about what is missing, "" where nothing is."""
    if options.text:
        columns = options.text_column or ["text"]
        return columns, source_text.texts_of(options.text, columns, set(rows)), ""
    try:
        columns, found = prepared_text.texts_of(run, rows)
    except prepared_text.Missing as problem:
        return [], {}, f"Without texts: {problem}."
    task = run.predictions["task"]
    if any(len(found[row]) > len(columns) and not same_label(task, found[row][-1], label) for row, label in zip(rows, labels)):
        return [], {}, "Without texts: the files that prep.toml beside the shards names have other labels now."
    return columns, {row: cells[: len(columns)] for row, cells in found.items()}, ""


def cell(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def section(run, header, rows, texts, missing):
    """The part of summary.md."""
    lines = [[tables.number(value) if isinstance(value, float) else value for value in row[: len(header)]]
             + [wording.begun(" ".join(text.split()), WIDEST) for text in row[len(header) :]] for row in rows[:SHOWN]]
    table = tables.as_markdown(header + texts, lines, "errors", len(texts))
    return f"## Largest errors: {run.name}\n\n" + "\n\n".join([table] + [missing] * bool(missing))


def write_all(runs, options, output):
    """Writes errors.csv for every run with known labels; returns the sections of summary.md and the paths."""
    sections, paths = [], []
    for run in runs:
        own, found = of_run(run)
        if not found:
            continue
        rows = [int(run.predictions["source_index"][number]) for number, _ in found]
        columns, texts, missing = texts_of(run, options, rows, [cells[1] for _, cells in found])
        header = ["row", *own]
        lines = [[row, *map(cell, cells), *texts.get(row, [])] for row, (_, cells) in zip(rows, found)]
        paths.append(output / wording.file_name("errors" + (f"-{run.name}" if len(runs) > 1 else "") + ".csv"))
        tables.write_csv(paths[-1], header + columns, lines)
        shown = [[str(row), *cells, *texts.get(row, [])] for row, (_, cells) in zip(rows, found)]
        sections.append(section(run, header, shown, columns, missing))
    return sections, paths
