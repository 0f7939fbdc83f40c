"""The rows of files that bert_hpc_prep reads, in the order in which it counts them: a row that it rejects counts, a blank line does
not."""

import collections
import csv
import gzip
import itertools
import json
import pathlib

# How the rows of a file are written: `form` is a key of READERS; the other fields are of tables, as in [source] of bert_hpc_prep.
Form = collections.namedtuple("Form", "form delimiter quotes header columns encoding", defaults=(",", True, True, 0, "utf-8-sig"))
FORMS = {".csv": Form("csv"), ".tsv": Form("tsv", "\t", False), ".jsonl": Form("jsonl")}
TABBED = Form("tsv", "\t", False)


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


WIKIQA = ["question_id", "question", "document_id", "document_title", "sentence_id", "sentence", "label"]


def renamed(rows, columns):
    """Rows with columns of other names: {name: name in `rows`}."""
    yield list(columns)
    yield from ({name: row.get(place) for name, place in columns.items()} for row in rows)


def rows_of_wikiqa(path, form):
    rows = rows_of_table(path, TABBED._replace(encoding=form.encoding))
    return renamed(rows, dict(zip(WIKIQA, next(rows))))


# The columns text, text_pair and label of GLUE's tasks; the first of which a file has the texts, if it can be with the label.
GLUE = [("#1 String", "#2 String", "Quality"), ("question1", "question2", "is_duplicate"), ("question", "sentence", "label"),
        ("sentence1", "sentence2", "gold_label"), ("sentence1", "sentence2", "score"), ("sentence1", "sentence2", "label"),
        ("sentence", None, "label")]
COLA = {"text": "4", "label": "2"}  # labelled files have no header


def rows_of_glue(path, form):
    table = TABBED._replace(encoding=form.encoding)
    rows = rows_of_table(path, table)
    header = next(rows)
    for labelled, (text, pair, label) in itertools.product((True, False), GLUE):
        if all(name is None or name in header for name in (text, pair, label if labelled else None)):
            columns = {"text": text, "text_pair": pair, "label": label if labelled else None}
            return renamed(rows, {name: place for name, place in columns.items() if place is not None})
    rows = rows_of_table(path, table._replace(header=False))
    next(rows)
    return renamed(rows, COLA)


def rows_of_msmarco(path, form):
    """Without the labels, which other files have."""
    yield ["query", "passage"]
    for row in itertools.islice(rows_of_table(path, TABBED._replace(encoding=form.encoding, header=False)), 1, None):
        cells = list(row.values())
        if len(cells) == 3:  # query, positive, negative
            yield from ({"query": cells[0], "passage": passage} for passage in cells[1:])
        else:
            yield dict(zip(("query", "passage"), cells[2:]))


SQUAD = ["id", "title", "question", "context", "is_impossible", "answer_text", "answer_start", "answers"]


def squad_row(question, title, context):
    answers = question.get("answers") or []
    if isinstance(answers, dict):  # of JSON Lines
        answers = [{"text": text, "answer_start": start} for text, start in zip(answers["text"], answers["answer_start"])]
    first = answers[0] if answers else {}
    cells = (str(question.get("id")), title, question.get("question"), context, bool(question.get("is_impossible")), first.get("text"),
             first.get("answer_start"), answers)
    return dict(zip(SQUAD, cells))


def question_of(line):
    """The row of a line of JSON Lines; without cells where it cannot be read."""
    try:
        question = json.loads(line)
        return squad_row(question, question.get("title"), question.get("context"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def rows_of_squad(path, form):
    yield SQUAD
    with opened(path, form) as file:
        begin = next((line for line in file if line.strip()), "")
        try:
            first = json.loads(begin)
        except ValueError:  # a document of several lines
            first = {"data": None}
        if "data" not in first:
            for line in itertools.chain([begin], file):
                if line.strip():
                    yield question_of(line)
            return
        file.seek(0)
        for article in json.load(file)["data"]:
            for paragraph in article["paragraphs"]:
                yield from (squad_row(question, article.get("title"), paragraph["context"]) for question in paragraph["qas"])


READERS = {"csv": rows_of_table, "tsv": rows_of_table, "jsonl": rows_of_json, "text": rows_of_lines, "wikiqa": rows_of_wikiqa,
           "glue": rows_of_glue, "msmarco": rows_of_msmarco, "squad": rows_of_squad}
WITHOUT_LABELS = ("msmarco",)


def rows_of(path, form):
    """Yields the column names, then each row as a dict."""
    return READERS[form.form](path, form)


def text_in(value):
    """A cell as text; JSON has other values than strings."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
