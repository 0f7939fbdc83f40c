"""The output layer of a pretrained model follows label names: other orders and spellings, other labels, rerankers with two
outputs, and the remedies of the messages, followed."""

import json
import random
import shutil
import struct
import unittest

import h5py
import numpy as np

from program import SIZES, TaskCase, sentences
from saved import rankings_of, values_of

ORDER = ["music", "animal", "nature", "machine"]
SORTED = sorted(ORDER)
HEAD = ("classifier.weight", "classifier.bias")


def tensors_of(model):
    """{name: array} of MODEL/model.safetensors, which holds floats."""
    data = (model / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def write_tensors(model, tensors):
    header, parts, at = {}, [], 0
    for name, values in tensors.items():
        part = np.ascontiguousarray(values, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


class HeadLabels(TaskCase):
    task = "classification"
    hidden_size = 32
    pretrained = {**SIZES, "hidden_dropout_prob": None, "attention_probs_dropout_prob": None}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = sentences(300)
        (cls.folder / "rows.jsonl").write_text("".join(
            json.dumps({"text": text, "label": label, "other": "not " + label, "case": label.upper() + " ",
                        "labels": [label] + ["long"] * (len(text) > 60), "tokens": text.split(),
                        "tags": ["B-" + label if word == text.split()[-1] else "O" for word in text.split()],
                        "other_tags": [label] * len(text.split()),
                        "number": str(ORDER.index(label)), "one_based": str(ORDER.index(label) + 1)}) + "\n"
            for text, label, _ in cls.rows))
        cls.write_without("some.jsonl", "nature", "music")
        cls.write_without("fewer.jsonl", "nature")
        cls.prepare("a", labels=ORDER, tokenizer={"train_size": 120})
        cls.prepare("b")
        cls.train_task("first", shards="a", model={}, optimizer={"learning_rate": 4e-3}, schedule={"epochs": 8})
        cls.accuracy = cls.evaluate("first_a", "first/model", "a")["accuracy"]

    @classmethod
    def write_without(cls, name, *labels):
        lines = (cls.folder / "rows.jsonl").read_text().splitlines(keepends=True)
        (cls.folder / name).write_text("".join(line for line in lines if json.loads(line)["label"] not in labels))

    @classmethod
    def prepare(cls, name, labels=None, task="classification", source=None, tokenizer=None, file="rows.jsonl"):
        """Shards NAME/train/train-*.h5 and, of the same rows, NAME/test/test-*.h5."""
        column = {"classification": {"label": "label"}, "multi_label": {"label": "labels"}, "token_classification": {}}[task]
        for split, key, rest in (("train", "files", {"split": {"train": 1.0, "validation": 0.0, "test": 0.0}}),
                                 ("test", "test_files", {})):
            words = tokenizer or {"vocabulary": "a/train"}
            if split == "test" and "train_size" in words:
                words = {"vocabulary": f"{name}/train"}
            names = {} if labels is None else {"labels": labels}
            cls.start("bert_hpc_prep", "prep.toml", {
                "source": {"format": "jsonl", key: [file]} | column | (source or {}), **rest,
                "tokenizer": {"max_tokens": cls.max_tokens} | words, "task": {"name": task} | names,
                "output": {"directory": f"{name}/{split}"}}, 1, 0)

    @classmethod
    def shards_of(cls, name):
        return {"train": [f"{name}/train/train-*.h5"], "test": [f"{name}/test/test-*.h5"]}

    @classmethod
    def train_task(cls, name, shards, task="classification", model=None, **more):
        model = {"pretrained": "first/model", **cls.pretrained} if model is None else model
        defaults = {"optimizer": {"learning_rate": 1e-12}, "schedule": {"epochs": None, "steps": 1}}
        tables = defaults | more if model else more
        return cls.train(name, task={"name": task}, data=cls.shards_of(shards), model=model, **tables)

    @classmethod
    def apply(cls, mode, name, model, shards, task="classification", check=0, ranks=1, **more):
        return cls.start("bert_hpc", f"{name}.toml", {
            "run": {"mode": mode, "directory": name}, "model": {"pretrained": model} | more, "task": {"name": task},
            "data": {"test": cls.shards_of(shards)["test"]}, "log": {"progress": "none"}}, ranks, check)

    @classmethod
    def evaluate(cls, name, model, shards, **more):
        cls.apply("evaluate", name, model, shards, **more)
        with h5py.File(cls.folder / name / "metrics.h5") as file:
            return values_of(file["evaluations/test"])

    def names_of(self, model):
        names = json.loads((self.folder / model / "config.json").read_text())["id2label"]
        return [names[str(i)] for i in range(len(names))]

    def require_rows(self, model, before, rows):
        """The head of `model` has the rows `rows` of the model `before`; other parameters are the same."""
        new, old = tensors_of(self.folder / model), tensors_of(self.folder / before)
        for name, values in old.items():
            np.testing.assert_array_equal(new[name], values[rows] if name in HEAD else values, err_msg=name)

    def test_a_training_and_an_evaluation_reorder_the_rows_by_name(self):
        self.assertGreater(self.accuracy, 0.9)
        rows = [ORDER.index(name) for name in SORTED]
        done = self.train_task("second", "b")
        self.assertIn("its rows are reordered by name", done.stdout)
        self.require_rows("second/model", "first/model", rows)
        self.assertEqual(self.names_of("second/model"), SORTED)
        self.assertEqual(self.evaluate("second_b", "second/model", "b")["accuracy"], self.accuracy)
        self.assertEqual(self.evaluate("first_b", "first/model", "b")["accuracy"], self.accuracy)
        with h5py.File(self.folder / "first_b/predictions.h5") as file:
            self.assertEqual(list(file.attrs["label_names"]), SORTED)
            self.assertEqual(np.mean(file["prediction"][:] == file["label"][:]), self.accuracy)
        # Predictions have the model's names.
        self.apply("predict", "predicted", "first/model", "b")
        with h5py.File(self.folder / "predicted/predictions.h5") as file, h5py.File(self.folder / "first_b/predictions.h5") as other:
            self.assertEqual(list(file.attrs["label_names"]), ORDER)
            np.testing.assert_array_equal(np.take(rows, other["prediction"][:]), file["prediction"][:])

    def test_any_layout_reorders_the_rows(self):
        rows = [ORDER.index(name) for name in SORTED]
        for parallel in {"pipeline": 2}, {"tensor": 2}:
            self.train_task("laid_out", "b", ranks=2, parallel=parallel)
            self.require_rows("laid_out/model", "first/model", rows)
            shutil.rmtree(self.folder / "laid_out")

    def test_sets_and_words_are_reordered_too(self):
        for task, names in ("multi_label", ["long", *ORDER]), ("token_classification", ["O", *("B-" + name for name in ORDER)]):
            self.prepare(f"{task}_a", labels=names, task=task)
            self.prepare(f"{task}_b", task=task)
            self.train_task(f"{task}_first", f"{task}_a", task=task,
                            model={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}, schedule={"epochs": 4})
            before = self.evaluate(f"{task}_1", f"{task}_first/model", f"{task}_a", task=task)
            after = self.evaluate(f"{task}_2", f"{task}_first/model", f"{task}_b", task=task)
            for metric in ("loss", "micro_f1" if task == "multi_label" else "entity_f1"):
                self.assertAlmostEqual(before[metric], after[metric], places=6)
            self.train_task(f"{task}_second", f"{task}_b", task=task, model={"pretrained": f"{task}_first/model", **self.pretrained})
            self.require_rows(f"{task}_second/model", f"{task}_first/model", [names.index(name) for name in sorted(names)])

    def test_a_model_of_another_task_is_refused(self):
        for task, tables, words in (("multi_label", {"source": {"label": "label"}}, "problem_type \"single_label_classification\""),
                                    ("token_classification", {"source": {"label": "other_tags"}}, "architectures \"…ForSequenceClassification\"")):
            self.prepare(f"{task}_c", labels=ORDER, task=task, **tables)
            for mode in "evaluate", "predict":
                done = self.apply(mode, f"{task}_{mode}", "first/model", f"{task}_c", task=task, check=3)
                self.assertIn("was trained for another task: its config.json has " + words, done.stderr)
                self.assertFalse((self.folder / f"{task}_{mode}").exists())
            self.apply("predict", f"{task}_kept", "first/model", f"{task}_c", task=task, head="keep")

    def test_an_adapter_s_head_is_reordered(self):
        lora = {"pretrained": "first/model", "trainable": "lora", **self.pretrained}
        self.train_task("adapted", "a", model=lora, optimizer={"learning_rate": 1e-3}, schedule={"epochs": 1})
        tables = {"run": {"mode": "evaluate"}, "model": {"pretrained": "first/model"}, "model.lora": {"adapter": "adapted/adapter"},
                  "task": {"name": self.task}, "log": {"progress": "none"}}
        found = []
        for shards in "ab":
            tables["run"]["directory"] = f"adapter_{shards}"
            self.start("bert_hpc", "adapter.toml", tables | {"data": {"test": self.shards_of(shards)["test"]}}, 1, 0)
            with h5py.File(self.folder / f"adapter_{shards}/metrics.h5") as file:
                found.append(values_of(file["evaluations/test"])["loss"])
        self.assertAlmostEqual(*found, places=6)

    def test_other_spellings_match(self):
        self.prepare("upper", source={"label": "case"})
        self.assertEqual(self.evaluate("first_upper", "first/model", "upper")["accuracy"], self.accuracy)
        done = self.train_task("respelled", "upper")
        self.assertIn("another order and spelling", done.stdout)
        self.assertEqual(self.names_of("respelled/model"), [name.upper() for name in SORTED])
        self.require_rows("respelled/model", "first/model", [ORDER.index(name) for name in SORTED])

    def test_an_evaluation_takes_some_of_the_labels(self):
        self.prepare("some", file="some.jsonl")
        self.assertGreater(self.evaluate("first_some", "first/model", "some")["accuracy"], 0.9)
        with h5py.File(self.folder / "first_some/predictions.h5") as file:
            self.assertEqual(list(file.attrs["label_names"]), ["animal", "machine", "music", "nature"])

    def test_other_labels_get_a_new_head_unless_it_is_kept(self):
        self.prepare("other", source={"label": "other"})
        self.prepare("fewer_labels", file="fewer.jsonl")
        done = self.train_task("renewed", "other")
        self.assertIn("warning: the pretrained classifier has other labels", done.stdout)
        self.assertIn("newly initialised (2): classifier.weight, classifier.bias", done.stdout)
        new, old = (tensors_of(self.folder / model / "model")["classifier.weight"] for model in ("renewed", "first"))
        self.assertFalse(np.isin(new, old).any())
        kept = {"pretrained": "first/model", "head": "keep", **self.pretrained}
        done = self.train_task("kept", "other", model=kept)
        self.assertIn("classes are matched by number: music is not animal", done.stdout)
        self.require_rows("kept/model", "first/model", [0, 1, 2, 3])
        done = self.apply("evaluate", "refused", "first/model", "other", check=3)
        self.assertIn('head = "keep"', done.stderr)
        self.apply("evaluate", "not_refused", "first/model", "other", head="keep")
        done = self.train_task("no_such", "fewer_labels", model=kept, check=2)
        self.assertIn('[model] head = "keep", but first/model has another one: classifier.weight', done.stderr)
        new = {"pretrained": "first/model", "head": "new", **self.pretrained}
        self.assertIn("newly initialised (2)", self.train_task("new_head", "b", model=new).stdout)
        done = self.apply("evaluate", "wrong", "first/model", "b", check=2, head="new")
        self.assertIn('head = "new" is for trainings', done.stderr)

    def test_the_labels_that_a_message_proposes_are_right(self):
        """A message about labels ends in a line for bert_hpc_prep's input, which the next preparation takes."""
        for wrong, right in ("one_based", "number"), ("other", "label"):
            self.prepare(wrong, source={"label": wrong})
            message = self.apply("evaluate", "refused", "first/model", wrong, check=3).stderr
            self.prepare(right + "_right", labels=self.proposed(message), source={"label": right})
            self.assertEqual(self.evaluate(f"{right}_ok", "first/model", right + "_right")["accuracy"], self.accuracy)
        done = self.apply("evaluate", "by_number", "first/model", "number_right")
        self.assertIn("note: classes are matched by number: music is 0, animal is 1", done.stdout)

    def test_a_training_on_fewer_labels_proposes_the_list_that_keeps_the_head(self):
        self.prepare("fewer", file="fewer.jsonl")
        done = self.train_task("less", "fewer")
        self.assertIn("warning: the pretrained classifier has 4 labels", done.stdout)
        self.prepare("fewer_right", labels=self.proposed(done.stdout), file="fewer.jsonl")
        done = self.train_task("not_less", "fewer_right")
        self.assertNotIn("newly initialised", done.stdout)
        self.require_rows("not_less/model", "first/model", [0, 1, 2, 3])

    @staticmethod
    def proposed(message):
        line = message[message.index("labels = ["):].splitlines()[0]
        return json.loads(line[line.index("["):line.rindex("]") + 1])

    def test_a_training_states_classes_by_number_if_the_model_has_no_names(self):
        shutil.copytree(self.folder / "first/model", self.folder / "nameless")
        config = json.loads((self.folder / "nameless/config.json").read_text())
        by_name = config.pop("label2id")
        config.pop("id2label")
        (self.folder / "nameless/config.json").write_text(json.dumps(config))
        done = self.train_task("nameless_run", "b", model={"pretrained": "nameless", **self.pretrained})
        self.assertIn(f"classes are matched by number: 0 is {SORTED[0]}, 1 is {SORTED[1]}", done.stdout + done.stderr)
        self.require_rows("nameless_run/model", "first/model", slice(None))
        # label2id alone names them too.
        (self.folder / "nameless/config.json").write_text(json.dumps(config | {"label2id": by_name}))
        self.train_task("numbered_run", "b", model={"pretrained": "nameless", **self.pretrained})
        self.require_rows("numbered_run/model", "first/model", [ORDER.index(name) for name in SORTED])

    def test_a_wrapped_model_s_weights_are_read(self):
        shutil.copytree(self.folder / "first/model", self.folder / "wrapped")
        plain = tensors_of(self.folder / "first/model")
        write_tensors(self.folder / "wrapped", {"module." + name: values for name, values in plain.items()})
        self.assertEqual(self.evaluate("unwrapped", "wrapped", "a")["accuracy"], self.accuracy)
        done = self.apply("predict", "unwrapped_too", "wrapped", "a")
        self.assertIn('names in the file begin with "module."', done.stdout)
        write_tensors(self.folder / "wrapped", {"net." + name: values for name, values in plain.items()})
        done = self.apply("evaluate", "no", "wrapped", "a", check=4)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


class TwoOutputs(TaskCase):
    """A reranker of two outputs, as a classification of pairs is, against its difference."""

    task = "answer_ranking"
    hidden_size = 32

    def test_scores_are_the_difference_of_the_logits(self):
        draw = random.Random(2)
        words = "dog cat bird river mountain engine circuit battery".split()
        lines = ["qid\tpid\tquestion\tpassage\tlabel"]
        for query in range(40):
            topic = draw.choice(words)
            for passage in range(4):
                text = " ".join(draw.choices("the a old small".split(), k=4) + [topic if passage == 1 else draw.choice(words)])
                lines.append(f"q{query}\tp{passage}\twhere is the {topic}\t{text}\t{int(passage == 1)}")
        (self.folder / "rows.tsv").write_text("\n".join(lines) + "\n")
        columns = {"format": "tsv", "text": "question", "text_pair": "passage", "label": "label"}
        whole = {"split": {"train": 1.0, "validation": 0.0, "test": 0.0}}
        output = lambda name, **more: {"tokenizer": {"max_tokens": 32} | more, "output": {"directory": name}}
        self.start("bert_hpc_prep", "pairs.toml", {"source": columns | {"files": ["rows.tsv"]}, **whole,
                                                   "task": {"name": "classification"}, **output("train", train_size=100)}, 1, 0)
        ranks = {"query_id": "qid", "id": "pid"}
        for name, key, rest in ("test", "test_files", {}), ("ranked", "files", whole | {"split": {"train": 1.0, "group": "qid",
                                                                                                  "validation": 0.0, "test": 0.0}}):
            self.start("bert_hpc_prep", f"{name}_prep.toml", {"source": columns | ranks | {key: ["rows.tsv"]}, **rest,
                                                              "task": {"name": self.task}, **output(name, vocabulary="train")}, 1, 0)
        self.train("pairs", task={"name": "classification"}, data={"train": ["train/train-*.h5"], "test": None})
        done = self.predict("two", "pairs/model")
        self.assertIn("a score is the second (1) minus the first (0)", done.stdout)
        # The same model with one output.
        shutil.copytree(self.folder / "pairs/model", self.folder / "one")
        tensors = tensors_of(self.folder / "one")
        for name in HEAD:
            tensors[name] = tensors[name][1:] - tensors[name][:1]
        write_tensors(self.folder / "one", tensors)
        config = json.loads((self.folder / "one/config.json").read_text())
        config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        (self.folder / "one/config.json").write_text(json.dumps(config))
        self.predict("one_run", "one")
        self.assertEqual(rankings_of(self.folder / "two"), rankings_of(self.folder / "one_run"))
        # The same model with its outputs in the other order, which their names tell.
        shutil.copytree(self.folder / "pairs/model", self.folder / "swapped")
        tensors_two = tensors_of(self.folder / "pairs/model")
        write_tensors(self.folder / "swapped", tensors_two | {name: tensors_two[name][::-1] for name in HEAD})
        config |= {"id2label": {"0": "relevant", "1": "not_relevant"}, "label2id": {"relevant": 0, "not_relevant": 1}}
        (self.folder / "swapped/config.json").write_text(json.dumps(config))
        done = self.predict("swapped_run", "swapped")
        self.assertIn("a score is the first (relevant) minus the second (not_relevant)", done.stdout)
        self.assertEqual(rankings_of(self.folder / "swapped_run"), rankings_of(self.folder / "one_run"))
        # A training on from it begins with that output.
        self.train("on", data={"train": ["ranked/train-*.h5"], "test": None}, optimizer={"learning_rate": 1e-12},
                   model={"pretrained": "pairs/model", **HeadLabels.pretrained}, schedule={"epochs": None, "steps": 1})
        trained = tensors_of(self.folder / "on/model")
        for name in HEAD:
            np.testing.assert_array_equal(trained[name], tensors[name])

    def predict(self, name, model):
        return self.start("bert_hpc", f"{name}_predict.toml", {
            "run": {"mode": "predict", "directory": name}, "model": {"pretrained": model}, "task": {"name": self.task},
            "data": {"test": ["test/test-*.h5"]}, "log": {"progress": "none"}}, 1, 0)


if __name__ == "__main__":
    unittest.main()
