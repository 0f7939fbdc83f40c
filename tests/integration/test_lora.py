"""[model] trainable = "lora": adapters train beside a frozen model, layouts agree, the merged model and the adapter's folder
give the same predictions, and what does not fit is named."""

import json
import re
import shutil
import unittest

import h5py
import numpy as np
from program import Case, run
from test_head_labels import write_tensors
from test_tensor import read_safetensors

MODEL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
CHOICES = {
    "usual": {},
    "all layers": {"rank": 3, "alpha": 6.0, "targets": ["all-linear"], "dropout": 0.1, "rslora": True},
    "magnitudes": {"rank": 3, "alpha": 6.0, "targets": ["all-linear"], "dropout": 0.1, "dora": True},
}
LAYOUTS = {
    "zero 1": (2, {"data": 2, "zero": 1}),
    "zero 2": (2, {"data": 2, "zero": 2}),
    "stages": (2, {"pipeline": 2}),
    "zero bubble": (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}),
    "stages and replicas": (4, {"data": 2, "pipeline": 2}),
}
BLOCK_LAYERS = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense",
                "output.dense"]


def merged(base, adapter, scale):
    """The weights of a base model with those of an adapter's file, in double precision. Magnitudes are the norms of rows."""
    result = {name: values.astype(float) for name, values in base.items()}
    for name, values in adapter.items():
        name = name.removeprefix("base_model.model.")
        if name.endswith(".lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            b = adapter[f"base_model.model.{layer}.lora_B.weight"].astype(float)
            whole = result[f"{layer}.weight"] + scale * b @ values.astype(float)
            magnitudes = adapter.get(f"base_model.model.{layer}.lora_magnitude_vector")
            if magnitudes is not None:
                whole *= (magnitudes / np.linalg.norm(whole, axis=1))[:, None]
            result[f"{layer}.weight"] = whole
        elif ".lora_" not in name:
            result[name] = values.astype(float)
    return result


class LowRank(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, seed in (("base", 5), ("other", 6)):  # models to begin from
            path = cls.work.input(f"{name}.toml", model=MODEL, run={"directory": str(cls.work.folder / name), "seed": seed},
                                  schedule={"epochs": None, "steps": 20})
            run("bert_hpc", path, check=0)
        cls.base = cls.work.folder / "base/model"

    def start(self, name, lora=None, ranks=1, check=0, model=None, options=(), **tables):
        directory = self.work.folder / name
        path = self.work.input(
            f"{name}.toml", **{"model": dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                                       "max_position_embeddings")) | {"pretrained": str(self.base), "trainable": "lora"} | (model or {}),
                               "model.lora": lora or {}, "schedule": {"epochs": None, "steps": 12},
                               "run": {"directory": str(directory), "reproducible": True} | tables.pop("run", {}),
                               "optimizer": {"learning_rate": 0.01}, **tables})
        return directory, run("bert_hpc", path, *options, ranks=ranks, threads=1, check=check)

    def losses(self, directory):
        with h5py.File(directory / "metrics.h5") as file:
            return np.array(file["steps/loss"])

    def test_the_merged_model_is_the_base_with_the_adapter(self):
        base = read_safetensors(self.base / "model.safetensors")
        for name, lora in CHOICES.items():
            with self.subTest(name):
                directory, done = self.start(f"merged {name}", lora)
                adapter = read_safetensors(directory / "adapter/adapter_model.safetensors")
                config = json.loads((directory / "adapter/adapter_config.json").read_text())
                rank = lora.get("rank", 8)
                layers = ["query", "value"] if not lora else BLOCK_LAYERS
                expected = {f"base_model.model.bert.encoder.layer.{block}.{layer if '.' in layer else 'attention.self.' + layer}.lora_{half}.weight"
                            for block in range(2) for layer in layers for half in "AB"}
                if "dora" in lora:
                    expected |= {name.replace(".lora_A.weight", ".lora_magnitude_vector") for name in expected if ".lora_A." in name}
                expected |= {f"base_model.model.{name}.{part}" for name in ("bert.pooler.dense", "classifier") for part in ("weight", "bias")}
                self.assertEqual(set(adapter), expected)
                self.assertEqual(config["r"], rank)
                self.assertEqual(config["use_dora"], "dora" in lora)
                self.assertEqual(config["modules_to_save"], ["bert.pooler.dense", "classifier"])
                scale = 1.0 if not lora else 6 / (np.sqrt(3) if "rslora" in lora else 3)
                found = read_safetensors(directory / "model/model.safetensors")
                self.assertEqual(set(found), set(base))
                whole = merged(base, adapter, scale)
                changed = set()
                for tensor, values in found.items():
                    # One sum of `rank` products and one addition, each rounded by 2^-24 of magnitudes below 1; with a factor two more.
                    np.testing.assert_allclose(values, whole[tensor], rtol=0, atol=(rank + 3) * 2.0**-24, err_msg=tensor)
                    if not np.array_equal(values, base[tensor]):
                        changed.add(tensor)
                layers = {name.removeprefix("base_model.model.").replace(".lora_A", "") for name in adapter if ".lora_A." in name}
                self.assertEqual(changed, layers | {name.removeprefix("base_model.model.") for name in adapter if ".lora_" not in name})
                trained = sum(values.size for values in adapter.values())
                self.assertIn(f"of which {trained:,} are trained (", done.stdout)
                self.assertRegex(done.stdout, rf"  adapters +{2 * len(BLOCK_LAYERS) if lora else 4} of rank {rank}{' with magnitudes' if 'dora' in lora else ''} beside ")
                self.assertIn(f", adapter in {directory}/adapter, ", done.stdout)
                losses = self.losses(directory)
                self.assertLess(losses[-4:].mean(), losses[:4].mean())

    def test_magnitudes_begin_with_the_outputs_of_the_base_model(self):
        first = {}
        for name, lora in (("without", {"targets": ["all-linear"]}), ("with", {"targets": ["all-linear"], "dora": True})):
            for base, model in (("pretrained", {}), ("from scratch", MODEL | {"pretrained": None})):
                directory, _ = self.start(f"begin {name} {base}", lora, model=model)
                first[name, base] = self.losses(directory)
        for base in ("pretrained", "from scratch"):
            with self.subTest(base):
                without, with_magnitudes = first["without", base], first["with", base]
                # Biases are added by another kernel: an output is rounded once more, by 2^-24.
                np.testing.assert_allclose(with_magnitudes[0], without[0], rtol=1e-6)
                self.assertGreater(np.abs(with_magnitudes[1:] - without[1:]).max(), 1e-4)

    def test_a_head_of_the_base_model_stays_as_it_is(self):
        base = read_safetensors(self.base / "model.safetensors")
        head = {f"{name}.{part}" for name in ("bert.pooler.dense", "classifier") for part in ("weight", "bias")}
        for name, ranks, parallel in (("one", 1, {}), ("stages", 2, {"pipeline": 2, "balance": [1.5, 0.5]}), ("zero", 2, {"data": 2, "zero": 2})):
            with self.subTest(name):
                directory, done = self.start(f"head stays {name}", {"train_head": False}, ranks, parallel=parallel)
                # a (rank, 32) and b (32, rank) of query and value in two blocks
                self.assertIn(f"of which {2 * 2 * 2 * 32 * 8:,} are trained (", done.stdout)
                self.assertIn("; the head is not trained", done.stdout)
                found = read_safetensors(directory / "model/model.safetensors")
                changed = {tensor for tensor, values in found.items() if not np.array_equal(values, base[tensor])}
                self.assertEqual(changed, {f"bert.encoder.layer.{block}.attention.self.{layer}.weight" for block in range(2) for layer in ("query", "value")})
                # Who loads the adapter has the head in the base model.
                adapter = read_safetensors(directory / "adapter/adapter_model.safetensors")
                self.assertEqual({tensor for tensor in adapter if ".lora_" not in tensor}, set())
                config = json.loads((directory / "adapter/adapter_config.json").read_text())
                self.assertEqual((config["modules_to_save"], config["task_type"]), (None, None))  # with a task PEFT looks for a head
                self.assertIn("train_head = false", (directory / "input.toml").read_text())
                losses = self.losses(directory)
                self.assertLess(losses[-4:].mean(), losses[:4].mean())
                self.assertEqual((directory / "model/model.safetensors").read_bytes(),
                                 (self.work.folder / "head stays one/model/model.safetensors").read_bytes())
        # Both forms of the result predict the same.
        adapter = {"adapter": str(self.work.folder / "head stays one/adapter")}
        probabilities = [self.evaluated(f"head stays {name}", model, lora) for name, model, lora in (
            ("as model", self.work.folder / "head stays one/model", {}), ("as adapter", self.base, adapter))]
        np.testing.assert_allclose(*probabilities, rtol=0, atol=1e-6)

    def test_a_head_that_the_base_model_lacks_is_in_the_adapter(self):
        headless = self.work.folder / "headless"
        shutil.copytree(self.base, headless)
        tensors = read_safetensors(self.base / "model.safetensors")
        write_tensors(headless, {name: values for name, values in tensors.items() if "classifier" not in name})
        first, done = self.start("new head", {"train_head": False}, model={"pretrained": str(headless)}, checkpoint={"every_steps": 6, "keep": 9})
        self.assertRegex(re.sub(r"\s+", " ", done.stdout), r"warning: \[model.lora\] train_head = false leaves random values .* lacks classifier.weight, classifier.bias")
        adapter = read_safetensors(first / "adapter/adapter_model.safetensors")
        model = read_safetensors(first / "model/model.safetensors")
        for tensor in ("classifier.weight", "classifier.bias"):
            np.testing.assert_array_equal(adapter[f"base_model.model.{tensor}"], model[tensor])
        config = json.loads((first / "adapter/adapter_config.json").read_text())
        self.assertIn("classifier", config["modules_to_save"])
        # A run that resumes writes the same; so does one that begins with the adapter and trains no head either.
        again, _ = self.start("new head again", {"train_head": False}, model={"pretrained": str(headless)},
                              run={"resume": str(first / "checkpoints/step-00000006")})
        for path in ("adapter/adapter_model.safetensors", "model/model.safetensors"):
            self.assertEqual((again / path).read_bytes(), (first / path).read_bytes())
        more, done = self.start("new head more", {"train_head": False, "adapter": str(first / "adapter")}, model={"pretrained": str(headless)})
        self.assertNotIn("random values", done.stdout)
        np.testing.assert_array_equal(read_safetensors(more / "adapter/adapter_model.safetensors")["base_model.model.classifier.weight"],
                                      model["classifier.weight"])
        _, refused = self.start("new head trained", {"train_head": True}, model={"pretrained": str(headless)}, check=2,
                                run={"resume": str(first / "checkpoints/step-00000006")})
        self.assertIn("model.lora.train_head", refused.stderr)

    def evaluated(self, name, model, lora):
        """The probabilities of the validation split."""
        shards = f"{self.work.folder}/shards/validation-*.h5"
        directory, _ = self.start(name, lora, model={"pretrained": str(model), "trainable": "all"}, run={"mode": "evaluate"},
                                  data={"train": None, "validation": None, "test": [shards]}, optimizer=None, schedule=None)
        with h5py.File(directory / "predictions.h5") as file:
            return np.array(file["probabilities"])

    def test_the_best_model_is_that_of_its_evaluation(self):
        shards = f"{self.work.folder}/shards/test-*.h5"
        best, _ = self.start("best", CHOICES["magnitudes"], data={"test": [shards]}, evaluation={"every_steps": 4, "best": "loss"})
        again, _ = self.start("best again", model={"pretrained": str(best / "model"), "trainable": "all"}, run={"mode": "evaluate"},
                              data={"train": None, "validation": None, "test": [shards]}, optimizer=None, schedule=None)
        found = []
        for directory in (best, again):
            with h5py.File(directory / "predictions.h5") as file:
                found.append(np.array(file["probabilities"]))
        # Products with merged weights and with a factor of 1 beside them differ by rounding alone.
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-6)

    def test_an_overwritten_run_leaves_no_adapter(self):
        directory, _ = self.start("again")
        self.assertTrue((directory / "adapter").exists())
        self.start("again", model={"trainable": "head"}, options=["--overwrite"])
        self.assertFalse((directory / "adapter").exists())
        self.assertTrue((directory / "model").exists())

    def test_layouts_have_the_same_bits(self):
        for name, lora in CHOICES.items():
            directory, _ = self.start(f"one {name}", lora)
            expected = [(directory / path).read_bytes() for path in ("model/model.safetensors", "adapter/adapter_model.safetensors")]
            for layout, (ranks, parallel) in LAYOUTS.items():
                with self.subTest(name, layout=layout):
                    directory, _ = self.start(f"{name} {layout}", lora, ranks, parallel=parallel)
                    found = [(directory / path).read_bytes() for path in ("model/model.safetensors", "adapter/adapter_model.safetensors")]
                    self.assertEqual(found, expected)

    def test_fast_layouts_precisions_and_recomputation_follow(self):
        for choice in ("all layers", "magnitudes"):
            lora = CHOICES[choice]
            directory, _ = self.start(f"fast {choice}", lora, run={"reproducible": False})
            expected = self.losses(directory)
            for name, ranks, tables, tolerance in (
                    ("replicas", 2, {"parallel": {"data": 2}}, 1e-4),  # rounding of 1e-7 a pass, multiplied by twelve updates
                    ("stages", 2, {"parallel": {"pipeline": 2}}, 1e-4),
                    ("tensor ranks", 2, {"parallel": {"tensor": 2}}, 1e-4),
                    ("all three", 8, {"parallel": {"data": 2, "pipeline": 2, "tensor": 2}}, 1e-4),
                    ("blocks", 1, {"model": {"recompute": "blocks"}}, 0),
                    ("bf16", 1, {"precision": {"compute": "bf16"}}, 0.05)):  # u = 2^-8, a few layers of it
                with self.subTest(choice, name=name):
                    directory, _ = self.start(f"fast {choice} {name}", lora, ranks, run={"reproducible": False}, **tables)
                    np.testing.assert_allclose(self.losses(directory), expected, rtol=tolerance)

    def test_an_adapter_is_evaluated_and_trained_on(self):
        for kind, more in (("usual", {}), ("magnitudes", {"dora": True})):
            with self.subTest(kind):
                self.check_evaluated_and_trained_on(kind, more)

    def check_evaluated_and_trained_on(self, kind, more):
        first, _ = self.start(f"first {kind}", {"rank": 4, "targets": ["query", "dense"]} | more, checkpoint={"every_steps": 6, "keep": 9})
        shards = f"{self.work.folder}/shards/validation-*.h5"
        scores = {}
        adapter = {"adapter": str(first / "adapter")}
        for name, model, lora, parallel in (("of the model", first / "model", {}, {}), ("of the adapter", self.base, adapter, {}),
                                            ("on tensor ranks", self.base, adapter, {"tensor": 2})):
            cannot = kind == "magnitudes" and bool(parallel)  # norms need whole rows
            directory, done = self.start(f"{name} {kind}", lora, 2 if parallel else 1, 2 if cannot else 0,
                                         model={"pretrained": str(model), "trainable": "all"}, run={"mode": "evaluate"}, parallel=parallel,
                                         data={"train": None, "validation": None, "test": [shards]}, optimizer=None, schedule=None)
            if cannot:
                self.assertRegex(re.sub(r"\s+", " ", done.stderr), r"has magnitudes \(DoRA\).* set \[parallel\] tensor = 1")
                continue
            with h5py.File(directory / "predictions.h5") as file:
                scores[name] = np.array(file["probabilities"])
        # Mergings of the same numbers, rounded by 2^-24; a softmax makes of such differences no larger ones.
        for name, found in scores.items():
            np.testing.assert_allclose(found, scores["of the model"], rtol=0, atol=1e-6, err_msg=name)
        # A training that begins with the adapter has its loss, on one rank and on two.
        one, done = self.start(f"more {kind}", adapter)
        self.assertIn("the head is that of", done.stdout)
        config = json.loads((one / "adapter/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["use_dora"]), (4, "dora" in more))
        self.assertLess(self.losses(one)[:3].mean(), self.losses(first)[:3].mean())
        two, _ = self.start(f"more on two {kind}", adapter, 2, parallel={"pipeline": 2})
        self.assertEqual((two / "model/model.safetensors").read_bytes(), (one / "model/model.safetensors").read_bytes())
        # On tensor ranks sums have another order: rounding of 1e-7 a pass, multiplied by twelve updates. What they write is the base
        # with the adapter, whatever share of it each of them has.
        shared, _ = self.start(f"more on tensor ranks {kind}", adapter, 2, parallel={"tensor": 2})
        np.testing.assert_allclose(self.losses(shared), self.losses(one), rtol=1e-4)
        of_base, of_shared = (read_safetensors(path / "adapter/adapter_model.safetensors") for path in (one, shared))
        self.assertEqual(of_shared.keys(), of_base.keys())
        base = read_safetensors(self.base / "model.safetensors")
        merged_model = read_safetensors(shared / "model/model.safetensors")
        for tensor, values in merged(base, of_shared, 2.0).items():
            np.testing.assert_allclose(merged_model[tensor], values, rtol=0, atol=7 * 2.0**-24, err_msg=tensor)
        # The resolved input states what the adapter does, and is accepted.
        text = (one / "input.toml").read_text()
        self.assertIn("rank = 4", text)
        self.assertIn(f"dora = {'true' if more else 'false'}", text)

    def test_a_run_resumes(self):
        for kind in ("usual", "magnitudes"):
            with self.subTest(kind):
                whole, _ = self.start(f"whole {kind}", CHOICES[kind], checkpoint={"every_steps": 6, "keep": 9})
                part = self.work.folder / f"part {kind}"
                resume = str(whole / "checkpoints/step-00000006")
                found, _ = self.start(f"part {kind}", CHOICES[kind], 2, parallel={"pipeline": 2}, run={"resume": resume})
                self.assertEqual(found, part)
                self.assertEqual((part / "model/model.safetensors").read_bytes(), (whole / "model/model.safetensors").read_bytes())
                _, refused = self.start(f"other rank {kind}", CHOICES[kind] | {"rank": 4}, run={"resume": resume}, check=2)
                self.assertIn("model.lora.rank", refused.stderr)
                other = {key: value for key, value in CHOICES[kind].items() if key != "dora"} | ({} if kind == "magnitudes" else {"dora": True})
                _, refused = self.start(f"other kind {kind}", other, run={"resume": resume}, check=2)
                self.assertIn("model.lora.dora", refused.stderr)

    def test_what_does_not_fit_is_named(self):
        first, _ = self.start("fits", {})
        adapter = str(first / "adapter")
        broken = self.work.folder / "broken"
        shutil.copytree(first / "adapter", broken)
        config = json.loads((broken / "adapter_config.json").read_text())
        (broken / "adapter_config.json").write_text(json.dumps(config | {"r": 5, "use_dora": True}))
        wide = self.work.folder / "wide"
        shutil.copytree(first / "adapter", wide)
        (wide / "adapter_config.json").write_text(json.dumps(config | {"r": 5}))
        wet = self.work.folder / "wet"
        shutil.copytree(first / "adapter", wet)
        (wet / "adapter_config.json").write_text(json.dumps(config | {"lora_dropout": 1.5}))
        for name, lora, tables, status, wanted in (
                ("target", {"targets": ["querry"]}, {}, 2, r'"querry".*"query"'),
                ("rank", {"rank": 32}, {}, 2, "rank = 32 .* from 1 to 31"),
                ("frozen", {}, {"model": {"freeze_layers": 2}}, 2, "freeze_layers = 2 leaves no layer"),
                ("table", {"rank": 4}, {"model": {"trainable": "head"}}, 2, "trainable"),
                ("fp8", {}, {"precision": {"compute": "fp8"}}, 2, "fp8"),
                ("two ranks", {"adapter": adapter, "rank": 4}, {}, 2, "rank = 4, but the adapter has 8"),
                ("other kind", {"adapter": adapter, "dora": True}, {}, 2, "dora = true, but the adapter has false"),
                ("other model", {"adapter": adapter}, {"model": {"pretrained": str(self.work.folder / "other/model")}}, 4, "another base model"),
                ("no folder", {"adapter": "nowhere"}, {}, 4, "adapter_model.safetensors"),
                ("dora", {"adapter": str(broken)}, {}, 4, "no lora_magnitude_vector, but adapter_config.json says use_dora = true"),
                ("shape", {"adapter": str(wide)}, {}, 4, "r = 5"),
                ("dropout", {"adapter": str(wet)}, {}, 4, "lora_dropout"),
                ("evaluates", {"rank": 4}, {"model": {"trainable": "all"}, "run": {"mode": "evaluate"},
                                            "data": {"test": [f"{self.work.folder}/shards/test-*.h5"]}}, 2, "only the key adapter")):
            with self.subTest(name):
                tables = dict(tables)
                _, done = self.start(f"bad {name}", lora, tables.pop("ranks", 1), status, tables.pop("model", None), **tables)
                self.assertRegex(re.sub(r"\s+", " ", done.stderr), wanted)


if __name__ == "__main__":
    unittest.main()
