"""Label sets: from text over shards and training to predictions, and input/multi_label*.toml as they stand."""

import csv
import json
import pathlib
import random
import shutil
import tempfile
import unittest

import h5py
import numpy as np

from program import MPIRUN, run, toml
from saved import class_report, values_of

INPUT = pathlib.Path(__file__).resolve().parents[2] / "input"
WORDS = {"animal": ["dog", "cat"], "machine": ["engine", "circuit"], "music": ["violin", "trumpet"]}
NAMES = sorted(WORDS)
MODEL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def rows(count, seed=1):
    """(text, names): a name for each word of its own in the text; sets of none, one and several names."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        names = [name for name in NAMES if draw.random() < 0.4]
        words = draw.choices("the a old small very often seen near some quiet".split(), k=draw.randint(2, 12))
        words += [draw.choice(WORDS[name]) for name in names]
        draw.shuffle(words)
        draw.shuffle(names)
        found.append((" ".join(words), names))
    return found


def write_tsv(path, lines):
    path.write_text("text\tlabels\n" + "".join(f"{text}\t{','.join(names)}\n" for text, names in lines))


def write_toml(path, tables):
    path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items() if value is not None)
                            for table, keys in tables.items() if keys))
    return path


def scores(label, prediction):
    """micro_f1, macro_f1 and exact_match from their definitions."""
    both, of_each = (label * prediction).sum(axis=0), label.sum(axis=0) + prediction.sum(axis=0)
    return {"micro_f1": 2 * both.sum() / of_each.sum(), "macro_f1": (2 * both / np.maximum(of_each, 1)).mean(),
            "exact_match": (label == prediction).all(axis=1).mean()}


def ranking_precision(label, score):
    """scikit-learn's label_ranking_average_precision_score from its definition."""
    found = []
    for own, scores in zip(label == 1, score):
        among = [np.mean(own[scores >= scores[name]]) for name in np.flatnonzero(own)]
        found.append(np.mean(among) if 0 < own.sum() < len(own) else 1.0)
    return np.mean(found)


class Sets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_test_"))
        cls.rows = rows(1500)
        write_tsv(cls.folder / "rows.tsv", cls.rows)
        cls.prepare("shards")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def prepare(cls, output, check=0, **tables):
        values = {"source": {"format": "tsv", "files": [f"{cls.folder}/rows.tsv"], "text": "text", "label": "labels"},
                  "split": {"train": 0.7, "validation": 0.15, "test": 0.15, "seed": 3},
                  "tokenizer": {"train_size": 120, "max_tokens": 32}, "task": {"name": "multi_label"},
                  "output": {"directory": f"{cls.folder}/{output}"}}
        for table, keys in tables.items():
            values[table] = values.get(table, {}) | keys
        return run("bert_hpc_prep", write_toml(cls.folder / f"{output}_prep.toml", values), check=check)

    def start(self, name, ranks=1, check=0, shards="shards", **tables):
        files = {split: [f"{self.folder}/{shards}/{split}-*.h5"] for split in ("train", "validation", "test")}
        values = {"run": {"mode": "train", "directory": f"{self.folder}/{name}", "seed": 5}, "model": MODEL,
                  "task": {"name": "multi_label"}, "data": files, "batch": {"global": 16}, "optimizer": {"learning_rate": 3e-3},
                  "schedule": {"epochs": 8, "warmup_ratio": 0.1}, "log": {"every_steps": 1}}
        for table, keys in tables.items():
            values[table] = values.get(table, {}) | keys
        done = run("bert_hpc", write_toml(self.folder / f"{name}.toml", values), ranks=ranks, threads=1, check=check)
        return done, self.folder / name

    def with_model(self, mode, model, split="test"):
        return {"run": {"mode": mode}, "model": dict.fromkeys(MODEL) | {"pretrained": f"{model}/model"},
                "data": {"train": None, "validation": None, "test": [f"{self.folder}/shards/{split}-*.h5"]}}

    def of_shards(self, folder="shards", split="test"):
        """Labels (samples, names) and rows of the source."""
        files = [h5py.File(path) for path in sorted((self.folder / folder).glob(f"{split}-*.h5"))]
        return [np.concatenate([file[name][()] for file in files]) for name in ("labels", "source_index")]

    def test_shards_hold_a_column_for_each_name(self):
        for split in ("train", "validation", "test"):
            labels, sources = self.of_shards(split=split)
            self.assertEqual(labels.dtype, np.uint8)
            expected = [[name in self.rows[row][1] for name in NAMES] for row in sources]
            np.testing.assert_array_equal(labels, np.array(expected, dtype=np.uint8))
        with h5py.File(next((self.folder / "shards").glob("train-*.h5"))) as file:
            self.assertEqual(json.loads(file.attrs["label_names"]), NAMES)
            self.assertEqual(file.attrs["task"], "multi_label")

    def test_arrays_of_json_and_other_separators_give_the_same_shards(self):
        source = [{"text": text, "labels": names} for text, names in self.rows]
        source[3]["labels"] = ",".join(self.rows[3][1])
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in source))
        self.prepare("json", source={"format": "jsonl", "files": [f"{self.folder}/rows.jsonl"]})
        text = (self.folder / "rows.tsv").read_text().splitlines()
        lines = [text[0]] + [line.split("\t")[0] + "\t" + line.split("\t")[1].replace(",", " ; ") for line in text[1:]]
        (self.folder / "spaced.tsv").write_text("\n".join(lines) + "\n")
        self.prepare("spaced", source={"files": [f"{self.folder}/spaced.tsv"], "label_separator": ";"})
        for other in ("json", "spaced"):
            for path in sorted((self.folder / "shards").glob("*.h5")):
                self.assertEqual((self.folder / other / path.name).read_bytes(), path.read_bytes(), f"{other}/{path.name}")

    def test_columns_of_0_and_1_give_the_same_sets(self):
        with open(self.folder / "columns.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id", "text", *NAMES])
            table.writerows([f"x{i}", text, *(int(name in names) for name in NAMES)] for i, (text, names) in enumerate(self.rows))
        lines = [{"text": text} | {name: name in names for name in NAMES} for text, names in self.rows]
        (self.folder / "columns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for kind in ("csv", "jsonl"):
            self.prepare(f"columns_{kind}", source={"format": kind, "files": [f"{self.folder}/columns.{kind}"], "label": None,
                                                    "label_columns": NAMES})
            for split in ("train", "validation", "test"):
                for ours, expected in zip(self.of_shards(f"columns_{kind}", split), self.of_shards(split=split)):
                    np.testing.assert_array_equal(ours, expected)
            with h5py.File(next((self.folder / f"columns_{kind}").glob("train-*.h5"))) as file:
                self.assertEqual(json.loads(file.attrs["label_names"]), NAMES)
        unknown = self.prepare("columns_unknown", check=3, source={
            "format": "csv", "files": [f"{self.folder}/columns.csv"], "label": None, "label_columns": [*NAMES, "musik"]})
        self.assertIn("columns.csv: has no column \"musik\" (did you mean \"music\"?)", unknown.stderr)

    def test_training_evaluation_and_prediction_agree(self):
        done, directory = self.start("learns", ranks=2, evaluation={"best": "micro_f1"})
        self.assertRegex(done.stdout, r"test at step \d+: loss [\d.e-]+, micro f1 [\d.]+, macro f1 [\d.]+, exact match [\d.]+\n")
        config = json.loads((directory / "model/config.json").read_text())
        self.assertEqual(config["problem_type"], "multi_label_classification")
        self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(config["id2label"], {str(i): name for i, name in enumerate(NAMES)})
        self.assertEqual(config["label2id"], {name: i for i, name in enumerate(NAMES)})
        with h5py.File(directory / "metrics.h5") as file:
            trained = values_of(file["evaluations/test"])
        self.assertGreater(trained["micro_f1"], 0.95)  # one word decides a name
        self.assertGreater(trained["macro_roc_auc"], 0.95)

        again = self.start("again", ranks=2, **self.with_model("evaluate", directory))[1]
        predicted = self.start("predicted", **self.with_model("predict", directory))[1]
        labels, sources = self.of_shards()
        with h5py.File(again / "metrics.h5") as metrics, h5py.File(again / "predictions.h5") as file:
            found = values_of(metrics["evaluations/test"])
            np.testing.assert_array_equal(file["label"], labels)
            probabilities, prediction = file["probabilities"][()].astype(float), file["prediction"][()]
            np.testing.assert_array_equal(prediction, probabilities >= 0.5)
            for name, values in class_report(labels, prediction).items():
                np.testing.assert_allclose(metrics[f"evaluations/test/per_class/{name}"][0], values, rtol=1e-15, err_msg=name)
            for name, value in scores(labels.astype(int), prediction).items():
                self.assertAlmostEqual(found[name], value, places=12)
            # Of float32 probabilities.
            loss = -np.where(labels == 1, np.log(probabilities), np.log1p(-probabilities)).mean()
            self.assertAlmostEqual(found["loss"], loss, places=5)
        for name, value in trained.items():
            if name != "step":
                self.assertAlmostEqual(found[name], value, places=5, msg=name)
        with h5py.File(predicted / "predictions.h5") as file:
            self.assertEqual(list(file.attrs["label_names"]), NAMES)
            np.testing.assert_array_equal(file["source_index"], sources)
            self.assertTrue((file["label"][()] == -1).all())
            np.testing.assert_allclose(file["probabilities"], probabilities, atol=1e-6)
        self.check_text(again / "predictions.csv", sources, labels, prediction)

    def test_a_threshold_decides_on_metrics_and_predictions(self):
        _, directory = self.start("short", schedule={"epochs": 2})
        found = {}
        for threshold in (None, 0.5, 0.3):
            again = self.start(f"threshold-{threshold}", task={"threshold": threshold}, **self.with_model("evaluate", directory))[1]
            with h5py.File(again / "metrics.h5") as metrics, h5py.File(again / "predictions.h5") as file:
                found[threshold] = values_of(metrics["evaluations/test"])
                labels, prediction, probabilities = (file[name][()] for name in ("label", "prediction", "probabilities"))
            # A probability is rounded to 2^-24; none of these lies so near.
            np.testing.assert_array_equal(prediction, probabilities >= (threshold or 0.5))
            for name, value in scores(labels, prediction).items():
                self.assertAlmostEqual(found[threshold][name], value, places=12)
            self.assertAlmostEqual(found[threshold]["lrap"], ranking_precision(labels, probabilities), places=12)
        self.assertEqual(found[None], found[0.5])
        self.assertNotEqual(found[0.3]["micro_f1"], found[0.5]["micro_f1"])
        self.assertEqual(found[0.3]["macro_roc_auc"], found[0.5]["macro_roc_auc"])

    def test_the_best_threshold_of_the_validation_split_decides_on_the_test_split(self):
        _, directory = self.start("searched", schedule={"epochs": 2}, task={"threshold": "search"})
        with h5py.File(directory / "metrics.h5") as file:
            validation, test = (values_of(file[f"evaluations/{split}"]) for split in ("validation", "test"))
        with h5py.File(directory / "predictions.h5") as file:
            prediction, probabilities = (file[name][()] for name in ("prediction", "probabilities"))
        # The model is that of the last evaluation.
        np.testing.assert_array_equal(prediction, probabilities >= validation["best_threshold"])
        again = self.start("found", task={"threshold": float(validation["best_threshold"])}, **self.with_model("evaluate", directory))[1]
        with h5py.File(again / "metrics.h5") as file:
            found = values_of(file["evaluations/test"])
        self.assertEqual({name: found[name] for name in ("micro_f1", "macro_f1", "exact_match")},
                         {name: test[name] for name in ("micro_f1", "macro_f1", "exact_match")})
        log = (directory / "log.txt").read_text()
        self.assertIn(f"threshold {validation['best_threshold']:.9g} has the best micro f1 of the validation split", log)
        refused = self.start("refused", task={"threshold": "search"}, check=2, **self.with_model("evaluate", directory))[0]
        self.assertIn("looks for the best one of the validation split in a training", refused.stderr)

    def check_text(self, path, sources, labels, prediction):
        with open(path, newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0], ["row", "label", "prediction"] + [f"probability_{name}" for name in NAMES])
        for line, source, label, guess in zip(lines[1:], sources, labels, prediction):
            self.assertEqual(line[:3], [str(source)] + [",".join(np.array(NAMES)[row == 1]) for row in (label, guess)])

    def test_layouts_have_the_same_bits(self):
        def model_of(name, ranks, parallel):
            directory = self.start(name, ranks, parallel=parallel, run={"reproducible": True},
                                   schedule={"epochs": None, "steps": 8})[1]
            with h5py.File(directory / "metrics.h5") as file:
                return (directory / "model/model.safetensors").read_bytes(), list(file["evaluations/validation/loss"])
        expected = model_of("one", 1, {})
        for name, parallel in (("two", {}), ("stages", {"pipeline": 2})):
            self.assertEqual(model_of(name, 2, parallel), expected, name)
        self.assertEqual(len(model_of("tensor", 2, {"tensor": 2})[0]), len(expected[0]))

    def test_wrong_labels_are_named_with_file_and_line(self):
        path = self.folder / "wrong.tsv"
        write_tsv(path, self.rows[:20] + [("a dog", ["animal", "animal"]), ("a cat", ["animal", "plant"]), ("some", [])])
        source = {"source": {"files": [str(path)]}, "split": {"train": 0.5, "validation": 0.5, "test": 0.0}}
        done = self.prepare("wrong", check=3, filter={"max_rejected": 0.0}, **source)
        self.assertIn(f'{path}, row 21, line 22: the label has a name twice ("animal")', done.stderr)
        self.prepare("wrong", task={"name": "multi_label", "labels": NAMES}, **source)
        rejects = (self.folder / "wrong/rejects.tsv").read_text()
        self.assertIn(f'{path}\t21\t22\tthe label has a name twice ("animal")\n', rejects)
        self.assertIn(f'{path}\t22\t23\tthe label is not in [task] labels ("plant")\n', rejects)
        self.assertEqual(rejects.count("\n"), 3)

    def test_rare_names_leave_the_sets(self):
        done = self.prepare("rare", filter={"most_frequent_labels": 2})
        kept = sorted(NAMES, key=lambda name: -sum(name in names for _, names in self.rows))[:2]
        labels, sources = self.of_shards("rare")
        self.assertEqual(labels.shape[1], 2)
        np.testing.assert_array_equal(labels, [[name in self.rows[row][1] for name in sorted(kept)] for row in sources])
        self.assertIn("labels      2:", done.stdout)

    def test_data_that_do_not_go_with_the_task_are_refused(self):
        write_tsv(self.folder / "none.tsv", [(text, []) for text, _ in self.rows[:20]])
        done = self.prepare("none", check=3, source={"files": [f"{self.folder}/none.tsv"]})
        self.assertIn("No label name is left", done.stderr)
        done = self.prepare("strata", check=2, split={"stratify": True})
        self.assertIn("[split] stratify = true has no meaning for multi_label", done.stderr)
        done, _ = self.start("other", check=3, task={"name": "classification"})
        self.assertIn("it was made for task 'multi_label'", done.stderr)


class Examples(unittest.TestCase):
    def test_the_inputs_run_as_they_stand(self):
        with tempfile.TemporaryDirectory(prefix="bert_hpc_test_") as name:
            folder = pathlib.Path(name)
            (folder / "goemotions").mkdir()
            for seed, (split, count) in enumerate((("train", 300), ("dev", 40), ("test", 40))):
                (folder / "goemotions" / f"{split}.tsv").write_text("".join(
                    f"{text}\t{','.join(str(NAMES.index(n)) for n in names)}\tid{row}\n"
                    for row, (text, names) in enumerate(rows(count, seed))))
            run("bert_hpc_prep", INPUT / "multi_label_prep.toml", check=0, cwd=folder)
            run("bert_hpc", INPUT / "multi_label.toml", check=0, cwd=folder, threads=1)
            with h5py.File(folder / "goemotions/run/metrics.h5") as file:
                self.assertEqual(list(file.attrs["label_names"]), ["0", "1", "2"])
                self.assertEqual(len(file["evaluations/validation/micro_f1"]), 5)
            with h5py.File(folder / "goemotions/run/predictions.h5") as file:
                self.assertEqual(file["probabilities"].shape, (40, 3))


if __name__ == "__main__":
    unittest.main()
