"""Rows of SQuAD's JSON through bert_hpc_prep: shards hold the rows that Python's json reads, on any number of ranks; a
model trains on them; other JSON is refused with its location."""

import json
import pathlib
import random
import shutil
import tempfile
import unittest

import h5py

from program import run, toml

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "tea coffee größe 😀 milk what grows where in leaves ever green".split()
VOCABULARY = SPECIAL + WORDS


def document(paragraphs, seed, version):
    """Questions about made-up paragraphs. Each fifth can be answered nowhere (in version 2), the first of the second article
    is said to be answered where its context says something else."""
    draw = random.Random(seed)
    articles = [{"title": "tea", "paragraphs": []}, {"title": "coffee", "paragraphs": []}]
    for number in range(paragraphs):
        words = draw.choices(WORDS, k=draw.randint(3, 9))
        questions = []
        for index in range(draw.randint(0, 3)):
            word = draw.randrange(len(words))
            impossible = version == "v2.0" and draw.random() < 0.2
            answer = {"text": words[word], "answer_start": len(" ".join(words[:word] + [""]))}
            question = {"question": " ".join(draw.choices(WORDS, k=4)), "id": f"{version}-{number}-{index}",
                        "answers": [] if impossible else [answer, {"text": words[0], "answer_start": 0}]}
            if version == "v2.0":
                question["is_impossible"] = impossible
            if impossible:
                question["plausible_answers"] = [answer | {"answer_start": 999}]
            questions.append(question)
        articles[number % 2]["paragraphs"].append({"qas": questions, "context": " ".join(words)})
    wrong = articles[1]["paragraphs"][0]
    wrong["qas"].insert(0, {"id": "wrong", "question": "what", "answers": [{"text": "absent", "answer_start": 1}]})
    return {"version": version, "data": articles} if version == "v2.0" else {"data": articles, "version": version}


def rows_of(path):
    """Reads with Python's json: (question, context, is_impossible) of each row; None where the answer is not at its position."""
    rows = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                context, answers = paragraph["context"], question["answers"][:1]
                stands = all(context[a["answer_start"]:].startswith(a["text"]) for a in answers)
                rows.append((question["question"], context, question.get("is_impossible", False)) if stands else None)
    return rows


def ids(text):
    return [VOCABULARY.index(word) for word in text.split()]


class Squad(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_squad_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
        (self.folder / "train.json").write_text(json.dumps(document(200, 1, "v2.0")))
        (self.folder / "dev.json").write_text(json.dumps(document(40, 2, "1.1"), ensure_ascii=False, indent=1),
                                              encoding="utf-8")

    def prepare(self, output, *arguments, ranks=1, check=0, **tables):
        values = {
            "source": {"format": "squad", "files": ["train.json"], "validation_files": ["dev.json"], "text": "question",
                       "text_pair": "context", "label": "is_impossible"},
            "split": {"train": 1}, "tokenizer": {"vocabulary": "vocab.txt", "strip_accents": False, "max_tokens": 32},
            "task": {"name": "classification"}, "output": {"directory": output}}
        for table, keys in tables.items():
            values[table] = {k: v for k, v in (values[table] | keys).items() if v is not None}
        text = "".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                       for table, keys in values.items())
        (self.folder / "prep.toml").write_text(text, encoding="utf-8")
        return run("bert_hpc_prep", "prep.toml", *arguments, ranks=ranks, check=check, cwd=self.folder)

    def test_rows_are_those_of_pythons_json_and_a_model_trains_on_them(self):
        self.prepare("out")
        self.prepare("out2", ranks=2)
        expected = rows_of(self.folder / "train.json") + rows_of(self.folder / "dev.json")
        train = len(rows_of(self.folder / "train.json"))
        seen = {}
        for path in (self.folder / "out").glob("*.h5"):
            self.assertEqual(path.read_bytes(), (self.folder / "out2" / path.name).read_bytes())
            with h5py.File(path) as shard:
                names, at = json.loads(shard.attrs["label_names"]), shard["offsets"][:]
                for i, row in enumerate(shard["source_index"][:]):
                    seen[int(row)] = (path.name.split("-")[0], shard["input_ids"][at[i]:at[i + 1]].tolist(),
                                      names[shard["labels"][i]])
        self.assertEqual(sorted(seen), [i for i, row in enumerate(expected) if row])
        for i, (split, tokens, label) in seen.items():
            question, context, impossible = expected[i]
            self.assertEqual(tokens, [2, *ids(question), 3, *ids(context), 3])
            self.assertEqual((split, label), ("train" if i < train else "validation", str(impossible).lower()))
        self.assertEqual({label for _, _, label in seen.values()}, {"true", "false"})
        rejects = (self.folder / "out" / "rejects.tsv").read_text(encoding="utf-8").splitlines()[1:]
        wrong = [i for i, row in enumerate(expected) if not row]
        self.assertEqual([line.split("\t")[:2] for line in rejects],
                         [["train.json", str(wrong[0] + 1)], ["dev.json", str(wrong[1] - train + 1)]])
        for line in rejects:
            self.assertRegex(line, 'has the answer "absent" at answer_start 1, but its context has ".*" there .question wrong.$')
        self.learns("out")

    def learns(self, shards):
        model = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
                 "max_position_embeddings": 32}
        tables = {"run": {"mode": "train", "directory": "run"}, "model": model, "task": {"name": "classification"},
                  "data": {"train": [f"{shards}/train-*.h5"], "validation": [f"{shards}/validation-*.h5"]},
                  "batch": {"global": 16}, "optimizer": {"learning_rate": 1e-3}, "schedule": {"steps": 2}}
        (self.folder / "input.toml").write_text("".join(
            f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
            for table, keys in tables.items()))
        run("bert_hpc", "input.toml", check=0, cwd=self.folder)
        config = json.loads((self.folder / "run" / "model" / "config.json").read_text())
        self.assertEqual(config["id2label"], {"0": "false", "1": "true"})

    def test_masked_language_modelling_takes_the_contexts(self):
        self.prepare("lm", source={"text": "context", "text_pair": None, "label": None},
                     task={"name": "masked_lm", "pack": False})
        with h5py.File(self.folder / "lm" / "validation-00000.h5") as shard:
            lengths = sorted(shard["offsets"][1:] - shard["offsets"][:-1])
        contexts = [row[1] for row in rows_of(self.folder / "dev.json") if row]
        self.assertEqual(lengths, sorted(len(context.split()) + 2 for context in contexts))

    def test_errors_are_reported_with_their_location(self):
        self.prepare("out")
        before = {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}
        (self.folder / "rows.csv").write_text("text,label\na,b\n")
        message = self.prepare("out", "--validate", check=3, source={"files": ["rows.csv"]}).stderr
        self.assertIn("[source] files: rows.csv: does not begin with { or [. A SQuAD file is", message)
        message = self.prepare("out", "--validate", check=3, source={"text": "contxt"}).stderr
        self.assertIn('train.json: has no column "contxt" (did you mean "context"?).', message)
        self.assertIn("no problem found", self.prepare("out", "--validate").stdout)
        whole = (self.folder / "train.json").read_bytes()
        index = whole.index(b'{"title": "coffee"')
        for name, content, words in [
                ("cut", whole[:-9], f"cut.json: line 1, byte {index + 1}: the file ends within article 2."),
                ("more", whole + b"\n{}", f"more.json: line 2, byte {len(whole) + 2}: is not JSON: something follows"),
                ("key", whole.replace(b'"qas"', b'"questions"'), 'article 1 (line 1, byte 30), paragraph 1: has no "qas"'),
                ("latin", whole.replace(b"coffee", b"caf\xe9", 1), "ill-formed UTF-8 byte")]:
            (self.folder / f"{name}.json").write_bytes(content)
            self.assertIn(words, self.prepare("out", check=3, source={"files": [f"{name}.json"]}).stderr)
        message = self.prepare("out", check=2, source={"header": False, "encoding": "latin-0"}).stderr
        self.assertIn("[source] header is for formats csv and tsv, and the format is squad", message)
        self.assertIn('[source] encoding = "latin-0" is no encoding', message)
        self.assertEqual(before, {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()})


if __name__ == "__main__":
    unittest.main()
