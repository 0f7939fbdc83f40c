"""bert_hpc_prep with byte-level BPE: a vocabulary that it trains reads back to the same ids, from tokenizer.json and from
vocab.json with merges.txt; words given one by one; a folder of ModernBERT's shape; messages about folders that do not
fit."""
import json
import pathlib
import shutil
import tempfile
import unittest

import h5py
from program import run

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/tokenizer/modernbert.json"
TEXTS = ["Don't count your chickens before they've hatched.", "The 12 monkeys ate 1,234 bananas", "naïve façade 東京", "<mask> it is"] * 10


class ByteBpe(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "text.txt").write_text("\n".join(TEXTS) + "\n")

    def prepare(self, out, *settings, code=0, file="text.txt", format="text", task='name = "masked_lm"\npack = false'):
        (self.folder / "prep.toml").write_text(
            f'[source]\nformat = "{format}"\nfiles = ["{self.folder}/{file}"]\n[split]\ntrain = 1\nvalidation = 0\ntest = 0\n'
            f'[task]\n{task}\n[tokenizer]\nmax_tokens = 64\n[output]\ndirectory = "{self.folder}/{out}"\n')
        done = run("bert_hpc_prep", self.folder / "prep.toml", *(word for setting in settings for word in ("--set", setting)))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def shard(self, out):
        with h5py.File(self.folder / out / "train-00000.h5") as file:
            return file["input_ids"][:].tolist(), dict(file.attrs), bytes(file["tokenizer"][:]).decode()

    def test_a_trained_vocabulary_reads_back_to_the_same_ids(self):
        done = self.prepare("trained", 'tokenizer.type="byte_bpe"', "tokenizer.train_size=300")
        self.assertIn("vocabulary  300 tokens; add_prefix_space = false;", done.stdout)
        trained = self.folder / "trained"
        ids, attributes, text = self.shard("trained")
        self.assertEqual(ids[0], 0)  # <s>
        settings = json.loads(attributes["tokenizer"])
        self.assertEqual([settings[key] for key in ("type", "cls_id", "pad_id", "sep_id", "unk_id", "mask_id")], ["byte_bpe", 0, 1, 2, 3, 4])
        self.assertEqual(text, (trained / "tokenizer.json").read_text())
        self.assertEqual(json.loads(text)["post_processor"]["type"], "RobertaProcessing")
        older = self.folder / "older"
        older.mkdir()
        for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
            shutil.copy(trained / name, older)
        for out, vocabulary in (("again", trained), ("file", trained / "tokenizer.json"), ("from_older", older), ("vocab", older / "vocab.json")):
            self.prepare(out, f'tokenizer.vocabulary="{vocabulary}"')
            again = self.shard(out)
            self.assertEqual(again[0], ids, out)
            self.assertEqual((again[1]["tokenizer_hash"], again[1]["vocabulary_hash"]), (attributes["tokenizer_hash"], attributes["vocabulary_hash"]), out)

    def test_words_begin_with_a_blank(self):
        self.prepare("trained", 'tokenizer.type="byte_bpe"', "tokenizer.train_size=300")
        (self.folder / "words.jsonl").write_text(json.dumps({"tokens": ["Don't", "count", "the"], "tags": ["O", "O", "B-X"]}) + "\n")
        given = f'tokenizer.vocabulary="{self.folder}/trained"'
        words = {"file": "words.jsonl", "format": "jsonl", "task": 'name = "token_classification"'}
        done = self.prepare("words", given, **words)
        self.assertIn("[tokenizer] add_prefix_space = true, because the text is given in words", done.stdout)
        config = json.loads((self.folder / "words/tokenizer_config.json").read_text())
        self.assertIs(config["add_prefix_space"], True)
        done = self.prepare("plain", given, "tokenizer.add_prefix_space=false", **words)
        self.assertNotIn("because the text is given in words", done.stdout)
        self.assertNotEqual(self.shard("words")[0], self.shard("plain")[0])

    def test_a_folder_of_modernbert(self):
        golden = json.loads(GOLDEN.read_text())
        case = golden["cases"][0]
        given = self.folder / "given"
        given.mkdir()
        (given / "tokenizer.json").write_text(json.dumps(case["tokenizer"]))
        roles = ("cls", "sep", "pad", "mask", "unk")
        (given / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", **{f"{role}_token": f"[{role.upper()}]" for role in roles}}))
        vocabulary = f'tokenizer.vocabulary="{given}"'
        added = {token["content"]: token["id"] for token in case["tokenizer"]["added_tokens"]}
        texts = [(bytes.fromhex(text).decode(), ids) for text, ids in zip(golden["texts"], case["ids"])]
        texts = [(text, [added["[CLS]"], *ids, added["[SEP]"]]) for text, ids in texts if "a" in text and len(ids) < 60]
        self.assertGreater(len(texts), 50)
        (self.folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in texts))
        plain = 'name = "masked_lm"\npack = false'
        for out, settings in (("shards", [vocabulary]), ("again", [f'tokenizer.vocabulary="{self.folder}/shards"'])):
            self.prepare(out, *settings, "tokenizer.max_tokens=64", file="texts.jsonl", format="jsonl", task=plain)
            with h5py.File(self.folder / out / "train-00000.h5") as file:
                ids, ends, rows = file["input_ids"][:].tolist(), file["offsets"][:], file["source_index"][:]
                settings = json.loads(file.attrs["tokenizer"])
            self.assertEqual({role: settings[f"{role}_id"] for role in roles}, {role: added[f"[{role.upper()}]"] for role in roles})
            for row, begin, end in zip(rows, ends[:-1], ends[1:]):
                self.assertEqual(ids[begin:end], texts[row][1], ascii(texts[row][0]))
            self.assertEqual(len(rows), len(texts))
        written = json.loads((self.folder / "shards/tokenizer.json").read_text())
        self.assertEqual([written[key] for key in ("normalizer", "added_tokens")], [case["tokenizer"][key] for key in ("normalizer", "added_tokens")])
        self.assertEqual(sorted(file.name for file in (self.folder / "shards").glob("*.txt")) + [*self.folder.glob("shards/vocab.json")], [])
        (self.folder / "pairs.csv").write_text("text,other,label\n" + "the,e\u0301,1\n" * 10)
        self.prepare("pairs", vocabulary, 'source.text_pair="other"', file="pairs.csv", format="csv", task='name = "classification"')
        with h5py.File(self.folder / "pairs/train-00000.h5") as file:
            length = len(case["pair"])
            self.assertEqual(file["input_ids"][:length].tolist(), case["pair"])
            self.assertEqual(file["token_type_ids"][:length].tolist(), case["types"])

    def test_what_does_not_fit_is_refused(self):
        self.prepare("trained", 'tokenizer.type="byte_bpe"', "tokenizer.train_size=300")
        trained = self.folder / "trained"
        vocabulary = f'tokenizer.vocabulary="{trained}"'
        done = self.prepare("no", vocabulary, "tokenizer.lowercase=true", code=2)
        self.assertIn("[tokenizer] lowercase is no switch of a byte-level BPE tokenizer", done.stderr)
        done = self.prepare("no", vocabulary, 'tokenizer.type="wordpiece"', code=2)
        self.assertIn('holds a byte-level BPE tokenizer, but [tokenizer] type is "wordpiece"', done.stderr)
        done = self.prepare("no", 'tokenizer.type="byte_bpe"', "tokenizer.train_size=200", code=3)
        self.assertIn("raise [tokenizer] train_size", done.stderr)
        (trained / "tokenizer.json").unlink()
        (trained / "merges.txt").unlink()
        done = self.prepare("no", vocabulary, code=4)
        self.assertIn("merges.txt: is missing; a BPE tokenizer needs it beside vocab.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
