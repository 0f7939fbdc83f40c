"""The worst predicted rows in the report: which they are, and their texts from the files that bert_hpc_prep read."""

import contextlib
import csv
import gzip
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "postprocess")]

import answers  # noqa: E402
import command  # noqa: E402
import errors  # noqa: E402
import facts  # noqa: E402
import make_run  # noqa: E402
import plot_answers  # noqa: E402
import reading  # noqa: E402
import rundata  # noqa: E402
import report  # noqa: E402
import source_rows  # noqa: E402
import source_text  # noqa: E402
import wording  # noqa: E402


class Errors(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def predicted(self, task, label, prediction, probabilities=None, names=()):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, task=task, mode="evaluate",
                               resolved_input='[run]\ndirectory = "run"\n\n[data]\nvalidation = []\ntest = ["shards/test-*.h5"]\n')
        make_run.write_predictions(run, task, label, prediction, names)
        with h5py.File(run / "predictions.h5", "r+") as file:
            file.attrs["split"] = "test"
            if probabilities is not None:
                file["probabilities"] = np.float32(probabilities)
        return run

    def prepared(self, label, task="classification", **source):
        """prep.toml and an empty shard beside it, as if bert_hpc_prep had been started in the test's folder."""
        source = {"format": "tsv", "files": ["texts/a.tsv"], "validation_files": [], "test_files": ["texts/b.tsv"], "text": ["text"],
                  "text_pair": ["note"], "label": label, "label_separator": "", "encoding": "utf-8", "header": True, "columns": 0,
                  "unit": "line", "id": ""} | source
        (self.folder / "shards").mkdir(exist_ok=True)
        (self.folder / "shards/test-00000.h5").touch()
        (self.folder / "shards/prep.toml").write_text("[source]\n" + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in source.items())
            + f'\n[task]\nname = "{task}"\n\n[output]\ndirectory = "shards"\n')

    def texts(self, rows, begin=2):
        (self.folder / "texts").mkdir(exist_ok=True)
        for name, part in (("a", rows[:begin]), ("b", rows[begin:])):
            (self.folder / f"texts/{name}.tsv").write_text("text\tnote\tlabel\n" + "".join("\t".join(row) + "\n" for row in part))

    def reported(self, run, *arguments):
        """(lines of errors.csv, its section of summary.md)"""
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(command.guarded(lambda: report.report([str(run), *map(str, arguments)])), 0)
        with open(run / "report/errors.csv", newline="") as file:
            summary = (run / "report/summary.md").read_text()
            return list(csv.reader(file)), re.split("## (?:Largest errors|Worst [a-z]+)", summary)[-1]

    def classes(self):
        probabilities = [[0.75, 0.25], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]]
        return self.predicted("classification", np.int32([0, 1, 0, -1]), np.int32([0, 0, 1, 0]), probabilities, ["no", "yes"])

    def test_classes_by_their_loss_with_texts(self):
        run = self.classes()
        self.prepared("label")
        self.texts([("first", "1", "no"), ("second | text", "2", "yes"), ("third", "3", "no"), ("fourth", "4", "")])
        lines, section = self.reported(run)
        self.assertEqual(lines[0], ["row", "loss", "label", "prediction", "probability_of_label", "probability_of_prediction", "text", "note"])
        self.assertEqual([line[0] for line in lines[1:]], ["2", "1", "0"])  # the last has no label
        self.assertEqual(lines[1][2:], ["no", "yes", "0", "1", "third", "3"])
        self.assertAlmostEqual(float(lines[1][1]), 149 * np.log(2), places=3)
        self.assertAlmostEqual(float(lines[2][1]), -np.log(0.1), places=5)
        self.assertIn("second \\| text", section)
        self.assertIn("|---|---:|---|---|---:|---:|---|---:|\n", section)
        self.assertNotIn("Without texts", section)

    def test_what_is_missing_is_said(self):
        run = self.classes()
        lines, section = self.reported(run)
        self.assertEqual([line[0] for line in lines[1:]], ["2", "1", "0"])
        self.assertIn("Without texts: the shards that the run's input names are not there", section)
        self.prepared("label")
        self.assertIn("there is no 'texts/a.tsv', which '", self.reported(run)[1])
        self.texts([("first", "1", "no"), ("second", "2", "no"), ("third", "3", "no")])
        self.assertIn("have other labels now", self.reported(run)[1])  # of row 1
        self.texts([("first", "1", "no"), ("second", "2", "yes")])
        self.assertIn("Without texts: the texts cannot be read: ", self.reported(run)[1])
        self.prepared("label", format="text", unit="paragraph")
        self.assertIn('files of format "text" by paragraphs are not looked up; name files with the texts with --text', self.reported(run)[1])
        (self.folder / "lines.txt").write_text("uno\n\ndue\ntre\nquattro\n")
        (run / "predictions.csv").write_text("row,label,prediction\n0,no,no\n")  # --text needs it
        lines, section = self.reported(run, "--text", self.folder / "lines.txt")
        self.assertEqual([line[-1] for line in lines], ["text", "tre", "due", "uno"])

    def test_values_by_their_absolute_error(self):
        run = self.predicted("regression", np.float32([1.1, 2, np.nan, 4]), np.float32([1.6, 0, 3, 4.25]))
        self.prepared("label", format="csv", files=["texts/c.csv"], test_files=[], header=False, text=["1"], text_pair=[], delimiter=";")
        (self.folder / "texts").mkdir()
        with gzip.open(self.folder / "texts/c.csv", "wt") as file:
            file.write('"one; ""and\nmore";1,1\ntwo;2\nthree;3\nfour;4\n')
        text = (self.folder / "shards/prep.toml").read_text()
        (self.folder / "shards/prep.toml").write_text(text.replace('label = "label"', 'label = "2"'))
        lines, _ = self.reported(run)
        self.assertEqual(lines, [["row", "error", "label", "prediction", "1"], ["1", "-2", "2", "0", "two"],
                                 ["0", "0.5", "1.1", "1.6", 'one; "and\nmore'], ["3", "0.25", "4", "4.25", "four"]])

    def test_values_of_several_columns_by_the_largest_error_of_one(self):
        label, prediction = np.float32([[1, 50], [2, np.nan], [3, 70]]), np.float32([[1.5, 51], [2.25, 0], [3, 40]])
        run = self.predicted("regression", label, prediction, names=["a", "b"])
        self.assertEqual(self.reported(run)[0], [["row", "error", "column", "label", "prediction"], ["2", "-30", "b", "70", "40"],
                                                 ["0", "0.5", "a", "1", "1.5"], ["1", "0.25", "a", "2", "2.25"]])

    def test_sets_by_their_mean_loss(self):
        label, probabilities = np.int32([[1, 0], [0, 0], [1, 1]]), np.float32([[0.5, 0.5], [1.0, 0.25], [0.9, 0.6]])
        run = self.predicted("multi_label", label, (probabilities >= 0.5).astype("i4"), probabilities, ["a", "b"])
        lines, _ = self.reported(run)
        self.assertEqual([line[0] for line in lines[1:]], ["1", "0", "2"])
        self.assertEqual([line[2:] for line in lines[1:]], [["", "a"], ["a", "a,b"], ["a,b", "a,b"]])
        self.assertAlmostEqual(float(lines[1][1]), (25 * np.log(2) - np.log(0.75)) / 2, places=4)
        self.assertAlmostEqual(float(lines[2][1]), np.log(2), places=5)

    def test_runs_without_labels_have_no_errors(self):
        run = self.predicted("classification", np.int32([-1, -1]), np.int32([0, 1]), [[0.5, 0.5], [0.4, 0.6]], ["no", "yes"])
        self.assertIsNone(errors.of_run(reading.load_run(run, "run")))
        run = self.predicted("classification", np.int32([0, 1]), np.int32([0, 1]), None, ["no", "yes"])
        self.assertIsNone(errors.of_run(reading.load_run(run, "run")))

    def test_queries_by_the_rank_of_what_is_relevant(self):
        """Four queries: one with the right candidate first, one with it third, one without, and one with it second."""
        rows = [("p", "d1", 1, 3.0, 1), ("q", "d1", 0, 1.5, 1), ("q", "d2", 0, 1.0, 2), ("q", "d3", 2, 0.5, 3),
                ("r", "d1", 0, 1.0, 1), ("s", "d9", 1, -1.0, 2), ("s", "d8", 0, 2.0, 1)]
        run = self.predicted("answer_ranking", np.int32([row[2] for row in rows]), np.float32([row[3] for row in rows]))
        with h5py.File(run / "predictions.h5", "r+") as file:
            file["rank"] = np.int32([row[4] for row in rows])
            file["query"], file["relevant"] = np.int32([0, 1, 1, 1, 2, 3, 3]), np.int32([1, 1, 1, 1, 0, 2, 2])
        (run / "predictions.csv").write_text("row,query,passage,label,prediction,rank\n" + "".join(
            f"{number},{query},{passage},{level},{score},{rank}\n" for number, (query, passage, level, score, rank) in enumerate(rows)))
        self.prepared("label", "answer_ranking", format="wikiqa", files=[], test_files=["w.tsv"], text=["question"], text_pair=["sentence"])
        (self.folder / "w.tsv").write_text("QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n" + "".join(
            f"{query}\twhat is {query}\tD\tT\t{passage}\tsentence {number}\t{level}\n"
            for number, (query, passage, level, _, _) in enumerate(rows)))
        lines, section = self.reported(run)
        self.assertEqual(lines, [
            ["query", "rank_of_relevant", "candidates", "score_of_first", "score_of_relevant", "first", "relevant", "question",
             "sentence (first)", "sentence (relevant)"],
            ["q", "3", "3", "1.5", "0.5", "d1", "d3", "what is q", "sentence 1", "sentence 3"],
            ["s", "2", "2", "2", "-1", "d8", "d9", "what is s", "sentence 6", "sentence 5"]])
        self.assertIn("## Worst queries: ", (run / "report/summary.md").read_text())
        self.assertIn("|---|---:|---:|---:|---:|---|---|---|---|---|\n", section)
        (self.folder / "w.tsv").write_text((self.folder / "w.tsv").read_text().replace("sentence 3\t2", "sentence 3\t1"))
        self.assertIn("have other labels now", self.reported(run)[1])
        (self.folder / "texts.tsv").write_text("q\tp\n" + "".join(f"{row[0]}\t{number}\n" for number, row in enumerate(rows)))
        lines, _ = self.reported(run, "--text", self.folder / "texts.tsv", "--text-column", "q", "--text-column", "p")
        self.assertEqual([line[7:] for line in lines], [["q", "p (first)", "p (relevant)"], ["q", "1", "3"], ["s", "6", "5"]])

    SQUAD = [("a", "who?", "Zoë grew tea in Oslo.", ["Zoë", "the Zoë"], "Zoë!"), ("b", "where?", "Zoë grew tea in Oslo.", ["Oslo"], "tea in Oslo"),
             ("c", "why?", "This is not known.", [], "not known"), ("d", "how?", "By hand. " + 60 * "More words. " + "Or not.", ["hand"], "")]

    def answered(self, squad):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, task="question_answering", mode="evaluate",
                               resolved_input='[run]\ndirectory = "run"\n\n[data]\nvalidation = ["shards/test-*.h5"]\ntest = []\n')
        self.prepared("answers", "question_answering", format="squad", files=[], validation_files=["squad.json"], test_files=[],
                      text=["question"], text_pair=["context"], id="id")
        texts = [text.encode() for name, _, context, answers, _ in squad for text in (name, context, json.dumps(answers))]
        with h5py.File(self.folder / "shards/test-00000.h5", "w") as file:
            file["source_index"] = [row for row in range(len(squad)) for _ in range(row % 2 + 1)]  # some have two windows
            file["texts"] = np.frombuffer(b"".join(texts), dtype="u1")
            file["text_offsets"] = np.cumsum([0, *map(len, texts)])
        (run / "predictions.json").write_text(json.dumps({name: given for name, _, _, _, given in squad}))
        (run / "nbest_predictions.json").write_text(json.dumps(
            {name: [{"text": given, "probability": 0.25 * (number + 1)}] for number, (name, _, _, _, given) in enumerate(squad)}))
        return run

    def test_answers_by_their_f1(self):
        run = self.answered(self.SQUAD)
        self.assertIn("there is no 'squad.json'", self.reported(run)[1])
        paragraphs = [{"context": context, "qas": [{"id": name, "question": question, "answers": [{"text": text, "answer_start": 0} for text in texts]}]}
                      for name, question, context, texts, _ in self.SQUAD]
        (self.folder / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs[:1]}, {"paragraphs": paragraphs[1:]}]}))
        lines, section = self.reported(run)
        contexts = [context for _, _, context, _, _ in self.SQUAD]
        self.assertEqual(lines, [["id", "f1", "probability", "answers", "prediction", "question", "context"],
                                 ["d", "0", "1", "hand", "(no answer)", "how?", contexts[3]],
                                 ["c", "0", "0.75", "(no answer)", "not known", "why?", contexts[2]],
                                 ["b", "0.5", "0.5", "Oslo", "tea in Oslo", "where?", contexts[1]]])  # precision 1/3, recall 1
        self.assertIn("| how? | By hand. More words.", section)
        (self.folder / "squad.json").write_text((self.folder / "squad.json").read_text().replace('"id": "d"', '"id": "e"'))
        self.assertIn("have other labels now", self.reported(run)[1])

    def test_the_picture_of_answers(self):
        run = self.answered(self.SQUAD)
        [found] = reading.load_runs([str(run)])
        [(name, figure)] = plot_answers.draw([found])
        self.assertEqual(name, "answers")
        [axes] = figure.axes  # without odds of no answer
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["none", "1"])
        # Exact: "Zoë!" of three with an answer. F1: 1, 1/2 and 0 of these; 0 of the one without.
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0, 100 / 3, 0, 50])
        self.assertIn("4 questions, exact 25.00, F1 37.50", figure.get_suptitle())
        odds = {"a": -3.0, "b": 1.0, "c": 2.0, "d": 0.5}
        (run / "null_odds.json").write_text(json.dumps(odds))
        choices = {name: [{"text": "", "probability": 0.5}, {"text": given or "by", "probability": 0.5}] for name, _, _, _, given in self.SQUAD}
        (run / "nbest_predictions.json").write_text(json.dumps(choices))
        given, asked = answers.of_run(found)
        thresholds, means = plot_answers.by_threshold(asked, odds, choices)
        self.assertEqual(thresholds.tolist(), [-3.1, -3.0, 0.5, 1.0, 2.0])  # the first is below all
        for threshold, mean in zip(thresholds, means):
            expected = [answers.scores(question.answers, "" if odds[question.id] > threshold else given[question.id] or "by") for question in asked]
            np.testing.assert_allclose(mean, np.mean(expected, axis=0))
        [(_, figure)] = plot_answers.draw([found])
        self.assertEqual(len(figure.axes), 2)
        self.assertIn("F1, best 62.5 at 1.00", [text.get_text() for text in figure.axes[1].get_legend().get_texts()])
        self.assertIn("Null threshold: ", figure.axes[1].get_xlabel())
        self.assertEqual(plot_answers.best_text(thresholds, np.array([0.5, 0.25, 0.5, 0.25, 0.0])), "best 50.0 with no answer at all")
        self.assertEqual(rundata.label_of([found], "best_f1_threshold"), "best F1 threshold")  # no such metric in this run
        found.evaluations["test"] = {"step": [1], "loss": [1.0], "best_f1_threshold": [1.0], "has_answer_exact": [0.0]}
        found.metric_labels.update(best_f1_threshold="threshold of best f1", has_answer_exact="exact where answered")
        self.assertEqual([rundata.label_of([found], name) for name in ("best_f1_threshold", "has_answer_exact")],
                         ["null threshold of the best F1", "exact match (answerable questions)"])
        found.evaluations["test"] |= {"answered": [92.5], "questions": [1200.0]}
        found.metric_labels.update(answered="percent answered")
        self.assertIn(["test questions answered", "1,110 of 1,200, 90 not"], facts.shown(found))
        self.assertNotIn("test questions", [label for label, _ in facts.shown(found)])
        self.assertEqual(dict(zip(*[facts.data([found])[0], facts.data([found])[1][0]]))["test_answered"], "92.5")
        plot_answers.drawing.plt.close("all")

    def test_an_excerpt_shows_the_answer(self):
        text = 60 * "before " + "ANSWER" + 60 * " after"
        for length in (20, 300):
            excerpt = wording.excerpt(text, length, "ANSWER")
            self.assertEqual(len(excerpt), length)
            self.assertTrue(excerpt.startswith("…") and excerpt.endswith("…") and "ANSWER" in excerpt)
        self.assertEqual(wording.excerpt("short ANSWER", 20, "ANSWER"), "short ANSWER")
        self.assertEqual(wording.excerpt(text[:426], 20, "ANSWER"), "…efore before ANSWER")
        self.assertEqual(wording.excerpt(text, 20, "absent"), wording.begun(text, 20))

    def test_sentences_by_their_wrong_words(self):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, task="token_classification", mode="evaluate")
        (run / "predictions.conll").write_text("a O O\nb B-X O\n\n\nc O O\n\nd B-X I-X\ne I-X B-X\n")
        lines, section = self.reported(run)
        self.assertEqual(lines, [["sentence", "line", "wrong", "words", "text"], ["3", "7", "2", "2", "d⟨B-X→I-X⟩ e⟨I-X→B-X⟩"],
                                 ["1", "1", "1", "2", "a b⟨B-X→O⟩"]])
        self.assertNotIn("Without texts", section)
        (run / "predictions.conll").write_text("a O\nb O\n\n")  # without tags
        self.assertIsNone(errors.of_run(reading.load_run(run, "run")))

    def test_rows_of_each_format(self):
        """The texts and labels of (files' content); row numbers go through the files."""
        cases = {
            "glue": (["\ufeffindex\tsentence1\tsentence2\tlabel\n0\ta\tb\tyes\n", "index\tsentence1\tsentence2\n0\tc\td\n"],
                     ["text", "text_pair"], [["a", "b"], ["c", "d"]]),
            "glue of CoLA": (["gj04\t1\t\tIt is.\ngj04\t0\t*\tIt are.\n"], ["text", "label"], [["It is.", "1"], ["It are.", "0"]]),
            "msmarco": (["q\tyes\tno\n\nq2\tyes2\tno2\n", "1\t7\tq3\tp3\n"], ["query", "passage"],
                        [["q", "yes"], ["q", "no"], ["q2", "yes2"], ["q2", "no2"], ["q3", "p3"]]),
            "squad": (['{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": 1, "question": "q"}]}]}]}',
                       '{"data": [\n{"title": "t", "paragraphs": []}]}',
                       '\n{"id": "2", "context": "d", "question": "r", "answers": {"text": ["x"], "answer_start": [0]}}\nnone\n'],
                      ["id", "context", "question", "answer_text"], [["1", "c", "q", ""], ["2", "d", "r", "x"], ["", "", "", ""]]),
            "squad in lists": (['[{"context": "c", "qas": [{"id": 1, "question": "q"}]}]',
                                '{"data": [{"id": 2, "context": "d", "question": "r", "answers": []}]}'], ["id", "context"],
                               [["1", "c"], ["2", "d"]]),
            "jsonl in other holders": (['[\n{"t": "a"}, {"t": NaN},\n{"t": "b"}]', '{"t": "c",\n"x": 1}\n{"t": "d"}',
                                        '{"data": [{"t": "e"}]}', '{"t": "f"}\n{"t\n{"t": "g"}\n'], ["t"],
                                       [["a"], ["NaN"], ["b"], ["c"], ["d"], ["e"], ["f"], [""], ["g"]]),
            "jsonl of tables": (['{"t":{"0":"a","1":"b"},"l":{"0":1,"1":2}}', '{"0":{"t":"c","l":3},"1":{"t":"d"}}',
                                 '{"columns":["t","l"],"index":[0],"data":[["e",5]]}', '{"t": ["f"], "l": [6]}\n', '{"t": "g", "l": {}}\n'],
                                ["t", "l"], [["a", "1"], ["b", "2"], ["c", "3"], ["d", ""], ["e", "5"], ["f", "6"], ["g", "{}"]]),
            "csv with quotes": (['t,l\n"a, ""b""\nc",1\n\n"bad,2\n"Up" is,3\n"e" ,4\n"weak,5\nlast,6'], ["t", "l"],
                                [['a, "b"\nc', "1"], ['"bad', "2"], ['"Up" is', "3"], ["e ", "4"], ['"weak', "5"], ["last", "6"]]),
            "csv with escapes": (['t,l\n"a \\"b\\",\nc",1\nx,2\n"y \\"z",3'], ["l"], [["1"], ["2"], ["3"]]),
            "csv of the end of lines": (["t,l\ra,1\rb,2\r"], ["t", "l"], [["a", "1"], ["b", "2"]]),
            "csv": (["first,second\na,b\n"], ["2"], [["b"]]),
        }
        for name, (contents, columns, expected) in cases.items():
            paths = [self.folder / f"{number}.txt" for number in range(len(contents))]
            for path, content in zip(paths, contents):
                path.write_bytes(content.encode())
            form = source_rows.FORMS.get(f".{name}", source_rows.Form(name.split()[0]))
            found = source_text.texts_of(paths, columns, set(range(len(expected))), form)
            self.assertEqual([found[row] for row in range(len(expected))], expected, name)

    def test_columns_of_a_table_without_quotes(self):
        path = self.folder / "trec.label"
        path.write_bytes("DESC:manner How d\xefd it \"go ?\nNUM:dist How far\n".encode("latin-1"))
        form = source_rows.Form("csv", " ", quotes=False, header=False, columns=2, encoding="latin-1")
        self.assertEqual(source_text.texts_of([path], ["2", "1"], {0, 1}, form),
                         {0: ['How d\xefd it "go ?', "DESC:manner"], 1: ["How far", "NUM:dist"]})

    def test_encodings_are_those_of_the_preparation(self):
        path = self.folder / "text.csv"
        for content, encoding, expected in [(b"t\ndon\x92t \xe9\n", "latin-1", "don\u2019t \xe9"), (b"t\n\x87\x40\n", "Shift_JIS", "\u2460"),
                                            ("t\n\u65e5\n".encode("utf-16"), "utf-8", "\u65e5"), (b"t\n\xff\n", "utf-8", "\ufffd")]:
            path.write_bytes(content)
            self.assertEqual(source_text.texts_of([path], ["t"], {0}, source_rows.Form("csv", encoding=encoding)), {0: [expected]})

    def test_compressed_text_is_read_or_the_missing_package_is_named(self):
        path, text = self.folder / "text.csv", b"t\nhello\n"
        path.write_bytes(gzip.compress(text) * 2)
        form = source_rows.Form("csv")
        self.assertEqual(source_text.texts_of([path], ["t"], {0, 2}, form), {0: ["hello"], 2: ["hello"]})
        # A frame to be skipped, then frames of one raw block each.
        frame = b"\x28\xb5\x2f\xfd\x20" + bytes([len(text), len(text) << 3 | 1, 0, 0]) + text
        path.write_bytes(b"\x50\x2a\x4d\x18\x01\0\0\0x" + frame * 2)
        if sys.version_info >= (3, 14) or importlib.util.find_spec("zstandard"):
            self.assertEqual(source_text.texts_of([path], ["t"], {0, 2}, form), {0: ["hello"], 2: ["hello"]})
        else:
            with self.assertRaisesRegex(rundata.ReportError, "compressed with Zstandard: install the package zstandard"):
                source_text.texts_of([path], ["t"], {0}, form)

    def test_parquet_is_read_or_the_missing_package_is_named(self):
        path = HERE.parent / "golden/parquet/classes.parquet"
        self.assertEqual(source_rows.form_of(path).form, "parquet")
        if importlib.util.find_spec("pyarrow"):
            self.assertEqual(source_text.texts_of([path, path], ["text", "label"], {1, 8}), {1: ["text 1", "2"], 8: ["text 0", "3"]})
        else:
            with self.assertRaisesRegex(rundata.ReportError, "it is Parquet: install the package pyarrow"):
                source_text.texts_of([path], ["text"], {1})


if __name__ == "__main__":
    unittest.main()
