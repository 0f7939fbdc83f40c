"""[data] padding in tasks whose heads read more than the first token, or several sequences at once: losses, metrics and predictions
are those without padding, but for rounding."""

import json
import unittest

import h5py
import numpy as np
from program import TaskCase, sentences

import test_answer_ranking
import test_question_answering
import test_token_classification


class EveryTask(TaskCase):
    hidden_size, max_tokens = 32, 40

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "squad.json").write_text(json.dumps(test_question_answering.document()), encoding="utf-8")
        (cls.folder / "wikiqa.tsv").write_text(test_answer_ranking.wikiqa(test_answer_ranking.questions()))
        (cls.folder / "rows.conll").write_text(test_token_classification.conll(test_token_classification.sentences()), encoding="utf-8")
        (cls.folder / "text.txt").write_text("\n".join(text for text, _, _ in sentences(200)) + "\n")

    def prepare(self, task, source, **more):
        self.start("bert_hpc_prep", f"{task}_prep.toml",
                   {"source": source, "split": {"train": 0.7, "validation": 0, "test": 0.3},
                    "tokenizer": {"max_tokens": self.max_tokens, "train_size": 150} | more,
                    "task": {"name": task} | ({"pack": False} if task == "masked_lm" else {}), "output": {"directory": task}}, 1, 0)

    def trained(self, task, padding, ranks, keys, **tables):
        """Losses of the steps, and the test split's loss and metrics, by name."""
        name = f"{task} {padding}"
        tables = {"schedule": {"epochs": None, "steps": 6, "warmup_ratio": 0.1}, "optimizer": {"learning_rate": 1e-4, "epsilon": 1e-3},
                  "batch": {"global": 8, "micro": 2}, "log": {"progress": "none", "every_steps": 1}} | tables
        self.train(name, ranks, task={"name": task} | keys, **tables,
                   data={"train": [f"{task}/train-*.h5"], "test": [f"{task}/test-*.h5"], "padding": padding})
        with h5py.File(self.folder / name / "metrics.h5") as file:
            steps, test = file["steps"], file["evaluations/test"]
            more = steps["computed_tokens"][()] - steps["tokens"][()]  # candidates of a query may have equal lengths
            self.assertTrue({"none": more == 0, "longest": more >= 0, "max": more > 0}[padding].all())
            values = {metric: item[-1] for metric, item in test.items() if isinstance(item, h5py.Dataset) and item.ndim == 1}
            return steps["loss"][()], values

    def check(self, task, ranks=1, keys={}, **tables):
        """Weights are large, so that attention matters: without its mask losses differ by 1e-2 and more. Gradients, of norm 10
        at most, differ by 2⁻²² of it, so that 6 updates with a slope of 2 · lr / ε = 0.2 make weights differ by 3e-6 and losses
        by 3e-5 at most (see test_padding.py)."""
        tables["model"] = {"initializer_range": 0.2} | tables.get("model", {})
        expected, metrics = self.trained(task, "none", 1, keys, model={"initializer_range": 0.2})
        for padding in ("longest", "max"):
            with self.subTest(task=task, padding=padding):
                losses, found = self.trained(task, padding, ranks, keys, **tables)
                np.testing.assert_allclose(losses, expected, rtol=0, atol=3e-5)
                for name, value in metrics.items():
                    if name == "loss":
                        self.assertAlmostEqual(found[name], value, delta=3e-5)
                    elif "threshold" not in name:  # counts of a few hundred decisions, of which one may be a tie
                        np.testing.assert_allclose(found[name], value, rtol=0.02, err_msg=name)

    def test_question_answering(self):
        self.prepare("question_answering", {"format": "squad", "files": ["squad.json"]}, doc_stride=8)
        self.check("question_answering")

    def test_answer_ranking(self):
        self.prepare("answer_ranking", {"format": "wikiqa", "files": ["wikiqa.tsv"]})
        self.check("answer_ranking", ranks=2, keys={"loss": "listwise"}, parallel={"data": 2})

    def test_token_classification(self):
        self.prepare("token_classification", {"format": "conll", "files": ["rows.conll"]}, doc_stride=8)
        self.check("token_classification", ranks=2, keys={"all_pieces": True}, parallel={"tensor": 2})

    def test_masked_lm(self):
        self.prepare("masked_lm", {"format": "text", "files": ["text.txt"]})
        self.check("masked_lm", ranks=2, parallel={"pipeline": 2}, model={"recompute": "blocks"})


if __name__ == "__main__":
    unittest.main()
