"""predictions.csv with the texts: each row's number identifies its row in the input files of bert_hpc_prep."""

import collections
import csv
import gzip
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


# How the rows of a file are written: `form` is "csv", "tsv", "jsonl" or "text"; the other fields are of the first two, as in [source]
# of bert_hpc_prep.
Form = collections.namedtuple("Form", "form delimiter quotes header columns encoding", defaults=(",", True, True, 0, "utf-8-sig"))
FORMS = {".csv": Form("csv"), ".tsv": Form("tsv", "\t", False), ".jsonl": Form("jsonl")}


def form_of(path):
    return FORMS.get(pathlib.Path(path).suffix.lower(), Form("text"))


def opened(path, form, **options):
    """A text file, compressed with gzip or not."""
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return (gzip.open if compressed else open)(path, "rt", encoding=form.encoding, **options)


def records(file, form):
    if form.quotes:
        yield from (record for record in csv.reader(file, delimiter=form.delimiter) if record)
    else:
        most = form.columns - 1 if form.columns else -1
        yield from (line.rstrip("\r\n").split(form.delimiter, most) for line in file if line.strip("\r\n"))


def rows_of_table(path, form):
    csv.field_size_limit(1 << 30)
    with opened(path, form, newline="" if form.quotes else None) as file:
        rows = records(file, form)
        first = next(rows, [])
        names = first if form.header else [str(number) for number in range(1, len(first) + 1)]
        yield names
        if not form.header:
            yield dict(zip(names, first))
        yield from (dict.fromkeys(names) | dict(zip(names, row)) for row in rows)


def rows_of_json(path, form):
    with opened(path, form) as file:
        lines = (json.loads(line) for line in file if line.strip())
        first = next(lines, {})
        yield list(first)
        yield first
        yield from lines


def rows_of_lines(path, form):
    yield ["text"]
    with opened(path, form) as file:
        yield from ({"text": line.rstrip("\r\n")} for line in file if line.strip())


def rows_of(path, form):
    """Yields the column names, then each row as a dict; blank lines do not count as rows, as in bert_hpc_prep."""
    reader = {"jsonl": rows_of_json, "text": rows_of_lines}.get(form.form, rows_of_table)
    return reader(path, form)


def text_in(value):
    """A cell as text; JSON has other values than strings."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def texts_of(paths, columns, needed, form=None):
    """{row: its texts} of the rows in `needed`; rows are counted from 0 over all files. Without `form` the files' names say how they
    are written."""
    found, number = {}, 0
    for path in paths:
        try:
            rows = rows_of(path, form or form_of(path))
            names = next(rows)
            absent = [column for column in columns if column not in names]
            if absent:
                raise ReportError(f"'{path}' has no column {absent[0]!r}; it has {', '.join(map(repr, names))}. Choose with "
                                  "--text-column.")
            for row in rows:
                if number in needed:
                    found[number] = [text_in(row.get(column)) for column in columns]
                number += 1
        except OSError as problem:
            raise ReportError(f"Cannot read '{path}': {problem.strerror}.") from None
        except (UnicodeDecodeError, ValueError, csv.Error) as problem:
            raise ReportError(f"Cannot read '{path}': {problem}.") from None
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
