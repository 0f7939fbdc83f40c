"""Ranking of answers from tables to run files: the scorers' numbers are those of the run to the last digit; layouts agree for both losses;
a model that can tell right from wrong ranks perfectly; what cannot be is refused."""

import csv
import json
import pathlib
import random
import sys
import unittest

import h5py
import numpy as np
from program import SIZES, TaskCase, run
from saved import rankings_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "postprocess"))

import queries  # noqa: E402
import reading  # noqa: E402

WORDS = "tea leaf water cup mountain river garden salt sugar paper stone light engine wheel bridge tower".split()
HEADER = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel"
QUESTIONS, UNANSWERABLE = 60, 5  # each fifth has no right answer


def questions(seed=1, repeat=False):
    """(id, question, [(id, sentence, label)]): the right sentence holds the question's two words; equal sentences have equal scores."""
    draw = random.Random(seed)
    rows = []
    for number in range(QUESTIONS):
        first, second = draw.sample(WORDS, 2)
        sentences = []
        for index in range(draw.randint(1, 9)):
            words = draw.sample([word for word in WORDS if word != first], 3)
            if repeat and sentences and draw.random() < 0.3:
                words = sentences[-1][1].split()
            sentences.append((f"D{number}-{index}", " ".join(words), 0))
        if number % UNANSWERABLE:
            for index in range(draw.randint(1, 2)):
                at = draw.randrange(len(sentences) + 1)
                sentences.insert(at, (f"D{number}-{20 + index}", f"{first} {draw.choice(WORDS)} {second}", 1))
        rows.append((f"Q{number}", f"which {first} has {second}", sentences))
    return rows


def wikiqa(rows):
    lines = [HEADER]
    for identity, question, sentences in rows:
        lines += [f"{identity}\t{question}\tD\tTitle\t{name}\t{text}\t{label}" for name, text, label in sentences]
    return "\n".join(lines) + "\n"


class AnswerRanking(TaskCase):
    task = "answer_ranking"
    hidden_size, max_tokens = 32, 24
    shards = {"train": ["shards/train-*.h5"], "test": ["shards/test-*.h5"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "train.tsv").write_text(wikiqa(questions()))
        (cls.folder / "test.tsv").write_text(wikiqa(questions(2, repeat=True)))
        cls.prepare("shards", {"format": "wikiqa", "files": ["train.tsv"], "test_files": ["test.tsv"]})

    @classmethod
    def prepare(cls, output, source, tokenizer=None, ranks=1, check=0, **more):
        tables = {"source": source, "tokenizer": {"max_tokens": 24} | (tokenizer or {"train_size": 120}),
                  "task": {"name": "answer_ranking"}, "output": {"directory": output}} | more
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", tables, ranks, check)

    def metrics(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {metric: data[-1] for metric, data in file["evaluations/test"].items()}

    def score(self, scorer, gold, predictions):
        return json.loads(run("bert_hpc_score", scorer, gold, predictions, check=0, cwd=self.folder).stdout)

    def test_the_scorers_have_the_numbers_of_the_run(self):
        for loss in ("binary", "listwise"):
            done = self.train(loss, task={"loss": loss})
            found = self.metrics(loss)
            self.assertTrue(0 < found["map"] < 1, "a model between none and all")
            self.assertIn("loss        " + {"binary": "binary cross entropy", "listwise": "listwise: cross entropy"}[loss], done.stdout)
            scores = self.score("wikiqa", "test.tsv", f"{loss}/run.trec")
            for name, official in (("map", "map"), ("mrr", "recip_rank"), ("precision_at_1", "P_1"), ("best_f1", "best_triggering_f1")):
                self.assertEqual(found[name], scores[official], name)
            names = {line.split(" ")[5] for line in (self.folder / loss / "run.trec").read_text().splitlines()}
            self.assertEqual(names, {loss})  # of the run's directory
            # run.trec has the digits that read back as the same number in single precision.
            self.assertEqual(found["best_f1_threshold"], np.float32(scores["best_triggering_thresh"]))
            # At the best threshold.
            again = {"answer_threshold": float(found["best_f1_threshold"]) - 1e-5, "loss": loss}  # roundings of other micro-batches
            evaluation = {"run": {"mode": "evaluate", "directory": f"{loss}_again"}, "model": SIZES | {"pretrained": f"{loss}/model"},
                          "data": {"train": None}}
            self.train(f"{loss}_again", 2, task=again, **evaluation)
            more = self.metrics(f"{loss}_again")
            for name in ("precision", "recall", "f1"):
                self.assertEqual(more[name], scores[f"best_triggering_{name}"], name)
            self.assertAlmostEqual(more["loss"], found["loss"], delta=1e-5 * found["loss"])  # of weights in files, in other micro-batches
            # Questions without a right answer count 0.
            self.train(f"{loss}_all", task=again | {"skip_unanswerable": False},
                       **(evaluation | {"run": {"mode": "evaluate", "directory": f"{loss}_all"}}))
            self.assertAlmostEqual(self.metrics(f"{loss}_all")["map"], more["map"] * (1 - 1 / UNANSWERABLE), delta=1e-12)

    def test_files_of_a_prediction(self):
        self.train("trained")
        self.train("predicted", run={"mode": "predict", "directory": "predicted"}, data={"train": None},
                   model=SIZES | {"pretrained": "trained/model"})
        folder = self.folder / "predicted"
        self.assertEqual(rankings_of(folder), rankings_of(self.folder / "trained"))
        self.assertEqual((folder / "predictions.tsv").read_bytes(), (self.folder / "trained/predictions.tsv").read_bytes())
        with open(folder / "predictions.csv", newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        expected = [(identity, name) for identity, _, sentences in questions(2, repeat=True) for name, _, _ in sentences]
        self.assertEqual([(row["query"], row["passage"]) for row in table], expected)  # in the source's order
        with h5py.File(folder / "predictions.h5") as file:
            self.assertEqual(set(file), {"source_index", "label", "prediction", "rank", "query", "relevant"})
            scores, ranks = file["prediction"][:], file["rank"][:]
            self.assertEqual(list(file["query"]), [int(identity[1:]) for identity, _ in expected])
            self.assertEqual(set(file["relevant"]), {-1})  # mode predict reads no labels
        with h5py.File(self.folder / "trained/predictions.h5") as file:
            right = {identity: sum(label for _, _, label in sentences) for identity, _, sentences in questions(2, repeat=True)}
            self.assertEqual(list(file["relevant"]), [right[identity] for identity, _ in expected])
        self.assertEqual([float(row["prediction"]) for row in table], [float(str(score)) for score in scores])
        by_query = {}
        for (query, passage), score, rank in zip(expected, scores, ranks):
            by_query.setdefault(query, []).append((rank, -score, passage))
        for rows in by_query.values():
            rows.sort()
            self.assertEqual([rank for rank, _, _ in rows], list(range(1, len(rows) + 1)))
            # Equal scores by descending id, as trec_eval has it.
            self.assertEqual([row[1:] for row in rows], sorted(sorted((row[1:] for row in rows), key=lambda row: row[1], reverse=True),
                                                               key=lambda row: row[0]))
        ties = sum(a[1] == b[1] for rows in by_query.values() for a, b in zip(rows, rows[1:]))
        self.assertGreater(ties, 5, "equal sentences have equal scores")
        config = json.loads((self.folder / "trained/model/config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(len(config["id2label"]), 1)
        self.assertNotIn("problem_type", config)

    def test_layouts_agree(self):
        layouts = {"one": (1, {}), "data": (2, {"data": 2}), "pipeline": (2, {"pipeline": 2}), "both": (4, {"data": 2, "pipeline": 2})}
        for loss in ("binary", "listwise"):
            found = {}
            for name, (ranks, parallel) in layouts.items():
                folder = f"{loss}_{name}"
                self.train(folder, ranks, parallel=parallel, run={"mode": "train", "directory": folder, "reproducible": True},
                           task={"loss": loss})
                found[name] = [(self.folder / folder / file).read_bytes() for file in ("model/model.safetensors", "predictions.tsv")]
                found[name] += [rankings_of(self.folder / folder), self.metrics(folder)]
                self.assertEqual(found[name], found["one"], folder)
            self.train(f"{loss}_tensor", 2, parallel={"tensor": 2}, task={"loss": loss})
            # Sums over hidden units are taken in two parts: a few roundings of fp32 a step.
            self.assertAlmostEqual(self.metrics(f"{loss}_tensor")["loss"] / found["one"][-1]["loss"], 1, delta=1e-3)

    def test_a_model_that_knows_the_answers_ranks_them_first(self):
        self.prepare("known", {"format": "wikiqa", "test_files": ["train.tsv"]}, {"vocabulary": "shards"})
        for loss in ("binary", "listwise"):
            self.train(f"learned_{loss}", schedule={"epochs": 250}, task={"loss": loss}, data={"test": ["known/test-*.h5"]})
            found = self.metrics(f"learned_{loss}")
            for name in ("map", "mrr", "mrr_at_10", "ndcg_at_10", "precision_at_1", "recall_at_10"):
                self.assertAlmostEqual(found[name], 1, delta=1e-12, msg=f"{loss}: {name}")

    def test_ms_marco(self):
        rows = questions(3)
        triples, candidates, qrels = [], [], []
        for number, (_, question, sentences) in enumerate(rows):
            right = [text for _, text, label in sentences if label]
            triples += [f"{question}\t{right[0]}\t{text}" for _, text, label in sentences if right and not label]
            for index, (_, text, label) in enumerate(sentences):
                if label:
                    qrels.append(f"{number}\t0\t{100 * number + index}\t1")
                candidates.append(((index * 7919 + number * 104729) % 10007, f"{number}\t{100 * number + index}\t{question}\t{text}"))
        qrels.append("0 0 9999999 1")  # relevant, and no candidate
        candidates.sort()  # candidates of a query are not neighbours
        (self.folder / "triples.tsv").write_text("\n".join(triples) + "\n")
        (self.folder / "top.tsv").write_text("\n".join(line for _, line in candidates) + "\n")
        (self.folder / "qrels.tsv").write_text("\n".join(qrels) + "\n")
        source = {"format": "msmarco", "files": ["triples.tsv"], "validation_files": ["top.tsv"], "qrels": "qrels.tsv"}
        done = self.prepare("marco", source)
        self.assertIn(f"{2 * len(triples)} sequences", done.stdout.replace(",", ""))
        with h5py.File(self.folder / "marco/train-00000.h5") as file:
            self.assertEqual(set(file["groups"][1:] - file["groups"][:-1]), {2})
        self.train("marco_run", data={"train": ["marco/train-*.h5"], "test": ["marco/validation-*.h5"]}, task={"loss": "listwise"})
        found = self.metrics("marco_run")
        self.assertTrue(0 < found["mrr_at_10"] < 1)
        self.assertEqual(found["mrr_at_10"], self.score("msmarco", "qrels.tsv", "marco_run/predictions.tsv")["MRR @10"])
        scores = self.score("trec", "qrels.tsv", "marco_run/run.trec")
        for name, official in (("map", "map"), ("mrr", "recip_rank"), ("ndcg_at_10", "ndcg_cut_10"), ("recall_at_10", "recall_10"),
                               ("recall_at_100", "recall_100")):
            # The same terms in another order: the shard's, not that of the queries' names.
            self.assertAlmostEqual(found[name], scores[official], delta=1e-13)
        # The report's curves hold the same numbers, also where what is relevant is no candidate.
        reported = reading.load_run(self.folder / "marco_run", "run")
        judged = queries.judged(reported)
        for name, value in (("map", judged.average_precision.mean()), ("mrr", queries.reciprocal_rank(judged)[-1]),
                            ("mrr_at_10", queries.reciprocal_rank(judged)[9]), ("recall_at_10", queries.recall(reported, judged)[9])):
            self.assertAlmostEqual(found[name], value, delta=1e-13, msg=name)
        self.prepare("blind", {"format": "msmarco", "test_files": ["top.tsv"]}, {"vocabulary": "marco"})
        self.train("blind_run", run={"mode": "predict", "directory": "blind_run"}, data={"train": None, "test": ["blind/test-*.h5"]},
                   model=SIZES | {"pretrained": "marco_run/model"})
        with open(self.folder / "marco_run/predictions.csv", newline="", encoding="utf-8") as file:
            first = [row["query"] == "0" for row in csv.DictReader(file)]
        with h5py.File(self.folder / "marco_run/predictions.h5") as file:
            self.assertEqual(set(file["relevant"][:][first]), {sum(line.split()[0] == "0" for line in qrels)})
        self.assertEqual(rankings_of(self.folder / "blind_run"), rankings_of(self.folder / "marco_run"))

    def test_shards_do_not_depend_on_ranks(self):
        self.prepare("many", {"format": "wikiqa", "files": ["train.tsv"], "test_files": ["test.tsv"]}, ranks=3)
        for name in ("train-00000.h5", "test-00000.h5"):
            self.assertEqual((self.folder / "many" / name).read_bytes(), (self.folder / "shards" / name).read_bytes())

    def test_tables_without_ids(self):
        lines = ["query\tpassage\tlabel"] + [f"{question}\t{text}\t{2 * label}" for _, question, sentences in questions(2) for _, text, label in sentences]
        (self.folder / "plain.tsv").write_text("\n".join(lines) + "\n")
        self.prepare("plain", {"format": "tsv", "test_files": ["plain.tsv"]}, {"vocabulary": "shards"})
        self.train("plain_run", data={"test": ["plain/test-*.h5"]})
        with h5py.File(self.folder / "plain/test-00000.h5") as file:
            self.assertEqual(set(file["labels"][:]), {0, 2})
            self.assertEqual(len(file["groups"]) - 1, len({question for _, question, _ in questions(2)}))
        first = (self.folder / "plain_run/run.trec").read_text().split()[:3]
        self.assertEqual(first[:2], ["0", "Q0"])  # numbers of rows

    def test_what_cannot_be_is_refused(self):
        self.train("base", schedule={"epochs": 1})
        evaluation = {"run": {"mode": "evaluate", "directory": "no_ids"}, "model": SIZES | {"pretrained": "base/model"}}
        done = self.train("no_ids", check=3, data={"train": None, "test": ["shards/train-*.h5"]}, **evaluation)
        self.assertIn("it holds no texts", done.stderr)
        self.assertIn("test_files", done.stderr)
        (self.folder / "wrong.tsv").write_text(wikiqa([(q, text, [(n, s, 0) for n, s, _ in sentences]) for q, text, sentences in questions(4)]))
        self.prepare("wrong", {"format": "wikiqa", "files": ["wrong.tsv"]}, {"vocabulary": "shards"}, split={"train": 1})
        done = self.train("nothing", check=3, data={"train": ["wrong/train-*.h5"], "test": None}, task={"loss": "listwise"})
        self.assertIn("no query of the training data has a relevant candidate", done.stderr)
        done = self.train("narrow", check=2, batch={"global": 16, "micro_tokens": 24}, task={"loss": "listwise"})
        self.assertIn("micro_tokens", done.stderr)
        done = self.train("loss", check=2, task={"loss": "pairwise"})
        self.assertIn('"binary"', done.stderr)
        done = self.train("other_key", check=2, task={"name": "classification", "loss": "binary"})
        self.assertIn("loss belongs to the task", done.stderr)
        broken = [HEADER, "Q1\twhy\tD\tT\tD-0\tso\t1", "Q1\thow\tD\tT\tD-1\tso\t1", "Q1\twhy\tD\tT\tD-0\tno\t0", "Q1\twhy\tD\tT\tD 2\tno\t0",
                  "Q1\twhy\tD\tT\tD-3\tno\tperhaps"]
        (self.folder / "broken.tsv").write_text("\n".join(broken) + "\n")
        self.prepare("broken", {"format": "wikiqa", "test_files": ["broken.tsv"]}, {"vocabulary": "shards"}, filter={"max_rejected": 1})
        rejects = (self.folder / "broken/rejects.tsv").read_text()
        for line, reason in ((3, "the same query id and another query"), (4, 'has the same id ("D-0")'), (5, "holds a blank"),
                             (6, 'no level of relevance, a whole number from 0 on ("perhaps")')):
            self.assertRegex(rejects, rf"\t{line}\t[^\n]*" + reason.replace("(", r"\(").replace(")", r"\)"))
        self.prepare("few", {"format": "wikiqa", "test_files": ["broken.tsv"]}, {"vocabulary": "shards"}, check=3)
        (self.folder / "tops.tsv").write_text("1\t2\tq\tp\n")
        (self.folder / "bad_qrels.tsv").write_text("1 0 2 1\n1 0 3\n")
        done = self.prepare("bad", {"format": "msmarco", "test_files": ["tops.tsv"], "qrels": "bad_qrels.tsv"}, {"vocabulary": "shards"}, check=3)
        self.assertIn("bad_qrels.tsv, line 2:", done.stderr)


if __name__ == "__main__":
    unittest.main()
