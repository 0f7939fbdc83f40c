"""one_case.py with programs that only pretend: its line, its records, its table and its exit status."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import cases
import one_case

HERE = os.path.dirname(os.path.abspath(cases.__file__))

# Takes 0.5 s for every step; its sections are the device's.
PRETENDER = """import json, sys
steps = int(sys.argv[sys.argv.index("--steps") + 1])
assert json.load(open(sys.argv[sys.argv.index("--case") + 1]))["name"] == "base_512"
print("not JSON")
print(json.dumps({"program": "pretender", "seconds": [0.5] * steps, "clock": "device",
                  "sections": {"forward": 0.1 * steps, "backward": 0.2 * steps}}))
"""


class OneCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "training.json")
        self.markdown = os.path.join(folder.name, "training.md")

    def start(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(HERE, "one_case.py"), *arguments], capture_output=True, text=True)

    def measure(self, name, code=PRETENDER):
        return self.start("--case", "base_512", "--name", name, "--steps", "4", "--warmup", "2", "--json", self.json, "--",
                          sys.executable, "-c", code)

    def test_line_records_and_table(self):
        done = self.measure("pytorch")
        self.assertEqual(done.returncode, 0, done.stderr)
        # 32 sequences in half a second; operations by hand: 72 L H^2 + 12 L H s a token.
        tera = 32 * 512 * (72 * 12 * 768**2 + 12 * 12 * 768 * 512) / 0.5 * 1e-12
        self.assertIn(f"= 500.00 ms a step, 64 sequences/s, {tera:.4g} TFLOP/s (backward 200.00, forward 100.00)", done.stdout)
        self.assertEqual(self.measure("ours", PRETENDER.replace("0.5", "0.125")).returncode, 0)
        records = one_case.read(self.json)
        self.assertEqual([(record["case"], record["name"]) for record in records], [("base_512", "pytorch"), ("base_512", "ours")])
        self.assertEqual(records[0]["report"]["seconds"], [0.5] * 4)
        table = self.start("--table", self.json, "--markdown", self.markdown)
        self.assertEqual(table.returncode, 0, table.stderr)
        rows = table.stdout.splitlines()
        self.assertEqual(len(rows), 4)
        self.assertIn("| base_512 | ours, pretender | 125.00 | 256 |", rows[3])
        self.assertIn("| 4.00 |", rows[3])
        with open(self.markdown) as file:
            self.assertEqual(file.read(), table.stdout)

    def test_without_pytorch_there_is_no_ratio(self):
        record = {"case": "base_512", "name": "ours", "device": "cuda", "warmup": 0, "steps": 1,
                  "report": {"program": "ours", "seconds": [1.0]}}
        self.assertIn("| – |", one_case.table([record]))

    def test_status_is_the_program_s(self):
        for code, expected in (("raise SystemExit(77)", 77), ("raise SystemExit(3)", 3), ("print(1)", 1),
                               ("import os; os.kill(os.getpid(), 11)", 139)):
            self.assertEqual(self.measure("ours", code).returncode, expected, code)
        self.assertEqual(one_case.read(self.json), [])
        self.assertEqual(self.start("--table", self.json).returncode, 77)
        self.assertEqual(self.start("--case", "no_such_case", "--", "true").returncode, 2)
        self.assertEqual(json.dumps(one_case.read(self.json)), "[]")


if __name__ == "__main__":
    unittest.main()
