"""explore.py on shards that are made here, and on a table: which pictures there are, and what their numbers come from."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "postprocess"
sys.path[:0] = [str(SCRIPTS)]

import explore  # noqa: E402  (first: it reports missing packages)
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from rundata import ReportError  # noqa: E402


def write_shard(path, task, labels, names=(), lengths=(3, 5, 8)):
    with h5py.File(path, "w") as file:
        file.attrs.update({"schema": "bert_hpc shard 2", "task": task, "label_names": json.dumps(list(names)), "label_column": "score",
                           "tokenizer": json.dumps({"max_tokens": 8})})
        file["offsets"] = np.concatenate([[0], np.cumsum(lengths)])
        file["input_ids"] = np.arange(sum(lengths), dtype=np.uint16) % 4
        file["labels"] = labels


class Explore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pictures(self, *words):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(explore.explore([*map(str, words), "--output", str(self.folder / "out")]), 0)
        return {path.stem for path in (self.folder / "out").glob("*.png")}

    def test_shards_of_every_kind_of_label(self):
        (self.folder / "vocab.txt").write_text("[PAD]\n[CLS]\nriver\ntown\n")
        for task, labels, names, expected in (("classification", np.array([0, 1, 1]), ("a", "b"), {"lengths", "labels", "tokens"}),
                                              ("regression", np.array([1.5, 2.0, np.nan]), (), {"lengths", "labels", "tokens"}),
                                              ("regression", np.array([[1.5, np.nan], [2.0, 3], [np.nan, 4]]), ("a", "b"),
                                               {"lengths", "labels", "tokens"}),
                                              ("multi_label", np.array([[1, 0], [1, 1], [0, 1]], dtype=np.uint8), ("a", "b"),
                                               {"lengths", "labels", "together", "tokens"})):
            write_shard(self.folder / "train-00000.h5", task, labels, names)
            for old in (self.folder / "out").glob("*"):
                old.unlink()
            self.assertEqual(self.pictures(self.folder), expected, task)
        shards = explore.Shards([self.folder / "train-00000.h5"] * 2)
        self.assertEqual(shards.lengths.tolist(), [3, 5, 8] * 2)
        self.assertEqual(shards.counts[1], 8)
        self.assertEqual(shards.vocabulary[2], "river")
        self.assertEqual(shards.max_tokens, 8)

    def test_a_table_beside_the_shards(self):
        write_shard(self.folder / "train-00000.h5", "regression", np.array([1.0, 2.0, 3.0]))
        table = self.folder / "table.csv"
        table.write_text('text,score,kind\n"one two\nthree",1,x\n\nfour,2,y\n"say ""yes"" now",,x\n')
        self.assertEqual([row["text"] for row in explore.table_of(table)], ["one two\nthree", "four", 'say "yes" now'])
        found = self.pictures(self.folder, "--table", table, "--label", "score", "--category", "kind")
        self.assertEqual(found, {"lengths", "labels", "tokens", "words", "scores", "length_score", "boxes", "correlations"})

    def test_errors(self):
        (self.folder / "other.h5").write_text("no HDF5")
        for paths, text in (([self.folder / "other.h5"], "Cannot read"), ([self.folder / "absent.h5"], "Cannot read")):
            with self.assertRaisesRegex(ReportError, text):
                explore.Shards(paths)
        with self.assertRaisesRegex(ReportError, "There are no shards"):
            explore.shard_paths([tempfile.mkdtemp(dir=self.folder)])
        write_shard(self.folder / "train-00000.h5", "regression", np.array([1.0, 2.0, 3.0]))
        table = self.folder / "table.csv"
        table.write_text("text\na\n")
        with self.assertRaisesRegex(ReportError, "has no column 'grade'; it has 'text'"):
            list(explore.draw_table(table, "text", "grade"))


if __name__ == "__main__":
    unittest.main()
