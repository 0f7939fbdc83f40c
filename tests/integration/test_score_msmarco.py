"""The scorer msmarco on rankings small enough to count by hand, and on files that do not fit together."""

import unittest

from scoring import ScorerTest


class MsMarco(ScorerTest):
    def test_rank_ten_counts_and_rank_eleven_does_not(self):
        for rank, expected in ((1, 1.0), (3, 1 / 3), (10, 0.1), (11, 0.0), (1000, 0.0)):
            found = self.numbers("msmarco", "1 0 7 1\n", f"1\t7\t{rank}\n1\t8\t2\n")
            self.assertEqual(found, {"MRR @10": expected, "QueriesRanked": 1})

    def test_queries_of_one_file_only(self):
        done = self.run_scorer("msmarco", "1 0 7 1\n2 0 7 1\n", "1 7 2\n3 7 1\n")
        self.assertIn('"MRR @10": 0.25', done.stdout)
        self.assertIn('"QueriesRanked": 2', done.stdout)
        self.assertIn("1 query of", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 2)

    def test_a_rank_left_out_holds_no_passage(self):
        self.assertEqual(self.numbers("msmarco", "1 0 0 1\n", "1 5 2\n")["MRR @10"], 0.0)

    def test_line_ends(self):
        self.check_line_ends("msmarco", "1\t0\t7\t1\n2\t0\t8\t1\n", "1\t7\t2\n2\t8\t1\n")

    def test_broken_files(self):
        gold, good = "1 0 7 1\n", "1 7 1\n"
        self.check_refused("msmarco", (
            ("1 0 7\n", good, "gold: line 1"), ("1 0 7 0\n", good, "gold: line 1: the level"), (gold * 2, good, "gold: line 2"),
            ("x 0 7 1\n", good, "gold: line 1"), (gold, good + "1 7 2\n", "predictions: line 2: the query has this passage"),
            (gold, good + "1 8 1\n", "predictions: line 2: the query has a passage of this rank"), (gold, "1 7 0\n", "predictions: line 1"),
            (gold, "1 7 1001\n", "predictions: line 1"), (gold, "1 7 nan\n", "predictions: line 1"), (gold, "\n1 7\n", "predictions: line 2"),
            (gold, "2 7 1\n", "none of its queries"), ("", good, "gold"), (gold, "", "none of its queries")))
        self.check_junk("msmarco", gold, good)


if __name__ == "__main__":
    unittest.main()
