"""Training in 16 bits: bf16 and fp16 follow fp32 on every kind of grid, reproducible runs have the same bits on all of
them, and fp16's loss scale backs off. Checkpoints keep the loss scale and metrics.h5 records it."""

import hashlib
import re
import unittest

import h5py
import numpy as np

from program import Case, run

GRIDS = {
    "stages": (2, {"pipeline": 2}),
    "tensor": (2, {"tensor": 2}),
    "all three": (8, {"data": 2, "pipeline": 2, "tensor": 2, "zero": 2, "offload": True}),
}
# Two blocks of ten roundings of a unit roundoff (2**-8, 2**-11) each leave a loss off by far less than one of them: its
# roundings have signs of their own and a mean is taken over 16 sequences. Ten updates move it as fp32's.
TOLERANCE = {"bf16": 2.0**-8, "fp16": 2.0**-11}


class Precision(Case):
    def train(self, name, compute="fp32", ranks=1, parallel=None, steps=10, check=0, arguments=(), **tables):
        directory = self.work.folder / name
        tables = {"run": {"directory": str(directory)} | tables.pop("run", {}),
                  "model": {"num_attention_heads": 4} | tables.pop("model", {}),
                  "precision": {"compute": compute} | tables.pop("precision", {}),
                  "schedule": {"epochs": None, "steps": steps}, "batch": {"global": 16, "micro_batches": 2}} | tables
        done = run("bert_hpc", self.work.input(f"{name}.toml", parallel=parallel or {}, **tables), *arguments,
                   ranks=ranks, threads=1, check=check)
        return directory, done

    def losses(self, directory):
        with h5py.File(directory / "metrics.h5") as file:
            return np.array([*file["steps/loss"], file["evaluations/validation/loss"][-1]])

    def bits(self, directory):
        return hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest()

    def planned(self, directory, purpose="activations"):
        """Bytes."""
        amount, unit = re.search(purpose + r" ([\d.]+) (\w+)", (directory / "log.txt").read_text()).groups()
        return float(amount) * {"KiB": 1024, "MiB": 1024**2}[unit]

    def test_grids(self):
        whole, _ = self.train("fp32")
        expected = self.losses(whole)
        for compute, tolerance in TOLERANCE.items():
            for name, (ranks, parallel) in {"one": (1, {}), **GRIDS}.items():
                with self.subTest(name, compute=compute):
                    directory, _ = self.train(f"{compute} {name}", compute, ranks, parallel)
                    difference = np.abs(self.losses(directory) / expected - 1)
                    self.assertLess(difference.max(), tolerance)
                    self.assertGreater(difference.max(), 0)  # it does compute in 16 bits
            one = self.work.folder / f"{compute} one"
            # All but statistics, log-sum-exps, logits and losses is halved.
            self.assertLess(self.planned(one), 0.58 * self.planned(whole))

    def test_gradients_in_16_bits(self):
        batch = {"global": 16, "micro_batches": 1}
        wide, _ = self.train("wide", "bf16", batch=batch)
        expected = self.losses(wide)
        narrow = {"weight_gradients": "bf16"}
        for name, (ranks, parallel) in {"alone": (1, {}), "stages": (2, {"pipeline": 2}), "tensor": (2, {"tensor": 2})}.items():
            with self.subTest(name):
                directory, _ = self.train(f"narrow {name}", "bf16", ranks, parallel, batch=batch, precision=narrow,
                                          checkpoint={"every_steps": 6, "keep": 9})
                difference = np.abs(self.losses(directory) / expected - 1)
                self.assertLess(difference.max(), TOLERANCE["bf16"])
                self.assertGreater(difference.max(), 0)
        one = self.work.folder / "narrow alone"
        self.assertRegex((one / "log.txt").read_text(), r"  gradients +of the blocks' weights in bf16")
        self.assertLess(self.planned(one, "gradients"), 0.8 * self.planned(wide, "gradients"))
        # They are not part of a checkpoint: a run that resumes from one gives the same bits.
        again, _ = self.train("narrow again", "bf16", batch=batch, precision=narrow,
                              run={"resume": str(one / "checkpoints/step-00000006")})
        self.assertEqual(self.bits(again), self.bits(one))
        # Where anything is added to them they stay in fp32, and the banner says why.
        for name, why, ranks, parallel, more in (("two micro-batches", "several micro-batches", 1, {}, {}),
                                                 ("replicas", "replicas", 2, {"data": 2}, {"batch": batch})):
            with self.subTest(name):
                runs = [self.train(f"{name} {len(precision)}", "bf16", ranks, parallel, precision=precision, **more) for precision in ({}, narrow)]
                self.assertEqual(self.bits(runs[0][0]), self.bits(runs[1][0]))
                self.assertNotIn("of the blocks' weights", runs[0][1].stdout)
                self.assertIn(f"of the blocks' weights in fp32, because {why} add to them", runs[1][1].stdout)
        for name, compute, more, text in (("of fp16", "fp16", {}, 'needs compute = "bf16" or "fp8"'),
                                          ("reproducible", "bf16", {"run": {"reproducible": True}}, "does not go with [run] reproducible"),
                                          ("offloaded", "bf16", {"parallel": {"offload": True}}, "does not go with [parallel] offload")):
            with self.subTest(name):
                _, done = self.train(f"refused {name}", compute, precision=narrow, batch=batch, check=2, **more)
                self.assertIn(text, " ".join(done.stderr.split()))

    def test_reproducible(self):
        for compute in TOLERANCE:
            bits = {self.bits(self.train(f"{compute} r{name}", compute, ranks, parallel, run={"reproducible": True})[0])
                    for name, (ranks, parallel) in {"one": (1, {}), "two": (2, {"data": 2, "zero": 2}),
                                                    "stages": (2, {"pipeline": 2})}.items()}
            self.assertEqual(len(bits), 1, compute)

    def test_loss_scale_backs_off_and_is_resumed(self):
        # Weights so large that gradients times 65536 are beyond fp16's 65504.
        steep = {"model": {"initializer_range": 0.5}, "run": {"reproducible": True}}
        scales = {}
        for name, (ranks, parallel) in {"one": (1, {}), "sharded": (2, {"data": 2, "zero": 2, "offload": True})}.items():
            directory, _ = self.train(f"steep {name}", "fp16", ranks, parallel, checkpoint={"every_steps": 6}, **steep)
            with h5py.File(directory / "metrics.h5") as file:
                scales[name] = [list(file[f"loss_scale/{key}"]) for key in ("step", "scale", "skipped")]
                losses, left_out = np.array(file["steps/loss"]), np.array(file["steps/skipped"])
                np.testing.assert_array_equal(np.isfinite(losses), left_out == 0)
        _, scale, skipped = scales["one"]
        self.assertGreater(skipped[-1], 0)
        self.assertLess(skipped[-1], 10)  # some updates were made
        self.assertEqual(scale[-1], 65536 / 2 ** skipped[-1])
        self.assertEqual(scales["one"], scales["sharded"])
        self.assertEqual(self.bits(self.work.folder / "steep one"), self.bits(self.work.folder / "steep sharded"))
        checkpoint = self.work.folder / "steep one/checkpoints/step-00000006"
        again, _ = self.train("steep again", "fp16", checkpoint={"every_steps": 6},
                              model=steep["model"], run=steep["run"] | {"resume": str(checkpoint)})
        self.assertEqual(self.bits(again), self.bits(self.work.folder / "steep one"))
        with h5py.File(again / "metrics.h5") as file:
            self.assertEqual(list(file["loss_scale/skipped"])[-1], skipped[-1])

    def test_what_is_refused(self):
        # A fixed scale stays, so that every step is skipped.
        _, done = self.train("fixed", "fp16", precision={"loss_scale": 1e30}, check=5,
                             optimizer={"max_skipped_steps": 2, "learning_rate": 3e-3})
        self.assertIn("in a row", done.stderr)
        _, done = self.train("no scale", "bf16", precision={"loss_scale": 8.0}, check=2)
        self.assertIn('loss_scale belongs to compute = "fp16"', done.stderr)
        _, done = self.train("odd", "bf16", model={"hidden_size": 33, "num_attention_heads": 3}, check=2)
        self.assertIn("hidden_size must be even", done.stderr)


if __name__ == "__main__":
    unittest.main()
