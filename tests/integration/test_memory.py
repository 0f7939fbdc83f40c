"""Memory: a run takes the memory that it reports before its first step; its steps allocate no heap memory; predictions go to their
files, however many samples there are."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import unittest

import h5py
import numpy as np

from program import BUILD, MPIRUN, Case, TaskCase, run

COUNTER = BUILD / "tests/libcount_allocations.so"

# Names of libraries and programs whose allocations are ours to avoid: our own code (C++ code asks by operator new, in
# libstdc++; kernels through OpenMP's runtime or oneDNN). MPI's libraries take and free memory for messages as they see
# fit; HDF5 and the C library work when metrics.h5 is written, which is by the clock and not by the step.
OURS = re.compile(r"bert_hpc$|libstdc\+\+|libgomp|libdnnl|libopenblas")


class Budget(Case):
    rows = 4000

    def plan(self, name, ranks=1, check=0, options=("--validate",), **tables):
        done = run("bert_hpc", self.work.input(
            f"{name}.toml", model={"hidden_size": 128, "num_hidden_layers": 4}, run={"directory": str(self.work.folder / name)},
            schedule={"epochs": None, "steps": 2}, **tables), *options, ranks=ranks, threads=1, check=check)
        if check:
            return re.sub(r"\s+", " ", done.stderr)
        tokens = int(re.search(r"micro-batches of at most ([\d,]+) tokens", done.stdout)[1].replace(",", ""))
        number, unit = re.search(r"  memory +([\d.]+) (\w+) per rank", done.stdout).groups()
        return tokens, float(number) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]

    def test_micro_batches_are_the_largest_that_fit(self):
        batch = {"global": 2000}
        for ranks, tables in ((1, {}), (2, {"parallel": {"pipeline": 2}}), (2, {"parallel": {"data": 2, "zero": 1}})):
            for budget in (150 << 20, 300 << 20):
                with self.subTest(ranks=ranks, tables=tables, budget=budget):
                    tokens, planned = self.plan("budget", ranks, batch=batch | {"memory": budget}, **tables)
                    self.assertLessEqual(planned, budget)
                    # What is left has no room for 15% more tokens: the plan grows as fast as they do, but for what it has without.
                    _, least = self.plan("least", ranks, batch=batch | {"micro_tokens": 32}, **tables)
                    self.assertGreater(planned + 0.15 * (planned - least), budget)
        tokens, _ = self.plan("all", batch={"global": 64, "memory": "auto"})
        self.assertGreater(tokens, 64 * 10)  # the whole batch

    def test_a_run_takes_no_more_than_its_budget(self):
        budget = 200 << 20
        for name, ranks in (("kept", 1), ("kept by two", 2)):
            self.plan(name, ranks, options=(), batch={"global": 2000, "memory": budget})
            with h5py.File(self.work.folder / name / "metrics.h5") as file:
                for rank in range(ranks):
                    self.assertLessEqual(file["ranks/peak_memory"][rank] - file["ranks/start_memory"][rank], budget)
                    self.assertLessEqual(file["ranks/planned_memory"][rank], budget)

    def test_what_does_not_fit_is_named(self):
        self.assertRegex(self.plan("small", check=2, batch={"memory": 1 << 20}), r"\[batch\] memory allows 1.0 MiB of a rank, but .* alone takes")
        self.assertIn("remove micro_tokens", self.plan("two", check=2, batch={"memory": 1e9, "micro_tokens": 64}))
        self.assertIn("does not go with [run] reproducible", self.plan("chunks", check=2, batch={"memory": 1e9, "chunks": 4}))


class Planned(Case):
    # 38 M parameters: 587 MiB of arenas, so that unplanned memory is visible.
    MODEL = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048,
             "vocab_size": 50000}
    def check(self, name, ranks, **tables):
        directory = self.work.folder / name
        tables.setdefault("run", {})["directory"] = str(directory)
        done = run("bert_hpc", self.work.input(f"{name}.toml", model=self.MODEL, batch={"global": 16}, **tables,
                                               schedule={"epochs": None, "steps": 4}), ranks=ranks, threads=1, check=0)
        self.assertIn("memory per rank: planned ", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            planned = file["ranks/planned_memory"][:]
            start = file["ranks/start_memory"][:]
            peak = file["ranks/peak_memory"][:]
            parts = dict(zip(file["ranks/memory/purpose"].asstr()[:], file["ranks/memory/bytes"][:]))
            samples = {name: file[f"ranks/samples/{name}"][:] for name in ("seconds", "utilisation", "memory", "power")}
            stated = file.attrs["parameters"], file.attrs["trained_parameters"]
        self.assertEqual(len(planned), ranks)
        parameters = int(re.search(r"parameters +([\d,]+)", done.stdout)[1].replace(",", ""))
        self.assertEqual(stated, (parameters, parameters))
        self.assertEqual(list(sum(parts.values())), list(planned))
        self.assertGreaterEqual(sum(parts["optimizer states"]), 8 * parameters)  # over ranks two floats a parameter
        self.check_samples(samples, start)
        for p, s, m in zip(planned, start, peak):
            # Values and gradients of all parameters, moments of those that a rank updates: 16 bytes a parameter on one rank.
            self.assertGreater(p, (8 + 8 / ranks) * parameters)
            self.assertGreater(s, 1 << 20)
            growth = m - s
            self.assertLess(growth, p, f"planned {p >> 20} MiB, grew by {growth >> 20} MiB")
            # A plan that promises far too much would pass the line above.
            self.assertGreater(growth, 0.8 * p)

    def check_samples(self, samples, start):
        self.assertGreaterEqual(len(samples["seconds"]), 2)  # the first and the last
        for name in ("utilisation", "memory", "power"):
            self.assertEqual(samples[name].shape, (len(samples["seconds"]), len(start)))
        self.assertTrue((samples["memory"][-1] > start).all())
        self.assertTrue(((samples["utilisation"][1:] > 0) & (samples["utilisation"][1:] <= 1)).all())
        self.assertTrue(np.isnan(samples["power"]).all())

    def test_one_rank(self):
        self.check("one", 1)

    def test_two_ranks(self):
        self.check("two", 2)

    def test_reproducible_sums_are_in_the_plan(self):
        self.check("sums", 2, run={"reproducible": True})

    def test_fp8_operands_are_in_the_plan(self):
        self.check("fp8", 1, precision={"compute": "fp8"})


class Allocations:
    """Cases of every task."""

    SHORT, LONG = 20, 1020

    def allocations(self, name, steps, ranks, threads, **tables):
        """By library, of each rank."""
        prefix = self.work.folder / f"{name}.allocations"
        tables["run"] = tables.get("run", {}) | {"directory": str(self.work.folder / name)}
        path = self.work.input(f"{name}.toml", **tables, schedule={"epochs": None, "steps": steps},
                               # One evaluation, row and checkpoint, at the end: rows and log lines take memory, and the run
                               # rewrites metrics.h5 at intervals of time, but only when it has new rows.
                               log={"every_steps": 10 * self.LONG, "progress": "none"},
                               evaluation={"every_steps": 10 * self.LONG}, checkpoint={"every_steps": 10 * self.LONG})
        command = [MPIRUN, "-n", str(ranks), "env", f"LD_PRELOAD={COUNTER}:{os.environ.get('LD_PRELOAD', '')}", str(BUILD / "bert_hpc"), str(path)]
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), BERT_HPC_COUNT_ALLOCATIONS=str(prefix))
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = []
        for report in sorted(self.work.folder.glob(f"{name}.allocations.*")):
            lines = [line.split(None, 1) for line in report.read_text().splitlines()]
            counts.append(collections.Counter({pathlib.Path(where).name: int(count) for count, where in lines}))
        self.assertEqual(len(counts), ranks)
        with h5py.File(self.work.folder / name / "metrics.h5") as file:
            return counts, len(file["ranks/samples/seconds"])

    def check(self, name, ranks=1, threads=1, **tables):
        short, few = self.allocations(f"{name}-short", self.SHORT, ranks, threads, **tables)
        long, many = self.allocations(f"{name}-long", self.LONG, ranks, threads, **tables)
        for library in sorted({key for counts in short + long for key in counts if OURS.search(key)}):
            # Process numbers do not follow ranks, so sums over ranks are compared. One allocation a step would be 1,000
            # more. A long run may rewrite metrics.h5, with the values recorded before the steps, at intervals of time:
            # some 280 each time, twice where other programs slow it down. And it records more samples of usage, one a
            # second, some 50 each.
            more = sum(counts[library] for counts in long) - sum(counts[library] for counts in short)
            steps = self.LONG - self.SHORT
            self.assertLess(more, 0.95 * steps + 50 * (many - few),
                            f"{library}: {more} allocations in {steps} steps and {many - few} samples")

    def setUp(self):
        if not COUNTER.exists():
            self.skipTest("the counter of allocations is not part of this build")

    def test_one_rank_of_one_thread(self):
        self.check("alone")

    def test_fp8(self):
        self.check("fp8", ranks=2, precision={"compute": "fp8"}, parallel={"tensor": 2})

    def test_pipeline(self):
        self.check("stages", ranks=2, parallel={"pipeline": 2}, batch={"global": 16, "micro_batches": 4})


class MaskedSteps(Allocations, Case):
    task = "masked_lm"


class Steps(Allocations, Case):
    def test_one_rank_of_two_threads(self):
        self.check("threads", threads=2)

    def test_reproducible_micro_batches(self):
        self.check("chunks", run={"reproducible": True}, batch={"global": 16, "chunks": 4})

    def test_two_ranks(self):
        self.check("ranks", ranks=2)

    def test_sharded_gradients_and_hashes(self):
        self.check("sharded", ranks=2, parallel={"zero": 2, "offload": True}, batch={"global": 16, "micro_batches": 4},
                   debug={"parameter_hash_every": 1})

    def test_adapters_with_magnitudes(self):
        self.check("magnitudes", model={"trainable": "lora"}, **{"model.lora": {"targets": ["all-linear"], "dora": True, "dropout": 0.1}})


class Predictions(TaskCase):
    task = "classification"
    hidden_size, max_tokens, epochs = 32, 8, 1
    shards = {"train": ["train/train-*.h5"]}
    LABELS, FEW, MANY = 500, 2000, 22000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_rows("train", 5 * cls.LABELS, cls.LABELS, train_size=120)
        for rows in (cls.FEW, cls.MANY):
            cls.prepare_rows(f"rows_{rows}", rows, cls.LABELS, vocabulary="train")
        cls.train("trained")

    def growth(self, mode, rows, ranks):
        """Of each rank: what it takes beside what the program has at its start, bytes."""
        name = f"{mode}_{rows}_{ranks}"
        self.train(name, ranks, run={"mode": mode, "directory": name}, model={"pretrained": "trained/model"},
                   data={"train": None, "test": [f"rows_{rows}/train-*.h5"]})
        with h5py.File(self.folder / name / "predictions.h5") as file:
            self.assertEqual(file["probabilities"].shape, (rows, self.LABELS))
        with h5py.File(self.folder / name / "metrics.h5") as file:
            found, planned = file["ranks/peak_memory"][:] - file["ranks/start_memory"][:], file["ranks/planned_memory"][:]
        for grown, plan in zip(found, planned):
            self.assertLess(grown, plan)
        return found

    def test_is_the_same_for_any_number_of_samples(self):
        # All logits of 20,000 samples more would be 38 MiB. What a run may keep of each: 8 tokens of 4 bytes, a length, a label and
        # a row number, all in arrays that double as they grow, so three times (64 · 3 bytes, 3.7 MiB). Pages of a heap in pieces
        # come and go by some MiB; together less than a third of the logits.
        logits = (self.MANY - self.FEW) * self.LABELS * 4
        for mode in ("predict", "evaluate"):
            for ranks in (1, 2):
                few, many = self.growth(mode, self.FEW, ranks), self.growth(mode, self.MANY, ranks)
                for rank in range(ranks):
                    self.assertLess(many[rank] - few[rank], logits / 3, f"{mode}, rank {rank} of {ranks}: {few} bytes, then {many}")


if __name__ == "__main__":
    if os.environ.get("BERT_HPC_SANITIZED"):
        print("skipped: AddressSanitizer's own heap would be measured, with its shadow memory and what it keeps back")
        sys.exit(77)
    unittest.main()
