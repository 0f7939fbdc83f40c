"""A run that is told to end (the scheduler's SIGTERM, a person's Ctrl-C) or killed: every rank is gone within seconds, the
launcher's status says so, and what was recorded until then can be read."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

import h5py

from program import BUILD, MPIRUN, Case, run


def ranks_of(marker):
    """Processes of bert_hpc whose command line has the marker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words and words[0].endswith(b"bert_hpc") and any(marker in word for word in words[1:]):
            found.append(int(entry.name))
    return found


class Signals(Case):
    def end(self, name, number, to_rank=False):
        """Starts an endless run on two ranks, sends the signal once some steps are recorded; the launcher's status."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory)},
                               schedule={"epochs": None, "steps": 1000000}, data={"validation": None})
        command = [MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        journal = directory / "metrics.journal"
        marker = path.name.encode()
        deadline = time.monotonic() + 60
        while not journal.exists() or journal.read_bytes().count(b"step\t") <= 20:
            self.assertIsNone(process.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(len(ranks_of(marker)), 2)
        os.kill(ranks_of(marker)[0] if to_rank else process.pid, number)
        begin = time.monotonic()
        status = process.wait(timeout=30)
        # Open MPI gives its ranks some seconds between SIGTERM and SIGKILL.
        self.assertLess(time.monotonic() - begin, 20)
        while ranks_of(marker) and time.monotonic() - begin < 20:
            time.sleep(0.1)
        self.assertEqual(ranks_of(marker), [])
        return directory, path, status

    def check_results(self, directory, path):
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "running")
            self.assertIn("steps", file)
        # The journal has every row, whole lines up to the last.
        rows = [line for line in (directory / "metrics.journal").read_text().splitlines() if "step\t" in line]
        self.assertGreater(len(rows), 20)
        self.assertIn("step 20/", (directory / "log.txt").read_text())
        # The same command, told to, starts anew over it.
        run("bert_hpc", path, "--overwrite", "--set", "schedule.steps=3", ranks=2, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(list(file["steps/step"]), [1, 2, 3])

    def test_signals_to_the_launcher(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            directory, path, status = self.end(f"launcher-{number}", number)
            self.assertNotEqual(status, 0)
            self.check_results(directory, path)

    def test_a_rank_that_is_killed_ends_all(self):
        directory, path, status = self.end("killed", signal.SIGKILL, to_rank=True)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.check_results(directory, path)

    def test_a_rank_that_is_terminated_ends_all(self):
        directory, path, status = self.end("terminated", signal.SIGTERM, to_rank=True)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.check_results(directory, path)


if __name__ == "__main__":
    unittest.main()
