"""Data that are read while a run is under way: the same bits whatever the ranks and the memory for tokens, each token once in the
memory of a node, and a damaged block stops the run before it is used."""

import hashlib
import pathlib
import random
import shutil
import tempfile
import unittest

import h5py
from program import MPIRUN, run, toml

ROWS, STEPS = 170_000, 12
ID_BYTES = 2  # of a vocabulary up to 65,536
AT_ONCE = 8 << 20  # bytes of shards that a run would read before its first step


def write_text(path):
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(2, 7))) for _ in range(3000)]
    lines = [" ".join(draw.choices(words, k=40)) for _ in range(3000)]
    with open(path, "w") as file:
        for _ in range(ROWS):
            first, second = draw.choice(lines), draw.choice(lines)
            at = draw.randrange(len(first))
            file.write(first[:at] + " " + second[at:] + "\n")


@unittest.skipIf(MPIRUN is None, "mpirun is not at hand")
class LargeData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_large_"))
        write_text(cls.folder / "rows.txt")
        cls.write("prep.toml", {"source": {"format": "text", "files": ["rows.txt"]}, "split": {"train": 1},
                                "tokenizer": {"train_size": 800, "max_tokens": 64}, "task": {"name": "masked_lm"},
                                "output": {"directory": "shards", "shard_tokens": 1 << 20}})
        run("bert_hpc_prep", "prep.toml", check=0, cwd=cls.folder)
        cls.shards = sorted((cls.folder / "shards").glob("train-*.h5"))
        cls.bytes = sum(path.stat().st_size for path in cls.shards)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write(cls, name, tables):
        (cls.folder / name).write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                                               for table, keys in tables.items()))

    def train(self, name, ranks=1, check=0, shards="shards", batch=32, schedule=None, validate=False, **data):
        self.write(f"{name}.toml", {
            "run": {"mode": "train", "directory": name, "reproducible": True},
            "model": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
                      "max_position_embeddings": 64},
            "task": {"name": "masked_lm"}, "data": {"train": [f"{shards}/train-*.h5"]} | data, "batch": {"global": batch},
            "optimizer": {"learning_rate": 1e-3}, "schedule": schedule or {"steps": STEPS}, "log": {"progress": "none"}})
        return run("bert_hpc", *["--validate"] * validate, f"{name}.toml", ranks=ranks, threads=1, check=check, cwd=self.folder)

    def weights(self, name):
        return hashlib.sha256((self.folder / name / "model/model.safetensors").read_bytes()).hexdigest()

    def test_same_bits(self):
        self.assertGreater(self.bytes, AT_ONCE)
        self.train("alone")
        for name, ranks, data in (("two", 2, {}), ("four", 4, {}), ("cache", 1, {"cache": 4 << 20}), ("caches", 2, {"cache": 8 << 20})):
            with self.subTest(name):
                self.train(name, ranks, **data)
                self.assertEqual(self.weights(name), self.weights("alone"))

    def test_memory_of_a_node(self):
        with h5py.File(self.shards[0]) as file:
            tokens = int(file.attrs["tokens"]) * len(self.shards)
        share = [float(self.train(f"memory{ranks}", ranks).stdout.partition("data sets ")[2].split(" MiB")[0]) for ranks in (1, 4)]
        # Lengths and rows of the source are every rank's.
        self.assertGreater(share[0] - share[1], 0.7 * tokens * ID_BYTES * 3 / 4 / 2**20)

    def test_bytes_read(self):
        # Two epochs: what fits is read once by the node, whatever its ranks; their offsets, a small part, by each.
        self.train("epochs", 2, batch=8192, schedule={"epochs": 2})
        with h5py.File(self.folder / "epochs/metrics.h5") as file:
            self.assertEqual(list(file["data/epoch"]), [1, 2])
            self.assertEqual(list(file["data/file_bytes"]), [self.bytes] * 2)
            self.assertEqual(file["data/bytes_read"].shape, (2, 1))
            read = file["data/bytes_read"][:, 0].sum() / self.bytes
        self.assertGreater(read, 0.9)
        self.assertLess(read, 1.1)

    def test_bytes_read_through_a_cache(self):
        # Samples of one unit of a shard go to both ranks of the node, which read it once.
        self.train("once", 2, batch=256, schedule={"epochs": 1}, cache=4 << 20, order="file")
        with h5py.File(self.folder / "once/metrics.h5") as file:
            read = file["data/bytes_read"][:, 0].sum() / self.bytes
        self.assertGreater(read, 0.9)
        self.assertLess(read, 1.1)

    def test_validate(self):
        found = []
        for data in ({}, {"cache": 4 << 20}):
            shown = self.train("plan", 2, validate=True, **data).stdout
            found.append([line for line in shown.splitlines() if "data memory" in line])
        (whole,), (part,) = found
        tokens = sum(int(h5py.File(path).attrs["tokens"]) for path in self.shards)
        self.assertRegex(whole, r"data memory +[\d.]+ MiB of a node for tokens, read once, [\d.]+ \w+ read to start$")
        self.assertAlmostEqual(float(whole.split()[2]), ID_BYTES * tokens / 2**20, delta=0.2)
        self.assertRegex(part, r"data memory +[\d.]+ MiB of a node for a cache of tokens, ")

    def test_damaged_block(self):
        shutil.copytree(self.folder / "shards", self.folder / "damaged", dirs_exist_ok=True)
        with h5py.File(self.shards[3]) as file:
            ids = file["input_ids"].id
            chunk = ids.get_chunk_info(ids.get_num_chunks() // 2)
        with open(self.folder / "damaged" / self.shards[3].name, "r+b") as file:
            file.seek(chunk.byte_offset + chunk.size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 16]))
        done = self.train("refused", 2, check=3, shards="damaged")
        self.assertIn(self.shards[3].name, done.stdout + done.stderr)
        self.assertFalse((self.folder / "refused/model").exists())


if __name__ == "__main__":
    unittest.main()
