"""Tables of what each run with labels predicted worst, with the texts where the files that bert_hpc_prep read are still there:
errors.csv, and the first of them in summary.md."""

import error_answers
import error_queries
import error_rows
import error_sentences
import prepared_text
import source_text
import wording
import writing

SHOWN = 10  # rows in summary.md
WIDEST = 300  # characters of a text there

KINDS = [error_rows, error_queries, error_answers, error_sentences]


def of_run(run):
    """What was predicted worst (error_rows.Worst), or None."""
    return next((found for found in (kind.of_run(run) for kind in KINDS) if found is not None and found.lines), None)


def same_label(task, text, label):
    """Is the label in the source that of the shards? Of sets it is not asked, as rare names may have been left out. Questions have ids
    instead."""
    if task == "question_answering":
        return text == label
    if task not in ("regression", "answer_ranking"):
        return task != "classification" or text.startswith(label)
    try:
        return abs(float(text.replace(",", ".")) - label) <= 1e-6 * abs(label)  # shards hold single precision
    except ValueError:
        return False


def source_of(run, options, rows, labels):
    """Names of the first and of the second texts, {row of the source: texts}, and a sentence about what is missing, "" where nothing is."""
    if options.text:
        columns = options.text_column or ["text"]
        second = 1 if len(columns) > 1 else 0  # a single text of a query's candidates is theirs
        return columns[:second], columns[second:], source_text.texts_of(options.text, columns, set(rows)), ""
    try:
        firsts, seconds, found = prepared_text.texts_of(run, rows)
    except prepared_text.Missing as problem:
        return [], [], {}, f"Without texts: {problem}."
    width = len(firsts) + len(seconds)
    if any(len(found[row]) > width and not same_label(run.task, found[row][-1], label) for row, label in zip(rows, labels)):
        return [], [], {}, "Without texts: the files that prep.toml beside the shards names have other labels now."
    return firsts, seconds, {row: cells[:width] for row, cells in found.items()}, ""


def with_texts(run, options, found):
    """Names of the columns of texts, the texts of each line, and a sentence about what is missing."""
    rows = [row for line in found.lines for row in line.rows]
    if not rows:
        return found.columns([], []), [list(line.texts) for line in found.lines], ""
    firsts, seconds, texts, missing = source_of(run, options, rows, [label for line in found.lines for label in line.labels])
    if missing:
        return [], [[] for _ in found.lines], missing
    own = [[*texts[line.rows[0]], *(text for row in line.rows[1:] for text in texts[row][len(firsts) :])] for line in found.lines]
    return found.columns(firsts, seconds), own, ""


def cell(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def section(run, found, columns, texts, missing):
    """The part of summary.md."""
    lines = [[writing.number(value) if isinstance(value, float) else value for value in line.cells]
             + [wording.excerpt(" ".join(text.split()), WIDEST, " ".join(line.about.split())) for text in own] for line, own in zip(found.lines[:SHOWN], texts)]
    table = writing.as_markdown(found.header + columns, lines, "errors")
    return f"## {found.title}: {run.name}\n\n" + "\n\n".join([table] + [missing] * bool(missing))


def write_all(runs, options, output):
    """Writes errors.csv for every run with known labels; returns the sections of summary.md and the paths."""
    sections, paths = [], []
    for run in runs:
        found = of_run(run)
        if found is None:
            continue
        columns, texts, missing = with_texts(run, options, found)
        paths.append(output / wording.file_name("errors" + (f"-{run.name}" if len(runs) > 1 else "") + ".csv"))
        writing.write_csv(paths[-1], found.header + columns, [[*map(cell, line.cells), *own] for line, own in zip(found.lines, texts)])
        sections.append(section(run, found, columns, texts, missing))
    return sections, paths
