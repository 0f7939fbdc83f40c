"""jobs/local.sh: goes on after a start that was asked to stop, as often as it may; hands signals on; keeps a log."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import BUILD, Case

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/local.sh"


class Local(Case):
    def start(self, name, *options, restarts="50"):
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory)}, data={"validation": None},
                               schedule={"name": "constant", "epochs": None, "steps": 1000000, "warmup_ratio": None})
        log = self.work.folder / f"{name}.log"
        process = subprocess.Popen(["bash", str(SCRIPT), str(path), "1", "--log", str(log), *options], start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, OMP_NUM_THREADS="1", BERT_HPC_MAX_RESTARTS=restarts,
                                            PATH=f"{BUILD.resolve()}:{os.environ['PATH']}"))
        return process, log

    def wait_for(self, words, process, log, count=1):
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_text().count(words) < count:
            self.assertIsNone(process.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_signals(self):
        process, log = self.start("signalled")
        self.wait_for("step 10/", process, log)
        process.send_signal(signal.SIGUSR2)
        self.wait_for("checkpoint step-", process, log)
        process.send_signal(signal.SIGUSR1)
        self.wait_for("it goes on, start 2", process, log)
        self.wait_for("goes on after step", process, log)
        self.wait_for("ready after", process, log, 2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 75)
        self.assertNotIn("start 3", log.read_text())

    def test_no_more_starts_than_allowed(self):
        process, log = self.start("limited", "--time", "0:06", restarts="1")
        self.assertEqual(process.wait(timeout=90), 75)
        time.sleep(0.5)  # the copy of the last lines
        self.assertIn("after 1 restarts (BERT_HPC_MAX_RESTARTS)", log.read_text())
        self.assertEqual(log.read_text().count("ready after"), 2)


if __name__ == "__main__":
    unittest.main()
