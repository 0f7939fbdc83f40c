"""The texts that bert_hpc_prep accepts, as users run it: compressed files, files read in the wrong format, samples and groups."""

import gzip
import json
import pathlib
import shutil
import tempfile
import unittest

import h5py

from program import prepare_csv, run

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def zstd_frame(text):
    """A frame of Zstandard with one block, which holds the text as it is."""
    return b"\x28\xb5\x2f\xfd\xa0" + len(text).to_bytes(4, "little") + (len(text) << 3 | 1).to_bytes(3, "little") + text


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

    def test_zstandard_is_read_as_the_text_it_holds(self):
        if "Zstandard" not in run("bert_hpc_prep", "--version", check=0).stdout:
            self.skipTest("this build has no libzstd")
        self.prepare("plain")
        half = len(self.text) // 2
        packed = b"\x50\x2a\x4d\x18\x02\0\0\0xx" + zstd_frame(self.text[:half].encode()) + zstd_frame(self.text[half:].encode())
        (self.folder / "packed").write_bytes(packed)
        self.prepare("packed-out", ranks=2, source={"files": ["packed"]})
        for path in (self.folder / "plain").glob("*.h5"):
            self.assertEqual(path.read_bytes(), (self.folder / "packed-out" / path.name).read_bytes())
        (self.folder / "cut.csv.zst").write_bytes(packed[:-20])
        message = self.prepare("cut", check=3, ranks=2, source={"files": ["cut.csv.zst"]}).stderr
        self.assertIn("cut.csv.zst: the Zstandard data ends too early: the file is truncated.", message)
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

    def test_pairs_with_an_empty_second_text_are_kept_on_demand(self):
        (self.folder / "pairs.csv").write_text("text,reply,label\n" + 'a b,,x\n"a","  ",y\na,b c,x\n,b,y\n' * 5)
        source = {"files": ["pairs.csv"], "text_pair": "reply"}
        done = self.prepare("some", source=source, filter={"max_rejected": 1})
        self.assertIn("10: the second text is empty", done.stdout)
        self.assertIn('pairs.csv\t4\t5\tthe first text ("text") is empty', (self.folder / "some/rejects.tsv").read_text())
        self.assertIn("empty_pairs = true", self.prepare("none", source=source, filter={"max_rejected": 0.1}, check=3).stderr)
        for stride in {}, {"doc_stride": 1}:
            self.prepare("all", source=source, filter={"empty_pairs": True}, tokenizer=stride, ranks=2)
            found = {}
            for path in (self.folder / "all").glob("*.h5"):
                with h5py.File(path) as shard:
                    ids, types = shard["input_ids"][:], shard["token_type_ids"][:]
                    for row, begin, end in zip(shard["source_index"][:], shard["offsets"][:], shard["offsets"][1:]):
                        found[int(row)] = ids[begin:end].tolist(), types[begin:end].tolist()
            tokens = [(SPECIAL + list("abc")).index(token) for token in ("[CLS]", "a", "b", "[SEP]")]
            cls, a, b, sep = tokens
            self.assertEqual(len(found), 15)
            self.assertEqual(found[0], ([cls, a, b, sep, sep], [0, 0, 0, 0, 1]))
            self.assertEqual(found[1], ([cls, a, sep, sep], [0, 0, 0, 1]))

    def test_undecided_pairs_are_listed_with_the_rejected_rows(self):
        labels = ["entailment", "-", "neutral", "contradiction"]
        (self.folder / "nli.csv").write_text("text,label\n,neutral\n" + "".join(f"a b,{labels[i % 4]}\n" for i in range(40)))
        for vocabulary in {}, {"vocabulary": "", "train_size": 20}:
            done = self.prepare("nli", source={"files": ["nli.csv"]}, tokenizer=vocabulary)
            self.assertIn("41 read, 30 kept, 11 rejected", done.stdout)
            self.assertIn('warning: 10 rows with the label "-" are left out', done.stdout)
            listed = (self.folder / "nli/rejects.tsv").read_text().splitlines()
            self.assertEqual(len(listed), 12)
            self.assertEqual(listed[1], "nli.csv\t1\t2\tthe text is empty")
            self.assertIn("nli.csv\t3\t4\tthe label is \"-\"", listed[2])
            self.assertEqual(sum(map(len, self.rows_of("nli").values())), 30)
        self.prepare("nli", source={"files": ["nli.csv"]}, filter={"undecided": True})
        self.assertEqual(sum(map(len, self.rows_of("nli").values())), 40)

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
