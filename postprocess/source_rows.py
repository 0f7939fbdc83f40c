"""The rows of files that bert_hpc_prep reads, in the order in which it counts them: a row that it rejects counts, a blank line does
not."""

import codecs
import collections
import gzip
import io
import itertools
import json
import pathlib
import re

# How the rows of a file are written: `form` is a key of READERS; the other fields are of tables, as in [source] of bert_hpc_prep.
Form = collections.namedtuple("Form", "form delimiter quotes header columns encoding", defaults=(",", True, True, 0, "utf-8"))
FORMS = {".csv": Form("csv"), ".tsv": Form("tsv", "\t", False), ".jsonl": Form("jsonl"), ".parquet": Form("parquet")}
TABBED = Form("tsv", "\t", False)


def form_of(path):
    return FORMS.get(pathlib.Path(path).suffix.lower(), Form("text"))


# What bert_hpc_prep reads under a name in lower-case letters and digits, as browsers do: text_decoder.cpp.
BROWSER_NAMES = {"latin1": "cp1252", "iso88591": "cp1252", "88591": "cp1252", "l1": "cp1252", "cp819": "cp1252", "windows1252": "cp1252",
                 "shiftjis": "cp932", "sjis": "cp932", "mskanji": "cp932", "euckr": "cp949", "ksc5601": "cp949", "gb2312": "gb18030",
                 "gbk": "gb18030", "cp936": "gb18030", "big5": "big5hkscs", "iso88599": "cp1254", "latin5": "cp1254", "tis620": "cp874",
                 "utf8": "utf-8-sig", "utf8sig": "utf-8-sig", "utf8bom": "utf-8-sig", "u8": "utf-8-sig", "utf16": "utf-16-le",
                 "utf32": "utf-32-le", "unicode": "utf-16-le"}
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def open_zstd(path, mode, **options):
    """Like gzip.open(), for Zstandard."""
    try:
        from compression import zstd  # Python 3.14
        return zstd.open(path, mode, **options)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ValueError("it is compressed with Zstandard: install the package zstandard, or use Python 3.14 or newer") from None
    bytes_of_all_frames = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(open(path, "rb"), read_across_frames=True)
    return bytes_of_all_frames if mode == "rb" else io.TextIOWrapper(bytes_of_all_frames, **options)


def is_zstd(start):
    return start[:4] == b"\x28\xb5\x2f\xfd" or (start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5)


def opened(path, form, **options):
    """A text file, compressed or not, in the encoding that its byte order mark names or else in that of `form`."""
    with open(path, "rb") as file:
        start = file.read(4)
    open_file = gzip.open if start[:2] == b"\x1f\x8b" else open_zstd if is_zstd(start) else open
    with open_file(path, "rb") as file:
        start = file.read(4)
    marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    encoding = marked or BROWSER_NAMES.get(re.sub("[-_ ]", "", form.encoding.lower()), form.encoding)
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ValueError(f"Python does not know the encoding {encoding!r}") from None
    return open_file(path, "rt", encoding=encoding, errors="replace", **options)


def field_end(text, at, delimiter):
    """Where an unquoted field ends: at the delimiter, at the line's end or at the end of the text."""
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    end = text.find(delimiter, at, line_end)
    return line_end if end < 0 else end


def closing_quote(text, at):
    """The index of the quote that closes what begins behind `at`, or -1; two quotes are one of the text."""
    at = text.find('"', at + 1)
    while text.startswith('""', at) and at >= 0:
        at = text.find('"', at + 2)
    return at


def escaped_quote(text, at):
    """The index of the quote that closes what begins behind `at` if a backslash escapes quotes, or -1."""
    for found in re.compile(r'\\.|"', re.DOTALL).finditer(text, at + 1):
        if found[0] == '"':
            return found.start()
    return -1


def record_of(text, form, last):
    """The fields of the record at the front of `text`, and its size; None if a quote may close behind the text. A quote with text
    behind the next one is an ordinary character, but \\" may hold a row together that is rejected."""
    fields, at = [], 0
    while True:
        is_rest = form.columns and len(fields) + 1 >= form.columns
        delimiter = "\n" if is_rest else form.delimiter
        end = field_end(text, at, delimiter)
        field = text[at:end]
        if form.quotes and not is_rest and text.startswith('"', at):
            close = closing_quote(text, at)
            for close in [close] + [escaped_quote(text, at)] * ('\\"' in text[at : len(text) if close < 0 else close + 1]):
                if close < 0 and not last:
                    return None
                behind = field_end(text, close + 1, delimiter)
                if close >= 0 and not text[close + 1 : behind].strip(" \t\r\v\f"):
                    field, end = text[at + 1 : close].replace('""', '"') + text[close + 1 : behind], behind
                    break
        if text[end : end + 1] != form.delimiter or is_rest:
            return [*fields, field.removesuffix("\r")], end + 1
        fields.append(field)
        at = end + 1


def records(file, form):
    """The records of a table without its blank lines. `file` does not change line ends."""
    waiting = collections.deque()  # lines that were read while a quote was open

    def next_line():
        return waiting.popleft() if waiting else next(file, "")

    while line := next_line():
        if not line.strip("\r\n"):
            continue
        text, found = [line], record_of(line, form, False)
        while found is None:
            more = next_line()
            text.append(more)
            if '"' in more or not more:
                found = record_of("".join(text), form, not more)
        fields, size = found
        if len(text) > 1:
            waiting.extendleft(reversed(re.findall(r"[^\n]*\n|[^\n]+", "".join(text)[size:])))
        yield fields


def line_end(path, form):
    """The `newline` of open(): lines may end in CR alone if the first ones do."""
    with opened(path, form, newline="") as file:
        start = file.read(1 << 16)
    return None if "\r" in start and "\n" not in start else "\n"


def rows_of_table(path, form):
    with opened(path, form, newline=line_end(path, form)) as file:
        rows = records(file, form)
        first = next(rows, [])
        names = first if form.header else [str(number) for number in range(1, len(first) + 1)]
        yield names
        if not form.header:
            yield dict(zip(names, first))
        yield from (dict.fromkeys(names) | dict(zip(names, row)) for row in rows)


def value_of(line):
    """A value of JSON; None if it cannot be read, which is a row that was rejected."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def values_behind(text):
    """Values of JSON one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        yield value


def json_values(file):
    """The values of a file of JSON: lines, a list, a list in the member "data" of one object, or objects of several lines."""
    first = next((line for line in file if line.strip()), "")
    value = value_of(first)
    if isinstance(value, dict) and not isinstance(value.get("data"), list):
        yield value
        yield from (value_of(line) for line in file if line.strip())
        return
    text = first + file.read()
    try:
        values = list(values_behind(text))
    except ValueError:
        yield from (value_of(line) for line in text.split("\n") if line.strip())
        return
    whole = values[0] if len(values) == 1 else None
    data = whole.get("data") if isinstance(whole, dict) else whole
    columns = whole.get("columns", []) if isinstance(whole, dict) else []
    if isinstance(data, list):
        values = (dict(zip(map(str, columns), row)) if columns and isinstance(row, list) else row for row in data)
    yield from values


def rows_of_object(table):
    """The rows of a table that is one object: its rows by name, or its columns, as objects or lists. None if it is a row."""
    cells = list(table.values())
    if cells and all(isinstance(cell, dict) for cell in cells):
        if all(name.isdecimal() for name in table):
            return cells
        return [dict(zip(table, row)) for row in zip(*(column.values() for column in cells))]
    if cells and all(isinstance(cell, list) for cell in cells):
        return [dict(zip(table, row)) for row in zip(*cells)]
    return None


def rows_of_json(path, form):
    with opened(path, form) as file:
        values = json_values(file)
        begin = list(itertools.islice(values, 2))
        table = rows_of_object(begin[0]) if len(begin) == 1 and isinstance(begin[0], dict) else None
        rows = (value if isinstance(value, dict) else {} for value in table or itertools.chain(begin, values))
        first = next(rows, {})
        yield list(first)
        yield first
        yield from rows


def rows_of_lines(path, form):
    yield ["text"]
    with opened(path, form) as file:
        yield from ({"text": line.rstrip("\r\n")} for line in file if line.strip())


def rows_of_fasta(path, form):
    yield ["id", "description", "text"]
    row = None
    with opened(path, form) as file:
        for line in file:
            line = line.rstrip("\r\n")
            if line.startswith(">"):
                if row:
                    yield row
                name, _, description = re.sub(r"[ \t\v\f]", " ", line[1:]).partition(" ")
                row = {"id": name, "description": description.strip(), "text": ""}
            elif row and not line.startswith(";"):
                row["text"] += re.sub(r"[ \t\v\f]", "", line)
    if row:
        yield row


def rows_of_parquet(path, form):
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError("it is Parquet: install the package pyarrow") from None
    with pyarrow.parquet.ParquetFile(path) as file:
        yield file.schema_arrow.names
        for batch in file.iter_batches():
            yield from batch.to_pylist()


WIKIQA = ["question_id", "question", "document_id", "document_title", "sentence_id", "sentence", "label"]


def renamed(rows, columns):
    """Rows with columns of other names: {name: name in `rows`}."""
    yield list(columns)
    yield from ({name: row.get(source) for name, source in columns.items()} for row in rows)


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
            return renamed(rows, {name: source for name, source in columns.items() if source is not None})
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


def questions_of(value):
    """The rows of an article, of a paragraph, or of a question with its context; without cells if it cannot be read."""
    try:
        if "paragraphs" in value or "qas" in value:
            paragraphs = value.get("paragraphs", [value])
            return [squad_row(question, value.get("title"), part["context"]) for part in paragraphs for question in part["qas"]]
        return [squad_row(value, value.get("title"), value.get("context"))]
    except (AttributeError, KeyError, TypeError):
        return [{}]


def rows_of_squad(path, form):
    yield SQUAD
    with opened(path, form) as file:
        for value in json_values(file):
            yield from questions_of(value)


READERS = {"csv": rows_of_table, "tsv": rows_of_table, "jsonl": rows_of_json, "text": rows_of_lines, "wikiqa": rows_of_wikiqa,
           "glue": rows_of_glue, "msmarco": rows_of_msmarco, "squad": rows_of_squad, "fasta": rows_of_fasta,
           "parquet": rows_of_parquet}
WITHOUT_LABELS = ("msmarco", "parquet")  # msmarco has them in other files, parquet numbers of classes in place of names


def rows_of(path, form):
    """Yields the column names, then each row as a dict."""
    return READERS[form.form](path, form)


def text_in(value):
    """A cell as text; JSON has other values than strings."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
