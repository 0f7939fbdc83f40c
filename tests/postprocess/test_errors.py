"""The worst predicted rows in the report: which they are, and their texts from the files that bert_hpc_prep read."""

import contextlib
import csv
import gzip
import io
import json
import pathlib
import sys
import tempfile
import unittest

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "postprocess")]

import command  # noqa: E402
import errors  # noqa: E402
import make_run  # noqa: E402
import reading  # noqa: E402
import report  # noqa: E402
import source_text  # noqa: E402


class Errors(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def predicted(self, task, label, prediction, probabilities=None, names=()):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, task=task, mode="evaluate",
                               resolved_input='[run]\ndirectory = "run"\n\n[data]\nvalidation = []\ntest = ["shards/test-*.h5"]\n')
        make_run.write_predictions(run, task, label, prediction, names)
        with h5py.File(run / "predictions.h5", "r+") as file:
            file.attrs["split"] = "test"
            if probabilities is not None:
                file["probabilities"] = np.float32(probabilities)
        return run

    def prepared(self, label, **source):
        """prep.toml and an empty shard beside it, as if bert_hpc_prep had been started in the test's folder."""
        source = {"format": "tsv", "files": ["texts/a.tsv"], "validation_files": [], "test_files": ["texts/b.tsv"], "text": ["text"],
                  "text_pair": ["note"], "label": label, "label_separator": "", "encoding": "utf-8", "header": True, "columns": 0,
                  "unit": "line"} | source
        (self.folder / "shards").mkdir(exist_ok=True)
        (self.folder / "shards/test-00000.h5").touch()
        (self.folder / "shards/prep.toml").write_text("[source]\n" + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in source.items()) + '\n[output]\ndirectory = "shards"\n')

    def texts(self, rows, begin=2):
        (self.folder / "texts").mkdir(exist_ok=True)
        for name, part in (("a", rows[:begin]), ("b", rows[begin:])):
            (self.folder / f"texts/{name}.tsv").write_text("text\tnote\tlabel\n" + "".join("\t".join(row) + "\n" for row in part))

    def reported(self, run, *arguments):
        """(lines of errors.csv, its section of summary.md)"""
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(command.guarded(lambda: report.report([str(run), *map(str, arguments)])), 0)
        with open(run / "report/errors.csv", newline="") as file:
            return list(csv.reader(file)), (run / "report/summary.md").read_text().partition("## Largest errors")[2]

    def classes(self):
        probabilities = [[0.75, 0.25], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]]
        return self.predicted("classification", np.int32([0, 1, 0, -1]), np.int32([0, 0, 1, 0]), probabilities, ["no", "yes"])

    def test_classes_by_their_loss_with_texts(self):
        run = self.classes()
        self.prepared("label")
        self.texts([("first", "1", "no"), ("second | text", "2", "yes"), ("third", "3", "no"), ("fourth", "4", "")])
        lines, section = self.reported(run)
        self.assertEqual(lines[0], ["row", "loss", "label", "prediction", "probability_of_label", "probability_of_prediction", "text", "note"])
        self.assertEqual([line[0] for line in lines[1:]], ["2", "1", "0"])  # the last has no label
        self.assertEqual(lines[1][2:], ["no", "yes", "0", "1", "third", "3"])
        self.assertAlmostEqual(float(lines[1][1]), 149 * np.log(2), places=3)
        self.assertAlmostEqual(float(lines[2][1]), -np.log(0.1), places=5)
        self.assertIn("second \\| text", section)
        self.assertIn("|---|---:|---:|---:|---:|---:|---|---|\n", section)
        self.assertNotIn("Without texts", section)

    def test_what_is_missing_is_said(self):
        run = self.classes()
        lines, section = self.reported(run)
        self.assertEqual([line[0] for line in lines[1:]], ["2", "1", "0"])
        self.assertIn("Without texts: the shards that the run's input names are not there", section)
        self.prepared("label")
        self.assertIn("there is no 'texts/a.tsv', which '", self.reported(run)[1])
        self.texts([("first", "1", "no"), ("second", "2", "no"), ("third", "3", "no")])
        self.assertIn("have other labels now", self.reported(run)[1])  # of row 1
        self.texts([("first", "1", "no"), ("second", "2", "yes")])
        self.assertIn("Without texts: the texts cannot be read: ", self.reported(run)[1])
        self.prepared("label", format="squad")
        self.assertIn('files of format "squad" are not looked up; name files with the texts with --text', self.reported(run)[1])
        (self.folder / "lines.txt").write_text("uno\n\ndue\ntre\nquattro\n")
        (run / "predictions.csv").write_text("row,label,prediction\n0,no,no\n")  # --text needs it
        lines, section = self.reported(run, "--text", self.folder / "lines.txt")
        self.assertEqual([line[-1] for line in lines], ["text", "tre", "due", "uno"])

    def test_values_by_their_absolute_error(self):
        run = self.predicted("regression", np.float32([1.1, 2, np.nan, 4]), np.float32([1.6, 0, 3, 4.25]))
        self.prepared("label", format="csv", files=["texts/c.csv"], test_files=[], header=False, text=["1"], text_pair=[], delimiter=";")
        (self.folder / "texts").mkdir()
        with gzip.open(self.folder / "texts/c.csv", "wt") as file:
            file.write('"one; ""and\nmore";1.1\ntwo;2\nthree;3\nfour;4\n')
        text = (self.folder / "shards/prep.toml").read_text()
        (self.folder / "shards/prep.toml").write_text(text.replace('label = "label"', 'label = "2"'))
        lines, _ = self.reported(run)
        self.assertEqual(lines, [["row", "error", "label", "prediction", "1"], ["1", "-2", "2", "0", "two"],
                                 ["0", "0.5", "1.1", "1.6", 'one; "and\nmore'], ["3", "0.25", "4", "4.25", "four"]])

    def test_sets_by_their_mean_loss(self):
        label, probabilities = np.int32([[1, 0], [0, 0], [1, 1]]), np.float32([[0.5, 0.5], [1.0, 0.25], [0.9, 0.6]])
        run = self.predicted("multi_label", label, (probabilities >= 0.5).astype("i4"), probabilities, ["a", "b"])
        lines, _ = self.reported(run)
        self.assertEqual([line[0] for line in lines[1:]], ["1", "0", "2"])
        self.assertEqual([line[2:] for line in lines[1:]], [["", "a"], ["a", "a,b"], ["a,b", "a,b"]])
        self.assertAlmostEqual(float(lines[1][1]), (25 * np.log(2) - np.log(0.75)) / 2, places=4)
        self.assertAlmostEqual(float(lines[2][1]), np.log(2), places=5)

    def test_runs_without_labels_have_no_errors(self):
        run = self.predicted("classification", np.int32([-1, -1]), np.int32([0, 1]), [[0.5, 0.5], [0.4, 0.6]], ["no", "yes"])
        self.assertEqual(errors.of_run(reading.load_run(run, "run")), ([], []))
        run = self.predicted("classification", np.int32([0, 1]), np.int32([0, 1]), None, ["no", "yes"])
        self.assertEqual(errors.of_run(reading.load_run(run, "run")), ([], []))

    def test_columns_of_a_table_without_quotes(self):
        path = self.folder / "trec.label"
        path.write_bytes("DESC:manner How d\xefd it \"go ?\nNUM:dist How far\n".encode("latin-1"))
        form = source_text.Form("csv", " ", quotes=False, header=False, columns=2, encoding="latin-1")
        self.assertEqual(source_text.texts_of([path], ["2", "1"], {0, 1}, form),
                         {0: ['How d\xefd it "go ?', "DESC:manner"], 1: ["How far", "NUM:dist"]})


if __name__ == "__main__":
    unittest.main()
