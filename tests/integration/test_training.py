"""The whole program on small data: training learns, results are as documented, layouts change no bits."""

import hashlib
import json
import re
import unittest

import h5py

from program import Case, run


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Classification(Case):
    def train(self, name, ranks=1, threads=1, **tables):
        directory = self.work.folder / name
        tables.setdefault("run", {})["directory"] = str(directory)
        run("bert_hpc", self.work.input(f"{name}.toml", **tables), ranks=ranks, threads=threads, check=0)
        return directory

    def test_it_learns_and_leaves_what_is_documented(self):
        directory = self.train("learns", ranks=2, schedule={"epochs": 12}, evaluation={"best": "accuracy"})
        with h5py.File(directory / "metrics.h5") as file:
            steps = file["steps"]
            self.assertEqual(set(steps), {"step", "epoch", "loss", "learning_rate", "gradient_norm", "samples",
                                          "tokens", "seconds", "skipped"})
            self.assertEqual(list(steps["step"]), list(range(1, len(steps["step"]) + 1)))
            self.assertAlmostEqual(steps["epoch"][-1], 12)
            evaluations = file["evaluations/validation"]
            self.assertEqual(evaluations["confusion_matrix"].shape[1:], (4, 4))
            # One word decides the label, so a model that works at all gets nearly every text right.
            self.assertGreater(max(evaluations["accuracy"]), 0.9)
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(len(file["ranks/host"]), 2)
            self.assertIn(b"forward", list(file["timers/name"]))
            self.check_timers(file, (directory / "log.txt").read_text())
        config = json.loads((directory / "model/config.json").read_text())
        self.assertEqual(list(config["id2label"].values()), ["animal", "machine", "music", "nature"])
        for name in ("model.safetensors", "vocab.txt", "tokenizer_config.json"):
            self.assertTrue((directory / "model" / name).exists(), name)

        # Evaluating the exported model gives what training saw; predictions agree with it.
        run("bert_hpc", self.work.input("again.toml", run={"mode": "evaluate", "directory": str(directory) + "-again"},
                                        model=None, data={"train": None}), "--set",
            f'model.pretrained="{directory}/model"', ranks=2, threads=1, check=0)
        with h5py.File(str(directory) + "-again/metrics.h5") as again, h5py.File(directory / "metrics.h5") as file:
            best = max(file["evaluations/validation/accuracy"])
            self.assertAlmostEqual(again["evaluations/validation/accuracy"][0], best, places=6)

    def check_timers(self, file, log):
        """The log's table of sections can be made again from metrics.h5, per cents too."""
        rows = {row[0]: row[1:] for row in re.findall(r"^  (\S.*?)  .*?([\d.]+) +[\d.]+ +([\d.]+)$", log, re.MULTILINE)}
        wall = file.attrs["total_timed_seconds"]
        self.assertEqual(rows["wall time"], (f"{wall:.3f}", "100.0"))
        timers = file["timers"]
        for name, seconds in zip(timers["name"].asstr(), timers["seconds_avg"]):
            self.assertEqual(rows[name], (f"{seconds:.3f}", f"{100 * seconds / wall:.1f}"), name)

    def test_layouts_change_no_bit_in_reproducible_mode(self):
        layouts = {"one": (1, 1, {}), "threads": (1, 2, {}), "two": (2, 1, {}), "four": (4, 1, {})}
        found = {}
        for name, (ranks, threads, batch) in layouts.items():
            directory = self.train(f"bits-{name}", ranks, threads, run={"reproducible": True},
                                   batch={"global": 16, **batch})
            with h5py.File(directory / "metrics.h5") as file:
                found[name] = (digest(directory / "model/model.safetensors"), list(file["steps/loss"]),
                               list(file["steps/gradient_norm"]))
        for name in layouts:
            self.assertEqual(found[name], found["one"], name)
        # A test that cannot fail proves nothing: another seed gives other bits.
        other = self.train("bits-other", run={"reproducible": True, "seed": 6})
        self.assertNotEqual(digest(other / "model/model.safetensors"), found["one"][0])

    def test_micro_batches_and_ranks_change_only_rounding_in_fast_mode(self):
        losses = {}
        for name, (ranks, batch) in {"whole": (1, {}), "micro": (1, {"micro_tokens": 60}), "two": (2, {})}.items():
            directory = self.train(f"fast-{name}", ranks, 1, batch={"global": 16, **batch}, schedule={"epochs": 1})
            with h5py.File(directory / "metrics.h5") as file:
                losses[name] = list(file["steps/loss"])
        for name, values in losses.items():
            # Ten steps: rounding of 1e-7 grows by the learning rate's feedback to well below 1e-4.
            for mine, whole in zip(values, losses["whole"], strict=True):
                self.assertAlmostEqual(mine, whole, delta=1e-4, msg=name)


class Regression(Case):
    task = "regression"

    def test_it_learns_a_number_and_predicts_it(self):
        directory = self.work.folder / "run"
        run("bert_hpc", self.work.input(schedule={"epochs": 15}, evaluation={"best": "rmse"}), ranks=2, threads=1,
            check=0)
        with h5py.File(directory / "metrics.h5") as file:
            # Scores count words: they are spread over 0.25 to 2.6; a constant guess has R² of 0.
            self.assertGreater(max(file["evaluations/validation/r2"]), 0.7)
        shards = self.work.folder / "shards"
        run("bert_hpc", self.work.input("predict.toml", run={"mode": "predict", "directory": str(directory) + "-p"},
                                        model=None, data={"train": None, "validation": None,
                                                          "test": [f"{shards}/test-*.h5"]}), "--set",
            f'model.pretrained="{directory}/model"', ranks=2, threads=1, check=0)
        with h5py.File(str(directory) + "-p/predictions.h5") as file:
            self.assertEqual(len(file["prediction"]), len(file["source_index"]))
            self.assertGreater(len(file["prediction"]), 20)


class MaskedLm(Case):
    task = "masked_lm"

    def test_masked_words_are_learnt_and_layouts_change_no_bit(self):
        digests = []
        for ranks in (1, 2):
            directory = self.work.folder / f"mlm-{ranks}"
            run("bert_hpc", self.work.input(run={"directory": str(directory), "reproducible": True}), ranks=ranks,
                threads=1, check=0)
            digests.append(digest(directory / "model/model.safetensors"))
            with h5py.File(directory / "metrics.h5") as file:
                loss = file["steps/loss"][:]
                self.assertLess(loss[-5:].mean(), loss[:5].mean() - 0.3)
        self.assertEqual(digests[0], digests[1])


if __name__ == "__main__":
    unittest.main()
