"""Tensor parallelism of the whole program: layers shared out over ranks train, evaluate, predict and write the model as
one rank does, but for the rounding of sums in another order."""

import json
import unittest

import h5py
import numpy as np

from program import Case, run
from saved import numbers_in

MODEL = {"num_attention_heads": 4}
LAYOUTS = {
    "two": (2, {"tensor": 2}),
    "four": (4, {"tensor": 4}),
    "replicas": (4, {"tensor": 2, "data": 2, "zero": 1}),
    "sharded": (4, {"tensor": 2, "data": 2, "zero": 2, "offload": True}),
    "all three": (8, {"tensor": 2, "data": 2, "pipeline": 2, "zero": 2}),
    "stages": (4, {"tensor": 2, "pipeline": 2, "pipeline_schedule": "zb_h1"}),
}


def read_safetensors(path):
    """{name: array} of a file of F32 tensors."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, "<f4", offset=begin + tensor["data_offsets"][0],
                                count=int(np.prod(tensor["shape"]))).reshape(tensor["shape"])
            for name, tensor in header.items()}


class Layouts(Case):
    """Runs of ten steps with dropout on."""

    def train(self, name, ranks=1, parallel=None, reproducible=False):
        directory = self.work.folder / name
        run("bert_hpc", self.work.input(f"{name}.toml", model=MODEL, parallel=parallel or {},
                                        run={"directory": str(directory), "reproducible": reproducible},
                                        schedule={"epochs": None, "steps": 10},
                                        batch={"global": 16, "micro_batches": 2}), ranks=ranks, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            numbers = [*file["steps/loss"], *file["steps/gradient_norm"], file["evaluations/validation/loss"][-1]]
        return np.array(numbers), read_safetensors(directory / "model/model.safetensors")

    def use(self, mode, name, model, ranks=1, parallel=None):
        directory = self.work.folder / f"{mode}-{name}"
        run("bert_hpc", self.work.input(f"{mode}-{name}.toml", run={"mode": mode, "directory": str(directory)},
                                        model=None, parallel=parallel or {}, optimizer=None, schedule=None,
                                        data={"train": None, "validation": None,
                                              "test": [f"{self.work.folder}/shards/test-*.h5"]}),
            "--set", f'model.pretrained="{model}"', ranks=ranks, threads=1, check=0)
        found = {}
        if (directory / "predictions.h5").exists():
            with h5py.File(directory / "predictions.h5") as file:
                found |= {key: np.array(file[key]) for key in file}
        if mode == "evaluate":
            with h5py.File(directory / "metrics.h5") as file:
                found |= numbers_in(file["evaluations/test"])
        return found

    def check_training(self, reproducible):
        expected, weights = self.train(f"one-{reproducible}", reproducible=reproducible)
        for name, (ranks, parallel) in LAYOUTS.items():
            with self.subTest(name, reproducible=reproducible):
                numbers, mine = self.train(f"{name}-{reproducible}", ranks, parallel, reproducible)
                # Rounding of 1e-7 a pass, which ten updates at most multiply by some hundred.
                np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=0)
                self.assertEqual({key: value.shape for key, value in mine.items()},
                                 {key: value.shape for key, value in weights.items()})
                for key, value in weights.items():
                    # The gradient of a key's bias is zero but for rounding, which AdamW blows up to whole updates.
                    if key.endswith("key.bias"):
                        continue
                    difference = np.linalg.norm(mine[key] - value) / np.linalg.norm(value)
                    self.assertLess(difference, 1e-3, key)

    def check_use(self, modes):
        model = self.work.folder / "one-False/model"
        for mode in modes:
            expected = self.use(mode, "one", model)
            for name, (ranks, parallel) in LAYOUTS.items():
                parallel = {key: value for key, value in parallel.items() if key != "zero"}
                found = self.use(mode, name, model, ranks, parallel)
                self.assertEqual(sorted(found), sorted(expected))
                for key, values in expected.items():
                    np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-6, err_msg=f"{mode} {name} {key}")


class Classification(Layouts):
    def test_layouts_change_only_rounding(self):
        self.check_training(False)
        self.check_training(True)
        self.check_use(["evaluate", "predict"])


class MaskedLm(Layouts):
    task = "masked_lm"

    def test_layouts_change_only_rounding(self):
        self.check_training(False)
        self.check_training(True)
        self.check_use(["evaluate"])


del Layouts

if __name__ == "__main__":
    unittest.main()
