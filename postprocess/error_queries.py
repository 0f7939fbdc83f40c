"""The worst queries of an answer_ranking run: those whose first relevant candidate stands lowest, with the candidate that stands
first. Queries without a relevant candidate are left out: no ranking can be right there."""

import itertools

import numpy as np

import predictions
import queries
import source_text
from error_rows import MOST, Line, Worst

HEADER = ["query", "rank_of_relevant", "candidates", "score_of_first", "score_of_relevant", "first", "relevant"]


def columns(firsts, seconds):
    return [*firsts, *(f"{name} (first)" for name in seconds), *(f"{name} (relevant)" for name in seconds)]


def identities(run, rows):
    """{row: (query, passage)} of predictions.csv, by the rows of predictions.h5; numbers where there is none."""
    data, path = run.predictions, run.path / "predictions.csv"
    found = {row: (str(data["query"][row]), str(data["source_index"][row])) for row in rows}
    if path.is_file():
        lines = source_text.predicted_rows(path)
        header = next(lines, [])
        if {"query", "passage"} <= set(header):
            at = [header.index(name) for name in ("query", "passage")]
            shown = set(rows)
            found |= {row: tuple(line[index] for index in at)
                      for row, line in enumerate(itertools.islice(lines, max(rows) + 1)) if row in shown}
    return found


def of_run(run):
    found = queries.judged(run)
    if found is None:
        return None
    data, hits = run.predictions, queries.hits_of(run)
    rank, score, begins = data["rank"], data["prediction"], queries.begins_of(run)
    pairs = []  # of rows: the first candidate, and the first relevant one
    for number, best in zip(found.numbers, found.best):
        if not 1 < best < np.inf:
            continue
        begin = begins[number]
        end = begins[number + 1] if number + 1 < len(begins) else len(rank)
        own = rank[begin:end]
        pairs.append((begin + int(np.argmin(own)), begin + int(np.flatnonzero(hits[begin:end] & (own == best))[0]), end - begin))
    pairs.sort(key=lambda pair: (-rank[pair[1]], float(score[pair[1]]) - float(score[pair[0]])))
    pairs = pairs[:MOST]
    if not pairs:
        return None
    labels, named = predictions.labels(run), identities(run, [row for pair in pairs for row in pair[:2]])
    lines = [Line([named[first][0], int(rank[right]), int(count), float(score[first]), float(score[right]), named[first][1], named[right][1]],
                  [int(data["source_index"][row]) for row in (first, right)], [int(labels[row]) for row in (first, right)])
             for first, right, count in pairs]
    return Worst("Worst queries", HEADER, lines, columns=columns)
