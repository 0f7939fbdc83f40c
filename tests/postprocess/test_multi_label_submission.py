"""The table of a multi_label run's probabilities: ids, order, and predictions that it cannot be made of."""

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

import make_run  # noqa: E402
import multi_label_submission  # noqa: E402


class Submission(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name)
        make_run.write_metrics(self.run_folder, None, {}, mode="predict")
        self.predict([[0.25, 1], [0.125, 0], [0.1, 0.75]], [2, 0, 1])

    def predict(self, probabilities, index, task="multi_label"):
        sets = np.full((len(index), 2), -1, np.int32)
        make_run.write_predictions(self.run_folder, task, sets, sets, ["toxic", "threat"])
        with h5py.File(self.run_folder / "predictions.h5", "r+") as file:
            file["source_index"][...] = index
            file["probabilities"] = np.array(probabilities, np.float32)

    def submit(self, *arguments):
        """Exit status, what was printed as an error, and the file's lines."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            status = multi_label_submission.main([str(self.run_folder), *arguments])
        path = self.run_folder / "multi_label.csv"
        return status, printed.getvalue(), path.read_text().splitlines() if path.exists() else []

    def test_rows_are_in_the_order_of_the_text(self):
        self.assertEqual(self.submit(), (0, "", ["id,toxic,threat", "0,0.125,0.0", "1,0.1,0.75", "2,0.25,1.0"]))

    def test_ids_come_from_a_column(self):
        text = self.run_folder / "test.csv"
        text.write_text("id,comment\nx7,a\nx9,b\nx8,c\n")
        self.assertEqual(self.submit("--text", str(text)), (0, "", ["id,toxic,threat", "x7,0.125,0.0", "x9,0.1,0.75", "x8,0.25,1.0"]))
        self.assertEqual(self.submit("--text", str(text), "--id", "comment")[2][1], "a,0.125,0.0")

    def test_other_files_and_predictions_are_refused(self):
        text = self.run_folder / "test.csv"
        for content, words in (("id\nx\nx\ny\n", "have 2 different ids"), ("id\nx\ny\n", "2 rows; the predictions are of rows up to 2"),
                               ("name\nx\ny\nz\n", "has no column 'id'")):
            text.write_text(content)
            status, error, lines = self.submit("--text", str(text))
            self.assertEqual((status, lines), (4, []))
            self.assertIn(words, error)
        self.predict([[0, 1]], [0], task="classification")
        status, error, _ = self.submit()
        self.assertEqual(status, 4)
        self.assertIn("needs predictions of multi_label", error)


if __name__ == "__main__":
    unittest.main()
