"""The scorers of GLUE's tasks: names, files that do not fit together, and numbers at their limits."""

import unittest

from program import run
from scoring import ScorerTest

GOLD = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\ta\tb\tnot_entailment\n"
PREDICTIONS = "index\tprediction\n0\tentailment\n1\tentailment\n"


def submission(values):
    return "index\tprediction\n" + "".join(f"{i}\t{value}\n" for i, value in enumerate(values))


class Glue(ScorerTest):
    def test_all_tasks_are_there(self):
        text = run("bert_hpc_score", "--help", check=0).stdout
        for name in ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"):
            self.assertIn(f"glue-{name} ", text)

    def test_any_order_and_line_ends(self):
        lines = PREDICTIONS.splitlines(keepends=True)
        self.assertEqual(self.numbers("glue-rte", GOLD, lines[0] + lines[2] + lines[1]), {"acc": 0.5})
        self.check_line_ends("glue-rte", GOLD, PREDICTIONS)

    def test_one_class_only(self):
        cola = "s\t1\t\ta\ns\t0\t*\tb\n"
        self.assertEqual(self.numbers("glue-cola", cola, submission("11")), {"mcc": 0.0})
        self.assertEqual(self.numbers("glue-cola", cola, submission("01")), {"mcc": -1.0})
        mrpc = "Quality\t#1 ID\n0\tx\n0\tx\n"
        self.assertEqual(self.numbers("glue-mrpc", mrpc, submission("00")), {"acc": 1.0, "f1": 0.0, "acc_and_f1": 0.5})

    def test_rows_without_a_common_label(self):
        gold = "index\tgold_label\n0\t-\n1\tneutral\n"
        done = self.run_scorer("glue-mnli", gold, "index\tprediction\n1\tneutral\n")
        self.assertIn('"acc": 1.0', done.stdout)
        self.assertIn("1 row of", done.stderr)

    def test_correlations(self):
        gold = "score\n1.0\n2.0\n3.0\n"
        self.assertEqual(self.numbers("glue-sts-b", gold, submission([0, 1, 8]))["spearmanr"], 1.0)
        self.assertEqual(self.numbers("glue-sts-b", gold, submission([3, 2, 1]))["pearson"], -1.0)
        self.assertEqual(self.numbers("glue-sts-b", gold, submission([0, 2e-200, 1e-200]))["pearson"], 0.5)
        self.check_refused("glue-sts-b", (
            (gold, submission([1, 1, 1]), "predictions: all of its numbers are equal"), ("score\n1\n", submission([1]), "gold: all of its numbers"),
            (gold, submission([1, 2, "nan"]), "predictions: line 4"), (gold, submission([1, 2, 1e200]), "1e100")))

    def test_broken_files(self):
        self.check_refused("glue-rte", (
            (GOLD.replace("label", "gold"), PREDICTIONS, "gold: line 1"), (GOLD + "2\ta\tb\n", PREDICTIONS, "gold: line 4"),
            (GOLD + "2\ta\tb\tneutral\n", PREDICTIONS, "gold: line 4"), (GOLD, PREDICTIONS + "1\tentailment\n", "predictions: line 4"),
            (GOLD, PREDICTIONS + "2\tentailment\n", "predictions: line 4"), (GOLD, PREDICTIONS + "x\tentailment\n", "predictions: line 4"),
            (GOLD, PREDICTIONS.replace("prediction", "label"), "predictions: line 1"), (GOLD, "index\tprediction\n0\tentailment\n", "index 1"),
            (GOLD, PREDICTIONS.replace("1\tentail", "1\tEntail"), "predictions: line 3"), (GOLD, "", "index 0"), ("", PREDICTIONS, "gold")))
        self.check_junk("glue-rte", GOLD, PREDICTIONS)
        self.check_junk("glue-cola", "s\t1\t\ta\n", submission("1"))


if __name__ == "__main__":
    unittest.main()
