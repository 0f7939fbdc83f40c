"""The scorer wikiqa: rankings as trec_eval has them against the formulas in Python, the best threshold, broken files."""

import json
import random
import struct
import unittest

from program import run
from scoring import ScorerTest

HEADER = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"


def table(labels):
    """{question: {sentence: label}}"""
    return HEADER + "".join(f"{q}\tq?\tD\tt\t{s}\tsome \"text\t{label}\n" for q in labels for s, label in labels[q].items())


def scored(scores):
    return "".join(f"{q}\t{s}\t{score!r}\n" for q in scores for s, score in scores[q].items())


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(labels, scores):
    """MAP, MRR and P@1 over questions with a right answer; the best F1 of all thresholds that a score allows."""
    ranked = {q: [labels[q][s] for s in sorted(scores[q], key=lambda s, q=q: (single(scores[q][s]), s), reverse=True)] for q in labels}
    answerable = [r for r in ranked.values() if any(r)]
    hits = [[rank for rank, label in enumerate(r, 1) if label] for r in answerable]
    tops = [max(scores[q].values()) for q in labels]
    right = [labels[q][max(scores[q], key=scores[q].get)] for q in labels]
    best = (0.0, max(tops))
    for threshold in sorted(set(tops), reverse=True):
        answered = [r for top, r in zip(tops, right) if top >= threshold]
        precision, recall = sum(answered) / len(answered), sum(answered) / len(answerable)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        best = max(best, (f1, threshold), key=lambda one: one[0])
    return {"questions": len(labels), "questions_with_answer": len(answerable),
            "map": sum(sum(n / rank for n, rank in enumerate(h, 1)) / len(h) for h in hits) / len(hits),
            "recip_rank": sum(1 / h[0] for h in hits) / len(hits), "P_1": sum(h[0] == 1 for h in hits) / len(hits),
            "best_triggering_f1": best[0], "best_triggering_thresh": best[1]}


class WikiQa(ScorerTest):
    def test_random_rankings(self):
        """With ties, questions of one sentence, and questions without a right answer."""
        rng = random.Random(11)
        for _ in range(20):
            labels = {f"Q{q}": {f"D{q}-{s}": int(rng.random() < 0.25) for s in range(rng.randrange(1, 15))} for q in range(rng.randrange(1, 12))}
            labels["right"] = {"D-1": 0, "D-2": 1}
            scores = {q: {s: rng.choice([0.5, 0.25, -2.0, rng.random()]) for s in labels[q]} for q in labels}
            printed = self.numbers("wikiqa", table(labels), scored(scores))
            for name, value in expected(labels, scores).items():  # sums of at most 15 terms of at most 1
                self.assertAlmostEqual(printed[name], value, delta=1e-14, msg=name)

    def test_ties_and_single_precision(self):
        """D-9 before D-10, as text; scores that differ in double precision only are ties."""
        labels = {"Q": {"D-9": 1, "D-10": 0}}
        for scores, rank in (({"D-9": 0.5, "D-10": 0.5}, 1), ({"D-9": 0.5, "D-10": 0.50000000001}, 1), ({"D-9": 0.5, "D-10": 0.6}, 2)):
            self.assertEqual(self.numbers("wikiqa", table(labels), scored({"Q": scores}))["recip_rank"], 1 / rank)

    def test_the_script_threshold(self):
        labels, scores = {"a": {"1": 1}, "b": {"2": 1}, "c": {"3": 0}}, {"a": {"1": 0.11}, "b": {"2": 0.1}, "c": {"3": 0.5}}
        printed = self.numbers("wikiqa", table(labels), scored(scores))
        self.assertEqual((printed["triggering_precision"], printed["triggering_recall"]), (0.5, 0.5))
        scores = {"a": {"1": 0.01}, "b": {"2": 0.02}, "c": {"3": 0.0}}
        self.assertEqual(self.numbers("wikiqa", table(labels), scored(scores))["triggering_f1"], 0.0)

    def test_a_run_in_trec_form(self):
        labels, scores = {"Q": {"D-1": 1, "D-2": 0}}, {"Q": {"D-1": 0.25, "D-2": 0.5}}
        as_run = "".join(f"Q Q0 {s} 1 {score} name\n" for s, score in scores["Q"].items())
        self.assertEqual(self.numbers("wikiqa", table(labels), as_run), self.numbers("wikiqa", table(labels), scored(scores)))

    def test_the_same_rankings_as_the_scorer_trec(self):
        labels = {"Q": {f"D-{s}": int(s in (3, 11)) for s in range(14)}, "R": {"D-1": 1, "D-2": 1}}
        ranking = "".join(f"{q} Q0 {s} 1 {(n * 7 % 5) / 5} name\n" for q in labels for n, s in enumerate(labels[q]))
        qrels = self.file("qrels", "".join(f"{q} 0 {s} {label}\n" for q in labels for s, label in labels[q].items()))
        other = json.loads(run("bert_hpc_score", "trec", qrels, self.file("run", ranking), check=0).stdout)
        printed = self.numbers("wikiqa", table(labels), ranking)
        self.assertEqual((printed["map"], printed["recip_rank"]), (other["map"], other["recip_rank"]))

    def test_broken_files(self):
        gold, good = table({"Q": {"a": 1, "b": 0}}), "Q\ta\t0.5\nQ\tb\t0.1\n"
        self.check_line_ends("wikiqa", gold, good)
        self.check_refused("wikiqa", (
            (gold.replace("\tLabel", ""), good, "gold: line 1"), (gold + "Q\tx\n", good, "gold: line 4"), (gold[:-2] + "2\n", good, "gold: line 3"),
            (gold + gold[len(HEADER):], good, "gold: line 4"), (HEADER, good, "gold"), (table({"Q": {"a": 0, "b": 0}}), good, "right answer"),
            (gold, good + "Q\tb\t0.1\n", "predictions: line 3"), (gold, "Q\ta\t0.5\n", "no score for sentence 'b' of question 'Q'"),
            (gold, good + "Q\tc\t1\n", "predictions: line 3"), (gold, "R\ta\t0.5\n", "predictions: line 1"), (gold, "Q\ta\tnan\n", "predictions: line 1"),
            (gold, "Q\ta\t1e99\n", "predictions: line 1"), (gold, "Q\ta\n", "predictions: line 1"), (gold, "", "predictions")))
        self.check_junk("wikiqa", gold, good)


if __name__ == "__main__":
    unittest.main()
