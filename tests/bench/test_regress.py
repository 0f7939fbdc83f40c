"""The comparison of two revisions, without timing anything: two programs that only pretend, one of them slower, and one that fails."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

import regress

REGRESS = [sys.executable, regress.__file__]


class Regress(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, name, body):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def compare(self, *arguments):
        return subprocess.run([*REGRESS, *arguments], capture_output=True, text=True)

    def test_a_program_of_twice_the_time_has_half_of_the_ratio(self):
        old, new = self.program("old", """echo '{"seconds": [0.1, 0.3]}'"""), self.program("new", """echo '{"seconds": [0.4, 0.4]}'""")
        done = self.compare(old, new, "--case", "tiny_short", "--rounds", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| tiny_short | fp32 | 6.25 | 12.50 | 0.500 | 0.500 to 0.500 |", done.stdout)

    def test_the_median_of_the_rounds_counts(self):
        pairs = [((t, 0.0, 0.0), (1.0, 0.01, 0.2)) for t in (0.9, 3.0, 1.1)]
        self.assertEqual(regress.row("case", "bf16", pairs, 2), "| case | bf16 | 550.00 | 500.00 | 1.100 | 0.900 to 3.000 | 1.0 | 20.0 |")

    def test_a_program_that_fails_is_shown(self):
        good, bad = self.program("good", """echo '{"seconds": [1]}'"""), self.program("bad", "echo no such case >&2; exit 3")
        done = self.compare(good, bad, "--case", "tiny_short")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with status 3", done.stderr)
        self.assertIn("no such case", done.stderr)

    def test_a_revision_that_does_not_exist_is_refused(self):
        done = self.compare("no-such-revision", "HEAD")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-revision", done.stderr)


if __name__ == "__main__":
    unittest.main()
