"""[optimizer] name = "lamb" and "stable_adamw": one sum of squares for each tensor, wherever its parts are updated."""

import hashlib
import unittest

import h5py
import numpy as np

from program import Case, as_if_killed_after, run

LAYOUTS = {
    "zero 0": (2, {"data": 2, "zero": 0}),
    "zero 1": (2, {"data": 2, "zero": 1}),
    "zero 2, offloaded": (2, {"data": 2, "zero": 2, "offload": True}),
    "stages": (2, {"pipeline": 2}),
    "stages and replicas": (4, {"data": 2, "pipeline": 2}),
}


class Lamb(Case):
    optimizer = "lamb"

    def train(self, name, ranks=1, parallel=None, reproducible=True, optimizer=None, **run_keys):
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", parallel=parallel or {},
                               optimizer={"name": optimizer or self.optimizer, "learning_rate": 1e-2, "weight_decay": 0.01},
                               model={"num_attention_heads": 4}, checkpoint={"every_steps": 4, "keep": 9},
                               run={"directory": str(directory), "reproducible": reproducible} | run_keys,
                               schedule={"epochs": None, "steps": 8})
        done = run("bert_hpc", path, ranks=ranks, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            losses = np.array(file["steps/loss"])
        return hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest(), losses, done

    def test_layouts_have_the_same_bits(self):
        expected, _, _ = self.train("one")
        for name, (ranks, parallel) in LAYOUTS.items():
            with self.subTest(name):
                self.assertEqual(self.train(name, ranks, parallel)[0], expected)

    def test_fast_layouts_and_tensor_ranks_follow(self):
        _, expected, _ = self.train("fast one", reproducible=False)
        for name, (ranks, parallel) in {**LAYOUTS, "tensor": (2, {"tensor": 2}),
                                        "zero 2": (2, {"data": 2, "zero": 2})}.items():
            with self.subTest(name):
                losses = self.train("fast " + name, ranks, parallel, reproducible=False)[1]
                np.testing.assert_allclose(losses, expected, rtol=1e-4)
        self.assertGreater(np.abs(self.train("other", optimizer="adamw", reproducible=False)[1] / expected - 1).max(), 1e-3)

    def test_a_run_resumes(self):
        expected, _, _ = self.train("whole")
        checkpoint = self.work.folder / "whole/checkpoints/step-00000004"
        with h5py.File(checkpoint / "manifest.h5") as file:
            self.assertEqual([name.decode() for name in file["quantities"]], ["parameters", "first_moments", "second_moments"])
        self.assertEqual(self.train("again", 2, {"data": 2, "zero": 1}, resume=str(checkpoint))[0], expected)


class StableAdamw(Lamb):
    optimizer = "stable_adamw"


if __name__ == "__main__":
    unittest.main()
