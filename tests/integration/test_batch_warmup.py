"""Batches that grow from batch.warmup_start to batch.global: the sizes of the steps, the same bits on any layout and after a stop, a
plan that counts their steps."""

import re
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, run
from test_tensor import read_safetensors

GROWING = {"warmup_start": 4, "warmup_increment": 4}


class BatchWarmup(LanguageModel):
    SOURCE, TASK = {"format": "text", "files": ["text.txt"]}, "masked_lm"
    MODEL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_text("text.txt", 110)
        cls.prepare("shards", tokenizer={"train_size": 150, "max_tokens": 40}, task={"pack": False}, split={"train": 1})

    def rows(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {key: file[f"steps/{key}"][:] for key in ("loss", "gradient_norm", "samples", "tokens", "epoch")}

    def grow(self, name, ranks=1, **tables):
        batch = GROWING | {"warmup_steps": 9} | tables.pop("batch", {})
        schedule = {"steps": 16} | tables.pop("schedule", {})
        return self.start(name, ranks, batch=batch, schedule=schedule, data={"validation": None}, **tables)

    def test_every_layout_and_a_stop_have_the_same_bits(self):
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        done = self.grow("one")
        self.assertIn("grows from 4 to 16 by 4, the last from step 10 on; mean 11.5", done.stdout)
        rows = self.rows("one")
        # 110 sequences: an epoch ends in a step of 16 with the 6 that are left of it.
        self.assertEqual(list(rows["samples"]), [4] * 3 + [8] * 3 + [12] * 3 + [16, 16, 6, 16, 16, 16, 16])
        self.assertEqual(rows["epoch"][11], 1)
        weights = read_safetensors(self.folder / "one/model/model.safetensors")
        for name, ranks, parallel in (("data", 2, {"data": 2}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 2})):
            self.grow(name, ranks, parallel=parallel, checkpoint={"every_steps": 5, "keep": 9})
            with self.subTest(name):
                self.assertTrue(all(np.array_equal(value, rows[key]) for key, value in self.rows(name).items()))
                mine = read_safetensors(self.folder / name / "model/model.safetensors")
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        for step in (5, 10):  # among growing batches, and behind them
            self.grow(f"from_{step}", 2, parallel={"pipeline": 2}, run={"resume": f"both/checkpoints/step-{step:08d}"})
            self.assertEqual(list(self.rows(f"from_{step}")["loss"]), list(rows["loss"][step:]))
            self.assertEqual(list(self.rows(f"from_{step}")["samples"]), list(rows["samples"][step:]))

    def test_the_first_steps_are_those_of_small_batches(self):
        self.grow("growing")
        self.start("small", batch={"global": 4}, schedule={"steps": 16}, data={"validation": None})
        self.assertEqual(list(self.rows("growing")["loss"][:3]), list(self.rows("small")["loss"][:3]))
        self.assertNotEqual(self.rows("growing")["loss"][3], self.rows("small")["loss"][3])

    def test_lengths_in_tokens_count_the_steps_of_all_sizes(self):
        with h5py.File(self.folder / "shards/train-00000.h5") as file:
            epoch = int(file["offsets"][-1])
        batch = GROWING | {"warmup_steps": None, "warmup_tokens": float(epoch)}
        done = self.grow("tokens", batch=batch, schedule={"steps": None, "tokens": 2.0 * epoch})
        rows = self.rows("tokens")
        # Thirds of 110 sequences in 4 (10 steps reach 36.7), 8 (5 more reach 73.3) and 12 (3 more reach 110), then an epoch in 16.
        self.assertEqual(list(rows["samples"]), [4] * 10 + [8] * 5 + [12, 12, 6] + [16] * 6 + [14])
        self.assertEqual(sum(rows["tokens"]), 2 * epoch)
        self.assertIn("25 steps of 16 sequences", done.stdout)

    def test_a_plan_and_what_cannot_be(self):
        name = self.write("plan.toml", {"run": {"directory": "plan"}, "model": self.MODEL, "task": {"name": self.TASK},
                                        "data": {"train": ["shards/train-*.h5"]}, "batch": {"global": 16} | GROWING | {"warmup_steps": 9},
                                        "optimizer": {"learning_rate": 1e-3}, "schedule": {"steps": 16}})
        done = run("bert_hpc", name, "--validate", check=0, cwd=self.folder)
        self.assertIn("grows from 4 to 16 by 4", done.stdout)
        done = run("bert_hpc", name, "--validate", "--ranks", "8", check=2, cwd=self.folder)
        self.assertRegex(done.stderr, r"warmup_start = 4 is less than the 8 replicas")
        done = run("bert_hpc", name, "--set", "schedule.steps=9", "--validate", check=0, cwd=self.folder)
        self.assertTrue(re.search("the warm-up of the batch size is longer than the run's 9 steps", done.stdout + done.stderr))


if __name__ == "__main__":
    unittest.main()
