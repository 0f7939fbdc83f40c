"""Mode embed: embeddings equal a plain BERT in double precision, for each pooling, type and layout; files of an earlier start stay."""

import unittest

import h5py
import numpy as np

from plain_bert import Bert
from program import BUILD, Case, run

SHIM = BUILD / "tests/libfailing_files.so"

POOLINGS = {"cls": lambda rows: rows[:1], "mean": lambda rows: rows.mean(axis=0, keepdims=True),
            "max": lambda rows: rows.max(axis=0, keepdims=True), "last": lambda rows: rows[-1:], "tokens": lambda rows: rows}


def decoded(file):
    values, kind = file["embeddings"][()], file["embeddings"].attrs["type"]
    if kind == "fp16":
        return values.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values * file["scales"][()][:, None] if kind == "int8" else values


class Embeddings(Case):
    rows = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("bert_hpc", cls.work.input(schedule={"epochs": 1}), check=0)
        cls.folder = cls.work.folder
        cls.model = Bert(cls.folder / "run/model")

    def embed(self, name, *arguments, ranks=1, check=0, data=("test",), parallel=None, variables={}, **embed):
        shards = self.folder / "shards"
        path = self.work.input(
            name + ".toml", run={"mode": "embed", "directory": str(self.folder / name), "seed": None}, task=None, batch=None,
            model={"hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None, "intermediate_size": None,
                   "max_position_embeddings": None, "pretrained": str(self.folder / "run/model")},
            data={split: [f"{shards}/{split}-*.h5"] if split in data else None for split in ("train", "validation", "test")},
            optimizer=None, schedule=None, log=None, **({"embed": embed} if embed else {}),
            **({"parallel": parallel} if parallel else {}))
        return run("bert_hpc", path, *arguments, ranks=ranks, check=check, variables=variables)

    def path(self, name, split="test"):
        return self.folder / name / f"embeddings/{split}-00000.h5"

    def embeddings(self, name, split="test"):
        with h5py.File(self.path(name, split)) as file:
            return decoded(file)

    def expected(self, pooling, layer=2, split="test"):
        with h5py.File(self.folder / f"shards/{split}-00000.h5") as shard:
            ids, offsets = shard["input_ids"][()].astype(int), shard["offsets"][()]
        states = [self.model.layers(ids[a:b])[layer] for a, b in zip(offsets, offsets[1:])]
        return np.concatenate([POOLINGS[pooling](rows) for rows in states])

    def test_poolings(self):
        for pooling in POOLINGS:
            with self.subTest(pooling):
                self.embed(pooling, pooling=pooling)
                # 2 blocks of 32 columns in fp32: values up to 3, some 200 roundings of 2^-24 each.
                np.testing.assert_allclose(self.embeddings(pooling), self.expected(pooling), atol=200 * 3 * 2**-24)

    def test_layouts_have_the_same_embeddings(self):
        self.embed("one", pooling="mean")
        for name, ranks, parallel in (("data", 2, {}), ("pipeline", 2, {"pipeline": 2}), ("tensor", 2, {"tensor": 2})):
            with self.subTest(name):
                self.embed(name, ranks=ranks, parallel=parallel | {"allow_shared_devices": True}, pooling="mean")
                np.testing.assert_allclose(self.embeddings(name), self.embeddings("one"), atol=100 * 3 * 2**-24)

    def test_inner_layers_dimensions_and_length(self):
        self.embed("inner", pooling="mean", layer=-2, dimensions=10, normalize=True)
        expected = self.expected("mean", layer=1)[:, :10]
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(self.embeddings("inner"), expected, atol=1e-5)

    def test_types(self):
        self.embed("fp32", pooling="tokens")
        exact = self.embeddings("fp32")
        largest = np.abs(exact).max(axis=1, keepdims=True)
        for kind, error in (("fp16", np.abs(exact) * 2**-11 + 2**-25), ("bf16", np.abs(exact) * 2**-8),
                            ("int8", largest / 127 * 0.5001)):
            with self.subTest(kind):
                self.embed(kind, pooling="tokens", type=kind, compression="gzip")
                self.assertTrue(np.all(np.abs(self.embeddings(kind) - exact) <= error))

    def test_files_have_what_belongs_to_the_sequences(self):
        done = self.embed("all", data=("train", "validation", "test"), pooling="tokens")
        self.assertRegex(done.stdout, r"train: 140 sequences in 1 file, [\d.]+ m?s, [\d.]+ ?k? tokens/s\n")
        self.assertIn("FLOP per token (forward)", done.stdout)
        for split in ("train", "validation", "test"):
            with h5py.File(self.path("all", split)) as file, h5py.File(self.folder / f"shards/{split}-00000.h5") as shard:
                for name in ("labels", "source_index", "offsets"):
                    np.testing.assert_array_equal(file[name][()], shard[name][()])
                self.assertEqual(file.attrs["label_names"], shard.attrs["label_names"])
                self.assertEqual(file["embeddings"].shape, (shard["offsets"][-1], 32))
                self.assertEqual(file.attrs["split"], split)

    def test_complete_files_of_an_earlier_start_stay(self):
        data = ("train", "test")
        self.embed("again", data=data, pooling="mean")
        kept = self.path("again", "train").stat().st_ino
        damaged = bytearray(self.path("again").read_bytes())
        damaged[-100] ^= 1
        self.path("again").write_bytes(damaged)
        (self.folder / "again/.status").write_text("running\n")  # as if it had been killed
        done = self.embed("again", data=data, pooling="mean")
        self.assertRegex(done.stdout, r"train: 140 sequences in 1 file, 1 of an earlier start, [\d.]+ m?s\n")
        self.assertEqual(self.path("again", "train").stat().st_ino, kept)
        np.testing.assert_allclose(self.embeddings("again"), self.expected("mean"), atol=1e-4)
        notes = self.folder / "again/embeddings/test-notes.txt"
        notes.write_text("of a user")
        done = self.embed("again", "--overwrite", data=["train"], pooling="max")
        self.assertNotIn("earlier", done.stdout)
        np.testing.assert_allclose(self.embeddings("again", "train"), self.expected("max", split="train"), atol=1e-4)
        self.assertFalse(self.path("again").exists())  # of another run
        self.assertTrue(notes.exists())

    def test_a_file_that_cannot_be_written_ends_the_run_on_all_ranks(self):
        if not SHIM.exists():
            self.skipTest("failing surroundings are not part of this build")
        variables = {"LD_PRELOAD": str(SHIM), "BERT_HPC_FAIL_SYNC": "embeddings/test-"}
        for ranks in (1, 2):
            done = self.embed(f"failed_{ranks}", ranks=ranks, data=("train", "test"), pooling="mean", check=4, variables=variables)
            self.assertIn("test-00000.h5", done.stderr)
            self.assertTrue(self.path(f"failed_{ranks}", "train").exists())
            self.assertFalse(self.path(f"failed_{ranks}").exists())
            self.embed(f"failed_{ranks}", ranks=ranks, data=("train", "test"), pooling="mean")
            np.testing.assert_allclose(self.embeddings(f"failed_{ranks}"), self.expected("mean"), atol=1e-4)

    def test_bad_input(self):
        for name, message, arguments in (
                ("deep", "[embed] layer = 3, but the model in", {"layer": 3}),
                ("wide", "[embed] dimensions = 33, but the model in", {"dimensions": 33}),
                ("empty", "[data] train, validation and test are missing", {"data": ()})):
            with self.subTest(name):
                self.assertIn(message, self.embed(name, check=2, **arguments).stderr)
        done = run("bert_hpc", self.work.input("train.toml", embed={"pooling": "mean"}), check=2)
        self.assertIn('[embed] belongs to [run] mode = "embed"', done.stderr)


if __name__ == "__main__":
    unittest.main()
