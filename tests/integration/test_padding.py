"""[data] padding: padded tokens are computed and counted, and change losses, weights and predictions by rounding alone."""

import hashlib
import re
import unittest

import h5py
import numpy as np

from program import NOUNS, KINDS, SIZES, Case, run
from test_tensor import read_safetensors

WIDTH = 32  # tokenizer.max_tokens of the shards


class Padding(Case):
    rows = 300

    def train(self, name, padding, ranks=1, **tables):
        """Ten steps with dropout, unless the tables say otherwise."""
        directory = self.work.folder / name
        tables["run"] = {"directory": str(directory)} | tables.get("run", {})
        tables["data"] = {"validation": None, "padding": padding} | tables.get("data", {})
        tables["model"] = {"max_position_embeddings": WIDTH + 8} | tables.get("model", {})
        tables.setdefault("schedule", {"epochs": None, "steps": 10})
        path = self.work.input(f"{name}.toml", **tables)
        self.log = run("bert_hpc", path, ranks=ranks, threads=1, check=0).stdout
        return directory

    def steps_of(self, directory):
        with h5py.File(directory / "metrics.h5") as file:
            return {name: column[()] for name, column in file["steps"].items()}

    def test_losses_and_weights_are_those_without_padding(self):
        """Sums of products have another order where rows stand elsewhere: gradients, of norm 0.4, differ by 1e-6 of it at most.
        An update moves a weight by lr · m / (√v + ε), whose slope in the gradient is at most 2 · lr / ε = 6: in 10 steps
        weights differ by 2.4e-5 at most, and losses by 0.4 of it, which is 1e-5. Without the mask of attention weights
        differ by 1e-3, and losses by 2e-5."""
        tables = {"optimizer": {"learning_rate": 3e-3, "epsilon": 1e-3}, "batch": {"global": 16, "micro": 4}}
        plain = {"attention": "plain"}
        layout = {"ranks": 4, "parallel": {"data": 2, "pipeline": 2}}
        expected = self.train("none", "none", **tables)
        steps, weights = self.steps_of(expected), read_safetensors(expected / "model/model.safetensors")
        for name, padding, more in (("longest", "longest", {}), ("max", "max", {}),
                                    ("plain longest", "longest", {"model": plain}), ("plain max", "max", {"model": plain}),
                                    ("layout longest", "longest", layout),
                                    ("plain layout max", "max", layout | {"model": plain})):
            with self.subTest(name):
                directory = self.train(name, padding, **tables, **more)
                found = self.steps_of(directory)
                np.testing.assert_allclose(found["loss"], steps["loss"], rtol=0, atol=1e-5)
                np.testing.assert_array_equal(found["tokens"], steps["tokens"])
                for tensor, values in read_safetensors(directory / "model/model.safetensors").items():
                    np.testing.assert_allclose(values, weights[tensor], rtol=0, atol=2.4e-5, err_msg=tensor)

    def test_computed_tokens_are_counted_separately(self):
        with h5py.File(self.work.folder / "shards/train-00000.h5") as file:
            lengths = np.diff(file["offsets"][()])
        whole = len(lengths) // 16 * 16
        # In the file's order, micro-batches of 4 neighbours.
        rows = {"none": lengths[:whole], "max": np.full(whole, WIDTH),
                "longest": np.repeat(lengths[:whole].reshape(-1, 4).max(axis=1), 4)}
        for padding, computed in rows.items():
            with self.subTest(padding):
                directory = self.train(f"counted {padding}", padding, schedule={"epochs": 1}, data={"order": "file"},
                                       batch={"global": 16, "micro": 4, "drop_last": True}, log={"every_steps": 2})
                steps = self.steps_of(directory)
                ends = np.minimum(steps["step"] * 16, whole)
                for name, each in (("tokens", lengths[:whole]), ("computed_tokens", computed)):
                    sums = np.concatenate([[0], np.cumsum(each)])
                    np.testing.assert_array_equal(np.cumsum(steps[name]), sums[ends])
                with h5py.File(directory / "metrics.h5") as file:
                    self.assertEqual(file.attrs["total_tokens"], lengths[:whole].sum())
                    self.assertEqual(file.attrs["total_computed_tokens"], computed.sum())
                share = re.search(r"([\d.]+)% of the ([\d,]+) computed tokens are padding", self.log)
                if padding == "none":
                    self.assertIsNone(share)
                    continue
                self.assertEqual(int(share.group(2).replace(",", "")), computed.sum())
                self.assertAlmostEqual(float(share.group(1)), 100 * (1 - lengths[:whole].sum() / computed.sum()), delta=0.06)

    def test_layouts_have_the_same_bits(self):
        tables = {"run": {"reproducible": True}, "batch": {"global": 16, "chunks": 4}}
        bits = {}
        for name, ranks, parallel in (("one", 1, {}), ("replicas", 2, {"data": 2, "zero": 2}), ("stages", 2, {"pipeline": 2})):
            directory = self.train(f"bits {name}", "longest", ranks=ranks, parallel=parallel,
                                   run=tables["run"] | {"directory": str(self.work.folder / f"bits {name}")}, batch=tables["batch"])
            bits[name] = hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest()
        self.assertEqual(len(set(bits.values())), 1, bits)

    def test_by_length_keeps_labels_with_their_texts(self):
        """One word decides the label: labels of other texts would leave accuracy at a third, and the loss above 1."""
        directory = self.train("by length", "longest", data={"order": "by_length", "validation": [f"{self.work.folder}/shards/validation-*.h5"]},
                               schedule={"epochs": 14})
        with h5py.File(directory / "metrics.h5") as file:
            self.assertGreater(file["evaluations/validation/accuracy"][-1], 0.9)
            self.assertGreater(file["evaluations/validation/f1"][-1], 0.9)
        texts = [line.split("\t")[0] for line in (self.work.folder / "rows.tsv").read_text().splitlines()[1:]]
        kind_of = {noun: kind for kind, nouns in KINDS.items() for noun in nouns}
        found = {}
        for order, padding in (("by_length", "longest"), ("by_length", "max"), ("file", "none")):
            name = f"predicted {order} {padding}"
            path = self.work.input(f"{name}.toml", run={"mode": "evaluate", "directory": str(self.work.folder / name)},
                                   model=SIZES | {"pretrained": str(directory / "model")},
                                   data={"train": None, "validation": None, "test": [f"{self.work.folder}/shards/train-*.h5"],
                                         "order": order, "padding": padding})
            run("bert_hpc", path, ranks=2, threads=1, check=0)
            with h5py.File(self.work.folder / name / "predictions.h5") as file:
                names = list(file.attrs["label_names"])
                found[name] = {column: file[column][()] for column in ("source_index", "label", "prediction", "probabilities")}
                for row, label in zip(file["source_index"], file["label"]):
                    noun = next(word for word in texts[row].split() if word in NOUNS)
                    self.assertEqual(names[label], kind_of[noun])
        *padded, plain = found.values()
        for columns in padded:
            np.testing.assert_array_equal(columns["source_index"], plain["source_index"])
            np.testing.assert_array_equal(columns["label"], plain["label"])
            # Logits below 10 differ by roundings of 2⁻²⁴ · 10 in some tens of sums.
            np.testing.assert_allclose(columns["probabilities"], plain["probabilities"], rtol=0, atol=1e-4)

    def test_plans_count_padding(self):
        found = {}
        for padding in ("none", "max"):
            path = self.work.input("plan.toml", data={"padding": padding}, batch={"global": 64, "micro": 64},
                                   run={"directory": str(self.work.folder / "planned")})
            text = run("bert_hpc", path, "--validate", check=0).stdout
            found[padding] = float(re.search(r"[( ]activations ([\d.]+) MiB", text).group(1))
            self.assertEqual("padding" in text, padding == "max")
        self.assertGreater(found["max"], found["none"])
        self.assertIn(f"to {WIDTH} tokens; limits of micro-batches count it", text)
        path = self.work.input("small.toml", data={"padding": "max"}, batch={"micro_tokens": WIDTH - 1})
        self.assertIn(f"the longest sequence of the data with its padding ({WIDTH} tokens)", run("bert_hpc", path, check=2).stderr)
        path = self.work.input("word.toml", data={"padding": "longer"})
        self.assertIn('"longest"', run("bert_hpc", path, check=2).stderr)


if __name__ == "__main__":
    unittest.main()
