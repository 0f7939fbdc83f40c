"""The texts that bert_hpc_prep accepts, as users run it: gzip, files read in the wrong format, samples and groups."""

import gzip
import json
import pathlib
import shutil
import tempfile
import unittest

import h5py

from program import prepare_csv

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Input(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_prep_input_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "vocab.txt").write_text("\n".join(SPECIAL + list("abc")) + "\n")
        self.text = "question,text,label\n" + "".join(f"q{i // 5},a b{' c' * (i % 7)},{'xy'[i % 2]}\n" for i in range(200))
        (self.folder / "rows.csv").write_text(self.text)

    def prepare(self, output, *arguments, check=0, ranks=1, **tables):
        return prepare_csv(self.folder, output, *arguments, check=check, ranks=ranks, **tables)

    def rows_of(self, output):
        """{split: row numbers}"""
        found = {}
        for path in (self.folder / output).glob("*.h5"):
            with h5py.File(path) as shard:
                found.setdefault(path.name.split("-")[0], set()).update(shard["source_index"][:].tolist())
        return found

    def test_gzip_is_read_as_the_text_it_holds(self):
        self.prepare("plain")
        (self.folder / "packed").write_bytes(gzip.compress(self.text.encode()))
        self.prepare("packed-out", ranks=2, source={"files": ["packed"]})
        for path in (self.folder / "plain").glob("*.h5"):
            self.assertEqual(path.read_bytes(), (self.folder / "packed-out" / path.name).read_bytes())
        packed = gzip.compress(self.text.encode())
        (self.folder / "cut.csv.gz").write_bytes(packed[:-20])
        message = self.prepare("cut", check=3, ranks=2, source={"files": ["cut.csv.gz"]}).stderr
        self.assertIn("cut.csv.gz: the gzip data ends too early: the file is truncated.", message)
        self.assertFalse((self.folder / "cut").exists())

    def test_a_tab_separated_file_read_as_csv_is_refused(self):
        """STS-B's files are called .csv."""
        lines = ["genre\tmain\t%d\t%.1f\tA plane, taking off.\tAn air plane, a jet." % (i, i % 5) for i in range(99)]
        (self.folder / "sts.csv").write_text("a,3,x\n" + "\n".join(lines) + "\n")
        message = self.prepare("sts", check=3, ranks=2, task={"name": "regression"},
                               source={"files": ["sts.csv"], "header": False, "text": "1", "label": "2"}).stderr
        self.assertIn("99 of 100 rows (99%) cannot be used, more than [filter] max_rejected = 0.5 allows:", message)
        self.assertIn('set [source] format = "tsv"', message)
        self.assertFalse((self.folder / "sts").exists())
        done = self.prepare("sts", "--set", "filter.max_rejected=0.99", task={"name": "regression"},
                            source={"files": ["sts.csv"], "header": False, "text": "1", "label": "2"})
        self.assertIn("100 read, 1 kept, 99 rejected (see rejects.tsv)", done.stdout)
        self.assertIn("99: the label is not a number", done.stdout)

    def test_samples_and_groups(self):
        done = self.prepare("out", filter={"sample": 100}, split={"group": "question"}, ranks=2)
        self.assertIn("200 read, 100 kept, 100 not in the sample, 0 rejected", done.stdout)
        self.assertEqual((self.folder / "out" / "rejects.tsv").read_text().count("\n"), 1)
        found = self.rows_of("out")
        self.assertEqual(sum(map(len, found.values())), 100)
        questions = {split: {row // 5 for row in rows} for split, rows in found.items()}
        self.assertEqual(sum(map(len, questions.values())), 20)
        self.assertEqual(len(set().union(*questions.values())), 20)

    def test_invisible_text_is_empty_text(self):
        (self.folder / "odd.jsonl").write_text("".join(
            json.dumps({"text": text, "label": "x"}) + "\n" for text in ["a", "\u200b", "\0", " \u00a0\ufeff", "b", "a\u200b"]))
        done = self.prepare("odd", source={"format": "jsonl", "files": ["odd.jsonl"]})
        self.assertIn("3: the text is empty", done.stdout)

    def test_more_tokens_than_the_model_has_positions(self):
        (self.folder / "model").mkdir()
        shutil.copy(self.folder / "vocab.txt", self.folder / "model")
        (self.folder / "model" / "config.json").write_text('{"max_position_embeddings": 16}')
        words = "warning: [tokenizer] max_tokens = 17, but the model in model takes 16 tokens at most"
        for arguments in [], ["--validate"]:
            done = self.prepare("long", *arguments, tokenizer={"vocabulary": "model", "max_tokens": 17})
            self.assertEqual(done.stdout.count(words), 1)
            self.assertNotIn("warning", self.prepare("long", *arguments, tokenizer={"vocabulary": "model", "max_tokens": 16}).stdout)


if __name__ == "__main__":
    unittest.main()
