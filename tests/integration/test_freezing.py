"""[model] trainable and freeze_layers: frozen parameters keep every bit, layouts agree, and runs resume with the same keys."""

import unittest

import h5py
import numpy as np
from program import Case, Workspace, run
from test_tensor import read_safetensors

MODEL = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
CHOICES = {
    "head": {"trainable": "head"},
    "bitfit": {"trainable": "bitfit"},
    "freeze": {"freeze_layers": 3},
    "biases above": {"trainable": "bitfit", "freeze_layers": 1},
}
LAYOUTS = {
    "zero 0": (2, {"data": 2, "zero": 0}),
    "zero 1": (2, {"data": 2, "zero": 1}),
    "zero 2, offloaded": (2, {"data": 2, "zero": 2, "offload": True}),
    "stages": (2, {"pipeline": 2}),
    "zero bubble": (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}),
    "virtual stages": (2, {"pipeline": 2, "pipeline_schedule": "interleaved", "virtual_stages": 2}),
    "four stages": (4, {"pipeline": 4}),
    "stages and replicas": (4, {"data": 2, "pipeline": 2}),
}


def is_trained(name, trainable="all", freeze_layers=0):
    if name.startswith(("classifier.", "bert.pooler.")):
        return True
    below = freeze_layers > 0 and name.startswith("bert.embeddings.")
    below |= any(name.startswith(f"bert.encoder.layer.{block}.") for block in range(freeze_layers))
    return not below and (trainable == "all" or (trainable == "bitfit" and name.endswith(".bias")))


class Freezing(Case):
    def start(self, name, model, ranks=1, parallel=None, reproducible=True, work=None, options=(), check=0, **tables):
        directory = (work or self.work).folder / name
        path = (work or self.work).input(f"{name}.toml", model=MODEL | model, parallel=parallel or {},
                                         checkpoint={"every_steps": 4, "keep": 9},
                                         run={"directory": str(directory), "reproducible": reproducible} | tables.pop("run", {}),
                                         schedule={"epochs": None, "steps": 8}, **tables)
        return directory, run("bert_hpc", path, *options, ranks=ranks, threads=1, check=check)

    def train(self, *arguments, **keys):
        directory, done = self.start(*arguments, **keys)
        with h5py.File(directory / "metrics.h5") as file:
            losses = np.array(file["steps/loss"])
        return (directory / "model/model.safetensors").read_bytes(), losses, done

    def test_frozen_parameters_keep_every_bit_and_the_others_change(self):
        for reproducible in (True, False):
            prefix = "kept " if reproducible else "kept fast "
            _, _, done = self.train(prefix + "start", {}, reproducible=reproducible, optimizer={"learning_rate": 1e-30})
            self.assertNotIn("are trained", done.stdout)
            # Such updates change zeros alone.
            start = {name: np.where(np.abs(values) < 1e-20, 0, values) for name, values in
                     read_safetensors(self.work.folder / f"{prefix}start/model/model.safetensors").items()}
            for name, model in CHOICES.items():
                with self.subTest(name, reproducible=reproducible):
                    _, _, done = self.train(prefix + name, model, reproducible=reproducible)
                    found = read_safetensors(self.work.folder / (prefix + name) / "model/model.safetensors")
                    self.assertEqual(found.keys(), start.keys())
                    trained = 0
                    for tensor, values in found.items():
                        wanted = is_trained(tensor, **model)
                        self.assertEqual(not np.array_equal(values, start[tensor]), wanted, tensor)
                        trained += values.size if wanted else 0
                    self.assertIn(f"of which {trained:,} are trained (", done.stdout)

    def test_layouts_have_the_same_bits(self):
        for name, model in CHOICES.items():
            expected, losses, _ = self.train("one " + name, model)
            for layout, (ranks, parallel) in LAYOUTS.items():
                with self.subTest(name, layout=layout):
                    self.assertEqual(self.train(f"{name} {layout}", model, ranks, parallel)[0], expected)
            with self.subTest(name, layout="tensor"):
                found = self.train(f"{name} tensor", model, 2, {"tensor": 2})[1]
                np.testing.assert_allclose(found, losses, rtol=1e-4)  # rounding of 1e-7 a pass, multiplied by eight updates

    def test_fast_layouts_follow(self):
        for name, model in CHOICES.items():
            _, expected, _ = self.train("fast " + name, model, reproducible=False)
            for layout, (ranks, parallel) in {**LAYOUTS, "zero 2": (2, {"data": 2, "zero": 2}),
                                              "zero 2 and stages": (4, {"data": 2, "pipeline": 2, "zero": 2})}.items():
                with self.subTest(name, layout=layout):
                    losses = self.train(f"fast {name} {layout}", model, ranks, parallel, reproducible=False)[1]
                    np.testing.assert_allclose(losses, expected, rtol=1e-4)

    def test_other_optimizers_and_precisions_run(self):
        for name, tables in (("lamb", {"optimizer": {"name": "lamb"}}), ("bf16", {"precision": {"compute": "bf16"}})):
            for ranks, parallel in ((1, {}), (2, {"data": 2}), (2, {"pipeline": 2})):
                with self.subTest(name, parallel=parallel):
                    _, losses, _ = self.train(f"{name} {parallel}", CHOICES["biases above"], ranks, parallel,
                                              reproducible=False, **tables)
                    self.assertTrue(np.isfinite(losses).all())

    def test_memory_of_gradients_and_states_is_of_the_trained_ones(self):
        def memory(name, model):
            _, done = self.start(name, model, options=["--validate"])
            line = next(line for line in done.stdout.splitlines() if line.startswith("  memory "))
            number, unit = line.split("optimizer states ")[1].split()[:2]
            return float(number) * {"B": 1, "KiB": 1024, "MiB": 1 << 20}[unit.rstrip(",)")]

        everything = memory("plan all", {})
        # The pooler and the classifier, of 2·4 bytes each, in whole cache blocks of the reproducible norm.
        self.assertLess(memory("plan head", CHOICES["head"]), everything / 4)
        self.assertLess(memory("plan bitfit", CHOICES["bitfit"]), everything)

    def test_a_run_resumes_with_the_same_keys_alone(self):
        expected, _, _ = self.train("whole", CHOICES["freeze"])
        checkpoint = self.work.folder / "whole/checkpoints/step-00000004"
        with h5py.File(checkpoint / "manifest.h5") as file:
            names = [name.decode() for name in file["tensors/names"]]
            frozen = {names[number] for number in file["tensors/frozen"]}
        self.assertEqual(frozen, {name for name in names if not is_trained(name, **CHOICES["freeze"])})
        with h5py.File(checkpoint / "rank-00000.h5") as file:
            self.assertLess(file["first_moments"].size, file["parameters"].size)
        resumed = {"run": {"resume": str(checkpoint)}}
        for ranks, parallel in ((1, {}), (2, {"data": 2}), (2, {"pipeline": 2})):
            with self.subTest(parallel=parallel):
                self.assertEqual(self.train(f"again {parallel}", CHOICES["freeze"], ranks, parallel, **resumed)[0], expected)
        for name, model, key in (("all", {}, "model.freeze_layers: 3 there, 0 here"),
                                 ("bitfit", {"freeze_layers": 3, "trainable": "bitfit"}, 'model.trainable: "all" there')):
            with self.subTest(name):
                _, done = self.start("other " + name, model, check=2, **resumed)
                self.assertIn(key, " ".join(done.stderr.split()))

    def test_checkpoints_of_everything_are_as_they_were(self):
        self.train("everything", {})
        with h5py.File(self.work.folder / "everything/checkpoints/step-00000008/manifest.h5") as file:
            self.assertEqual(sorted(file["tensors"]), ["names", "shapes"])

    def test_keys_that_do_not_fit_are_refused(self):
        for name, model, text in (("deep", {"freeze_layers": 5}, "freeze_layers = 5, but the model has 4 layers"),
                                  ("other", {"trainable": "some"}, "trainable")):
            with self.subTest(name):
                _, done = self.start(name, model, check=2, options=["--validate"])
                self.assertIn(text, " ".join(done.stderr.split()))
        words = Workspace("masked_lm", rows=60)
        try:
            for name, model in CHOICES.items():
                _, done = self.start(name, model, work=words, check=2)
                self.assertIn("without model.pretrained their values are random", " ".join(done.stderr.split()))
            self.start("all", {}, work=words, reproducible=False)
            for name, model in CHOICES.items():
                for ranks, parallel in ((1, {}), (2, {"data": 2, "zero": 2}), (2, {"pipeline": 2})):
                    with self.subTest("masked_lm " + name, parallel=parallel):
                        pretrained = dict.fromkeys(MODEL) | {"pretrained": str(words.folder / "all/model"),
                                                             "intermediate_size": None, "max_position_embeddings": None}
                        self.start(f"{name} {parallel}", pretrained | model, ranks, parallel, work=words, reproducible=False)
        finally:
            words.remove()


if __name__ == "__main__":
    unittest.main()
