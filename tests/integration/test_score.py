"""bert_hpc_score: its numbers are those of the formulas written here in Python, to the last digit; broken files are
reported with status 2, 3 or 4."""

import collections
import json
import math
import random
import re
import string
import sys
import unittest

from program import run
from scoring import ScorerTest

# Words, blanks and punctuation on which careless normalizations differ from Python's.
PIECES = ["the", "The", "a", "A", "an", "AN", "theory", "a.b", "the_end", "cat", "Cat", "CATS", "dog", "42", "3.5", "-", "_", "'s",
          "\u2013", "\u00e9", "\u00c9", "e\u0301", "a\u0301", "the\u0301", "\u0130stanbul", "\u039f\u0394\u039f\u03a3",
          "\u03a3", "A\u03a3\u0301", "A\u03a3\u0301B", "\u00df", "\u1e9e", "\u4e2d", "\U00010400", "\u01c5", "\u2160", "\u00aa",
          "\u200ba", "\u200d", "a\u00b2", "\u0661", "\ufeffthe", "$", "`", "~", "\u20ac"]
BLANKS = [" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "", "", "\u200b"]


def words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def f1(gold, predicted, empty):
    gold, predicted = words(gold), words(predicted)
    same = sum((collections.Counter(gold) & collections.Counter(predicted)).values())
    if not gold and not predicted:
        return empty
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def added(values):
    """sum() without the compensation of roundings that Python has since 3.12."""
    total = 0.0
    for value in values:
        total += value
    return total


def version_1(questions, predictions):
    exact = [float(max(words(g) == words(predictions[i]) for g in answers)) for i, answers in questions if i in predictions]
    overlap = [max(f1(g, predictions[i], 0.0) for g in answers) for i, answers in questions if i in predictions]
    return {"exact_match": 100.0 * added(exact) / len(questions), "f1": 100.0 * added(overlap) / len(questions)}


def version_2(questions, predictions, odds=None):
    has = {i: bool(answers) for i, answers in questions}
    raw = {"exact": {}, "f1": {}}
    for i, answers in questions:
        gold = [answer for answer in answers if words(answer)] or [""]
        raw["exact"][i] = float(max(words(g) == words(predictions[i]) for g in gold))
        raw["f1"][i] = max(f1(g, predictions[i], 1.0) for g in gold)
    final = {kind: {i: float(not has[i]) if odds and odds[i] > 1.0 else s for i, s in raw[kind].items()} for kind in raw}
    result = {}
    for prefix, ids in (("", list(has)), ("HasAns_", [i for i in has if has[i]]), ("NoAns_", [i for i in has if not has[i]])):
        if ids:
            for kind in raw:
                result[prefix + kind] = 100.0 * added(final[kind][i] for i in ids) / len(ids)
            result[prefix + "total"] = len(ids)
    for kind in raw if odds else ():
        score = best = float(sum(not h for h in has.values()))
        threshold = 0.0
        for i in sorted((i for i in odds if i in has), key=odds.get):
            score += raw[kind][i] if has[i] else -1.0 if predictions[i] else 0.0
            if score > best:
                best, threshold = score, odds[i]
        result[f"best_{kind}"], result[f"best_{kind}_thresh"] = 100.0 * best / len(has), threshold
    return result


def document(version, questions):
    asked = [{"id": i, "question": "?", "answers": [{"text": text, "answer_start": 0} for text in answers]} for i, answers in questions]
    return {"version": version, "data": [{"paragraphs": [{"context": "", "qas": asked[:2]}, {"context": "", "qas": asked[2:]}]}]}


def text(rng):
    return "".join(rng.choice(PIECES) + rng.choice(BLANKS) for _ in range(rng.randrange(5)))


def example(rng, version):
    questions, predictions, odds = [], {}, {}
    for number in range(rng.randrange(1, 40)):
        answers = [text(rng) for _ in range(rng.randrange(1, 4))] if version == "1.1" or rng.random() < 0.6 else []
        questions.append((f"q{number}", answers))
        right = answers and rng.random() < 0.5
        predictions[f"q{number}"] = rng.choice(answers) + rng.choice(["", " cat", " the", "."]) if right else text(rng)
    for i in rng.sample(sorted(predictions), len(predictions)):
        odds[i] = rng.choice([0.0, 0.25, 0.5, 1.0, 1.5, -3.25, rng.uniform(-2, 3)])
    return questions, predictions, odds


class Squad(ScorerTest):
    def score(self, gold, predictions, odds=None, check=0):
        files = [self.file("gold.json", gold), self.file("predictions.json", predictions)]
        if odds is not None:
            files.append(self.file("odds.json", odds))
        return run("bert_hpc_score", "squad", *files, check=check)

    def test_random_texts(self):
        rng = random.Random(7)
        for _ in range(60):
            version = rng.choice(["1.1", "v2.0"])
            questions, predictions, odds = example(rng, version)
            given = odds if version != "1.1" and rng.random() < 0.7 else None
            expected = version_1(questions, predictions) if version == "1.1" else version_2(questions, predictions, given)
            printed = json.loads(self.score(document(version, questions), predictions, given).stdout)
            self.assertEqual(list(printed.items()), list(expected.items()))

    def test_every_character(self):
        """Each as a prediction beside its lower case, between letters (blanks and word boundaries) and before a sigma."""
        points = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
        forms = ["x{0}a", "{0}\u03a3", "x\u03a3{0}y", "X{0}\u03a3"]
        chosen = points[:0x3000] + points[0xA000:0x1F000:3]
        questions = [(str(ord(c)), [" | ".join(form.format(c) for form in forms)]) for c in chosen]
        predictions = {i: " ".join(words(answers[0])) for i, answers in questions}
        printed = json.loads(self.score(document("v2.0", questions), predictions).stdout)
        self.assertEqual(printed, version_2(questions, predictions))

    def test_gold_files_of_every_form_that_prep_reads(self):
        questions, predictions, _ = example(random.Random(3), "v2.0")
        own = document("v2.0", questions)
        paragraphs = own["data"][0]["paragraphs"]
        flat = [{"id": i, "context": "", "question": "?", "answers": {"text": answers, "answer_start": [0] * len(answers)}}
                for i, answers in questions]
        listed = [dict(question, answers=[{"text": text, "answer_start": 0} for text in question["answers"]["text"]]) for question in flat]
        lines = "\n".join(map(json.dumps, flat)) + "\n\n"
        expected = self.score(own, predictions).stdout
        for gold in ({"data": flat}, flat, listed, paragraphs, {"data": paragraphs}, lines):
            self.assertEqual(self.score(gold, predictions).stdout, expected)
        one = self.score(json.dumps(flat[0] | {"id": 7}) + "\n", {"7": ""}).stdout
        self.assertEqual(json.loads(one)["total"], 1)
        for gold, problem in ((lines + "{", f"line {len(flat) + 2} is not valid JSON"), (flat + [{"question": "?"}], f"[{len(flat)}] has no"),
                            ({"data": [{"id": "a", "question": "?", "answers": {"text": [1]}}]}, "data[0].answers.text[0] is not a text")):
            self.assertIn(problem, self.score(gold, predictions, check=3).stderr)

    def test_missing_predictions(self):
        questions = [("q1", ["cat"]), ("q2", ["dog"])]
        done = self.score(document("1.1", questions), {"q2": "Dog!"})
        self.assertEqual(json.loads(done.stdout), {"exact_match": 50.0, "f1": 50.0})
        self.assertIn("q1", done.stderr)
        none = self.score(document("1.1", questions), {})
        self.assertEqual(json.loads(none.stdout), {"exact_match": 0.0, "f1": 0.0})
        of_others = self.score(document("1.1", questions), {"p1": "Dog!"}, check=3)
        self.assertRegex(of_others.stderr, r"predictions\.json: none of its questions is in .*gold\.json, the first is 'p1'; give the")
        refused = self.score(document("v2.0", questions), {"q2": "Dog!"}, check=3)
        self.assertIn("predictions.json", refused.stderr)
        self.assertIn("q1", refused.stderr)

    def test_broken_files(self):
        good = document("v2.0", [("q1", ["cat"])])
        for gold, predictions, odds, named in (
                ("{", {"q1": ""}, None, "gold.json: line 1"), ("\n\n[,", {}, None, "gold.json: line 3"), ([], {}, None, "gold.json"),
                ({"data": []}, {}, None, "no questions"), ({"data": [{"paragraphs": [3]}]}, {}, None, "data[0].paragraphs[0]"),
                ("[" * 100000, {}, None, "deeper"), (good, [], None, "predictions.json"), (good, {"q1": 3}, None, "q1"),
                (good, {"q1": ""}, {"q1": "x"}, "odds.json"), (good, {"q1": ""}, {}, "odds.json"),
                (good, {"q1": ""}, '{"q1": 1e999}', "too large"), (document("1.1", [("q1", [])]), {"q1": ""}, None, "q1")):
            done = self.score(gold, predictions, odds, check=3)
            self.assertIn(named, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_command_line(self):
        gold = self.file("gold.json", document("1.1", [("q1", ["cat"])]))
        for arguments, status in (([], 2), (["squat", gold, gold], 2), (["squad", gold], 2), (["squad", gold, gold, gold, gold], 2),
                                  (["--wrong"], 2), (["squad", gold, self.folder / "none"], 4), (["squad", gold, self.folder], 4)):
            self.assertIn("bert_hpc_score: error", run("bert_hpc_score", *arguments, check=status).stderr)
        self.assertIn("squad", run("bert_hpc_score", "--help", check=0).stdout)
        self.assertIn("bert_hpc_score", run("bert_hpc_score", "--version", check=0).stdout)


def trec(qrels, ranking):
    """Of one query: {document: level}, documents in order."""
    levels = [qrels.get(document, 0) for document in ranking]
    ideal = sorted(qrels.values(), reverse=True)
    relevant = sum(level > 0 for level in ideal)
    hits = [rank for rank, level in enumerate(levels, 1) if level > 0]

    def dcg(values):
        return sum(max(value, 0) / math.log2(rank + 1) for rank, value in enumerate(values, 1))

    result = {"map": sum(count / rank for count, rank in enumerate(hits, 1)) / max(relevant, 1),
              "recip_rank": 1 / hits[0] if hits else 0.0, "ndcg": dcg(levels) / (dcg(ideal) or 1)}
    for cut in (5, 10, 100, 1000):
        result[f"ndcg_cut_{cut}"] = dcg(levels[:cut]) / (dcg(ideal[:cut]) or 1)
        result[f"recall_{cut}"] = sum(rank <= cut for rank in hits) / max(relevant, 1)
    return result


class Trec(ScorerTest):
    def score(self, qrels, ranking, check=0):
        return run("bert_hpc_score", "trec", self.file("qrels", qrels), self.file("run", ranking), check=check)

    def test_random_rankings(self):
        """With ties, queries in one file only and queries without relevant documents."""
        rng = random.Random(5)
        for _ in range(20):
            documents = [f"d{number}" for number in range(rng.choice([1, 12, 130]))]
            queries = [f"q{number}" for number in range(rng.randrange(1, 8))]
            qrels = {q: {d: rng.choice([-1, 0, 0, 0, 1, 2]) for d in documents if rng.random() < 0.6 or d == "d0"} for q in queries}
            found = {q: {d: rng.choice([0.5, 1.0, -2.0, rng.random()]) for d in documents if rng.random() < 0.8 or d == "d0"}
                     for q in queries[rng.randrange(2) if len(queries) > 1 else 0:] + ["other"]}
            printed = json.loads(self.score(
                "".join(f"{q} 0 {d}\t{level}\n" for q in qrels for d, level in qrels[q].items()),
                "".join(f"{q} Q0 {d} 1 {score!r} name\n" for q in found for d, score in found[q].items())).stdout)
            both = [q for q in queries if q in found]
            each = [trec(qrels[q], sorted(found[q], key=lambda d, q=q: (found[q][d], d), reverse=True)) for q in both]
            self.assertEqual(printed.pop("num_q"), len(both))
            self.assertEqual(printed.keys(), each[0].keys())
            for name, value in printed.items():  # sums of at most 130 terms of at most 2 in double precision
                self.assertAlmostEqual(value, sum(one[name] for one in each) / len(each), delta=1e-13)

    def test_scores_equal_in_single_precision_are_ties(self):
        printed = self.score("q 0 a 1\n", "q Q0 a 1 1.00000000001 x\nq Q0 b 2 1 x\n").stdout
        self.assertEqual(json.loads(printed)["recip_rank"], 0.5)

    def test_broken_files(self):
        good_qrels, good_run = "q 0 a 1\n", "q Q0 a 1 0.5 x\n"
        for qrels, ranking, named in (("q 0 a\n", good_run, "qrels: line 1"), (good_qrels + "\nq 0 b x\n", good_run, "qrels: line 3"),
                                      (good_qrels * 2, good_run, "qrels: line 2"), (good_qrels, good_run * 2, "run: line 2"),
                                      (good_qrels, "q Q0 a 1 nan x", "run: line 1"), (good_qrels, "q Q0 a 1 1e99 x", "run: line 1"),
                                      (good_qrels, "", "none of its queries"), ("", good_run, "none of its queries")):
            self.assertIn(named, self.score(qrels, ranking, check=3).stderr)


if __name__ == "__main__":
    unittest.main()
