"""MPNet: shards with its tokenizer, whose bias of attention's scores all blocks share: a training gives one model on every layout
and from any checkpoint, and continues from its own folder; what does not fit is refused."""

import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import sentences, write_tsv
from training_cases import write_mpnet_tokenizer

BIAS = "mpnet.encoder.relative_attention_bias.weight"


class MPNet(LanguageModel):
    SOURCE, TASK = {"format": "tsv", "text": "text", "files": ["rows.tsv"]}, "masked_lm"
    MODEL = {"family": "mpnet", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_tsv(cls.folder / "rows.tsv", sentences(300))
        write_mpnet_tokenizer(cls.folder / "tokenizer", cls.folder / "rows.tsv")
        cls.prepare("shards", tokenizer={"vocabulary": "tokenizer", "max_tokens": 40}, task={"pack": False},
                    split={"train": 0.9, "validation": 0.1})

    def test_sequences_have_the_tokens_of_roberta(self):
        with h5py.File(self.folder / "shards/train-00000.h5") as file:
            ids, offsets = file["input_ids"][:], file["offsets"][:]
        for begin, end in zip(offsets, offsets[1:]):
            self.assertEqual((ids[begin], ids[end - 1]), (0, 2))

    def test_layouts_give_one_model(self):
        expected, weights = self.check_bits_of_layouts("one")
        self.assertEqual(weights[BIAS].shape, (32, 2))
        for name, ranks, parallel in (("tensor", 2, {"tensor": 2}), ("three", 4, {"tensor": 2, "pipeline": 2})):
            self.start(name, ranks, parallel=parallel)
            np.testing.assert_allclose(self.numbers(name), expected, rtol=1e-4)

    def test_fast_sums_in_pieces_agree(self):
        self.check_fast_sums(BIAS)

    def test_the_bias_is_trained_and_may_be_frozen(self):
        self.start("trained")
        self.start("never_trained", schedule={"steps": 1}, optimizer={"learning_rate": 1e-30, "weight_decay": 0.0})
        first = self.weights("never_trained")[BIAS]
        self.assertGreater(np.abs(self.weights("trained")[BIAS] - first).max(), 1e-3)
        pretrained = dict.fromkeys(self.MODEL) | {"pretrained": "never_trained/model", "freeze_layers": 1}
        self.start("frozen", model=pretrained)
        np.testing.assert_array_equal(self.weights("frozen")[BIAS], first)

    def test_adapters_leave_the_bias(self):
        self.check_adapters(["attention.attn.q", "attention.attn.v"], "relative_attention_bias", vocabulary="tokenizer")

    def test_a_training_continues_from_its_folder(self):
        config = self.check_continues(architectures=["MPNetForMaskedLM"], model_type="mpnet", max_position_embeddings=514, pad_token_id=1,
                                      relative_attention_num_buckets=32)
        self.assertNotIn("type_vocab_size", config)

    def test_another_padding_token_is_refused(self):
        self.prepare("padded_by_0", tokenizer={"train_size": 60, "max_tokens": 40}, task={"pack": False}, split={"train": 0.9, "validation": 0.1})
        done = self.start("never", check=3, data={"train": ["padded_by_0/train-*.h5"], "validation": None})
        self.assertIn("the shards' vocabulary does not fit the model", done.stderr)
        self.assertIn("pad_token_id is 0, but MPNet's positions begin behind that of token 1: use a tokenizer whose", done.stderr)


if __name__ == "__main__":
    unittest.main()
