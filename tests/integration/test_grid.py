"""jobs/grid.sh runs an input with the settings of each line of a file, skips what is finished unless its settings have
changed, compares the runs, failed ones too, and names every wrong line; in a job array it runs the line of its task."""

import os
import pathlib
import re
import subprocess
import unittest

import h5py
from program import Case, installed_tree

TREE = pathlib.Path(__file__).resolve().parents[2]
GRID = """# a comment
*      schedule.epochs=1 log.progress="none"   # holds for all

usual
lora   model.trainable="lora" model.lora.targets=["query","value"]
8bit   optimizer.name="adamw8bit" optimizer.learning_rate=1e-3
"""


class Grid(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = installed_tree(cls.work.folder, "jobs", "postprocess") / "grid.sh"

    def grid(self, name, text, *arguments, script=None, **variables):
        file = self.work.folder / f"{name}.grid"
        file.write_text(text)
        path = self.work.input(f"{name}.toml", schedule={"epochs": None, "steps": None, "warmup_ratio": None})
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")} | variables
        return subprocess.run(["bash", str(script or self.script), str(path), str(file), str(self.work.folder / name), *arguments],
                              text=True, capture_output=True, env=environment | {"OMP_NUM_THREADS": "1"}, timeout=300)

    def test_runs(self):
        done = self.grid("runs", GRID, "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        folder = self.work.folder / "runs"
        inputs = {}
        for name in ("usual", "lora", "8bit"):
            with h5py.File(folder / name / "metrics.h5") as file:
                self.assertEqual(file.attrs["status"], "finished")
                inputs[name] = file.attrs["resolved_input"]
        self.assertIn('trainable = "lora"', inputs["lora"])
        self.assertIn('name = "adamw8bit"', inputs["8bit"])
        self.assertNotIn('name = "adamw8bit"', inputs["lora"])
        text = (folder / "report/comparison.md").read_text()
        for name in inputs:
            self.assertIn(f"| {name} | ", text)
        again = self.grid("runs", GRID, "1", BERT_HPC_GRID_REPORT="0")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual(again.stdout.count("finished before"), 3)

    def values(self, name, run, key):
        """The value of a key in the resolved input of a run."""
        with h5py.File(self.work.folder / name / run / "metrics.h5") as file:
            return re.search(rf"^{key} = (.*)$", file.attrs["resolved_input"], re.MULTILINE)[1]

    def test_a_changed_line_runs_again(self):
        quiet = {"BERT_HPC_GRID_REPORT": "0"}
        lines = '* schedule.steps=2\nsame\nother optimizer.learning_rate=1e-3   # first\n'
        self.assertEqual(self.grid("changed", lines, "1", **quiet).returncode, 0)
        # A comment and a setting that another line had before are no change.
        lines = 'same schedule.steps=2\nother schedule.steps=2 optimizer.learning_rate=2e-3\n'
        done = self.grid("changed", lines, "1", **quiet)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("same: finished before", done.stdout)
        self.assertIn("other: its settings have changed", done.stdout)
        self.assertIn("before: optimizer.learning_rate=1e-3", done.stdout)
        self.assertEqual(float(self.values("changed", "other", "learning_rate")), 2e-3)
        self.assertEqual(float(self.values("changed/.grid", "other.before-1", "learning_rate")), 1e-3)
        # The command line is part of the settings, and wins over the file.
        done = self.grid("changed", 'same schedule.steps=2\n', "1", "--set", "schedule.steps=3", **quiet)
        self.assertIn("same: its settings have changed", done.stdout)
        self.assertEqual(self.values("changed", "same", "steps"), "3")

    def test_what_else_a_run_depends_on(self):
        """NAME.needs counts, [debug] does not; a run that has a lock stays."""
        quiet, folder = {"BERT_HPC_GRID_REPORT": "0"}, self.work.folder / "needs"
        self.assertEqual(self.grid("needs", "a schedule.steps=2\n", "1", **quiet).returncode, 0)
        lines = "a schedule.steps=2 debug.step_delay_seconds=0.001\n"
        self.assertIn("a: finished before", self.grid("needs", lines, "1", **quiet).stdout)
        (folder / ".grid/a.needs").write_text("other data\n")
        (folder / "a/.lock").touch()
        done = self.grid("needs", lines, "1", BERT_HPC_GRID_RUN="0")
        self.assertEqual((done.returncode, "says that it is still running" in done.stderr), (4, True), done.stderr)
        (folder / "a/.lock").unlink()
        done = self.grid("needs", lines, "1", BERT_HPC_GRID_RUN="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "now: +other data")
        self.assertFalse((folder / "a").exists())
        self.assertTrue((folder / ".grid/a.before-1/metrics.h5").is_file())
        self.assertEqual(self.grid("needs", lines, "1", **quiet).returncode, 0)
        self.assertIn("a: finished before", self.grid("needs", lines, "1", **quiet).stdout)

    def test_run_directory_belongs_to_the_script(self):
        for lines, arguments in (("a run.directory=\"x\"\n", []), ("a\n", ["--set", 'run.directory="x"']),
                                 ("a\n", ['--set=run.directory="x"'])):
            done = self.grid("directory", lines, *arguments)
            self.assertEqual((done.returncode, "run.directory cannot be set" in done.stderr), (2, True), done.stderr)

    def test_wrong_lines(self):
        done = self.grid("wrong", 'a model.hidden_size = 3\na\n../b\nreport\nc key=3\n')
        self.assertEqual(done.returncode, 2)
        for line, words in ((1, "'='"), (2, "second run"), (3, "'../b' cannot"), (4, "'report' cannot"), (5, "'key=3'")):
            self.assertTrue(re.search(rf"wrong.grid, line {line}: .*{re.escape(words)}", done.stderr), (line, done.stderr))
        self.assertFalse((self.work.folder / "wrong").exists())
        self.assertIn("names no run", self.grid("empty", "# nothing\n").stderr)

    def test_a_run_that_fails(self):
        done = self.grid("fails", 'bad model.hidden_size=33\n* schedule.epochs=1\ngood\n', "1")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"1 of 2 runs failed:\n- bad: exit status 2: error: .*hidden_size.*\n$")
        self.assertEqual(done.stdout.count("runs failed"), 1)
        text = (self.work.folder / "fails/report/comparison.md").read_text()
        self.assertRegex(text, r"- bad: exit status 2: error: .*hidden_size")
        self.assertEqual((self.work.folder / "fails/good/.status").read_text().strip(), "finished")

    def test_one_line(self):
        """A grid of one run has its report where others have theirs, and fails with the run's status."""
        done = self.grid("one", "* schedule.steps=2\nonly\n", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        folder = self.work.folder / "one"
        self.assertIn(f"{folder}/report/summary.md has the run", done.stdout)
        self.assertTrue((folder / "report/summary.md").is_file())
        self.assertFalse((folder / "only/report").exists())
        done = self.grid("one_fails", "only model.hidden_size=33\n", "1")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"1 of 1 runs failed:\n- only: exit status 2: error: .*hidden_size.*\n$")
        quiet = self.grid("one_fails", "only model.hidden_size=33\n", "1", BERT_HPC_GRID_REPORT="0")
        self.assertRegex(quiet.stdout, r"1 of 1 runs failed:\n +only ended with status 2: error: .*hidden_size.*\n$")
        self.assertNotIn("report.py: error", done.stderr)
        text = (self.work.folder / "one_fails/report/summary.md").read_text()
        self.assertRegex(text, r"- only: exit status 2: error: .*hidden_size")

    def test_job_array(self):
        """Slurm runs a copy of the script; a script that prints its arguments replaces train.slurm."""
        jobs = self.work.folder / "submitted/jobs"
        jobs.mkdir(parents=True)
        (jobs / "common.sh").symlink_to(TREE / "jobs/common.sh")
        (jobs / "train.slurm").write_text('printf "%s\\n" "$@"\n')
        copy = self.work.folder / "slurm_script"
        copy.write_text((TREE / "jobs/grid.sh").read_text())
        task = lambda number: self.grid("array", GRID, "--set", "run.seed=7", script=copy, SLURM_ARRAY_TASK_ID=str(number),  # noqa: E731
                                        SLURM_SUBMIT_DIR=str(jobs.parent))
        words = task(2).stdout.split("\n")
        for setting in ("schedule.epochs=1", 'model.lora.targets=["query","value"]', "run.seed=7",
                        f'run.directory="{self.work.folder}/array/lora"'):
            self.assertEqual(words[words.index(setting) - 1], "--set")
        self.assertLess(words.index("schedule.epochs=1"), words.index("run.seed=7"))  # the last of two values counts
        self.assertNotIn('optimizer.name="adamw8bit"', words)
        done = task(4)
        self.assertEqual((done.returncode, "--array=1-3" in done.stderr), (2, True))


if __name__ == "__main__":
    unittest.main()
