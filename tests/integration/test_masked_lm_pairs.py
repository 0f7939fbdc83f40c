"""Pretraining on pairs of passages, as of BERT and ALBERT: which pairs bert_hpc_prep makes of documents, and those of NVIDIA's shards;
trainings give one model on every layout, and what evaluations say of it is what they measure."""

import json
import random
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import run, sentences
from test_tensor import read_safetensors
from training_cases import read_shard

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CLS, SEP, MASK = 2, 3, 4


def write_documents(path, count, seed=1):
    """Documents of 2 to 9 lines with blank lines between them."""
    draw, rows = random.Random(seed), iter(sentences(10 * count, seed))
    path.write_text("\n".join("".join(f"{next(rows)[0]}\n" for _ in range(draw.randint(2, 9))) for _ in range(count)))


class Pairs(LanguageModel):
    SOURCE, TASK = {"format": "text", "files": ["documents.txt"]}, "masked_lm_pairs"
    MODEL = {"family": "bert", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_documents(cls.folder / "documents.txt", 150)
        cls.prepare("shards", tokenizer={"train_size": 150, "max_tokens": 64}, split={"train": 0.9, "validation": 0.1})

    def evaluation(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {key: value[-1] for key, value in file["evaluations/validation"].items() if key != "step"}

    def test_layouts_give_one_model(self):
        expected, weights = self.check_bits_of_layouts("one", checkpoint={"every_steps": 5, "keep": 9})
        self.assertEqual([weights[f"cls.seq_relationship.{part}"].shape for part in ("weight", "bias")], [(2, 32), (2,)])
        self.start("tensor", 2, parallel={"tensor": 2})
        np.testing.assert_allclose(self.numbers("tensor"), expected, rtol=1e-4)
        self.start("later", 2, parallel={"pipeline": 2}, run={"resume": "one/checkpoints/step-00000005"})
        resumed = self.weights("later")
        self.assertTrue(all(np.array_equal(resumed[key], value) for key, value in weights.items()))

    def test_the_loss_is_that_of_tokens_and_of_pairs(self):
        self.start("trained", schedule={"steps": 150})
        found = self.evaluation("trained")
        self.assertAlmostEqual(found["loss"], found["masked_lm_loss"] + found["pair_loss"], places=5)
        self.assertAlmostEqual(np.log(found["perplexity"]), found["masked_lm_loss"], places=5)
        with h5py.File(self.folder / "trained/metrics.h5") as file:
            losses = file["steps/loss"][:]
        shard = read_shard(self.folder / "shards/validation-00000.h5")
        # At first the vocabulary's entropy and that of two classes, but for what initial weights of 0.02 add.
        self.assertAlmostEqual(losses[0], np.log(shard["words"]) + np.log(2), delta=0.3)
        self.assertLess(losses[-20:].mean(), losses[:5].mean() - 1)
        right = found["pair_accuracy"] * len(shard["labels"])
        self.assertAlmostEqual(right, round(right), places=4)
        done = self.start("again", run={"mode": "evaluate"}, model=dict.fromkeys(self.MODEL) | {"pretrained": "trained/model"}, batch=None, optimizer=None, schedule=None,
                          data={"train": None})
        self.assertIn("accuracy of pairs", done.stdout)
        for key, value in self.evaluation("again").items():
            self.assertAlmostEqual(value, found[key], places=5, msg=key)

    def test_its_folder_is_that_of_BertForPreTraining_and_may_be_fine_tuned(self):
        self.start("first")
        config = json.loads((self.folder / "first/model/config.json").read_text())
        self.assertEqual([config["architectures"], "id2label" in config], [["BertForPreTraining"], False])
        before = self.weights("first")
        self.assertEqual({name.split(".")[1] for name in before if name.startswith("cls.")}, {"predictions", "seq_relationship"})
        rows = "".join(f"{text}\t{label}\n" for text, label, _ in sentences(100))
        (self.folder / "rows.tsv").write_text("text\tlabel\n" + rows)
        self.prepare("labelled", tokenizer={"vocabulary": "shards", "max_tokens": 64}, task={"name": "classification"}, source={"format": "tsv", "files": ["rows.tsv"]},
                     split={"train": 1})
        self.start("tuned", task={"name": "classification"}, data={"train": ["labelled/train-*.h5"], "validation": None}, schedule={"steps": 3},
                   optimizer={"learning_rate": 1e-30}, model=dict.fromkeys(self.MODEL) | {"pretrained": "first/model"})
        np.testing.assert_array_equal(self.weights("tuned")["bert.pooler.dense.weight"], before["bert.pooler.dense.weight"])

    def test_ALBERT_predicts_the_order(self):
        self.prepare("ordered", tokenizer={"vocabulary": "shards", "max_tokens": 64}, task={"pairs": "sentence_order"}, split={"train": 0.9, "validation": 0.1})
        self.assertEqual(read_shard(self.folder / "ordered/train-00000.h5")["names"], ["in_order", "swapped"])
        model = self.MODEL | {"family": "albert", "embedding_size": 20, "classifier_dropout": 0.1}
        data = {"train": ["ordered/train-*.h5"], "validation": ["ordered/validation-*.h5"]}
        self.start("albert", model=model, data=data)
        self.start("albert-both", 4, model=model, data=data, parallel={"pipeline": 2, "data": 2})
        weights, mine = self.weights("albert"), self.weights("albert-both")
        self.assertIn("sop_classifier.classifier.weight", weights)
        self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))

    def test_other_families_and_shards_are_refused(self):
        done = self.start("distilbert", check=2, model=self.MODEL | {"family": "distilbert"})
        self.assertIn('the task "masked_lm_pairs" does not fit the model family "distilbert"', done.stderr)
        self.assertIn('"bert" or "albert"', done.stderr)
        self.prepare("single", tokenizer={"vocabulary": "shards", "max_tokens": 64}, task={"name": "masked_lm"}, source={"unit": "line"}, split={"train": 1})
        done = self.start("plain", check=3, data={"train": ["single/train-*.h5"], "validation": None})
        self.assertIn("it was made for task 'masked_lm', but task.name is 'masked_lm_pairs'", done.stderr)


class Documents(LanguageModel):
    """Each word of a document is a token of its own, so that a token says where it comes from."""
    SOURCE, TASK = {"format": "text", "files": ["documents.txt"]}, "masked_lm_pairs"
    ROOM = 21

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        cls.documents = [[[f"d{d}x{line}x{word}" for word in range(draw.randint(1, 12))] for line in range(draw.randint(1, 7))] for d in range(200)]
        (cls.folder / "documents.txt").write_text("\n\n".join("\n".join(map(" ".join, document)) for document in cls.documents) + "\n")
        cls.words = [word for document in cls.documents for line in document for word in line]
        (cls.folder / "vocab.txt").write_text("\n".join(SPECIAL + cls.words) + "\n")

    def pairs(self, name, kind=None, check=0, **tables):
        """(first, second, label) of each sequence: numbers of words among those of all documents."""
        self.prepare(name, check, tokenizer={"vocabulary": "vocab.txt", "max_tokens": self.ROOM + 3}, split=tables.pop("split", {"train": 1}), task={"pairs": kind}, **tables)
        shard = read_shard(self.folder / name / "train-00000.h5")
        found = []
        for ids, types, label in zip(shard["ids"], shard["types"], shard["labels"], strict=True):
            middle = types.index(1)
            self.assertEqual([ids[0], ids[middle - 1], ids[-1], types], [CLS, SEP, SEP, [0] * middle + [1] * (len(ids) - middle)])
            first, second = np.array(ids[1:middle - 1]) - len(SPECIAL), np.array(ids[middle:-1]) - len(SPECIAL)
            for passage in (first, second):
                self.assertGreater(len(passage), 0)
                np.testing.assert_array_equal(passage, np.arange(passage[0], passage[0] + len(passage)))  # words that follow each other
            self.assertLessEqual(len(first) + len(second), self.ROOM)
            found.append((first, second, int(label)))
        return found, shard

    def document(self, word):
        return int(self.words[word].split("x")[0][1:])

    def test_second_passages_follow_or_are_of_another_document(self):
        found, shard = self.pairs("next")
        self.assertEqual(shard["names"], ["next", "other"])
        for first, second, label in found:
            self.assertEqual(self.document(first[0]), self.document(first[-1]))
            self.assertEqual(self.document(second[0]), self.document(second[-1]))
            self.assertEqual(self.document(first[0]) == self.document(second[0]), label == 0)
            if label == 0 and len(first) + len(second) < self.ROOM:
                self.assertEqual(first[-1] + 1, second[0])
        self.assertEqual({self.document(first[0]) for first, _, _ in found}, set(range(len(self.documents))))
        self.assertEqual([self.document(first[0]) for first, _, _ in found], shard["rows"].tolist())
        # More than half are other documents': lines alone have no other second passage.
        self.assertTrue(0.5 < np.mean([label for _, _, label in found]) < 0.75)

    def test_the_summary_counts_both_classes(self):
        done = self.prepare("counted", tokenizer={"vocabulary": "vocab.txt", "max_tokens": self.ROOM + 3}, split={"train": 0.5, "test": 0.5})
        labels = [int(label) for split in ("train", "test") for label in read_shard(self.folder / f"counted/{split}-00000.h5")["labels"]]
        self.assertIn(f"labels      2: \"next\" {labels.count(0)} and \"other\" {labels.count(1)}\n", done.stdout)

    def test_passages_are_swapped(self):
        found, _ = self.pairs("order", "sentence_order")
        for first, second, label in found:
            self.assertEqual(self.document(first[0]), self.document(second[0]))
            self.assertEqual(first[-1] < second[0], label == 0)
        # Three standard deviations of a binomial.
        self.assertLess(abs(np.mean([label for _, _, label in found]) - 0.5), 1.5 / np.sqrt(len(found)))

    def test_rows_of_tables_are_documents_too(self):
        rows = [json.dumps({"text": "\n".join(map(" ".join, document))}) for document in self.documents]
        (self.folder / "documents.jsonl").write_text("\n".join(rows) + "\n")
        found, expected = self.pairs("rows", source={"format": "jsonl", "files": ["documents.jsonl"]})[0], self.pairs("plain")[0]
        self.assertTrue(all(all(map(np.array_equal, a, b)) for a, b in zip(found, expected, strict=True)))
        # The resolved input makes the same shards.
        run("bert_hpc_prep", "plain/prep.toml", "--set", 'output.directory="again"', cwd=self.folder, check=0)
        self.assertEqual((self.folder / "again/train-00000.h5").read_bytes(), (self.folder / "plain/train-00000.h5").read_bytes())

    def test_ranks_and_trained_vocabularies_give_one_set_of_pairs(self):
        trained = {"train_size": 300, "max_tokens": 24}
        for name, ranks in (("alone", 1), ("ranks", 3)):
            self.write(f"{name}.toml", {"source": self.SOURCE, "tokenizer": trained, "split": {"train": 1}, "task": {"name": self.TASK}, "output": {"directory": name}})
            run("bert_hpc_prep", f"{name}.toml", cwd=self.folder, check=0, ranks=ranks)
        one, other = (read_shard(self.folder / name / "train-00000.h5") for name in ("alone", "ranks"))
        self.assertEqual([one["ids"], one["types"], one["labels"].tolist()], [other["ids"], other["types"], other["labels"].tolist()])

    def test_what_cannot_be_paired_is_refused(self):
        for problem, tables in (('unit = "line" makes documents of one line each', {"source": {"unit": "line"}}),
                                ("doc_stride does not go with documents", {"tokenizer": {"vocabulary": "vocab.txt", "doc_stride": 4}}),
                                ("label does not go with documents", {"source": {"label": "label"}})):
            done = self.prepare("refused", 2, **{"tokenizer": {"vocabulary": "vocab.txt"}} | tables)
            self.assertIn(problem, done.stderr)
        done = self.prepare("refused", 2, tokenizer={"vocabulary": "vocab.txt"}, task={"name": "masked_lm", "pairs": "next_sentence"})
        self.assertIn("pairs is for masked_lm_pairs, and the task is masked_lm", done.stderr)
        for name, text, problem in (("short", "d0x0x0\n\nd1x0x0\n", "documents of one line each"), ("one", "d0x0x0\nd0x0x1\n", "one document, but half of the pairs")):
            (self.folder / f"{name}.txt").write_text(text)
            done = self.prepare(f"{name}-refused", 3, source={"files": [f"{name}.txt"]}, tokenizer={"vocabulary": "vocab.txt"}, split={"train": 1})
            self.assertIn(problem, done.stderr)
            self.assertFalse((self.folder / f"{name}-refused").exists())


class Nvidia(LanguageModel):
    SOURCE, TASK = {"format": "nvidia_hdf5", "files": ["nvidia.hdf5"]}, "masked_lm_pairs"
    WIDTH, WORDS = 24, 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = np.random.RandomState(2)
        cls.rows = []
        arrays = {name: np.zeros((40, width), kind) for name, width, kind in
                  (("input_ids", cls.WIDTH, "i4"), ("input_mask", cls.WIDTH, "i1"), ("segment_ids", cls.WIDTH, "i1"), ("masked_lm_positions", 5, "i4"), ("masked_lm_ids", 5, "i4"))}
        labels = draw.randint(0, 2, 40).astype("i1")
        for i in range(40):
            first, second = (draw.randint(5, cls.WORDS, draw.randint(1, 10)).tolist() for _ in range(2))
            ids = [CLS, *first, SEP, *second, SEP]
            cls.rows.append((first, second, int(labels[i])))
            arrays["input_ids"][i, :len(ids)] = ids
            arrays["input_mask"][i, :len(ids)] = 1
            arrays["segment_ids"][i, len(first) + 2:len(ids)] = 1
            masked = sorted(draw.choice([p for p, token in enumerate(ids) if token > MASK], min(3, len(first) + len(second)), replace=False))
            for k, position in enumerate(masked):
                arrays["masked_lm_positions"][i, k], arrays["masked_lm_ids"][i, k] = position, ids[position]
                arrays["input_ids"][i, position] = MASK
        with h5py.File(cls.folder / "nvidia.hdf5", "w") as file:
            for name, values in arrays.items():  # chunks that hold parts of rows, as h5py chooses them
                file.create_dataset(name, data=values, compression="gzip", chunks=(7, 3), shuffle=name == "segment_ids", fletcher32=name == "input_ids")
            file.create_dataset("next_sentence_labels", data=labels, compression="gzip")
        (cls.folder / "vocab.txt").write_text("\n".join([*SPECIAL, *(f"word{i}" for i in range(5, cls.WORDS))]) + "\n")

    def shard(self, name, **tables):
        self.prepare(name, tokenizer={"vocabulary": "vocab.txt", "max_tokens": self.WIDTH}, split={"test": 1}, **tables)
        shard = read_shard(self.folder / name / "test-00000.h5")
        return shard, [shard["rows"].tolist().index(i) for i in range(len(self.rows))]

    def test_pairs_are_those_of_the_file_without_masks(self):
        shard, order = self.shard("pairs")
        for (first, second, label), at in zip(self.rows, order, strict=True):
            self.assertEqual(shard["ids"][at], [CLS, *first, SEP, *second, SEP])
            self.assertEqual(shard["types"][at], [0] * (len(first) + 2) + [1] * (len(second) + 1))
            self.assertEqual(shard["names"][shard["labels"][at]], str(label))

    def test_both_passages_are_a_text_of_masked_lm(self):
        shard, order = self.shard("texts", task={"name": "masked_lm", "pack": False})
        self.assertEqual([shard["ids"][at] for at in order], [[CLS, *first, *second, SEP] for first, second, _ in self.rows])

    def test_a_training_reads_them(self):
        self.prepare("shards", tokenizer={"vocabulary": "vocab.txt", "max_tokens": self.WIDTH}, split={"train": 0.8, "validation": 0.2})
        self.MODEL = Pairs.MODEL
        self.start("trained", schedule={"steps": 3})
        self.assertIn("cls.seq_relationship.weight", read_safetensors(self.folder / "trained/model/model.safetensors"))

    def test_other_vocabularies_and_files_are_refused(self):
        (self.folder / "few.txt").write_text("\n".join([*SPECIAL, *(f"word{i}" for i in range(5, 20))]) + "\n")
        done = self.prepare("refused", 3, tokenizer={"vocabulary": "few.txt"})
        self.assertIn("ids of [tokenizer] vocabulary go from 0 to 19", done.stderr)
        self.assertFalse((self.folder / "refused").exists())
        done = self.prepare("refused", 2, tokenizer={"train_size": 100}, task={"name": "classification"})
        self.assertIn("hold ids of tokens: name the vocabulary", done.stderr)
        self.assertIn("they are for masked_lm_pairs and masked_lm", done.stderr)
        done = self.prepare("refused", 2, source={"text": "tokens"}, tokenizer={"vocabulary": "vocab.txt"})
        self.assertIn("text_pair is missing, and the rows are pairs", done.stderr)
        with h5py.File(self.folder / "nvidia.hdf5") as file, h5py.File(self.folder / "less.hdf5", "w") as less:
            for name in file:
                if name != "masked_lm_ids":
                    less[name] = file[name][:]
        done = self.prepare("refused", 3, source={"files": ["less.hdf5"]}, tokenizer={"vocabulary": "vocab.txt"})
        self.assertIn("less.hdf5", done.stderr)
        self.assertIn("masked_lm_ids", done.stderr)


if __name__ == "__main__":
    unittest.main()
