"""GLUE's submission file of one task from a run's predictions.h5: the header "index<tab>prediction" and a line per row of
the task's test.tsv, in that order. The shards must come from test.tsv alone, so that source_index is GLUE's index."""

import argparse
import pathlib
import sys

import command  # first: it reports missing packages

import numpy as np

import atomic
import reading
from rundata import ReportError

BINARY, ENTAILMENT = ["0", "1"], ["entailment", "not_entailment"]
NLI = ["contradiction", "entailment", "neutral"]
# The file's name without .tsv, and the labels that it may hold; none: numbers.
TASKS = {"CoLA": BINARY, "SST-2": BINARY, "MRPC": BINARY, "STS-B": None, "QQP": BINARY, "MNLI-m": NLI, "MNLI-mm": NLI,
         "QNLI": ENTAILMENT, "RTE": ENTAILMENT, "WNLI": BINARY, "AX": NLI}


def values(run, task):
    """A text per prediction."""
    labels, found = TASKS[task], run.predictions
    needed = "regression" if labels is None else "classification"
    if found["task"] != needed:
        raise ReportError(f"{task} needs predictions of a {needed}, and those of '{run.path}' are of {found['task']}.")
    if labels is None:
        return [f"{value:.6g}" for value in found["prediction"]]
    names = found["label_names"]
    if not set(names) <= set(labels):
        raise ReportError(f"'{run.path}' predicts {', '.join(names)}, and the labels of {task} are {', '.join(labels)}.")
    return [names[label] for label in found["prediction"]]


def lines(run, task, rows=None, missing=None):
    """(index, prediction) in the order of indices. `rows`: number of rows of test.tsv (default: as far as the predictions
    go); `missing`: the prediction of rows that have none, which bert_hpc_prep rejected."""
    index = run.predictions["source_index"]
    count = int(index.max(initial=-1)) + 1 if rows is None else rows
    predictions = dict(zip(index.tolist(), values(run, task)))
    if len(predictions) < len(index) or max(predictions, default=-1) >= count:
        raise ReportError(f"The predictions of '{run.path}' are not one per row of test.tsv: prepare that file alone, without "
                          "doc_stride, and give its number of rows.")
    absent = np.setdiff1d(np.arange(count), index)
    if len(absent) > 0 and missing is None:
        raise ReportError(f"'{run.path}' has no prediction for {len(absent)} rows, the first has the index {absent[0]}. Prepare "
                          "test.tsv alone; if bert_hpc_prep rejected the rows, give their prediction with --missing.")
    return [(row, predictions.get(row, missing)) for row in range(count)]


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=list(TASKS), help="names the file: TASK.tsv")
    parser.add_argument("run", metavar="RUN", help="directory of a run with predictions of the task's test.tsv")
    parser.add_argument("--output", metavar="DIR", help="where TASK.tsv goes (default: RUN)")
    parser.add_argument("--rows", type=int, metavar="N", help="rows of test.tsv (default: up to the last predicted row)")
    parser.add_argument("--missing", metavar="LABEL", help="prediction of rows that bert_hpc_prep rejected")
    options = parser.parse_args(given)

    def action():
        run = reading.load_predicted(options.run)
        found = lines(run, options.task, options.rows, options.missing)
        folder = pathlib.Path(options.output or run.path)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{options.task}.tsv"
        with atomic.written(path) as file:
            file.write("index\tprediction\n")
            file.writelines(f"{row}\t{prediction}\n" for row, prediction in found)
        print(path)
        return 0

    return command.guarded(action)


if __name__ == "__main__":
    sys.exit(main())
