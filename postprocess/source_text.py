"""predictions.csv with the texts: each row's number identifies its row in the input files of bert_hpc_prep."""

import csv
import json
import pathlib

import wording
from atomic import written
from rundata import ReportError


def add_options(parser):
    group = parser.add_argument_group("predictions with texts")
    group.add_argument("--text", action="append", metavar="SOURCE",
                       help="write predictions.csv with the texts of this file (.csv, .tsv, .jsonl, else a row per line); repeat it "
                            "for several files, in the order of bert_hpc_prep's files, validation_files and test_files")
    group.add_argument("--text-column", action="append", metavar="NAME", help="column of SOURCE (default: text); may be repeated")


def rows_of_table(path, delimiter, quoting):
    csv.field_size_limit(1 << 30)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=delimiter, quoting=quoting)
        yield list(reader.fieldnames or [])
        yield from reader


def rows_of_json(path):
    with open(path, encoding="utf-8-sig") as file:
        lines = (json.loads(line) for line in file if line.strip())
        first = next(lines, {})
        yield list(first)
        yield first
        yield from lines


def rows_of_lines(path):
    yield ["text"]
    with open(path, encoding="utf-8-sig") as file:
        yield from ({"text": line.rstrip("\r\n")} for line in file if line.strip())


def rows_of(path):
    """Yields the column names, then each row as a dict; blank lines do not count as rows, as in bert_hpc_prep."""
    suffix = pathlib.Path(path).suffix.lower()
    if suffix == ".csv":
        return rows_of_table(path, ",", csv.QUOTE_MINIMAL)
    if suffix == ".tsv":
        return rows_of_table(path, "\t", csv.QUOTE_NONE)
    return rows_of_json(path) if suffix == ".jsonl" else rows_of_lines(path)


def texts_of(paths, columns, needed):
    """{row: its texts} of the rows in `needed`; rows are counted from 0 over all files."""
    found, number = {}, 0
    for path in paths:
        try:
            rows = rows_of(path)
            names = next(rows)
            absent = [column for column in columns if column not in names]
            if absent:
                raise ReportError(f"'{path}' has no column {absent[0]!r}; it has {', '.join(map(repr, names))}. Choose with "
                                  "--text-column.")
            for row in rows:
                if number in needed:
                    found[number] = [row[column] or "" for column in columns]
                number += 1
        except OSError as problem:
            raise ReportError(f"Cannot read '{path}': {problem.strerror}.") from None
        except (UnicodeDecodeError, ValueError, csv.Error) as problem:
            raise ReportError(f"Cannot read '{path}': {problem}.") from None
    if len(found) < len(needed):
        raise ReportError(f"{', '.join(paths)}: {number:,} rows; the predictions are of rows up to {max(needed):,}. Name with "
                          "--text the files that bert_hpc_prep read, in the same order.")
    return found


def predicted_rows(path):
    """The lines of a run's predictions.csv as lists, the header first."""
    with open(path, newline="", encoding="utf-8") as file:
        yield from csv.reader(file)


def write_all(runs, options, output):
    """Writes DIR/predictions.csv for every run that has one; returns the paths."""
    columns, paths = options.text_column or ["text"], []
    for run in runs:
        source = run.path / "predictions.csv"
        if not source.is_file():
            continue
        target = output / wording.file_name("predictions" + (f"-{run.name}" if len(runs) > 1 else "") + ".csv")
        if target.resolve() == source.resolve():
            raise ReportError(f"'{source}' would be replaced: choose another folder with --output.")
        rows = predicted_rows(source)
        next(rows, None)
        texts = texts_of(options.text, columns, {int(row[0]) for row in rows})
        rows = predicted_rows(source)
        with written(target) as file:
            writer = csv.writer(file, lineterminator="\n")
            header = next(rows, [])
            writer.writerow(header + [f"source_{name}" if name in header else name for name in columns])
            for row in rows:
                writer.writerow(row + texts[int(row[0])])
        paths.append(target)
    if not paths:
        raise ReportError("There is no predictions.csv for --text: tasks with labels write it for a test split.")
    return paths
