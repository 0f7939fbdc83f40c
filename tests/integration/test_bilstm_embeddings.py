"""Bi-LSTM models on the embeddings that mode embed writes, of tokens and pooled, in each type: they learn, on one rank and on a
pipeline with the same bits, and their folders read no other embeddings. What does not fit is named."""

import re
import shutil
import unittest

import h5py
import numpy as np

from program import Case, run
from test_bilstm import NO_ATTENTION
from test_tensor import read_safetensors
from training_cases import write_safetensors

MODEL = NO_ATTENTION | {"family": "bilstm", "hidden_size": 16}
SPLITS = ("train", "validation")


class OnEmbeddings(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.encoder = cls.work.folder / "encoder"
        run("bert_hpc", cls.work.input("encoder.toml", run={"directory": str(cls.encoder)}), check=0)

    def large_encoder(self):
        """The encoder with results that fp16 does not hold."""
        folder = self.work.folder / "large_encoder"
        shutil.copytree(self.encoder / "model", folder)
        weights = read_safetensors(folder / "model.safetensors")
        name = max(key for key in weights if key.endswith("output.LayerNorm.weight") and "attention" not in key)
        weights[name] = weights[name] * np.float32(1e6)
        write_safetensors(folder / "model.safetensors", weights)
        return folder

    def embed(self, name, encoder=None, **keys):
        sizes = NO_ATTENTION | dict.fromkeys(("hidden_size", "num_hidden_layers")) | {"pretrained": str(encoder or self.encoder / "model")}
        directory = self.work.folder / name
        run("bert_hpc", self.work.input(f"{name}.toml", run={"mode": "embed", "directory": str(directory)}, model=sizes, task=None, batch=None,
                                        optimizer=None, schedule=None, embed=keys), check=0)
        return {split: [f"{directory}/embeddings/{split}-*.h5"] for split in SPLITS}

    def train(self, name, data, ranks=1, model=MODEL, check=0, variables={}, **tables):
        directory = self.work.folder / name
        tables = {"schedule": {"epochs": 6}, "optimizer": {"learning_rate": 1e-2}, "batch": {"global": 16, "chunks": 4}} | tables
        done = run("bert_hpc", self.work.input(f"{name}.toml", run={"directory": str(directory), "reproducible": True}, model=model, data=data,
                                               **tables), ranks=ranks, threads=1, check=check, variables=variables)
        if check != 0:
            return done.stderr
        with h5py.File(directory / "metrics.h5") as file:
            return file["evaluations/validation/accuracy"][-1], read_safetensors(directory / "model/model.safetensors")

    def test_it_learns_from_tokens_and_from_pooled_vectors(self):
        for name, keys in (("tokens", {"pooling": "tokens"}), ("means", {"pooling": "mean", "type": "fp16"}),
                           ("bytes", {"pooling": "cls", "type": "int8"}), ("halves", {"pooling": "cls", "type": "bf16"})):
            with self.subTest(name):
                data = self.embed(name, **keys)
                accuracy, weights = self.train(f"{name}_model", data)
                self.assertGreater(accuracy, 0.8)
                self.assertNotIn("embedding.weight", weights)
                self.assertEqual(weights["lstm.weight_ih_l0"].shape, (64, 32))

    def test_layouts_and_its_folder(self):
        data = self.embed("first", pooling="tokens")
        accuracy, weights = self.train("first_model", data)
        found, mine = self.train("first_pipeline", data, 2, parallel={"pipeline": 2, "balance": [2, 2]})
        self.assertEqual(found, accuracy)
        for key, value in weights.items():
            self.assertTrue(np.array_equal(mine[key], value), key)
        folder = {"pretrained": str(self.work.folder / "first_model/model")}
        sizes = NO_ATTENTION | dict.fromkeys(("hidden_size", "num_hidden_layers")) | folder
        other = self.embed("other", pooling="mean")
        self.assertIn("but the shards hold embeddings that are mean of layer", self.train("mismatch", other, model=sizes, check=3))
        text = {split: [f"{self.work.folder}/shards/{split}-*.h5"] for split in SPLITS}
        self.assertIn("but the shards hold token ids", self.train("ids", text, model=sizes, check=3))

    def test_ranks_of_a_node_share_rows_as_they_are_stored(self):
        for kind, bytes_of_row in (("fp32", 128), ("fp16", 64), ("int8", 36)):
            with self.subTest(kind):
                data = self.embed(f"shared_{kind}", pooling="tokens", type=kind, compression="gzip")
                rows = sum(h5py.File(self.work.folder / f"shared_{kind}/embeddings/{split}-00000.h5")["embeddings"].shape[0] for split in SPLITS)
                path = self.work.input("plan.toml", run={"directory": str(self.work.folder / "plan")}, model=MODEL, data=data)
                shown = run("bert_hpc", path, "--validate", ranks=2, threads=1, check=0).stdout
                self.assertRegex(shown, r"train [\d,]+ sequences, [\d,]+ rows, longest")
                self.assertIn("FLOP per token (training)", shown)
                found = re.search(r"data memory +([\d.]+) KiB of a node for embeddings, read once", shown)
                self.assertAlmostEqual(float(found[1]), rows * bytes_of_row / 1024, delta=0.1)
                self.assertRegex(shown, rf"embeddings +{rows * bytes_of_row / 2048:.1f} KiB")
                one, two = (self.train(f"shared_{kind}_{ranks}", data, ranks)[1] for ranks in (1, 2))
                for key, value in one.items():
                    self.assertTrue(np.array_equal(two[key], value), key)

    def test_rows_that_lie_in_device_memory(self):
        data = self.embed("device", pooling="tokens", type="int8")
        expected = self.train("device_shared", data)[1]
        found = self.train("device_own", data, 2, parallel={"pipeline": 2, "balance": [2, 2]}, variables={"BERT_HPC_GUARD_DEVICE_MEMORY": "1"})[1]
        for key, value in expected.items():
            self.assertTrue(np.array_equal(found[key], value), key)

    def test_what_does_not_fit_is_named(self):
        tokens, means = self.embed("all", pooling="tokens"), self.embed("pooled", pooling="mean")
        mixed = {"train": tokens["train"] + means["train"], "validation": tokens["validation"]}
        self.assertIn("its embeddings (32 columns, mean of layer 2", self.train("mixed", mixed, check=3))
        half = self.embed("half", pooling="tokens", type="fp16")
        self.assertIn("its embeddings are stored as fp16, those of",
                      self.train("types", {"train": tokens["train"], "validation": half["validation"]}, check=3))
        self.assertIn("embeddings have 32 columns, but [model] embedding_size is 8",
                      self.train("width", tokens, model=MODEL | {"embedding_size": 8}, check=3))
        self.assertIn("which only a training of [model] family = \"bilstm\"", self.train("bert", tokens, model={}, check=3))
        path = self.work.folder / "pooled/.status"
        path.write_text("running\n")
        self.assertIn("its run of mode embed has not finished", self.train("unfinished", means, check=3))
        path.write_text("finished\n")
        self.assertIn("row 0 of its embeddings is not finite: embed again, in fp32 or bf16",
                      self.train("overflow", self.embed("large", encoder=self.large_encoder(), pooling="cls", type="fp16"), check=3))
        self.assertGreater(self.train("whole", means)[0], 0.5)


if __name__ == "__main__":
    unittest.main()
