"""The CUDA build. Without a GPU it reports this and exits with status 2; --validate still works. With a GPU it trains as the
CPU build does (dropout off: losses over 20 steps within 1e-4 in fp32, 5e-3 in tf32, 2e-3 in fp8) and resumes from checkpoints of the other
build. A reproducible run that was stopped ends with the bits of an uninterrupted run."""

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
        self.directory = self.work.folder / "run"

    def tearDown(self):
        program.BUILD = self.build
        self.work.remove()

    def on(self, build, *arguments):
        program.BUILD = build
        return program.run("bert_hpc", self.input, *arguments)

    def test_without_a_gpu(self):
        for compute in ("fp32", "tf32", "bf16", "fp16", "fp8"):
            validated = self.on(self.build, "--validate", "--set", f'precision.compute="{compute}"')
            self.assertEqual(validated.returncode, 0, validated.stderr)
            self.assertIn("The input is valid. Nothing was computed.", validated.stdout)
        done = self.on(self.build)
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no GPU found", done.stderr)
        self.assertIn("--gpus-per-node", done.stderr)

    def test_same_losses_as_on_a_cpu(self):
        self.check("fp32", 1e-4)

    def test_same_losses_in_tf32(self):
        # A CPU has no TF32. Factors are rounded with 2⁻¹¹: a loss of a few layers and steps changes by a few times that.
        self.check("tf32", 5e-3, on_cpu="fp32")

    def test_same_losses_in_fp8(self):
        # The CPU rounds through FP8 into bf16; sums differ, and numbers between two 8-bit ones go either way.
        self.check("fp8", 2e-3)

    def test_resumes_what_a_cpu_began(self):
        self.check_resumed(CPU_BUILD, self.build)

    def test_a_cpu_resumes_what_it_began(self):
        self.check_resumed(self.build, CPU_BUILD)

    def test_a_resumed_run_has_the_same_bits(self):
        # Dropout on: its random generator resumes, too.
        arguments = ("--set", "run.reproducible=true", "--set", "model.hidden_dropout_prob=0.1")
        self.trained(self.build, *arguments)
        whole = self.weights()
        self.stopped_after(10, self.build, *arguments)
        resumed = self.trained(self.build, *arguments)
        self.assertIn("resuming from step 10", resumed.stdout)
        self.assertEqual(self.weights(), whole)

    def check(self, compute, tolerance, on_cpu=None):
        def trained(build, name):
            return losses(self.trained(build, "--overwrite", "--set", f'precision.compute="{name}"').stdout)

        there = trained(self.build, compute)
        self.compare(trained(CPU_BUILD, on_cpu or compute), there, tolerance)

    def check_resumed(self, there, here):
        whole = losses(self.trained(self.build).stdout)
        self.stopped_after(10, there)
        resumed = self.trained(here)
        self.assertIn("resuming from step 10", resumed.stdout)
        self.compare(whole[10:], losses(resumed.stdout), 1e-4)

    def trained(self, build, *arguments):
        done = self.on(build, *arguments)
        if "no GPU found" in done.stderr:
            self.skipTest("no GPU")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def stopped_after(self, step, build, *arguments):
        self.trained(build, "--overwrite", "--set", f"checkpoint.every_steps={step}", "--set", "checkpoint.keep=100", *arguments)
        program.as_if_killed_after(step, self.directory)

    def weights(self):
        return (self.directory / "model" / "model.safetensors").read_bytes()

    def compare(self, expected, found, tolerance):
        self.assertGreaterEqual(len(expected), 10)
        self.assertEqual(len(expected), len(found))
        for a, b in zip(expected, found):
            self.assertLess(abs(a - b), tolerance * max(1.0, a))


if __name__ == "__main__":
    unittest.main()
