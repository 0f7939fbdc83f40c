"""GLUE's submission files: names, order and labels, and predictions that are not those of the task's test file."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "postprocess")]

import glue_submission  # noqa: E402
import make_run  # noqa: E402


class Submission(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name)
        make_run.write_metrics(self.run_folder, None, {}, mode="predict")

    def predict(self, prediction, names=(), index=None, task="classification"):
        kind = np.float32 if task == "regression" else np.int32
        make_run.write_predictions(self.run_folder, task, np.full(len(prediction), -1, kind), np.array(prediction, kind), names)
        if index is not None:
            with h5py.File(self.run_folder / "predictions.h5", "r+") as file:
                file["source_index"][...] = index

    def submit(self, *arguments):
        """Exit status, what was printed as an error, and the rows of the file after its header."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            status = glue_submission.main([arguments[0], str(self.run_folder), *arguments[1:]])
        path = self.run_folder / f"{arguments[0]}.tsv"
        lines = path.read_text().splitlines() if path.exists() else [""]
        if status == 0:
            self.assertEqual(lines[0], "index\tprediction")
        return status, printed.getvalue(), lines[1:]

    def test_rows_are_in_the_order_of_the_test_file(self):
        self.predict([1, 0, 1], ["entailment", "not_entailment"], index=[2, 0, 1])
        self.assertEqual(self.submit("RTE"), (0, "", ["0\tentailment", "1\tnot_entailment", "2\tnot_entailment"]))

    def test_scores_are_numbers(self):
        self.predict([4.75, 0.125], task="regression")
        self.assertEqual(self.submit("STS-B"), (0, "", ["0\t4.75", "1\t0.125"]))

    def test_rejected_rows_need_a_prediction(self):
        self.predict([1, 0], ["0", "1"], index=[0, 2])
        status, error, lines = self.submit("QQP")
        self.assertEqual((status, lines), (4, []))
        self.assertIn("no prediction for 1 rows, the first has the index 1", error)
        self.assertEqual(self.submit("QQP", "--rows", "4", "--missing", "0"), (0, "", ["0\t1", "1\t0", "2\t0", "3\t0"]))

    def test_other_predictions_are_refused(self):
        self.predict([1, 0], ["0", "1"])
        for task, words in (("MNLI-m", "labels of MNLI-m are contradiction"), ("STS-B", "needs predictions of a regression")):
            status, error, _ = self.submit(task)
            self.assertEqual(status, 4)
            self.assertIn(words, error)
        self.predict([1, 0], ["0", "1"], index=[0, 0])
        self.assertIn("not one per row", self.submit("CoLA")[1])
        self.predict([1, 0], ["0", "1"])
        self.assertIn("not one per row", self.submit("CoLA", "--rows", "1")[1])

    def test_a_run_without_predictions(self):
        self.assertIn("There is no 'predictions.h5'", self.submit("CoLA")[1])


if __name__ == "__main__":
    unittest.main()
