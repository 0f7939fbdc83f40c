"""precision.compute = "int8": embeddings equal a plain BERT with the stated quantization, on any layout; metrics are those of fp32."""

import re
import unittest

import h5py
import numpy as np

from plain_bert import Bert
from program import SIZES, Case, run


class QuantizedBert(Bert):
    """With the linear layers of src/ops/cpu/int8/int8_kernels.hpp."""

    def linear(self, x, name):
        w, bias = self.w[name + ".weight"], self.w[name + ".bias"]
        t = np.abs(w).max(axis=1) / 127
        r = np.rint(w / t[:, None])
        low, high = np.minimum(x.min(axis=1), 0), np.maximum(x.max(axis=1), 0)
        s = ((high - low) / 255)[:, None]
        zero = np.rint(-low[:, None] / s)
        q = np.clip(np.rint(x / s + zero), 0, 255)
        return s * t * ((q - zero) @ r.T) + bias


class Int8(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.work.folder
        run("bert_hpc", cls.work.input(data={"test": [f"{cls.folder}/shards/test-*.h5"]}), check=0)

    def apply(self, name, compute="int8", mode="embed", ranks=1, check=0, task=None, model=None, **tables):
        directory = self.folder / name
        path = self.work.input(
            name + ".toml", run={"mode": mode, "directory": str(directory), "seed": None}, task=task, batch=None, optimizer=None,
            schedule=None, log=None, model=SIZES | {"pretrained": str(self.folder / "run/model")} | (model or {}),
            data={"train": None, "validation": None, "test": [f"{self.folder}/shards/test-*.h5"]}, precision={"compute": compute}, **tables)
        return directory, run("bert_hpc", path, ranks=ranks, threads=1, check=check)

    def embeddings(self, name, **arguments):
        directory, _ = self.apply(name, embed={"pooling": "tokens"}, **arguments)
        with h5py.File(directory / "embeddings/test-00000.h5") as file:
            return file["embeddings"][()]

    def test_embeddings_are_those_of_the_stated_quantization(self):
        ours = self.embeddings("quantized")
        with h5py.File(self.folder / "shards/test-00000.h5") as shard:
            ids, offsets = shard["input_ids"][()].astype(int), shard["offsets"][()]
        expected, exact = (np.concatenate([bert.layers(ids[a:b])[-1] for a, b in zip(offsets, offsets[1:])])
                           for bert in (QuantizedBert(self.folder / "run/model"), Bert(self.folder / "run/model")))
        rows = np.abs(ours - expected).max(axis=1)
        # A number that lies on the border of two steps may be rounded to either: it changes the rows of its sequence by less than the
        # quantization of all numbers does. The others have the error of fp32.
        self.assertLess(np.median(rows), 1e-5)
        self.assertLess(rows.max(), np.abs(expected - exact).max())
        self.assertGreater(np.abs(expected - exact).mean(), 100 * np.abs(ours - expected).mean())
        self.assertLess(np.abs(expected - exact).max(), 0.05 * np.abs(exact).max())

    def test_layouts(self):
        one = self.embeddings("one")
        for name, ranks, parallel in (("data", 2, {}), ("pipeline", 2, {"pipeline": 2})):
            with self.subTest(name):
                np.testing.assert_array_equal(self.embeddings(name, ranks=ranks, parallel=parallel), one)
        # Rows are quantized in parts, whose scales are not those of the whole.
        with self.subTest("tensor"):
            np.testing.assert_allclose(self.embeddings("tensor", ranks=2, parallel={"tensor": 2}), one, atol=0.05 * np.abs(one).max())

    def test_predictions_and_metrics(self):
        probabilities, accuracies = {}, {}
        for compute in ("fp32", "int8"):
            directory, done = self.apply(f"predict {compute}", compute, "predict", task={"name": "classification"})
            with h5py.File(directory / "predictions.h5") as file:
                probabilities[compute] = file["probabilities"][()]
            _, done = self.apply(f"evaluate {compute}", compute, "evaluate", task={"name": "classification"})
            accuracies[compute] = float(re.search(r"accuracy ([\d.]+)", done.stdout)[1])
        difference = np.abs(probabilities["int8"] - probabilities["fp32"]).max()
        self.assertGreater(difference, 0)
        self.assertLess(difference, 0.05)
        self.assertAlmostEqual(accuracies["int8"], accuracies["fp32"], delta=0.02)
        self.assertIn("matmul: 8-bit integers (", done.stdout)
        self.assertRegex(done.stdout, r"quantized weights [\d.]+ KiB")

    def test_refused(self):
        done = run("bert_hpc", self.work.input("train.toml", precision={"compute": "int8"}), check=2)
        self.assertIn('[precision] compute = "int8" is for models that are applied, in the modes "evaluate", "predict" and "embed": train in "fp32" or '
                      '"bf16".', " ".join(done.stderr.split()))
        _, done = self.apply("search", mode="search", check=2, search={"queries": ["q.h5"], "corpus": ["c.h5"]})
        self.assertIn('[precision] compute = "int8" is for models: a search compares in fp32, tf32, bf16 or fp16.', " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
