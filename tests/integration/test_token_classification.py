"""Token classification from CoNLL's columns to predictions.conll: a model that has learned 60 sentences by heart, some of them
longer than a sequence, tags every word; layouts agree; bert_hpc_score has the run's numbers; what cannot be is refused."""

import json
import random
import shutil
import unittest

import h5py
from program import SIZES, TaskCase, run

NAMES = {"PER": ["Zoë", "van", "Größe", "O'Neill"], "LOC": ["Oslo", "St.", "茶山"], "MISC": ["FIFA-98", "d'Or"]}
OTHERS = "the of saw 12.5% , ( ) in\u200b won grow leaves - well-known \u200b".split(" ")
SENTENCES = 60


def sentences(seed=3):
    """[(words, tags)]. One word is invisible; every tenth sentence is several windows long."""
    draw = random.Random(seed)
    found = []
    for number in range(SENTENCES):
        words, tags = [], []
        while len(words) < (70 if number % 10 == 0 else draw.randint(2, 12)):
            if draw.random() < 0.35:
                kind = draw.choice(list(NAMES))
                for index in range(draw.randint(1, 3)):
                    words.append(draw.choice(NAMES[kind]))
                    tags.append(("B-" if index == 0 else "I-") + kind)
            else:
                words.append(draw.choice(OTHERS))
                tags.append("O")
        found.append((words, tags))
    return found


def conll(rows, document_every=20):
    lines = []
    for number, (words, tags) in enumerate(rows):
        if number % document_every == 0:
            lines.append("-DOCSTART- -X- O O\n\n")
        lines.append("".join(f"{word} X {tag}\n" for word, tag in zip(words, tags)) + "\n")
    return "".join(lines)


class TokenClassification(TaskCase):
    task = "token_classification"
    learning_rate, epochs = 3e-3, 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sentences = sentences()
        (cls.folder / "rows.conll").write_text(conll(cls.sentences), encoding="utf-8")
        cls.prepare("train", {"files": ["rows.conll"]}, {"train_size": 120})
        cls.prepare("test", {"test_files": ["rows.conll"]}, {"vocabulary": "train"}, cls.labels())

    @staticmethod
    def labels():
        return {"labels": [f"{kind}-{name}" for kind in "BI" for name in ("LOC", "MISC", "PER")] + ["O"]}

    @classmethod
    def prepare(cls, output, source, tokenizer, task={}, ranks=1, check=0):
        tables = {"source": {"format": "conll"} | source, "tokenizer": {"max_tokens": 32, "doc_stride": 8} | tokenizer,
                  "task": {"name": "token_classification"} | task, "output": {"directory": output}}
        if "files" in source:
            tables["split"] = {"train": 1, "validation": 0, "test": 0}
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", tables, ranks, check)

    def predicted(self, run_folder):
        """[(words of a sentence, [its tags, gold and predicted])], in the order of the file."""
        blocks = (self.folder / run_folder / "predictions.conll").read_text().split("\n\n")
        rows = [[line.split(" ") for line in block.splitlines()] for block in blocks if block]
        return [([row[0] for row in block], [row[1:] for row in block]) for block in rows]

    def test_a_model_that_knows_the_sentences_tags_every_word(self):
        self.train("learned", task={"name": "token_classification", "all_pieces": True})
        with h5py.File(self.folder / "learned/metrics.h5") as file:
            test = file["evaluations/test"]
            for name in ("accuracy", "entity_precision", "entity_recall", "entity_f1"):
                self.assertEqual(test[name][-1], 1.0, name)
            self.assertEqual(list(test["per_type"].attrs["entity_types"]), ["LOC", "MISC", "PER"])
            support = [sum(tag == f"B-{name}" for _, tags in self.sentences for tag in tags) for name in ("LOC", "MISC", "PER")]
            self.assertEqual(list(test["per_type/support"][-1]), support)
        found = self.predicted("learned")
        self.assertEqual(sorted(words for words, _ in found), sorted(words for words, _ in self.sentences))
        gold = {tuple(words): tags for words, tags in self.sentences}
        for words, tags in found:
            self.assertEqual([tag for tag, _ in tags], gold[tuple(words)])
            self.assertEqual([tag for _, tag in tags], gold[tuple(words)])

    def test_training_reads_the_first_piece_of_a_word_or_all(self):
        """Losses of the first step, before any update: of the same sequences and weights, over other tokens."""
        losses = {}
        for every in (False, True):
            name = f"pieces-{every}"
            self.train(name, task={"name": "token_classification", "all_pieces": every}, schedule={"epochs": None, "steps": 1},
                       data={"order": "file"}, log={"every_steps": 1})
            with h5py.File(self.folder / name / "metrics.h5") as file:
                losses[every] = file["steps/loss"][0]
        self.assertGreater(abs(losses[True] - losses[False]), 1e-4)  # rounding is 1e-7

    def test_the_scorer_has_the_numbers_of_the_run(self):
        self.train("half", schedule={"epochs": 8})
        predictions = (self.folder / "half/predictions.conll").read_text()
        lines = [line.rsplit(" ", 1)[0] for line in predictions.split("\n")]
        (self.folder / "gold.conll").write_text("\n".join(lines))
        (self.folder / "found.conll").write_text("\n".join(" ".join(line.split(" ")[::2]) for line in predictions.split("\n")))
        official = json.loads(run("bert_hpc_score", "conll", "gold.conll", "found.conll", check=0, cwd=self.folder).stdout)
        # The file that was prepared, and the run's own file as it is: its sentences are in the source's order.
        self.assertEqual([words for words, _ in self.predicted("half")], [words for words, _ in self.sentences])
        as_they_are = run("bert_hpc_score", "conll", "rows.conll", "half/predictions.conll", check=0, cwd=self.folder)
        self.assertEqual(json.loads(as_they_are.stdout), official)
        with h5py.File(self.folder / "half/metrics.h5") as file:
            test = file["evaluations/test"]
            for name, theirs in (("entity_precision", "precision"), ("entity_recall", "recall"), ("entity_f1", "FB1"), ("accuracy", "accuracy")):
                self.assertAlmostEqual(100 * test[name][-1], official[theirs], delta=1e-10)
            self.assertTrue(0 < test["entity_f1"][-1] < 1, "a model between none and all")
            for index, kind in enumerate(test["per_type"].attrs["entity_types"]):
                self.assertAlmostEqual(100 * test["per_type/f1"][-1][index], official[f"{kind}_FB1"], delta=1e-10)

    def test_probabilities_stand_behind_the_words_and_change_nothing_else(self):
        self.train("plain", schedule={"epochs": 8})
        self.train("likely", schedule={"epochs": 8}, predictions={"probabilities": True})
        lines = [line.split(" ") for line in (self.folder / "likely/predictions.conll").read_text().split("\n")]
        without = "\n".join(" ".join([line[0], *line[2:]]) for line in lines)
        self.assertEqual(without, (self.folder / "plain/predictions.conll").read_text())
        found = [float(line[1]) for line in lines if len(line) > 1]
        self.assertTrue(all(len(line[1]) == 8 for line in lines if len(line) > 1))
        self.assertTrue(1 / 7 < min(found) < max(found) <= 1)  # of the likeliest of seven classes
        wrong = [probability for probability, line in zip(found, (line for line in lines if len(line) > 1)) if line[2] != line[3]]
        self.assertLess(sum(wrong) / len(wrong), sum(found) / len(found))
        scores = [run("bert_hpc_score", "conll", "rows.conll", f"{name}/predictions.conll", check=0, cwd=self.folder).stdout
                  for name in ("plain", "likely")]
        self.assertEqual(*scores)

    def test_a_sentence_of_invisible_words_has_predictions(self):
        text = "".join("the dog B-PER\n".replace("the dog", word) for word in ("Mara", "Oda")) + "\n" + "\u200b O\n\u200d\u200b O\n\nMara B-PER\n"
        (self.folder / "invisible.conll").write_text(text, encoding="utf-8")
        self.prepare("invisible", {"test_files": ["invisible.conll"]}, {"vocabulary": "train"}, self.labels())
        self.train("unseen", schedule={"epochs": None, "steps": 1}, data={"test": ["invisible/test-*.h5"]})
        words = [words for words, _ in self.predicted("unseen")]
        self.assertEqual(words, [["Mara", "Oda"], ["\u200b", "\u200d\u200b"], ["Mara"]])
        run("bert_hpc_score", "conll", "invisible.conll", "unseen/predictions.conll", check=0, cwd=self.folder)

    def test_a_word_of_invisible_characters_is_outside_of_entities_whatever_was_learned(self):
        (self.folder / "ghosts.conll").write_text("".join(f"{word} {tag}\n\u200b B-PER\n\u2060\u200d B-PER\n\n" for word, tag in
                                                          [("the", "O"), ("Oslo", "B-LOC"), ("saw", "O")] * 20), encoding="utf-8")
        self.prepare("ghosts", {"files": ["ghosts.conll"]}, {"vocabulary": "train"}, self.labels())
        self.prepare("ghosts_test", {"test_files": ["ghosts.conll"]}, {"vocabulary": "train"}, self.labels())
        self.train("haunted", schedule={"epochs": 20}, data={"train": ["ghosts/train-*.h5"], "test": ["ghosts_test/test-*.h5"]},
                   task={"all_pieces": True})
        tags = [tag for words, tags in self.predicted("haunted") for word, tag in zip(words, tags) if not word.isascii()]
        self.assertEqual(tags, [["B-PER", "O"]] * 120)
        with h5py.File(self.folder / "haunted/metrics.h5") as file:
            test = file["evaluations/test"]
            self.assertLess(test["loss"][-1], 0.1)  # the model has learned the tags
            self.assertAlmostEqual(test["accuracy"][-1], 1 / 3, delta=1e-12)
        score = json.loads(run("bert_hpc_score", "conll", "ghosts.conll", "haunted/predictions.conll", check=0, cwd=self.folder).stdout)
        self.assertAlmostEqual(score["accuracy"], 100 / 3, delta=1e-9)
        self.assertEqual(score["PER_FB1"], 0)

    def test_a_metric_that_is_not_a_number_selects_no_model_and_says_so(self):
        (self.folder / "speech.conll").write_text("the DET\ndog NOUN\n\na DET\ncat NOUN\n", encoding="utf-8")
        self.prepare("speech", {"files": ["speech.conll"]}, {"train_size": 60})
        self.prepare("speech_validation", {"validation_files": ["speech.conll"]}, {"vocabulary": "speech"}, {"labels": ["DET", "NOUN"]})
        done = self.train("speechless", schedule={"epochs": 2}, evaluation={"best": "entity_f1"},
                          data={"train": ["speech/train-*.h5"], "validation": ["speech_validation/validation-*.h5"], "test": None})
        self.assertIn("warning: validation: entity_f1 is not a number, so this evaluation selects no model", done.stdout + done.stderr)

    def test_layouts_agree(self):
        layouts = {"one": (1, {}), "data": (2, {"data": 2}), "pipeline": (2, {"pipeline": 2}), "both": (4, {"data": 2, "pipeline": 2})}
        found = {}
        for name, (ranks, parallel) in layouts.items():
            self.train(name, ranks, parallel=parallel, run={"mode": "train", "directory": name, "reproducible": True}, schedule={"epochs": 3})
            found[name] = [(self.folder / name / file).read_bytes() for file in ("model/model.safetensors", "predictions.conll")]
            self.assertEqual(found[name], found["one"], name)
        self.train("tensor", 2, parallel={"tensor": 2}, schedule={"epochs": 3})
        with h5py.File(self.folder / "one/metrics.h5") as one, h5py.File(self.folder / "tensor/metrics.h5") as two:
            # Sums over hidden units are taken in two parts: a few roundings of fp32 a step.
            self.assertAlmostEqual(one["evaluations/test/loss"][-1] / two["evaluations/test/loss"][-1], 1, delta=1e-3)

    def test_prediction_has_the_tags_of_the_training(self):
        self.train("trained", schedule={"epochs": 10})
        rows = [{"words": words} for words, _ in self.sentences]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.prepare("unlabelled", {"format": "jsonl", "test_files": ["rows.jsonl"], "text": ["words"], "label": ""}, {"vocabulary": "train"})
        self.train("predicted", run={"mode": "predict", "directory": "predicted"}, data={"train": None, "test": ["unlabelled/test-*.h5"]},
                   model=SIZES | {"pretrained": "trained/model"})
        self.assertEqual([(words, [tags[-1] for tags in all_tags]) for words, all_tags in self.predicted("predicted")],
                         [(words, [tags[-1] for tags in all_tags]) for words, all_tags in self.predicted("trained")])
        config = json.loads((self.folder / "trained/model/config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForTokenClassification"])
        self.assertEqual([config["id2label"][str(i)] for i in range(7)], self.labels()["labels"])

    def test_other_forms_of_the_text_give_the_same_shards(self):
        """JSON Lines with lists of words, tables with blanks between words, any number of ranks."""
        plain = [(words, tags) for words, tags in self.sentences if "\u200b" not in words]
        (self.folder / "plain.conll").write_text(conll(plain), encoding="utf-8")
        (self.folder / "plain.jsonl").write_text("".join(json.dumps({"tokens": words, "tags": tags}) + "\n" for words, tags in plain))
        (self.folder / "plain.tsv").write_text("text\ttags\n" + "".join(f"{' '.join(words)}\t{' '.join(tags)}\n" for words, tags in plain))
        numbered = [self.labels()["labels"].index(tag) for _, tags in plain for tag in tags]
        (self.folder / "numbers.jsonl").write_text("".join(
            json.dumps({"tokens": words, "tags": [numbered.pop(0) for _ in tags]}) + "\n" for words, tags in plain))
        forms = {"plain": {"test_files": ["plain.conll"]}, "ranks": {"test_files": ["plain.conll"]},
                 "json": {"format": "jsonl", "test_files": ["plain.jsonl"]}, "numbers": {"format": "jsonl", "test_files": ["numbers.jsonl"]},
                 "table": {"format": "tsv", "test_files": ["plain.tsv"], "text": ["text"], "label": "tags"}}
        for name, source in forms.items():
            with self.subTest(name):
                self.prepare(name, source, {"vocabulary": "train"}, self.labels(), ranks=3 if name == "ranks" else 1)
                with h5py.File(self.folder / name / "test-00000.h5") as mine, h5py.File(self.folder / "plain/test-00000.h5") as theirs:
                    for dataset in ("input_ids", "offsets", "labels", "word_tokens", "word_offsets", "texts", "text_offsets"):
                        self.assertEqual(list(mine[dataset][:].ravel()), list(theirs[dataset][:].ravel()), dataset)

    def test_what_cannot_be_is_refused(self):
        shutil.copytree(self.folder / "train", self.folder / "train_copy")
        bad = "a O\nb O\n\nc O\nd\n\ne B-NEW\n\nf I-PER\n"
        (self.folder / "bad.conll").write_text(bad)
        self.prepare("bad", {"test_files": ["bad.conll"]}, {"vocabulary": "train"}, self.labels())
        rejects = (self.folder / "bad/rejects.tsv").read_text()
        self.assertIn("bad.conll\t2\t4\tthe row has 1 column in line 5, and the file's first token 2", rejects)
        self.assertIn('bad.conll\t3\t7\tthe label is not in [task] labels ("B-NEW")', rejects)
        (self.folder / "unequal.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["O"]}\n' + '{"tokens": ["a"], "tags": ["O"]}\n' * 3)
        self.prepare("unequal", {"format": "jsonl", "test_files": ["unequal.jsonl"]}, {"vocabulary": "train"}, self.labels())
        self.assertIn("the row has 2 words and 1 label", (self.folder / "unequal/rejects.tsv").read_text())
        self.train("base", schedule={"epochs": 1})
        done = self.train("no_texts", run={"mode": "evaluate", "directory": "no_texts"}, model=SIZES | {"pretrained": "base/model"},
                          data={"train": None, "test": ["train_copy/train-*.h5"]}, check=None)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("it holds no texts, which predictions need", done.stderr)
        done = self.prepare("column", {"test_files": ["bad.conll"], "label": "ner"}, {"vocabulary": "train"}, self.labels(), check=None)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn('has no column "ner"', done.stderr)


if __name__ == "__main__":
    unittest.main()
