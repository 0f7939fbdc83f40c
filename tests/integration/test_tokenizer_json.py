"""Folders as today's Transformers saves them, with tokenizer.json and without vocab.txt: text is prepared with them, a
model in one is trained further, and what bert_hpc writes has all the forms of the tokenizer."""

import json
import pathlib
import shutil
import unittest

import h5py
from program import Case, run

FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
SIZES = {key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                               "max_position_embeddings")}


class TokenizerJson(Case):
    def prepare(self, vocabulary, name, *more):
        """Shards of the usual rows in folder `name`, made with a given vocabulary; returns what the program printed."""
        text = (self.work.folder / "prep.toml").read_text().replace("/shards", f"/{name}")
        path = self.work.folder / f"{name}.toml"
        path.write_text(text.replace("train_size = 120", f'vocabulary = "{vocabulary}"'))
        return run("bert_hpc_prep", path, *more)

    def ids(self, name):
        with h5py.File(self.work.folder / name / "train-00000.h5") as shard:
            return shard["input_ids"][:].tolist(), shard.attrs["vocabulary_hash"], shard.attrs["tokenizer"]

    def resaved(self, source, name, settings={"tokenizer_class": "BertTokenizer", "do_lower_case": True}):
        """A copy of a folder in the form of Transformers 5."""
        target = self.work.folder / name
        shutil.copytree(source, target)
        (target / "vocab.txt").unlink()
        (target / "tokenizer_config.json").write_text(json.dumps({"backend": "tokenizers", "strip_accents": None, **settings}))
        return target

    def test_the_same_vocabulary_gives_the_same_shards_from_any_file(self):
        shards = self.work.folder / "shards"
        for name in FILES:
            self.assertTrue((shards / name).exists(), name)
        saved = self.resaved(shards, "saved")
        for i, vocabulary in enumerate((shards, shards / "vocab.txt", shards / "tokenizer.json", saved, saved / "tokenizer.json")):
            done = self.prepare(vocabulary, f"same-{i}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("warning", done.stdout)
            self.assertEqual(self.ids(f"same-{i}"), self.ids("shards"), vocabulary)
            for name in FILES:
                self.assertEqual((self.work.folder / f"same-{i}" / name).read_bytes(), (shards / name).read_bytes(), name)

    def test_what_the_folder_says_of_text_is_followed(self):
        saved = self.resaved(self.work.folder / "shards", "cased", {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
        done = self.prepare(saved, "follows")
        self.assertIn("; lowercase = false;", done.stdout)
        self.assertIn(f"warning: {saved}/tokenizer.json says lowercase = true, but {saved}/tokenizer_config.json says "
                      "do_lower_case = false; tokenizer_config.json is used, for BertTokenizer", done.stdout)
        done = self.prepare(saved, "against", "--set", "tokenizer.lowercase=true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("tokenizer_config.json says do_lower_case = false: leave lowercase out, or set it to false", done.stderr)

    def test_what_cannot_be_read_is_refused_with_the_reason(self):
        folder = self.work.folder / "refused"
        folder.mkdir()

        def refused(*words):
            for mode in ((), ("--validate",)):
                done = self.prepare(folder, "none", *mode)
                self.assertEqual(done.returncode, 4, done.stderr)
                for word in words:
                    self.assertEqual(done.stderr.count(word), 1, f"{word}: {done.stderr}")
                self.assertFalse((self.work.folder / "none").exists())

        refused(f"[tokenizer] vocabulary: {folder}: holds no tokenizer.json, no vocab.txt, no sentencepiece.bpe.model, no spm.model, "
                "and no vocab.json",
                "save_pretrained")
        (folder / "sentencepiece.bpe.model").write_bytes(b"\n")
        refused(f"[tokenizer] vocabulary: {folder}/sentencepiece.bpe.model: belongs to a tokenizer whose class no tokenizer_config.json names")
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
        refused(f"[tokenizer] vocabulary: {folder}/sentencepiece.bpe.model: is no SentencePiece model, or only a part of one.")
        for name in ("sentencepiece.bpe.model", "tokenizer_config.json"):
            (folder / name).unlink()
        (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
        refused('Its config.json says model_type = "t5".')
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "Trie", "vocab": {}}}))
        refused("tokenizer.json: holds a Trie tokenizer; this version reads WordPiece, byte-level BPE, BPE with ▁, Unigram and letters.")
        shards = self.work.folder / "shards"
        shutil.copy(shards / "vocab.txt", folder)
        document = json.loads((shards / "tokenizer.json").read_text())
        document["normalizer"]["clean_text"] = False
        document["added_tokens"].append({"id": 500, "content": "[E1]", "special": True})  # not the next id
        (folder / "tokenizer.json").write_text(json.dumps(document))
        refused("normalizer.clean_text is false", 'the added token "[E1]" has the id 500')
        lines = (shards / "vocab.txt").read_text().split("\n")
        (folder / "vocab.txt").write_text("\n".join(lines[:50] + ["other"] + lines[51:]))
        refused(f'the piece 50 is "other" in vocab.txt and "{lines[50]}" in tokenizer.json')

    def test_a_saved_model_is_trained_further_and_exported_with_every_file(self):
        first = self.work.folder / "first"
        run("bert_hpc", self.work.input("first.toml", run={"directory": str(first)}, schedule={"epochs": None, "steps": 2}), check=0)
        shards = self.work.folder / "shards"
        for name in FILES:
            self.assertEqual((first / "model" / name).read_bytes(), (shards / name).read_bytes(), name)
        saved = self.resaved(first / "model", "model")
        self.assertEqual(self.prepare(saved, "again").returncode, 0)
        data = {split: [f"{self.work.folder}/again/{split}-*.h5"] for split in ("train", "validation")}
        # The shards' own folder lost its tokenizer, or has an old one.
        for number, lost in enumerate((("tokenizer.json",), FILES)):
            for name in lost:
                (self.work.folder / "again" / name).unlink(missing_ok=True)
            second = self.work.folder / f"second-{number}"
            run("bert_hpc", self.work.input("second.toml", run={"directory": str(second)}, schedule={"epochs": None, "steps": 2},
                                            model={"pretrained": str(saved), **SIZES}, data=data), check=0)
            for name in FILES[:2]:
                self.assertEqual((second / "model" / name).read_bytes(), (shards / name).read_bytes(), name)
        self.assertEqual(self.prepare(second / "model", "third").returncode, 0)
        self.assertEqual(self.ids("third"), self.ids("shards"))

        # Shards of another vocabulary are not for it.
        (self.work.folder / "other.toml").write_text(
            (self.work.folder / "prep.toml").read_text().replace("120", "100").replace("/shards", "/other"))
        run("bert_hpc_prep", self.work.folder / "other.toml", check=0)
        done = run("bert_hpc", self.work.input("refused.toml", run={"directory": str(self.work.folder / "no")},
                                               model={"pretrained": str(saved), **SIZES},
                                               data={"train": [f"{self.work.folder}/other/train-*.h5"], "validation": None}))
        self.assertEqual(done.returncode, 3)
        self.assertIn("another vocabulary (100 tokens", done.stderr)
        self.assertIn(f"{saved}/tokenizer.json (", done.stderr)

    def test_a_unigram_tokenizer_goes_with_its_model(self):
        golden = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden/tokenizer/unigram.json").read_text())
        given = self.work.folder / "unigram"
        given.mkdir()
        (given / "tokenizer.json").write_text(json.dumps(golden["cases"][0]["tokenizer"]))
        done = self.prepare(given, "unigram_shards")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tokens; [UNK]", done.stdout)
        data = {split: [f"{self.work.folder}/unigram_shards/{split}-*.h5"] for split in ("train", "validation")}
        output = self.work.folder / "xlm"
        run("bert_hpc", self.work.input("xlm.toml", run={"directory": str(output)}, schedule={"epochs": None, "steps": 2}, data=data,
                                        model={"family": "xlm-roberta", "max_position_embeddings": 34}), check=0)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((output / "model" / name).read_bytes(), (self.work.folder / "unigram_shards" / name).read_bytes(), name)
        self.assertEqual(self.prepare(output / "model", "unigram_again").returncode, 0)
        self.assertEqual(self.ids("unigram_again"), self.ids("unigram_shards"))
        done = run("bert_hpc", self.work.input("other.toml", run={"directory": str(self.work.folder / "never")},
                                               model={"pretrained": str(output / "model"), **SIZES}))
        self.assertEqual(done.returncode, 3)
        self.assertIn("prepare the text with the model's vocabulary", done.stderr)

    def test_a_tokenizer_of_mmbert_goes_with_its_model(self):
        golden = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden/tokenizer/metaspace_bpe.json").read_text())
        case = next(case for case in golden["cases"] if case["name"] == "gemma")
        given = self.work.folder / "mmbert"
        given.mkdir()
        (given / "tokenizer.json").write_text(json.dumps(case["tokenizer"]))
        done = self.prepare(given, "mmbert_shards")
        self.assertEqual(done.returncode, 0, done.stderr)
        shards = self.work.folder / "mmbert_shards"
        data = {split: [f"{shards}/{split}-*.h5"] for split in ("train", "validation")}
        output = self.work.folder / "modernbert"
        run("bert_hpc", self.work.input("mmbert.toml", run={"directory": str(output)}, schedule={"epochs": None, "steps": 2}, data=data,
                                        model={"family": "modernbert"}), check=0)
        config = json.loads((output / "model" / "config.json").read_text())
        self.assertEqual(config["vocab_size"], 482)
        self.assertEqual((config["pad_token_id"], config["mask_token_id"]), (0, 4))
        with h5py.File(shards / "train-00000.h5") as shard:
            ids = json.loads(shard.attrs["tokenizer"])
        # Ids by the template and the names of tokens: <bos> … <eos>.
        self.assertEqual([ids[f"{role}_id"] for role in ("pad", "sep", "cls", "mask", "unk")], [0, 1, 2, 4, 3])
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((output / "model" / name).read_bytes(), (shards / name).read_bytes(), name)
        self.assertEqual(self.prepare(output / "model", "mmbert_again").returncode, 0)
        self.assertEqual(self.ids("mmbert_again"), self.ids("mmbert_shards"))

    def test_a_sentencepiece_model_is_the_tokenizer_that_transformers_saves(self):
        golden = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden/tokenizer/sentencepiece.json").read_text())
        case = next(case for case in golden["cases"] if case["name"] == "xlm-roberta")
        given, saved = self.work.folder / "sentencepiece", self.work.folder / "sentencepiece.json"

        def write(folder):
            (folder / "sentencepiece.bpe.model").write_bytes(bytes.fromhex(case["model"]))
            (folder / "tokenizer_config.json").write_text(json.dumps(case["files"]["tokenizer_config.json"]))

        given.mkdir()
        write(given)
        saved.write_text(json.dumps(case["tokenizer"]))
        for i, vocabulary in enumerate((given, given / "sentencepiece.bpe.model", saved)):
            done = self.prepare(vocabulary, f"pieces-{i}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.ids(f"pieces-{i}"), self.ids("pieces-0"), vocabulary)
        shards = self.work.folder / "pieces-0"
        data = {split: [f"{shards}/{split}-*.h5"] for split in ("train", "validation")}
        first, second = self.work.folder / "pieces_first", self.work.folder / "pieces_second"
        run("bert_hpc", self.work.input("first.toml", run={"directory": str(first)}, schedule={"epochs": None, "steps": 2}, data=data,
                                        model={"family": "xlm-roberta", "max_position_embeddings": 34}), check=0)
        # A model that has no other form of its tokenizer, and shards that have lost theirs.
        tokenizer = (shards / "tokenizer.json").read_text()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (shards / name).unlink()
        (first / "model/tokenizer.json").unlink()
        write(first / "model")
        run("bert_hpc", self.work.input("second.toml", run={"directory": str(second)}, schedule={"epochs": None, "steps": 2}, data=data,
                                        model={"pretrained": str(first / "model"), **SIZES}), check=0)
        self.assertEqual((second / "model/tokenizer.json").read_text(), tokenizer)


if __name__ == "__main__":
    unittest.main()
