"""The table of probabilities of a multi_label run, as Kaggle's competitions and `bert_hpc_score multilabel` take it: a header with "id" and
the label names, and a line per row of the test file, in its order. Ids are the column --id of the test files; without --text they are the
numbers of the rows, from 0."""

import argparse
import csv
import pathlib
import sys

import command  # first: it reports missing packages

import atomic
import predictions
import reading
import source_text
from rundata import ReportError


def ids_of(rows, texts, column):
    """{row: its id}."""
    if not texts:
        return {row: str(row) for row in rows}
    return {row: cells[0] for row, cells in source_text.texts_of(texts, [column], set(rows)).items()}


def lines(run, texts, column):
    """The header, and the lines in the order of the rows."""
    found = run.predictions
    if found["task"] != "multi_label":
        raise ReportError(f"The table needs predictions of multi_label, and those of '{run.path}' are of {found['task']}.")
    rows = found["source_index"].tolist()
    ids = ids_of(rows, texts, column)
    if len(set(ids.values())) < len(rows):
        raise ReportError(f"The {len(rows)} predictions of '{run.path}' have {len(set(ids.values()))} different ids: choose another column with "
                          "--id, and prepare the test file without doc_stride.")
    probabilities = (row for _, part in predictions.parts(run) for row in part)
    numbered = sorted(zip(rows, probabilities), key=lambda entry: entry[0])
    return ["id", *found["label_names"]], [[ids[row], *map(str, own)] for row, own in numbered]


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="directory of a run with predictions of multi_label")
    parser.add_argument("--text", action="append", metavar="SOURCE", help="file that bert_hpc_prep read; repeat it for several, in its order")
    parser.add_argument("--id", default="id", metavar="NAME", help="column of SOURCE with the ids (default: id)")
    parser.add_argument("--output", metavar="FILE", help="default: RUN/multi_label.csv")
    options = parser.parse_args(given)

    def action():
        run = reading.load_predicted(options.run)
        header, table = lines(run, options.text, options.id)
        path = pathlib.Path(options.output or run.path / "multi_label.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.written(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(table)
        print(path)
        return 0

    return command.guarded(action)


if __name__ == "__main__":
    sys.exit(main())
