"""The benchmark of essay scoring, with programs that only pretend: what they are called with, the median of its figures,
and what is said where something is missing."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "ielts.py"

# Notes its arguments; the "training" leaves figures by which seeds and epochs differ.
PRETENDED = f"""#!{sys.executable}
import pathlib, sys
arguments = sys.argv[1:]
if pathlib.Path(sys.argv[0]).name == "mpirun":
    arguments = arguments[3:]
with open(pathlib.Path(sys.argv[0]).parent / "calls", "a") as calls:
    print(pathlib.Path(sys.argv[0]).name, *arguments, file=calls)
values = dict(a.split("=", 1) for a in arguments if "=" in a)
if "run.directory" in values:
    import h5py
    directory, seed = pathlib.Path(values["run.directory"].strip('"')), int(values["run.seed"])
    directory.mkdir(parents=True)
    with h5py.File(directory / "metrics.h5", "w") as file:
        file["evaluations/validation/rmse"] = [2.0, 0.5, 1.0]
        file["evaluations/validation/r2"] = [-1.0, 0.1 * seed * seed, 0.0]
        file["evaluations/test/r2"] = [0.01]
"""


class Ielts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("bert_hpc", "bert_hpc_prep", "mpirun"):
            path = self.folder / name
            path.write_text(PRETENDED)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (self.folder / "model").mkdir()
        (self.folder / "model/config.json").write_text("{}")
        (self.folder / "essays.csv").write_text("Question,Essay,Overall\n")

    def run_script(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True,
                              env=environment)

    def test_the_median_is_of_the_kept_models(self):
        done = self.run_script(self.folder / "model", self.folder / "essays.csv", "--build", self.folder,
                               "--set", "task.standardize=false")
        self.assertEqual(done.returncode, 0, done.stderr)
        for compute in ("fp32", "bf16"):
            self.assertIn(f"{compute}, seed 3: validation R² 0.900, test R² 0.010", done.stdout)
            self.assertIn(f"{compute}: median validation R² 0.400 (aim: more than 0.18)", done.stdout)
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(len(calls), 7)
        self.assertIn(f'tokenizer.vocabulary="{self.folder.resolve()}/model"', calls[0])
        for call in calls[1:]:
            self.assertIn("ielts.toml", call)
            self.assertIn(f'model.pretrained="{self.folder.resolve()}/model"', call)
            self.assertIn("task.standardize=false", call)

    def test_what_is_missing_is_named(self):
        done = self.run_script(self.folder / "nowhere", self.folder / "essays.csv")
        self.assertEqual(done.returncode, 77)
        self.assertIn("skipped:", done.stdout)
        self.assertIn("nowhere/config.json not found", done.stdout)


if __name__ == "__main__":
    unittest.main()
