"""Mode embed of every family: embeddings of tokens of the last block and of the one before it equal hidden states of Transformers
(golden/embeddings, made by its generate.py)."""

import json
import pathlib
import shutil
import tempfile
import unittest

import h5py
import numpy as np

from program import run, toml

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
# Theirs are computed in double precision. Ours are up to 4e-6 from them where values are as large as 12, else 2e-6.
TOLERANCE = 1e-5


class FamilyEmbeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.golden = json.loads((GOLDEN / "embeddings/families.json").read_text(encoding="utf-8"))
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_families_"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def start(self, program, name, tables):
        (self.folder / name).write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                                                for table, keys in tables.items()))
        return run(program, name, threads=1, check=0, cwd=self.folder)

    def shards(self, padding):
        """Shards of the golden pairs with this id of the padding; returns the file's name."""
        special = self.golden["special"]
        words = ["[PAD]", "[UNK]"] if padding == 0 else ["[UNK]", "[PAD]"]
        words += ["[CLS]", "[SEP]", *(f"w{i}" for i in range(4, special["mask"])), "[MASK]"]
        folder = self.folder / f"padding_{padding}"
        if not folder.exists():
            (self.folder / "vocab.txt").write_text("\n".join(words) + "\n")
            texts = [[" ".join(words[i] for i in text) for text in pair] for pair in self.golden["pairs"]]
            (self.folder / "rows.csv").write_text("text,other,label\n" + "".join(f"{first},{second},1\n" for first, second in texts))
            self.start("bert_hpc_prep", "prep.toml", {
                "source": {"format": "csv", "files": ["rows.csv"], "text": "text", "text_pair": "other", "label": "label"}, "split": {"test": 1},
                "tokenizer": {"vocabulary": "vocab.txt", "max_tokens": 64}, "task": {"name": "classification"}, "output": {"directory": folder.name}})
            with h5py.File(folder / "test-00000.h5") as file:
                self.assertEqual(file["input_ids"][:].tolist(), [
                    i for first, second in self.golden["pairs"]
                    for i in [special["cls"], *first, special["sep"], *second, special["sep"]]])
        return f"{folder.name}/test-00000.h5"

    def embeddings(self, name, model, shard, **embed):
        self.start("bert_hpc", f"{name}.toml", {"run": {"mode": "embed", "directory": name}, "model": {"pretrained": str(GOLDEN / "bert" / model)},
                                                "data": {"test": [shard]}, "embed": {"pooling": "tokens"} | embed})
        with h5py.File(self.folder / name / "embeddings/test-00000.h5") as file:
            return file["embeddings"][:][:, self.golden["columns"]]

    def test_tokens(self):
        for family in [name for name, value in self.golden.items() if "model" in value]:
            golden = dict(self.golden[family])
            model = golden.pop("model")
            config = json.loads((GOLDEN / "bert" / model / "config.json").read_text())
            shard = self.shards(config["pad_token_id"])
            inner, last = sorted(golden)
            for name, more in ((inner, {"layer": int(inner.removeprefix("layer "))}), (last, {})):
                with self.subTest(family, layer=name):
                    found = self.embeddings(f"{family}_{name[6:]}", model, shard, **more)
                    difference = np.abs(found - golden[name]).max()
                    print(f"{family}, {name}: values up to {np.abs(found).max():.1f}, at most {difference:.1e} off")
                    self.assertLess(difference, TOLERANCE)


if __name__ == "__main__":
    unittest.main()
