"""What a run leaves for people: predictions.csv beside predictions.h5 in all modes, the names of macro means, and a manual that names
every dataset and attribute of metrics.h5."""

import csv
import math
import pathlib
import re
import unittest

import h5py
import numpy as np

import program
from saved import class_report

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "postprocess" / "README.md"


def names_in(text):
    """Everything that the manual sets as code."""
    return set(re.findall(r"`([^`]+)`", text))


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def unnamed(path):
    """Datasets and attributes of a metrics.h5 that the manual does not name."""
    manual, missing = names_in(MANUAL.read_text(encoding="utf-8")), []

    def check(name, item):
        general = re.sub(r"^evaluations/(validation|test)/", "evaluations/SPLIT/", name)
        if isinstance(item, h5py.Dataset) and not {name, general} & manual:
            if not (general.startswith("evaluations/SPLIT/") and general.rpartition("/")[2] in manual):
                missing.append(name)
        missing.extend(f"{name}: {attribute}" for attribute in item.attrs if attribute not in manual)

    with h5py.File(path) as file:
        file.visititems(check)
        return missing + [f"root: {attribute}" for attribute in file.attrs if attribute not in manual]


class Results(program.Case):
    """A training in fp16 with two micro-batches a step, which fills every group that a CPU can fill."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shards = cls.work.folder / "shards"
        cls.data = {"test": [f"{shards}/test-*.h5"]}
        path = cls.work.input(data=cls.data, precision={"compute": "fp16"}, batch={"micro_batches": 2}, schedule={"epochs": 8},
                              log={"profile": True},
                              evaluation={"best": "f1"})
        cls.out = program.run("bert_hpc", path, ranks=2, threads=1, check=0).stdout

    def test_the_manual_names_everything(self):
        self.assertEqual(unnamed(self.work.folder / "run" / "metrics.h5"), [])
        with h5py.File(self.work.folder / "run" / "metrics.h5") as file:
            self.assertEqual(set(file), {"steps", "evaluations", "efficiency", "loss_scale", "timers", "profile", "ranks", "data", "provenance"})
            sections = {name.decode() for name in file["timers/name"]}
        known = {name.strip() for line in MANUAL.read_text(encoding="utf-8").splitlines() for name in re.split(r"[|,*]", line)}
        self.assertEqual(sections - known, set())

    def test_macro_means_are_called_so(self):
        self.assertRegex(self.out, r"validation at step \d+: loss .*, accuracy .*, macro precision .*, macro recall .*, macro f1 0")
        self.assertNotRegex(self.out, r", f1 ")
        with h5py.File(self.work.folder / "run" / "metrics.h5") as file:
            self.assertEqual(file["evaluations/test/f1"].attrs["label"], "macro f1")
            self.assertEqual(file["evaluations/test/accuracy"].attrs["label"], "accuracy")
            better = {name: int(item.attrs["larger_is_better"]) for name, item in file["evaluations/test"].items()
                      if "larger_is_better" in item.attrs}
            self.assertEqual({name for name, value in better.items() if value == 0}, {"loss", "ece"})
            self.assertGreater(len(better), 4)

    def check_classes(self, folder, split, labelled=True):
        rows = read_rows(folder / "predictions.csv")
        with h5py.File(folder / "predictions.h5") as file:
            names = list(file.attrs["label_names"])
            self.assertEqual(file.attrs["split"], split)
            self.assertEqual([int(row["row"]) for row in rows], list(file["source_index"]))
            self.assertEqual([row["prediction"] for row in rows], [names[i] for i in file["prediction"]])
            self.assertEqual([row["label"] for row in rows], [names[i] if i >= 0 else "" for i in file["label"]])
            self.assertEqual(any(row["label"] for row in rows), labelled)
            columns = [[float(row[f"probability_{name}"]) for name in names] for row in rows]
            np.testing.assert_array_equal(np.float32(columns), file["probabilities"][:])
            np.testing.assert_array_equal(np.float32([row["probability"] for row in rows]), file["probabilities"][:].max(axis=1))
        self.assertEqual(list(rows[0]), ["row", "label", "prediction", "probability", *(f"probability_{name}" for name in names)])
        self.assertGreater(len(rows), 20)
        self.assertEqual(list(folder.glob("*.partial")), [])

    def test_predictions_as_text_in_every_mode(self):
        folder = self.work.folder
        self.check_classes(folder / "run", "test")
        tables = {"schedule": None, "optimizer": None, "batch": None, "evaluation": None}
        for mode, split in (("predict", "test"), ("evaluate", "validation")):
            data = {"train": None} | ({"validation": None} | self.data if split == "test" else {})
            path = self.work.input(f"{mode}.toml", run={"mode": mode, "directory": str(folder / mode), "seed": None}, data=data,
                                   model={key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                                                                "intermediate_size", "max_position_embeddings")} |
                                   {"pretrained": str(folder / "run" / "model")}, **tables)
            program.run("bert_hpc", path, ranks=2, threads=1, check=0)
            self.check_classes(folder / mode, split, labelled=mode == "evaluate")

    def test_figures_of_single_classes_follow_from_the_predictions(self):
        with h5py.File(self.work.folder / "run" / "metrics.h5") as metrics, h5py.File(self.work.folder / "run" / "predictions.h5") as file:
            classes = np.eye(len(file.attrs["label_names"]))
            group = metrics["evaluations/test/per_class"]
            self.assertEqual(set(group), {"precision", "recall", "f1", "support"})
            for name, values in class_report(classes[file["label"][()]], classes[file["prediction"][()]]).items():
                np.testing.assert_allclose(group[name][-1], values, rtol=1e-15, err_msg=name)
            validation = metrics["evaluations/validation"]
            self.assertEqual(validation["per_class/f1"].shape, (len(validation["step"]), len(classes)))
            for row, matrix in enumerate(validation["confusion_matrix"]):
                np.testing.assert_array_equal(validation["per_class/support"][row], matrix.sum(axis=1))
                np.testing.assert_allclose(validation["per_class/recall"][row] * np.maximum(matrix.sum(axis=1), 1), np.diag(matrix))

    def test_the_calibration_error_follows_from_the_predictions(self):
        """Guo et al. 2017, equation 3, sample by sample."""
        with h5py.File(self.work.folder / "run" / "metrics.h5") as metrics, h5py.File(self.work.folder / "run" / "predictions.h5") as file:
            confidence, right = file["probabilities"][()].max(axis=1).astype(float), file["label"][()] == file["prediction"][()]
            error = 0.0
            for bin in range(15):
                inside = (confidence > bin / 15) & (confidence <= (bin + 1) / 15)
                if inside.any():
                    error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
            # Probabilities of two softmax functions in single precision, each to about 6 units of 2^-24.
            self.assertAlmostEqual(metrics["evaluations/test/ece"][-1], error, delta=1e-6)
            self.assertEqual(metrics["evaluations/test/ece"].attrs["label"], "expected calibration error")
        self.assertNotIn("calibration", self.out)

    def test_a_new_start_removes_the_predictions_of_the_old(self):
        folder = self.work.folder / "again"
        with_test = self.work.input("with.toml", run={"directory": str(folder)}, data=self.data, schedule={"epochs": 1})
        without = self.work.input("without.toml", run={"directory": str(folder)}, schedule={"epochs": 1})
        program.run("bert_hpc", with_test, threads=1, check=0)
        self.assertTrue((folder / "predictions.csv").is_file())
        program.run("bert_hpc", without, "--overwrite", threads=1, check=0)
        self.assertEqual(sorted(path.name for path in folder.glob("predictions.*")), [])


class Values(program.Case):
    task = "regression"

    def test_predictions_as_text(self):
        folder = self.work.folder / "run"
        path = self.work.input(data={"test": [f"{self.work.folder}/shards/test-*.h5"]}, schedule={"epochs": 1})
        out = program.run("bert_hpc", path, threads=1, check=0).stdout
        self.assertIn(", rmse ", out)
        rows = read_rows(folder / "predictions.csv")
        with h5py.File(folder / "predictions.h5") as file:
            self.assertEqual(list(rows[0]), ["row", "label", "prediction"])
            self.assertEqual((file.attrs["split"], file.attrs["label_column"]), ("test", "score"))
            for column, name in (("row", "source_index"), ("label", "label"), ("prediction", "prediction")):
                kind = file[name].dtype.type
                np.testing.assert_array_equal(np.array([row[column] for row in rows], dtype=np.float64).astype(kind), file[name][:])
        self.assertFalse(any(math.isnan(float(row["label"])) for row in rows))
        self.assertEqual(unnamed(folder / "metrics.h5"), [])


if __name__ == "__main__":
    unittest.main()
