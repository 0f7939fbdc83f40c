"""run.previous_phase: a run continues with another run's parameters and optimizer states, on any layout and after a kill, with the bits of
one training; what does not fit is refused."""

import os
import subprocess
import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, as_if_killed_after, installed_tree, run
from test_tensor import read_safetensors

END = {"at_end": True}
CONSTANT = {"name": "constant", "warmup_ratio": 0.0}


@unittest.skipIf(MPIRUN is None, "mpirun is not at hand")
class Phases(LanguageModel):
    """A causal model without dropout on data in the order of the file: each epoch is as the first."""

    SOURCE, TASK = {"format": "text", "files": ["text.txt"]}, "causal_lm"
    MODEL = {"family": "gpt2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
             "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_text("text.txt", 96)
        cls.prepare("shards", tokenizer={"type": "byte_bpe", "train_size": 300, "max_tokens": 32}, task={"pack": False}, split={"train": 1})

    def train(self, name, ranks=1, steps=6, check=0, **tables):
        data = {"train": ["shards/train-*.h5"], "validation": None, "order": "file"}
        return self.start(name, ranks, check, data=data, schedule=CONSTANT | {"steps": steps}, **tables)

    def result(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            steps = {key: list(file[f"steps/{key}"]) for key in ("step", "loss", "gradient_norm", "learning_rate", "samples")}
        return steps, read_safetensors(self.folder / name / "model/model.safetensors")

    def assert_same(self, name, other):
        (steps, weights), (expected, others) = self.result(name), self.result(other)
        self.assertEqual(steps, expected)
        self.assertTrue(all(np.array_equal(weights[key], value) for key, value in others.items()))

    def test_phases_have_the_bits_of_one_training(self):
        self.train("whole", steps=12)  # two epochs of 96 sequences
        expected, weights = self.result("whole")
        done = self.train("first", 2, parallel={"data": 2}, checkpoint=END)
        for phase_steps, ranks, parallel in (("restart", 4, {"pipeline": 2, "data": 2}), ("continue", 2, {"pipeline": 2})):
            with self.subTest(phase_steps):
                restarts = phase_steps == "restart"
                done = self.train(phase_steps, ranks, 6 if restarts else 12, parallel=parallel,
                                  run={"previous_phase": "first", "phase_steps": phase_steps})
                self.assertIn("parameters and optimizer states of 6 updates are read", done.stdout)
                found, mine = self.result(phase_steps)
                self.assertEqual(found["step"], list(range(1, 7) if restarts else range(7, 13)))
                self.assertEqual(found["loss"], expected["loss"][6:])
                self.assertEqual(found["gradient_norm"], expected["gradient_norm"][6:])
                self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))

    def test_a_killed_phase_resumes_on_another_layout(self):
        self.train("begin", checkpoint=END)
        phase = {"run": {"previous_phase": "begin"}, "batch": {"global": 8, "warmup_start": 4, "warmup_steps": 3}}
        self.train("unharmed", 2, parallel={"pipeline": 2}, **phase)
        kept = {"every_steps": 2, "keep": 9}
        self.train("killed", 2, parallel={"data": 2}, checkpoint=kept, **phase)
        as_if_killed_after(2, self.folder / "killed")
        done = self.train("killed", 4, parallel={"pipeline": 2, "data": 2}, checkpoint=kept, **phase)
        self.assertIn("resuming from step 2", done.stdout)
        self.assert_same("killed", "unharmed")

    def test_what_cannot_be_continued_is_refused(self):
        self.train("early", checkpoint={"every_steps": 4})
        self.train("other", checkpoint=END)
        (self.folder / "empty").mkdir()

        def refused(previous, *texts, **tables):
            done = self.train("refused", check=2, run={"previous_phase": previous}, **tables)
            for text in texts:
                self.assertIn(text, done.stderr)

        refused("nowhere", "there is no run of bert_hpc", "Name the directory of a finished run")
        refused("empty", "there is no run of bert_hpc")
        refused("early", "of step 4, is not of its end", "checkpoint.at_end = true")
        refused("other", "parameter ", " × 32 there", " × 64 here", model={"hidden_size": 64})
        refused("other", 'not of optimizer.name = "adamw8bit"', optimizer={"name": "adamw8bit"})
        as_if_killed_after(6, self.folder / "other")
        refused("other", 'that run is not finished (its status is "running")', "Resume it until it ends")
        self.train("explicit", run={"previous_phase": "early/checkpoints/step-00000004"})


@unittest.skipIf(MPIRUN is None, "mpirun is not at hand")
class ModernBertBase(LanguageModel):
    """The recipe of input/modernbert_base.toml and its .grid, scaled down."""

    SOURCE, TASK = {"format": "text", "files": ["text.txt"]}, "masked_lm"
    SIZES = ["model.hidden_size=32", "model.num_hidden_layers=3", "model.num_attention_heads=2", "model.intermediate_size=48",
             "model.local_attention=8", "run.reproducible=true", 'precision.compute="fp32"', "evaluation.every_steps=5", "log.every_steps=1"]
    SCALED = {"batch.warmup_start=768": "batch.global=8 schedule.tokens=1000 batch.warmup_start=4",
              "batch.warmup_increment=768": "batch.warmup_increment=2",
              "batch.warmup_tokens=50e9": "batch.warmup_tokens=400", "schedule.warmup_tokens=3e9": "schedule.warmup_tokens=150",
              "batch.global=576": "batch.global=4", "schedule.tokens=250e9": "schedule.tokens=2000", "schedule.tokens=50e9": "schedule.tokens=1600",
              "schedule.decay_tokens=50e9": "schedule.decay_tokens=1600"}
    LAYOUTS = {"pretrain": (2, ["parallel.data=2"]), "extend": (2, ["parallel.pipeline=2"]), "decay": (4, ["parallel.pipeline=2", "parallel.data=2"])}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_text("text.txt", 120)
        for length, vocabulary in ((1024, {"type": "byte_bpe", "train_size": 300}), (8192, {"vocabulary": "modernbert_base/shards_1024"})):
            cls.prepare(f"modernbert_base_{length}", tokenizer=vocabulary | {"max_tokens": 24 if length == 1024 else 64},
                        split={"train": 0.9, "validation": 0.1}, output={"directory": f"modernbert_base/shards_{length}"})
        cls.jobs = installed_tree(cls.folder, "jobs", "postprocess", "input")

    def phases(self):
        """(name, settings) of each line of the scaled grid, which is written to tiny.grid."""
        text = (self.jobs.parent / "input/modernbert_base.grid").read_text()
        lines = [" ".join(self.SCALED.get(word, word) for word in line.split())
                 for line in text.splitlines() if line and not line.startswith("#")]
        self.assertTrue(all(value in "\n".join(lines) for value in self.SCALED.values()))
        (self.folder / "tiny.grid").write_text("\n".join(lines) + "\n")
        return [(line.split()[0], line.split()[1:]) for line in lines]

    def test_three_phases_have_the_same_bits_on_any_layouts(self):
        phases, given = self.phases(), [word for setting in self.SIZES for word in ("--set", setting)]
        base = self.jobs.parent / "input/modernbert_base.toml"
        done = subprocess.run(["bash", self.jobs / "grid.sh", base, "tiny.grid", "one", "1", "--chain", *given], cwd=self.folder, capture_output=True,
                              text=True, env={**os.environ, "BERT_HPC_GRID_REPORT": "0", "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        previous = None
        for name, words in phases:
            ranks, layout = self.LAYOUTS[name]
            settings = [*words, *self.SIZES, *layout, f'run.directory="many/{name}"', "checkpoint.at_end=true"]
            if previous:
                settings.append(f'run.previous_phase="many/{previous}"')
            run("bert_hpc", base, *[word for setting in settings for word in ("--set", setting)], ranks=ranks, threads=1, check=0, cwd=self.folder)
            previous = name
            one, many = (self.folder / folder / name for folder in ("one", "many"))
            with h5py.File(one / "metrics.h5") as left, h5py.File(many / "metrics.h5") as right, self.subTest(name):
                self.assertGreater(len(left["steps/loss"]), 5)
                for key in ("loss", "gradient_norm", "learning_rate", "samples", "tokens"):
                    self.assertEqual(list(left[f"steps/{key}"]), list(right[f"steps/{key}"]), key)
            weights, mine = (read_safetensors(folder / "model/model.safetensors") for folder in (one, many))
            self.assertTrue(all(np.array_equal(mine[key], value) for key, value in weights.items()))
        with h5py.File(self.folder / "one/decay/metrics.h5") as file:
            self.assertAlmostEqual(file["steps/learning_rate"][0], 3e-4, places=7)
            self.assertLess(file["steps/learning_rate"][-1], 1e-4)


if __name__ == "__main__":
    unittest.main()
