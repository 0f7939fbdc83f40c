"""embeddings.py on files that are made here: what it reads of each type, which pictures there are, and what it refuses."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "postprocess"
sys.path[:0] = [str(SCRIPTS)]

import embeddings  # noqa: E402  (first: it reports missing packages)
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from rundata import ReportError  # noqa: E402

NAMES = ["left", "right", "up"]


def clusters(count=60):
    """Rows of three labels, around three directions."""
    labels = np.arange(count, dtype=np.int32) % 3
    rows = 3 * np.eye(8)[labels] + np.random.default_rng(4).normal(size=(count, 8))
    return rows.astype(np.float32), labels


def write(path, rows, labels=None, kind="fp32", offsets=None, names=NAMES):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update({"schema": embeddings.SCHEMA, "label_names": json.dumps(names)})
        if kind == "fp16":
            file["embeddings"] = rows.astype(np.float16).view(np.uint16)
        elif kind == "bf16":
            file["embeddings"] = (rows.view(np.uint32) >> 16).astype(np.uint16)
        elif kind == "int8":
            file["scales"] = np.abs(rows).max(axis=1).astype(np.float32) / 127
            file["embeddings"] = np.rint(rows / file["scales"][()][:, None]).astype(np.int8)
        else:
            file["embeddings"] = rows
        file["embeddings"].attrs["type"] = kind
        if offsets is not None:
            file["offsets"] = offsets
        if labels is not None:
            file["labels"] = labels


class Embeddings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "embeddings"

    def draw(self, *words):
        """The names of the pictures, and what was printed."""
        shown, problems = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(problems):
            self.assertEqual(embeddings.draw([*map(str, words)]), 0)
        return {path.stem for path in (self.folder / "pictures").glob("*.png")}, shown.getvalue() + problems.getvalue()

    def test_rows_of_each_type(self):
        rows, labels = clusters()
        for kind, error in (("fp32", 0), ("fp16", 2**-10), ("bf16", 2**-7), ("int8", 2**-7)):
            write(self.folder / "test-00000.h5", rows, labels, kind)
            found = embeddings.Embedded([self.folder / "test-00000.h5"], "test")
            self.assertLessEqual(np.abs(found.rows - rows).max(), error * np.abs(rows).max(), kind)
            np.testing.assert_array_equal(found.groups, labels)

    def test_tokens_become_the_mean_of_their_text(self):
        rows, labels = clusters()
        offsets = np.concatenate([[0], np.cumsum(1 + np.arange(20) % 5)])  # 20 texts of 60 tokens
        for block in (1, 7, 1000):
            with mock.patch.object(embeddings, "BLOCK", block):
                write(self.folder / "test-00000.h5", rows, labels[:20], "fp16", offsets)
                found = embeddings.Embedded([self.folder / "test-00000.h5"], "test")
            expected = [rows[a:b].mean(axis=0) for a, b in zip(offsets, offsets[1:])]
            np.testing.assert_allclose(found.rows, expected, atol=1e-2)
        names, shown = self.draw(self.folder.parent)
        self.assertIn("Embeddings of tokens: each text is the mean of its tokens.", shown)
        self.assertIn("pca-test", names)

    def test_components_neighbours_and_similarities(self):
        rows, labels = clusters(90)
        write(self.folder / "test-00000.h5", rows[:50], labels[:50])
        write(self.folder / "test-00001.h5", rows[50:], labels[50:])
        found = embeddings.Embedded(*embeddings.files_of([self.folder], None))
        at, shares = embeddings.principal(found.rows)
        values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(shares, (values**2 / np.sum(values**2))[:2], rtol=1e-4)
        np.testing.assert_allclose((at**2).sum(axis=0), values[:2]**2, rtol=1e-4)
        same, other = embeddings.similarities(found)
        self.assertEqual(len(same) + len(other), 90 * 89 // 2)
        brute = np.mean([(a > other).mean() + (a == other).mean() / 2 for a in same])
        self.assertAlmostEqual(embeddings.more_similar(same, other), brute, places=6)
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = units @ units.T - 9 * np.eye(90)
        self.assertAlmostEqual(embeddings.nearest_share(found), np.mean(labels[cosines.argmax(axis=1)] == labels))
        self.assertEqual(found.draw_by_lot(30), 90)
        self.assertEqual((len(found.rows), len(found.groups)), (30, 30))

    def test_pictures_of_each_kind_of_label(self):
        rows, labels = clusters()
        sets = np.eye(3, dtype=np.uint8)[labels]
        sets[0], sets[1] = 1, 0
        for kind in (labels, np.linspace(0, 5, 60).astype(np.float32), sets):
            write(self.folder / "test-00000.h5", rows, kind)
            write(self.folder / "train-00000.h5", rows, kind)
            names, shown = self.draw(self.folder, "--most", 40)
            self.assertTrue({"pca-test", "similarity-test"} <= names, names)
            self.assertTrue("tsne-test" in names or "scikit-learn is missing" in shown, shown)
        self.assertIn("pca-train", self.draw(self.folder, "--split", "train")[0])
        write(self.folder / "test-00000.h5", rows, np.arange(60, dtype=np.int32), names=[str(i) for i in range(60)])
        self.assertIn("no two rows have the same label", self.draw(self.folder)[1])

    def test_errors(self):
        rows, labels = clusters()
        path = self.folder / "test-00000.h5"
        for text, arguments in (("has no labels, and the pictures are by label", {}),
                                ("9 rows with labels are too few: 10 are needed", {"labels": np.where(np.arange(60) < 9, labels, -1)}),
                                ("All rows have the label 'left'", {"labels": labels * 0})):
            write(path, rows, **arguments)
            with self.assertRaisesRegex(ReportError, text):
                embeddings.Embedded([path], "test")
        path.write_text("no HDF5")
        with self.assertRaisesRegex(ReportError, "Cannot read"):
            embeddings.Embedded([path], "test")
        with self.assertRaisesRegex(ReportError, "There are no embeddings of the split 'train' in .*; there is test"):
            embeddings.files_of([self.folder], "train")
        with self.assertRaisesRegex(ReportError, "There are no embeddings in"):
            embeddings.files_of([tempfile.mkdtemp(dir=self.folder)], None)
        with h5py.File(path, "w"):
            pass
        with self.assertRaisesRegex(ReportError, "is no file of mode embed"):
            embeddings.Embedded([path], "test")


if __name__ == "__main__":
    unittest.main()
