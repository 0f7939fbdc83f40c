"""Whole runs with device memory out of the host's reach (BERT_HPC_GUARD_DEVICE_MEMORY, core/device_memory.hpp): what the
host touches outside kernels would crash here as it would on a GPU, and what kernels are handed must be device memory.
The losses are those of an ordinary run."""

import os
import re
import sys
import unittest

import program


def result(output):
    """The last training loss and the evaluations, as printed."""
    return re.findall(r"(?:test|validation)(?: at step [\d,]+)?: loss \S+.*", output)


class Guarded(program.Case):
    def train(self, guard, ranks=1, overrides=(), **tables):
        os.environ["BERT_HPC_GUARD_DEVICE_MEMORY"] = "1" if guard else "0"
        try:
            path = self.work.input(schedule={"epochs": None, "steps": 6}, **tables)
            return program.run("bert_hpc", path, "--overwrite", *overrides, ranks=ranks, threads=1, check=0).stdout
        finally:
            del os.environ["BERT_HPC_GUARD_DEVICE_MEMORY"]

    def check(self, ranks=1, **tables):
        plain, guarded = (self.train(guard, ranks, **tables) for guard in (False, True))
        self.assertTrue(result(plain))
        self.assertEqual(result(plain), result(guarded))


class Classification(Guarded):
    def test_one_rank(self):
        self.check()

    def test_sharded_and_offloaded(self):
        for zero, offload in ((0, False), (1, True), (2, False)):
            with self.subTest(zero=zero, offload=offload):
                self.check(ranks=2, run={"reproducible": True}, parallel={"zero": zero, "offload": offload},
                           debug={"parameter_hash_every": 2})

    def test_fp8(self):
        self.check(ranks=2, precision={"compute": "fp8"}, parallel={"tensor": 2}, checkpoint={"every_steps": 3})

    def test_resumed(self):
        for offload in (False, True):
            with self.subTest(offload=offload):
                tables = {"checkpoint": {"every_steps": 3}, "parallel": {"offload": offload}}
                expected = self.train(True, ranks=2, run={"reproducible": True}, **tables)
                there = str(self.work.folder / "run" / "checkpoints" / "step-00000003")
                run = {"reproducible": True, "directory": str(self.work.folder / "resumed"), "resume": there}
                self.assertEqual(result(expected), result(self.train(True, ranks=2, run=run, **tables)))

    def test_optimizers(self):
        for name in ("lamb", "stable_adamw", "adamw8bit"):
            with self.subTest(name):
                self.check(optimizer={"name": name, "learning_rate": 1e-2})

    def test_adapters(self):
        self.train(True)
        pretrained = {"pretrained": str(self.work.folder / "run" / "model"), "trainable": "lora"}
        for ranks, parallel in ((1, {}), (2, {"tensor": 2})):
            with self.subTest(ranks=ranks):
                self.check(ranks, run={"directory": str(self.work.folder / "adapted")}, model=program.SIZES | pretrained,
                           parallel=parallel, **{"model.lora": {"targets": ["all-linear"], "dropout": 0.1}})

    def test_fast_sums(self):
        self.train(True, ranks=2, parallel={"zero": 1}, debug={"check_collectives": True})
        self.train(True, ranks=2, parallel={"zero": 2})


class Evaluation(Guarded):
    rows = 3300  # four steps of an evaluation

    def test_export_evaluate_and_predict(self):
        self.check(evaluation={"best": "accuracy", "every_steps": 3})
        pretrained = str(self.work.folder / "run" / "model")
        # Ranks that read no results (a first stage, the second of a tensor group) wait for nothing by themselves.
        for mode, parallel in (("evaluate", {}), ("predict", {}), ("evaluate", {"pipeline": 2}), ("predict", {"tensor": 2})):
            self.train(True, ranks=2, run={"mode": mode, "directory": str(self.work.folder / mode)}, parallel=parallel,
                       data={"train": None, "validation": None, "test": [f"{self.work.folder}/shards/*-*.h5"]},
                       model={"pretrained": pretrained, "hidden_size": None, "num_hidden_layers": None,
                              "num_attention_heads": None, "intermediate_size": None, "max_position_embeddings": None},
                       optimizer=None, batch=None)


class MaskedLanguageModelling(Guarded):
    task = "masked_lm"

    def test_pipeline(self):
        self.check(ranks=2, run={"reproducible": True}, parallel={"pipeline": 2})

    def test_tensor(self):
        self.train(True, ranks=2, parallel={"tensor": 2})


class Regression(Guarded):
    task = "regression"

    def test_one_rank(self):
        self.check()


if __name__ == "__main__":
    if os.environ.get("BERT_HPC_SANITIZED"):
        print("skipped: what a sanitizer leaves between the words of a kernel's body looks like host memory")
        sys.exit(77)
    unittest.main()
