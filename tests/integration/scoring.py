"""What the tests of bert_hpc_score share: files of a test, a scorer's numbers, and refused files."""

import json
import pathlib
import tempfile
import unittest

from program import run


class ScorerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
        return path

    def run_scorer(self, scorer, gold, predictions, check=0):
        return run("bert_hpc_score", scorer, self.file("gold", gold), self.file("predictions", predictions), check=check)

    def numbers(self, scorer, gold, predictions):
        return json.loads(self.run_scorer(scorer, gold, predictions).stdout)

    def check_refused(self, scorer, cases):
        """Each (gold, predictions, what the error names)."""
        for gold, predictions, named in cases:
            with self.subTest(gold=gold, predictions=predictions):
                done = self.run_scorer(scorer, gold, predictions, check=3)
                self.assertIn(named, done.stderr)
                self.assertEqual(done.stdout, "")

    def check_line_ends(self, scorer, gold, predictions):
        """CRLF and a byte order mark change nothing; neither does a last line without an end."""
        expected = self.numbers(scorer, gold, predictions)
        for change in (lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n"), lambda text: text.rstrip("\n")):
            self.assertEqual(self.numbers(scorer, change(gold), change(predictions)), expected)

    def check_junk(self, scorer, gold, predictions):
        """Bytes that are no text are refused with an error, in either file."""
        for junk in (b"", b"\0", b"\xff\xfe\0\n" * 9, bytes(range(256)) * 20, b"\t" * 5000, b"," * 5000, b'"', b"1 " * 100000):
            self.assertEqual(self.run_scorer(scorer, junk, predictions, check=3).stdout, "")
            self.assertEqual(self.run_scorer(scorer, gold, junk, check=3).stdout, "")
