"""Files as pandas and Hugging Face's datasets write them: bert_hpc_prep reads the texts and labels that were written."""

import json
import pathlib
import re
import shutil
import tempfile
import unittest

import h5py

from program import run

FILES = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden/tables/files.json").read_text(encoding="utf-8"))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokens_of(text):
    return re.findall(r"\w+|[^\w\s]", text)


class WrittenTables(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_tables_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        words = sorted({token for file in FILES.values() for text in file["texts"] for token in tokens_of(text)})
        self.tokens = SPECIAL + words
        (self.folder / "vocab.txt").write_text("\n".join(self.tokens) + "\n", encoding="utf-8")

    def prepare(self, content, task, check=0, **source):
        """The output of bert_hpc_prep."""
        (self.folder / "file").write_bytes(content)
        keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in source.items())
        (self.folder / "prep.toml").write_text(
            f'[source]\nfiles = ["file"]\n{keys}[tokenizer]\nvocabulary = "vocab.txt"\nlowercase = false\nstrip_accents = false\n'
            f'[split]\ntrain = 1\n[task]\nname = "{task}"\n[output]\ndirectory = "out"\n', encoding="utf-8")
        done = run("bert_hpc_prep", "prep.toml", check=check, cwd=self.folder)
        return done.stdout + done.stderr

    def rows(self):
        """The tokens and the label names of each row, in the order of the source."""
        with h5py.File(self.folder / "out/train-00000.h5") as shard:
            names, offsets, labels = json.loads(shard.attrs["label_names"]), shard["offsets"][:], shard["labels"][:]
            found = []
            for i in range(len(offsets) - 1):
                ids = shard["input_ids"][offsets[i] : offsets[i + 1]]
                if "word_offsets" in shard:
                    own = [names[tag] for tag in labels[shard["word_offsets"][i] : shard["word_offsets"][i + 1]]]
                else:
                    own = [name for name, has in zip(names, labels[i]) if has]
                found.append((shard["source_index"][i], [self.tokens[token] for token in ids[1:-1]], own))
        return [row[1:] for row in sorted(found)]

    def test_texts_and_labels_are_those_that_were_written(self):
        for name, file in FILES.items():
            with self.subTest(name):
                self.prepare(bytes.fromhex(file["bytes"]), file["task"], **file["source"])
                self.assertEqual([tokens for tokens, _ in self.rows()], [tokens_of(text) for text in file["texts"]])
                of_sets = sorted if file["task"] == "multi_label" else list
                self.assertEqual([of_sets(labels) for _, labels in self.rows()], [of_sets(labels) for labels in file["labels"]])

    def test_what_is_decided_or_rejected_is_said(self):
        text = self.prepare("text,label\nit,1\n\"it,0\nit,1\n\"it,0\n".encode("utf-16"), "classification", format="csv")
        self.assertIn("file is read as utf-16le, as its byte order mark says", text)
        self.assertIn("warning: 1 row has stray quotes and is used as notes.tsv says (the first is file, row 2, line 3: has a quote", text)
        self.assertIn("4 read, 3 kept, 1 rejected", text)
        self.assertIn("1: the row cannot be read (the first is file, row 4, line 5: the row has a quote at the beginning of column 1 that "
                      "is never closed", text)
        utf8 = "text,label\ncafé it,1\n".encode()
        text = self.prepare(utf8, "classification", format="csv", encoding="latin-1")
        self.assertIn('warning: file seems to be UTF-8, and is read as [source] encoding = "latin-1" says', text)
        for content, encoding in [(utf8, "utf-8"), (utf8.decode().encode("cp1252"), "latin-1"), (b"text,label\nit,1\n", "latin-1")]:
            self.assertNotIn("seems to be", self.prepare(content, "classification", format="csv", encoding=encoding))
        text = self.prepare(b"Sentence #,tokens,tags\n1,it,O\n", "token_classification", format="csv")
        self.assertIn('words whose rows have the same "Sentence #", or none behind one, are a sentence', text)
        text = self.prepare(b"text,label\nit,[0 1]\nit,\"[0, 1]\"\n", "multi_label", format="csv")
        self.assertIn("warning: the labels are 0 and 1 alone: a list of two numbers, as [0, 1], names two labels.", text)
        text = self.prepare(b"text,label\nit \x81\xff,1\n", "classification", format="csv", encoding="shift_jis")
        self.assertIn('warning: 1 row holds bytes that are not valid in [source] encoding = "shift_jis", each read as U+FFFD (the first is '
                      'file, row 1, line 2).', text)


if __name__ == "__main__":
    unittest.main()
