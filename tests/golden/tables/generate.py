#!/usr/bin/env python3
"""Writes files.json: small files as pandas and Hugging Face's datasets write them, and what bert_hpc_prep is to read in them.

    python3 generate.py > files.json    needs pandas and datasets; tests/integration/test_written_tables.py reads the file
"""

import csv
import json
import pathlib
import sys
import tempfile

import datasets
import numpy
import pandas

TEXTS = ["plain text", 'he said "so", then\nleft', "café don’t € 5", "it's [ok]; \\ really"]
NAMES = [["toxic"], ["toxic", "threat"], [], ["insult's"]]
WORDS = [["It", "'s", '"b"', "l'or", "\\x"], ["Hi", "there"]]
TAGS = [[0, 0, 1, 2, 0], [1, 2]]
SETS = {"task": "multi_label", "texts": TEXTS, "labels": NAMES}
NUMBERS = SETS | {"labels": [["0"], ["0", "1"], [], ["2"]]}
TAGGED = {"task": "token_classification", "texts": [" ".join(words) for words in WORDS],
          "labels": [[str(tag) for tag in tags] for tags in TAGS]}
JSON = {"format": "jsonl", "label": "labels"}
CSV = {"format": "csv", "label": "labels"}

files = {}


def add(name, content, source, expected):
    files[name] = {"bytes": content.hex(), "source": source, **expected}


def written(method, **options):
    """What a method that writes a path writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file"
        method(path, **options)
        return path.read_bytes()


def main():
    frame = pandas.DataFrame({"text": TEXTS, "labels": NAMES, "label": [0, 1, 0, 1]})
    for name, quoting in [("minimal", csv.QUOTE_MINIMAL), ("all", csv.QUOTE_ALL), ("nonnumeric", csv.QUOTE_NONNUMERIC)]:
        add(f"pandas, quotes {name}", written(frame.to_csv, index=False, quoting=quoting), CSV, SETS)
    add("pandas with index", written(frame.to_csv), CSV, SETS)
    add("pandas for Excel", written(frame.to_csv, index=False, sep=";", encoding="utf-8-sig", lineterminator="\r\n"),
        CSV | {"delimiter": ";"}, SETS)
    add("pandas, Windows-1252", written(frame.to_csv, index=False, encoding="cp1252"), CSV | {"encoding": "latin-1"}, SETS)
    add("pandas, UTF-16", written(frame.to_csv, index=False, sep="\t", encoding="utf-16"),
        CSV | {"format": "tsv", "quotes": True}, SETS)
    for orient in ("records", "table", "columns", "index", "split"):
        add(f"pandas, orient {orient}", written(frame.to_json, orient=orient), JSON, SETS)
    add("pandas, indented", written(frame.to_json, orient="records", indent=2, force_ascii=False), JSON, SETS)
    add("pandas, lines", written(frame.to_json, orient="records", lines=True), JSON, SETS)
    arrays = frame.assign(labels=[numpy.array(names, dtype=object) for names in NAMES])
    add("pandas, arrays of NumPy", written(arrays.to_csv, index=False), CSV, SETS)
    vectors = [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    add("pandas, vectors", written(frame.assign(labels=vectors).to_csv, index=False), CSV, NUMBERS)
    reals = frame.assign(labels=[numpy.array(vector, dtype=float) for vector in vectors])
    add("pandas, vectors of NumPy", written(reals.to_csv, index=False), CSV, NUMBERS)
    for name, kind in [("real", float), ("true", bool)]:
        columns = frame.assign(**{label: [kind(vector[i]) for vector in vectors] for i, label in enumerate("abc")})
        source = {"format": "csv", "label_columns": ["a", "b", "c"]}
        add(f"pandas, {name} columns", written(columns.to_csv, index=False), source,
            SETS | {"labels": [["a"], ["a", "b"], [], ["c"]]})
    by_column = lambda path: path.write_text(json.dumps(frame.to_dict("list")), encoding="utf-8")
    add("columns as lists", written(by_column), JSON, SETS)
    data = datasets.Dataset.from_pandas(frame)
    add("datasets, CSV", written(data.to_csv), CSV, SETS)
    add("datasets, JSON Lines", written(data.to_json), JSON, SETS)
    add("datasets, JSON", written(data.to_json, lines=False), JSON, SETS)
    numbered = data.map(lambda row: {"labels": [len(name) for name in row["labels"]]})
    lengths = SETS | {"labels": [["5"], ["5", "6"], [], ["8"]]}
    add("datasets, numbers", written(numbered.to_json), JSON, lengths)
    add("datasets, numbers in CSV", written(numbered.to_csv), CSV, lengths)
    words = pandas.DataFrame({"tokens": WORDS, "tags": TAGS})
    add("pandas, words", written(words.to_csv, index=False), {"format": "csv"}, TAGGED)
    tagged = datasets.Dataset.from_dict({"tokens": WORDS, "tags": TAGS})
    add("datasets, words in CSV", written(tagged.to_csv), {"format": "csv"}, TAGGED)
    add("datasets, words", written(tagged.to_json), {"format": "jsonl"}, TAGGED)
    rows = [(f"Sentence: {i + 1}" if j == 0 else None, word, str(tag)) for i, sentence in enumerate(zip(WORDS, TAGS))
            for j, (word, tag) in enumerate(zip(*sentence))]
    table = pandas.DataFrame(rows, columns=["Sentence #", "Word", "Tag"])
    by_word = {"format": "csv", "text": "Word", "label": "Tag"}
    add("Kaggle's entities", written(table.to_csv, index=False), by_word, TAGGED)
    filled = table.assign(**{"Sentence #": table["Sentence #"].ffill()}).rename(columns={"Sentence #": "sentence_id"})
    add("Kaggle's entities, filled", written(filled.to_csv, index=False), by_word | {"sentence": "sentence_id"}, TAGGED)
    json.dump(files, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
