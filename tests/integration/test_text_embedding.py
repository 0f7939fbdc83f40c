"""The task embedding from tables to embeddings: shards; in-batch negatives of the whole batch on every layout; memory of a micro-batch;
figures of evaluations against numpy; what cannot be is refused."""

import json
import random
import re
import shutil
import unittest

import h5py
import numpy as np
from program import SIZES, TaskCase, run
from training_cases import write_pairs

WORDS = "tea leaf water cup mountain river garden salt sugar paper stone light engine wheel bridge tower".split()


def write_matches(path, count, seed):
    """An anchor and a positive have two words in common, which decide what belongs together."""
    draw = random.Random(seed)
    lines = ["anchor\tpositive"]
    for _ in range(count):
        both = draw.sample(WORDS, 2)
        texts = [draw.sample(both, 2) + draw.choices("the a old small very often".split(), k=draw.randint(1, 6)) for _ in range(2)]
        lines.append("\t".join(" ".join(text) for text in texts))
    path.write_text("\n".join(lines) + "\n")


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ranks_of(values):
    """Mean ranks of equal values."""
    order = np.sort(values)
    return (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right")) / 2


class TextEmbedding(TaskCase):
    task = "embedding"
    hidden_size, max_tokens = 32, 24
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    shards = {"train": ["shards/train-*.h5"], "validation": ["shards/validation-*.h5"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_matches(cls.folder / "train.tsv", 400, 1)
        write_matches(cls.folder / "validation.tsv", 130, 2)
        write_pairs(cls.folder / "scored.tsv", 200, 3)
        cls.prepare("shards", {"format": "tsv", "files": ["train.tsv"], "validation_files": ["validation.tsv"]})
        cls.prepare("scored", {"format": "tsv", "files": ["scored.tsv"], "label": "score"}, split={"train": 0.8, "test": 0.2})

    @classmethod
    def prepare(cls, output, source, ranks=1, check=0, **more):
        tables = {"source": source, "tokenizer": {"max_tokens": 24, "train_size": 120}, "task": {"name": "embedding"},
                  "output": {"directory": output}} | more
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", tables, ranks, check)

    def evaluation(self, name, split):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {metric: data[-1] for metric, data in file[f"evaluations/{split}"].items()}

    def embeddings(self, name, model, **data):
        """Of the texts of a split, by mode embed."""
        split = next(iter(data))
        self.start("bert_hpc", f"{name}.toml", {"run": {"mode": "embed", "directory": name}, "model": {"pretrained": f"{model}/model"},
                                                "embed": {"pooling": "mean"}, "data": data}, 1, 0)
        with h5py.File(self.folder / name / f"embeddings/{split}-00000.h5") as file:
            return file["embeddings"][:].astype(float)

    def test_each_text_is_a_sequence_beside_the_other_of_its_row(self):
        (self.folder / "few.csv").write_text("q,a,n\nriver water,stone,1\nsalt,\"tea, leaf\",2\nsugar,,3\n,cup,4\n")
        for ranks in (1, 2):
            done = self.prepare(f"few{ranks}", {"format": "csv", "files": ["few.csv"], "text": "q", "text_pair": "a"}, ranks,
                                split={"train": 1}, filter={"max_rejected": 1})
            self.assertIn("4 sequences", done.stdout)
            rejects = (self.folder / f"few{ranks}/rejects.tsv").read_text()
            self.assertIn('the second text ("a") is empty', rejects)
            self.assertIn('the first text ("q") is empty', rejects)
            with h5py.File(self.folder / f"few{ranks}/train-00000.h5") as file:
                self.assertNotIn("labels", file)
                self.assertNotIn("token_type_ids", file)
                self.assertEqual(file["groups"][:].tolist(), [0, 2, 4])
                rows, ids, offsets = file["source_index"][:].tolist(), file["input_ids"][:], file["offsets"][:]
            vocabulary = (self.folder / f"few{ranks}/vocab.txt").read_text().splitlines()
            texts = [" ".join(vocabulary[i] for i in ids[a:b]) for a, b in zip(offsets, offsets[1:])]
            self.assertEqual(sorted(rows), [0, 0, 1, 1])
            for row, first in ((0, "river"), (1, "salt")):
                at = rows.index(row)
                self.assertTrue(texts[at].replace(" ##", "").startswith(f"[CLS] {first}"), texts)
                self.assertEqual(texts[at + 1].count("[CLS]"), 1)
                self.assertEqual(texts[at + 1].count("[SEP]"), 1)

    def test_negatives_stand_behind_the_positive(self):
        (self.folder / "more.csv").write_text("anchor,positive,near,far\nsalt,tea,cup,stone water\nsugar,leaf,,river\nlight,paper,,\n")
        source = {"format": "csv", "files": ["more.csv"], "negatives": ["near", "far"]}
        expected = {0: ["salt", "tea", "cup", "stone water"], 1: ["sugar", "leaf", "river"], 2: ["light", "paper"]}
        for name, ranks, tokenizer in (("trained", 1, {"train_size": 120}), ("trained_by_two", 2, {"train_size": 120}), ("given", 2, {"vocabulary": "shards"})):
            done = self.prepare(name, source, ranks, split={"train": 1}, tokenizer=tokenizer | {"max_tokens": 24})
            self.assertIn("9 sequences", done.stdout)
            vocabulary = (self.folder / name / "vocab.txt").read_text().splitlines()
            with h5py.File(self.folder / name / "train-00000.h5") as file:
                groups, rows, ids, offsets = (file[data][:] for data in ("groups", "source_index", "input_ids", "offsets"))
            texts = [" ".join(vocabulary[i] for i in ids[a + 1:b - 1]).replace(" ##", "") for a, b in zip(offsets, offsets[1:])]
            self.assertEqual({rows[a]: texts[a:b] for a, b in zip(groups, groups[1:])}, expected)
        refused = self.prepare("refused", source | {"label": "far"}, check=2)
        self.assertIn("a row with a score has one negative", refused.stderr)

    def test_a_row_with_a_score_may_have_one_negative(self):
        (self.folder / "margins.csv").write_text("anchor,positive,near,margin\nsalt,tea,cup,2.5\nsugar,leaf,,1\nlight,paper,river,-3\n")
        source = {"format": "csv", "files": ["margins.csv"], "negatives": "near", "label": "margin"}
        for ranks, tokenizer in ((1, {"train_size": 120}), (2, {"vocabulary": "shards"})):
            output = f"margins_{ranks}"
            self.prepare(output, source, ranks, split={"train": 1}, tokenizer=tokenizer | {"max_tokens": 24})
            self.assertIn('the negative ("near") is empty, and the row has a score', (self.folder / output / "rejects.tsv").read_text())
            with h5py.File(self.folder / output / "train-00000.h5") as file:
                self.assertEqual(file["groups"][:].tolist(), [0, 3, 6])
                self.assertEqual({row: score for row, score in zip(file["source_index"][:], file["labels"][:])}, {0: 2.5, 2: -3.0})
                self.assertEqual(sorted(file["labels"][:].tolist()), [-3.0] * 3 + [2.5] * 3)
        done = self.prepare("incomplete", source, check=3, split={"train": 1}, filter={"drop_missing": False})
        self.assertIn('margins.csv, row 2, line 3: the negative ("near") is empty', done.stderr)

    def test_prompts(self):
        """Rows read with prompts are rows of a file that has them, on any ranks, with a trained and a given vocabulary; a training
        hands its prompts on, and a run does not warn of a folder whose prompts they are."""
        rows = [("salt", "tea", "cup"), ("sugar", "leaf", ""), ("light", "paper", "river")]
        header = "anchor,positive,near\n"
        (self.folder / "plain.csv").write_text(header + "".join(",".join(row) + "\n" for row in rows))
        behind = [("what: " + a, "this is " + p, n and "this is " + n) for a, p, n in rows]
        (self.folder / "written.csv").write_text(header + "".join(",".join(row) + "\n" for row in behind))
        prompts = {"prompt": "what: ", "prompt_pair": "this is "}
        for ranks, tokenizer in ((1, {"train_size": 60}), (2, {"train_size": 60}), (2, {"vocabulary": "shards"})):
            for name, more in (("plain", prompts), ("written", {})):
                self.prepare(f"{name}_shards", {"format": "csv", "files": [f"{name}.csv"], "negatives": "near"} | more, ranks,
                             split={"train": 1}, tokenizer=tokenizer | {"max_tokens": 24})
            plain, written = ((self.folder / f"{name}_shards/vocab.txt").read_text() for name in ("plain", "written"))
            self.assertEqual(plain, written)
            with h5py.File(self.folder / "plain_shards/train-00000.h5") as one, h5py.File(self.folder / "written_shards/train-00000.h5") as other:
                for data in ("input_ids", "offsets", "groups", "source_index"):
                    np.testing.assert_array_equal(one[data][:], other[data][:], data)
                settings = json.loads(one.attrs["tokenizer"])
                self.assertEqual({key: settings[key] for key in prompts}, prompts)
                self.assertNotIn("prompt", json.loads(other.attrs["tokenizer"]))
        data = {"train": "plain_shards/train-*.h5", "validation": []}
        self.train("with_prompts", data=data, schedule={"steps": 1, "epochs": None}, batch={"global": 3})
        config = json.loads((self.folder / "with_prompts/model/config_sentence_transformers.json").read_text())
        self.assertEqual(config["prompts"], {"query": "what: ", "document": "this is "})
        embed = {"run": {"mode": "embed", "directory": "of_prompts"}, "model": {"pretrained": "with_prompts/model"},
                 "data": {"train": "plain_shards/train-*.h5", "test": "written_shards/train-*.h5"}}
        done = self.start("bert_hpc", "of_prompts.toml", embed, 1, 0)
        self.assertIn("put none of them before those of test: name them in [source] prompt", done.stdout + done.stderr)
        refused = self.prepare("refused", {"format": "csv", "files": ["plain.csv"], "text_pair": [], "prompt_pair": "x"}, check=2)
        self.assertIn("is for second texts", refused.stderr)

    def test_texts_are_cut_where_the_folder_says(self):
        (self.folder / "cut").mkdir()
        shutil.copy(self.folder / "shards/vocab.txt", self.folder / "cut")
        (self.folder / "cut/sentence_bert_config.json").write_text('{"max_seq_length": 10}')
        (self.folder / "long.csv").write_text("anchor,positive\n" + "tea " * 40 + ",salt\nsugar,cup\n")
        for given, expected in (({}, 10), ({"max_tokens": 24}, 24)):
            done = self.prepare(f"cut_{expected}", {"format": "csv", "files": ["long.csv"]}, split={"train": 1}, tokenizer={"vocabulary": "cut"} | given)
            self.assertEqual("max_tokens = 10, as sentence_bert_config.json says" in done.stdout, expected == 10)
            with h5py.File(self.folder / f"cut_{expected}/train-00000.h5") as file:
                self.assertEqual((json.loads(file.attrs["tokenizer"])["max_tokens"], max(np.diff(file["offsets"][:]))), (expected, expected))

    def test_prompts_of_a_folder_are_handed_on_with_a_warning(self):
        self.train("prompted", schedule={"epochs": 1})
        self.assertIn('"prompts": {}', (self.folder / "prompted/model/config_sentence_transformers.json").read_text())
        prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query", "similarity_fn_name": "cosine"}
        (self.folder / "prompted/model/config_sentence_transformers.json").write_text(json.dumps(prompts))
        model = dict.fromkeys(SIZES) | {"pretrained": "prompted/model"}
        warning = 'has prompts for its texts ("query: "), and bert_hpc_prep has put none of them before those of '
        done = self.train("handed_on", model=model, schedule={"epochs": 1})
        self.assertIn(warning, done.stdout + done.stderr)
        self.assertEqual(json.loads((self.folder / "handed_on/model/config_sentence_transformers.json").read_text()), prompts)
        done = self.start("bert_hpc", "prompted_embed.toml", {"run": {"mode": "embed", "directory": "prompted_embed"}, "model": {"pretrained": "prompted/model"},
                                                              "data": {"validation": self.shards["validation"]}}, 1, 0)
        self.assertIn(warning, done.stdout + done.stderr)

    def test_layouts_agree(self):
        """One batch on any ranks and micro-batches, with dropout; bit for bit where results are reproducible."""
        layouts = {"one": (1, {}, {}), "eight": (1, {}, {"micro": 6}), "ranks": (4, {"data": 4}, {"micro": 6}),
                   "stages": (2, {"pipeline": 2}, {"micro_batches": 4}), "both": (4, {"data": 2, "pipeline": 2}, {"micro_batches": 3}),
                   "zero": (2, {"data": 2, "zero": 2}, {"micro": 12}), "zb": (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}, {"micro_batches": 4})}
        steps = 6
        for reproducible in (False, True):
            found = {}
            for name, (ranks, parallel, batch) in layouts.items():
                output = f"{name}_{reproducible}"
                self.train(output, ranks, parallel=parallel, batch={"global": 48} | batch, schedule={"steps": steps, "epochs": None},
                           task={"symmetric": True}, run={"directory": output, "reproducible": reproducible}, model=self.dropout)
                found[name] = (self.steps(output), self.weights(output))
            for name, (losses, weights) in found.items():
                if reproducible:
                    self.assertEqual((losses, weights), found["one"], name)
                else:
                    # The same sums in another order: some roundings of 6e-8 a step of losses of about 4.
                    np.testing.assert_allclose(losses, found["one"][0], atol=1e-5, err_msg=name)
        self.train("tensor", 2, parallel={"tensor": 2}, batch={"global": 48, "micro": 6}, schedule={"steps": steps, "epochs": None},
                   task={"symmetric": True}, model=self.dropout)
        np.testing.assert_allclose(self.steps("tensor"), self.steps("one_False"), atol=1e-5)

    def test_duplicates_are_no_negatives(self):
        """A text that many rows share; against numpy, with the weights of a training and no dropout, on any layout."""
        rows = [line.split("\t") for line in (self.folder / "train.tsv").read_text().splitlines()[1:]]
        (self.folder / "twice.tsv").write_text("anchor\tpositive\n" + "".join(f"{rows[i % 50][0]}\t{rows[i % 40][1]}\n" for i in range(120)))
        self.prepare("twice", {"format": "tsv", "files": ["twice.tsv"]}, split={"train": 1})
        data = {"train": ["twice/train-*.h5"], "validation": None}
        self.train("doubles", schedule={"steps": 20, "epochs": None}, data=data, batch={"global": 32})
        vectors = self.embeddings("doubled", "doubles", train=data["train"])
        anchors, positives = (unit(vectors[i::2]) for i in (0, 1))
        with h5py.File(self.folder / "twice/train-00000.h5") as file:
            ids, offsets = file["input_ids"][:], file["offsets"][:]
        texts = [tuple(ids[a:b]) for a, b in zip(offsets, offsets[1:])]
        same = lambda a, b: np.array([[x == y for y in b] for x in a])  # noqa: E731
        masked = (same(texts[::2], texts[::2]) | same(texts[1::2], texts[1::2]) | same(texts[::2], texts[1::2])) & ~np.eye(120, dtype=bool)
        self.assertGreater(masked.sum(), 120)
        logits = np.where(masked, -np.inf, 20 * anchors @ positives.T)
        expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
        model = SIZES | {"pretrained": "doubles/model", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        found = {}
        for name, ranks, parallel, batch in (("one", 1, {}, {}), ("four", 4, {"data": 2, "pipeline": 2}, {"micro_batches": 3})):
            output = f"doubles_{name}"
            self.train(output, ranks, model=model, data=data, parallel=parallel, batch={"global": 120} | batch, task={"skip_duplicates": True},
                       schedule={"steps": 2, "epochs": None}, run={"directory": output, "reproducible": True})
            found[name] = (self.steps(output), self.weights(output))
        self.assertEqual(found["four"], found["one"])
        self.assertAlmostEqual(found["one"][0][0], expected, delta=2e-5)

    def test_the_loss_of_a_step_is_that_of_all_its_rows(self):
        """Against numpy, with the weights of a training and no dropout: the first batch is the whole data set."""
        self.train("learns", 2, schedule={"epochs": 8}, batch={"global": 32, "micro": 8})
        metrics = self.evaluation("learns", "validation")
        self.assertGreater(metrics["accuracy"], 0.5)  # of chance 1/64
        vectors = self.embeddings("learned", "learns", train=self.shards["train"])
        anchors, positives = (unit(vectors[i::2]) for i in (0, 1))
        logits = 20 * anchors @ positives.T
        expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
        model = SIZES | {"pretrained": "learns/model", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        self.train("whole", 2, model=model, batch={"global": 400, "micro": 16}, schedule={"steps": 1, "epochs": None})
        # Logits of up to 20 are rounded to 1e-6.
        self.assertAlmostEqual(self.steps("whole")[0], expected, delta=2e-5)

    def test_figures_of_evaluations(self):
        self.train("figures", schedule={"epochs": 2}, batch={"global": 32})
        vectors = unit(self.embeddings("figures_embedded", "figures", validation=self.shards["validation"]))
        losses = []
        for begin in range(0, 130, 64):
            anchors, positives = (vectors[2 * begin:2 * begin + 128][i::2] for i in (0, 1))
            logits = 20 * anchors @ positives.T
            losses += list(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
        cosines = vectors[::2] @ vectors[1::2].T
        rank = 1 + (cosines > np.diag(cosines)[:, None]).sum(axis=1)
        self.assertGreater(rank.max(), 10)
        found = self.evaluation("figures", "validation")
        self.assertEqual(set(found) & {"pearson", "spearman"}, set())
        self.assertAlmostEqual(found["loss"], np.mean(losses), delta=2e-5)
        for name, value in (("accuracy", rank == 1), ("mrr", 1 / rank), ("mrr_at_10", np.where(rank > 10, 0, 1 / rank)),
                            ("ndcg_at_10", np.where(rank > 10, 0, 1 / np.log2(rank + 1))), ("recall_at_10", rank <= 10)):
            self.assertAlmostEqual(found[name], np.mean(value), delta=1e-9, msg=name)

    def test_scores(self):
        data = {"train": ["scored/train-*.h5"], "validation": None, "test": ["scored/test-*.h5"]}
        settings = {"task": {"loss": "cosine_similarity", "range": [0.0, 5.0]}, "data": data, "batch": {"global": 16}}
        self.train("scores", 2, schedule={"epochs": 4}, **settings)
        with h5py.File(self.folder / "scored/test-00000.h5") as file:
            scores = file["labels"][::2].astype(float)
        vectors = unit(self.embeddings("scores_embedded", "scores", test=data["test"]))
        cosines = (vectors[::2] * vectors[1::2]).sum(axis=1)
        found = self.evaluation("scores", "test")
        self.assertAlmostEqual(found["pearson"], np.corrcoef(cosines, scores)[0, 1], delta=1e-5)
        self.assertAlmostEqual(found["spearman"], np.corrcoef(ranks_of(cosines), ranks_of(scores))[0, 1], delta=1e-3)
        self.assertAlmostEqual(found["loss"], np.mean((cosines - scores / 5) ** 2), delta=1e-6)
        self.assertEqual(set(found) & {"accuracy", "mrr"}, set())
        evaluation = {"run": {"mode": "evaluate", "directory": "scores_again"}, "model": SIZES | {"pretrained": "scores/model"},
                      "data": data | {"train": None}, "task": {"range": [0.0, 5.0]}}
        self.train("scores_again", 2, **evaluation)
        self.assertAlmostEqual(self.evaluation("scores_again", "test")["spearman"], found["spearman"], delta=1e-3)

    def cosines_of_rows(self, name, model, split, shards):
        """(positives, negatives): cosines of the anchors of a split, whose rows have three texts, and their texts."""
        vectors = unit(self.embeddings(name, model, **{split: [shards]}))
        return [(vectors[::3] * vectors[index::3]).sum(axis=1) for index in (1, 2)]

    def test_triplets(self):
        self.prepare("triplets", {"format": "tsv", "files": ["scored.tsv"], "negatives": "near"}, split={"train": 0.8, "validation": 0.2})
        data = {"train": ["triplets/train-*.h5"], "validation": ["triplets/validation-*.h5"]}
        settings = {"task": {"loss": "triplet", "margin": 0.3, "dimensions": [32, 8]}, "data": data, "batch": {"global": 16}, "model": self.dropout,
                    "run": {"reproducible": True}}
        layouts = {"one": (1, {}), "ranks": (4, {"data": 4}), "both": (4, {"data": 2, "pipeline": 2}), "stages": (2, {"pipeline": 2})}
        for name, (ranks, parallel) in layouts.items():
            output = f"triplets_{name}"
            self.train(output, ranks, parallel=parallel, schedule={"epochs": 4}, **settings | {"run": {"directory": output, "reproducible": True}})
            self.assertEqual((self.steps(output), self.weights(output)), (self.steps("triplets_one"), self.weights("triplets_one")), name)
        near, far = self.cosines_of_rows("triplets_embedded", "triplets_one", "validation", "triplets/validation-*.h5")
        found = self.evaluation("triplets_one", "validation")
        self.assertAlmostEqual(found["loss"], np.maximum(0, far - near + 0.3).mean(), delta=1e-6)
        self.assertAlmostEqual(found["triplet_accuracy"], np.mean(near > far), delta=1e-9)
        self.assertIn("mrr", found)  # in blocks, as with other losses
        folder = self.folder / "triplets_one/model"
        self.assertIn("Normalize", (folder / "modules.json").read_text())

    def test_margins(self):
        """Scores as of a cross-encoder, which margins of cosines can follow."""
        lines = (self.folder / "scored.tsv").read_text().splitlines()
        rows = [line.split("\t") for line in lines[1:]]
        (self.folder / "margins.tsv").write_text("anchor\tpositive\tnear\tscore\n" + "".join(
            f"{row[0]}\t{row[1]}\t{row[3]}\t{float(row[2]) / 5 - 0.2:.3f}\n" for row in rows))
        self.prepare("margins", {"format": "tsv", "files": ["margins.tsv"], "negatives": "near", "label": "score"}, split={"train": 0.8, "test": 0.2})
        data = {"train": ["margins/train-*.h5"], "validation": None, "test": ["margins/test-*.h5"]}
        settings = {"task": {"loss": "margin_mse", "similarity": "cosine"}, "data": data, "batch": {"global": 16}}
        self.train("margin", 2, schedule={"epochs": 4}, **settings)
        near, far = self.cosines_of_rows("margins_embedded", "margin", "test", "margins/test-*.h5")
        with h5py.File(self.folder / "margins/test-00000.h5") as file:
            scores = file["labels"][::3].astype(float)
        found = self.evaluation("margin", "test")
        self.assertAlmostEqual(found["loss"], np.mean((near - far - scores) ** 2), delta=1e-6)
        self.assertAlmostEqual(found["triplet_accuracy"], np.mean(near > far), delta=1e-9)
        self.assertAlmostEqual(found["pearson"], np.corrcoef(near - far, scores)[0, 1], delta=1e-5)
        self.assertAlmostEqual(found["spearman"], np.corrcoef(ranks_of(near - far), ranks_of(scores))[0, 1], delta=1e-3)
        # Dot products train lengths, which the exported folder keeps.
        self.train("dots", schedule={"steps": 2, "epochs": None}, **settings | {"task": {"loss": "margin_mse"}})
        self.assertNotIn("Normalize", (self.folder / "dots/model/modules.json").read_text())
        self.assertIn('"dot"', (self.folder / "dots/model/config_sentence_transformers.json").read_text())

    def test_memory_is_that_of_a_micro_batch(self):
        found = {}
        for rows in (16, 256):
            self.train(f"planned{rows}", batch={"global": rows, "micro": 8}, schedule={"steps": 1, "epochs": None})
            done = run("bert_hpc", f"planned{rows}.toml", "--validate", check=0, cwd=self.folder)
            found[rows] = re.search(r"activations\s+([0-9.]+ \w+)", done.stdout).group(1)
        self.assertEqual(found[16], found[256])

    def test_what_cannot_be_is_refused(self):
        done = self.train("alone", batch={"global": 1}, check=2)
        self.assertIn("leaves an anchor without negatives", done.stderr)
        done = self.train("unscored", task={"loss": "cosine_similarity"}, check=3)
        self.assertIn("its rows have no scores", done.stderr)
        data = {"train": ["scored/train-*.h5"], "validation": None}
        done = self.train("outside", task={"loss": "cosine_similarity"}, data=data, check=2)
        self.assertRegex(done.stderr, r"sequence \d+ has the score [0-9.]+, outside of 0 to 1: set \[task\] range")
        done = self.train("word", task={"range": "labels"}, data=data, check=2)
        self.assertIn("range must be two numbers for the task", done.stderr)
        done = self.prepare("unpaired", {"format": "tsv", "files": ["train.tsv"], "negatives": "positive", "text_pair": []}, check=2)
        self.assertIn("source] text_pair is missing", done.stderr)
        self.prepare("alone_in_row", {"format": "tsv", "files": ["train.tsv"], "text": "anchor"}, split={"train": 1})
        done = self.train("alone_in_row", data={"train": ["alone_in_row/train-*.h5"], "validation": None}, check=3)
        self.assertIn("begins a row of 1 text; with [task] loss", done.stderr)
        done = self.train("no_negatives", task={"loss": "triplet"}, check=3)
        self.assertIn("(400 of 400 rows do not). Name the columns of negatives in [source] negatives", done.stderr)
        done = self.train("no_scores", task={"loss": "margin_mse"}, check=3)
        self.assertIn('[task] loss = "margin_mse" needs', done.stderr)
        done = self.train("pairs", task={"loss": "margin_mse", "range": [0.0, 5.0], "dimensions": [8]}, data=data, check=2)
        self.assertIn('range does not go with loss = "margin_mse"', done.stderr)
        self.assertIn('dimensions needs similarity = "cosine"', done.stderr)
        done = self.train("pairs", task={"loss": "margin_mse"}, data=data, check=3)
        self.assertIn("has an anchor, a positive, one negative and their score", done.stderr)
        done = self.train("skipped", task={"loss": "triplet", "skip_duplicates": True}, check=2)
        self.assertIn('skip_duplicates is for loss = "multiple_negatives"', done.stderr)
        done = self.train("compared", task={"similarity": "dot"}, check=2)
        self.assertIn('similarity is for loss = "triplet" and "margin_mse"', done.stderr)
        done = self.prepare("windows", {"format": "tsv", "files": ["train.tsv"]}, check=2,
                            tokenizer={"max_tokens": 24, "train_size": 120, "doc_stride": 4})
        self.assertIn("where a text has one embedding", done.stderr)


if __name__ == "__main__":
    unittest.main()
