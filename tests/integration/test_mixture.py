"""data.repeat: a training on a mixture of shards has the bits of one on as many copies of the files, on any layout and after a
stop; a checkpoint knows the mixture."""

import shutil
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, sentences, write_tsv
from test_tensor import read_safetensors


class Mixture(LanguageModel):
    SOURCE, TASK = {"format": "tsv", "text": "text", "files": ["a.tsv"]}, "masked_lm"
    MODEL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}
    DATA = {"train": ["a/train-*.h5", "b/train-*.h5"], "repeat": [2, 1], "validation": None}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, count in (("a", 40), ("b", 100)):
            write_tsv(cls.folder / f"{name}.tsv", sentences(count, seed=count))
            tokenizer = {"train_size": 150} if name == "a" else {"vocabulary": "a"}
            cls.prepare(name, source={"files": [f"{name}.tsv"]}, tokenizer=tokenizer | {"max_tokens": 40}, task={"pack": False}, split={"train": 1})
        shutil.copytree(cls.folder / "a", cls.folder / "a_again")

    def weights(self, name):
        return read_safetensors(self.folder / name / "model/model.safetensors")

    def losses(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return list(file["steps/loss"]), list(file["steps/tokens"])

    def assert_same(self, name, other):
        self.assertEqual(self.losses(name), self.losses(other))
        mine = self.weights(name)
        self.assertTrue(all(np.array_equal(mine[key], value) for key, value in self.weights(other).items()))

    def test_a_mixture_is_as_many_copies(self):
        epoch = {"steps": None, "epochs": 1}
        done = self.start("mixed", data=self.DATA, schedule=epoch)
        self.start("copied", data={"train": ["a/train-*.h5", "a_again/train-*.h5", "b/train-*.h5"], "validation": None}, schedule=epoch)
        self.assert_same("mixed", "copied")
        self.assertIn("train 180 sequences", done.stdout)
        self.assertRegex(done.stdout, r"mixture +2 × a/train-\*\.h5 \([\d.]+%\), 1 × b/train-\*\.h5 \([\d.]+%\)")
        self.assertEqual(len(self.losses("mixed")[0]), 12)  # 180 sequences in batches of 16

    def test_layouts_and_stops_change_nothing(self):
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        self.start("whole", data=self.DATA)
        self.start("both", 4, data=self.DATA, parallel={"pipeline": 2, "data": 2})
        self.assert_same("both", "whole")
        self.start("stopped", data=self.DATA, checkpoint={"every_steps": 5}, schedule={"steps": 12})
        self.start("resumed", data=self.DATA, run={"resume": "stopped/checkpoints/step-00000005"})
        self.assertEqual(self.losses("resumed")[0], self.losses("whole")[0][5:])

    def test_another_mixture_is_other_data(self):
        self.start("first", data=self.DATA, checkpoint={"every_steps": 5})
        done = self.start("other", check=2, data=self.DATA | {"repeat": [1, 1]}, run={"resume": "first/checkpoints/step-00000005"})
        self.assertIn("the training data", done.stderr)

    def test_what_is_listed_twice_says_how_to_repeat(self):
        done = self.start("twice", check=3, data={"train": ["a/train-*.h5", "a/train-00000.h5"], "validation": None})
        self.assertIn("List every shard once, by name or by pattern, or set data.repeat.", done.stderr)


if __name__ == "__main__":
    unittest.main()
