"""The benchmark's cases and its driver, without timing anything: lengths as documented, the same on every machine; the
operation count by hand; programs that are missing are skipped visibly; a table from a program that only pretends."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

import cases

HERE = os.path.dirname(os.path.abspath(cases.__file__))
RUN = [sys.executable, os.path.join(HERE, "run.py"), "--python", "no-such-python"]


def mean(case):
    lengths = [n for step in case["lengths"] for n in step]
    return sum(lengths) / len(lengths)


class Cases(unittest.TestCase):
    def setUp(self):
        self.cases = {case["name"]: case for case in cases.all_cases()}

    def test_lengths_are_as_described(self):
        self.assertEqual({n for step in self.cases["base_full"]["lengths"] for n in step}, {128})
        # The means that the cases promise, to a token or to three per cent.
        self.assertAlmostEqual(mean(self.cases["base_squad"]), 165, delta=5)
        self.assertAlmostEqual(mean(self.cases["tiny_short"]), 17, delta=1)
        for case in [*self.cases.values(), *cases.all_cases("cuda")]:
            self.assertTrue(all(len(step) == case["batch"] for step in case["lengths"]))
            self.assertTrue(all(1 <= n <= case["cap"] for step in case["lengths"] for n in step))

    def test_roberta_has_the_work_of_bert(self):
        for device in ("cpu", "cuda"):
            found = {case["name"]: case for case in cases.all_cases(device)}
            bert, roberta = found["base_squad"], found["roberta_squad"]
            differing = {key for key in bert if bert[key] != roberta[key]}
            self.assertEqual(differing, {"name", "description", "config"})
            self.assertEqual(cases.work(bert, 1, 4), cases.work(roberta, 1, 4))
            shared = bert["config"].keys() - {"max_position_embeddings"}
            self.assertEqual({key: roberta["config"][key] for key in shared}, {key: bert["config"][key] for key in shared})

    def test_lengths_never_change(self):
        text = json.dumps([case["lengths"] for case in cases.all_cases() if case["name"] not in ("roberta_squad", "deberta_squad")])
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest()[:16], "d85dd185fc7c5cf7")

    def test_gpu_cases(self):
        found = {case["name"]: case for case in cases.all_cases("cuda")}
        self.assertAlmostEqual(mean(found["large_squad"]), 165, delta=8)
        self.assertEqual({n for step in found["base_512"]["lengths"] for n in step}, {512})
        self.assertEqual(found["large_512"]["config"]["hidden_size"], 1024)
        # Every list of lengths is timed, so that the sequences counted are those of whole rounds.
        for case in found.values():
            self.assertGreaterEqual(case["steps"], len(case["lengths"]), case["name"])

    def test_command_line(self):
        script = os.path.join(HERE, "cases.py")
        with tempfile.TemporaryDirectory() as folder:
            for arguments, expected in (([folder, "cuda"], 0), (["--help"], 1), ([folder, "tpu"], 1)):
                done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, cwd=folder)
                self.assertEqual(done.returncode, expected, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), sorted(case["name"] + ".json" for case in cases.all_cases("cuda")))

    def test_token_ids_follow_the_documented_generator(self):
        ids = cases.token_ids(self.cases["tiny_short"])
        first = (1664525 * 12345 + 1013904223) % 2**32
        self.assertEqual(ids[0][0][0], 5 + (first >> 8) % 30517)
        self.assertEqual([len(sequence) for sequence in ids[3]], self.cases["tiny_short"]["lengths"][3])

    def test_work_by_hand(self):
        # 32 sequences of 128 tokens: 4096 (72*12*768^2 + 12*12*768*128)
        sequences, tokens, operations = cases.work(self.cases["base_full"], 0, 1)
        self.assertEqual((sequences, tokens), (32, 4096))
        self.assertEqual(operations, 4096 * (72 * 12 * 768**2 + 12 * 12 * 768 * 128))


class Driver(unittest.TestCase):
    def test_missing_programs_are_skipped_visibly(self):
        result = subprocess.run(RUN, capture_output=True, text=True)
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertIn("PyTorch: skipped", result.stdout)
        self.assertIn("ours: skipped", result.stdout)

    def pretend(self, folder, text):
        path = os.path.join(folder, "bench")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, stat.S_IRWXU)
        return RUN + ["--bench", path, "--case", "tiny_short", "--rounds", "1", "--steps", "2"]

    def test_table(self):
        with tempfile.TemporaryDirectory() as folder:
            command = self.pretend(folder, "echo starting\necho '{\"seconds\": [0.5, 0.5]}'\n")
            result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        row = [line for line in result.stdout.splitlines() if line.startswith("tiny_short")][0].split()
        self.assertEqual(row[1:3], ["fp32", "64"])  # two steps of 32 sequences in one second
        self.assertEqual(row[4:7], ["-", "-", "-"])

    def test_precisions_by_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "case \"$*\" in *'--compute bf16'*) t=0.25 ;; *) t=0.5 ;; esac; echo \"{\\\"seconds\\\": [$t, $t]}\"\n"
            command = self.pretend(folder, text) + ["--precision", "fp32", "--precision", "bf16"]
            result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split()[1:3] for line in result.stdout.splitlines() if line.startswith("tiny_short")]
        self.assertEqual(rows, [["fp32", "64"], ["bf16", "128"]])

    def test_a_program_that_fails_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(self.pretend(folder, "echo no memory >&2\nexit 1\n"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no memory", result.stderr)


if __name__ == "__main__":
    unittest.main()
