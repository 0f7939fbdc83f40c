"""What the options of postprocess/ do to tables and pictures: names, titles, sizes, axes, metrics, counts; CSV files for other
programs; and what a picture says of a model that has learnt nothing."""

import csv
import pathlib
import sys
import unittest
import unittest.mock

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import test_report  # noqa: E402  (which finds postprocess/)
from test_report import InFolder, call, png_size, texts  # noqa: E402

import atomic  # noqa: E402
import command  # noqa: E402
import drawing  # noqa: E402
import make_run  # noqa: E402
import plot_confusion  # noqa: E402
import plot_efficiency  # noqa: E402
import plot_loss  # noqa: E402
import plot_metrics  # noqa: E402
import plot_ranks  # noqa: E402
import plot_regression  # noqa: E402
import plot_throughput  # noqa: E402
import plot_timers  # noqa: E402
import reading  # noqa: E402
import rundata  # noqa: E402
import tables  # noqa: E402
import wording  # noqa: E402

del test_report  # whose tests are its own


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Names(InFolder):
    def test_titles_name_the_folder_above_run(self):
        make_run.make_classification(self.folder / "glosses" / "run", updates=40, classes=3)
        [run] = reading.load_runs([self.folder / "glosses" / "run"])
        [(_, figure)] = plot_loss.draw([run])
        self.assertIn("Loss: glosses", texts(figure))
        [(_, figure)] = plot_loss.draw([run], drawing.Style(title="Base model"))
        self.assertIn("Loss: Base model", texts(figure))
        for module in (plot_loss, plot_metrics, plot_confusion, plot_throughput):
            for _, figure in module.draw([run], drawing.Style(title="")):
                titles = [figure._suptitle.get_text()] if figure._suptitle else [axes.get_title() for axes in figure.axes]
                self.assertEqual(set(titles), {""})

    def test_names_of_the_command_line(self):
        for name in ("a", "lr=1"):
            make_run.make_classification(self.folder / name, updates=20, classes=3)
        given = [f"base={self.folder / 'a'}", f"best={self.folder / 'lr=1'}", str(self.folder / "lr=1")]
        self.assertEqual([run.name for run in reading.load_runs(given)], ["base", "best", "lr=1"])
        self.assertEqual([run.name for run in reading.load_runs([given[0], given[0]])], ["base (1)", "base (2)"])
        with self.assertRaisesRegex(rundata.ReportError, "There is no"):
            reading.load_runs([f"base={self.folder / 'absent'}"])
        result = call("plot_loss.py", *given[:2], "--output", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_macro_means_are_called_so(self):
        run = rundata.Run(self.folder, "run")
        run.attributes["task"] = "classification"
        run.evaluations["validation"] = {"step": np.array([1]), "loss": np.ones(1), "f1": np.ones(1), "accuracy": np.ones(1)}
        self.assertEqual([rundata.label_of([run], name) for name in ("f1", "accuracy")], ["macro F1", "accuracy"])
        self.assertIn("validation macro F1", [row[0] for row in tables.summary(run)[1]])
        run.attributes["task"] = "question_answering"
        self.assertEqual(rundata.label_of([run], "f1"), "F1")
        run.metric_labels["f1"] = "token f1"  # as metrics.h5 says
        self.assertEqual(rundata.label_of([run], "f1"), "token F1")
        # The table keeps the names of the datasets.
        self.assertEqual({row[3] for row in tables.evaluations([run])[1]}, {"loss", "f1", "accuracy"})


class Sizes(InFolder):
    def test_width_and_font_size(self):
        run = self.folder / "run"
        make_run.make_classification(run, updates=60, classes=3)
        options = [run, "--width", "4", "--font-size", "8", "--title", "", "--output"]
        for script in ("plot_loss.py", "plot_metrics.py", "plot_timers.py", "plot_confusion.py", "plot_ranks.py"):
            result = call(script, *options, self.folder / "out")
            self.assertEqual((result.returncode, result.stderr), (0, ""), script)
        for path in (self.folder / "out").glob("*.png"):
            self.assertEqual(png_size(path)[0], 200, path.name)  # 50 dots per inch in tests
        with drawing.Style(font_size=8).fonts():
            [(_, figure)] = plot_loss.draw(reading.load_runs([run]))
            self.assertEqual(figure.axes[0].xaxis.label.get_fontsize(), 8)
        [(_, figure)] = plot_loss.draw(reading.load_runs([run]))
        self.assertEqual(figure.axes[0].xaxis.label.get_fontsize(), drawing.FONT_SIZE)

    def test_titles_and_labels_fit_a_narrow_picture(self):
        make_run.make_classification(self.folder / "a-folder-whose-name-is-longer-than-most", updates=60, classes=3)
        make_run.make_regression(self.folder / "values")
        runs = reading.load_runs([self.folder / "a-folder-whose-name-is-longer-than-most", self.folder / "values"])
        style = drawing.Style(width=3.3, font_size=8)
        for run, modules in zip(runs, ((plot_loss, plot_metrics, plot_timers, plot_ranks, plot_confusion), (plot_regression,))):
            for module in modules:
                with style.fonts():
                    [(name, figure)] = module.draw([run], style)
                    drawing.fit_text(figure)
                    figure.draw_without_rendering()
                inside = figure.bbox.padded(2)
                written = [text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
                for text in written + ([figure._suptitle] if figure._suptitle else []):
                    box = text.get_window_extent()
                    self.assertTrue(not text.get_text() or inside.containsx(box.x0) and inside.containsx(box.x1), (name, text.get_text()))
                if module in (plot_metrics, plot_regression):  # two panels one below the other
                    self.assertEqual(len({round(axes.get_position().x0, 1) for axes in figure.axes}), 1)

    def test_sizes_that_are_none(self):
        with self.assertRaises(SystemExit), unittest.mock.patch("sys.stderr"):
            command.parser_of("").parse_args(["run", "--width", "-3"])


class Curves(InFolder):
    def run_of(self, splits=("validation", "test"), name="run"):
        run = rundata.Run(self.folder, name)
        run.attributes.update(task="classification", status="finished")
        run.steps = make_run.step_columns(60, 3, np.random.default_rng(1))
        for split in splits:
            at = np.array([20, 40, 60]) if split != "test" else np.array([60])
            run.evaluations[split] = {"step": at, "loss": 2.0 / at} | {
                name: at / 100 for name in ("accuracy", "f1", "precision", "recall")}
        return run

    def test_colours_are_the_roles(self):
        for splits in (("validation",), ("validation", "test"), ("a", "test", "validation")):
            [(_, figure)] = plot_loss.draw([self.run_of(splits)])
            colours = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
            self.assertEqual(colours["validation"], drawing.ROLES["validation"][0])
            self.assertEqual(colours["training (smoothed)"] if "training (smoothed)" in colours else colours["training"],
                             drawing.ROLES["training"][0])
            [(_, figure)] = plot_metrics.draw([self.run_of(splits)])
            colours = {line.get_label().split(",")[0]: line.get_color() for line in figure.axes[0].lines}
            self.assertEqual(colours["validation"], drawing.ROLES["validation"][0])
            self.assertEqual(colours.get("test", drawing.ROLES["test"][0]), drawing.ROLES["test"][0])

    def test_epochs(self):
        run = self.run_of()
        [(_, figure)] = plot_loss.draw([run], drawing.Style(x="epochs"))
        self.assertEqual(figure.axes[0].get_xlabel(), "Epoch")
        [line] = [line for line in figure.axes[0].lines if line.get_label() == "validation"]
        np.testing.assert_allclose(line.get_xdata(), [1, 2, 3])
        self.assertEqual(figure.axes[0].child_axes, [])
        [(_, figure)] = plot_loss.draw([run])
        [top] = figure.axes[0].child_axes
        self.assertEqual((figure.axes[0].get_xlabel(), top.get_xlabel()), ("Step", "Epoch"))
        other = self.run_of(name="other")
        other.steps["epoch"] = other.steps["epoch"] / 2  # two scales would be needed
        [(_, figure)] = plot_loss.draw([run, other])
        self.assertEqual(figure.axes[0].child_axes, [])

    def panels(self, run, **style):
        drawn = plot_metrics.draw([run], drawing.Style(**style))
        return [axes.get_ylabel() for _, figure in drawn for axes in figure.axes]

    def test_metrics_are_few_unless_asked_for(self):
        run = self.run_of()
        self.assertEqual(self.panels(run), ["Accuracy", "Macro F1"])
        run.attributes["resolved_input"] = '[evaluation]\nbest = "recall"\n'
        self.assertEqual(self.panels(run), ["Macro recall", "Accuracy"])
        self.assertEqual(self.panels(run, metrics=["precision"]), ["Macro precision"])
        self.assertEqual(len([name for name in self.panels(run, metrics=["all"]) if name]), 4)
        with self.assertRaisesRegex(rundata.ReportError, "no metric 'mcc'; there are accuracy"):
            self.panels(run, metrics=["mcc"])

    def test_one_evaluation_is_no_curve(self):
        self.assertEqual(plot_metrics.draw([self.run_of(("test",))]), [])

    def test_small_rates_are_not_rounded(self):
        run = self.run_of()
        run.steps["samples"], run.steps["seconds"] = np.full(60, 7), np.full(60, 2.0)
        [(_, figure)] = plot_throughput.draw([run])
        self.assertIn("dashed: mean 3.50 sequences/s", texts(figure))
        self.assertEqual([wording.rate_text(value) for value in (3.519, 0.04, 45.67, 120543.2)], ["3.52", "0.0400", "45.7", "120,543"])

    def test_gaps_have_no_line(self):
        run = self.run_of()
        at = np.array([10, 20, 30, 300, 310, 900])
        run.efficiency = {"step": at, "noise_scale": at * 1.0, "efficiency": at * 1.0, "goodput": at * 1.0}
        [(_, figure)] = plot_efficiency.draw([run])
        for axes in figure.axes:
            line = axes.lines[0]
            values = line.get_ydata()
            self.assertEqual(list(np.isfinite(values)), [True, True, True, False, True, True, False, True])
            self.assertEqual(line.get_marker(), "o")
        self.assertEqual(list(drawing.alone(np.array([np.nan, 1, np.nan, 1, 1, np.nan, 1]))),
                         [False, True, False, False, False, False, True])


class Matrices(InFolder):
    def test_counts(self):
        run = rundata.Run(self.folder, "run")
        run.attributes["label_names"] = ["a", "$b$"]
        run.evaluations["test"] = {"step": np.array([3]), "loss": np.ones(1), "confusion_matrix": np.array([[[3, 1], [0, 1200]]])}
        [(_, figure)] = plot_confusion.draw([run])
        cells = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual(cells, ["75", "25", "100"])
        self.assertEqual([label.get_text() for label in figure.axes[0].get_yticklabels()], ["a (4)", "$b$ (1,200)"])
        [(_, figure)] = plot_confusion.draw([run], drawing.Style(counts=True))
        cells = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual(cells, ["3", "1", "1,200"])
        self.assertEqual(figure.axes[1].get_ylabel(), "Samples")


class Regression(InFolder):
    def drawn(self, actual, predicted, style=drawing.USUAL, **facts):
        run = rundata.Run(self.folder, "run")
        run.predictions = {"task": "regression", "label": np.array(actual), "prediction": np.array(predicted)} | facts
        [(_, figure)] = plot_regression.draw([run], style)
        return figure, " ".join(texts(figure)).replace("\n", " ")

    def test_split_and_label_are_named(self):
        figure, words = self.drawn([1.0, 2, 3], [1.0, 2, 3.5], split="validation", label_column="Overall")
        self.assertIn("(validation): run", words)
        self.assertEqual((figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()), ("Actual Overall", "Predicted Overall"))
        figure, _ = self.drawn([1.0, 2, 3], [1.0, 2, 3.5], drawing.Style(label_name="band"), label_column="Overall")
        self.assertEqual(figure.axes[0].get_xlabel(), "Actual band")
        self.assertNotIn("R² below 0", words)

    def test_several_label_columns_have_a_picture_each(self):
        run = rundata.Run(self.folder, "run")
        label, prediction = np.array([[1.0, 5], [2, np.nan], [3, 6], [4, 7]]), np.array([[1.0, 5], [2, 0], [3, 6], [4, 7.5]])
        run.predictions = {"task": "regression", "label": label, "prediction": prediction, "label_names": ["grammar", "over all"]}
        figures = dict(plot_regression.draw([run]))
        self.assertEqual(list(figures), ["regression-grammar", "regression-over-all"])
        self.assertEqual(figures["regression-grammar"].axes[0].get_xlabel(), "Actual grammar")
        self.assertIn("3 samples", " ".join(texts(figures["regression-over-all"])))

    def test_a_model_that_has_learnt_nothing(self):
        self.assertIn("worse than predicting the mean", self.drawn([1.0, 2, 3], [3.0, 2, 1])[1])
        self.assertIn("nearly all the same", self.drawn([1.0, 2, 3], [2.0, 2.001, 2])[1])


class Text(InFolder):
    def test_steps(self):
        steps = make_run.step_columns(5, 1, np.random.default_rng(1))
        make_run.write_metrics(self.folder / "a", steps, {})
        make_run.write_metrics(self.folder / "b", steps, {})
        result = call("report.py", self.folder / "a")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = read_csv(self.folder / "a" / "report" / "steps.csv")
        self.assertEqual(list(rows[0]), ["step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds"])
        for name in rows[0]:
            np.testing.assert_array_equal([float(row[name]) for row in rows], steps[name])
        self.assertEqual(rows[4]["step"], "5")
        header, together = tables.steps(reading.load_runs([self.folder / "a", self.folder / "b"]))
        self.assertEqual((header[0], [row[0] for row in together]), ("run", ["a"] * 5 + ["b"] * 5))

    def test_half_a_file_is_never_seen(self):
        path = self.folder / "x.csv"
        path.write_text("older")
        with self.assertRaises(KeyError), atomic.written(path) as file:
            file.write("half")
            raise KeyError
        self.assertEqual([(p.name, p.read_text()) for p in self.folder.iterdir()], [("x.csv", "older")])

    def predicted(self, rows):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, mode="predict")
        (run / "predictions.csv").write_text("row,label,prediction\n" + "".join(f'{row},,"a ""b"", c"\n' for row in rows))
        return run

    def test_texts_beside_predictions(self):
        run = self.predicted([3, 0, 2])
        (self.folder / "one.csv").write_text('\ufeffid,text,more\n7,"two\nlines, and ""more""",x\n8,plain,y\n', encoding="utf-8")
        (self.folder / "two.jsonl").write_text('{"text": "käse", "more": "z"}\n\n{"text": "$x$"}\n', encoding="utf-8")
        given = [run, "--text", self.folder / "one.csv", "--text", self.folder / "two.jsonl"]
        result = call("report.py", *given)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = read_csv(run / "report" / "predictions.csv")
        self.assertEqual([(row["row"], row["prediction"], row["text"]) for row in rows],
                         [("3", 'a "b", c', "$x$"), ("0", 'a "b", c', 'two\nlines, and "more"'), ("2", 'a "b", c', "käse")])
        result = call("report.py", *given[:3], "--text-column", "body")
        self.assertIn("has no column 'body'; it has 'id', 'text', 'more'", result.stderr)
        result = call("report.py", *given[:3])
        self.assertIn("2 rows; the predictions are of rows up to 3", result.stderr)
        result = call("report.py", *given, "--output", run)
        self.assertIn("would be replaced", result.stderr)

    def test_quotes_mean_nothing_in_tsv(self):
        run = self.predicted([1])
        (self.folder / "rows.tsv").write_text('text\tlabel\n"a\tb\nc"d\te\n')
        columns = ["--text-column", "text", "--text-column", "label"]
        self.assertEqual(call("report.py", run, "--text", self.folder / "rows.tsv", *columns).returncode, 0)
        row = read_csv(run / "report" / "predictions.csv")[0]
        self.assertEqual((row["text"], row["label"], row["source_label"]), ('c"d', "", "e"))

    def test_other_files_than_those_of_prep_are_doubted(self):
        run = self.predicted([0])
        make_run.write_metrics(run, None, {}, mode="predict", resolved_input=f'[data]\ntest = ["{self.folder}/shards/test-*.h5"]\n')
        (self.folder / "shards").mkdir()
        (self.folder / "shards" / "test-00000.h5").touch()
        (self.folder / "shards" / "prep.toml").write_text('[source]\nfiles = ["data/rows.csv"]\n')
        for name in ("rows.csv", "others.csv"):
            (self.folder / name).write_text("text\none\n")
        self.assertNotIn("warning", call("report.py", run, "--text", self.folder / "rows.csv").stderr)
        warning = call("report.py", run, "--text", self.folder / "others.csv").stderr
        self.assertIn("others.csv, but bert_hpc_prep read data/rows.csv", warning)

    def test_no_predictions(self):
        make_run.write_metrics(self.folder, None, {})
        self.assertIn("There is no predictions.csv", call("report.py", self.folder, "--text", self.folder / "x.csv").stderr)


if __name__ == "__main__":
    unittest.main()
