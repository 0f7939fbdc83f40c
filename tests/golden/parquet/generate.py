#!/usr/bin/env python3
"""Writes small Parquet files, and rows.json: the texts of their rows, from pyarrow's own reading.

    python3 generate.py    needs pyarrow and datasets; writes beside itself; tests/unit/prep/test_parquet_rows.cpp and
                           tests/integration/test_parquet.py read the files
"""

import json
import math
import pathlib

import datasets
import numpy
import pyarrow
import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["plain text", "caf\u00e9 \u65e5\u672c", "", None, 'quotes " and, commas', "line\nfeed", "\U0001f600 it's", "plain text", "again", "again"]
NAMES = ["World", "Sports", "Business", "Sci/Tech"]
EMOTIONS = ["joy", "anger", "fear"]
TAGS = ["O", "B-PER", "I-PER"]
expected = {}


def text_of(value, kind=None, names=()):
    """A cell as bert_hpc_prep is to read it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)) or (names and value == -1):
        return ""
    if isinstance(value, list):
        return "|".join(text_of(entry, kind, names) for entry in value)
    if names:
        return names[value]
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind is not None and pyarrow.types.is_float32(kind):
        value = float(str(numpy.float32(value)))
    return value if isinstance(value, str) else value.decode() if isinstance(value, bytes) else json.dumps(value)


def note(path, classes={}, columns=None):
    """Notes what pyarrow reads in a file, in these columns or all. classes: {column: names}."""
    table = pyarrow.parquet.read_table(path, columns=columns)
    kinds = {field.name: field.type.value_type if pyarrow.types.is_list(field.type) else field.type for field in table.schema}
    lists = [field.name for field in table.schema if pyarrow.types.is_list(field.type)]
    rows = [[text_of(row[name], kinds[name], classes.get(name, ())) for name in table.column_names] for row in table.to_pylist()]
    expected[path.name] = {"columns": table.column_names, "lists": lists, "classes": classes, "rows": rows}


def write(name, table, classes={}, **options):
    path = HERE / name
    pyarrow.parquet.write_table(table, path, write_page_checksum=True, **options)
    note(path, classes)


def write_types():
    numbers = list(range(10))
    table = pyarrow.table({
        "text": TEXTS,
        "large": pyarrow.array(TEXTS, pyarrow.large_string()),
        "categorical": pyarrow.array(TEXTS).dictionary_encode(),
        "bytes": pyarrow.array([text and text.encode() for text in TEXTS], pyarrow.binary()),
        "int8": pyarrow.array([-128, 127, None, *numbers[3:]], pyarrow.int8()),
        "uint8": pyarrow.array([255, *numbers[1:]], pyarrow.uint8()),
        "int32": pyarrow.array([-(2**31), 2**31 - 1, *numbers[2:]], pyarrow.int32()),
        "uint32": pyarrow.array([2**32 - 1, *numbers[1:]], pyarrow.uint32()),
        "int64": pyarrow.array([-(2**63), 2**63 - 1, None, *numbers[3:]], pyarrow.int64()),
        "uint64": pyarrow.array([2**64 - 1, *numbers[1:]], pyarrow.uint64()),
        "float": pyarrow.array([0.1, 1, -2.5, float("nan"), None, 1e10, 3e-7, float("inf"), 16777216, 0], pyarrow.float32()),
        "double": [0.1, 1.0, -2.5, float("nan"), None, 1e20, 3e-7, float("-inf"), 1 / 3, 0.0],
        "truth": [True, False, None] * 3 + [True],
        "nothing": pyarrow.nulls(10),
        "day": pyarrow.array(numbers, pyarrow.date32()),
        "struct": [{"text": ["a"], "start": i} for i in numbers],
        "nested": [[[i]] for i in numbers],
    })
    path = HERE / "types.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=6, compression="snappy", write_page_checksum=True, write_statistics=False)
    note(path, columns=table.column_names[:-3])  # the last are refused


def write_lists():
    table = pyarrow.table({
        "tokens": [["It", "'s", "so"], ["one"], [], None, ["a", "b", "c", "d"], ["last"]],
        "ids": pyarrow.array([[0, 1, 2], [2], [], None, [7, 8, 9, 10], [-1]], pyarrow.list_(pyarrow.int16())),
        "reals": [[0.0, 1.0], [27.0], [], None, [0.0, 0.0, 0.0], [5.0]],
    })
    write("lists.parquet", table, row_group_size=5, compression="zstd", use_dictionary=False, data_page_version="2.0")
    # Labels of one and zero for each label name are the numbers of those that are one.
    rows = expected["lists.parquet"]["rows"]
    for row, reals in zip(rows, ["1", "27", "", "", "", "5"]):
        row[2] = reals


def write_classes():
    """As datasets writes its own numbers of classes."""
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=NAMES)})
    rows = {"text": [f"text {i}" for i in range(8)], "label": [3, 2, 1, 0, 0, 1, -1, 3]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(HERE / "classes.parquet")
    note(HERE / "classes.parquet", {"label": NAMES})
    sets = datasets.Features({"text": datasets.Value("string"), "labels": datasets.Sequence(datasets.ClassLabel(names=EMOTIONS))})
    rows = {"text": [f"text {i}" for i in range(4)], "labels": [[0, 2], [], [1], [0, 1, 2]]}
    datasets.Dataset.from_dict(rows, features=sets).to_parquet(HERE / "sets.parquet")
    note(HERE / "sets.parquet", {"labels": EMOTIONS})
    words = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")),
                               "tags": datasets.Sequence(datasets.ClassLabel(names=TAGS))})
    rows = {"tokens": [["Ada", "Lovelace", "wrote"], ["it"]], "tags": [[1, 2, 0], [0]]}
    datasets.Dataset.from_dict(rows, features=words).to_parquet(HERE / "words.parquet")
    note(HERE / "words.parquet", {"tags": TAGS})


def main():
    write_types()
    write_lists()
    write_classes()
    write("empty.parquet", pyarrow.table({"text": pyarrow.array([], pyarrow.string()), "label": pyarrow.array([], pyarrow.int64())}))
    (HERE / "rows.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
