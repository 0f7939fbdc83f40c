"""bert_hpc as a batch job of a real Slurm of two nodes: srun over both, jobs/train.slurm, exit codes, scancel."""

import hashlib
import os
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import cluster  # noqa: E402
import h5py  # noqa: E402
import program  # noqa: E402

JOBS = HERE.parent.parent / "jobs"
if reason := cluster.why_not():
    print(f"skipped: {reason}")
    sys.exit(77)


def weights(run):
    return hashlib.sha256((run / "model/model.safetensors").read_bytes()).hexdigest()


def rows(run):
    """Of /steps in metrics.h5, which comes to be and is replaced while a run goes on."""
    if not (run / "metrics.h5").exists():
        return 0
    with h5py.File(run / "metrics.h5") as metrics:
        return metrics["steps/step"].shape[0]


class Slurm(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = cluster.Cluster()
        cls.folder = cls.work.folder
        cls.environment = {"PATH": f"{program.BUILD.resolve()}:{os.environ['PATH']}"}

    @classmethod
    def tearDownClass(cls):
        cls.slurm.close()
        super().tearDownClass()

    def input(self, name, **tables):
        """An input whose run goes to the folder of that name; the input and that folder."""
        run = {"directory": str(self.folder / name), "reproducible": True} | tables.pop("run", {})
        return self.work.input(f"{name}.toml", run=run, data={"validation": None}, **tables), self.folder / name

    def srun(self, *command, ranks=4, **options):
        return self.slurm.run("srun", f"-n{ranks}", "-N2", f"--ntasks-per-node={ranks // 2}", *command,
                              environment=self.environment, **options)

    def sbatch(self, *command, ranks=4):
        """jobs/train.slurm on both nodes; the job and where its log will be."""
        job = self.slurm.submit("-N2", f"--ntasks-per-node={ranks // 2}", "--cpus-per-task=1", JOBS / "train.slurm",
                                *command, cwd=self.folder, environment=self.environment)
        return job, self.folder / f"bert_hpc-{job}.log"

    def assert_nobody_left(self, seconds=10):
        deadline = time.monotonic() + seconds
        while self.slurm.run("pgrep", "-x", "bert_hpc").stdout.strip():
            self.assertLess(time.monotonic(), deadline, "ranks are still there")
            time.sleep(0.2)

    def test_four_ranks_on_two_nodes_give_the_bits_of_one(self):
        alone, alone_run = self.input("alone", schedule={"epochs": None, "steps": 10})
        program.run("bert_hpc", alone, check=0)
        path, run = self.input("nodes", schedule={"epochs": None, "steps": 10})
        self.srun("bert_hpc", path, check=0)
        with h5py.File(run / "metrics.h5") as metrics:
            hosts = {host.decode() for host in metrics["ranks/host"][:]}
        self.assertEqual(hosts, {"node1", "node2"})
        self.assertEqual(weights(run), weights(alone_run))

    def test_grid_over_two_nodes(self):
        alone, alone_run = self.input("alone_grid", schedule={"epochs": None, "steps": 10})
        program.run("bert_hpc", alone, check=0)
        path, run = self.input("grid", schedule={"epochs": None, "steps": 10}, parallel={"data": 2, "pipeline": 2})
        self.srun("bert_hpc", path, check=0)
        self.assertEqual(weights(run), weights(alone_run))

    def test_exit_status_of_a_bad_input(self):
        path, run = self.input("bad", optimizer={"learning_rat": 1.0})
        done = self.srun("bert_hpc", path, check=2)
        self.assertIn("learning_rate", done.stderr)
        self.assertEqual(done.stderr.count("learning_rat\""), 1, done.stderr)
        self.assertFalse(run.exists())
        self.assert_nobody_left()

    def test_batch_script(self):
        path, run = self.input("batch", schedule={"epochs": 1})
        job, log = self.sbatch(path, "--set", "run.seed=9")
        self.slurm.wait_for(job, {"COMPLETED"})
        text = log.read_text()
        self.assertIn("on node[1-2]", text)
        self.assertIn("4 ranks", text)
        with h5py.File(run / "metrics.h5") as metrics:
            self.assertEqual(metrics.attrs["status"], "finished")
            self.assertIn("seed = 9", metrics.attrs["resolved_input"])

    def test_scancel(self):
        path, run = self.input("cancelled", schedule={"epochs": 100000})
        job, log = self.sbatch(path)
        deadline = time.monotonic() + 60
        while rows(run) == 0:
            self.assertLess(time.monotonic(), deadline, log.read_text() if log.exists() else "no log")
            time.sleep(0.2)
        self.slurm.run("scancel", job, check=0)
        self.slurm.wait_for(job, {"CANCELLED"})
        self.assert_nobody_left()
        self.assertGreater(rows(run), 0)  # readable after it


if __name__ == "__main__":
    unittest.main()
