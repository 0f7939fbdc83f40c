"""Language models from scratch in one folder: shards, trainings and their numbers."""

import math
import pathlib
import tempfile
import unittest

import h5py
import numpy as np
from program import run, sentences, toml


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

    def numbers(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            loss = file["evaluations/validation/loss"][-1]
            if "perplexity" in file["evaluations/validation"]:
                self.assertAlmostEqual(math.log(file["evaluations/validation/perplexity"][-1]), loss, places=5)
            return np.array([*file["steps/loss"], *file["steps/gradient_norm"], loss])
