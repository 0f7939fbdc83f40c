"""A class's samples among all, ranked by a score: the points of the ROC curve and of the precision-recall curve, and their areas."""

import numpy as np


def counts_above(scores, positive):
    """(positives, negatives) with at least each score, from the highest distinct one down; equal scores are one point."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    hits = np.cumsum(np.asarray(positive, dtype=bool)[order])[ends]
    return hits, ends + 1 - hits


def roc(scores, positive):
    """False and true positive rates from (0, 0) to (1, 1), and the area: the share of pairs of a positive and a negative in which
    the positive has the larger score, equal ones counting half. The metric roc_auc."""
    hits, wrong = (np.append(0, counts) for counts in counts_above(scores, positive))
    pairs = hits[-1] * wrong[-1]
    return wrong / wrong[-1], hits / hits[-1], float(np.sum(np.diff(wrong) * (hits[1:] + hits[:-1])) / 2 / pairs)


def precision_recall(scores, positive):
    """Recalls and precisions from the highest score down, and the average precision: each precision, weighted by the recall that its
    point adds, as scikit-learn's average_precision_score."""
    hits, wrong = counts_above(scores, positive)
    recall, precision = hits / hits[-1], hits / (hits + wrong)
    return recall, precision, float(np.sum(np.diff(recall, prepend=0) * precision))
