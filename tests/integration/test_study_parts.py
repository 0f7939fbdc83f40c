"""Parts of the studies of jobs/studies: command lines, TOML, tables, statistics, rankings in random order."""

import itertools
import json
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs/studies"))
import command_line  # noqa: E402
import efficient  # noqa: E402
import harness  # noqa: E402
import paired_statistics  # noqa: E402
import distillation  # noqa: E402
import overview  # noqa: E402
import study_plan  # noqa: E402
import wikiqa  # noqa: E402
import study_report  # noqa: E402


class Parts(unittest.TestCase):
    def test_all_problems_of_a_command_line_without_slurm(self):
        words = ["--data", "/nowhere", "--slurm", "--seeds", "-1", "--model", "tiny"]
        with unittest.mock.patch("harness.shutil.which", lambda name: None if name == "sbatch" else "/bin/true"):
            with self.assertRaises(harness.StudyError) as raised:
                harness.Study("essays", types.SimpleNamespace(ABOUT=""), words)
        for text in ("there is no sbatch on PATH", "/nowhere: there is no such file", "--seeds are whole numbers",
                     "--model tiny: there is no such folder"):
            self.assertIn(text, str(raised.exception))

    def test_toml(self):
        text = harness.toml_text({"a": {"x": True, "y": [1, "b"], "z": 1e-5, "s": 'q"'}})
        self.assertEqual(text, '[a]\nx = true\ny = [1,"b"]\nz = 1e-05\ns = "q\\""\n')

    def test_command_line_of_the_report_job(self):
        for words in (["--data", "x", "--slurm"], ["--slurm=-A p", "--data", "x"], ["--slurm", "-A p", "--data", "x"]):
            self.assertEqual(harness.without_slurm([*words, "--size", "tiny"]), ["--data", "x", "--size", "tiny"])

    def test_modules_do_not_hide_each_other(self):
        """Both folders are on Python's path."""
        folders = (harness.JOBS / "studies", harness.JOBS.parent / "postprocess")
        own, shared = ({path.name for path in folder.glob("*.py")} for folder in folders)
        self.assertFalse(own & shared)

    def test_statistics(self):
        differences = [0.1, 0.2, 0.15, 0.3, 0.25]
        low, high = paired_statistics.bootstrap(differences)
        self.assertLess(0.1, low)
        self.assertLess(low, 0.2)
        self.assertLess(high, 0.3)
        self.assertAlmostEqual(paired_statistics.effect_size(differences), 0.2 / 0.0790569, 4)
        self.assertAlmostEqual(paired_statistics.wilcoxon(differences), 0.0625, 6)  # the least of five pairs
        for nothing in (paired_statistics.effect_size([1.0, 1.0]), paired_statistics.wilcoxon([0.0, 0.0]),
                        paired_statistics.bootstrap([1.0])[0]):
            self.assertNotEqual(nothing, nothing)

    def test_rankings_in_random_order(self):
        orders = list(itertools.permutations([True, True, False, False]))
        precision, reciprocal = 0.0, 0.0
        for order in orders:
            ranks = [k for k, right in enumerate(order, 1) if right]
            precision += sum((i + 1) / k for i, k in enumerate(ranks)) / len(ranks) / len(orders)
            reciprocal += 1 / ranks[0] / len(orders)
        found = wikiqa.chance_of([[True, True, False, False]])
        self.assertAlmostEqual(found["map"], precision)
        self.assertAlmostEqual(found["mrr"], reciprocal)

    def test_blocks_of_a_teacher(self):
        sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 12}
        self.assertEqual(distillation.begins_of({**sizes, "num_hidden_layers": 6}, sizes), [0, 2, 4, 6, 8, 10])
        self.assertEqual(distillation.begins_of({**sizes, "hidden_size": 4}, sizes), [])
        self.assertEqual(distillation.begins_of({"pretrained": "folder"}, sizes), [])

    def test_sizes_of_a_folder(self):
        """A study's rows depend on the sizes of --model, which a folder states in its config.json."""
        with tempfile.TemporaryDirectory() as folder:
            sizes = {"hidden_size": 8, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16}
            (pathlib.Path(folder) / "config.json").write_text(json.dumps({"model_type": "bert", **sizes}))
            options = types.SimpleNamespace(gpu=False, size="small", has_library=True, sizes=command_line.sizes_of_folder(folder, "--model"))
            self.assertEqual(options.sizes, {"family": "bert", **sizes})
            rows = {row.name: row.settings for row in efficient.variants_of(options)}
            self.assertEqual(rows["B3"]["model.freeze_layers"], 4)
            self.assertNotIn("B1-16", rows)

    def test_overview(self):
        """Divided by the baseline's, ours by ours and the published by the published; rows without a result are left out."""
        measure = study_plan.Measure("rate", "pairs/s", None)
        rows = [study_report.Row("a", "A", {"rate": [10.0, 14.0]}, {"rate": 3}), study_report.Row("b", "B", {"rate": [24.0]}, {"rate": 4.5}),
                study_report.Row("c", "C", {"rate": []}, {"rate": 9})]
        plan = study_plan.Plan("Study", {}, {}, [], [study_plan.Measure("x", "x", None), measure], [], "a", headline="rate", relative=True)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "report").mkdir()
            study_report.write_overview(types.SimpleNamespace(plan=plan), rows, pathlib.Path(folder) / "report")
            panel = overview.read(folder)
            self.assertEqual((panel.title, panel.measure), ("Study", "pairs/s ÷ A"))
            self.assertEqual([row[0] for row in panel.rows], ["A", "B"])
            self.assertEqual([row[1] for row in panel.rows], [1.0, 2.0])
            self.assertAlmostEqual(panel.rows[0][2], 8**0.5 / 12)
            self.assertEqual([row[3] for row in panel.rows], [1.0, 1.5])
            (path, _) = overview.drawing.save(overview.draw([panel, panel]), "studies", pathlib.Path(folder))
            self.assertGreater(path.stat().st_size, 0)
        columns = overview.in_columns([overview.Panel(str(n), "", [None] * n) for n in (3, 30, 4, 20)], 2)
        self.assertEqual([[panel.title for panel in column] for column in columns], [["30"], ["3", "4", "20"]])

    def test_cells(self):
        one = study_report.Row("a", "A", {"t": [10.0, 12.0], "u": [0.00012]})
        two = study_report.Row("b", "B", {"t": [22.0], "u": [float("nan")]})
        time, share = study_plan.Measure("t", "time", None, 1, change=True), study_plan.Measure("u", "share", None, 2)
        self.assertEqual(study_report.cell(one, time), "11.0 ± 1.4")
        self.assertEqual(study_report.change(two, one, time), "+100.0%")
        self.assertEqual(study_report.change(one, one, time), "–")
        self.assertEqual(study_report.cell(one, share), "0.00012")
        self.assertEqual(study_report.cell(two, share), "–")
        self.assertIn(r"R$^2$ & 5\%", study_report.as_latex(["", "R²"], [["R²", "5%"]]))


if __name__ == "__main__":
    unittest.main()
