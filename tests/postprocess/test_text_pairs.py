"""text_pairs.py on files that are made here: ranks and correlations against plain loops, and what it refuses."""

import contextlib
import csv
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "postprocess"
sys.path[:0] = [str(SCRIPTS)]

import text_pairs  # noqa: E402  (first: it reports missing packages)
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from rundata import ReportError  # noqa: E402


def write(path, texts, numbers, scores=None):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file["embeddings"] = texts.astype(np.float32)
        file["embeddings"].attrs["type"] = "fp32"
        file["source_index"] = numbers
        if scores is not None:
            file["labels"] = scores.astype(np.float32)


def rows(count, texts, seed=1):
    """`texts` texts of each row, near to the row's direction, and the numbers of their rows."""
    draw = np.random.default_rng(seed)
    directions = draw.normal(size=(count, 1, 6))
    return (directions + 0.7 * draw.normal(size=(count, texts, 6))).reshape(-1, 6), np.repeat(np.arange(count), texts)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


class TextPairs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "embeddings"

    def draw(self, *words):
        """What it prints, the names of the pictures, and the numbers."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            self.assertEqual(text_pairs.draw([*map(str, words)]), 0)
        pictures = self.folder / "pictures"
        with open(next(pictures.glob("*.csv")), encoding="utf-8") as file:
            names, values = csv.reader(file)
        return shown.getvalue(), {path.stem for path in pictures.glob("*.png")}, dict(zip(names, map(float, values)))

    def test_ranks_among_the_texts_of_the_whole_split(self):
        texts, numbers = rows(40, 3)
        part = 60  # two files
        write(self.folder / "test-00000.h5", texts[:part], numbers[:part])
        write(self.folder / "test-00001.h5", texts[part:], numbers[part:])
        with mock.patch.object(text_pairs, "BLOCK", 7):
            shown, pictures, found = self.draw(self.folder.parent)
        self.assertEqual(pictures, {"pairs-test"})
        anchors, candidates = texts[::3], np.concatenate([texts[1::3], texts[2::3]])
        ranks = []
        for row, anchor in enumerate(anchors):
            near = [cosine(anchor, candidate) for candidate in candidates]
            ranks.append(sum(value >= near[row] - 1e-9 for value in near))
        self.assertTrue(1 < np.mean(ranks) < 20)
        for cut in (1, 5, 10):
            self.assertAlmostEqual(found[f"recall_at_{cut}"], np.mean([rank <= cut for rank in ranks]))
        self.assertNotIn("recall_at_100", found)
        self.assertAlmostEqual(found["mrr_at_10"], np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]))
        self.assertEqual((found["rows"], found["candidates"]), (40, 80))
        self.assertRegex(shown, r"mrr_at_10 +0\.")

    def test_rows_need_not_have_equally_many_texts(self):
        texts, numbers = rows(30, 3)
        kept = np.array([i % 3 < 2 or i % 2 == 1 for i in range(90)])
        write(self.folder / "train-00000.h5", texts[kept], numbers[kept])
        found = text_pairs.Rows([self.folder / "train-00000.h5"], "train")
        self.assertEqual(len(found.negatives), 15)
        for anchor, negative in zip(found.anchors, found.negatives):
            expected = texts[3 * anchor + 2]
            np.testing.assert_allclose(negative, expected / np.linalg.norm(expected), atol=1e-6)

    def test_scores(self):
        texts, numbers = rows(50, 2)
        cosines = np.array([cosine(texts[i], texts[i + 1]) for i in range(0, 100, 2)])
        scores = np.round(5 * cosines**3 + np.random.default_rng(3).normal(size=50), 0)
        write(self.folder / "validation-00000.h5", texts, numbers, np.repeat(scores, 2))
        _, pictures, found = self.draw(self.folder, "--split", "validation")
        self.assertEqual(pictures, {"pairs-validation"})
        self.assertAlmostEqual(found["pearson"], np.corrcoef(scores, cosines)[0, 1], places=5)
        middle = [[sum(other < value for other in all_of) + (sum(other == value for other in all_of) - 1) / 2 for value in all_of]
                  for all_of in (scores, cosines)]
        self.assertAlmostEqual(found["spearman"], np.corrcoef(*middle)[0, 1], places=5)

    def test_other_embeddings_are_refused(self):
        texts, numbers = rows(20, 2)
        write(self.folder / "test-00000.h5", texts, np.arange(40))
        with self.assertRaisesRegex(ReportError, "no texts of rows"):
            text_pairs.Rows([self.folder / "test-00000.h5"], "test")
        with self.assertRaisesRegex(ReportError, "Cannot read .*absent"):
            text_pairs.draw([str(self.folder / "absent")])


if __name__ == "__main__":
    unittest.main()
