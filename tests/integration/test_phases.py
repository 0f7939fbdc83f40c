"""run.previous_phase: a run continues with another run's parameters and optimizer states, on any layout and after a kill, with the bits of
one training; what does not fit is refused."""

import unittest

import h5py
import numpy as np
from language_model import LanguageModel
from program import MPIRUN, as_if_killed_after, sentences
from test_tensor import read_safetensors

END = {"at_end": True}
CONSTANT = {"name": "constant", "warmup_ratio": 0.0}


class Phases(LanguageModel):
    """A causal model without dropout on data in the order of the file: each epoch is as the first."""

    SOURCE, TASK = {"format": "text", "files": ["text.txt"]}, "causal_lm"
    MODEL = {"family": "gpt2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
             "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        (cls.folder / "text.txt").write_text("".join(text + "\n" for text, _, _ in sentences(96)))
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


if __name__ == "__main__":
    unittest.main()
