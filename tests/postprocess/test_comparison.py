"""Several runs side by side: a line for each, plain numbers in CSV, failed runs with their reasons, looks that differ."""

import contextlib
import csv
import io
import pathlib
import sys
import tempfile
import unittest

import h5py
import matplotlib
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "postprocess")]

import command  # noqa: E402
import comparison  # noqa: E402
import drawing  # noqa: E402
import facts  # noqa: E402
import failures  # noqa: E402
import make_run  # noqa: E402
import plot_loss  # noqa: E402
import plot_metrics  # noqa: E402
import plot_schedule  # noqa: E402
import plot_throughput  # noqa: E402
import plot_tradeoff  # noqa: E402
import reading  # noqa: E402
import report  # noqa: E402
import rundata  # noqa: E402
import writing  # noqa: E402

matplotlib.rcParams["savefig.dpi"] = 50
SETTINGS = """[model]
trainable = "{trainable}"
{more}
[optimizer]
learning_rate = {rate}

[evaluation]
best = "accuracy"
"""


class InFolder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        matplotlib.pyplot.close("all")
        self._folder.cleanup()

    def make(self, name, accuracy, speed=60000.0, memory=300, trained=1000, trainable="all", rate="1e-3", more="", **options):
        """A run of 20 steps whose best validation is that of step 10."""
        at = np.array([10, 20])
        evaluations = {"validation": {"step": at, "loss": np.array([0.5, 0.6]), "accuracy": np.array([accuracy, accuracy - 0.1])},
                       "test": {"step": at[:1], "loss": np.array([0.7]), "accuracy": np.array([accuracy - 0.05])}}
        make_run.write_metrics(self.folder / name, make_run.step_columns(20, 1, np.random.default_rng(1), tokens_per_second=speed), evaluations,
                               ranks=1, labels=["a", "b"], resolved_input=SETTINGS.format(trainable=trainable, rate=rate, more=more), **options)
        with h5py.File(self.folder / name / "metrics.h5", "r+") as file:
            file.attrs.update({"parameters": 4000, "trained_parameters": trained, "total_model_flops": 612080658432.0})
            file["ranks/peak_memory"][...] = memory << 20
        return self.folder / name

    def fail(self, name, status=2, words="bert_hpc: error: [model] freeze_layers = 8, but the model has 2 layers."):
        """What jobs/grid.sh leaves of a run that ended before it made its folder."""
        records = self.folder / ".grid"
        records.mkdir(exist_ok=True)
        (records / f"{name}.status").write_text(f"{status}\n")
        (records / f"{name}.errors").write_text(f"a warning\n{words}\n")
        return self.folder / name

    def report(self, *paths):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = command.guarded(lambda: report.report([*map(str, paths), "--output", str(self.folder / "out")]))
        return code, out.getvalue()


class Tables(InFolder):
    def runs(self):
        paths = [self.make("full", 0.9), self.make("lora", 0.85, speed=90000.0, memory=150, trained=100, trainable="lora", more="rank = 8\n"),
                 self.make("slow", 0.8, speed=30000.0, rate="1e-5")]
        return reading.load_runs(paths)

    def test_a_line_for_each_run(self):
        runs = self.runs()
        header, rows = comparison.table(runs, comparison.equal_facts(runs))
        self.assertEqual(header, ["run", "accuracy (test)", "trained parameters", "tokens/s", "peak memory", "speed ratio", "memory ratio"])
        self.assertEqual([row[:3] + row[4:] for row in rows], [["full", "0.85", "1,000", "300.0 MiB", "1.00", "1.00"],
                                                               ["lora", "0.8", "100", "150.0 MiB", "1.50", "0.500"],
                                                               ["slow", "0.75", "1,000", "300.0 MiB", "0.500", "1.00"]])

    def test_what_is_equal_is_said_once(self):
        runs = self.runs()
        text = comparison.as_text(runs)
        self.assertIn("In all runs: status finished, version", text)
        self.assertEqual(text.count("finished"), 1)
        self.assertIn("Ratios are to full.", text)
        self.assertLessEqual(max(map(len, text.split("\n"))), comparison.WIDTH)
        details = comparison.details_as_markdown(runs)
        self.assertIn("| time in steps |", details)
        self.assertNotIn("| status |", details)

    def test_settings_that_differ(self):
        # The rank follows from "lora", as all runs that have one have the same.
        self.assertEqual(comparison.own_settings(self.runs()), [[], ['model.trainable = "lora"'], ["optimizer.learning_rate = 1e-5"]])
        runs = self.runs() + reading.load_runs([self.make("lora16", 0.8, trainable="lora", more="rank = 16\n")])
        self.assertEqual(comparison.own_settings(runs)[1], ["model.rank = 8", 'model.trainable = "lora"'])

    def test_long_names_do_not_widen_the_table(self):
        runs = self.runs()
        for run in runs:
            run.name = "x" * 120 + run.name
        self.assertLessEqual(max(map(len, comparison.as_text(runs).split("\n\n")[1].split("\n"))), comparison.WIDTH)

    def test_the_score_that_all_runs_have(self):
        runs = self.runs()
        self.assertEqual(comparison.score_of(runs)[:2], ("test", "accuracy"))
        del runs[1].evaluations["test"]
        self.assertEqual(comparison.score_of(runs)[:2], ("validation", "accuracy"))
        self.assertEqual(comparison.value_of(runs[0], "validation", "accuracy"), 0.9)  # the best one's, not the last
        for run in runs:
            run.evaluations = {}
        self.assertIsNone(comparison.score_of(runs))
        self.assertNotIn("accuracy", " ".join(comparison.table(runs, {})[0]))

    def test_numbers_of_the_csv_file_are_plain(self):
        self.runs()
        code, _ = self.report(*(self.folder / name for name in ("full", "lora", "slow")))
        self.assertEqual(code, 0)
        with open(self.folder / "out/summary.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["run"] for row in rows], ["full", "lora", "slow"])
        for name in ("trained_parameters", "step_seconds", "tokens_per_second", "test_accuracy", "peak_memory_bytes", "model_flops", "epochs"):
            self.assertTrue(all(float(row[name]) > 0 for row in rows), name)
        self.assertEqual([float(row["test_accuracy"]) for row in rows], [0.85, 0.8, 0.75])
        self.assertEqual([int(row["validation_step"]) for row in rows], [10, 10, 10])
        for path in (self.folder / "out").glob("*.csv"):
            self.assertNotIn("–", path.read_text(encoding="utf-8"), path.name)

    def test_a_cell_without_a_value_is_empty(self):
        writing.write_csv(self.folder / "table.csv", ["a", "b"], [["–", 1.5], ["x–y", "–"]])
        self.assertEqual((self.folder / "table.csv").read_text(encoding="utf-8"), "a,b\n,1.5\nx–y,\n")

    def test_one_run_has_a_line_too(self):
        header, rows = facts.data(reading.load_runs([self.make("alone", 0.9)]))
        self.assertEqual((len(rows), rows[0][header.index("test_accuracy")]), (1, repr(0.85)))

    def test_splits_are_in_the_order_of_their_use(self):
        self.assertEqual(rundata.in_order({"test", "other", "validation", "train"}), ["train", "validation", "test", "other"])

    def test_columns_of_text_are_on_the_left(self):
        rows = [["a", "forward", "1,234", "0.5", "1.5 MiB", "–"], ["b", "backward", "12", "1e-05", "2 GiB", "−3 (4%)"]]
        self.assertEqual(writing.right_aligned(["x"] * 6, rows), [False, False, True, True, True, True])
        self.assertIn("|---|---|---:|---:|---:|---:|", writing.as_markdown(["x"] * 6, rows, "table"))
        self.assertEqual(writing.as_text(["run", "trained\nparameters"], [["a", "7"]]),
                         "        trained\nrun  parameters\n---  ----------\na             7")


class TradeOff(InFolder):
    def test_score_against_time_and_memory(self):
        runs = reading.load_runs([self.make("full", 0.9), self.make("lora", 0.85, speed=90000.0, memory=150), self.make("slow", 0.8, speed=30000.0)])
        [(name, figure)] = plot_tradeoff.draw(runs)
        self.assertEqual(name, "tradeoff")
        time, memory = figure.axes
        self.assertEqual((time.get_ylabel(), time.get_xlabel()), ("Accuracy (test)", "Time in steps (s)"))
        points = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in memory.lines[1:]}
        self.assertEqual(points, {"full": (300, 0.9 - 0.05), "lora": (150, 0.85 - 0.05), "slow": (300, 0.8 - 0.05)})
        self.assertEqual(list(memory.lines[0].get_xdata()), [150, 300])  # no run beats these two in both
        self.assertEqual(plot_tradeoff.draw(runs[:1]), [])

    def test_unbeaten_runs(self):
        points = [plot_tradeoff.Point(None, x, y, None, "o") for x, y in ((3, 0.9), (1, 0.5), (2, 0.4), (3, 0.8), (4, 0.9))]
        shown = lambda larger: [(point.x, point.y) for point in plot_tradeoff.unbeaten(points, larger)]  # noqa: E731
        self.assertEqual(shown(True), [(1, 0.5), (3, 0.9)])
        self.assertEqual(shown(False), [(1, 0.5), (2, 0.4)])


class Failed(InFolder):
    def test_a_failed_run_stays_with_its_reason(self):
        code, out = self.report(self.fail("frozen"), self.make("first", 0.9), self.make("second", 0.8, speed=120000.0))
        self.assertEqual(code, 0, out)
        reason = "frozen: exit status 2: error: [model] freeze_layers = 8, but the model has 2 layers."
        self.assertTrue(out.rstrip().endswith(f"1 of 3 runs failed:\n- {reason}"), out)
        text = (self.folder / "out/comparison.md").read_text(encoding="utf-8")
        self.assertIn(f"- {reason}", text)
        self.assertIn("| frozen | failed | – |", text)
        self.assertIn("Ratios are to first.", text)
        self.assertIn("In all runs with results: ", text)
        with open(self.folder / "out/summary.csv", encoding="utf-8") as file:
            self.assertEqual([(row["status"], row["error"] != "", row["test_accuracy"]) for row in csv.DictReader(file)],
                             [("failed", True, ""), ("finished", False, repr(0.9 - 0.05)), ("finished", False, repr(0.8 - 0.05))])

    def test_the_folder_of_a_grid_stands_for_its_runs(self):
        self.fail("frozen")
        self.make("z", 0.9), self.make("a", 0.8), self.make("not of the grid", 0.7)
        (self.folder / ".grid" / "names").write_text("z\nfrozen\na\nbegun\nlater\n")
        (self.folder / "begun").mkdir()
        (self.folder / "begun" / ".status").write_text("running\n")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(command.guarded(lambda: report.report([str(self.folder)])), 0)
        self.assertIn("1 of 5 runs failed:", out.getvalue())
        with open(self.folder / "report/summary.csv", encoding="utf-8") as file:
            self.assertEqual([(row["run"], row["status"]) for row in csv.DictReader(file)],
                             [("z", "finished"), ("frozen", "failed"), ("a", "finished"), ("begun", "running"), ("later", "not started")])

    def test_all_runs_failed(self):
        code, out = self.report(self.fail("a"), self.fail("b", 3, "error: no data"))
        self.assertEqual(code, 0, out)
        self.assertIn("- b: exit status 3: error: no data", out)

    def test_an_error_with_a_list_has_its_first_entry(self):
        lines = ["x", "bert_hpc: error: the input cannot be used:", "  input.toml, line 3: no", "  line 4: no"]
        self.assertEqual(failures.last_error(lines), "error: the input cannot be used: input.toml, line 3: no")
        self.assertEqual(failures.last_error(lines[:2]), "error: the input cannot be used:")
        self.assertIsNone(failures.last_error(lines[:1]))

    def test_a_run_that_failed_on_its_way(self):
        path = self.make("broken", 0.5, status="failed")
        (path / "log.txt").write_text("step 1\nerror: rank 1 is silent\n")
        [run, _] = reading.load_runs([path, self.make("other", 0.6)])
        self.assertEqual(run.failure, "error: rank 1 is silent")
        self.assertEqual(comparison.failed([run]), ["broken: error: rank 1 is silent"])
        (path / "log.txt").write_text("step 1\nstep 2\n")
        self.assertEqual(failures.reason_of(path), "no error in its log, which ends: step 2")

    def test_a_folder_of_something_else_is_an_error(self):
        (self.folder / "empty").mkdir()
        with contextlib.redirect_stderr(io.StringIO()) as err:
            code, _ = self.report(self.make("run", 0.5), self.folder / "empty")
        self.assertEqual(code, 4)
        self.assertIn("not the directory of a run", err.getvalue())


class Looks(InFolder):
    def runs(self, count):
        found = []
        for number in range(count):
            run = rundata.Run(self.folder, f"run {number}")
            run.steps = make_run.step_columns(20, 1, np.random.default_rng(number))
            at = np.array([5, 10, 20])
            run.evaluations = {split: {"step": at, "loss": 1 / at, "accuracy": at / 40} for split in ("validation", "test")}
            found.append(run)
        return found

    def test_many_runs_differ_in_colour_or_line(self):
        runs = self.runs(11)
        for module in (plot_loss, plot_metrics, plot_schedule, plot_throughput):
            [(name, figure)] = module.draw(runs)
            [legend] = figure.legends
            shown = [(line.get_color(), str(line.get_linestyle()), line.get_marker()) for line in legend.get_lines()]
            named = [look for look, text in zip(shown, legend.get_texts()) if text.get_text().strip()]
            self.assertEqual(len(set(named)), len(named), name)
        # The two splits of a run have its colour and line, and differ in their markers.
        [(_, figure)] = plot_loss.draw(runs)
        lines = {line.get_label(): line for line in figure.axes[0].lines}
        for run in ("run 0", "run 8"):
            own = [lines[f"{run}: {name}"] for name in ("training", "validation", "test")]
            self.assertEqual(len({(line.get_color(), line.get_linestyle()) for line in own}), 1)
            self.assertEqual(len({line.get_marker() for line in own}), 3)

    def test_a_curve_of_one_point_has_a_marker(self):
        [run] = self.runs(1)
        run.steps, run.evaluations = {name: values[:1] for name, values in run.steps.items()}, {}
        for module in (plot_loss, plot_schedule, plot_throughput):
            [(name, figure)] = module.draw([run])
            for axes in figure.axes:
                curves = [line for line in axes.lines if len(line.get_xdata()) == 1]
                self.assertTrue(curves and all(line.get_marker() == "o" for line in curves), name)

    def test_a_point_between_gaps_has_a_marker(self):
        figure, axes = matplotlib.pyplot.subplots()
        drawing.draw_curve(axes, range(5), [1, 2, np.nan, 4, np.nan], drawing.Look(0, "black", 1, True, "run"))
        self.assertEqual([list(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"], [[3]])
        matplotlib.pyplot.close(figure)

    def test_pictures_without_values_are_left_out(self):
        [run] = self.runs(1)
        run.steps["seconds"] = np.zeros(20)
        run.steps["loss"] = np.full(20, np.nan)
        run.evaluations = {}
        for module in (plot_loss, plot_throughput):
            self.assertEqual(list(module.draw([run])), [])


if __name__ == "__main__":
    unittest.main()
