"""Precision, recall, F1 and support of single classes, or label names, from counts."""

import numpy as np

RATES = ("precision", "recall", "f1")


def of_counts(actual, predicted, hits):
    """{column: (classes)} of how often each class is the label, is predicted and is both. 0 where a denominator is 0, as in
    scikit-learn's classification_report with zero_division=0."""

    def ratio(numerator, denominator):
        return np.divide(numerator, denominator, out=np.zeros(len(actual)), where=np.asarray(denominator) > 0)

    return {"precision": ratio(hits, predicted), "recall": ratio(hits, actual), "f1": ratio(2 * np.asarray(hits), actual + predicted),
            "support": np.asarray(actual, dtype=np.int64)}


def of_rows(counts):
    """The same with a row for each evaluation; `counts`: (3, classes) of each, or None. NaN and support 0 for an evaluation
    without counts, or with another number of classes."""
    classes = max((row.shape[1] for row in counts if row is not None), default=0)
    if classes == 0:
        return {}
    absent = dict.fromkeys(RATES, np.full(classes, np.nan)) | {"support": np.zeros(classes, dtype=np.int64)}
    rows = [of_counts(*row) if row is not None and row.shape[1] == classes else absent for row in counts]
    return {name: np.stack([row[name] for row in rows]) for name in absent}
