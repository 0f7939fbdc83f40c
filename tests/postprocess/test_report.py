"""postprocess/report.py on made runs: what it writes, on unfinished and odd runs too, and what it says of wrong paths."""

import collections
import contextlib
import csv
import importlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import zlib

import h5py
import matplotlib
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "postprocess"
sys.path[:0] = [str(HERE), str(SCRIPTS)]

import command  # noqa: E402
import drawing  # noqa: E402
import facts  # noqa: E402
import journal  # noqa: E402
import kernel_mix  # noqa: E402
import make_run  # noqa: E402
import packages  # noqa: E402
import plot_confusion  # noqa: E402
import plot_efficiency  # noqa: E402
import plot_devices  # noqa: E402
import plot_loss  # noqa: E402
import plot_loss_scale  # noqa: E402
import plot_metrics  # noqa: E402
import plot_predictions  # noqa: E402
import plot_profile  # noqa: E402
import plot_ranking  # noqa: E402
import plot_ranks  # noqa: E402
import plot_regression  # noqa: E402
import plot_retrieval  # noqa: E402
import plot_reliability  # noqa: E402
import plot_scaling  # noqa: E402
import plot_schedule  # noqa: E402
import plot_seeds  # noqa: E402
import plot_throughput  # noqa: E402
import plot_timeline  # noqa: E402
import plot_timers  # noqa: E402
import predictions  # noqa: E402
import queries  # noqa: E402
import ranking  # noqa: E402
import reading  # noqa: E402
import report  # noqa: E402
import rundata  # noqa: E402
import smoothing  # noqa: E402
import tables  # noqa: E402
import variants  # noqa: E402
import wording  # noqa: E402
import writing  # noqa: E402

matplotlib.rcParams["savefig.dpi"] = 50  # the drawing is tested, not its fineness
Result = collections.namedtuple("Result", "returncode stdout stderr")


def call(script, *arguments):
    """A script of postprocess/ in this process, which saves starting Python and matplotlib each time."""
    given = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        module = importlib.import_module(script.removesuffix(".py"))
        if module is report:
            code = command.guarded(lambda: report.report(given))
        else:
            code = command.main(module.draw, module.__doc__, given)
    return Result(code, out.getvalue(), err.getvalue())


def png_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n", path
    return struct.unpack(">II", header[16:24])


class InFolder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        matplotlib.pyplot.close("all")
        self._folder.cleanup()


class Gpus(InFolder):
    """Reports of a run in fp16 on GPUs, both from metrics.h5 and from the journal."""

    LINES = ["loss_scale\t10\t65536\t0", "loss_scale\t20\t32768\t1\t1770000000.5", "loss_scale\t30\tnonsense\t1",
             "rank_sample\t1.5\t2\t0.5\t0.7\t2\t300\tnan\t2\t1e9\t3e9", "rank_sample\t2.5\t2\t0.6\t0.8\t2\t320\tnan",
             "memory\t2\tactivations\t2\t700\t800\toptimizer states\t2\t90\t0",
             "ranks\t1\tnode1\tNVIDIA H200\t4\t1000\t0.9\t310\t1\t2\t3\t4\t5\t0.75\t5e9\t999"]

    def test_from_the_journal(self):
        steps = make_run.step_columns(40, 1, np.random.default_rng(1))
        make_run.write_journal(self.folder, steps, torn=False)
        with open(self.folder / "metrics.journal", "ab") as file:
            for line in self.LINES:
                file.write(b"%08x %s\n" % (zlib.crc32(line.encode()), line.encode()))
        run = reading.load_runs([str(self.folder)], True)[0]
        np.testing.assert_array_equal(run.loss_scale["scale"], [65536, 32768])
        np.testing.assert_array_equal(run.rank_samples["utilisation"], [[0.5, 0.7], [0.6, 0.8]])
        self.assertEqual((run.ranks["energy"][0], run.ranks["waiting"][0]), (999, 5))
        self.check(run)

    def test_from_the_metrics(self):
        make_run.make_classification(self.folder, updates=40)
        with h5py.File(self.folder / "metrics.h5", "r+") as file:
            for name, values in (("step", [10, 20]), ("scale", [65536.0, 32768.0]), ("skipped", [0, 1])):
                file[f"loss_scale/{name}"] = values
            file["ranks/memory/purpose"], file["ranks/memory/bytes"] = ["activations", "optimizer states"], [[700, 800], [90, 0]]
            file["ranks/samples/seconds"] = [1.5, 2.5]
            file["ranks/samples/utilisation"] = [[0.5, 0.7], [0.6, 0.8]]
            file["ranks/samples/power"] = [[300.0, np.nan], [320.0, np.nan]]
            file["ranks/samples/memory"] = [[1e9, 3e9], [np.nan, np.nan]]
        self.check(reading.load_runs([str(self.folder)], False)[0])

    def check(self, run):
        self.assertEqual({purpose: list(of) for purpose, of in run.planned_memory.items()}, {"activations": [700, 800], "optimizer states": [90, 0]})
        ((name, figure),) = plot_loss_scale.draw([run])
        self.assertEqual(name, "loss_scale")
        np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), [65536, 32768])
        ((name, figure),) = plot_devices.draw([run])
        self.assertEqual(name, "devices")
        np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [60, 70])
        np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), [2e9 / 2**30])
        np.testing.assert_allclose(figure.axes[2].lines[0].get_ydata(), [300, 320])
        drawing.plt.close("all")

    def test_nothing_to_draw(self):
        make_run.make_classification(self.folder, updates=40)
        runs = reading.load_runs([str(self.folder)], False)
        self.assertEqual(plot_loss_scale.draw(runs) + plot_devices.draw(runs), [])


class Report(InFolder):
    def check_pictures(self, output, names):
        found = {path.stem for path in output.glob("*.png")}
        self.assertEqual(found, set(names))
        for name in names:
            width, height = png_size(output / f"{name}.png")
            self.assertGreater(min(width, height), 150)
            self.assertEqual((output / f"{name}.pdf").read_bytes()[:5], b"%PDF-")

    def test_classification(self):
        run = self.folder / "run"
        make_run.make_classification(run, updates=400)
        result = call("report.py", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertIn("validation accuracy (last)", result.stdout)
        names = ["loss", "metrics", "schedule", "confusion_matrix-validation", "classes-validation", "timers", "ranks", "throughput"]
        self.check_pictures(run / "report", names)
        with open(run / "report" / "classes.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["class"] for row in rows], make_run.CATEGORIES)
        self.assertIn("| noun.act |", (run / "report" / "summary.md").read_text().replace("| run | validation ", ""))

    def test_unfinished_says_so(self):
        run = self.folder / "run"
        make_run.make_classification(run, status="running", share=0.1, updates=400)
        result = call("report.py", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("running", result.stdout)
        self.check_pictures(run / "report", ["loss", "schedule", "throughput"])
        # Where a rank failed alone, metrics.h5 does not know.
        for word, shown in (("failed\n", "failed"), ("running\n", "running"), ("else\n", "running")):
            (run / ".status").write_text(word)
            self.assertIn(shown, call("report.py", run).stdout)

    def test_just_started(self):
        run = self.folder / "run"
        make_run.write_metrics(run, None, {}, status="running")
        result = call("report.py", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(list((run / "report").glob("*.png")), [])

    def test_training_and_test_side_by_side(self):
        make_run.make_classification(self.folder / "run", share=0.5, updates=400, classes=4)
        make_run.make_test(self.folder / "test", classes=5)
        output = self.folder / "out"
        result = call("report.py", self.folder / "run", self.folder / "test", "--output", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_pictures(output, ["loss", "metrics", "schedule", "timers", "ranks", "throughput",
                                     "confusion_matrix-validation-run", "confusion_matrix-test-test", "classes-validation-run",
                                     "classes-test-test"])

    def test_scaling(self):
        paths = make_run.make_scaling(self.folder)
        result = call("report.py", *paths, "--output", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_pictures(self.folder / "out", ["loss", "schedule", "timers", "ranks", "throughput", "scaling"])
        with open(self.folder / "out/summary.csv", encoding="utf-8") as file:
            self.assertEqual([row["layout"] for row in csv.DictReader(file)], ["1x1x1", "2x1x1", "4x1x1", "8x1x1"])

    def test_one_kind_of_picture(self):
        run = self.folder / "run"
        make_run.make_regression(run)
        for script in sorted(SCRIPTS.glob("plot_*.py")):
            result = call(script.name, run)
            self.assertEqual(result.returncode, 0, f"{script.name}: {result.stderr}")
        self.check_pictures(run / "report", ["loss", "metrics", "schedule", "regression", "timers", "ranks", "throughput"])

    def test_from_the_command_line(self):
        make_run.write_metrics(self.folder, None, {}, status="running")
        command = [sys.executable, str(SCRIPTS / "report.py")]
        result = subprocess.run([*command, str(self.folder)], capture_output=True, text=True, timeout=300)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = subprocess.run([*command, str(self.folder / "absent")], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 4)
        self.assertTrue(result.stderr.startswith("report.py: error: There is no"), result.stderr)

    def test_a_python_without_the_packages(self):
        """Every script, none of which may reach an import that fails, or say more than a line."""
        for name in packages.NEEDED:
            (self.folder / f"{name}.py").write_text(f'raise ImportError("No module named {name}")\n')
        python = self.folder / "venv" / "bin" / "python"
        environment = os.environ | {"PYTHONPATH": str(self.folder), "BERT_HPC_PYTHON": str(python)}
        for script in ("report.py", *(path.name for path in SCRIPTS.glob("plot_*.py"))):
            result = subprocess.run([sys.executable, str(SCRIPTS / script), "run"], capture_output=True, text=True, timeout=300,
                                    env=environment)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1), result.stderr)
            self.assertTrue(result.stderr.startswith(f"{script}: error: {sys.executable} lacks h5py, matplotlib, numpy; "), result.stderr)
            self.assertIn(str(python), result.stderr)

    def test_same_data_same_bytes(self):
        run = self.folder / "run"
        make_run.write_metrics(run, make_run.step_columns(60, 1, np.random.default_rng(1)), {})
        for name in ("a", "b"):
            self.assertEqual(call("plot_loss.py", run, "--output", self.folder / name).returncode, 0)
        for name in ("loss.png", "loss.pdf"):
            self.assertEqual((self.folder / "a" / name).read_bytes(), (self.folder / "b" / name).read_bytes())

    def test_values_that_are_no_numbers(self):
        run = self.folder / "run"
        steps = make_run.step_columns(100, 1, np.random.default_rng(1))
        steps["loss"][40:60] = np.nan
        steps["gradient_norm"][:] = np.inf
        steps["seconds"][:] = 0
        columns = {"step": np.array([1, 2]), "loss": np.array([np.nan, np.nan]), "accuracy": np.array([np.nan, np.nan])}
        make_run.write_metrics(run, steps, {"validation": columns}, status="failed")
        result = call("report.py", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")


class Journal(InFolder):
    def test_journal_equals_file(self):
        steps = make_run.step_columns(20, 1, np.random.default_rng(2))
        make_run.write_metrics(self.folder, steps, {})
        make_run.write_journal(self.folder, steps)
        file, journal = reading.load_run(self.folder, "a"), reading.load_run(self.folder, "a", journal=True)
        for column in rundata.STEP_COLUMNS:
            np.testing.assert_array_equal(file.steps[column], journal.steps[column])
        self.assertEqual(journal.label_names, ["x\\y", "z"])
        self.assertEqual((journal.went_on, journal.timed_seconds), (False, 1.5))
        self.assertEqual(journal.attributes["resolved_input"], "a = 1\n")
        self.assertEqual([journal.attributes[f"parallel_{name}"] for name in ("data", "pipeline", "tensor")], [3, 2, 1])
        self.assertEqual((journal.attributes["label_mean"], journal.attributes["label_deviation"]), (6.5, 0.5))
        np.testing.assert_array_equal(journal.evaluations["validation"]["confusion_matrix"], [[[3, 1], [0, 4]]])
        np.testing.assert_array_equal(journal.per_class["validation"]["support"], [[4, 4]])
        np.testing.assert_array_equal(journal.per_class["validation"]["precision"], [[1, 0.8]])

    def test_the_share_of_padding(self):
        steps = make_run.step_columns(20, 1, np.random.default_rng(2))
        make_run.write_metrics(self.folder, steps, {})
        self.assertNotIn("padding", dict(row[:2] for row in tables.summary(reading.load_run(self.folder, "a"))[1]))
        steps["computed_tokens"] = 4 * steps["tokens"]
        steps["computed_tokens"][0] = steps["tokens"][0]  # a journal's line of an older version
        make_run.write_metrics(self.folder, steps, {})
        make_run.write_journal(self.folder, steps)
        for journal in (False, True):
            run = reading.load_run(self.folder, "a", journal=journal)
            np.testing.assert_array_equal(run.steps["computed_tokens"], steps["computed_tokens"])
            shown = dict(row[:2] for row in tables.summary(run)[1])
            computed, real = steps["computed_tokens"].sum(), steps["tokens"].sum()
            self.assertEqual(shown["tokens computed"], f"{computed:,}")
            self.assertEqual(shown["padding"], f"{100 * (1 - real / computed):.3g}% of the computed tokens")

    def test_journal_alone_is_enough(self):
        make_run.write_journal(self.folder, make_run.step_columns(20, 1, np.random.default_rng(2)))
        result = call("report.py", self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_counts_are_held_to_the_line(self):
        self.assertEqual(journal.take_groups(["1", "a", "b", "c"], 2), ([["a", "b"]], ["c"]))
        for fields in (["2", "a", "b", "c"], ["-1", "a", "b"], ["1000000000000", "a"]):
            with self.assertRaises(ValueError):
                journal.take_groups(fields, 2)


class Names(InFolder):
    def test_dollar_signs_are_shown(self):
        figure, axes = matplotlib.pyplot.subplots()
        title = axes.set_title("a$b$c")
        axes.loglog([1, 1e5], [1e-7, 1])
        drawing.save(figure, "dollars", self.folder)
        self.assertFalse(title.get_parse_math())
        ticks = [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
        self.assertIn("10²", ticks)
        self.assertIn("10⁻⁴", ticks)
        self.assertNotIn("$", "".join(ticks))


class WrongInput(InFolder):
    def check_error(self, *arguments, says):
        result = call("report.py", *arguments)
        self.assertEqual(result.returncode, 4)
        self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)
        self.assertIn(says, result.stderr)

    def test_wrong_paths(self):
        self.check_error(self.folder / "absent", says="There is no")
        self.check_error(self.folder, says="not the directory of a run")
        (self.folder / "metrics.h5").write_text("not HDF5")
        self.check_error(self.folder, says="Cannot read")
        self.check_error(self.folder, "--journal", says="metrics.journal")

    def test_foreign_file(self):
        with h5py.File(self.folder / "metrics.h5", "w") as file:
            file["x"] = [1, 2]
        self.check_error(self.folder, says="not a metrics file of bert_hpc")

    def test_output_that_cannot_be_made(self):
        make_run.write_metrics(self.folder / "run", None, {})
        (self.folder / "file").write_text("")
        self.check_error(self.folder / "run", "--output", self.folder / "file" / "out", says="Cannot make the folder")


def texts(figure):
    """All that stands in a picture, legends too."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


class Timers(InFolder):
    def run_of(self, **attributes):
        """A step of 2 s and an evaluation of 6 s in 10 s of wall time, on two ranks; the other 2 s are 1 s and 3 s."""
        run = rundata.Run(self.folder, "run")
        run.attributes.update(status="finished", **attributes)
        run.steps["seconds"] = np.array([2.0])
        run.timers = {"name": ["forward", "other", "evaluation"], "calls": np.array([1, 0, 1]), "seconds_min": np.array([1.5, 1.0, 5.0]),
                      "seconds_avg": np.array([2.0, 2.0, 6.0]), "seconds_max": np.array([2.5, 3.0, 7.0])}
        return run

    def test_per_cents_are_of_the_wall_time(self):
        run = self.run_of(total_timed_seconds=10.0)
        _, rows = tables.timers([run])
        self.assertEqual([(row[1], *row[3:]) for row in rows],
                         [("evaluation", "5.000", "6.000", "7.000", "60.0"), ("forward", "1.500", "2.000", "2.500", "20.0"),
                          ("other", "1.000", "2.000", "3.000", "20.0"), ("wall time", "10.000", "10.000", "10.000", "100.0")])
        [(_, figure)] = plot_timers.draw([run])
        self.assertEqual([text for text in texts(figure) if text.endswith("%")], ["20.0%", "20.0%", "60.0%"])
        self.assertIn("Time by section: run\n% of 10.0 s of wall time", texts(figure))
        [axes] = figure.axes
        self.assertEqual([(label.get_text(), bar.get_width()) for label, bar in zip(axes.get_yticklabels(), axes.patches)],
                         [("other", 2.0), ("forward", 2.0), ("evaluation", 6.0)])
        [whiskers] = axes.collections
        self.assertEqual([list(segment[:, 0]) for segment in whiskers.get_segments()], [[1.0, 3.0], [1.5, 2.5], [5.0, 7.0]])

    def test_times_of_a_gpu_are_shown_with_the_hosts_beside_them(self):
        run = self.run_of(total_timed_seconds=10.0)
        run.timers.update(device_seconds_min=np.array([5.0, 2.0, 1.0]), device_seconds_avg=np.array([6.0, 3.0, 1.0]),
                          device_seconds_max=np.array([7.0, 4.0, 1.0]))
        header, rows = tables.timers([run])
        self.assertEqual(header[3], "host seconds (mean)")
        self.assertEqual([(row[1], *row[3:]) for row in rows],
                         [("forward", "2.000", "5.000", "6.000", "7.000", "60.0"), ("evaluation", "6.000", "1.000", "1.000", "1.000", "10.0"),
                          ("other", "2.000", "2.000", "3.000", "4.000", "30.0"), ("wall time", "10.000", "10.000", "10.000", "10.000", "100.0")])
        [(_, figure)] = plot_timers.draw([run])
        [axes] = figure.axes
        self.assertEqual([(label.get_text(), bar.get_width()) for label, bar in zip(axes.get_yticklabels(), axes.patches)],
                         [("other", 3.0), ("evaluation", 1.0), ("forward", 6.0)])
        # A journal of a run on CPUs has the columns, without values.
        run.timers["device_seconds_avg"] = np.full(3, np.nan)
        self.assertEqual(len(tables.timers([run])[0]), 7)

    def test_unknown_wall_time_gives_no_per_cents(self):
        run = self.run_of()
        self.assertEqual([row[-1] for row in tables.timers([run])[1]], ["–", "–", "–"])
        [(_, figure)] = plot_timers.draw([run])
        self.assertFalse([text for text in texts(figure) if text.endswith("%")])

    def test_a_run_that_was_resumed(self):
        run = self.run_of(total_timed_seconds=10.0, restarts=["2026-01-31T12:00:00Z"])
        self.assertIn("(last start)", " ".join(texts(plot_timers.draw([run])[0][1])))
        # Ranks' times are of the last start too, the rows of all of them: half of 4 s, not a quarter of 8 s.
        run.steps["seconds"] = np.array([8.0])
        run.ranks = {"host": ["a"], "computing": np.array([2.0]), "utilisation": np.array([0.5])}
        self.assertEqual(plot_ranks.steps_seconds(run), 4.0)
        run.ranks["utilisation"] = np.array([np.nan])
        self.assertEqual(plot_ranks.steps_seconds(run), 0.0)


class Profile(InFolder):
    def made(self, name, **options):
        make_run.make_classification(self.folder / name, updates=60, classes=3)
        make_run.add_profile(self.folder / name, **options)
        return self.folder / name

    def test_groups_follow_from_kind_and_name(self):
        cases = {("forward", "products", "native product"): "matrix products", ("", "copies", "copy_to_host"): "copies and fills",
                 ("optimizer", "kernels", "adamw"): "optimizer", ("gradient accumulation", "kernels", "squared_norm_ranges"): "optimizer",
                 ("optimizer", "collectives", "all_reduce of doubles"): "communication",
                 ("backward", "kernels", "fused_attention_backward"): "attention",
                 ("backward", "kernels", "residual_layer_norm_backward"): "layer norms", ("forward", "kernels", "cross_entropy"): "losses",
                 ("forward", "kernels", "bias_gelu_forward"): "activations, biases, dropout", ("", "kernels", "accumulate"): "other kernels"}
        self.assertEqual({call: kernel_mix.group_of(*call) for call in cases}, cases)

    def test_one_run_shows_its_calls_with_shares_and_rates(self):
        run = reading.load_run(self.made("run", seconds=0.4, steps=20, peak_gflops=60.0), "run")
        _, rows = kernel_mix.call_table([run])
        self.assertEqual(rows[0], ["run", "native product", "backward", "matrix products", 26 * 2 * 20, "0.154800", "0.172000", "0.189200",
                                   "43.0", "44.00", "7.00", "73.3"])
        self.assertEqual(rows[-1][1:4], ["fill_on_device", "between sections", "copies and fills"])  # a wait has no time
        self.assertEqual(rows[-1][9:], ["–", "30.00", "–"])
        [(name, figure)] = plot_profile.draw([run])
        self.assertEqual(name, "profile")
        [axes] = figure.axes
        bars = dict(zip((label.get_text() for label in axes.get_yticklabels()), (bar.get_width() for bar in axes.patches)))
        self.assertAlmostEqual(bars["native product (backward)"], 1e3 * 0.172 / 20)
        self.assertAlmostEqual(sum(bars.values()), 1e3 * 0.4 / 20)  # with what is outside of calls
        self.assertIn("43.0%, 44 GFLOP/s, 7 GB/s", texts(figure))
        self.assertIn("Profile: run\nsteps 3–22 on CPU, mean over 2 ranks: 50 steps/s", texts(figure))

    def test_two_runs_side_by_side(self):
        paths = [self.made("A3", seconds=0.4, steps=20), self.made("B1", seconds=0.2, steps=16, scale=(1, 0.5) + (1,) * 8)]
        runs = reading.load_runs(paths)
        header, rows = kernel_mix.group_table(runs)
        self.assertEqual(header, ["", "A3: ms/step", "A3: %", "B1: ms/step", "B1: %"])
        table = {row[0]: row[1:] for row in rows}
        self.assertEqual(table["matrix products"], ["13.000", "65.0", "5.438", "43.5"])
        self.assertEqual(table["steps/s"], ["50.000", "", "80.000", ""])
        self.assertEqual(table["device seconds"], ["0.3682", "", "0.1411", ""])
        [(_, figure)] = plot_profile.draw(runs)
        [axes] = figure.axes
        ends = {}
        for bar in axes.patches:
            ends[round(bar.get_y() + bar.get_height() / 2)] = bar.get_x() + bar.get_width()
        self.assertEqual({row: round(end, 6) for row, end in ends.items()}, {0: 20.0, 1: 12.5})  # milliseconds of a step
        self.assertIn("80 steps/s", texts(figure))
        result = call("report.py", *paths, "--output", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.folder / "out" / "profile.pdf").is_file())
        self.assertIn("Kernel mix", (self.folder / "out" / "summary.md").read_text())
        with open(self.folder / "out" / "profile.csv", encoding="utf-8") as file:
            self.assertEqual({row["run"] for row in csv.DictReader(file)}, {"A3", "B1"})

    def test_a_run_without_a_profile_is_left_out(self):
        make_run.make_classification(self.folder / "plain", updates=60, classes=3)
        runs = reading.load_runs([self.folder / "plain", self.made("profiled")])
        self.assertEqual(len(kernel_mix.group_table(runs)[0]), 3)
        self.assertEqual(plot_profile.draw(runs[:1]), [])
        self.assertEqual(kernel_mix.group_table(runs[:1])[1], [])

    def test_the_journal_has_it_too(self):
        run = rundata.Run(self.folder, "run")
        line = "profile\t3\t20\t2\t1\t0.5\t0.01\t0\t2\tforward\tproducts\tgemm\t40\t0.1\t0.2\t0.3\t8e+09\t4e+09\t\twaits\tw\t20\tnan\tnan\tnan\tnan\tnan"
        content = "".join("%08x %s\n" % (zlib.crc32(text.encode()), text) for text in ("bert_hpc metrics journal 1", line))
        (self.folder / "metrics.journal").write_text(content)
        journal.read_journal(run, self.folder / "metrics.journal")
        [call_] = kernel_mix.calls_of(run)
        self.assertEqual((call_.calls, call_.seconds, kernel_mix.rate(run, call_, "flops")), (40, 0.2, 20.0))
        self.assertEqual(run.profile_facts["device"], "GPU")
        self.assertNotIn("peak_gflops", run.profile_facts)


class SideBySide(InFolder):
    def test_metrics_labels_stand_in_the_legend(self):
        runs = []
        for name, best in (("a", 0.5), ("b", 0.5), ("c", -0.25)):
            run = rundata.Run(self.folder, name)
            run.steps["step"] = np.array([1, 2])
            run.evaluations["validation"] = {"step": np.array([1, 2]), "loss": np.ones(2), "r2": np.array([best, best - 1])}
            runs.append(run)
        [(_, figure)] = plot_metrics.draw(runs)
        [axes] = figure.axes
        self.assertEqual([text for text in axes.texts], [])  # nothing between the curves
        self.assertEqual([text.get_text() for text in axes.get_legend().get_texts()],
                         ["a: validation, best 0.5 at step 1", "b: validation, best 0.5 at step 1", "c: validation, best −0.25 at step 1"])
        self.assertEqual({line.get_markersize() for line in axes.lines}, {5})  # sizes would look like data
        [(_, alone)] = plot_metrics.draw(runs[2:])
        self.assertEqual([text.get_text() for text in alone.axes[0].texts], ["−0.25"])

    SPLITS = ("validation", "dev", "test")

    def runs_of_three_splits(self, names):
        runs = []
        for index, name in enumerate(names):
            run = rundata.Run(self.folder, name)
            run.steps = make_run.step_columns(20, 2, np.random.default_rng(index))
            for split in self.SPLITS[: 2 if index == 0 else 3]:
                at = np.array([20]) if split == "test" else np.array([5, 10, 20])
                run.evaluations[split] = {"step": at, "loss": 1 / at + index} | {
                    metric: at / 40 + 0.1 * index for metric in ("accuracy", "f1", "precision", "recall")}
            runs.append(run)
        return runs

    def check_room(self, figure, least):
        """Panels keep their size, and nothing lies over a legend or out of the picture."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.canvas.draw()
        inside = figure.bbox.padded(1)
        panels = [axes.get_tightbbox() for axes in figure.axes]
        for axes, box in zip(figure.axes, panels):
            self.assertGreater(min(axes.get_window_extent().size / figure.dpi), least)
            self.assertTrue(inside.containsx(box.x0) and inside.containsy(box.y0) and inside.containsx(box.x1))
        for legend in figure.legends:
            box = legend.get_window_extent()
            self.assertTrue(inside.containsx(box.x0) and inside.containsx(box.x1) and inside.containsy(box.y0))
            self.assertFalse(any(box.overlaps(panel) for panel in panels))

    def test_three_runs_with_three_splits_leave_the_panels_room(self):
        for prefix in ("seed", "runs/of/a/folder/whose/name/is/so/long/that/no/panel/is/as/wide/as/its/entry/in/a/legend/seed"):
            names = [f"{prefix}-{index}" for index in range(3)]
            for module, own in ((plot_metrics, []), (plot_loss, ["training"])):
                [(_, figure)] = module.draw(self.runs_of_three_splits(names))
                self.check_room(figure, least=2.2)
                [legend] = figure.legends
                shown = [text.get_text() for text in legend.get_texts() if text.get_text().strip()]
                self.assertEqual({text[-6:] for text in shown if "seed-" in text}, {"seed-0", "seed-1", "seed-2"})
                # Metrics of a split that was evaluated once stand in a strip of that name.
                splits = self.SPLITS if own else self.SPLITS[:2]
                self.assertEqual(sorted(text for text in shown if "seed-" not in text), sorted([*own, *splits]))
                self.assertIn("test", texts(figure))

    def test_losses_of_one_kind_share_a_picture(self):
        runs = self.runs_of_three_splits(("a", "b"))
        expected = {("masked_lm", "masked_lm"): {"loss": "Loss (cross-entropy per masked token)"}, ("other", "other"): {"loss": "Loss"},
                    ("classification", "regression"): {"loss-classification": "Loss (cross-entropy)",
                                                       "loss-regression": "Loss (mean squared error)"}}
        for tasks, labels in expected.items():
            for run, task in zip(runs, tasks):
                run.attributes["task"] = task
            self.assertEqual({name: figure.axes[0].get_ylabel() for name, figure in plot_loss.draw(runs)}, labels)
        runs[1].attributes.update(task="regression", label_mean=6.2, label_deviation=1.1)
        self.assertEqual(plot_loss.kind_of(runs[1]), "mean squared error of standardized labels")

    def test_curves_that_coincide_are_all_seen(self):
        Run = collections.namedtuple("Run", "name steps")
        steps, loss = np.arange(1, 4), np.array([3.0, np.nan, 1.0])
        runs = [Run("one", {"step": steps, "loss": loss}), Run("other", {"step": steps, "loss": loss + 0.1}),
                Run("two", {"step": steps, "loss": loss * (1 + 1e-6)}), Run("shorter", {"step": steps[:2], "loss": loss[:2]})]
        usual = {run.name: drawing.Look(i, "k", 1.8, True, run.name) for i, run in enumerate(runs)}
        widths = {name: look.width for name, look in plot_loss.nested(runs, usual).items()}
        self.assertGreater(widths.pop("one"), 3)
        self.assertEqual(set(widths.values()), {1.8})

    def test_splits_of_several_runs_differ(self):
        runs = self.runs_of_three_splits(("a", "b"))
        [(_, figure)] = plot_loss.draw(runs)
        looks = {}
        for line in figure.axes[0].lines:
            if line.get_marker() != "None":
                name, _, split = line.get_label().partition(": ")
                looks.setdefault(split, set()).add((line.get_linestyle(), line.get_marker()))
        self.assertEqual(set(looks), set(self.SPLITS))
        self.assertEqual([len(look) for look in looks.values()], [1, 1, 1])  # the same in every run, although "a" has no test
        self.assertEqual(len(set.union(*looks.values())), 3)
        self.assertEqual(len({marker for look in looks.values() for _, marker in look}), 3)  # one point has no line

    def test_efficiency_names_what_it_draws(self):
        runs = []
        for name, noise, goodput in (("point", [70.0], [5.0]), ("none", [np.inf, -1.0], [np.nan, np.nan]), ("line", [7.0, 8.0], [5.0, 6.0]),
                                     ("negative", [-3.0], [4.0])):
            run = rundata.Run(self.folder, name)
            at = np.arange(1, len(noise) + 1)
            run.steps.update(step=at, samples=64 * at)
            run.efficiency = {"step": at, "noise_scale": np.array(noise), "efficiency": np.array(noise), "goodput": np.array(goodput)}
            runs.append(run)
        [(_, figure)] = plot_efficiency.draw(runs)
        [legend] = figure.legends
        self.assertEqual([text.get_text() for text in legend.get_texts()], ["point", "line", "negative"])
        for axes, drawn in zip(figure.axes, (["point", "line"], ["point", "line", "negative"])):
            named = [line for line in axes.lines if not line.get_label().startswith("_")]
            self.assertEqual([line.get_label() for line in named], drawn)
            self.assertTrue(all(line.get_marker() == "o" for line in named))  # a single point has no line
        self.assertEqual(plot_efficiency.draw(runs[1:2]), [])

    def scaling_run(self, name, ranks, batch=64, more="", speed=60000.0, **options):
        make_run.write_metrics(self.folder / name, make_run.step_columns(40, 1, np.random.default_rng(1), tokens_per_second=speed), {},
                               ranks=ranks, resolved_input=f"""[model]
hidden_size = 8

[batch]
global = {batch}

[run]
seed = {ranks}
{more}""", **options)
        return reading.load_run(self.folder / name, name)

    def test_scaling_compares_what_can_be_compared(self):
        runs = [self.scaling_run("one", 1), self.scaling_run("two", 2), self.scaling_run("other", 4, batch=32),
                self.scaling_run("resumed", 8, restarts=["2026-01-31T12:00:00Z"])]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            [(_, figure)] = plot_scaling.draw(runs)
        said = ["resumed, which was resumed, perhaps on other ranks", "other, which has batch.global = 32 instead of 64."]
        for words in said:
            self.assertIn(words, " ".join(texts(figure)))
            self.assertIn(words, out.getvalue())
        self.assertEqual(list(plot_scaling.times_by_ranks(plot_scaling.choose(runs)[0])), [1, 2])
        self.assertIn("Scaling\n2 runs of the same model, data and batch size", texts(figure))

    def test_scaling_leaves_out_runs_that_compute_in_another_way(self):
        for number, more in enumerate(('reproducible = true', '[debug]\ncheck_collectives = true', '[log]\ntrace = true',
                                       '[parallel]\nzero = 2', '[parallel]\noffload = true', '[optimizer]\nname = "lamb"')):
            runs = [self.scaling_run(f"{name}-{number}", ranks, more=added)
                    for name, ranks, added in (("one", 1, ""), ("two", 2, ""), ("four", 4, more))]
            compared, left_out = plot_scaling.choose(runs)
            self.assertEqual([run.rank_count for run in compared], [1, 2], more)
            self.assertIn(more.splitlines()[-1] + " instead of not set", left_out[0][1])

    def test_scaling_draws_the_fastest_layout_and_names_it(self):
        pipeline = '[parallel]\ndata = 0\npipeline = 4\npipeline_schedule = "zb_h1"'
        grid = "[parallel]\ndata = 0\npipeline = 1\ntensor = 2"
        runs = [self.scaling_run("one", 1), self.scaling_run("two", 2, speed=100000.0), self.scaling_run("data", 4, speed=120000.0),
                self.scaling_run("pipeline", 4, more=pipeline, speed=90000.0), self.scaling_run("grid", 4, more=grid, speed=180000.0)]
        self.assertEqual([plot_scaling.layout_of(run) for run in runs], ["", "", "", "pipeline 4\nzb_h1", "data 2\ntensor 2"])
        [(_, figure)] = plot_scaling.draw(runs)
        times = plot_scaling.times_by_ranks(runs)
        [line] = [line for line in figure.axes[0].lines if line.get_label() == "measured (fastest layout, median of runs)"]
        self.assertEqual(line.get_ydata()[-1], times[4]["data 2\ntensor 2"][0])  # and no median over layouts
        self.assertEqual([label.get_text() for label in figure.axes[0].get_xticklabels()], ["1", "2", "4\ndata 2\ntensor 2"])

    def test_scaling_without_two_that_can_be_compared(self):
        runs = [self.scaling_run("one", 1), self.scaling_run("two", 2, batch=32)]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(plot_scaling.draw(runs), [])
        self.assertIn("No picture of scaling", out.getvalue())
        runs[1].ranks["threads"] = np.array([2, 2])
        runs[1].attributes["resolved_input"] = runs[0].attributes["resolved_input"]
        self.assertIn("threads of a rank = 2 instead of 1", plot_scaling.choose(runs)[1][0][1])


class Seeds(InFolder):
    """Variants of an input with several seeds: statistics of accuracies that are known."""

    ACCURACY = {("fp32", 1): 0.70, ("fp32", 2): 0.80, ("fp32", 3): 0.90, ("bf16", 1): 0.71, ("bf16", 2): 0.82, ("bf16", 3): 0.93,
                ("bf16", 4): 0.10}

    def runs(self, **options):
        found = []
        for (precision, seed), accuracy in self.ACCURACY.items():
            name = f"{precision}-{seed}"
            evaluation = {"step": np.array([10, 20]), "loss": np.array([2.0, 1.0]), "accuracy": np.array([0.5, accuracy])}
            make_run.write_metrics(self.folder / name, make_run.step_columns(20, 1, np.random.default_rng(seed)),
                                   {"validation": evaluation}, resolved_input=f"""[run]
seed = {seed}
directory = "{name}"
max_walltime = "03:59:{50 + seed}"

[parallel]
data = {seed}

[precision]
compute = "{precision}"

[evaluation]
best = "accuracy"
""", **options)
            found.append(reading.load_run(self.folder / name, name))
        return found

    def test_statistics(self):
        header, rows = plot_seeds.table(self.runs())
        rows = [row for row in map(lambda row: dict(zip(header, row)), rows) if row["metric"] == "accuracy"]
        self.assertEqual([row["variant"] for row in rows], ['precision.compute = "fp32"', 'precision.compute = "bf16"'])
        self.assertEqual([row["seeds"] for row in rows], [3, 4])
        # 0.7, 0.8, 0.9: mean 0.8, deviation 0.1. Differences of the seeds that both have: 0.01, 0.02, 0.03.
        self.assertAlmostEqual(rows[0]["mean"], 0.8)
        self.assertAlmostEqual(rows[0]["standard error"], 0.1 / np.sqrt(3))
        self.assertAlmostEqual(rows[1]["difference"], 0.02)
        self.assertAlmostEqual(rows[1]["standard error of the difference"], 0.01 / np.sqrt(3))
        self.assertAlmostEqual(rows[1]["difference in standard errors"], 2 * np.sqrt(3))

    def test_the_evaluation_of_the_best_checkpoint(self):
        runs = self.runs()[:3]
        for run in runs:
            run.evaluations["validation"]["accuracy"] = run.evaluations["validation"]["accuracy"][::-1]  # the first is better
            run.evaluations["test"] = {"step": np.array([10]), "loss": np.ones(1), "accuracy": np.array([0.6])}

        def shown():
            header, rows = plot_seeds.table(runs)
            rows = [dict(zip(header, row)) for row in rows]
            return {(row["split"], row["metric"]): (row["evaluation"], round(row["mean"], 9)) for row in rows}

        # Losses fall from 2 to 1, and are those of the evaluation with the best accuracy.
        self.assertEqual(shown(), {("validation", "loss"): ("best accuracy", 2.0), ("validation", "accuracy"): ("best accuracy", 0.8),
                                  ("test", "loss"): ("best checkpoint", 1.0), ("test", "accuracy"): ("best checkpoint", 0.6)})
        [(_, figure)] = plot_seeds.draw(runs)
        self.assertEqual(figure.axes[0].get_xlabel(), "Accuracy (validation: best accuracy)")
        for run in runs:
            run.attributes["resolved_input"] = run.attributes["resolved_input"].replace('best = "accuracy"', "")
        self.assertEqual(plot_seeds.headline(plot_seeds.found_variants(runs)), ("validation", "accuracy"))
        self.assertEqual(shown()["validation", "accuracy"], ("last", 0.5))
        [(_, figure)] = plot_seeds.draw(runs)
        self.assertEqual(figure.axes[0].get_xlabel(), "Accuracy (validation: last)")

    def test_the_picture_shows_what_selects_models_the_loss_too(self):
        runs = self.runs()[:3]
        for run in runs:
            run.attributes["resolved_input"] = run.attributes["resolved_input"].replace('best = "accuracy"', 'best = "loss"')
        [(_, figure)] = plot_seeds.draw(runs)
        self.assertEqual(figure.axes[0].get_xlabel(), "Loss (validation: best loss)")

    def test_picture_and_table_of_the_report(self):
        self.runs()
        paths = [self.folder / f"{precision}-{seed}" for precision, seed in self.ACCURACY]
        result = call("report.py", *paths, "--output", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(png_size(self.folder / "out" / "seeds.png")[0], 100)
        self.assertIn("difference", (self.folder / "out" / "seeds.csv").read_text())
        self.assertIn("## Seeds", (self.folder / "out" / "summary.md").read_text())

    def test_nothing_to_compare(self):
        runs = self.runs()
        self.assertEqual(plot_seeds.draw([runs[0], runs[3]]), [])  # a seed each
        self.assertEqual(plot_seeds.table([runs[0], runs[3]])[1], [])
        unfinished = self.runs(status="running")
        self.assertEqual(plot_seeds.draw(unfinished), [])
        [(_, figure)] = plot_seeds.draw(runs[:3])  # one variant
        self.assertIn("all runs\n3 seeds", texts(figure))


class ManyRuns(InFolder):
    """Four learning rates with three seeds each, of one rank: what is shared, and that no picture grows without bound."""

    RATES = ("0.001", "1e-05", "3e-05", "0.01")
    MODULES = (plot_loss, plot_metrics, plot_schedule, plot_throughput, plot_timers, plot_ranks, plot_seeds)

    def run_of(self, rate, seed, ranks=1):
        name = f"rate-{rate}/seed-{seed}"
        rng = np.random.default_rng(seed)
        evaluations = {"validation": make_run.classification_evaluations(rng, 60, 3, ["a", "b"]),
                       "test": {key: values[:1] for key, values in make_run.classification_evaluations(rng, 20, 1, ["a", "b"]).items()}}
        make_run.write_metrics(self.folder / name, make_run.step_columns(60, 1, rng), evaluations, ranks=ranks, labels=["a", "b"],
                               resolved_input=f"""[run]
directory = "runs/{name}"
seed = {seed}
max_walltime = "03:59:{50 + seed}"

[optimizer]
learning_rate = {rate}

[evaluation]
best = "accuracy"
""")
        return reading.load_run(self.folder / name, name)

    def runs(self, **options):
        return [self.run_of(rate, seed, **options) for rate in self.RATES for seed in (1, 2, 3)]

    def test_seeds_share_a_colour_and_variants_do_not(self):
        runs = self.runs()
        looks = drawing.looks(runs)
        colours = [looks[run.name].colour for run in runs]
        self.assertEqual([len(set(colours[i : i + 3])) for i in range(0, 12, 3)], [1, 1, 1, 1])
        self.assertEqual(len(set(colours)), 4)
        self.assertEqual([looks[run.name].label for run in runs[::3]],
                         [f"optimizer.learning_rate = {rate}, 3 seeds" for rate in ("1e-3", "1e-5", "3e-5", "1e-2")])
        self.assertLess(looks[runs[0].name].width, drawing.looks(runs[:1])[runs[0].name].width)
        # Curves of a run have its colour.
        [(_, figure)] = plot_loss.draw(runs)
        for line in figure.axes[0].lines:
            self.assertEqual(line.get_color(), looks[line.get_label().partition(":")[0]].colour)
        one_seed = [run for run in runs if run.name.endswith("seed-1")]  # nothing to share
        self.assertEqual([drawing.looks(one_seed)[run.name].label for run in one_seed], [run.name for run in one_seed])
        # Other ranks are another variant, whatever the seeds.
        other = drawing.looks([runs[0], self.run_of(self.RATES[0], 9, ranks=2)])
        self.assertEqual(len({look.colour for look in other.values()}), 2)

    def test_no_two_of_many_have_the_same_look(self):
        runs = [rundata.Run(self.folder, f"run {number}") for number in range(40)]
        for count in (1, 7, 8, 40):
            looks = drawing.looks(runs[:count]).values()
            self.assertEqual(len({(look.colour, str(look.line)) for look in looks}), count)
            self.assertEqual(drawing.are_many(looks), count > 7)

    def test_sizes_and_legends(self):
        for ranks in (1, 40):
            runs = self.runs(ranks=ranks)
            for module in self.MODULES:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    [(name, figure)] = module.draw(runs)
                    figure.canvas.draw()
                width, height = figure.get_size_inches()
                self.assertLessEqual(height, 15, name)
                self.assertLessEqual(width, 10.5, name)
                panels = [axes.get_tightbbox() for axes in figure.axes]
                for axes in figure.axes:
                    self.assertGreater(min(axes.get_window_extent().size / figure.dpi), 1.8, name)
                for legend in figure.legends:
                    box = legend.get_window_extent()
                    self.assertTrue(figure.bbox.padded(1).containsx(box.x0) and figure.bbox.padded(1).containsx(box.x1), name)
                    self.assertFalse(any(box.overlaps(panel) for panel in panels), name)
                matplotlib.pyplot.close("all")

    def test_legends_as_matplotlib_3_6_has_them(self):
        """Debian 12's, which knows no position "outside" of panels; room for them is tested above."""
        newer = matplotlib.figure.Figure.legend

        def legend(figure, *arguments, loc="upper right", **options):
            self.assertNotIn("outside", loc)
            return newer(figure, *arguments, loc=loc, **options)

        runs = self.runs()[:2]
        event = {"ph": "X", "name": "forward", "pid": 0, "tid": 0, "ts": 0, "dur": 1e6, "args": {"step": 1}}
        (runs[0].path / "trace.json").write_text(json.dumps({"otherData": {}, "traceEvents": [event]}))
        with unittest.mock.patch.object(matplotlib.figure.Figure, "legend", legend):
            pictures = [picture for module in (*self.MODULES, plot_timeline) for picture in module.draw(runs)]
        self.assertEqual([name for name, figure in pictures if figure.legends],
                         ["loss", "metrics", "schedule", "throughput", "timers", "ranks", "timeline"])
        for name, figure in pictures:
            figure.canvas.draw()
            for legend in figure.legends:
                box = legend.get_window_extent()
                self.assertFalse(any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes), name)

    def test_times_of_several_runs_are_bars_from_the_same_sections(self):
        runs = self.runs()[:4]
        runs[0].timers["seconds_avg"] = runs[0].timers["seconds_avg"][::-1]  # another order in one of them
        [(_, figure)] = plot_timers.draw(runs)
        [axes] = figure.axes
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], [run.name for run in runs])
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual((names[:2], names[-1]), (["backward", "forward"], "other"))
        for container in axes.containers[:2]:
            for run, bar in zip(runs, container):
                shown = dict(zip(run.timers["name"], run.timers["seconds_avg"]))
                self.assertAlmostEqual(bar.get_width(), shown[container.get_label()])
        for row, run in enumerate(runs):
            self.assertAlmostEqual(sum(container[row].get_width() for container in axes.containers), run.timed_seconds)

    def test_test_stands_beside_the_curves(self):
        [(_, figure)] = plot_metrics.draw(self.runs())
        axes = figure.axes[0]
        squares = [line for line in axes.lines if line.get_marker() == "s"]
        self.assertEqual(len(squares), 24)  # filled, and with its frame
        self.assertTrue(all(line.get_xdata()[0] > 60 for line in squares))
        self.assertLess(max(axes.get_xticks()), 63)
        self.assertEqual({line.get_markersize() for line in axes.lines if line.get_marker() not in ("None", None)}, {5})

    def test_one_figure_is_open_at_a_time(self):
        matplotlib.pyplot.close("all")
        paths = [self.folder / run.name for run in self.runs()]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, figure in plot_confusion.draw([reading.load_run(path, str(path)) for path in paths[:3]]):
                self.assertEqual(len(matplotlib.pyplot.get_fignums()), 1)
                matplotlib.pyplot.close(figure)
                self.assertEqual(figure.axes[1].get_ylim(), (0, 100))  # the bar's, as the cells'

    def test_one_rank_alone_does_not_communicate(self):
        for ranks, shown in ((1, False), (2, True)):
            [(_, figure)] = plot_ranks.draw([self.run_of("0.001", 1, ranks=ranks)])
            self.assertEqual(any("exposed communication" in text for text in texts(figure)), shown)
        bars = plot_ranks.parts_of(self.run_of("0.001", 1), [0])
        self.assertAlmostEqual(bars["other"][0], 15)  # 80 % computing, 5 % waiting

    def test_what_a_picture_needs(self):
        run = self.run_of("0.001", 1)
        for script in ("plot_seeds", "plot_scaling"):
            out = subprocess.run([sys.executable, str(SCRIPTS / f"{script}.py"), str(run.path)], capture_output=True, text=True, timeout=300)
            self.assertEqual((out.returncode, out.stderr), (0, ""))
            self.assertEqual(out.stdout, f"Nothing to draw: this needs {importlib.import_module(script).NEEDED}.\n")


class Variants(unittest.TestCase):
    def test_figures_in_one_notation(self):
        self.assertEqual(variants.in_one_notation(["0.001", "1e-04"]), {"0.001": "0.001", "1e-04": "0.0001"})
        self.assertEqual(variants.in_one_notation(["0.001", "1e-05", "2.5e-03"]), {"0.001": "1e-3", "1e-05": "1e-5", "2.5e-03": "2.5e-3"})
        self.assertEqual(variants.in_one_notation(["16", '"fp32"', None]), {"16": "16", '"fp32"': '"fp32"'})

    def test_names(self):
        inputs = [{"a.x": "1", "a.y": "2"}, {"a.x": "1", "a.y": "3"}, {"a.x": "1"}]
        self.assertEqual(variants.names_of(inputs), ["a.y = 2", "a.y = 3", "a.y = not set"])
        self.assertEqual(variants.names_of(inputs[:1]), [""])


class BestCheckpoint(InFolder):
    """Where evaluation.best names a metric, figures of all splits are of the best checkpoint: the evaluation at step 20 of three."""

    VALIDATION = [[[5, 5], [5, 5]], [[9, 1], [2, 8]], [[6, 4], [4, 6]]]

    def load(self, best="accuracy", name="run"):
        counts = np.array(self.VALIDATION)
        accuracy = counts.trace(axis1=1, axis2=2) / counts.sum(axis=(1, 2))
        evaluations = {"validation": {"step": np.array([10, 20, 30]), "loss": np.array([0.7, 0.6, 0.4]), "accuracy": accuracy,
                                      "confusion_matrix": counts},
                       "test": {"step": np.array([20]), "loss": np.array([0.65]), "accuracy": np.array([0.8]),
                                "confusion_matrix": np.array([[[8, 2], [2, 8]]])}}
        stated = f'[evaluation]\nbest = "{best}"\n' if best else ""
        make_run.write_metrics(self.folder / name, make_run.step_columns(30, 1, np.random.default_rng(1)), evaluations,
                               labels=["a", "b"], resolved_input=stated)
        return reading.load_run(self.folder / name, name)

    def test_summary(self):
        shown = dict(row[:2] for row in tables.summary(self.load())[1])
        self.assertEqual({name: value for name, value in shown.items() if name.startswith(("validation", "test"))},
                         {"validation loss (best accuracy, step 20)": "0.6", "validation accuracy (best accuracy, step 20)": "0.85",
                          "test loss (best checkpoint, step 20)": "0.65", "test accuracy (best checkpoint, step 20)": "0.8"})

    def test_classes_and_matrices(self):
        run = self.load()
        shown = [dict(zip(tables.classes([run])[0], row)) for row in tables.classes([run])[1]]
        self.assertEqual([(row["split"], row["evaluation"], row["class"], row["recall"]) for row in shown],
                         [("validation", "best accuracy, step 20", "a", "0.9"), ("validation", "best accuracy, step 20", "b", "0.8"),
                          ("test", "best checkpoint, step 20", "a", "0.8"), ("test", "best checkpoint, step 20", "b", "0.8")])
        titles = [" ".join(texts(figure)) for _, figure in plot_confusion.draw([run])]
        self.assertIn("accuracy 0.850 on 20 samples; best accuracy, step 20", titles[0])
        self.assertIn("accuracy 0.800 on 20 samples; best checkpoint, step 20", titles[1])
        run.attributes["task"] = "token_classification"
        self.assertIn("on 20 words;", " ".join(texts(next(plot_confusion.draw([run]))[1])))

    def test_classes_that_metrics_h5_reports(self):
        self.load()
        recorded = {"precision": [[0.5, 1.0]] * 3, "recall": [[0.25, 0.0]] * 3, "f1": [[0.125, 0.75]] * 3, "support": [[7, 1]] * 3}
        with h5py.File(self.folder / "run" / "metrics.h5", "r+") as file:
            for name, values in recorded.items():
                file[f"evaluations/validation/per_class/{name}"] = np.array(values)
        run = reading.load_run(self.folder / "run", "run")
        self.assertNotIn("per_class", rundata.metric_names(run))
        shown = [row[1:] for row in tables.classes([run])[1]]
        self.assertEqual(shown[:2], [["validation", "best accuracy, step 20", "a", 7, "0.5", "0.25", "0.125"],
                                     ["validation", "best accuracy, step 20", "b", 1, "1", "0", "0.75"]])
        self.assertEqual([row[:2] for row in shown[2:]], [["test", "best checkpoint, step 20"]] * 2)  # from the matrix
        # An evaluation without counts, as of another version, leaves the matrix.
        run.per_class["validation"]["precision"][1] = np.nan
        self.assertEqual(tables.classes([run])[1][0][4:], [10, "0.8182", "0.9", "0.8571"])

    def test_entities_of_each_type(self):
        self.load()
        with h5py.File(self.folder / "run" / "metrics.h5", "r+") as file:
            for name, value in {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 4}.items():
                file[f"evaluations/validation/per_type/{name}"] = np.array([[value, 0]] * 3)
        run = reading.load_run(self.folder / "run", "run")
        run.attributes["label_names"] = ["O", "I-b", "B-a", "B-b"]
        self.assertEqual([row[3:] for row in tables.entities([run])[1]], [["a", 4, "0.5", "0.25", "0.3333"], ["b", 0, "0", "0", "0"]])

    def test_label_columns_have_a_table_of_their_own(self):
        run, columns = self.load(best="rmse"), ["grammar", "overall"]
        values = {"loss": [0.5], "rmse": [0.75], "concordance": [0.25], "rmse_grammar": [0.625], "concordance_grammar": [np.nan],
                  "rmse_overall": [0.875], "concordance_overall": [0.25]}
        run.attributes.update(task="regression", label_names=columns)
        run.evaluations = {"test": {"step": np.array([0]), **{name: np.array(own) for name, own in values.items()}}}
        header, rows = tables.label_columns([run])
        self.assertEqual(header, ["run", "split", "evaluation", "label column", "RMSE", "concordance correlation"])
        self.assertEqual([row[1:5] for row in rows], [["test", "", "grammar", 0.625], ["test", "", "overall", 0.875]])
        shown = tables.beginning([run])[1]
        self.assertRegex(shown, r"test RMSE +0.75\n")
        self.assertNotIn("RMSE grammar", shown)
        self.assertIn("\n                concordance\ntest      RMSE  correlation\n-------  -----  -----------\n"
                      "grammar  0.625            –\noverall  0.875         0.25", shown)
        self.assertEqual(dict(zip(*[facts.data([run])[0], facts.data([run])[1][0]]))["test_rmse_overall"], "0.875")
        self.assertEqual(tables.label_columns([self.load()])[1], [])

    def test_a_summary_has_no_rows_without_a_value(self):
        run = self.load(best=None)
        run.attributes.update(mode="search", task="")
        run.evaluations["test"] |= {"loss": np.array([np.nan])}
        shown = dict(tables.summary(run)[1])
        self.assertNotIn("–", shown.values())
        self.assertFalse({"task", "test loss"} & set(shown))

    def test_a_long_table_is_cut_in_markdown(self):
        text = writing.as_markdown(["a", "b"], [[row, 0] for row in range(1005)], "classes")
        self.assertIn("The first 1,000 of 1,005 rows; classes.csv has all.", text)
        self.assertNotIn("| 1000 |", text)

    def test_without_a_best_checkpoint_the_last_counts(self):
        run = self.load(best=None)
        self.assertEqual([rundata.chosen(run, split) for split in ("validation", "test", "other")],
                         [(2, "last"), (0, "only one"), (None, "")])
        self.assertEqual(plot_confusion.matrices(run)[0][2], "last, step 30")

    def test_an_evaluation_has_no_best_checkpoint(self):
        run = self.load()
        run.attributes["mode"] = "evaluate"
        self.assertEqual([rundata.chosen(run, split)[1] for split in ("validation", "test")], ["last", "only one"])

    def test_what_is_better(self):
        for metric, best in (("accuracy", 1), ("r2", 1), ("loss", 0), ("rmse", 0), ("perplexity", 0)):
            self.assertEqual(rundata.best_of([1.0, 2.0, np.inf, np.nan, 1.0, 2.0], metric), best, metric)
        run = rundata.Run(self.folder, "run")
        run.larger_is_better.update(miss_rate=False, loss=True)  # as metrics.h5 says
        for metric, best in (("miss_rate", 0), ("loss", 1), ("rmse", 0), ("accuracy", 1)):
            self.assertEqual(rundata.best_of([1.0, 2.0, 1.0], metric, run), best, metric)


class Predictions(InFolder):
    """Runs that predict. The labels are in the predictions, in the shards or in neither."""

    def predict(self, task, labels, prediction, names=()):
        run = self.folder / "moved" / "run"
        make_run.write_metrics(run, None, {}, task=task, mode="predict",
                               resolved_input='[run]\ndirectory = "run"\n\n[data]\ntest = ["shards/*.h5"]\n')
        make_run.write_predictions(run, task, labels, prediction, names)
        return run

    def drawn(self, run, module):
        return list(module.draw([reading.load_run(run, "run")]))

    def shards(self, task, labels, names, source=(0, 1, 2, 3)):
        (self.folder / "moved" / "shards").mkdir()
        for part in (0, 1):
            with h5py.File(self.folder / "moved" / "shards" / f"test-{part}.h5", "w") as file:
                file.attrs.update({"task": task, "label_names": json.dumps(names)})
                file["labels"], file["source_index"] = labels[2 * part : 2 * part + 2], source[2 * part : 2 * part + 2]

    def test_classes_with_labels(self):
        run = self.predict("classification", np.int32([0, 1, 1, -1]), np.int32([0, 1, 0, 1]), ["a", "b"])
        [(name, figure)] = self.drawn(run, plot_confusion)
        self.assertEqual(name, "confusion_matrix-predictions")
        self.assertIn("accuracy 0.667 on 3 samples", " ".join(texts(figure)))
        self.assertEqual([row[3:5] for row in tables.classes([reading.load_run(run, "run")])[1]], [["a", 1], ["b", 2]])
        self.assertEqual(self.drawn(run, plot_predictions), [])

    def test_reliability(self):
        labels, prediction = np.int32([0, 1, 1, 1, -1]), np.int32([0, 1, 0, 1, 1])
        run = self.predict("classification", labels, prediction, ["a", "b"])
        self.assertEqual(self.drawn(run, plot_reliability), [])  # without probabilities
        with h5py.File(run / "predictions.h5", "r+") as file:
            file["probabilities"] = np.float32([[0.75, 0.25], [0.25, 0.75], [0.75, 0.25], [0, 1], [0.5, 0.5]])
        [(name, figure)] = self.drawn(run, plot_reliability)
        self.assertEqual(name, "reliability")
        # Two of three are right with 0.75, one of one with 1; the last has no label.
        self.assertIn(f"expected calibration error {3 / 4 * (0.75 - 2 / 3):.4f} on 4 samples", " ".join(texts(figure)))
        heights = [bar.get_height() for bar in figure.axes[0].patches]
        np.testing.assert_allclose(heights, [2 / 3, 1, 0.75 - 2 / 3, 0])
        counts, _, _, bins = plot_reliability.bins_of(np.array([3 / 15, 0.2000001, 1.0]), np.ones(3))
        np.testing.assert_array_equal(bins, [2, 3, 14])  # a border belongs to the lower bin
        self.assertEqual(counts.sum(), 3)

    def test_sets_of_labels(self):
        label, prediction = np.int32([[0, 1], [1, 1], [0, 0]]), np.int32([[1, 1], [1, 0], [0, 0]])
        run = self.predict("multi_label", label, prediction, ["a", "b"])
        found = reading.load_run(run, "run").predictions
        np.testing.assert_array_equal(found["label"], label)
        np.testing.assert_array_equal(found["prediction"], prediction)
        for module in (plot_confusion, plot_predictions, plot_regression):
            self.assertEqual(self.drawn(run, module), [])

    def test_thousands_of_classes_have_no_matrix(self):
        for classes, has_matrix in ((1000, True), (1001, False)):
            run = self.predict("classification", np.int32([0, 1, 1, 999]), np.int32([0, 1, 0, 1]), [str(i) for i in range(classes)])
            self.assertEqual(predictions.confusion(reading.load_run(run, "run")) is not None, has_matrix)
            shutil.rmtree(run)

    def test_classes_with_labels_in_the_shards(self):
        run = self.predict("classification", np.full(4, -1, "i4"), np.int32([0, 1, 0, 1]), ["a", "b"])
        self.shards("classification", np.int32([0, 1, 0, 0]), ["a", "b"])
        np.testing.assert_array_equal(predictions.confusion(reading.load_run(run, "run"))[1], [[2, 1], [0, 1]])

    def test_losses_of_sequences_are_no_predictions_of_labels(self):
        run = self.predict("regression", np.zeros(3, "f4"), np.ones(3, "f4"))
        with h5py.File(run / "predictions.h5", "r+") as file:
            file.attrs["task"] = "causal_lm"
            file["loss"] = np.ones(3, "f4")
            del file["label"], file["prediction"]
        self.assertIsNone(reading.load_run(run, "run").predictions)

    def test_shards_of_other_samples_or_classes_are_not_taken(self):
        run = self.predict("classification", np.full(4, -1, "i4"), np.int32([0, 1, 0, 1]), ["a", "b"])
        self.shards("classification", np.int32([0, 1, 0, 0]), ["a", "b"], source=(0, 1, 3, 2))
        self.assertIsNone(predictions.confusion(reading.load_run(run, "run")))
        shutil.rmtree(self.folder / "moved" / "shards")
        self.shards("classification", np.int32([0, 1, 0, 0]), ["b", "a"])
        self.assertIsNone(predictions.confusion(reading.load_run(run, "run")))

    def test_classes_without_labels(self):
        run = self.predict("classification", np.full(4, -1, "i4"), np.int32([0, 1, 1, 1]), ["few", "many"])
        self.assertEqual(self.drawn(run, plot_confusion), [])
        [(name, figure)] = self.drawn(run, plot_predictions)
        self.assertEqual(name, "predictions")
        self.assertEqual([label.get_text() for label in figure.axes[0].get_yticklabels()], ["few", "many"])
        self.assertEqual([bar.get_width() for bar in figure.axes[0].patches], [1, 3])
        self.assertTrue(all(tick == round(tick) for tick in figure.axes[0].get_xticks()))

    def test_numbers(self):
        run = self.predict("regression", np.full(4, np.nan, "f4"), np.float32([4, 3, 2, 1]))
        self.assertEqual([name for name, _ in self.drawn(run, plot_predictions)], ["predictions"])
        self.assertEqual(self.drawn(run, plot_regression), [])
        self.shards("regression", np.float32([1, 2, 3, 4]), [])
        [(name, figure)] = self.drawn(run, plot_regression)
        self.assertEqual(self.drawn(run, plot_predictions), [])
        # Errors of 3, 1, 1, 3 where the values' spread is 5: 1 - 20 / 5. With the minus sign, not a hyphen.
        self.assertIn("R² −3.000", " ".join(texts(figure)))

    def test_beside_a_training_run(self):
        run = self.predict("classification", np.int32([0, 1, 1, -1]), np.int32([0, 1, 0, 1]), ["a", "b"])
        make_run.make_classification(self.folder / "training", updates=20, classes=2)
        runs = reading.load_runs([self.folder / "training", run])
        self.assertEqual([name for name, _ in plot_confusion.draw(runs)],
                         ["confusion_matrix-validation-training", "confusion_matrix-predictions-run"])

    def test_damaged(self):
        run = self.predict("regression", np.float32([1, 2, 3]), np.float32([1, 2, 3, 4]))
        with self.assertRaisesRegex(rundata.ReportError, "is damaged"):
            reading.load_run(run, "run")


class Ranking(InFolder):
    """ROC and precision-recall curves."""

    def made(self, task, labels, probabilities, names):
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        make_run.write_metrics(run, None, {}, task=task, mode="evaluate")
        prediction = (probabilities > 0.5).astype("i4") if task == "multi_label" else probabilities.argmax(axis=1).astype("i4")
        make_run.write_predictions(run, task, labels.astype("i4"), prediction, names)
        with h5py.File(run / "predictions.h5", "r+") as file:
            file["probabilities"] = probabilities.astype("f4")
        return reading.load_run(run, "run")

    def test_areas(self):
        draw = np.random.default_rng(2)
        positive = draw.random(300) < 0.3
        scores = np.round(draw.normal(0, 1, 300) + positive, 1)  # many are equal
        wrong, hits, area = ranking.roc(scores, positive)
        differences = scores[positive][:, None] - scores[~positive][None, :]
        self.assertAlmostEqual(area, np.mean((differences > 0) + 0.5 * (differences == 0)), places=12)
        self.assertAlmostEqual(area, np.sum(np.diff(wrong) * (hits[1:] + hits[:-1]) / 2), places=12)
        recall, precision, average = ranking.precision_recall(scores, positive)
        expected, before = 0.0, 0.0
        for threshold in sorted(set(scores), reverse=True):
            above = scores >= threshold
            now = np.sum(above & positive) / positive.sum()
            expected += (now - before) * np.sum(above & positive) / above.sum()
            before = now
        self.assertAlmostEqual(average, expected, places=12)
        self.assertEqual((recall[-1], precision[-1]), (1.0, positive.mean()))
        try:
            from sklearn.metrics import average_precision_score, roc_auc_score
        except ImportError:
            return
        self.assertAlmostEqual(area, roc_auc_score(positive, scores), places=12)
        self.assertAlmostEqual(average, average_precision_score(positive, scores), places=12)

    def test_two_classes(self):
        # The second of two classes by the difference of logits: 1 - 2**-30 and 1 - 2**-40 are both 1 in single precision.
        rest = np.array([0.5, 2.0**-30, 2.0**-40, 0.25])
        run = self.made("classification", np.array([0, 0, 1, 1]), np.stack([rest, 1 - rest], axis=1), ["no", "yes"])
        [(name, figure)] = plot_ranking.draw([run])
        self.assertEqual(name, "ranking")
        [curve], candidates = plot_ranking.ranked_classes(run)
        self.assertEqual((curve.name, candidates), ("yes", 1))
        np.testing.assert_allclose(curve.scores, np.log((1 - np.float32(rest)) / np.float32(rest)), rtol=1e-6)
        shown = figure.legends[0].get_texts()[0].get_text()
        self.assertEqual(shown, "yes: ROC AUC 0.750, average precision 0.833")

    def test_several_classes_and_names(self):
        draw = np.random.default_rng(3)
        labels = draw.integers(0, 12, 400)
        probabilities = draw.dirichlet(np.ones(14), 400)
        run = self.made("classification", labels, probabilities, [f"class {i}" for i in range(14)])
        curves, candidates = plot_ranking.ranked_classes(run)
        self.assertEqual((len(curves), candidates), (7, 12))  # two classes never occur
        self.assertEqual({curve.name for curve in curves}, {f"class {i}" for i in np.argsort(-np.bincount(labels), kind="stable")[:7]})
        [(_, figure)] = plot_ranking.draw([run])
        self.assertIn("the 7 most frequent of 12", " ".join(texts(figure)))
        sets = (draw.random((50, 3)) < [0.5, 0.2, 0.0]).astype(int)
        sets[7] = -1  # unknown
        run = self.made("multi_label", sets, draw.random((50, 3)), ["a", "b", "c"])
        curves, _ = plot_ranking.ranked_classes(run)
        self.assertEqual([curve.name for curve in curves], ["a", "b"])  # no sample has c
        np.testing.assert_array_equal(curves[1].positive, np.delete(sets, 7, axis=0)[:, 1] == 1)

    def test_nothing_to_rank(self):
        run = self.made("classification", np.array([-1, -1]), np.array([[0.5, 0.5], [0.25, 0.75]]), ["no", "yes"])
        self.assertEqual(list(plot_ranking.draw([run])), [])


class Levels(InFolder):
    def levels_of(self, settings, label, level):
        make_run.write_metrics(self.folder, None, {}, task="regression", mode="evaluate", resolved_input=f"[task]\n{settings}")
        make_run.write_predictions(self.folder, "regression", np.float32(label), np.float32(level))
        with h5py.File(self.folder / "predictions.h5", "r+") as file:
            file["level"] = np.float32(level)
        return reading.load_run(self.folder, "run")

    def test_the_loss_of_a_regression_within_a_range(self):
        run = self.levels_of('range = "labels"\n', [1], [1])
        self.assertEqual(plot_loss.kind_of(run), "mean squared error of labels scaled to 0 … 1")

    def test_a_regression_with_levels_has_a_confusion_matrix(self):
        label, level = [4.1, 5, 5, np.nan, 6], [4.1, 4.1, 5, 5, 5]
        for settings, names in (('levels = "labels"\n', ["4.1", "5", "6"]), ("levels = [4.1, 5.0, 6.0, 7.5]\n", ["4.1", "5", "6", "7.5"])):
            run = self.levels_of(settings, label, level)
            [(split, counts, _, found)] = plot_confusion.matrices(run)
            self.assertEqual((split, found), ("predictions", names))
            np.testing.assert_array_equal(counts[:3, :3], [[1, 0, 0], [1, 1, 0], [0, 1, 0]])
            self.assertEqual(counts.sum(), 4)
        [(name, figure)] = plot_confusion.draw([run])
        self.assertIn("accuracy 0.500 on 4 samples", " ".join(texts(figure)))
        self.assertEqual([row[3] for row in tables.classes([run])[1]], names)
        drawing.plt.close("all")
        self.assertEqual(plot_confusion.matrices(self.levels_of('levels = "labels"\n', [np.nan], [5])), [])


class Retrieval(InFolder):
    def ranked(self, queries_of_run, settings="", relevant=None):
        """A run with the queries' levels of relevance, (score, level) of each candidate in the order of the data."""
        make_run.write_metrics(self.folder, None, {}, task="answer_ranking", mode="evaluate", resolved_input=f"[task]\n{settings}")
        rows = [(number, score, level) for number, own in enumerate(queries_of_run) for score, level in own]
        make_run.write_predictions(self.folder, "answer_ranking", np.int32([row[2] for row in rows]), np.float32([row[1] for row in rows]))
        ranks = [rank for own in queries_of_run for rank in np.argsort(np.argsort([-score for score, _ in own])) + 1]
        right = relevant or [sum(level > 0 for _, level in own) for own in queries_of_run]
        with h5py.File(self.folder / "predictions.h5", "r+") as file:
            file["rank"], file["query"] = np.int32(ranks), np.int32([row[0] for row in rows])
            file["relevant"] = np.int32([right[row[0]] for row in rows])
        return reading.load_run(self.folder, "run")

    def test_the_curves_are_those_of_single_queries(self):
        draw = np.random.default_rng(3)
        data = [[(float(score), int(level)) for score, level in zip(draw.permutation(count), draw.integers(0, 3, count) * draw.integers(0, 2))]
                for count in draw.integers(1, 30, 60)]
        relevant = [sum(level > 0 for _, level in own) + number % 3 for number, own in enumerate(data)]  # some are no candidates
        run = self.ranked(data, relevant=relevant)
        found = queries.judged(run)
        means = collections.defaultdict(float)
        judged = [number for number in range(len(data)) if relevant[number]]
        self.assertTrue(len(judged) < len(data))
        most = max(len(data[number]) for number in judged)
        for number in judged:
            hits = [level > 0 for _, level in sorted(data[number], reverse=True)]
            precisions = [sum(hits[: index + 1]) / (index + 1) for index, hit in enumerate(hits) if hit]
            means["map"] += sum(precisions) / relevant[number] / len(judged)
            for k in range(1, most + 1):
                first = next((1 / (index + 1) for index, hit in enumerate(hits[:k]) if hit), 0)
                means["success", k] += (first > 0) / len(judged)
                means["reciprocal", k] += first / len(judged)
                means["recall", k] += sum(hits[:k]) / relevant[number] / len(judged)
                none = 1.0
                for index in range(min(k, len(hits))):
                    none *= max(0, len(hits) - sum(hits) - index) / (len(hits) - index)
                means["chance", k] += (1 - none) / len(judged)
        self.assertAlmostEqual(found.average_precision.mean(), means["map"], places=12)
        for name, values in (("success", queries.success(found)), ("reciprocal", queries.reciprocal_rank(found)),
                             ("recall", queries.recall(run, found)), ("chance", queries.success_by_chance(run, found))):
            np.testing.assert_allclose(values, [means[name, k] for k in range(1, most + 1)], rtol=0, atol=1e-12, err_msg=name)

    # Ranks of what is relevant: 1; 3 and 2; none of two; nothing is relevant.
    SOME = [[(2.0, 1), (1.0, 0)], [(0.5, 2), (1.5, 0), (1.0, 1)], [(1.0, 0), (0.5, 0)], [(0.0, 0)]]

    def test_the_picture(self):
        run = self.ranked(self.SOME, relevant=[1, 2, 1, 0])
        [(name, figure)] = plot_retrieval.draw([run])
        left, right = figure.axes
        self.assertEqual(name, "retrieval")
        self.assertEqual([label.get_text() for label in left.get_xticklabels()], ["1", "2", "3", "none"])
        np.testing.assert_allclose([bar.get_height() for bar in left.patches], [100 / 3, 100 / 3, 0, 100 / 3])
        self.assertEqual([text.get_text() for text in left.texts], ["1", "1", "0", "1"])
        curves = {line.get_label(): line.get_ydata() for line in right.lines}
        np.testing.assert_allclose(curves["success@k"], [1 / 3, 2 / 3, 2 / 3])
        np.testing.assert_allclose(curves["recall@k"], [1 / 3, 1 / 2, 2 / 3])
        np.testing.assert_allclose(curves["MRR@k"], [1 / 3, 1 / 2, 1 / 2])
        np.testing.assert_allclose(curves["success@k of a random order"], [(1 / 2 + 2 / 3) / 3, 2 / 3, 2 / 3])
        self.assertIn("3 queries with a relevant passage, MAP 0.528, MRR 0.500", " ".join(texts(figure)))
        drawing.plt.close("all")
        [(_, figure)] = plot_retrieval.draw([self.ranked(self.SOME, "skip_unanswerable = false\n", [1, 2, 1, 0])])
        self.assertIn("4 queries, MAP 0.396, MRR 0.375", " ".join(texts(figure)))

    def test_queries_without_labels_have_no_picture(self):
        run = self.ranked([[(1.0, -1), (0.0, -1)]], relevant=[-1])
        self.assertEqual(list(plot_retrieval.draw([run])), [])
        # Labels of the shards count as much: then what is relevant and no candidate is not known.
        run = self.ranked(self.SOME[:2], relevant=[-1, -1])
        self.assertEqual(list(queries.judged(run).relevant), [1, 2])


class SmallBatches(unittest.TestCase):
    """Two epochs of 40 updates; each ends in a batch of 4 samples where the others have 64."""

    def run_of(self, every):
        run = rundata.Run(None, "run")
        run.attributes["resolved_input"] = "[batch]\nglobal = 64\n"
        done = np.arange(every, 81, every)
        sizes = np.where(np.arange(1, 81) % 40 == 0, 4, 64)
        run.steps.update(step=done, epoch=done / 40, samples=sizes.reshape(-1, every).sum(axis=1))
        return run

    def test_sizes_of_batches(self):
        for every in (1, 2, 8, 40):
            run = self.run_of(every)
            means, last = smoothing.batch_sizes(run)
            np.testing.assert_allclose(last, np.where(run.steps["step"] % 40 == 0, 4, 64))
            np.testing.assert_allclose(means, run.steps["samples"] / every)

    def test_metrics_that_begin_after_step_1(self):
        """As of a run from another's checkpoint, here of its third epoch: with an epoch's end before the first row, in it, and after it."""
        for every, begin in ((1, 13), (1, 39), (1, 40), (2, 38), (2, 40), (8, 13), (8, 32), (8, 40)):
            run = self.run_of(1)
            rows = [row for row in range(every, 81, every) if row > begin]
            sizes, done = run.steps["samples"], np.array(rows) + 80
            run.steps.update(step=done, epoch=done / 40, loss=np.ones(len(rows)), skipped=np.zeros(len(rows), int),
                             samples=np.array([sizes[first:row].sum() for first, row in zip([begin, *rows], rows)]))
            updates = np.diff([begin, *rows])
            np.testing.assert_array_equal(smoothing.updates_of(run), updates)
            means, last = smoothing.batch_sizes(run)
            np.testing.assert_allclose(means, run.steps["samples"] / updates)
            np.testing.assert_allclose(last, np.where(done % 40 == 0, 4, 64))
            self.assertEqual(smoothing.curve(run, "loss")[2][0], means[0] < 32)
            self.assertEqual(plot_efficiency.batch_size(run), 64)
            run.steps["skipped"][0] = updates[0]
            self.assertEqual(smoothing.samples_trained_on(run)[0], 0)
        run.steps.update({name: run.steps[name][-1:] for name in ("step", "epoch", "samples")})  # one row: no earlier step is known
        self.assertEqual(smoothing.updates_of(run), [160])

    def test_skipped_updates_weigh_nothing_in_the_loss(self):
        run = self.run_of(2)
        run.steps["skipped"] = np.zeros(40, int)
        np.testing.assert_array_equal(smoothing.samples_trained_on(run), run.steps["samples"])
        run.steps["skipped"][:3] = [0, 1, 2]
        np.testing.assert_array_equal(smoothing.samples_trained_on(run)[:4], [128, 64, 0, 128])
        run = self.run_of(1)
        run.steps["skipped"], run.steps["loss"] = (np.arange(80) == 20).astype(int), np.where(np.arange(80) == 20, 5.0, 1.0)
        np.testing.assert_allclose(smoothing.curve(run, "loss")[1], 1)

    def test_the_bold_line_has_no_spike_and_every_row_is_drawn(self):
        for every, count in ((1, 80), (2, 40)):
            run = self.run_of(every)
            spiked = np.where(run.steps["step"] % 40 == 0, 9.0, 1.0)
            for column in ("gradient_norm", "loss"):
                run.steps[column] = spiked
                steps, bold, light = smoothing.curve(run, column)
                if column == "loss" and every == 2:  # 68 of 128 samples: more than half a batch
                    continue
                np.testing.assert_allclose(bold, 1)
                self.assertEqual((len(steps) + (light.sum() if every > 1 else 0), light.sum()), (count, 2))
                figure, axes = matplotlib.pyplot.subplots()
                drawing.draw_rows(axes, run, column, drawing.Look(0, "black", 1.8, True, "run"), "name")
                drawn = {(x, y) for line in axes.lines for x, y in zip(*line.get_data())}
                self.assertLessEqual(set(zip(run.steps["step"], spiked)), drawn)
                matplotlib.pyplot.close(figure)

    def test_weights_of_samples(self):
        # The mean of two values of which one weighs three times as much. The bell of width 20 is cut where it has fallen to
        # 0.011; of its sum of 50 that is 2e-4, times the difference of the values at most 1e-3.
        values, weights = np.tile([1.0, 5.0], 200), np.tile([3.0, 1.0], 200)
        np.testing.assert_allclose(smoothing.smooth(values, 0.05, weights)[100:300], 2, atol=1e-3)


class Numbers(unittest.TestCase):
    def test_smooth_keeps_straight_lines(self):
        line = np.linspace(5, 1, 400)
        # Exact but for rounding: sums of about a hundred products near 5.
        np.testing.assert_allclose(smoothing.smooth(line), line, atol=1e-9)
        line[100:110] = np.nan
        self.assertTrue(np.isfinite(smoothing.smooth(line)).all())

    def test_run_names(self):
        self.assertEqual(reading.run_names(["a/run", "b/run/metrics.h5"]), ["a", "b"])
        self.assertEqual(reading.run_names(["a/run", "b/other"]), ["run", "other"])
        self.assertEqual(reading.run_names(["a/run"]), ["a"])
        self.assertEqual(reading.run_names(["/run"]), ["run"])
        self.assertEqual(reading.run_names(["x/one", "x/two"]), ["one", "two"])
        self.assertEqual(reading.run_names(["x/one", "x/one"]), ["one (1)", "one (2)"])

    def test_text(self):
        self.assertEqual(writing.number(1234567.8), "1,234,568")
        self.assertEqual(writing.number(0.123456), "0.1235")
        self.assertEqual(writing.number(float("nan")), "–")
        self.assertEqual(wording.duration_text(3725), "1 h 02 min")
        self.assertEqual(journal.unescape("a\\\\tb\\tc\\n"), "a\\tb\tc\n")


if __name__ == "__main__":
    unittest.main()
