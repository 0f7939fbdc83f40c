"""The same command submitted again, by Slurm or by a user. A restart does not repeat one-time options, so a
chain of jobs makes progress and no job removes the results of the job before it."""

import os
import pathlib
import subprocess
import sys
import unittest

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import program
from program import BUILD


def checkpoints(directory):
    return sorted(path.name for path in (directory / "checkpoints").glob("step-*"))


class SubmittedAgain(program.Case):
    rows = 200

    def start(self, name, steps, *arguments, job=None, restart=None, check=0, tables=None, **run):
        """A run of so many steps in all, checkpoints every two of them, left as one that was stopped after the last."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory), **run},
                               schedule={"name": "constant", "epochs": None, "steps": steps, "warmup_ratio": None},
                               checkpoint={"every_steps": 2, "keep": 100}, **(tables or {"data": {"validation": None}}))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        environment |= {"OMP_NUM_THREADS": "1"} | ({"SLURM_JOB_ID": str(job)} if job else {})
        environment |= {"SLURM_RESTART_COUNT": str(restart)} if restart else {}
        done = subprocess.run([str(BUILD / "bert_hpc"), str(path), *arguments], capture_output=True, text=True, timeout=300,
                              env=environment)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        if check == 0:
            (directory / ".status").write_text("stopped\n")
        return directory, done.stdout

    def test_an_evaluation_that_was_interrupted(self):
        """The same command starts an interrupted evaluation again, and refuses a finished one."""
        trained, _ = self.start("trained", 2)
        path = self.work.input("evaluated.toml", run={"mode": "evaluate", "directory": str(self.work.folder / "evaluated")},
                               data={"train": None, "validation": None, "test": [f"{self.work.folder}/shards/test-*.h5"]},
                               model=None, schedule=None, optimizer=None)
        path.write_text(path.read_text() + f'[model]\npretrained = "{trained}/model"\n')
        program.run("bert_hpc", path, threads=1, check=0)
        for left, status in (("running\n", 0), ("stopped\n", 0), ("finished\n", 2)):
            (self.work.folder / "evaluated/.status").write_text(left)
            program.run("bert_hpc", path, threads=1, check=status)

    def test_overwrite_in_a_job_that_is_queued_again(self):
        self.start("once", 8)
        directory, output = self.start("once", 4, "--overwrite", job=77)
        self.assertNotIn("the run resumes", output)
        self.assertEqual(checkpoints(directory)[-1], "step-00000004")
        for restart, steps in ((1, 6), (3, 8)):
            directory, output = self.start("once", steps, "--overwrite", job=77, restart=restart)
            self.assertIn("an earlier start of this job has done --overwrite", output)
            self.assertIn(f"resuming from step {steps - 2} (", output)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["steps/step"]), list(range(1, 9)))
        # This job has never done --overwrite: the directory's run is another job's, whatever this job's first start did.
        for job, restart in ((78, 1), (78, 1), (79, None), (None, None)):
            directory, output = self.start("once", 2, "--overwrite", job=job, restart=restart)
            self.assertNotIn("the run resumes", output)

    def test_overwrite_of_a_finished_run_by_its_own_job(self):
        directory, _ = self.start("finished", 2, "--overwrite", job=77)
        (directory / ".status").write_text("finished\n")
        self.start("finished", 2, "--overwrite", job=77, restart=1, check=2)
        self.assertEqual(checkpoints(directory), ["step-00000002"])

    def test_begun_from_a_checkpoint_of_another_run(self):
        source, _ = self.start("source", 4)
        given = {"resume": str(source / "checkpoints" / "step-00000002")}
        _, output = self.start("other", 4, **given)
        self.assertIn("resuming from step 2 (", output)
        directory, output = self.start("other", 6, **given)
        self.assertIn("resuming from this run's own checkpoints", output)
        self.assertIn("resuming from step 4 (", output)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["steps/step"]), [3, 4, 5, 6])
        # Another run.resume asks for another run, which the directory's existing run forbids.
        self.start("other", 6, check=2, resume=str(source / "checkpoints" / "step-00000004"))
        # Until the run has a checkpoint of its own, it starts from the checkpoint that run.resume names.
        for name in checkpoints(directory):
            (directory / "checkpoints" / name).rename(directory / name)
        directory, output = self.start("other", 6, **given)
        self.assertIn("resuming from step 2 (", output)

    def test_the_best_model_of_another_run(self):
        # Steps so small that the first evaluation stays the best: its checkpoint lies in the other directory.
        tables = {"data": {"validation": [f"{self.work.folder}/shards/validation-*.h5"]},
                  "evaluation": {"best": "accuracy", "every_steps": 2}, "optimizer": {"learning_rate": 1e-12}}
        source, _ = self.start("first", 4, tables=tables)
        self.assertEqual((source / "checkpoints" / "best").read_text(), "step-00000002\n")
        given = {"resume": str(source / "checkpoints" / "step-00000004"), "tables": tables}
        directory, output = self.start("second", 6, **given)
        self.assertIn("the best model so far, of step 2, belongs to the run that made it", output)
        directory, output = self.start("second", 8, **given)
        self.assertIn("resuming from step 6 (", output)
        self.assertNotIn("best model so far", output)
        self.assertEqual((directory / "checkpoints" / "best").read_text(), "step-00000006\n")
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["evaluations/validation/step"]), [6, 8])

    def test_back_to_an_own_checkpoint_once(self):
        directory, _ = self.start("own", 6)
        given = {"resume": str(directory / "checkpoints" / "step-00000002")}
        for steps, after in ((6, 2), (8, 6), (10, 8)):
            directory, output = self.start("own", steps, **given)
            self.assertIn(f"resuming from step {after} (", output)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["steps/step"]), list(range(1, 11)))
        set_aside = sorted(path.name for path in (directory / "checkpoints").glob("set-aside-*"))
        self.assertEqual(set_aside, ["set-aside-step-00000004", "set-aside-step-00000006"])

    def test_its_lock_left_on_another_host(self):
        directory, _ = self.start("locked", 2, job=77)
        (directory / ".lock").write_text("host elsewhere\npid 1\nsince 2026-01-01T00:00:00Z\nbegan 1\nspace other\njob 77\n"
                                         "cluster \ntask \nrestart 0\n")
        # It is not watched: that would end with another reason (unit/io/test_run_lock.cpp).
        _, output = self.start("locked", 4, job=77, restart=1)
        self.assertIn("(Slurm job 77) is of an earlier start of this job, which Slurm has ended; this start takes it over.", output)
        self.assertIn("resuming from step 2 (", output)

    def test_killed_while_it_began(self):
        directory = self.work.folder / "began"
        directory.mkdir()
        (directory / ".status").write_text("running\n")
        self.start("began", 2)


if __name__ == "__main__":
    unittest.main()
