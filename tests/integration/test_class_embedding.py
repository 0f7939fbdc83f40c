"""The task class_embedding: texts with classes to embeddings; the loss of a whole step on every layout; nearest texts of an evaluation
against numpy; what cannot be is refused."""

import json
import random
import unittest

import h5py
import numpy as np
from program import SIZES, TaskCase

TOPICS = {"tea": "tea leaf water cup".split(), "road": "bridge engine wheel stone".split(), "sea": "river light salt wind".split(),
          "town": "tower garden paper lamp".split()}
LOSSES = {"batch_hard_triplet": {}, "batch_hard_soft_margin_triplet": {}, "batch_semi_hard_triplet": {"similarity": "cosine", "margin": 0.4},
          "batch_all_triplet": {"margin": 1.0}}


def write_topics(path, count, seed):
    """Texts of a topic, half of whose words any text may have."""
    draw = random.Random(seed)
    lines = ["text,topic"]
    for _ in range(count):
        topic = draw.choice(list(TOPICS))
        words = draw.choices(TOPICS[topic], k=2) + draw.choices("the a old small very often".split(), k=draw.randint(2, 6))
        lines.append(f"{' '.join(draw.sample(words, len(words)))},{topic}")
    path.write_text("\n".join(lines) + "\n")


class ClassEmbedding(TaskCase):
    task = "class_embedding"
    hidden_size, max_tokens = 32, 16
    shards = {"train": ["shards/train-*.h5"], "validation": ["shards/validation-*.h5"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_topics(cls.folder / "train.csv", 240, 1)
        write_topics(cls.folder / "validation.csv", 90, 2)
        cls.prepare("shards", {"files": ["train.csv"], "validation_files": ["validation.csv"]})

    @classmethod
    def prepare(cls, output, source, check=0):
        tables = {"source": {"format": "csv", "label": "topic"} | source, "split": {"train": 1} if "validation_files" not in source else {},
                  "tokenizer": {"max_tokens": 16, "train_size": 100}, "task": {"name": "class_embedding"}, "output": {"directory": output}}
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", {name: keys for name, keys in tables.items() if keys}, 1, check)

    def test_layouts_agree(self):
        """One batch on any ranks and micro-batches, with dropout, bit for bit."""
        layouts = {"one": (1, {}, {}), "four": (1, {}, {"micro": 12}), "ranks": (4, {"data": 4}, {"micro": 6}),
                   "both": (4, {"data": 2, "pipeline": 2}, {"micro_batches": 3})}
        for loss, settings in LOSSES.items():
            found = {}
            for name, (ranks, parallel, batch) in layouts.items():
                output = f"{loss}_{name}"
                self.train(output, ranks, parallel=parallel, batch={"global": 48} | batch, schedule={"steps": 4, "epochs": None},
                           task={"loss": loss} | settings, run={"directory": output, "reproducible": True},
                           model={"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}, log={"every_steps": 1})
                found[name] = (self.steps(output), self.weights(output))
                self.assertEqual(found[name], found["one"], output)
            self.assertEqual(len(set(found["one"][0])), 4, "the loss changes from step to step")

    def test_nearest_texts_of_an_evaluation(self):
        """Against numpy, from the embeddings that the exported folder gives; they learn the topics."""
        self.train("learns", 2, schedule={"epochs": 4}, batch={"global": 48}, task={"loss": "batch_hard_soft_margin_triplet"})
        self.start("bert_hpc", "embed.toml", {"run": {"mode": "embed", "directory": "embedded"}, "model": {"pretrained": "learns/model"},
                                              "data": {"validation": self.shards["validation"]}}, 1, 0)
        with h5py.File(self.folder / "embedded/embeddings/validation-00000.h5") as file:
            vectors, classes = file["embeddings"][:].astype(float), file["labels"][:]
        distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
        same = classes[:, None] == classes[None]
        figures = []
        for i, row in enumerate(distances):
            others = np.delete(np.arange(len(row)), i)
            relevant = same[i][others[np.argsort(row[others])]][:same[i].sum() - 1]
            precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
            figures.append((relevant[0], relevant.mean(), (precisions * relevant).mean()))
        losses = []
        for begin in range(0, len(classes), 64):
            block, alike = distances[begin:begin + 64, begin:begin + 64], same[begin:begin + 64, begin:begin + 64]
            far, near = np.where(alike, block, 0).max(axis=1), np.where(alike, np.inf, block).min(axis=1)
            losses += list(np.log1p(np.exp(far - near)))
        with h5py.File(self.folder / "learns/metrics.h5") as file:
            found = {metric: data[-1] for metric, data in file["evaluations/validation"].items()}
        for name, value in zip(("precision_at_1", "r_precision", "map_at_r"), np.mean(figures, axis=0), strict=True):
            self.assertAlmostEqual(found[name], value, delta=1e-9)
        # Distances of a few units are rounded to 1e-6.
        self.assertAlmostEqual(found["loss"], np.mean(losses), delta=1e-5)
        self.assertGreater(found["precision_at_1"], 0.8)  # by chance 1/4
        # An evaluation from the folder reports the same, on other ranks.
        self.train("again", 2, run={"mode": "evaluate", "directory": "again"}, model=SIZES | {"pretrained": "learns/model"},
                   data={"train": None, "validation": None, "test": self.shards["validation"]}, task={"loss": "batch_hard_soft_margin_triplet"})
        with h5py.File(self.folder / "again/metrics.h5") as file:
            self.assertAlmostEqual(file["evaluations/test/map_at_r"][-1], found["map_at_r"], delta=1e-9)

    def test_the_folder_compares_as_the_training_did(self):
        for similarity, modules in (("euclidean", 2), ("cosine", 3)):
            self.train(similarity, task={"similarity": similarity, "margin": 0.5, "pooling": "cls"}, schedule={"steps": 1, "epochs": None})
            folder = self.folder / similarity / "model"
            self.assertEqual(json.loads((folder / "config_sentence_transformers.json").read_text())["similarity_fn_name"], similarity)
            self.assertEqual(len(json.loads((folder / "modules.json").read_text())), modules)
            self.assertTrue(json.loads((folder / "1_Pooling/config.json").read_text())["pooling_mode_cls_token"])

    def test_refusals(self):
        (self.folder / "one.csv").write_text("text,topic\n" + "tea leaf,tea\n" * 40)
        (self.folder / "each.csv").write_text("text,topic\n" + "".join(f"tea leaf,t{i}\n" for i in range(40)))
        for name, words in (("one", "all 40 texts have one"), ("each", "each of the 40 classes has a single text")):
            self.prepare(name, {"files": [f"{name}.csv"]})
            done = self.train(f"{name}_run", check=3, data={"train": [f"{name}/train-*.h5"], "validation": None})
            self.assertIn(words, " ".join(done.stderr.split()))
            self.assertFalse((self.folder / f"{name}_run").exists())
        done = self.train("margin", check=2, task={"similarity": "cosine"}, batch={"global": 2})
        self.assertIn("[task] margin = 5 is as large as a cosine distance can be", done.stderr)
        self.assertIn("[batch] global = 2 leaves no step with two texts of one class", done.stderr)
        done = self.train("predicts", check=2, run={"mode": "predict", "directory": "predicts"}, model=SIZES | {"pretrained": "x"},
                          data={"train": None, "validation": None, "test": self.shards["validation"]})
        self.assertIn("embed", done.stderr)


if __name__ == "__main__":
    unittest.main()
