"""predictions.csv with the texts: each row's number identifies its row in the input files of bert_hpc_prep."""

import csv

import wording
from atomic import written
from rundata import ReportError
from source_rows import form_of, rows_of, text_in


def add_options(parser):
    group = parser.add_argument_group("predictions with texts")
    group.add_argument("--text", action="append", metavar="SOURCE",
                       help="write predictions.csv with the texts of this file (.csv, .tsv, .jsonl, .parquet, else a row per line); repeat it "
                            "for several files, in the order of bert_hpc_prep's files, validation_files and test_files")
    group.add_argument("--text-column", action="append", metavar="NAME", help="column of SOURCE (default: text); may be repeated")


def name_of(column, names):
    """The name of a column, or of one that is given by its number from 1; None where there is none."""
    by_number = names[int(column) - 1] if column.isdecimal() and 0 < int(column) <= len(names) else None
    return column if column in names else by_number


def texts_of(paths, columns, needed, form=None):
    """{row: its texts} of the rows in `needed`; rows are counted from 0 over all files. Without `form` the files' names say how they
    are written."""
    found, number = {}, 0
    for path in paths:
        try:
            rows = rows_of(path, form or form_of(path))
            names = next(rows)
            given_names = {column: name_of(column, names) for column in columns}
            absent = [column for column in columns if given_names[column] is None]
            if absent:
                raise ReportError(f"'{path}' has no column {absent[0]!r}; it has {', '.join(map(repr, names))}. Choose with "
                                  "--text-column.")
            for row in rows:
                if number in needed:
                    found[number] = [text_in(row.get(given_names[column])) for column in columns]
                number += 1
        except OSError as problem:
            raise ReportError(f"Cannot read '{path}': {problem.strerror}.") from None
        except ValueError as problem:
            raise ReportError(f"Cannot read '{path}': {problem}.") from None
        except (AttributeError, KeyError, TypeError):
            raise ReportError(f"Cannot read '{path}': it has another form now.") from None
    if len(found) < len(needed):
        raise ReportError(f"{', '.join(map(str, paths))}: {number:,} rows; the predictions are of rows up to {max(needed):,}. Name with "
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
