"""EuroBERT, whose decoder is not the word embeddings: a training gives one model on every layout, continues from its own folder, and
its classifiers pool behind their dense layer on every layout alike; a BERT may have such a decoder too."""

import json
import unittest

import numpy as np
from language_model import LanguageModel
from program import MPIRUN, sentences, write_tsv

DECODER, WORDS = "lm_head.weight", "model.embed_tokens.weight"


class EuroBert(LanguageModel):
    SOURCE, TASK = {"format": "tsv", "text": "text", "files": ["rows.tsv"]}, "masked_lm"
    MODEL = {"family": "eurobert", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 48}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_tsv(cls.folder / "rows.tsv", sentences(300))
        cls.prepare("shards", tokenizer={"train_size": 60, "max_tokens": 40}, task={"pack": False}, split={"train": 0.9, "validation": 0.1})
        cls.prepare("labelled", tokenizer={"train_size": 60, "max_tokens": 40}, task={"name": "classification"}, source={"label": "label"},
                    split={"train": 0.9, "validation": 0.1})

    def config(self, name):
        return json.loads((self.folder / name / "model/config.json").read_text())

    def check_layouts(self, name, **tables):
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        self.start(name, **tables)
        expected, weights = self.numbers(name), self.weights(name)
        for layout, ranks, parallel in (("pipeline", 2, {"pipeline": 2}), ("bubble", 2, {"pipeline": 2, "pipeline_schedule": "zb_h1"}),
                                        ("both", 4, {"pipeline": 2, "data": 2, "zero": 2})):
            self.start(f"{name}-{layout}", ranks, parallel=parallel, **tables)
            mine = self.weights(f"{name}-{layout}")
            with self.subTest(layout):
                self.assertEqual(list(self.numbers(f"{name}-{layout}")), list(expected))
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        self.start(f"{name}-tensor", 2, parallel={"tensor": 2}, **tables)
        np.testing.assert_allclose(self.numbers(f"{name}-tensor"), expected, rtol=1e-4)
        return weights

    def test_layouts_give_one_model(self):
        weights = self.check_layouts("one")
        self.assertEqual(weights[DECODER].shape, weights[WORDS].shape)
        self.assertGreater(np.abs(weights[DECODER] - weights[WORDS]).max(), 0.01)
        config = self.config("one")
        self.assertEqual([config[key] for key in ("model_type", "tie_word_embeddings", "mask_token_id")], ["eurobert", False, 4])

    def test_layouts_give_one_classifier(self):
        labelled = {"task": {"name": "classification"}, "data": {"train": ["labelled/train-*.h5"], "validation": ["labelled/validation-*.h5"]}}
        for pooling in ("late", "mean"):
            self.check_layouts(pooling, model=self.MODEL | {"pooling": pooling}, **labelled)
            self.assertEqual(self.config(pooling)["classifier_pooling"], pooling)

    def test_heads_may_share_keys_and_values(self):
        model = self.MODEL | {"num_attention_heads": 4, "num_key_value_heads": 2}
        weights = self.check_layouts("shared", model=model)
        self.assertEqual([weights[f"model.layers.0.self_attn.{name}_proj.weight"].shape for name in "qkv"], [(32, 32), (16, 32), (16, 32)])
        self.assertEqual(self.config("shared")["num_key_value_heads"], 2)
        labelled = {"task": {"name": "classification"}, "data": {"train": ["labelled/train-*.h5"], "validation": ["labelled/validation-*.h5"]},
                    "model": dict.fromkeys(model) | {"pretrained": "shared/model", "trainable": "lora"}, "model.lora": {"targets": ["q_proj", "k_proj", "v_proj"]}}
        self.check_layouts("adapted", **labelled)
        labelled["model.lora"] = {"targets": ["q_proj", "k_proj"], "dora": True}
        self.check_layouts("magnitudes", **labelled)
        done = self.start("never", 4, check=2, model=model, parallel={"tensor": 4})
        self.assertIn("tensor = 4 does not divide the model's 2 attention heads of keys and values.", done.stderr)
        done = self.start("never", check=2, model=model | {"num_key_value_heads": 3})
        self.assertIn("num_key_value_heads must be a whole number that divides num_attention_heads, 4.", done.stderr)

    def test_a_training_continues_from_its_folder(self):
        self.check_continues(model_type="eurobert")

    def test_a_bert_with_a_decoder_of_its_own(self):
        model = {"family": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
        self.start("tied", model=model)
        names = self.weights("tied")
        config = self.config("tied") | {"tie_word_embeddings": False}
        (self.folder / "tied/model/config.json").write_text(json.dumps(config))
        self.start("untied", model=dict.fromkeys(self.MODEL) | {"pretrained": "tied/model"})
        added = set(self.weights("untied")) - set(names)
        self.assertEqual(added, {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"})
        self.assertIs(self.config("untied")["tie_word_embeddings"], False)


if __name__ == "__main__":
    unittest.main()
