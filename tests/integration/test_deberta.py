"""DeBERTa-v3: all blocks share one table of distances. A training gives one model on every layout and from any checkpoint, and
continues from its own folder."""

import unittest

import numpy as np
from language_model import LanguageModel
from program import sentences, write_tsv

TABLE, NORM = "deberta.encoder.rel_embeddings.weight", "deberta.encoder.LayerNorm.weight"


class Deberta(LanguageModel):
    SOURCE, TASK = {"format": "tsv", "text": "text", "files": ["rows.tsv"]}, "masked_lm"
    MODEL = {"family": "deberta-v2", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_tsv(cls.folder / "rows.tsv", sentences(300))
        cls.prepare("shards", tokenizer={"train_size": 60, "max_tokens": 40}, task={"pack": False}, split={"train": 0.9, "validation": 0.1})

    def test_layouts_give_one_model(self):
        expected, weights = self.check_bits_of_layouts("one")
        self.assertEqual(weights[TABLE].shape, (512, 32))
        self.assertFalse([name for name in weights if "layer.1.attention.self.rel" in name])
        for name, ranks, parallel in (("tensor", 2, {"tensor": 2}), ("three", 4, {"tensor": 2, "pipeline": 2})):
            self.start(name, ranks, parallel=parallel)
            np.testing.assert_allclose(self.numbers(name), expected, rtol=1e-4)

    def test_fast_sums_in_pieces_agree(self):
        self.check_fast_sums(TABLE)

    def test_the_table_is_trained_and_may_be_frozen(self):
        self.start("trained")
        self.start("never_trained", schedule={"steps": 1}, optimizer={"learning_rate": 1e-30, "weight_decay": 0.0})
        first = self.weights("never_trained")
        near, far = slice(256 - 8, 256 + 9), slice(0, 256 - 40)  # no distance of 40 tokens and more occurs
        change = np.abs(self.weights("trained")[TABLE] - first[TABLE])
        self.assertGreater(change[near].min(axis=1).max(), 1e-5)
        self.assertGreater(change[near].max(), 1e-3)
        self.assertLess(change[far].max(), 1e-4)  # weight decay alone
        self.assertGreater(np.abs(self.weights("trained")[NORM] - first[NORM]).max(), 1e-3)
        pretrained = dict.fromkeys(self.MODEL) | {"pretrained": "never_trained/model", "freeze_layers": 1}
        self.start("frozen", model=pretrained)
        for name in (TABLE, NORM):
            np.testing.assert_array_equal(self.weights("frozen")[name], first[name])

    def test_adapters_leave_the_table(self):
        self.check_adapters(["attention.self.query_proj", "attention.self.value_proj"], "rel_", vocabulary="base/model")

    def test_a_training_continues_from_its_folder(self):
        self.check_continues(architectures=["DebertaV2ForMaskedLM"], model_type="deberta-v2", position_buckets=256, pos_att_type=["p2c", "c2p"],
                             relative_attention=True)


if __name__ == "__main__":
    unittest.main()
