"""RoBERTa with a byte-level BPE tokenizer of its own trains from scratch on every kind of layout, under
mpirun."""

import json
import unittest

import h5py

from same_bits import SameBits


class Roberta(SameBits):
    model = {"family": "roberta", "num_attention_heads": 4, "hidden_dropout_prob": 0.2}
    key_bias = "key.bias"
    tokenizer = 'type = "byte_bpe"\ntrain_size = 330'

    def test_layouts(self):
        weights = self.compare_layouts()
        with h5py.File(self.work.folder / "shards/train-00000.h5") as shard:
            self.assertEqual(json.loads(shard.attrs["tokenizer"])["pad_id"], 1)
        config = json.loads((self.work.folder / "one/model/config.json").read_text())
        self.assertEqual(config["pad_token_id"], 1)
        positions = weights["roberta.embeddings.position_embeddings.weight"]
        self.assertEqual(len(positions), 32 + 2)  # those of 32 tokens begin behind padding's row


if __name__ == "__main__":
    unittest.main()
