"""The CUDA build: without a GPU it says so and leaves with 2, and still validates; with one it trains as the CPU build
does (dropout off: losses over 20 steps within 1e-4 in fp32, 2e-3 in fp8)."""

import os
import pathlib
import re
import unittest

import program

CPU_BUILD = pathlib.Path(os.environ.get("BERT_HPC_CPU_BUILD", program.BUILD.parent / "build"))


def losses(output):
    return [float(value) for value in re.findall(r"\bloss ([0-9.]+)", output)]


class Gpu(unittest.TestCase):
    def setUp(self):
        if not (CPU_BUILD / "bert_hpc_prep").exists():
            raise unittest.SkipTest(f"no CPU build in {CPU_BUILD}, which makes the shards")
        program.BUILD, self.build = CPU_BUILD, program.BUILD
        self.work = program.Workspace()
        self.input = self.work.input(model={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
                                     schedule={"epochs": None, "steps": 20})

    def tearDown(self):
        program.BUILD = self.build
        self.work.remove()

    def on(self, build, *arguments):
        program.BUILD = build
        return program.run("bert_hpc", self.input, *arguments)

    def test_without_a_gpu(self):
        for compute in ("fp32", "bf16", "fp16", "fp8"):
            validated = self.on(self.build, "--validate", "--set", f'precision.compute="{compute}"')
            self.assertEqual(validated.returncode, 0, validated.stderr)
            self.assertIn("valid: nothing was computed", validated.stdout)
        done = self.on(self.build)
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no GPU found", done.stderr)
        self.assertIn("--gpus-per-task", done.stderr)

    def test_same_losses_as_on_a_cpu(self):
        self.check("fp32", 1e-4)

    def test_same_losses_in_fp8(self):
        # The CPU rounds through FP8 into bf16; sums differ, and numbers between two 8-bit ones go either way.
        self.check("fp8", 2e-3)

    def check(self, compute, tolerance):
        arguments = ("--overwrite", "--set", f'precision.compute="{compute}"')
        there = self.on(self.build, *arguments)
        if "no GPU found" in there.stderr:
            self.skipTest("no GPU")
        self.assertEqual(there.returncode, 0, there.stderr)
        here = self.on(CPU_BUILD, *arguments)
        self.assertEqual(here.returncode, 0, here.stderr)
        expected, found = losses(here.stdout), losses(there.stdout)
        self.assertGreater(len(expected), 10)
        self.assertEqual(len(expected), len(found))
        for a, b in zip(expected, found):
            self.assertLess(abs(a - b), tolerance * max(1.0, a))


if __name__ == "__main__":
    unittest.main()
