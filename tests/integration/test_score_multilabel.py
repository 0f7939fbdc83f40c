"""The scorer multilabel on tables small enough to count by hand, and on files that do not fit together."""

import unittest

from scoring import ScorerTest

GOLD = "id,toxic,insult\na,1,0\nb,0,1\nc,0,0\n"
PREDICTIONS = "id,toxic,insult\na,0.9,0.1\nb,0.5,0.6\nc,0.2,0.3\n"


class MultiLabel(ScorerTest):
    def test_by_hand(self):
        """0.5 reaches the threshold: b has one label too many, so 2 · 2 / (2 + 3)."""
        found = self.numbers("multilabel", GOLD, PREDICTIONS)
        self.assertEqual(found, {"rows": 3, "micro_f1": 0.8, "macro_f1": (2 / 3 + 1) / 2, "exact_match": 2 / 3, "hamming_loss": 1 / 6,
                                 "lrap": 1.0, "macro_roc_auc": 1.0, "toxic_roc_auc": 1.0, "insult_roc_auc": 1.0})

    def test_order_quotes_and_tabs(self):
        expected = self.numbers("multilabel", GOLD, PREDICTIONS)
        lines = PREDICTIONS.splitlines(keepends=True)
        self.assertEqual(self.numbers("multilabel", GOLD, "".join([lines[0], *lines[:0:-1]])), expected)
        self.assertEqual(self.numbers("multilabel", GOLD.replace("a,", '"a",'), PREDICTIONS.replace(",", "\t")), expected)
        self.check_line_ends("multilabel", GOLD, PREDICTIONS)

    def test_equal_scores_count_one_half(self):
        found = self.numbers("multilabel", GOLD, "id,toxic,insult\na,0.5,0.5\nb,0.5,0.5\nc,0.5,0.5\n")
        self.assertEqual((found["macro_roc_auc"], found["lrap"]), (0.5, (0.5 + 0.5 + 1) / 3))

    def test_a_label_without_positives_has_no_curve(self):
        for value in "01":
            done = self.run_scorer("multilabel", f"id,x,y\na,1,{value}\nb,0,{value}\n", "id,x,y\na,1,0\nb,0,0\n")
            self.assertIn('"macro_roc_auc": 1.0', done.stdout)
            self.assertNotIn("y_roc_auc", done.stdout)
            self.assertIn('No ROC curve for "y"', done.stderr)
        self.assertNotIn("roc_auc", self.run_scorer("multilabel", "id,x\na,0\n", "id,x\na,0\n").stdout)

    def test_rows_that_are_not_scored(self):
        done = self.run_scorer("multilabel", GOLD + "d,-1,-1\n", PREDICTIONS + "d,1,1\ne,1,1\n")
        self.assertEqual(done.stdout, self.run_scorer("multilabel", GOLD, PREDICTIONS).stdout)
        self.assertIn("1 row of", done.stderr)
        self.assertIn("2 rows of", done.stderr)

    def test_broken_files(self):
        self.check_refused("multilabel", (
            (GOLD + "d,1\n", PREDICTIONS, "gold: line 5"), (GOLD + "d,1,2\n", PREDICTIONS, "gold: line 5"), (GOLD + "a,1,1\n", PREDICTIONS, "line 2 has this id"),
            (GOLD + "d,1,-1\n", PREDICTIONS, "gold: line 5"), (GOLD + '"d,1,1\n', PREDICTIONS, "gold: line 5"), ("id\na\n", PREDICTIONS, "gold: line 1"),
            ("id,x,x\na,1,1\n", PREDICTIONS, "gold: line 1"), ("id,x\n", PREDICTIONS, "no rows"), ("id,x\na,-1\n", PREDICTIONS, "labels of -1"),
            (GOLD, PREDICTIONS.replace("toxic", "obscene"), "predictions: line 1"), (GOLD, PREDICTIONS.replace("\nc,", "\nz,"), "no row 'c'"),
            (GOLD, PREDICTIONS + "a,1,1\n", "predictions: line 5"), (GOLD, PREDICTIONS.replace("0.9", "nan"), "predictions: line 2"),
            (GOLD, PREDICTIONS.replace("0.9", "1.5"), "predictions: line 2"), (GOLD, PREDICTIONS.replace("0.9", ""), "predictions: line 2"), (GOLD, "", "no rows")))
        self.check_junk("multilabel", GOLD, PREDICTIONS)


if __name__ == "__main__":
    unittest.main()
