"""Bi-LSTM models: the same bits on every layout of data and pipeline ranks, with ZeRO, offload and recomputation; what they do not
have is refused by name; their folders are pretrained models; they resume, and train in 16 bits."""

import unittest

import h5py
import numpy as np

from program import Case, as_if_killed_after, run
from test_tensor import read_safetensors

NO_ATTENTION = dict.fromkeys(("num_attention_heads", "intermediate_size", "max_position_embeddings"))
MODEL = NO_ATTENTION | {"family": "bilstm", "embedding_size": 16, "hidden_size": 24, "hidden_dropout_prob": 0.2}


class BiLstm(Case):
    def input(self, name, model=MODEL, run_keys={}, **tables):
        directory = self.work.folder / name
        tables = {"schedule": {"epochs": None, "steps": 10}, "batch": {"global": 16, "chunks": 4}} | tables
        return directory, self.work.input(f"{name}.toml", model=model, run={"directory": str(directory), "reproducible": True} | run_keys, **tables)

    def train(self, name, ranks=1, **tables):
        directory, path = self.input(name, **tables)
        run("bert_hpc", path, ranks=ranks, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            numbers = [*file["steps/loss"], *file["steps/gradient_norm"]]
        return np.array(numbers), read_safetensors(directory / "model/model.safetensors")

    def refused(self, name, words, ranks=1, **tables):
        _, path = self.input(name, **tables)
        self.assertIn(words, run("bert_hpc", path, ranks=ranks, check=2).stderr)

    def test_layouts(self):
        numbers, weights = self.train("one")
        self.assertTrue(np.isfinite(numbers).all())
        self.assertEqual(weights["lstm.weight_ih_l1_reverse"].shape, (96, 48))
        for name, ranks, tables in (
                ("middle", 2, {"parallel": {"pipeline": 2, "balance": [2, 2]}}),
                ("late", 2, {"parallel": {"pipeline": 2, "balance": [3, 1]}}),
                ("early", 2, {"parallel": {"pipeline": 2, "balance": [1, 3], "pipeline_schedule": "zb_h1"}}),
                ("each", 4, {"parallel": {"pipeline": 4, "pipeline_schedule": "gpipe"}}),
                ("both", 4, {"parallel": {"pipeline": 2, "data": 2, "zero": 2, "offload": True}}),
                ("recomputed", 2, {"parallel": {"data": 2, "zero": 1}, "model": MODEL | {"recompute": "blocks"}})):
            found, mine = self.train(name, ranks, **tables)
            with self.subTest(name):
                self.assertEqual(list(found[:10]), list(numbers[:10]))
                for key, value in weights.items():
                    self.assertTrue(np.array_equal(mine[key], value), key)

    def test_it_learns_and_its_folder_is_a_pretrained_model(self):
        whole = {"schedule": {"epochs": 8, "steps": None}, "batch": {"global": 16, "chunks": None}, "run_keys": {"reproducible": False},
                 "optimizer": {"learning_rate": 1e-2}}
        for pooling in ("ends", "max"):
            with self.subTest(pooling):
                self.train(pooling, 2, model=MODEL | {"pooling": pooling}, **whole)
                with h5py.File(self.work.folder / pooling / "metrics.h5") as file:
                    self.assertGreater(file["evaluations/validation/accuracy"][-1], 0.9)
                    loss = file["evaluations/validation/loss"][-1]
                folder = str(self.work.folder / pooling / "model")
                sizes = NO_ATTENTION | dict.fromkeys(("hidden_size", "num_hidden_layers")) | {"pretrained": folder}
                directory, path = self.input(f"{pooling}_evaluated", model=sizes, run_keys={"mode": "evaluate", "reproducible": False},
                                             optimizer=None, schedule=None, batch={"chunks": None},
                                             data={"train": None, "validation": None, "test": [f"{self.work.folder}/shards/validation-*.h5"]})
                run("bert_hpc", path, check=0)
                with h5py.File(directory / "metrics.h5") as file:
                    self.assertAlmostEqual(file["evaluations/test/loss"][-1], loss, places=5)

    def test_16_bits(self):
        numbers, _ = self.train("fp32", run_keys={"reproducible": False})
        for precision in ("bf16", "fp16"):
            found, _ = self.train(precision, run_keys={"reproducible": False}, precision={"compute": precision})
            with self.subTest(precision):
                self.assertTrue((found[:10] != numbers[:10]).any())
                np.testing.assert_allclose(found[:10], numbers[:10], rtol=2e-2)

    def test_it_resumes_with_the_same_bits(self):
        saving = {"checkpoint": {"every_steps": 4, "keep": 9}}
        numbers, weights = self.train("resumed", **saving)
        as_if_killed_after(4, self.work.folder / "resumed")
        found, mine = self.train("resumed", 2, parallel={"pipeline": 2}, **saving)
        self.assertEqual(list(found), list(numbers))
        for key, value in weights.items():
            self.assertTrue(np.array_equal(mine[key], value), key)

    def test_padding_does_not_change_results(self):
        numbers, _ = self.train("unpadded")
        found, _ = self.train("padded", data={"padding": "longest"})
        np.testing.assert_allclose(found[:10], numbers[:10], rtol=1e-5)

    def test_refusals(self):
        self.refused("tensor", 'tensor = 2 is not possible with a model of the family "bilstm"', parallel={"tensor": 2})
        self.refused("fp8", "and a \"bilstm\" has none: use \"bf16\"", precision={"compute": "fp8"}, run_keys={"reproducible": False})
        self.refused("heads", "num_attention_heads is not a setting of family = \"bilstm\"", model=MODEL | {"num_attention_heads": 2})
        self.refused("lora", "which this family has none of below its head", model=MODEL | {"trainable": "lora"})
        self.refused("pooled", "model.pooling is not a setting of \"bert\"", model={"pooling": "mean"})
        self.refused("parts", "holds 5 blocks, but the model has 4", 2, parallel={"pipeline": 2, "balance": [3, 2]})
        self.train("applied")
        applied = NO_ATTENTION | dict.fromkeys(("hidden_size", "num_hidden_layers")) | {"pretrained": str(self.work.folder / "applied/model")}
        self.refused("int8", "[precision] compute = \"int8\" is for the linear layers of models with attention, and a \"bilstm\" has none: use "
                     "\"fp32\".", model=applied, run_keys={"mode": "evaluate", "reproducible": False}, optimizer=None, schedule=None,
                     batch={"chunks": None}, precision={"compute": "int8"},
                     data={"train": None, "validation": None, "test": [f"{self.work.folder}/shards/validation-*.h5"]})


if __name__ == "__main__":
    unittest.main()
