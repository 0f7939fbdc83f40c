"""The scorer conll on tag sequences small enough to count by hand, and on files that do not fit together."""

import unittest

from scoring import ScorerTest


def lines(tags, extra=""):
    """One sentence per list of tags."""
    return "".join("".join(f"w{i}{extra} {tag}\n" for i, tag in enumerate(sentence.split())) + "\n" for sentence in tags)


class Conll(ScorerTest):
    def counts(self, gold, predictions):
        found = self.numbers("conll", lines(gold), lines(predictions))
        return found["phrases"], found["found"], found["correct"]

    def test_entities_of_broken_sequences(self):
        """[number of gold entities, predicted ones, both]. An I- after O or after another type begins an entity."""
        for gold, predictions, counts in (
                ("B-A I-A O", "I-A I-A O", (1, 1, 1)), ("B-A I-A O", "I-A I-B O", (1, 2, 0)), ("B-A I-A O", "B-A B-A O", (1, 2, 0)),
                ("B-A I-A", "O I-A", (1, 1, 0)), ("I-A B-A I-A", "B-A B-A I-A", (2, 2, 2)), ("B-A E-A S-A", "B-A I-A B-A", (2, 2, 2)),
                ("B-A E-A S-A", "I-A E-A E-A", (2, 2, 2)), ("S-A I-A", "B-A B-A", (2, 2, 2)), ("O O", "O O", (0, 0, 0)),
                ("B-A O", "B-B O", (1, 1, 0)), ("B I O", "I I O", (1, 1, 1))):
            with self.subTest(gold=gold, predictions=predictions):
                self.assertEqual(self.counts([gold], [predictions]), counts)

    def test_sentences_end_entities(self):
        self.assertEqual(self.counts(["B-A I-A", "I-A"], ["B-A I-A", "I-A"]), (2, 2, 2))

    def test_no_entities(self):
        found = self.numbers("conll", lines(["O O"]), lines(["O B-A"]))
        self.assertEqual((found["precision"], found["recall"], found["FB1"], found["A_found"]), (0.0, 0.0, 0.0, 1))
        found = self.numbers("conll", lines(["O"]), lines(["O"]))
        self.assertEqual((found["FB1"], found["accuracy"]), (0.0, 100.0))

    def test_forms_of_files(self):
        """CoNLL-2003 beside 'token gold predicted', with and without -DOCSTART- and repeated blank lines."""
        gold = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP I-ORG\nrejects VBZ B-VP O\n\nBonn NNP B-NP I-LOC\n"
        predictions = "EU I-ORG B-ORG\nrejects O O\n\n\nBonn I-LOC O\n\n"
        found = self.numbers("conll", gold, predictions)
        self.assertEqual((found["tokens"], found["correct"], found["ORG_FB1"], found["LOC_recall"]), (3, 1, 100.0, 0.0))
        self.assertAlmostEqual(found["accuracy"], 100 / 3, delta=1e-13)  # I-ORG is not B-ORG
        self.check_line_ends("conll", gold, predictions)

    def test_tabs_blanks_in_tokens_and_comments(self):
        """A file as bert_hpc_prep takes it beside bert_hpc's predictions of it, which have "_" for blanks in words."""
        gold = "# sent_id = 1\n# text = New York is\nNew York\tB-LOC\nis\tO\n\n#\nNo\tO\n#\tO\n"
        predictions = "New_York B-LOC B-LOC\nis O O\n\nNo O O\n# O O\n"
        found = self.numbers("conll", gold, predictions)
        self.assertEqual((found["tokens"], found["phrases"], found["correct"]), (4, 1, 1))

    def test_bilou_counts_as_bioes(self):
        self.assertEqual(self.counts(["B-A I-A L-A O U-A U-B"], ["B-A I-A L-A O U-A U-A"]), (3, 3, 2))
        self.assertEqual(self.counts(["B-A L-A U-A"], ["B-A E-A S-A"]), (2, 2, 2))

    def test_names_of_types_are_escaped(self):
        found = self.numbers("conll", lines(['B-"\\']), lines(['B-"\\']))
        self.assertEqual(found['"\\_FB1'], 100.0)

    def test_broken_files(self):
        good = "a B-X\nb O\n\nc O\n"
        self.check_refused("conll", (
            (good, "a B-X\nb\n\nc O\n", "predictions: line 2"), (good, "a B-X\nb 1 O\n\nc O\n", "predictions: line 2"),
            (good, "a B-X\nz O\n\nc O\n", "predictions: line 2: the token is 'z', and 'b'"), (good, "a B-X\nb O\nc O\n", "predictions: line 3"),
            (good, "a B-X\n\nb O\n\nc O\n", "predictions: line 3"), (good, "a B-X\nb O\n", "gold: line 4"),
            (good, good + "d O\n", "predictions: line 5"), ("a NN\n", "a O\n", "gold: line 1"), (good, "a X-X\nb O\n\nc O\n", "predictions: line 1"),
            (good, "a B-\nb O\n\nc O\n", "predictions: line 1"), ("\n\n", good, "gold"), (good, "", "predictions")))
        self.check_junk("conll", good, good)


if __name__ == "__main__":
    unittest.main()
