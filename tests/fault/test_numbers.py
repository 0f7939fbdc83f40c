"""Losses and gradients that are not finite: the run skips such a step, counts it and reports the samples of its batch. Too
many skipped steps in a row end the run with status 5. The tests make weights that cause this: a position's embedding that
overflows, which only the longest sequences use; and scales that leave the loss finite, but not the gradient."""

import json
import pathlib
import re
import shutil
import struct
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from program import Case, run


class Numbers(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.seed = cls.folder_of_weights("seed")
        with h5py.File(cls.work.folder / "shards/train-00000.h5") as file:
            lengths = np.diff(file["offsets"][:])
        cls.longest = int(lengths.max())
        cls.bad = set(np.flatnonzero(lengths == cls.longest).tolist())

    @classmethod
    def folder_of_weights(cls, name):
        path = cls.work.input(f"{name}.toml", run={"directory": str(cls.work.folder / name)}, data={"validation": None},
                              schedule={"epochs": None, "steps": 1})
        run("bert_hpc", path, threads=1, check=0)
        return cls.work.folder / name / "model"

    def changed(self, name, change):
        """A copy of the weights: change(tensor's name, its values) on each."""
        folder = self.work.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.seed, folder)
        content = bytearray((folder / "model.safetensors").read_bytes())
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        for tensor, facts in json.loads(content[8:begin]).items():
            if tensor == "__metadata__":
                continue
            first, last = facts["data_offsets"]
            values = np.frombuffer(content, np.float32, (last - first) // 4, begin + first).reshape(facts["shape"])
            values.flags.writeable = True
            change(tensor, values)
        (folder / "model.safetensors").write_bytes(content)
        return folder

    def train(self, name, weights, ranks=1, check=0, arguments=(), **tables):
        given = {"optimizer": {"learning_rate": 1e-3}} | tables
        path = self.work.input(f"{name}.toml",
                               run={"directory": str(self.work.folder / name), "reproducible": True} | given.pop("run", {}),
                               model={key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                                                            "intermediate_size", "max_position_embeddings")} |
                                     {"pretrained": str(weights)},
                               data={"validation": None}, batch={"global": 8}, **given)
        done = run("bert_hpc", path, *arguments, ranks=ranks, threads=1, check=check)
        return done, self.work.folder / name

    def steps(self, directory):
        with h5py.File(directory / "metrics.h5") as file:
            return {name: file[f"steps/{name}"][:] for name in ("step", "epoch", "loss", "gradient_norm", "skipped")}, dict(file.attrs)

    def overflowing_position(self):
        def change(tensor, values):
            if tensor.endswith("position_embeddings.weight"):
                values[self.longest - 1] = 3e38  # their sum is infinite

        return self.changed("position", change)

    def test_bad_samples_are_left_out_on_any_grid(self):
        weights = self.overflowing_position()
        grids = {"one": (1, {}), "two": (2, {"zero": 0}), "zero1": (2, {"zero": 1}), "pipeline": (2, {"pipeline": 2}),
                 "offload": (2, {"zero": 1, "offload": True})}
        found = {}
        for name, (ranks, parallel) in grids.items():
            with self.subTest(name):
                done, directory = self.train(f"skip-{name}", weights, ranks, parallel=parallel)
                rows, attributes = self.steps(directory)
                # Each bad sample is named, and no other.
                named = {int(n) for line in done.stdout.splitlines() if "was skipped" in line
                         for some in re.findall(r"sequences? ([\d, ]+)", line) for n in some.split(",")}
                self.assertLessEqual(named, self.bad)
                self.assertGreater(len(named), 0)
                skipped = rows["skipped"] > 0
                self.assertGreater(skipped.sum(), 0)
                self.assertLess(skipped.sum(), len(skipped))
                self.assertEqual(attributes["total_skipped_steps"], skipped.sum())
                np.testing.assert_array_equal(np.isnan(rows["loss"]), skipped)
                self.assertLess(rows["loss"][~skipped][-10:].mean(), rows["loss"][~skipped][:10].mean())
                found[name] = rows, (directory / "model/model.safetensors").read_bytes()
        for name, (rows, model) in found.items():
            np.testing.assert_array_equal(rows["skipped"], found["one"][0]["skipped"], name)
            self.assertEqual(model, found["one"][1], name)

    def test_also_where_sums_are_not_in_order(self):
        weights = self.overflowing_position()
        skipped = []
        for name, ranks, parallel in (("a", 1, {}), ("b", 2, {"zero": 2}), ("c", 2, {"zero": 1}),
                                      ("d", 4, {"tensor": 2, "pipeline": 2})):
            _, directory = self.train(f"fast-{name}", weights, ranks, run={"reproducible": False}, parallel=parallel)
            rows, _ = self.steps(directory)
            skipped.append(rows["skipped"])
            np.testing.assert_array_equal(skipped[0], rows["skipped"], name)
            with h5py.File(directory / "metrics.h5") as file:
                if "efficiency/noise_scale" in file:
                    self.assertTrue(np.isfinite(file["efficiency/noise_scale"][:]).all())

    def test_goodput_is_of_the_updates_that_were_made(self):
        _, directory = self.train("goodput", self.overflowing_position(), arguments=("--set", "batch.micro_tokens=40"),
                                  run={"reproducible": False}, log={"every_steps": 20})
        with h5py.File(directory / "metrics.h5") as file:
            rows = {name: file[f"steps/{name}"][:] for name in ("step", "samples", "skipped", "seconds")}
            measured = {name: file[f"efficiency/{name}"][:] for name in ("step", "efficiency", "goodput")}
        rows_with_skips = 0
        for step, efficiency, goodput in zip(*measured.values()):
            [row] = np.flatnonzero(rows["step"] == step)
            if rows["samples"][row] < 20 * 8:  # with an epoch's last batch, which may have been skipped
                continue
            updating = rows["samples"][row] - 8 * rows["skipped"][row]
            self.assertAlmostEqual(goodput * rows["seconds"][row] / (updating * efficiency), 1, delta=1e-9)
            rows_with_skips += rows["skipped"][row] > 0
        self.assertGreater(rows_with_skips, 0)

    def test_the_count_continues_after_a_stop(self):
        weights = self.overflowing_position()
        whole, directory = self.train("whole", weights)
        rows, attributes = self.steps(directory)
        middle = int(np.flatnonzero(rows["skipped"])[2]) + 1  # so many steps, the last of them a skipped one
        constant = {"name": "constant", "warmup_ratio": None}
        for name, steps in (("cut", middle), ("uncut", None)):
            self.train(name, weights, schedule=constant | ({"epochs": None, "steps": steps} if steps else {}),
                       checkpoint={"every_steps": middle})
        (self.work.folder / "cut/.status").write_text("running\n")
        done, directory = self.train("cut", weights, ranks=2, schedule=constant, checkpoint={"every_steps": middle})
        self.assertIn(f"resuming from step {middle}", done.stdout)
        self.assertEqual((directory / "model/model.safetensors").read_bytes(),
                         (self.work.folder / "uncut/model/model.safetensors").read_bytes())
        cut, uncut = self.steps(directory), self.steps(self.work.folder / "uncut")
        np.testing.assert_array_equal(cut[0]["skipped"], uncut[0]["skipped"])
        self.assertEqual(cut[1]["total_skipped_steps"], uncut[1]["total_skipped_steps"])
        # The count of samples includes those of skipped steps.
        with h5py.File(self.work.folder / "shards/train-00000.h5") as file:
            seen = (len(file["offsets"]) - 1) * round(uncut[0]["epoch"][-1])
        self.assertGreater(uncut[1]["total_skipped_steps"], 0)
        self.assertEqual((uncut[1]["total_samples"], cut[1]["total_samples"]), (seen, seen))

    def steep(self):
        def change(tensor, values):
            if tensor == "bert.encoder.layer.1.output.LayerNorm.weight":
                values *= 1e-37
            elif tensor == "bert.encoder.layer.1.output.LayerNorm.bias":
                values[:] = 0
            elif tensor == "bert.pooler.dense.weight":
                values *= 1e37
            elif tensor == "classifier.weight":
                values *= 1e6

        return self.changed("steep", change)

    def test_an_infinite_gradient_of_a_finite_loss_ends_the_run(self):
        weights = self.steep()
        for ranks, parallel, limit in ((1, {}, 3), (2, {"pipeline": 2}, 0)):
            done, directory = self.train(f"steep-{ranks}", weights, ranks, check=5, parallel=parallel,
                                         optimizer={"learning_rate": 1e-3, "max_skipped_steps": limit})
            self.assertEqual(done.stdout.count("was skipped"), limit)
            self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
            message = " ".join(done.stderr.split())
            self.assertRegex(message, rf"step {limit + 1} was skipped, as its gradient norm is (inf|nan) \(the loss is finite, so any "
                                      rf"of these may be the reason: .*train-00000\.h5, sequences (\d+, ){{7}}\d+\), the last of {limit + 1} in a row "
                                      rf"\(optimizer\.max_skipped_steps = {limit}\)")
            rows, attributes = self.steps(directory)
            self.assertEqual(list(rows["skipped"]), [1] * (limit + 1))
            self.assertEqual(attributes["status"], "failed")

    def test_a_loss_scale_at_its_floor_ends_the_run(self):
        # No scale helps: 65536 is halved sixteen times without blame, at 1 the steps count.
        for ranks, parallel in ((1, {}), (2, {"zero": 1}), (2, {"pipeline": 2})):
            done, directory = self.train(f"floor-{ranks}-{len(parallel)}", self.steep(), ranks, check=5, parallel=parallel,
                                         precision={"compute": "fp16"},
                                         optimizer={"learning_rate": 1e-3, "max_skipped_steps": 2})
            self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
            message = " ".join(done.stderr.split())
            self.assertIn("step 19 was skipped", message)
            self.assertIn("the last of 3 in a row (optimizer.max_skipped_steps = 2)", message)
            self.assertIn('precision.compute = "bf16"', message)
            rows, attributes = self.steps(directory)
            self.assertEqual(list(rows["skipped"]), [1] * 19)
            self.assertEqual(attributes["status"], "failed")
            with h5py.File(directory / "metrics.h5") as file:
                self.assertEqual(list(file["loss_scale/scale"][:]), [2.0 ** max(0, 15 - i) for i in range(19)])


if __name__ == "__main__":
    unittest.main()
