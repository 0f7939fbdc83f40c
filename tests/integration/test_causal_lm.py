"""Causal language modelling: bert_hpc_prep ends each text in a token; GPT-2 trains from scratch on every kind of layout and continues
from its own folder; losses and perplexities of sequences are predicted; what does not fit is refused."""

import csv
import json
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, as_if_killed_after, sentences
from test_tensor import read_safetensors

KEPT = {"checkpoint": {"every_steps": 6, "keep": 100}}
MODEL = {"family": "gpt2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "max_position_embeddings": 32}


class CausalLm(LanguageModel):
    SOURCE, TASK, MODEL = {"format": "text", "files": ["text.txt"]}, "causal_lm", MODEL

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_text("text.txt", 400)
        (cls.folder / "new.txt").write_text("a\n" + "".join(text + "\n" for text, _, _ in sentences(40, 9)))
        cls.prepare("shards", tokenizer={"type": "byte_bpe", "train_size": 300, "max_tokens": 32}, split={"train": 0.9, "validation": 0.1})
        cls.prepare("new", source={"files": None, "test_files": ["new.txt"]}, tokenizer={"vocabulary": "shards", "max_tokens": 32},
                    task={"pack": False})

    def predict(self, name, model, ranks=1, **tables):
        self.start(name, ranks, run={"mode": "predict"}, model=dict.fromkeys(MODEL) | {"pretrained": model}, batch=None, optimizer=None,
                   schedule=None, data={"train": None, "validation": None, "test": ["new/test-*.h5"]}, **tables)
        with h5py.File(self.folder / name / "predictions.h5") as file:
            return {key: file[key][:] for key in ("source_index", "predicted_tokens", "loss", "perplexity")}

    def test_each_text_ends_in_a_token(self):
        with h5py.File(self.folder / "shards/train-00000.h5") as file:
            ids, settings = file["input_ids"][:], json.loads(file.attrs["tokenizer"])
            lengths = np.diff(file["offsets"][:])
        self.assertEqual((settings["text_end_id"], settings["cls_id"]), (0, -1))
        self.assertEqual(sorted(lengths)[1], 32)  # all but one are full
        self.assertEqual((ids == 0).sum(), 360)  # one for each text of the split
        with h5py.File(self.folder / "new/test-00000.h5") as file:
            offsets, ids = file["offsets"][:], file["input_ids"][:]
        self.assertTrue((ids[offsets[1:] - 1] == 0).all())

    def test_layouts_give_one_model_and_one_result(self):
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        self.start("one")
        expected, weights = self.numbers("one"), read_safetensors(self.folder / "one/model/model.safetensors")
        self.assertLess(expected[11], expected[0] - 0.5)
        self.assertNotIn("lm_head.weight", weights)
        config = json.loads((self.folder / "one/model/config.json").read_text())
        self.assertEqual((config["architectures"], config["eos_token_id"]), (["GPT2LMHeadModel"], 0))
        for name, ranks, parallel in (("pipeline", 2, {"pipeline": 2}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 2})):
            self.start(name, ranks, parallel=parallel)
            mine = read_safetensors(self.folder / name / "model/model.safetensors")
            with self.subTest(name):
                self.assertEqual(list(self.numbers(name)), list(expected))
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        self.start("tensor", 2, parallel={"tensor": 2})
        np.testing.assert_allclose(self.numbers("tensor"), expected, rtol=1e-4)

        one = self.predict("predicted", "one/model")
        np.testing.assert_allclose(one["perplexity"], np.exp(one["loss"]), rtol=1e-6)
        self.assertEqual(sorted(one["source_index"]), list(range(41)))
        self.assertEqual(one["predicted_tokens"][list(one["source_index"]).index(0)], 1)  # of "a" and the end
        with open(self.folder / "predicted/predictions.csv", newline="") as file:
            self.assertEqual(next(csv.reader(file)), ["row", "predicted_tokens", "loss", "perplexity"])
        for name, ranks, parallel in (("predicted_data", 2, {"data": 2}), ("predicted_tensor", 2, {"tensor": 2}),
                                      ("predicted_pipeline", 2, {"pipeline": 2})):
            other = self.predict(name, "one/model", ranks, parallel=parallel)
            np.testing.assert_allclose(other["loss"], one["loss"], rtol=1e-5)

    def test_a_training_continues_from_a_folder_and_a_checkpoint(self):
        self.start("first", **KEPT)
        loss = self.numbers("first")[-1]
        pretrained = dict.fromkeys(MODEL) | {"pretrained": "first/model"}
        self.start("second", model=pretrained)
        self.assertLess(self.numbers("second")[-1], loss)
        numbers, weights = self.numbers("first"), (self.folder / "first/model/model.safetensors").read_bytes()
        as_if_killed_after(6, self.folder / "first")
        self.start("first", **KEPT)
        self.assertEqual(list(self.numbers("first")), list(numbers))
        self.assertEqual((self.folder / "first/model/model.safetensors").read_bytes(), weights)
        self.start("adapted", model=pretrained | {"trainable": "lora"}, **{"model.lora": {"targets": ["c_proj", "c_fc"]}})
        before, after = (read_safetensors(self.folder / name / "model/model.safetensors") for name in ("first", "adapted"))
        changed = {key for key, value in before.items() if not np.array_equal(after[key], value)}
        self.assertEqual(changed, {key for key in before if "c_proj.weight" in key or "c_fc.weight" in key})

    def test_what_does_not_fit_is_refused(self):
        done = self.start("bert", model={"family": "bert"}, check=2)
        self.assertIn('"causal_lm" does not fit the model family "bert"', done.stderr)
        self.assertIn('use the task "masked_lm", or a model of family "gpt2"', done.stderr)
        done = self.start("masked", task={"name": "masked_lm"}, check=2)
        self.assertIn('"masked_lm" does not fit the model family "gpt2"', done.stderr)
        (self.folder / "pairs.csv").write_text("text,other\na,b\n")
        done = self.prepare("pairs", check=2, source={"format": "csv", "files": ["pairs.csv"], "text_pair": "other"},
                            tokenizer={"train_size": 300, "max_tokens": 32})
        self.assertIn("source] text_pair does not go with the task causal_lm, which reads single texts", done.stderr)
        done = self.prepare("short", check=2, tokenizer={"type": "byte_bpe", "train_size": 300, "max_tokens": 1})
        self.assertIn("max_tokens must be at least 2", done.stderr)


if __name__ == "__main__":
    unittest.main()
