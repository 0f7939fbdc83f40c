"""A regression on several label columns: from tables with missing labels over trainings on every layout to predictions, the exported
model and the messages for what is for one column."""

import csv
import json
import random
import unittest

import h5py
import numpy as np
from program import Case, run, toml
from saved import values_of
from test_regression import FROM_FOLDER, NO_DROPOUT, plain_scale, tensors_of

COLUMNS = ["grammar", "coherence", "overall"]
WORDS = {"grammar": ["went", "goed"], "coherence": ["therefore", "banana"]}
LAYOUTS = (("one", 1, {}), ("grid", 4, {"data": 2, "pipeline": 2}), ("tensor", 2, {"tensor": 2}))


def rows(count, seed=1):
    """(text, scores): a grade of each kind from good and bad words, around 6, 50 and 0; some are unknown (None), but not all."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words = draw.choices("the a old small very often seen near some quiet".split(), k=draw.randint(2, 12))
        sums = {}
        for kind, (good, bad) in WORDS.items():
            own = [draw.choice([good, bad]) for _ in range(draw.randint(0, 4))]
            sums[kind] = own.count(good) - own.count(bad)
            words += own
        draw.shuffle(words)
        scores = [6 + sums["grammar"] / 2, 50 + 10 * sums["coherence"], (sums["grammar"] + sums["coherence"]) / 100]
        missing = [draw.random() < share for share in (0.3, 0.5, 0.1)]
        scores = [None if gone else score for gone, score in zip(missing, scores)]
        found.append((" ".join(words), scores))
    return found


class LabelColumns(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.work.folder
        cls.rows = rows(240)
        with open(cls.folder / "rows.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["text", *COLUMNS])
            table.writerows([text, *("" if score is None else score for score in scores)] for text, scores in cls.rows)
        cls.prepare("columns")

    @classmethod
    def prepare(cls, output, check=0, **tables):
        values = {"source": {"format": "csv", "files": [f"{cls.folder}/rows.csv"], "label": COLUMNS},
                  "split": {"train": 0.7, "validation": 0.15, "test": 0.15, "seed": 3}, "tokenizer": {"train_size": 120, "max_tokens": 32},
                  "task": {"name": "regression"}, "output": {"directory": f"{cls.folder}/{output}"}}
        for table, keys in tables.items():
            values[table] = values.get(table, {}) | keys
        path = cls.folder / f"{output}_prep.toml"
        path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items() if value is not None)
                                for table, keys in values.items()))
        return run("bert_hpc_prep", path, check=check)

    def start(self, name, ranks=1, check=0, shards="columns", **tables):
        given = {"run": {"directory": f"{self.folder}/{name}", "reproducible": True}, "task": {"name": "regression"},
                 "data": {split: [f"{self.folder}/{shards}/{split}-*.h5"] for split in ("train", "validation", "test")}}
        for table, keys in tables.items():
            given[table] = given.get(table, {}) | keys
        return run("bert_hpc", self.work.input(f"{name}.toml", **given), ranks=ranks, threads=1, check=check), self.folder / name

    def of_model(self, name, model, mode, **tables):
        data = {"train": None, "validation": None, "test": tables.pop("files", [f"{self.folder}/columns/test-*.h5"])}
        return self.start(name, run={"mode": mode, "directory": f"{self.folder}/{name}"}, data=data,
                          model=FROM_FOLDER | {"pretrained": str(model)}, **tables)

    def labels(self, split, shards="columns"):
        paths = sorted((self.folder / shards).glob(f"{split}-*.h5"))
        return np.concatenate([h5py.File(path)["labels"][()] for path in paths]).astype(float)

    def predictions(self, directory):
        with h5py.File(directory / "predictions.h5") as file:
            self.assertEqual(list(file.attrs["label_names"]), COLUMNS)
            return file["label"][()].astype(float), file["prediction"][()].astype(float)

    def test_shards_hold_a_column_each_and_a_row_without_any_label_is_rejected(self):
        kept = [row for row, (_, scores) in enumerate(self.rows) if any(score is not None for score in scores)]
        self.assertLess(len(kept), len(self.rows))
        seen = []
        for split in ("train", "validation", "test"):
            for path in sorted((self.folder / "columns").glob(f"{split}-*.h5")):
                with h5py.File(path) as file:
                    self.assertEqual(json.loads(file.attrs["label_names"]), COLUMNS)
                    expected = [self.rows[row][1] for row in file["source_index"]]
                    np.testing.assert_array_equal(file["labels"][()], np.array(expected, dtype=np.float32))
                    seen += list(file["source_index"])
        self.assertEqual(sorted(seen), kept)
        self.assertIn("the label is empty", (self.folder / "columns/rejects.tsv").read_text())
        lines = [{"text": text} | dict(zip(COLUMNS, scores)) for text, scores in self.rows]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = self.prepare("json", source={"format": "jsonl", "files": [f"{self.folder}/rows.jsonl"], "label": None, "label_columns": COLUMNS})
        known = [sum(scores[c] is not None for _, scores in self.rows) for c in range(3)]
        first, second, third = (f'"{name}" {count}' for name, count in zip(COLUMNS, known))
        self.assertIn(f"labels      3: {first}, {second} and {third}\n", done.stdout)
        for path in sorted((self.folder / "columns").glob("*.h5")):
            self.assertEqual((self.folder / "json" / path.name).read_bytes(), path.read_bytes())

    def test_layouts_agree_and_results_are_in_the_unit_of_each_column(self):
        scales = [plain_scale(column[np.isfinite(column)]) for column in self.labels("train").T]
        deviations = [deviation for _, deviation in scales]
        written, found = {}, {}
        for name, ranks, parallel in LAYOUTS:
            done, directory = self.start(name, ranks, parallel=parallel, evaluation={"best": "rmse"})
            files = ("model/config.json", "model/model.safetensors", "predictions.csv")
            written[name] = [(directory / file).read_bytes() for file in files]
            compared = 1 if "tensor" in parallel else len(files)
            same = [ours == one for ours, one in zip(written[name][:compared], written["one"])]
            self.assertTrue(all(same), f"{name}: {same}")
            found[name] = self.predictions(directory)[1]
            # Tensor ranks add hidden units in two parts: a few roundings of fp32 a step.
            np.testing.assert_allclose(found[name] / deviations, found["one"] / deviations, atol=1e-3)
            for column, (mean, deviation) in zip(COLUMNS, scales):
                self.assertIn(f"{column} mean {mean:.4g}, deviation {deviation:.4g}", done.stdout)
        self.assertRegex(done.stdout, r"test at step \d+: loss of standardized labels .*, rmse .*, rmse_grammar .*, rmse_coherence .*, rmse_overall ")
        self.assertNotIn("mae_grammar", done.stdout)
        config = json.loads((directory / "model/config.json").read_text())
        self.assertEqual(config["problem_type"], "regression")
        self.assertEqual(config["id2label"], {str(i): name for i, name in enumerate(COLUMNS)})
        label, prediction = self.predictions(directory)
        np.testing.assert_array_equal(label, self.labels("test"))
        with h5py.File(directory / "metrics.h5") as file:
            values = values_of(file["evaluations/test"])
            np.testing.assert_allclose(file.attrs["label_mean"], [mean for mean, _ in scales], rtol=1e-12)
            np.testing.assert_allclose(file.attrs["label_deviation"], deviations, rtol=1e-12)
        errors = prediction - label
        rmse = np.sqrt(np.nanmean(errors**2, axis=0))
        for name, column, own in zip(COLUMNS, errors.T, rmse):
            self.assertAlmostEqual(values[f"rmse_{name}"], own, delta=1e-9 * own)
            self.assertAlmostEqual(values[f"mae_{name}"], np.nanmean(np.abs(column)), delta=1e-9 * own)
        self.assertAlmostEqual(values["rmse"], rmse.mean(), delta=1e-9 * rmse.mean())
        self.assertAlmostEqual(values["r2"], np.mean([values[f"r2_{name}"] for name in COLUMNS]), delta=1e-12)
        self.assertGreater(values["pearson"], 0)
        # The loss is the mean over all known standardized labels. Predictions in single precision.
        standardized = errors / deviations
        self.assertAlmostEqual(values["loss"], np.nanmean(standardized**2), delta=1e-5)
        with open(directory / "predictions.csv", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(list(table[0]), ["row", *(f"{kind}_{name}" for kind in ("label", "prediction") for name in COLUMNS)])
        for line, own, predicted in zip(table, label, prediction):
            for name, known, guess in zip(COLUMNS, own, predicted):
                self.assertEqual(np.float32(line[f"prediction_{name}"]), np.float32(guess))
                self.assertEqual(line[f"label_{name}"], "" if np.isnan(known) else line[f"label_{name}"])
        # The exported model gives the same, whose loss is of labels as they are.
        _, again = self.of_model("predicted", directory / "model", "predict")
        unknown, predicted = self.predictions(again)
        self.assertTrue(np.isnan(unknown).all())
        np.testing.assert_allclose(predicted, prediction, rtol=2e-6, atol=2e-5)
        _, again = self.of_model("evaluated", directory / "model", "evaluate")
        with h5py.File(again / "metrics.h5") as file:
            evaluated = values_of(file["evaluations/test"])
        self.assertAlmostEqual(evaluated["rmse_coherence"], values["rmse_coherence"], delta=1e-4)
        self.assertAlmostEqual(evaluated["loss"], np.nanmean(errors**2), delta=1e-5 * evaluated["loss"])

    def test_the_loss_of_a_step_is_the_mean_over_its_known_labels(self):
        """One step over all samples, which measures before it changes anything."""
        _, first = self.start("first")
        train = [f"{self.folder}/columns/train-*.h5"]
        label = self.labels("train")
        _, predicted = self.predictions(self.of_model("first-train", first / "model", "predict", files=train)[1])
        for standardize in (False, True):
            scale = [plain_scale(column[np.isfinite(column)])[1] if standardize else 1 for column in label.T]
            expected = np.nanmean(((predicted - label) / scale) ** 2)
            for name, ranks, parallel in LAYOUTS:
                _, directory = self.start(f"step-{name}-{standardize}", ranks, parallel=parallel, task={"standardize": standardize},
                                          model=FROM_FOLDER | NO_DROPOUT | {"pretrained": f"{first}/model"},
                                          batch={"global": len(label)}, schedule={"epochs": None, "steps": 1, "warmup_ratio": None},
                                          optimizer={"learning_rate": 1e-12})
                with h5py.File(directory / "metrics.h5") as file:
                    self.assertAlmostEqual(file["steps/loss"][0], expected, delta=2e-5 * expected)
                np.testing.assert_allclose(tensors_of(directory / "model")["classifier.bias"],
                                           tensors_of(first / "model")["classifier.bias"], rtol=2e-6, atol=2e-5)

    def test_pretrained_columns_are_found_by_name_and_missing_ones_are_named(self):
        _, first = self.start("ordered")
        _, plain = self.of_model("in-order", first / "model", "evaluate")
        self.prepare("reversed", source={"label": COLUMNS[::-1]}, tokenizer={"train_size": None, "vocabulary": f"{self.folder}/columns"})
        done, reverse = self.of_model("reversed-run", first / "model", "evaluate", files=[f"{self.folder}/reversed/test-*.h5"])
        self.assertIn("in another order", done.stdout)
        with h5py.File(plain / "metrics.h5") as file, h5py.File(reverse / "metrics.h5") as other:
            for key, value in values_of(file["evaluations/test"]).items():
                self.assertAlmostEqual(values_of(other["evaluations/test"])[key], value, delta=1e-5 * abs(value) + 1e-12, msg=key)
        self.prepare("fewer", source={"label": COLUMNS[:2]}, tokenizer={"train_size": None, "vocabulary": f"{self.folder}/columns"})
        done, _ = self.of_model("fewer-run", first / "model", "evaluate", files=[f"{self.folder}/fewer/test-*.h5"], check=3)
        self.assertIn("Prepare the text with all names of the model's id2label in [source] label", done.stderr)
        done, _ = self.start("others", shards="fewer", model=FROM_FOLDER | {"pretrained": f"{first}/model"}, schedule={"epochs": 1})
        self.assertIn('  [source]\n  label = ["grammar", "coherence", "overall"]', done.stdout)

    def test_settings_for_one_column_are_refused_by_name(self):
        done, _ = self.start("levels", task={"levels": [1, 2], "loss": "concordance", "clip_predictions": "labels"}, check=2)
        self.assertIn("the data have 3 label columns (grammar, coherence and overall), and these settings are for one:", done.stderr)
        for key in ("levels", 'clip_predictions = "labels"', 'loss = "concordance"'):
            self.assertIn(f"[task] {key}", done.stderr)
        done, _ = self.start("range", task={"range": "labels"}, check=2)
        self.assertIn("[task] range", done.stderr)
        done, clipped = self.start("clipped", task={"clip_predictions": [5.75, 6.25]}, schedule={"epochs": 1})
        _, prediction = self.predictions(clipped)
        self.assertTrue(((prediction >= 5.75) & (prediction <= 6.25)).all())
        done, _ = self.start("taught", distill={"teacher": f"{clipped}/model"}, check=2)
        self.assertIn("the shards have 3 label columns, and a regression learns from a teacher with one", done.stderr)
        done = self.prepare("stratified", split={"stratify": True}, check=2)
        self.assertIn("divides by one label", done.stderr)


if __name__ == "__main__":
    unittest.main()
