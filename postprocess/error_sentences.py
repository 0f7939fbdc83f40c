"""The worst sentences of a token_classification run, from predictions.conll with known tags: those with the most wrong words first, of
equal ones the shortest."""

import rundata
from error_rows import MOST, Line, Worst

COLUMNS = 3  # word, gold, predicted
BEGIN = "⟨"  # of what is said of a wrong word


def sentences(run):
    """(line of the first word, rows of columns without probabilities) of each sentence of predictions.conll."""
    begin, rows = 1, []
    probabilities = rundata.settings(run).get("predictions.probabilities") == "true"
    with open(run.path / "predictions.conll", encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip("\n"):
                word, *rest = line.rstrip("\n").split(" ")
                rows.append([word, *rest[probabilities:]])
                continue
            if rows:
                yield begin, rows
            begin, rows = number + 1, []
    if rows:
        yield begin, rows


def marked(word, gold, predicted):
    return word if gold == predicted else f"{word}{BEGIN}{gold}→{predicted}⟩"


def of_run(run):
    path = run.path / "predictions.conll"
    if run.task != "token_classification" or not path.is_file():
        return None
    found = []
    for number, (line, rows) in enumerate(sentences(run), 1):
        if any(len(row) != COLUMNS for row in rows):
            return None  # without tags
        wrong = sum(gold != predicted for _, gold, predicted in rows)
        if wrong:
            found.append((-wrong, len(rows), number, line, rows))
        if len(found) > 100 * MOST:  # so that a large file's sentences are not all kept
            found = sorted(found)[:MOST]
    lines = [Line([str(number), line, -wrong, words], texts=[" ".join(marked(*row) for row in rows)], about=BEGIN)
             for wrong, words, number, line, rows in sorted(found)[:MOST]]
    return Worst("Worst sentences", ["sentence", "line", "wrong", "words"], lines, columns=lambda *_: ["text"]) if lines else None
