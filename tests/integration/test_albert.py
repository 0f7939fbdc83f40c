"""ALBERT, whose blocks have the same parameters: a training gives one model on every layout and from any checkpoint, and continues from its
own folder, which has the parameters of one block; adapters are shared alike; what takes single blocks is refused."""

import unittest

import numpy as np
from language_model import LanguageModel
from program import sentences, write_tsv
from test_tensor import read_safetensors

BLOCK = "albert.encoder.albert_layer_groups.0.albert_layers.0."


class Albert(LanguageModel):
    SOURCE, TASK = {"format": "tsv", "text": "text", "files": ["rows.tsv"]}, "masked_lm"
    MODEL = {"family": "albert", "hidden_size": 32, "embedding_size": 20, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64,
             "max_position_embeddings": 40}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_tsv(cls.folder / "rows.tsv", sentences(300))
        cls.prepare("shards", tokenizer={"train_size": 150, "max_tokens": 40}, task={"pack": False}, split={"train": 0.9, "validation": 0.1})

    def pretrained(self, name, **keys):
        return dict.fromkeys(self.MODEL) | {"pretrained": f"{name}/model"} | keys

    def test_layouts_give_one_model(self):
        expected, weights = self.check_bits_of_layouts("one", checkpoint={"every_steps": 5, "keep": 9})
        self.assertEqual(sum(name.endswith("ffn.weight") for name in weights), 1)
        self.assertFalse([name for name in weights if "block" in name])
        self.start("tensor", 2, parallel={"tensor": 2})
        np.testing.assert_allclose(self.numbers("tensor"), expected, rtol=1e-4)
        self.start("later", 2, parallel={"pipeline": 2}, run={"resume": "one/checkpoints/step-00000005"})
        resumed = self.weights("later")
        self.assertTrue(all(np.array_equal(resumed[key], value) for key, value in weights.items()))

    def test_fast_sums_in_pieces_agree(self):
        self.check_fast_sums(f"{BLOCK}ffn.weight", {"fast-tensor": (2, {"tensor": 2})})

    def test_gradients_of_shared_weights_stay_in_fp32(self):
        half = {"precision": {"compute": "bf16", "weight_gradients": "bf16"}, "run": {"reproducible": False}, "batch": {"chunks": 1}}
        done = self.start("rounded", **half)
        self.assertIn("of the blocks' weights in fp32, because several blocks add to them", done.stdout)
        self.assertLess(self.numbers("rounded")[11], self.numbers("rounded")[0])

    def test_a_training_continues_from_its_folder(self):
        self.check_continues(architectures=["AlbertForMaskedLM"], model_type="albert", embedding_size=20, num_hidden_groups=1, inner_group_num=1,
                             hidden_act="gelu_new")

    def test_blocks_share_their_adapters(self):
        self.start("base")
        # A classification, as masked language modelling's head is the frozen embeddings.
        self.prepare("labelled", tokenizer={"vocabulary": "shards", "max_tokens": 40}, task={"name": "classification"}, source={"label": "label"}, split={"train": 1})
        adapted = {"task": {"name": "classification"}, "data": {"train": ["labelled/train-*.h5"], "validation": None}, "schedule": {"steps": 4}}
        self.start("adapted", model=self.pretrained("base", trainable="lora"), **adapted)
        found = read_safetensors(self.folder / "adapted/adapter/adapter_model.safetensors")
        self.assertEqual([name for name in sorted(found) if "lora" in name],
                         [f"base_model.model.{BLOCK}attention.{layer}.lora_{part}.weight" for layer in ("query", "value") for part in "AB"])
        before, merged = self.weights("base"), self.weights("adapted")
        self.assertGreater(np.abs(merged[f"{BLOCK}attention.query.weight"] - before[f"{BLOCK}attention.query.weight"]).max(), 1e-5)
        np.testing.assert_array_equal(merged[f"{BLOCK}ffn.weight"], before[f"{BLOCK}ffn.weight"])

    def test_single_blocks_are_refused(self):
        self.start("whole", schedule={"steps": 2})
        done = self.start("half", check=2, model=self.pretrained("whole", freeze_layers=2))
        self.assertIn("[model] freeze_layers = 2, but blocks of this model have the same parameters: write 0, or 4", done.stderr)
        student = self.MODEL | {"num_hidden_layers": 2}
        done = self.start("student", check=2, model=student, distill={"teacher": "whole/model", "initialize": [0, 2]})
        self.assertIn("[distill] initialize takes single blocks, but the student's have the same parameters", done.stderr)

    def test_all_blocks_may_be_frozen(self):
        self.start("trained", schedule={"steps": 2})
        self.prepare("rows", tokenizer={"vocabulary": "shards", "max_tokens": 40}, task={"name": "classification"}, source={"label": "label"}, split={"train": 1})
        self.start("frozen", task={"name": "classification"}, data={"train": ["rows/train-*.h5"], "validation": None}, schedule={"steps": 3},
                   model=self.pretrained("trained", freeze_layers=4))
        before, after = self.weights("trained"), self.weights("frozen")
        np.testing.assert_array_equal(after[f"{BLOCK}ffn.weight"], before[f"{BLOCK}ffn.weight"])


if __name__ == "__main__":
    unittest.main()
