"""Parquet files, as users prepare them: the same shards as from JSON Lines of the same rows, names of classes, messages."""

import importlib.util
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py

from program import BUILD, prepare_csv, run

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/parquet"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
READS = re.search(r"^ *Parquet +Arrow \d", run("bert_hpc_prep", "--version", check=0).stdout, re.MULTILINE) is not None
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_parquet_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        letters = list("abcdefghijklmnopqrstuvwxyz0123456789.-+'/")
        (self.folder / "vocab.txt").write_text("\n".join(SPECIAL + letters + ["##" + letter for letter in letters]) + "\n")

    def prepare(self, output, files, *arguments, check=0, ranks=1, source={}, **tables):
        tables = {"tokenizer": {"max_tokens": 64}, "split": {"train": 1}} | tables
        source = {"format": "parquet", "files": files} | source
        return prepare_csv(self.folder, output, *arguments, check=check, ranks=ranks, source=source, **tables)

    def shard(self, output):
        """Attributes and columns of the only shard."""
        with h5py.File(self.folder / output / "train-00000.h5") as shard:
            return dict(shard.attrs), {name: shard[name][:].tolist() for name in shard if isinstance(shard[name], h5py.Dataset)}


@unittest.skipUnless(READS, "this build has no Arrow")
class Parquet(Folder):
    def copy(self, name, *copies):
        for copy in copies:
            shutil.copy(GOLDEN / name, self.folder / copy)

    def test_numbers_of_classes_are_their_names_in_the_order_of_the_numbers(self):
        names = ["World", "Sports", "Business", "Sci/Tech"]
        self.copy("classes.parquet", "train-0.parquet", "train-1.parquet")
        done = self.prepare("out", ["train-*.parquet"], ranks=2)
        self.assertIn("16 read, 14 kept, 2 rejected", done.stdout)
        attributes, columns = self.shard("out")
        self.assertEqual(json.loads(attributes["label_names"]), names)
        labels = dict(zip(columns["source_index"], columns["labels"]))
        expected = [3, 2, 1, 0, 0, 1, None, 3] * 2
        self.assertEqual(labels, {row: label for row, label in enumerate(expected) if label is not None})
        self.assertEqual((self.folder / "out/rejects.tsv").read_text().splitlines()[1], "train-0.parquet\t7\t\tthe label is empty")
        self.assertIn('labels = ["World", "Sports", "Business", "Sci/Tech"]', (self.folder / "out/prep.toml").read_text())
        self.assertIn("made with the same input file", self.prepare("out", ["train-*.parquet"]).stdout)
        self.prepare("fewer", ["train-0.parquet"], task={"labels": ["Sports", "World"]})
        self.assertEqual(json.loads(self.shard("fewer")[0]["label_names"]), ["Sports", "World"])
        self.prepare("frequent", ["train-0.parquet"], filter={"most_frequent_labels": 3})
        self.assertEqual(len(json.loads(self.shard("frequent")[0]["label_names"])), 3)
        self.prepare("numbers", ["train-0.parquet"], task={"name": "regression"})
        self.assertEqual(sorted(self.shard("numbers")[1]["labels"]), [-1, 0, 0, 1, 1, 2, 3, 3])

    def test_lists_of_words_tags_and_labels(self):
        self.copy("words.parquet", "words.parquet")
        self.copy("sets.parquet", "sets.parquet")
        self.prepare("words", ["words.parquet"], task={"name": "token_classification"})
        attributes, columns = self.shard("words")
        self.assertEqual(json.loads(attributes["label_names"]), ["O", "B-PER", "I-PER"])
        begins, labels = columns["word_offsets"], columns["labels"]
        found = {row: labels[begin:end] for row, begin, end in zip(columns["source_index"], begins, begins[1:])}
        self.assertEqual(found, {0: [1, 2, 0], 1: [0]})
        self.prepare("sets", ["sets.parquet"], source={"label": "labels"}, task={"name": "multi_label"})
        attributes, columns = self.shard("sets")
        self.assertEqual(json.loads(attributes["label_names"]), ["joy", "anger", "fear"])
        self.assertEqual([labels for _, labels in sorted(zip(columns["source_index"], columns["labels"]))],
                         [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]])

    def test_messages(self):
        self.copy("classes.parquet", "good.parquet", "cut.parquet", "bent.parquet")
        content = (self.folder / "good.parquet").read_bytes()
        (self.folder / "cut.parquet").write_bytes(content[:-9])
        message = self.prepare("out", ["cut.parquet"], check=3, ranks=2).stderr
        self.assertIn('cut.parquet: is truncated: Parquet ends with "PAR1". Copy it again.', message)
        (self.folder / "bent.parquet").write_bytes(content[:4] + bytes(20) + content[24:])
        message = self.prepare("out", ["bent.parquet"], check=3, ranks=2).stderr
        self.assertRegex(message, r'bent.parquet: .*column "text": the data is damaged \(')
        for arguments in [], ["--validate"]:
            message = self.prepare("out", ["good.parquet"], *arguments, source={"text": "body"}, check=3).stderr
            self.assertIn('good.parquet: has no column "body". Its columns are "text" and "label".', message)
        message = self.prepare("out", ["good.parquet"], source={"encoding": "latin-1"}, check=2).stderr
        self.assertIn("[source] encoding is for text, and the format is parquet.", message)
        message = self.prepare("out", ["good.parquet"], source={"format": "csv"}, check=3).stderr
        self.assertIn('good.parquet: is Parquet: set [source] format = "parquet".', message)
        self.assertFalse((self.folder / "out").exists())


@unittest.skipUnless(READS, "this build has no Arrow")
@unittest.skipUnless(HAS_PYARROW, "this Python has no pyarrow")
class WrittenByPyarrow(Folder):
    """Every way to write a table gives the shards of JSON Lines with the rows as pyarrow reads them."""

    def setUp(self):
        super().setUp()
        rows = 5000  # several batches of values, pages and row groups
        self.columns = {
            "text": [None if i % 97 == 5 else f"row {i} " + "x" * (i * i % 40) for i in range(rows)],
            "label": [["b", "c", None, "a/1"][i % 4] for i in range(rows)],
            "whole": [None if i % 11 == 3 else i * 977 - 2**31 for i in range(rows)],
            "real": [None if i % 13 == 3 else i / 7 for i in range(rows)],
            "truth": [None if i % 5 == 3 else i % 3 == 0 for i in range(rows)],
            "tokens": [[f"w{j}" for j in range(i % 7 + 1)] for i in range(rows)],
            "tags": [[i % 3 + j % 2 for j in range(i % 7 + 1)] for i in range(rows)],
            "sets": [["joy", "anger", "fear"][: i % 4] or None for i in range(rows)],
        }

    def write(self, name, table, **options):
        import pyarrow.parquet
        pyarrow.parquet.write_table(table, self.folder / name, **options)
        lines = pyarrow.parquet.read_table(self.folder / name).to_pylist()
        for row in lines:
            row.update({key: None for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)})
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))

    def compare(self, name, source, **tables):
        self.prepare("of-parquet", [name], source=source, **tables)
        self.prepare("of-json", ["rows.jsonl"], source={"format": "jsonl"} | source, **tables)
        paths = sorted((self.folder / "of-json").glob("*.h5"))
        self.assertTrue(paths)
        for path in paths:
            self.assertEqual(path.read_bytes(), (self.folder / "of-parquet" / path.name).read_bytes(), path.name)
        rejects = [(self.folder / output / "rejects.tsv").read_text().splitlines()[1:] for output in ("of-parquet", "of-json")]
        rejects = [[(line.split("\t")[1], line.split("\t")[3]) for line in lines] for lines in rejects]
        self.assertEqual(*rejects)

    def test_compressions_encodings_and_row_groups(self):
        import pyarrow
        table = pyarrow.table(self.columns)
        for options in ({}, {"compression": "none", "use_dictionary": False}, {"compression": "gzip", "row_group_size": 333},
                        {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 1000},
                        {"compression": "brotli", "dictionary_pagesize_limit": 100}, {"compression": "lz4", "version": "1.0"},
                        {"use_dictionary": False, "data_page_size": 700, "write_page_checksum": True,
                         "column_encoding": {"text": "DELTA_BYTE_ARRAY", "label": "DELTA_LENGTH_BYTE_ARRAY", "whole": "DELTA_BINARY_PACKED"}}):
            with self.subTest(options=options):
                self.write("rows.parquet", table, **options)
                self.compare("rows.parquet", {"text": ["text", "whole", "real", "truth"]})

    def test_types_of_columns(self):
        import pyarrow
        table = pyarrow.table(self.columns)
        kinds = {"text": pyarrow.large_string(), "label": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
                 "tokens": pyarrow.large_list(pyarrow.string()), "whole": pyarrow.int64(), "tags": pyarrow.list_(pyarrow.uint8())}
        for name, kind in kinds.items():
            index = table.column_names.index(name)
            values = table[name].combine_chunks()
            cast = values.dictionary_encode() if pyarrow.types.is_dictionary(kind) else values.cast(kind)
            table = table.set_column(index, name, cast)
        self.write("rows.parquet", table, row_group_size=1999)
        self.compare("rows.parquet", {"text": ["text", "whole"]})
        self.compare("rows.parquet", {}, task={"name": "token_classification"})
        self.compare("rows.parquet", {"label": "sets"}, task={"name": "multi_label"})
        self.compare("rows.parquet", {"text": ["text"], "label": "real"}, task={"name": "regression"})
        self.compare("rows.parquet", {"text": ["text"], "label": "whole"}, task={"name": "regression"}, filter={"sample": 0.3})

    def test_memory_does_not_follow_the_size_of_a_row_group(self):
        """One row group of 100 MB, and of a tenth."""
        import pyarrow

        def peak(megabytes):
            rows = megabytes * 1000
            texts = [f"{i} " + "ab" * 499 for i in range(rows)]
            self.write("rows.parquet", pyarrow.table({"text": texts}), row_group_size=rows, compression="none", use_dictionary=False)
            source = 'format = "parquet"\nfiles = ["rows.parquet"]\n'
            (self.folder / "memory.toml").write_text(
                f'[source]\n{source}[tokenizer]\nvocabulary = "vocab.txt"\nmax_tokens = 8\n[task]\nname = "masked_lm"\npack = false\n'
                f'[output]\ndirectory = "out{megabytes}"\n')
            # The peak of a process begins with that of the one that starts it: a small one.
            return int(subprocess.run([sys.executable, "-c", PEAK, BUILD / "bert_hpc_prep", "memory.toml"], cwd=self.folder, check=True,
                                      stdout=subprocess.PIPE, timeout=300).stdout)

        few = peak(10)
        many = peak(100)
        # 90 MB more text; what prep holds of a row is 20 bytes.
        self.assertLess(many - few, 30 << 10)


@unittest.skipIf(READS, "this build has Arrow")
class WithoutArrow(Folder):
    def test_the_message_names_two_remedies(self):
        shutil.copy(GOLDEN / "classes.parquet", self.folder / "a.parquet")
        message = self.prepare("out", ["a.parquet"], check=2).stderr
        self.assertIn('[source] format = "parquet" needs Apache Arrow, which this build does not have. Build with it (jobs/README.md), or '
                      "convert the files to format = \"jsonl\": python3 -c 'import pandas;", message)
        message = self.prepare("out", ["a.parquet"], check=3, source={"format": "csv"}).stderr
        self.assertIn('a.parquet: is Parquet, and format = "parquet" needs Apache Arrow', message)


if __name__ == "__main__":
    unittest.main()
