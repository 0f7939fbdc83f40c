"""[optimizer] name on every layout: "lamb" and "stable_adamw", which need one sum of squares for each tensor wherever its parts
are updated; "adamw8bit", whose states are blocks of 8-bit numbers, in memory and in checkpoints."""

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
    model = {"num_attention_heads": 4}
    quantities = ["parameters", "first_moments", "second_moments"]
    tolerance = 1e-4  # of losses in fast mode
    other = 1e-3      # that AdamW's differ at least by

    def train(self, name, ranks=1, parallel=None, reproducible=True, optimizer=None, **run_keys):
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", parallel=parallel or {},
                               optimizer={"name": optimizer or self.optimizer, "learning_rate": 1e-2, "weight_decay": 0.01},
                               model=self.model, checkpoint={"every_steps": 4, "keep": 9},
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
                np.testing.assert_allclose(losses, expected, rtol=self.tolerance)
        self.assertGreater(np.abs(self.train("other", optimizer="adamw", reproducible=False)[1] / expected - 1).max(), self.other)

    def test_a_run_resumes(self):
        expected, _, _ = self.train("whole")
        checkpoint = self.work.folder / "whole/checkpoints/step-00000004"
        with h5py.File(checkpoint / "manifest.h5") as file:
            self.assertEqual([name.decode() for name in file["quantities"]], self.quantities)
        self.assertEqual(self.train("again", 2, {"data": 2, "zero": 1}, resume=str(checkpoint))[0], expected)


class StableAdamw(Lamb):
    optimizer = "stable_adamw"


class Adamw8bit(Lamb):
    optimizer = "adamw8bit"
    model = {"num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 256}
    quantities = ["parameters"] + [f"{moment}_moments{part}" for moment in ("first", "second") for part in ("", "_codes", "_scales")]
    # A rounding decides now and then between two codes, which are 1% to 10% apart.
    tolerance, other = 5e-3, 1e-5

    def test_a_run_resumes(self):
        super().test_a_run_resumes()
        checkpoint = self.work.folder / "whole/checkpoints/step-00000004"
        with h5py.File(checkpoint / "rank-00000.h5") as file:
            sizes = {name: file[name].size for name in self.quantities}
            moments = sum(file[name].nbytes for name in self.quantities[1:])
            large = 4096
            self.assertEqual(file["first_moments_codes"].dtype, np.uint8)
            self.assertEqual(file["first_moments_scales"].size, -(-sizes["first_moments_codes"] // 256))
            self.assertEqual(sizes["parameters"], sizes["first_moments"] + sizes["first_moments_codes"])
            self.assertGreater(sizes["first_moments_codes"], 8 * large)
            self.assertLessEqual(moments, 2.1 * sizes["first_moments_codes"] + 8 * sizes["first_moments"])
        # Tensor ranks have other blocks: the same training, but for the rounding of moments once.
        whole = self.train("fast whole", reproducible=False)[1]
        checkpoint = self.work.folder / "fast whole/checkpoints/step-00000004"
        losses = self.train("tensor again", 2, {"tensor": 2}, reproducible=False, resume=str(checkpoint))[1]
        np.testing.assert_allclose(losses[-4:], whole[-4:], rtol=self.tolerance)

    def test_a_checkpoint_of_another_optimizer_is_refused(self):
        self.train("eight bits")
        checkpoint = self.work.folder / "eight bits/checkpoints/step-00000004"
        path = self.work.input("other.toml", run={"directory": str(self.work.folder / "refused"), "resume": str(checkpoint)},
                               model=self.model, optimizer={"name": "adamw", "learning_rate": 1e-2})
        done = run("bert_hpc", path, check=2)
        self.assertIn("optimizer", done.stderr)


if __name__ == "__main__":
    unittest.main()
