"""postprocess/planned_scaling.py: plans of several numbers of ranks by the real --validate, their table and picture."""

import contextlib
import csv
import io
import pathlib
import re
import sys
import unittest

import program
from program import run

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "postprocess"
sys.path[:0] = [str(SCRIPTS)]

import planned_scaling  # noqa: E402  (first: it reports missing packages)
from rundata import ReportError  # noqa: E402

# With slow links between nodes.
MACHINE = program.MACHINE.replace("gb_per_second = 2\nlatency_us = 3\n", "gb_per_second = 0.01\nlatency_us = 100\n")


class PlannedScaling(program.Case):
    def scale(self, *words):
        """What it prints, and the rows of scaling.csv."""
        machine, output = self.work.folder / "machine.toml", self.work.folder / "out"
        machine.write_text(MACHINE)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            planned_scaling.scale([*map(str, words), "--machine", str(machine), "--program", str(program.BUILD / "bert_hpc"), "--output", str(output)])
        with open(output / "scaling.csv", encoding="utf-8") as file:
            return said.getvalue(), list(csv.DictReader(file))

    def test_strong_scaling_keeps_the_batch_and_weak_scaling_the_sequences_of_a_rank(self):
        path = self.work.input(run={"directory": str(self.work.folder / "run")}, batch={"global": 64}, schedule={"epochs": 1})
        _, rows = self.scale(path, "--ranks", 8, 1, 2, 1, "--per-rank", 16)
        self.assertEqual([(row["scaling"], int(row["ranks"]), int(row["global batch"])) for row in rows],
                         [("strong", 1, 64), ("strong", 2, 64), ("strong", 8, 64), ("weak", 1, 16), ("weak", 2, 32), ("weak", 8, 128)])
        for row in rows:
            if row["ranks"] == "1":
                self.assertEqual((float(row["efficiency, %"]), float(row["exposed communication, %"])), (100, 0))
        one, two, eight = rows[:3]
        share = 100 * float(two["tokens/s"]) / 2 / float(one["tokens/s"])
        self.assertAlmostEqual(float(two["efficiency, %"]), share, delta=0.5)
        self.assertGreater(share, 60)
        self.assertLess(float(eight["efficiency, %"]), float(two["efficiency, %"]))  # four nodes with slow links
        self.assertLess(float(rows[2]["efficiency, %"]), float(rows[5]["efficiency, %"]))  # a smaller share of a rank
        plan = run("bert_hpc", path, "--validate", "--ranks", 2, "--set", f'run.machine="{self.work.folder}/machine.toml"', check=0).stdout
        milliseconds, rate = re.search(r"  time +([\d.]+) ms per step(?:.*\n)+?  speed +([\d.]+) M tokens/s", plan).groups()
        self.assertAlmostEqual(float(two["seconds a step"]), 1e-3 * float(milliseconds))
        self.assertAlmostEqual(float(two["tokens/s"]), 1e6 * float(rate))
        self.assertTrue((self.work.folder / "out/scaling.png").is_file())
        self.assertIn("test machine", (self.work.folder / "out/scaling.md").read_text())

    def test_measured_runs_are_points(self):
        directory = self.work.folder / "trained"
        run("bert_hpc", self.work.input(name="trained.toml", run={"directory": str(directory)}), check=0)
        (ranks, rate), = planned_scaling.measured_rates([str(directory)])
        self.assertEqual(ranks, 1)
        self.assertGreater(rate, 0)
        plans = [planned_scaling.Plan("strong", ranks, 8, f"simulated step on m\n  time        1 min 05 s per step\n  speed       {ranks} k tokens/s\n") for ranks in (1, 2)]
        self.assertEqual((plans[0].seconds, plans[1].rate), (65, 2000))
        figure = planned_scaling.draw(plans, [(ranks, rate)], planned_scaling.drawing.USUAL)
        self.assertIn([ranks], [list(line.get_xdata()) for line in figure.axes[0].lines])
        planned_scaling.drawing.plt.close(figure)
        with self.assertRaises(ReportError):
            self.scale(self.work.input(), "--ranks", 1, "--measured", self.work.folder / "absent")

    def test_ranks_that_the_program_refuses_are_left_out_with_the_reason(self):
        path = self.work.input(run={"directory": str(self.work.folder / "run")}, batch={"global": 4})
        said, rows = self.scale(path, "--ranks", 8, 2, "--per-rank", 2, "--tokens", "1e6", "--mean-length", 16)
        self.assertRegex(said, r"no plan of strong scaling for 8 ranks: .*\n(.|\n)*4 is less than the 8 replicas")
        self.assertEqual([(row["scaling"], row["ranks"]) for row in rows], [("strong", "2"), ("weak", "2"), ("weak", "8")])
        # Two tensor ranks are one replica.
        _, rows = self.scale(path, "--ranks", 8, "--set", "parallel.tensor=2")
        self.assertEqual([(row["scaling"], row["ranks"], row["global batch"]) for row in rows], [("strong", "8", "4"), ("weak", "8", "8")])

    def test_warnings_of_plans_are_kept(self):
        path = self.work.input(run={"directory": str(self.work.folder / "run")}, batch={"global": 64})
        said, _ = self.scale(path, "--ranks", 1, 8, "--per-rank", 64)
        self.assertRegex(said, r"warning of weak 8: batch.global = 512 is more than the 350 sequences")
        self.assertIn("Warning of weak 8: batch.global = 512", (self.work.folder / "out/scaling.md").read_text())

    def test_what_the_program_refuses_on_any_ranks_is_said(self):
        path = self.work.input(run={"directory": str(self.work.folder / "run")})
        with self.assertRaisesRegex(ReportError, r"ended with status 2:\n(.|\n)*optimizer.learning_rat"):
            self.scale(path, "--ranks", 2, 4, "--set", "optimizer.learning_rat=1")


if __name__ == "__main__":
    unittest.main()
