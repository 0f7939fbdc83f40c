"""A regression trains on standardized labels, and everything that leaves the program is in the labels' own unit."""

import json
import math
import unittest

import h5py
import numpy as np
from program import Case, Workspace, as_if_killed_after, run, sentences, write_tsv
from saved import without_label_scale
from test_tensor import read_safetensors

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
FROM_FOLDER = dict.fromkeys(SIZES)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def in_bands(rows):
    """The rows with scores as examiners give them, around 6.5."""
    return [(text, label, round(6 + score, 3)) for text, label, score in rows]


class BandScores(Workspace):
    """Rows whose labels may be replaced: what else is prepared depends on the texts alone."""

    def __init__(self, scores=None, rows=500):
        super().__init__("regression", rows)
        self.rows = in_bands(sentences(rows))
        if scores is not None:
            self.rows = [(text, label, scores(score)) for text, label, score in self.rows]
        write_tsv(self.folder / "rows.tsv", self.rows)
        run("bert_hpc_prep", self.folder / "prep.toml", check=0)

    def labels(self, split):
        paths = sorted((self.folder / "shards").glob(f"{split}-*.h5"))
        return np.concatenate([h5py.File(path)["labels"][()] for path in paths])


def tensors_of(model):
    return read_safetensors(model / "model.safetensors")


def plain_scale(labels):
    """Mean and population deviation, one label after the other."""
    mean = math.fsum(map(float, labels)) / len(labels)
    return mean, math.sqrt(math.fsum((float(label) - mean) ** 2 for label in labels) / len(labels))


class Standardized(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work.remove()
        cls.work = BandScores()

    def train(self, name, work=None, ranks=1, check=0, **tables):
        work = work or self.work
        directory = work.folder / name
        tables["run"] = {"directory": str(directory)} | tables.get("run", {})
        return run("bert_hpc", work.input(f"{name}.toml", **tables), ranks=ranks, threads=1, check=check), directory

    def evaluate(self, name, model, mode, split, **tables):
        """RUN of an evaluation of `model`; data are those of `split`."""
        data = {"train": None, "validation": None, "test": [f"{self.work.folder}/shards/{split}-*.h5"]}
        return self.train(name, run={"mode": mode}, model=FROM_FOLDER | {"pretrained": str(model)}, data=data, **tables)[1]

    def predictions(self, name, model, split):
        with h5py.File(self.evaluate(name, model, "predict", split) / "predictions.h5") as file:
            return file["prediction"][()].astype(float)

    def test_results_are_in_the_labels_unit_and_the_exported_model_gives_them(self):
        test = {"data": {"test": [f"{self.work.folder}/shards/test-*.h5"]}}
        for name, ranks, tables in (("last", 1, {}), ("best", 2, {"evaluation": {"best": "rmse"}}),
                                    ("stages", 2, {"parallel": {"pipeline": 2}})):
            done, directory = self.train(name, ranks=ranks, **tables, **test)
            mean, deviation = plain_scale(self.work.labels("train"))
            self.assertIn(f"mean squared error of standardized labels (mean {mean:.4g}, deviation {deviation:.4g})", done.stdout)
            self.assertRegex(done.stdout, r"\ntest at step \d+: loss of standardized labels \d")
            with h5py.File(directory / "metrics.h5") as file:
                self.assertAlmostEqual(file.attrs["label_mean"], mean, delta=1e-12)
                self.assertAlmostEqual(file.attrs["label_deviation"], deviation, delta=1e-12)
                self.assertEqual(file["evaluations/test/loss"].attrs["label"], "loss of standardized labels")
                found = {split: {key: values[-1] for key, values in file[f"evaluations/{split}"].items()}
                         for split in ("validation", "test")}
            for split in found:
                # The loss is of standardized labels, errors are in the labels' unit.
                self.assertAlmostEqual(found[split]["loss"] * deviation**2, found[split]["rmse"] ** 2, delta=1e-5)
            with h5py.File(directory / "predictions.h5") as file:
                label, prediction = (file[column][()].astype(float) for column in ("label", "prediction"))
            np.testing.assert_allclose(np.sort(label), np.sort(self.work.labels("test")), rtol=0)
            self.assertAlmostEqual(np.sqrt(np.mean((prediction - label) ** 2)), found["test"]["rmse"], delta=1e-6)
            # Numbers around 7 in single precision.
            again = self.predictions(f"{name}-predicted", directory / "model", "test")
            np.testing.assert_allclose(again, prediction, atol=5e-6)
            with h5py.File(self.evaluate(f"{name}-evaluated", directory / "model", "evaluate", "test") / "metrics.h5") as file:
                self.assertNotIn("label_mean", file.attrs)
                self.assertEqual(file["evaluations/test/loss"].attrs["label"], "loss")
                for key in ("rmse", "r2", "pearson"):
                    self.assertAlmostEqual(file[f"evaluations/test/{key}"][0], found["test"][key], delta=1e-5)
                self.assertAlmostEqual(file["evaluations/test/loss"][0], found["test"]["rmse"] ** 2, delta=1e-5)

    def test_predictions_and_metrics_are_clipped_and_the_model_is_not(self):
        test = {"data": {"test": [f"{self.work.folder}/shards/test-*.h5"]}}
        _, plain = self.train("plain", **test)
        low, high = (float(np.float32(np.quantile(self.work.labels("train"), share))) for share in (0.3, 0.6))
        done, clipped = self.train("clipped", task={"clip_predictions": [low, high]}, **test)
        self.assertIn(f"clipped to {low:.4g} … {high:.4g}\n", done.stdout)
        self.assertEqual((clipped / "model/model.safetensors").read_bytes(), (plain / "model/model.safetensors").read_bytes())
        found = {}
        for directory in (plain, clipped):
            with h5py.File(directory / "predictions.h5") as file, h5py.File(directory / "metrics.h5") as metrics:
                label, found[directory] = (file[column][()] for column in ("label", "prediction"))
                errors = found[directory].astype(float) - label
                self.assertAlmostEqual(metrics["evaluations/test/mae"][-1], np.abs(errors).mean(), delta=1e-12)
                found[directory, "loss"] = metrics["evaluations/test/loss"][-1]
        np.testing.assert_array_equal(found[clipped], np.clip(found[plain], np.float32(low), np.float32(high)))
        self.assertLess(found[plain].min(), low)
        self.assertEqual(found[plain, "loss"], found[clipped, "loss"])
        labels = self.work.labels("train")
        done, _ = self.train("by-labels", task={"clip_predictions": "labels"}, schedule={"epochs": 1})
        self.assertIn(f"clipped to {labels.min():.4g} … {labels.max():.4g}, the range of the training labels\n", done.stdout)

    def kappa(self, levels, label, predicted):
        """Quadratically weighted, of the numbers of levels."""
        actual, found = (np.abs(np.asarray(levels)[None] - values[:, None]).argmin(axis=1) for values in (label, predicted))
        observed = np.zeros((len(levels), len(levels)))
        np.add.at(observed, (actual, found), 1)
        weights = np.subtract.outer(np.arange(len(levels)), np.arange(len(levels))) ** 2
        return 1 - (weights * observed).sum() / (weights * np.outer(observed.sum(1), observed.sum(0)) / len(label)).sum()

    def test_predictions_lie_within_a_range_on_every_layout_and_the_exported_model_gives_them(self):
        test = {"data": {"test": [f"{self.work.folder}/shards/test-*.h5"]}}
        labels = self.work.labels("train")
        low, high = float(labels.min()), float(labels.max())
        found = {}
        for name, ranks, tables in (("one", 1, {}), ("data", 2, {}), ("stages", 2, {"parallel": {"pipeline": 2}})):
            done, directory = self.train(f"range-{name}", ranks=ranks, task={"range": "labels"}, evaluation={"best": "rmse"},
                                         run={"reproducible": True}, **tables, **test)
            self.assertIn(f"squared error of predictions within {low:.4g} … {high:.4g}, both scaled to 0 … 1", done.stdout)
            found[name] = [(directory / file).read_bytes() for file in ("model/model.safetensors", "model/config.json", "predictions.csv")]
            self.assertEqual(found[name], found["one"])
        with h5py.File(directory / "metrics.h5") as file, h5py.File(directory / "predictions.h5") as predictions:
            self.assertNotIn("label_mean", file.attrs)
            values = {key: column[-1] for key, column in file["evaluations/test"].items()}
            label, prediction = (predictions[column][()].astype(float) for column in ("label", "prediction"))
        self.assertTrue(((prediction > low) & (prediction < high)).all())
        self.assertLess(values["rmse"], 0.9 * label.std())
        self.assertAlmostEqual(values["rmse"], np.sqrt(np.mean((prediction - label) ** 2)), delta=1e-9)
        inside = np.clip(label, low, high)  # shares of the range in single precision: 2e-7 each
        self.assertAlmostEqual(values["loss"], np.mean((prediction - inside) ** 2) / (high - low) ** 2, delta=1e-6)
        config = json.loads((directory / "model/config.json").read_text())
        self.assertEqual((config["prediction_range"], config["problem_type"]), ([low, high], "regression"))
        # Numbers around 7 in single precision.
        np.testing.assert_allclose(self.predictions("range-predicted", directory / "model", "test"), prediction, atol=5e-6)
        again = self.evaluate("range-evaluated", directory / "model", "evaluate", "test", task={"levels": [6, 7, 8, 10]}, check=2)
        self.assertFalse((again / "metrics.h5").exists())
        again = self.evaluate("range-again", directory / "model", "evaluate", "test", task={"range": [low, high]})
        with h5py.File(again / "metrics.h5") as file:
            for key in ("rmse", "loss"):
                self.assertAlmostEqual(file[f"evaluations/test/{key}"][0], values[key], delta=1e-5)
        done, _ = self.train("range-other", run={"mode": "evaluate"}, model=FROM_FOLDER | {"pretrained": str(directory / "model")},
                             data={"train": None, "validation": None} | test["data"], task={"range": [1, 2]}, check=2)
        self.assertIn("as prediction_range in its config.json says", done.stderr)
        done, _ = self.train("range-kept", model=FROM_FOLDER | {"pretrained": str(directory / "model")}, schedule={"epochs": 1})
        self.assertIn("in this training they have no range", done.stdout)
        done, _ = self.train("range-narrow", task={"range": [low, high - 0.125]}, check=2)
        self.assertIn("which lies outside [task] range", done.stderr)

    def test_levels_are_the_nearest_ones(self):
        levels = [6.5, 7, 7.75, 8.5]
        work = BandScores(scores=lambda score: min(levels, key=lambda level: abs(level - score)))
        self.addCleanup(work.remove)
        test = {"data": {"test": [f"{work.folder}/shards/test-*.h5"]}}
        _, plain = self.train("no-levels", work, **test)
        for name, ranks, given in (("listed", 2, levels), ("found", 1, "labels")):
            done, directory = self.train(f"levels-{name}", work, ranks, task={"levels": given}, evaluation={"best": "qwk"}, **test)
            self.assertIn("levels 6.5, 7, 7.75, 8.5\n", done.stdout)
            self.assertRegex(done.stdout, r"test at step \d+: .*accuracy 0\.\d+, QWK -?0\.\d+, macro mae")
            with h5py.File(directory / "metrics.h5") as file, h5py.File(directory / "predictions.h5") as predictions:
                values = {key: column[-1] for key, column in file["evaluations/test"].items()}
                label, prediction, level = (predictions[column][()].astype(float) for column in ("label", "prediction", "level"))
            nearest = np.asarray(levels)[np.abs(np.asarray(levels)[None] - prediction[:, None]).argmin(axis=1)]
            np.testing.assert_array_equal(level, nearest)
            errors = np.abs(level - label)
            self.assertAlmostEqual(values["accuracy"], (level == label).mean(), delta=1e-12)
            self.assertAlmostEqual(values["macro_mae"], np.mean([errors[label == one].mean() for one in set(label)]), delta=1e-12)
            self.assertAlmostEqual(values["qwk"], self.kappa(levels, label, prediction), delta=1e-12)
            self.assertAlmostEqual(values["mae"], np.abs(prediction - label).mean(), delta=1e-9)
            self.assertIn(",level\n", (directory / "predictions.csv").read_text())
        with h5py.File(plain / "metrics.h5") as file:
            self.assertNotIn("qwk", file["evaluations/test"])
        done, _ = self.train("levels-lacking", work, task={"levels": [6.5, 7, 8.5]}, check=2)
        self.assertIn("the data have the label 7.75, which is none of [task] levels", done.stderr)

    def test_it_is_training_on_labels_that_were_standardized_by_hand(self):
        _, ours = self.train("ours", run={"reproducible": True})
        with h5py.File(ours / "metrics.h5") as file:
            mean, deviation, losses = file.attrs["label_mean"], file.attrs["label_deviation"], list(file["steps/loss"])
        work = BandScores(scores=lambda score: repr(float(np.float32((float(np.float32(score)) - mean) / deviation))))
        self.addCleanup(work.remove)
        done, theirs = self.train("theirs", work, run={"reproducible": True}, task={"standardize": False})
        self.assertIn("mean squared error of the labels (task.standardize = false)", done.stdout)
        with h5py.File(theirs / "metrics.h5") as file:
            self.assertEqual(list(file["steps/loss"]), losses)
            self.assertNotIn("label_mean", file.attrs)
        ours, theirs = tensors_of(ours / "model"), tensors_of(theirs / "model")
        self.assertEqual(set(ours), set(theirs))
        for name, values in theirs.items():
            expected = values.astype(float)
            if name.startswith("classifier."):
                expected = expected * deviation + (mean if name.endswith("bias") else 0)
            np.testing.assert_array_equal(ours[name], expected.astype(np.float32), err_msg=name)

    def test_a_pretrained_head_starts_as_it_predicts(self):
        _, first = self.train("first")
        labels = self.work.labels("train").astype(float)
        error = np.mean((self.predictions("first-train", first / "model", "train") - labels) ** 2)
        # One step over all samples, which measures before it changes anything.
        whole = {"model": FROM_FOLDER | NO_DROPOUT | {"pretrained": str(first / "model")}, "batch": {"global": len(labels)},
                 "schedule": {"epochs": None, "steps": 1, "warmup_ratio": None}, "optimizer": {"learning_rate": 1e-12}}
        for name, standardize in (("raw", False), ("standardized", True)):
            for ranks, parallel in ((1, {}), (2, {"pipeline": 2}), (2, {"tensor": 2})):
                _, directory = self.train("-".join([name, *parallel]), ranks=ranks, task={"standardize": standardize}, parallel=parallel,
                                          **whole)
                with h5py.File(directory / "metrics.h5") as file:
                    unit = file.attrs["label_deviation"] if standardize else 1
                    self.assertAlmostEqual(file["steps/loss"][0] * unit**2, error, delta=2e-6)
                # Nothing but the head's rounding on the way in and out.
                np.testing.assert_allclose(tensors_of(directory / "model")["classifier.bias"],
                                           tensors_of(first / "model")["classifier.bias"], atol=2e-6)

    def test_a_run_on_raw_labels_is_not_resumed_on_standardized_ones(self):
        tables = {"task": {"standardize": False}, "schedule": {"epochs": None, "steps": 6},
                  "checkpoint": {"every_steps": 3, "keep": 100}, "run": {"reproducible": True}}
        _, whole = self.train("whole", **tables)
        _, directory = self.train("older", **tables)
        # Of a version that had no such key.
        as_if_killed_after(3, directory)
        text = (directory / "input.toml").read_text()
        self.assertIn("standardize = false\n", text)
        (directory / "input.toml").write_text(text.replace("standardize = false\n", ""))
        without_label_scale(directory / "checkpoints" / "step-00000003")
        refused, _ = self.train("older", check=2, **(tables | {"task": {}}))
        self.assertIn("task.standardize: false there, true here", refused.stderr)
        # Nor is it from another directory.
        elsewhere = tables | {"task": {}, "run": {"reproducible": True, "resume": f"{directory}/checkpoints/step-00000003"}}
        refused, _ = self.train("elsewhere", check=2, **elsewhere)
        self.assertIn("task.standardize: false there, true here", refused.stderr)
        self.train("older", **tables)
        with h5py.File(directory / "metrics.h5") as file, h5py.File(whole / "metrics.h5") as other:
            self.assertEqual(list(file["steps/loss"]), list(other["steps/loss"]))

    def test_equal_labels_and_equal_predictions_are_warned_of(self):
        done, _ = self.train("learns", schedule={"epochs": 8})
        self.assertNotIn("nearly one value", done.stdout)
        timid = {"optimizer": {"learning_rate": 1e-9}, "model": {"initializer_range": 1e-3}}
        done, directory = self.train("timid", task={"standardize": False}, evaluation={"every_epochs": 1}, **timid)
        # The second evaluation in a row and the last one of three.
        self.assertEqual(done.stdout.count("validation: the predictions for all"), 2)
        self.assertIn("set task.standardize = true", done.stdout)
        done, _ = self.train("timid-evaluated", run={"mode": "evaluate"}, data={"train": None},
                             model=FROM_FOLDER | {"pretrained": f"{directory}/model"})
        self.assertIn("nearly one value", done.stdout)

        work = BandScores(scores=lambda score: 6.5, rows=60)
        self.addCleanup(work.remove)
        done, directory = self.train("equal", work)
        self.assertRegex(done.stdout, r"all \d+ labels of the training data are equal \(6.5\)")
        self.assertNotIn("nearly one value", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertLess(file["evaluations/validation/rmse"][-1], 0.5)

    def test_equal_predicted_classes_are_warned_of(self):
        work = Workspace("classification", 100)
        self.addCleanup(work.remove)
        done, _ = self.train("classes", work, optimizer={"learning_rate": 1e-9}, model={"initializer_range": 1e-4})
        self.assertRegex(done.stdout, r"validation: the model predicts the class \"\w+\" for all \d+ sequences")

    def test_another_task_has_no_labels_to_standardize(self):
        done, _ = self.train("refused", task={"name": "classification", "standardize": True}, check=2)
        self.assertIn('[task] standardize belongs to the task "regression"', done.stderr)


if __name__ == "__main__":
    unittest.main()
