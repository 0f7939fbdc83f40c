"""Language models from scratch in one folder: shards, trainings and their numbers."""

import json
import math
import pathlib
import tempfile
import unittest

import h5py
import numpy as np
from program import MPIRUN, run, sentences, toml
from test_tensor import read_safetensors

# Layouts whose results have the bits of one rank: {name: (ranks, [parallel])}.
LAYOUTS = {"data": (2, {"data": 2, "zero": 0}), "pipeline": (2, {"pipeline": 2}), "stages": (4, {"pipeline": 4}),
           "bubble": (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}),
           "ring": (2, {"pipeline": 2, "pipeline_schedule": "interleaved", "virtual_stages": 2}),
           "both": (4, {"pipeline": 2, "data": 2, "zero": 2}), "offload": (2, {"data": 2, "zero": 2, "offload": True})}


class LanguageModel(unittest.TestCase):
    """A derived class has SOURCE ([source] of prep), TASK (a name) and MODEL ([model])."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    @classmethod
    def write(cls, name, tables):
        (cls.folder / name).write_text("".join(
            f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items() if value is not None)
            for table, keys in tables.items()))
        return name

    @classmethod
    def write_text(cls, name, count, seed=1):
        (cls.folder / name).write_text("".join(text + "\n" for text, _, _ in sentences(count, seed)))

    @classmethod
    def prepare(cls, out, check=0, **tables):
        values = {"source": cls.SOURCE, "task": {"name": cls.TASK}, "output": {"directory": out}}
        for table, keys in tables.items():
            values[table] = values.get(table, {}) | keys
        return run("bert_hpc_prep", cls.write(f"{out}_prep.toml", values), cwd=cls.folder, check=check)

    def start(self, name, ranks=1, check=0, **tables):
        values = {"run": {"directory": name, "reproducible": True}, "model": self.MODEL, "task": {"name": self.TASK},
                  "data": {"train": ["shards/train-*.h5"], "validation": ["shards/validation-*.h5"]},
                  "batch": {"global": 16, "chunks": 4}, "optimizer": {"learning_rate": 3e-3}, "schedule": {"steps": 12},
                  "log": {"every_steps": 1, "progress": "lines"}}
        for table, keys in tables.items():
            values[table] = values.get(table, {}) | keys if keys is not None else {}
        return run("bert_hpc", self.write(f"{name}.toml", values), ranks=ranks, threads=1, check=check, cwd=self.folder)

    def weights(self, name):
        return read_safetensors(self.folder / name / "model/model.safetensors")

    def check_bits_of_layouts(self, name, **tables):
        """Trains on one rank, into `name`, and on layouts without tensor groups: numbers and weights have the same bits."""
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        self.start(name, **tables)
        expected, weights = self.numbers(name), self.weights(name)
        for layout, (ranks, parallel) in LAYOUTS.items():
            self.start(f"{name}-{layout}", ranks, parallel=parallel, **tables)
            mine = self.weights(f"{name}-{layout}")
            with self.subTest(layout):
                self.assertEqual(list(self.numbers(f"{name}-{layout}")), list(expected))
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        return expected, weights

    def check_adapters(self, modules, without, **vocabulary):
        """LoRA of a classifier from a language model that this trains adapts these modules, and no parameter with `without` in its name."""
        self.start("base")
        # A classification, as masked language modelling's head is the frozen embeddings.
        self.prepare("labelled", tokenizer={"max_tokens": 40} | vocabulary, task={"name": "classification"}, source={"label": "label"}, split={"train": 1})
        self.start("adapted", task={"name": "classification"}, data={"train": ["labelled/train-*.h5"], "validation": None},
                   model=dict.fromkeys(self.MODEL) | {"pretrained": "base/model", "trainable": "lora"}, schedule={"steps": 4})
        adapter = self.folder / "adapted/adapter"
        self.assertEqual(sorted(json.loads((adapter / "adapter_config.json").read_text())["target_modules"]), modules)
        names = read_safetensors(adapter / "adapter_model.safetensors")
        self.assertTrue(names)
        self.assertFalse([name for name in names if without in name])

    def check_continues(self, **config):
        """A training from the folder of another begins with its weights; its config.json has these values."""
        self.start("first")
        loss = self.numbers("first")[-1]
        self.start("second", model=dict.fromkeys(self.MODEL) | {"pretrained": "first/model"})
        self.assertLess(self.numbers("second")[-1], loss)
        written = json.loads((self.folder / "first/model/config.json").read_text())
        self.assertEqual({key: written[key] for key in config}, config)
        return written

    def check_fast_sums(self, parameter, more=None):
        """Without run.reproducible numbers and this parameter differ by rounding alone, 1e-7 a pass, which the updates multiply by some
        hundred. `more`: {layout: (ranks, parallel)}."""
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        fast = {"run": {"reproducible": False}, "debug": {"parameter_hash_every": 1}}
        self.start("fast", **fast)
        expected, weights = self.numbers("fast"), self.weights("fast")
        layouts = {"fast-data": (2, {"data": 2, "zero": 0}), "fast-sharded": (2, {"data": 2, "zero": 2}),
                   "fast-both": (4, {"pipeline": 2, "data": 2, "zero": 2})}
        for name, (ranks, parallel) in (layouts | (more or {})).items():
            self.start(name, ranks, parallel=parallel, **fast)
            with self.subTest(name):
                np.testing.assert_allclose(self.numbers(name), expected, rtol=1e-4)
                np.testing.assert_allclose(self.weights(name)[parameter], weights[parameter], atol=1e-4)

    def numbers(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            loss = file["evaluations/validation/loss"][-1]
            if "perplexity" in file["evaluations/validation"]:
                of_tokens = file["evaluations/validation"].get("masked_lm_loss", [loss])[-1]
                self.assertAlmostEqual(math.log(file["evaluations/validation/perplexity"][-1]), of_tokens, places=5)
            return np.array([*file["steps/loss"], *file["steps/gradient_norm"], loss])
