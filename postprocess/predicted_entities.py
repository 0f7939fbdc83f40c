"""Entities that a token_classification run predicts for sentences without tags, counted by type, from predictions.conll."""

import collections

from error_sentences import sentences

ENDS = ("E", "L", "S", "U")  # prefixes of an entity's last word in BIOES and BILOU


def begins(before, tag):
    """True if an entity begins at this tag, as conlleval counts in any of the schemes."""
    prefix, _, kind = tag.partition("-")
    last, _, own = before.partition("-")
    return tag != "O" and (prefix in ("B", "S", "U") or before == "O" or own != kind or last in ENDS)


def counts(run):
    """(kind of thing, counts by name, words): entities by type or, if predictions are no tags of entities, words by label. None
    with known tags, or for other runs."""
    path = run.path / "predictions.conll"
    if run.task != "token_classification" or not path.is_file():
        return None
    types, labels = collections.Counter(), collections.Counter()
    for _, rows in sentences(run):
        if any(len(row) != 2 for row in rows):
            return None
        before = "O"
        for _, tag in rows:
            labels[tag] += 1
            if begins(before, tag):
                types[tag.partition("-")[2]] += 1
            before = tag
    tagged = all(label == "O" or "-" in label for label in labels)
    if not labels:
        return None
    return ("entities", types, labels.total()) if tagged else ("words", labels, labels.total())
