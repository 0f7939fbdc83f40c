"""A vocabulary of 131,072 pieces, of which 512 rows of logits are computed at once: micro-batches with more rows train with the same bits on
every layout, are evaluated and predicted, in the memory of 512 rows."""

import re
import unittest

import h5py
import numpy as np
from language_model import LanguageModel

MODEL = {"family": "gpt2", "vocab_size": 131072, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
         "max_position_embeddings": 32}


class LogitsInParts(LanguageModel):
    SOURCE, TASK, MODEL = {"format": "text", "files": ["text.txt"]}, "causal_lm", MODEL

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_text("text.txt", 300)
        cls.prepare("shards", tokenizer={"type": "byte_bpe", "train_size": 300, "max_tokens": 32}, split={"train": 0.7, "validation": 0.3})

    def test_every_layout_has_the_bits_of_one_rank(self):
        # A micro-batch is a chunk of 20 sequences of 32 tokens: 640 rows.
        tables = {"batch": {"global": 40, "chunks": 2}, "schedule": {"steps": 2}}
        expected, _ = self.check_bits_of_layouts("one", **tables)
        self.assertTrue(np.isfinite(expected).all())
        self.start("tensor", 2, parallel={"tensor": 2}, **tables)
        np.testing.assert_allclose(self.numbers("tensor"), expected, rtol=1e-4)
        self.start("half", precision={"compute": "fp16"}, **tables)  # the loss is scaled
        np.testing.assert_allclose(self.numbers("half"), expected, rtol=1e-2)

        self.start("predicted", run={"mode": "predict"}, model=dict.fromkeys(MODEL) | {"pretrained": "one/model"}, batch=None, optimizer=None,
                   schedule=None, data={"train": None, "validation": None, "test": ["shards/validation-*.h5"]})
        with h5py.File(self.folder / "predicted/predictions.h5") as file:
            tokens, losses = file["predicted_tokens"][:], file["loss"][:]
        self.assertGreater(tokens.sum(), 512)
        self.assertAlmostEqual(np.average(losses, weights=tokens), expected[-1], places=5)

    def test_memory_is_that_of_512_rows(self):
        log = self.start("small", batch={"global": 40, "chunks": 2}, schedule={"steps": 1}).stdout
        activations = float(re.search(r"activations ([0-9.]+) MiB", log)[1])
        self.assertGreater(activations, 256)  # 512 · 131,072 floats
        self.assertLess(activations, 300)     # 640 rows have 320 MiB


if __name__ == "__main__":
    unittest.main()
