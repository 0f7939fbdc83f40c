"""ZeRO stages, offload, goodput and parameter hashes in the real program: what is kept where changes no bit of a reproducible
run and little of a fast one, for a tied decoder too."""

import hashlib
import unittest

import h5py
import numpy as np

import program


def weights(directory):
    return hashlib.sha256((directory / "model" / "model.safetensors").read_bytes()).hexdigest()


class Sharding(unittest.TestCase):
    def runs(self, task, layouts, **tables):
        """By name: the run's directory and what it printed; layouts: name -> (ranks, [parallel])."""
        work = program.Workspace(task)
        self.addCleanup(work.remove)
        results = {}
        for name, (ranks, parallel) in layouts.items():
            directory = work.folder / name
            given = {**tables, "run": {**tables.get("run", {}), "directory": str(directory)}}
            path = work.input(f"{name}.toml", parallel=parallel, **given)
            done = program.run("bert_hpc", path, ranks=ranks, threads=1, check=0)
            results[name] = (directory, done.stdout)
        return results

    def losses(self, directory):
        with h5py.File(directory / "metrics.h5") as file:
            return np.array(file["steps/loss"])

    def check_bits(self, task, layouts):
        """All layouts' losses and weights after ten steps with dropout."""
        results = self.runs(task, {"alone": (1, {"zero": 0})} | layouts, run={"reproducible": True},
                            debug={"parameter_hash_every": 1}, schedule={"epochs": None, "steps": 10})
        first = results["alone"][0]
        self.assertEqual(len(self.losses(first)), 10)
        for name, (directory, _) in results.items():
            self.assertEqual(list(self.losses(directory)), list(self.losses(first)), name)
            self.assertEqual(weights(directory), weights(first), name)
        return {name: printed for name, (_, printed) in results.items()}

    def test_reproducible_runs_have_the_same_bits(self):
        layouts = {"alone-offload": (1, {"zero": 2, "offload": True})}
        for zero in (0, 1, 2):
            for offload in (False, True):
                if offload and zero == 0:  # is refused
                    continue
                name = f"zero{zero}" + ("-offload" if offload else "")
                given = {"zero": zero, "offload": offload}
                layouts[name] = (2, given)
                layouts[f"{name}-of-4"] = (4, given)
                layouts[f"{name}-pipeline"] = (4, {"pipeline": 2, **given})
        layouts["stages-offload"] = (2, {"pipeline": 2, "zero": 1, "offload": True})
        printed = self.check_bits("classification", layouts)
        self.assertIn("gradients whole, as reproducible sums need them", printed["zero2"])
        self.assertIn("updated in host memory", printed["zero1-offload"])

    def test_tied_parameters_have_the_same_bits_too(self):
        self.check_bits("masked_lm", {"zero1": (2, {"zero": 1}), "zero2-offload": (2, {"zero": 2, "offload": True}),
                                      "zero0-pipeline": (4, {"pipeline": 2, "zero": 0}),
                                      "zero2-pipeline": (4, {"pipeline": 2, "zero": 2, "offload": True})})

    def test_fast_pipelines_shard_gradients(self):
        model = {"num_hidden_layers": 4, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
        ring = {"pipeline": 2, "pipeline_schedule": "interleaved", "virtual_stages": 2}
        for task in ("classification", "masked_lm"):
            layouts = {"alone": (1, {}), "1f1b": (4, {"pipeline": 2, "zero": 2}), "ring": (4, {**ring, "zero": 2}),
                       "zb_h1": (4, {"pipeline": 2, "pipeline_schedule": "zb_h1", "zero": 2, "offload": True})}
            # So small micro-batches that replicas have different numbers of them.
            results = self.runs(task, layouts, model=model, batch={"global": 16, "micro_tokens": 40},
                                schedule={"epochs": None, "steps": 10}, debug={"parameter_hash_every": 1})
            first = self.losses(results["alone"][0])
            for name, (directory, printed) in results.items():
                # Ten steps: rounding of 1e-7 grows by the learning rate's feedback to well below 1e-4.
                np.testing.assert_allclose(self.losses(directory), first, atol=1e-4, err_msg=f"{task} {name}")
                self.assertIn("optimizer states" if name == "alone" else "optimizer states and gradients", printed)

    def test_fast_runs_agree_and_know_their_goodput(self):
        for task in ("classification", "masked_lm"):
            layouts = {"alone": (1, {"zero": 0}), "zero1": (2, {"zero": 1}), "zero2": (2, {"zero": 2}),
                       "offload": (2, {"zero": 2, "offload": True})}
            results = self.runs(task, layouts, batch={"global": 16, "micro_tokens": 100}, debug={"parameter_hash_every": 4},
                                schedule={"epochs": 4 if task == "classification" else 2})
            first = self.losses(results["alone"][0])
            for name in ("zero1", "zero2"):
                # Rounding of sums in another order, through some 90 steps of a model of 30,000 parameters.
                np.testing.assert_allclose(self.losses(results[name][0]), first, rtol=2e-3, err_msg=f"{task} {name}")
            self.assertEqual(weights(results["offload"][0]), weights(results["zero2"][0]))
            self.assertIn("optimizer states and gradients sharded", results["zero2"][1])
            if task == "masked_lm":  # too few steps to compare its efficiency
                continue
            with h5py.File(results["zero2"][0] / "metrics.h5") as file:
                rows = {name: np.array(file[f"efficiency/{name}"]) for name in file["efficiency"]}
            self.assertGreater(len(rows["step"]), 0)
            self.assertTrue(np.all(rows["noise_scale"] >= 0))
            np.testing.assert_allclose(rows["efficiency"], (rows["noise_scale"] + 1) / (rows["noise_scale"] + 16))
            self.assertTrue(np.all(rows["goodput"] > 0))

    def test_efficiency_is_of_the_batch_that_ran(self):
        """Of a batch.global beyond the data every update has all samples and no more."""
        results = self.runs("classification", {"alone": (1, {})}, batch={"global": 100000, "micro_tokens": 100},
                            schedule={"epochs": None, "steps": 40})
        with h5py.File(results["alone"][0] / "metrics.h5") as file:
            rows = {name: np.array(file[f"efficiency/{name}"]) for name in file["efficiency"]}
            samples = np.unique(file["steps/samples"])
        self.assertEqual(len(samples), 1)
        self.assertLess(samples[0], 100000)
        self.assertGreater(len(rows["step"]), 0)
        np.testing.assert_allclose(rows["efficiency"], (rows["noise_scale"] + 1) / (rows["noise_scale"] + samples[0]))

    def test_the_noise_scale_is_the_same_on_every_layout(self):
        """One replica, so that the same micro-batch is measured everywhere; decoder tied across stages and shares."""
        layouts = {"alone": (1, {}), "sharded": (1, {"zero": 2}), "tensor": (2, {"tensor": 2}),
                   "stages": (2, {"pipeline": 2}), "zb_h1": (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}),
                   "both": (4, {"tensor": 2, "pipeline": 2})}
        fixed = {"model": {"num_attention_heads": 4}, "batch": {"global": 16, "chunks": 4, "micro": 4},
                 "schedule": {"epochs": None, "steps": 9}, "log": {"every_steps": 1}}

        def scales(directory):
            with h5py.File(directory / "metrics.h5") as file:
                self.assertEqual(list(file["efficiency/step"]), [1, 9])
                return np.array(file["efficiency/noise_scale"])

        results = self.runs("masked_lm", layouts, **fixed)
        first = scales(results["alone"][0])
        for name, (directory, _) in results.items():
            # Squares of gradients differ by rounding, some 1e-6; their differences are a fifth of them or more.
            np.testing.assert_allclose(scales(directory), first, rtol=1e-5, err_msg=name)
        # Chunks in their order: the first micro-batch measured is the same, later ones may be others.
        fixed["run"] = {"reproducible": True}
        for name, (directory, _) in self.runs("masked_lm", {"alone": (1, {}), "stages": (2, {"pipeline": 2})}, **fixed).items():
            np.testing.assert_allclose(scales(directory)[0], first[0], rtol=1e-5, err_msg=name)


if __name__ == "__main__":
    unittest.main()
