"""[task] class_weights, label_smoothing and focal_gamma: the losses of training steps against their definition in numpy; layouts agree."""

import hashlib
import unittest

import h5py
import numpy as np
from program import Case, run

PRETRAINED = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings"))
CHOICES = {
    "list": {"class_weights": [1, 2, 0, 5]},
    "balanced": {"class_weights": "balanced"},
    "smoothing": {"label_smoothing": 0.1},
    "focal": {"focal_gamma": 2},
    "all": {"class_weights": [1, 2, 3, 5], "label_smoothing": 0.2, "focal_gamma": 0.5},
}


def expected_loss(probabilities, labels, class_weights=None, label_smoothing=0, focal_gamma=0):
    """The weighted mean Σ losses / Σ weights of the labels, as torch.nn.CrossEntropyLoss(weight, label_smoothing) takes it."""
    count, classes = probabilities.shape
    counts = np.bincount(labels, minlength=classes)
    weights = np.ones(classes) if class_weights is None else count / (classes * counts) if class_weights == "balanced" else class_weights
    weights = np.asarray(weights, dtype=float)
    targets = weights * ((1 - label_smoothing) * np.eye(classes)[labels] + label_smoothing / classes)
    losses = -(targets * (1 - probabilities) ** focal_gamma * np.log(probabilities)).sum(axis=1)
    return losses.sum() / weights[labels].sum()


class ClassLosses(Case):
    def start(self, name, ranks=1, check=0, **tables):
        directory = self.work.folder / name
        tables["run"] = {"directory": str(directory)} | tables.get("run", {})
        done = run("bert_hpc", self.work.input(f"{name}.toml", **tables), ranks=ranks, threads=1, check=check)
        return directory, done

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base, _ = cls.start(cls, "base", schedule={"epochs": None, "steps": 20})
        shards = [f"{cls.work.folder}/shards/train-*.h5"]
        cls.pretrained = PRETRAINED | {"pretrained": f"{cls.base}/model", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        folder, _ = cls.start(cls, "predicted", run={"mode": "evaluate"}, model=PRETRAINED | {"pretrained": f"{cls.base}/model"},
                              data={"train": None, "validation": None, "test": shards})
        with h5py.File(folder / "predictions.h5") as file:
            cls.probabilities, cls.labels = file["probabilities"][()].astype(float), file["label"][()]

    def train(self, name, task, ranks=1, steps=1, **tables):
        """Training from the base model with all training sequences in each batch."""
        directory, done = self.start(name, ranks, model=self.pretrained, task=task, batch={"global": len(self.labels)} | tables.pop("batch", {}),
                                     schedule={"epochs": None, "steps": steps}, **tables)
        with h5py.File(directory / "metrics.h5") as file:
            return file["steps/loss"][()], file["evaluations/validation/loss"][-1], directory, done

    def test_the_loss_of_a_batch_is_that_of_the_definition(self):
        for name, task in CHOICES.items():
            with self.subTest(name):
                losses, _, _, done = self.train(f"one {name}", task)
                # Probabilities are rounded to 2^-24, the smallest of them are about 1e-3; sums of fp32.
                self.assertAlmostEqual(losses[0] / expected_loss(self.probabilities, self.labels, **task), 1, delta=2e-5)
                self.assertIn("cross entropy; ", done.stdout)

    def test_evaluations_report_the_plain_cross_entropy(self):
        frozen = {"optimizer": {"learning_rate": 1e-30}}
        _, plain, _, _ = self.train("plain", {}, **frozen)
        _, shaped, _, _ = self.train("shaped", CHOICES["all"], **frozen)
        self.assertAlmostEqual(plain, shaped, places=6)

    def test_layouts_change_no_bit(self):
        layouts = {"one": (1, {}, {}), "two": (2, {"data": 2}, {}), "stages": (2, {"pipeline": 2}, {}), "small": (1, {}, {"micro": 44})}
        found = {}
        for name, (ranks, parallel, batch) in layouts.items():
            losses, _, directory, _ = self.train(f"layout {name}", CHOICES["all"], ranks, steps=3, parallel=parallel,
                                                 run={"directory": f"{self.work.folder}/layout {name}", "reproducible": True},
                                                 batch=batch)
            found[name] = (list(losses), hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest())
        for name, values in found.items():
            self.assertEqual(values, found["one"], name)

    def test_weights_that_do_not_fit_are_refused(self):
        _, done = self.start("refused", check=2, task={"class_weights": [1, 2]})
        self.assertIn('class_weights has 2 numbers, but the training shards have 4 labels: "animal", "machine", "music" and "nature"',
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
