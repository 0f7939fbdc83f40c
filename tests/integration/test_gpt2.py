"""GPT-2, a decoder with causal attention and norms before its sublayers: trains from scratch on every kind of layout, and its
folder is a pretrained model for trainings, evaluations and adapters."""

import unittest

import h5py
import numpy as np

from program import MPIRUN, run
from same_bits import SameBits


class Decoder(SameBits):
    model = {"family": "gpt2", "num_attention_heads": 4, "hidden_dropout_prob": 0.2}
    key_bias = "c_attn.bias"

    def test_layouts(self):
        weights = self.compare_layouts()
        self.assertEqual(weights["transformer.h.0.attn.c_attn.weight"].shape[1],
                         3 * weights["transformer.h.0.attn.c_attn.weight"].shape[0])

    def test_its_folder_is_a_pretrained_model(self):
        numbers, weights = self.train("base")
        folder = str(self.work.folder / "base/model")
        sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                               "max_position_embeddings"))
        adapted = sizes | {"pretrained": folder, "trainable": "lora"}
        _, tuned = self.train("adapted", model=adapted, **{"model.lora": {"targets": ["c_proj", "c_fc"]}})
        self.assertEqual(tuned.keys(), weights.keys())
        for name, value in weights.items():
            trained = "c_proj.weight" in name or "c_fc.weight" in name or name == "score.weight"
            self.assertEqual(not np.array_equal(tuned[name], value), trained, name)
        dropped = {"model.lora": {"dropout": 0.1, "dora": True}}
        numbers_of_joint, tuned = self.train("joint", model=adapted, **dropped)
        if MPIRUN is not None:
            found, mine = self.train("joint_pipeline", 2, model=adapted, parallel={"pipeline": 2}, **dropped)
            self.assertEqual(list(found), list(numbers_of_joint))
            self.assertTrue(all(np.array_equal(mine[name], value) for name, value in tuned.items()))
        for name, value in weights.items():
            self.assertEqual(not np.array_equal(tuned[name], value), "c_attn.weight" in name or name == "score.weight", name)
        done = run("bert_hpc", self.work.input("alone.toml", model=adapted, **{"model.lora": {"targets": ["query"]}}), check=2)
        self.assertIn('no linear layer "query"', done.stderr)
        evaluated = self.work.folder / "evaluated"
        run("bert_hpc", self.work.input("evaluate.toml", run={"mode": "evaluate", "directory": str(evaluated)},
                                        model=sizes | {"pretrained": folder}, optimizer=None, schedule=None,
                                        data={"train": None, "validation": None,
                                              "test": [f"{self.work.folder}/shards/validation-*.h5"]}), check=0)
        with h5py.File(evaluated / "metrics.h5") as file:
            self.assertAlmostEqual(file["evaluations/test/loss"][-1], numbers[-1], places=5)


if __name__ == "__main__":
    unittest.main()
