"""bert_hpc_score prints the numbers of the official scorers, which tests/golden/score/generate.py has recorded."""

import json
import pathlib
import tempfile
import unittest

from program import run

CASES = json.loads((pathlib.Path(__file__).resolve().parents[1] / "golden/score/official.json").read_text(encoding="utf-8"))


class OfficialNumbers(unittest.TestCase):
    def score(self, case):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("gold", "predictions")]
            for path in paths:
                path.write_text(case[path.name], encoding="utf-8")
            return json.loads(run("bert_hpc_score", case["scorer"], *paths, check=0).stdout)

    def test_each_case(self):
        self.assertGreater(len(CASES), 40)
        for number, case in enumerate(CASES):
            printed = self.score(case)
            for name, value in case["numbers"].items():
                with self.subTest(case=number, scorer=case["scorer"], number=name):
                    if case["digits"] is None:
                        self.assertLessEqual(abs(printed[name] - value), case["delta"])
                    else:
                        self.assertEqual(f"{printed[name]:.{case['digits']}f}", f"{value:.{case['digits']}f}")


if __name__ == "__main__":
    unittest.main()
