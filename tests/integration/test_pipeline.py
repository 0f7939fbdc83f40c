"""Pipelines of the whole program: every layout and schedule gives the same model, evaluation and predictions."""

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
    "halves": {"pipeline": 2, "balance": [3.5, 0.5]},  # the cut lies where few rows pass: in the last block
    "measured": {"pipeline": 2, "balance": "measured"},
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
        layouts["eight ranks"] = (8, {"pipeline": 4, "zero": 2})
        layouts["eight ranks, more replicas"] = (8, {"pipeline": 2, "balance": "measured", "zero": 2, "offload": True})
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
        layouts = {name: (2, parallel) for name, parallel in PIPELINES.items()}
        layouts["four-stages-of-two"] = (8, {"pipeline": 4, "tensor": 2})
        for name, (ranks, parallel) in layouts.items():
            # Ten steps: rounding of 1e-7 grows by the learning rate's feedback to well below 1e-4.
            found = self.train(f"fast-{name}", ranks, parallel, batch=batch)
            for mine, whole in zip(found[1], one[1], strict=True):
                self.assertAlmostEqual(mine, whole, delta=1e-4, msg=name)

    def test_evaluation_and_prediction_on_a_pipeline_are_those_of_one_rank(self):
        self.train("trained", 1)
        shards, model = self.work.folder / "shards", self.work.folder / "trained/model"
        results = {}
        for mode in ("evaluate", "predict"):
            for name, ranks, parallel in (("one", 1, {}), ("two", 2, PIPELINES["halves"]), ("four", 4, {"pipeline": 4}),
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


class Setup(Case):
    """How the model is cut, and a step into micro-batches."""

    def banner(self, ranks, parallel, *arguments, **tables):
        tables = {"schedule": {"epochs": None, "steps": 2}, "model": {"num_hidden_layers": 4}} | tables
        done = run("bert_hpc", self.work.input("setup.toml", parallel=parallel, **tables), "--overwrite", *arguments,
                   ranks=ranks, threads=1, check=0)
        lines = done.stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("  pipeline "))
        return " ".join(line.strip() for line in lines[first:first + 2])

    def test_the_banner_shows_the_measurements_and_the_chosen_layout(self):
        for ranks, parallel in ((2, {"pipeline": 2}), (4, {"pipeline": 2}), (4, {"pipeline": 2, "tensor": 2}),
                                (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"})):
            with self.subTest(ranks=ranks, **parallel):
                text = self.banner(ranks, parallel | {"balance": "measured"})
                self.assertRegex(text, r"blocks \[[\d.]+, [\d.]+\] \(measured\), \d+ micro-batch\S* of about \d+ tokens per replica \(from FLOP counts\): bubble \S+ \(measured times\)")
                self.assertRegex(text, r"attention \S+ \+ \S+, feed-forward \S+ \+ \S+, the last block's attention \S+ \+ \S+, "
                                 r"the last block's feed-forward and the head \S+ \+ \S+")

    def test_a_choice_by_counted_work_is_the_same_every_time(self):
        texts = {self.banner(2, {"pipeline": 2}) for _ in range(2)}
        self.assertEqual(len(texts), 1)
        self.assertRegex(texts.pop(), r"blocks \[[\d.]+, [\d.]+\] \(from FLOP counts\), \d+ micro-batches of about \d+ tokens .* \(from FLOP counts\)")

    def test_what_the_input_says_is_done(self):
        text = self.banner(2, {"pipeline": 2, "balance": [3, 1]}, batch={"global": 16, "micro_batches": 5})
        self.assertRegex(text, r"blocks \[3, 1\] \(from the input\), 5 micro-batches .* \(from the input\)")
        text = self.banner(1, {"pipeline": 3, "balance": [1.5, 2, 0.5]}, "--validate", "--ranks", "3")
        self.assertRegex(text, r"blocks \[1.5, 2, 0.5\] \(from the input\)")

    def test_nothing_is_measured_where_nothing_is_computed(self):
        text = self.banner(1, {"pipeline": 2, "balance": "measured"}, "--validate", "--ranks", "2")
        self.assertRegex(text, r"\(from FLOP counts; a run measures\), .* \(from FLOP counts\)")


class MaskedLm(Layouts):
    task = "masked_lm"

    def test_no_layout_changes_a_bit_in_reproducible_mode(self):
        self.same_bits(["halves", "interleaved"])

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
