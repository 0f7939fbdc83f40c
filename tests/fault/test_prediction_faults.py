"""Predictions that cannot be written: all ranks leave with the status of files, one error says which file, and no part of one
is left."""

import pathlib
import sys
import unittest

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import program

ROWS = 20000


class FullDisk(program.TaskCase):
    task = "classification"
    hidden_size, max_tokens, epochs = 32, 8, 1
    shards = {"train": ["train/train-*.h5"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_rows("train", 200, 20, train_size=120)
        cls.prepare_rows("many", ROWS, 20, vocabulary="train")
        cls.train("trained")

    def predict(self, directory, mode, ranks, check):
        return self.train(mode, ranks, check, run={"mode": mode, "directory": str(directory)},
                          model={"pretrained": "trained/model"}, data={"train": None, "test": ["many/train-*.h5"]})

    def test_no_part_of_a_file_is_left(self):
        for mode in ("predict", "evaluate"):
            for ranks in (1, 2):
                # A row of predictions.csv takes more than 100 bytes, so all 2 MB and more; the rest of the directory far less than 1 MiB.
                directory = program.small_disk(self, 1500) / "run"
                done = self.predict(directory, mode, ranks, 4)
                self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
                self.assertIn(f"{directory}/predictions.csv.partial", done.stderr)
                self.assertIn("No space left on device", done.stderr)
                self.assertEqual(list(directory.glob("predictions*")), [])
                self.assertEqual((directory / ".status").read_text().strip(), "failed")

    def test_with_space_the_same_run_writes_them(self):
        directory = self.folder / "whole"
        self.predict(directory, "predict", 2, 0)
        self.assertGreater((directory / "predictions.csv").stat().st_size, 100 * ROWS)
        with h5py.File(directory / "predictions.h5") as file:
            self.assertEqual(file.attrs["rows"], ROWS)
        self.assertEqual(list(directory.glob("*.partial")), [])


if __name__ == "__main__":
    unittest.main()
