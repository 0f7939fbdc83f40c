"""Short trainings from scratch with dropout in reproducible mode: every layout gives the bits of one rank, but for tensor parallelism,
which adds in another order."""

import h5py
import numpy as np

from program import Case, run
from test_tensor import read_safetensors


class SameBits(Case):
    model = {}
    key_bias = ""  # end of the name of a bias whose gradient is zero but for rounding

    def train(self, name, ranks=1, model=None, **tables):
        """(losses, norms and the last evaluation's loss, weights)."""
        directory = self.work.folder / name
        run("bert_hpc", self.work.input(f"{name}.toml", model=model or self.model, run={"directory": str(directory), "reproducible": True},
                                        schedule={"epochs": None, "steps": 10}, batch={"global": 16, "chunks": 4}, **tables),
            ranks=ranks, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            numbers = [*file["steps/loss"], *file["steps/gradient_norm"], file["evaluations/validation/loss"][-1]]
        return np.array(numbers), read_safetensors(directory / "model/model.safetensors")

    def compare_layouts(self):
        """Trains on every kind of layout; returns the weights of one rank."""
        numbers, weights = self.train("one")
        self.assertTrue(np.isfinite(numbers).all())
        for name, ranks, parallel in (("pipeline", 2, {"pipeline": 2}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 1})):
            found, mine = self.train(name, ranks, parallel=parallel)
            with self.subTest(name):
                self.assertEqual(list(found[:10]), list(numbers[:10]))
                self.assertEqual(mine.keys(), weights.keys())
                for key, value in weights.items():
                    self.assertTrue(np.array_equal(mine[key], value), key)
        found, mine = self.train("tensor", 2, parallel={"tensor": 2})
        np.testing.assert_allclose(found, numbers, rtol=1e-4)
        for key, value in weights.items():
            if not key.endswith(self.key_bias):
                self.assertLess(np.linalg.norm(mine[key] - value) / np.linalg.norm(value), 1e-3, key)
        return weights
