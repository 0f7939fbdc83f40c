"""jobs/local.sh restarts a start that ended with status 75, forwards signals, keeps a log and sets what mpirun needs."""

import os
import pathlib
import signal
import subprocess
import unittest

from program import BUILD, MPIRUN, Case, end, installed_tree
from waiting import contains, exit_status, wait_until

SHIM = BUILD.resolve() / "tests/libfailing_files.so"


class Local(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = installed_tree(cls.work.folder, "jobs") / "local.sh"

    def start(self, name, *options, restarts="50", path=os.environ["PATH"], **variables):
        directory = self.work.folder / name
        input_file = self.work.input(f"{name}.toml", run={"directory": str(directory)}, data={"validation": None},
                                     schedule={"name": "constant", "epochs": None, "steps": 1000000000, "warmup_ratio": None})
        log = self.work.folder / f"{name}.log"
        process = subprocess.Popen(["bash", str(self.script), str(input_file), "1", "--log", str(log), *options],
                                   start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, OMP_NUM_THREADS="1", BERT_HPC_MAX_RESTARTS=restarts, PATH=path, **variables))
        self.addCleanup(end, process, input_file)
        return process, log

    def wait_for(self, words, process, log, count=1):
        wait_until(lambda: contains(log, words, count), f"{count} times '{words}'", process, log)

    def test_signals(self):
        process, log = self.start("signalled")
        self.wait_for("step 10/", process, log)
        process.send_signal(signal.SIGUSR2)
        self.wait_for("checkpoint step-", process, log)
        process.send_signal(signal.SIGUSR1)
        self.wait_for("stopped with a checkpoint: resuming, start 2", process, log)
        self.wait_for("resuming from step", process, log)
        self.wait_for("ready after", process, log, 2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(exit_status(process, "jobs/local.sh", log), 75)
        text = log.read_text()
        self.assertIn("SIGTERM: the run ends after this step", text)
        self.assertNotIn("start 3", text)
        self.assertEqual(text.count(" on SIGUSR1; checkpoint written"), 1)  # the first start
        self.assertEqual(text.count(" on SIGTERM; checkpoint written"), 1)

    def test_an_end_asked_for_before_there_are_ranks(self):
        """mpirun drops such a signal. Here it has ranks only after it has dropped one."""
        tools = self.work.folder / "tools"
        tools.mkdir()
        slow = tools / "mpirun"
        slow.write_text(f'#!/bin/sh\ntrap dropped=1 USR1\n: >{tools}/begun\nwhile [ -z "$dropped" ]; do sleep 0.05; done\n'
                        f'exec {MPIRUN} "$@"\n')
        slow.chmod(0o755)
        process, log = self.start("early", path=f"{tools}:{os.environ['PATH']}")
        wait_until((tools / "begun").exists, "mpirun", process, log)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(exit_status(process, "jobs/local.sh", log), 75)
        self.assertNotIn("resuming, start", log.read_text())

    def test_from_the_keyboard(self):
        """A terminal sends SIGINT to all that runs in it, again if its user is in a hurry; the log has the last line all the same."""
        process, log = self.start("keyboard")
        self.wait_for("step 10/", process, log)
        os.killpg(process.pid, signal.SIGINT)
        wait_until(lambda: contains(log, "SIGINT (Ctrl-C): the run ends after this step"), "the answer", output=log)
        try:
            os.killpg(process.pid, signal.SIGINT)
        except ProcessLookupError:  # it was faster
            pass
        self.assertEqual(exit_status(process, "jobs/local.sh", log), 75)
        text = log.read_text()
        self.assertRegex(text[-3000:], r"stopped after step [\d,]+ on SIGINT \(Ctrl-C\); checkpoint written; run the same command, or submit "
                                       "the job again, to resume")
        self.assertEqual(text.count("SIGINT (Ctrl-C): the run ends after this step"), 1)
        self.assertEqual(text.count("SIGINT (Ctrl-C) received: writing a checkpoint after this step"), 1)
        self.assertNotIn("SIGUSR1", text)
        self.assertEqual((self.work.folder / "keyboard/.status").read_text(), "stopped\n")

    def test_options_without_a_value(self):
        for option in ("--time", "--log"):
            for value in ([], [""]):
                done = subprocess.run(["bash", str(self.script), "input.toml", option, *value], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"error: {option} needs", done.stderr)

    def test_help(self):
        for arguments in (["--help"], ["input.toml", "2", "-h"]):
            done = subprocess.run(["bash", str(self.script), *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("usage: jobs/local.sh INPUT.toml [RANKS] [--time LIMIT] [--log FILE]", done.stdout)
            self.assertNotIn("--overwrite", done.stdout)  # an option of bert_hpc's own help
        done = subprocess.run(["bash", str(self.script), "--log", "x"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("the input file is missing", done.stderr)

    def run_plainly(self, name, *arguments):
        """As at a new user's prompt: nothing is set for Open MPI. Three steps."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory)}, data={"validation": None},
                               schedule={"name": "constant", "epochs": None, "steps": 3, "warmup_ratio": None})
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PRTE_", "OMP_"))}
        return subprocess.run(["bash", str(self.script), str(path), *map(str, arguments)], env=environment, timeout=300,
                              capture_output=True, text=True)

    def test_as_root_with_more_ranks_than_cores(self):
        ranks = os.cpu_count() + 2
        done = self.run_plainly("many", ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{ranks} ranks", done.stdout)

    def test_its_options_anywhere(self):
        log = self.work.folder / "anywhere.log"
        done = self.run_plainly("anywhere", "1", "--set", "run.seed=9", f"--log={log}", "--overwrite", "--time", "1:00:00")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("step 3/3", log.read_text())
        resolved = (self.work.folder / "anywhere" / "input.toml").read_text()
        self.assertIn('max_walltime = "1:00:00"', resolved)
        self.assertIn("seed = 9", resolved)

    def test_an_error_is_one_block(self):
        for ranks in (1, 2):
            done = self.run_plainly("wrong", ranks, "--set", "batch.global=0")
            self.assertEqual(done.returncode, 2)
            self.assertIn("batch.global", done.stderr)
            for word in ("mpirun", "MPI_ABORT", "Primary job", "-----"):
                self.assertNotIn(word, done.stdout + done.stderr)

    def test_no_more_starts_than_allowed(self):
        if not SHIM.exists():
            self.skipTest("clocks that jump are not part of this build")
        ahead = self.work.folder / "ahead"
        process, log = self.start("limited", "--time", "1:00:00", restarts="1", LD_PRELOAD=str(SHIM),
                                  BERT_HPC_CLOCK_AHEAD=str(ahead))
        for start in (1, 2):  # the clock jumps to the limit of each
            self.wait_for("ready after", process, log, start)
            ahead.with_suffix(".new").write_text(str(3600 * start))
            ahead.with_suffix(".new").rename(ahead)
        self.assertEqual(exit_status(process, "jobs/local.sh", log), 75)
        self.assertIn("after 1 restarts (BERT_HPC_MAX_RESTARTS)", log.read_text())
        self.assertEqual(log.read_text().count("ready after"), 2)


if __name__ == "__main__":
    unittest.main()
