"""Rows of text that are cut into windows: predictions and metrics are of rows, those of windows beside them, on any layout, in the
evaluations of a training, in mode evaluate and in mode predict."""

import csv
import random
import unittest

import h5py
import numpy as np

from program import TaskCase

LABELS = {"classification": lambda row: f"kind {row % 3}", "regression": lambda row: row % 5 + 0.5,
          "multi_label": lambda row: ",".join(name for bit, name in enumerate("abc") if row >> bit & 1)}


def rows(count=60, seed=4):
    """Texts of 4 to 91 words; the last word follows from the number of the row."""
    draw = random.Random(seed)
    for row in range(count):
        words = draw.choices("the a old small very often seen near some quiet".split(), k=draw.choice([3, 12, 40, 90]))
        yield " ".join([*words, f"word{row % 3}"])


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class Windows(TaskCase):
    hidden_size, max_tokens, epochs = 32, 24, 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for task, label in LABELS.items():
            with open(cls.folder / f"{task}.csv", "w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow(["text", "label"])
                table.writerows((text, label(row)) for row, text in enumerate(rows()))
            cls.start("bert_hpc_prep", f"{task}_prep.toml",
                      {"source": {"format": "csv", "files": [f"{task}.csv"]}, "split": {"train": 0.4, "validation": 0.2, "test": 0.4},
                       "tokenizer": {"max_tokens": cls.max_tokens, "train_size": 60, "doc_stride": 4},
                       "task": {"name": task}, "output": {"directory": task}}, 1, 0)

    def run_of(self, kind, name, ranks=1, **tables):
        tables = {"task": {"name": kind}, "log": {"progress": "lines", "every_steps": 1}} | tables
        data = {split: [f"{kind}/{split}-*.h5"] for split in ("train", "validation", "test")}
        return self.train(name, ranks, **({"data": data} | tables))

    def predictions(self, name):
        with h5py.File(self.folder / name / "predictions.h5") as file:
            rows = {key: file[key][()] for key in file if key != "windows"}
            return rows, {key: item[()] for key, item in file["windows"].items()}

    def metrics(self, name, split="test"):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {key: item[-1] for key, item in file[f"evaluations/{split}"].items() if isinstance(item, h5py.Dataset)}

    def pooled(self, windows, column, source, pool):
        return np.array([pool(windows[column][windows["source_index"] == row]) for row in source])

    def check_rows(self, found, windows):
        self.assertEqual(len(set(found["source_index"])), len(found["source_index"]))
        self.assertEqual(set(found["source_index"]), set(windows["source_index"]))
        self.assertGreater(len(windows["source_index"]), 2 * len(found["source_index"]))
        np.testing.assert_array_equal(found["window_count"],
                                      [np.sum(windows["source_index"] == row) for row in found["source_index"]])

    def test_classes(self):
        done = self.run_of("classification", "classes")
        found, windows = self.predictions("classes")
        self.check_rows(found, windows)
        logits = np.log(windows["probabilities"])  # but for a constant of each window
        expected = softmax(self.pooled({"logits": logits, **windows}, "logits", found["source_index"], lambda own: own.mean(axis=0)))
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
        right = found["prediction"] == found["label"]
        metrics = self.metrics("classes")
        self.assertAlmostEqual(metrics["accuracy"], right.mean())
        self.assertEqual(metrics["confusion_matrix"].sum(), 24)
        self.assertEqual(self.metrics("classes", "validation")["confusion_matrix"].sum(), 12)
        self.assertIn("24 rows in ", done.stdout)
        with open(self.folder / "classes/predictions.csv", newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([int(line["row"]) for line in lines], list(found["source_index"]))
        self.assertEqual([int(line["window_count"]) for line in lines], list(found["window_count"]))

    def test_numbers(self):
        self.run_of("regression", "numbers")
        found, windows = self.predictions("numbers")
        self.check_rows(found, windows)
        expected = self.pooled(windows, "prediction", found["source_index"], np.mean)
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-5)
        self.assertAlmostEqual(self.metrics("numbers")["mae"], np.abs(found["prediction"] - found["label"]).mean(), places=5)

    def test_sets(self):
        self.run_of("multi_label", "sets", task={"name": "multi_label", "windows": "max"})
        found, windows = self.predictions("sets")
        self.check_rows(found, windows)
        expected = self.pooled(windows, "probabilities", found["source_index"], lambda own: own.max(axis=0))
        np.testing.assert_array_equal(found["probabilities"], expected)
        same = (found["prediction"] == found["label"]).all(axis=1)
        self.assertAlmostEqual(self.metrics("sets")["exact_match"], same.mean())

    def test_first_window(self):
        self.run_of("regression", "first", task={"name": "regression", "windows": "first"})
        found, windows = self.predictions("first")
        expected = self.pooled(windows, "prediction", found["source_index"], lambda own: own[0])
        np.testing.assert_array_equal(found["prediction"], expected)

    def test_modes(self):
        """A model's own evaluations, mode evaluate and mode predict agree, on every layout, to the bit where sums are fixed."""
        self.run_of("classification", "trained", run={"mode": "train", "directory": "trained", "seed": 5, "reproducible": True})
        expected, expected_windows = self.predictions("trained")
        metrics = self.metrics("trained")
        model = {key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                       "max_position_embeddings")} | {"pretrained": "trained/model"}
        none = {"optimizer": {"learning_rate": None}, "schedule": {"epochs": None, "warmup_ratio": None}, "batch": {"global": None}}
        for mode, ranks, layout in (("evaluate", 1, {}), ("evaluate", 2, {"data": 2}), ("evaluate", 2, {"pipeline": 2}),
                                    ("predict", 2, {"data": 2}), ("evaluate", 2, {"tensor": 2})):
            with self.subTest(mode=mode, layout=layout):
                name = f"{mode}_{ranks}_{''.join(layout)}"
                self.run_of("classification", name, ranks, model=model, **none, parallel=layout,
                            data={"test": ["classification/test-*.h5"]},
                            run={"mode": mode, "directory": name, "reproducible": "tensor" not in layout})
                found, windows = self.predictions(name)
                np.testing.assert_array_equal(found["source_index"], expected["source_index"])
                for own, reference in ((found, expected), (windows, expected_windows)):
                    np.testing.assert_allclose(own["probabilities"], reference["probabilities"],
                                               atol=0 if "tensor" not in layout else 1e-5)
                if mode == "predict":
                    self.assertTrue((found["label"] == -1).all())
                    continue
                for key, value in self.metrics(name).items():
                    if "tensor" not in layout and key not in ("step", "loss"):
                        np.testing.assert_array_equal(value, metrics[key], err_msg=key)


if __name__ == "__main__":
    unittest.main()
