"""Pipelines of the whole program: every layout and schedule trains the same model, evaluates and predicts alike."""

import hashlib
import unittest

import h5py

from program import Case, run

MODEL = {"num_hidden_layers": 4}
# data, pipeline, ranks' schedule and what it needs
PIPELINES = {
    "1f1b": {"pipeline": 2},
    "gpipe": {"pipeline": 2, "pipeline_schedule": "gpipe"},
    "zb_h1": {"pipeline": 2, "pipeline_schedule": "zb_h1"},
    "interleaved": {"pipeline": 2, "pipeline_schedule": "interleaved", "virtual_stages": 2},
    "balance": {"pipeline": 2, "balance": [3, 1]},
}


class Layouts(Case):
    """Runs of ten steps with dropout on."""

    def train(self, name, ranks, parallel=None, **tables):
        directory = self.work.folder / name
        tables["run"] = {"directory": str(directory)} | tables.get("run", {})
        tables.setdefault("schedule", {"epochs": None, "steps": 10})
        tables.setdefault("batch", {"global": 16})
        run("bert_hpc", self.work.input(f"{name}.toml", model=MODEL, parallel=parallel or {}, **tables), ranks=ranks,
            threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            return (hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest(),
                    list(file["steps/loss"]), list(file["steps/gradient_norm"]),
                    file["evaluations/validation/loss"][-1])

    def same_bits(self, names, **tables):
        """In reproducible mode; names of PIPELINES."""
        tables["run"] = {"reproducible": True}
        one = self.train("one", 1, **tables)
        self.assertEqual(len(one[1]), 10)
        layouts = {f"{name} {ranks}": (ranks, PIPELINES[name]) for name in names for ranks in (2, 4)}
        layouts["four stages"] = (4, {"pipeline": 4})
        layouts["four stages of zero bubble"] = (4, {"pipeline": 4, "pipeline_schedule": "zb_h1"})
        layouts["sharded"] = (4, {"pipeline": 2, "zero": 1})
        for name, (ranks, parallel) in layouts.items():
            with self.subTest(name):
                found = self.train(name.replace(" ", "-"), ranks, parallel, **tables)
                self.assertEqual(found[:3], one[:3])
                # Rounding in double of the sum over two replicas.
                self.assertAlmostEqual(found[3], one[3], delta=1e-12)


class Classification(Layouts):
    def test_no_layout_changes_a_bit_in_reproducible_mode(self):
        self.same_bits(PIPELINES)

    def test_layouts_change_only_rounding_in_fast_mode(self):
        batch = {"global": 16, "micro_batches": 4}
        one = self.train("fast-one", 1, batch=batch)
        for name, parallel in PIPELINES.items():
            # Ten steps: rounding of 1e-7 grows by the learning rate's feedback to well below 1e-4.
            found = self.train(f"fast-{name}", 2, parallel, batch=batch)
            for mine, whole in zip(found[1], one[1], strict=True):
                self.assertAlmostEqual(mine, whole, delta=1e-4, msg=name)

    def test_evaluation_and_prediction_on_a_pipeline_are_those_of_one_rank(self):
        self.train("trained", 1)
        shards, model = self.work.folder / "shards", self.work.folder / "trained/model"
        results = {}
        for mode in ("evaluate", "predict"):
            for name, ranks, parallel in (("one", 1, {}), ("two", 2, {"pipeline": 2}), ("four", 4, {"pipeline": 4}),
                                          ("both", 4, {"pipeline": 2}),
                                          ("ring", 2, PIPELINES["interleaved"])):
                directory = self.work.folder / f"{mode}-{name}"
                run("bert_hpc", self.work.input(f"{mode}-{name}.toml", run={"mode": mode, "directory": str(directory)},
                                                model=None, parallel=parallel, optimizer=None, schedule=None,
                                                data={"train": None, "validation": None,
                                                      "test": [f"{shards}/test-*.h5"]}), "--set",
                    f'model.pretrained="{model}"', ranks=ranks, threads=1, check=0)
                with h5py.File(directory / "predictions.h5") as file:
                    found = {key: list(file[key][:].ravel()) for key in file}
                if mode == "evaluate":
                    with h5py.File(directory / "metrics.h5") as file:
                        table = file["evaluations/test"]
                        found["accuracy"] = list(table["accuracy"])
                        if name != "both":  # which adds the sums of two replicas
                            found["loss"] = list(table["loss"])
                results[mode, name] = found
                self.assertGreater(len(found), 1)
                for key, values in found.items():
                    self.assertEqual(values, results[mode, "one"][key], f"{mode}, {name}, {key}")


class MaskedLm(Layouts):
    task = "masked_lm"

    def test_no_layout_changes_a_bit_in_reproducible_mode(self):
        self.same_bits(["1f1b", "interleaved"])

    def test_layouts_change_only_rounding_in_fast_mode(self):
        batch = {"global": 16, "micro_batches": 4}
        one = self.train("fast-one", 1, batch=batch)
        for name, ranks, parallel in (("two", 2, {"pipeline": 2}), ("four", 4, {"pipeline": 2, "zero": 1}),
                                      ("deep", 4, {"pipeline": 4, "pipeline_schedule": "zb_h1"}),
                                      ("replicas", 4, {"pipeline": 2, "zero": 0})):
            found = self.train(f"fast-{name}", ranks, parallel, batch=batch)
            for mine, whole in zip(found[1] + found[2], one[1] + one[2], strict=True):
                self.assertAlmostEqual(mine, whole, delta=1e-4 * max(1, whole), msg=name)
            # A model that a pipeline wrote is read by one rank, and the other way round.
            for directory, parts in ((f"fast-{name}", 1), ("fast-one", 2)):
                out = self.work.folder / f"again-{name}-{parts}"
                run("bert_hpc", self.work.input("again.toml", run={"mode": "evaluate", "directory": str(out)},
                                                model=None, data={"train": None}, parallel={"pipeline": parts}),
                    "--set", f'model.pretrained="{self.work.folder / directory}/model"', ranks=parts, threads=1,
                    check=0)
                with h5py.File(out / "metrics.h5") as file:
                    self.assertAlmostEqual(file["evaluations/validation/loss"][0],
                                           (one if parts == 2 else found)[3], delta=1e-6)


del Layouts

if __name__ == "__main__":
    unittest.main()
