"""Proteins: FASTA files become shards with a vocabulary of letters, ESM trains from scratch on every kind of layout and continues
from its own folder; what does not fit is refused."""

import gzip
import json
import random
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, run
from test_tensor import read_safetensors
from training_cases import write_safetensors

SPECIAL = ["<cls>", "<pad>", "<eos>", "<unk>"]


def proteins(count, seed=1):
    """Records of FASTA whose letters follow from those before them, so that there is something to learn."""
    numbers = random.Random(seed)
    for i in range(count):
        letters = "".join(numbers.choice(("MKT", "AYI", "GVL")) for _ in range(numbers.randint(3, 12)))
        yield f">P{i} of nothing\n{letters[:10]}\n{letters[10:]}\n"


class Proteins(LanguageModel):
    SOURCE, TASK = {"format": "fasta", "files": ["proteins.fasta.gz"]}, "masked_lm"
    MODEL = {"family": "esm", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "proteins.fasta.gz").write_bytes(gzip.compress("".join(proteins(400)).encode()))
        cls.prepare("shards", tokenizer={"type": "letters", "train_size": 33, "max_tokens": 40}, task={"pack": False},
                    split={"train": 0.9, "validation": 0.1})

    def test_a_sequence_is_a_protein_between_special_tokens(self):
        vocabulary = (self.folder / "shards/vocab.txt").read_text().split()
        self.assertEqual((vocabulary[:4], sorted(vocabulary[4:-1]), vocabulary[-1]), (SPECIAL, sorted("MKTAYIGVL"), "<mask>"))
        with h5py.File(self.folder / "shards/train-00000.h5") as file:
            ids, offsets, rows = file["input_ids"][:], file["offsets"][:], file["source_index"][:]
        texts = ["".join(record.splitlines()[1:]) for record in proteins(400)]
        self.assertEqual(len(rows), 360)
        for row, begin, end in zip(rows, offsets, offsets[1:]):
            self.assertEqual("".join(vocabulary[i] for i in ids[begin:end]), f"<cls>{texts[row]}<eos>")

    def test_a_model_from_scratch_learns(self):
        self.start("long", schedule={"steps": 150}, optimizer={"learning_rate": 1e-2})
        losses = self.numbers("long")[:150]
        self.assertLess(losses[-10:].mean(), losses[:10].mean() - 0.5)

    def test_layouts_give_one_model(self):
        if MPIRUN is None:
            self.skipTest("mpirun is not at hand")
        self.start("one")
        expected, weights = self.numbers("one"), read_safetensors(self.folder / "one/model/model.safetensors")
        config = json.loads((self.folder / "one/model/config.json").read_text())
        self.assertEqual((config["architectures"], config["token_dropout"], config["mask_token_id"], config["pad_token_id"]),
                         (["EsmForMaskedLM"], True, 13, 1))
        for name, ranks, parallel in (("pipeline", 2, {"pipeline": 2}), ("both", 4, {"pipeline": 2, "data": 2, "zero": 2})):
            self.start(name, ranks, parallel=parallel)
            mine = read_safetensors(self.folder / name / "model/model.safetensors")
            with self.subTest(name):
                self.assertEqual(list(self.numbers(name)), list(expected))
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        self.start("tensor", 2, parallel={"tensor": 2})
        np.testing.assert_allclose(self.numbers("tensor"), expected, rtol=1e-4)

    def test_a_training_continues_from_its_folder_whose_tokenizer_gives_the_same_shards(self):
        self.start("first")
        loss = self.numbers("first")[-1]
        pretrained = dict.fromkeys(self.MODEL) | {"pretrained": "first/model"}
        self.start("second", model=pretrained)
        self.assertLess(self.numbers("second")[-1], loss)
        self.prepare("again", tokenizer={"vocabulary": "first/model", "max_tokens": 40}, task={"pack": False},
                     split={"train": 0.9, "validation": 0.1})
        for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((self.folder / "again" / name).read_bytes(), (self.folder / "shards" / name).read_bytes(), name)
        with h5py.File(self.folder / "again/train-00000.h5") as again, h5py.File(self.folder / "shards/train-00000.h5") as shards:
            self.assertEqual(list(again["input_ids"][:]), list(shards["input_ids"][:]))

    def embedded(self, model, layer):
        name = f"layer {layer}"
        run("bert_hpc", self.write("embed.toml", {
            "run": {"mode": "embed", "directory": name}, "model": {"pretrained": model}, "data": {"test": ["shards/validation-*.h5"]},
            "embed": {"pooling": "tokens", "layer": layer}}), cwd=self.folder, check=0)
        with h5py.File(self.folder / name / "embeddings/test-00000.h5") as file:
            return file["embeddings"][:].astype(float)

    def test_an_inner_block_is_embedded_before_the_next_norm(self):
        self.start("changed")
        file = self.folder / "changed/model/model.safetensors"
        values = read_safetensors(file)
        for name, value in values.items():  # the second block adds nothing
            if "layer.1." in name and "output.dense" in name:
                values[name] = np.zeros_like(value)
        write_safetensors(file, values)
        inner, last = self.embedded("changed/model", 1), self.embedded("changed/model", -1)
        norm = "esm.encoder.emb_layer_norm_after."
        expected = (inner - inner.mean(1, keepdims=True)) / np.sqrt(inner.var(1, keepdims=True) + 1e-5)
        expected = expected * values[norm + "weight"] + values[norm + "bias"]
        self.assertGreater(np.abs(inner - last).max(), 0.1)
        np.testing.assert_allclose(last, expected, atol=1e-5)  # some roundings of 6e-8 of values up to 5

    def test_what_does_not_fit_is_refused(self):
        (self.folder / "vocab.txt").write_text("\n".join([*SPECIAL, *"MKTAYIGV"]) + "\n")
        self.prepare("unmasked", tokenizer={"type": "letters", "vocabulary": "vocab.txt", "max_tokens": 40}, task={"name": "classification"},
                     source={"label": "description"}, split={"train": 1})
        done = self.start("never", check=3, task={"name": "classification"}, data={"train": ["unmasked/train-*.h5"], "validation": None})
        self.assertIn('the shards\' tokenizer has no mask token, which model.family = "esm" reads', done.stderr)
        (self.folder / "plain.fasta").write_text("MKT\nAYI\n")
        done = self.prepare("plain", check=3, source={"files": ["plain.fasta"]}, tokenizer={"type": "letters", "train_size": 33})
        self.assertIn('does not begin with ">", as the first record of FASTA does', done.stderr)

    def test_transformers_reads_the_tokenizer(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not at hand")
        slow = transformers.EsmTokenizer.from_pretrained(self.folder / "shards")
        fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(self.folder / "shards/tokenizer.json"))
        with h5py.File(self.folder / "shards/train-00000.h5") as file:
            ids, offsets, rows = file["input_ids"][:], file["offsets"][:], file["source_index"][:]
        texts = ["".join(record.splitlines()[1:]) for record in proteins(400)]
        for row, begin, end in zip(rows, offsets, offsets[1:]):
            for tokenizer in (slow, fast):
                self.assertEqual(tokenizer(texts[row])["input_ids"], list(ids[begin:end]))
        self.assertEqual((slow.mask_token_id, fast("M<mask>J")["input_ids"]), (13, slow("M<mask>J")["input_ids"]))


if __name__ == "__main__":
    unittest.main()
