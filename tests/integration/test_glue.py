"""A task of GLUE from the benchmark's files to its submission file: input/glue*.toml as they stand, on a small file of
MRPC's form and a small model, and the commands in the comments of input/glue.toml."""

import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py

from program import run, toml

HERE = pathlib.Path(__file__).resolve().parents[2]
INPUT = HERE / "input"
WORDS = "the a old \"small very often\" seen near some quiet dog cat".split()
TINY = {"run": {"directory": "tiny"},
        "model": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
                  "max_position_embeddings": 128},
        "task": {"name": "classification"}, "data": {"train": ["mrpc/shards/train-*.h5"]}, "batch": {"global": 16},
        "optimizer": {"learning_rate": 1e-3}, "schedule": {"steps": 1}}


def pairs(count, seed):
    """(label, first, second): one word of the second sentence decides the label."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        label = draw.randrange(2)
        first, second = (draw.choices(WORDS, k=8) for _ in range(2))
        second[draw.randrange(8)] = "engine" if label else "circuit"
        found.append((label, " ".join(first), " ".join(second)))
    return found


def write_mrpc(path, rows, labelled=True):
    text = "\ufeffQuality" if labelled else "index"
    text += "\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    for index, (label, first, second) in enumerate(rows):
        text += f"{label if labelled else index}\t{2 * index}\t{2 * index + 1}\t{first}\t{second}\n"
    path.write_text(text, encoding="utf-8")


def commands():
    """Lines of words: the commands in the comments of glue.toml that make a submission."""
    comment = [line[4:] for line in (INPUT / "glue.toml").read_text().splitlines() if line.startswith("#   ")]
    return [shlex.split(command) for command in "\n".join(comment).replace("\\\n", " ").splitlines()]


class Submission(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_test_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "MRPC").mkdir()
        write_mrpc(self.folder / "MRPC/train.tsv", pairs(640, 1))
        write_mrpc(self.folder / "MRPC/dev.tsv", pairs(32, 2))
        self.test_rows = pairs(41, 3)
        write_mrpc(self.folder / "MRPC/test.tsv", self.test_rows, labelled=False)

    def start(self, program, *arguments):
        return run(program, *arguments, check=0, cwd=self.folder, threads=1)

    def make_pretrained(self):
        """A folder with the name of the pretrained model in the inputs."""
        self.start("bert_hpc_prep", INPUT / "glue_prep.toml", "--set", 'tokenizer.vocabulary=""', "--set",
                   "tokenizer.train_size=100")
        lines = [f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                 for table, keys in TINY.items()]
        (self.folder / "tiny.toml").write_text("".join(lines))
        self.start("bert_hpc", "tiny.toml")
        shutil.move(self.folder / "tiny/model", self.folder / "bert-base-uncased")
        shutil.rmtree(self.folder / "mrpc")

    def test_from_files_to_submission(self):
        self.make_pretrained()
        self.start("bert_hpc_prep", INPUT / "glue_prep.toml")
        self.start("bert_hpc", INPUT / "glue.toml", "--set", "optimizer.learning_rate=5e-3", "--set", "schedule.epochs=6")
        with h5py.File(self.folder / "mrpc/run/metrics.h5") as file:
            self.assertGreater(file["evaluations/validation/positive_f1"][-1], 0.95)  # one word decides
        steps = commands()
        self.assertEqual([words[0] for words in steps], ["bert_hpc_prep", "bert_hpc", "python"])
        for program, *arguments in steps:
            arguments = [str(HERE / word) if word.startswith(("input/", "postprocess/")) else word for word in arguments]
            if program == "python":
                subprocess.run([sys.executable, *arguments], cwd=self.folder, check=True, capture_output=True)
            else:
                self.start(program, *arguments)
        with h5py.File(self.folder / "mrpc/predictions/predictions.h5") as file:
            names = [str(name) for name in file.attrs["label_names"]]
            of_row = dict(zip(file["source_index"][()].tolist(), (names[label] for label in file["prediction"][()])))
        self.assertEqual(names, ["0", "1"])
        self.assertEqual(sorted(of_row), list(range(41)))
        lines = (self.folder / "mrpc/predictions/MRPC.tsv").read_text()
        right = sum(of_row[row] == str(label) for row, (label, _, _) in enumerate(self.test_rows))
        self.assertGreaterEqual(right, 39)
        self.assertEqual(lines, "index\tprediction\n" + "".join(f"{row}\t{of_row[row]}\n" for row in range(41)))


if __name__ == "__main__":
    unittest.main()
