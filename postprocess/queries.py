"""The queries of an answer_ranking run, from predictions.h5 with labels: where each ranking has what is relevant."""

import numpy as np

import predictions
import rundata


def at_first(begins, rows):
    """(rows): the query of each row, from 0."""
    return np.repeat(np.arange(len(begins)), np.diff(np.append(begins, rows)))


class Queries:
    """The queries that are judged, as columns of equal length."""

    def __init__(self, numbers, relevant, best, average_precision, candidates):
        self.numbers = numbers  # among all queries, from 0
        self.relevant = relevant  # passages, be they candidates or not
        self.best = best  # rank of the first relevant candidate; infinite where there is none
        self.average_precision = average_precision
        self.candidates = candidates

    def __len__(self):
        return len(self.numbers)


def begins_of(run):
    """(queries): the first row of each query."""
    number = run.predictions["query"]
    return np.flatnonzero(np.append(True, number[1:] != number[:-1]))


def has_rankings(run):
    data = run.predictions
    return data is not None and data["task"] == "answer_ranking" and "query" in data and len(data["query"]) > 0


def hits_of(run):
    """(rows): is the candidate relevant? None for runs without rankings or without labels."""
    if not has_rankings(run):
        return None
    labels = predictions.labels(run)
    return labels > 0 if predictions.known(labels).any() else None


def judged(run):
    """The queries over which the metrics are means, or None."""
    hits = hits_of(run)
    if hits is None:
        return None
    begins, rank = begins_of(run), run.predictions["rank"].astype(float)
    owner = at_first(begins, len(hits))
    order = np.lexsort((rank, owner))
    ranked = hits[order].astype(float)
    # The relevant ones up to each rank of its query.
    found = np.cumsum(ranked)
    found -= (found - ranked)[begins][owner]
    here = np.add.reduceat(ranked, begins)
    relevant = np.maximum(run.predictions["relevant"][begins], here)  # unknown in mode predict: −1
    sums = np.add.reduceat(np.where(ranked > 0, found / rank[order], 0.0), begins)
    taken = np.flatnonzero(relevant > 0) if skips_unanswerable(run) else np.arange(len(begins))
    precision = np.divide(sums, relevant, out=np.zeros(len(begins)), where=relevant > 0)
    best = np.minimum.reduceat(np.where(hits, rank, np.inf), begins)
    candidates = np.diff(np.append(begins, len(hits)))
    return Queries(taken, relevant[taken], best[taken], precision[taken], candidates[taken]) if len(taken) else None


def skips_unanswerable(run):
    return rundata.settings(run).get("task.skip_unanswerable", "true") != "false"


def recall(run, queries):
    """(ranks): at each rank from 1 on, the mean share of a query's relevant passages that stand there or before."""
    hits, begins = hits_of(run), begins_of(run)
    share = np.zeros(len(begins))
    share[queries.numbers] = 1 / np.maximum(queries.relevant, 1) / len(queries)
    weights = np.where(hits, share[at_first(begins, len(hits))], 0.0)
    return np.cumsum(np.bincount(run.predictions["rank"], weights, queries.candidates.max() + 1)[1:])


def up_to(ranks, weights, most):
    """(most): at each rank from 1 on, the mean over queries of the weights of those with a rank of at most this."""
    there = np.isfinite(ranks)
    return np.cumsum(np.bincount(ranks[there].astype(int), weights[there], most + 1)[1:]) / len(ranks)


def success(queries):
    """(ranks): the share of queries with a relevant candidate at this rank or before."""
    return up_to(queries.best, np.ones(len(queries)), queries.candidates.max())


def reciprocal_rank(queries):
    """(ranks): MRR@k at each k from 1 on."""
    return up_to(queries.best, 1 / queries.best, queries.candidates.max())


def success_by_chance(run, queries):
    """(ranks): the expected success of candidates in random order."""
    hits, begins = hits_of(run), begins_of(run)
    wrong = (queries.candidates - np.add.reduceat(hits.astype(int), begins)[queries.numbers]).astype(float)
    left, none_so_far, shares = queries.candidates.astype(float), np.ones(len(queries)), []
    for _ in range(int(queries.candidates.max())):
        none_so_far *= np.divide(wrong, left, out=np.ones(len(queries)), where=left > 0)
        wrong, left = np.maximum(wrong - 1, 0), np.maximum(left - 1, 0)
        shares.append(1 - none_so_far.mean())
    return np.array(shares)
