"""A run that is asked to stop (the scheduler's SIGTERM, a user's Ctrl-C) writes a checkpoint and exits with 75; a run that is
killed is gone within seconds on every rank. The recorded rows can be read, and the same command resumes. Under plain
mpirun, which kills its ranks 2 s after Ctrl-C, the checkpoint is written in the middle of a long step."""

import os
import shutil
import signal
import subprocess
import time
import unittest

import h5py

from program import BUILD, MPIRUN, Case, Workspace, end, ranks_of, run


class Signals(Case):
    def start(self, name, run=None):
        """An endless run on two ranks, some steps of which are recorded."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory), **(run or {})},
                               schedule={"name": "constant", "epochs": None, "steps": 1000000, "warmup_ratio": None},
                               data={"validation": None})
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
        return directory, path, process

    def end(self, name, *numbers, to_rank=False):
        """Sends it the signals; the launcher's status."""
        directory, path, process = self.start(name)
        marker = path.name.encode()
        for number in numbers:
            os.kill(ranks_of(marker)[0] if to_rank else process.pid, number)
        begin = time.monotonic()
        status = process.wait(timeout=30)
        # Open MPI gives its ranks some seconds between SIGTERM and SIGKILL.
        self.assertLess(time.monotonic() - begin, 20)
        while ranks_of(marker) and time.monotonic() - begin < 20:
            time.sleep(0.1)
        self.assertEqual(ranks_of(marker), [])
        return directory, path, status

    def check_results(self, directory, path, states=("running",)):
        with h5py.File(directory / "metrics.h5") as file:
            self.assertIn(file.attrs["status"], states)
            self.assertIn("steps", file)
        # The journal has every row, whole lines up to the last.
        rows = [line for line in (directory / "metrics.journal").read_text().splitlines() if "step\t" in line]
        self.assertGreater(len(rows), 20)
        self.assertIn("step 20/", (directory / "log.txt").read_text())
        # The same command with --overwrite starts again in the same directory.
        run("bert_hpc", path, "--overwrite", "--set", "schedule.steps=3", ranks=2, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(list(file["steps/step"]), [1, 2, 3])

    def test_signals_to_the_launcher(self):
        # Open MPI's launcher gives its ranks a moment; whether it suffices for the checkpoint depends on the machine.
        for number in (signal.SIGTERM, signal.SIGINT):
            directory, path, status = self.end(f"launcher-{number}", number)
            self.assertNotEqual(status, 0)
            self.check_results(directory, path, ("running", "stopped"))

    def test_a_rank_that_is_killed_ends_all(self):
        directory, path, status = self.end("killed", signal.SIGKILL, to_rank=True)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.check_results(directory, path)

    def latest(self, directory):
        return int((directory / "checkpoints" / "latest").read_text()[5:])

    def check_stopped(self, directory, path, status, *numbers):
        """Accepts each of the signals as the reported reason: the order of arrival, also at the rank that reports it, is open."""
        self.assertEqual(status, 75)
        step = self.latest(directory)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "stopped")
            self.assertEqual(file["steps/step"][-1], step)
        self.assertEqual((directory / ".status").read_text(), "stopped\n")
        names = "|".join(signal.Signals(number).name for number in numbers)
        self.assertRegex((directory / "log.txt").read_text(), rf"stopped after step [\d,]+ (on ({names})|as requested); checkpoint written: submit again to resume")
        # The same command resumes from that step.
        done = run("bert_hpc", path, "--set", f"schedule.steps={step + 3}", ranks=2, threads=1, check=0)
        self.assertIn(f"resuming from step {step:,} (", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(list(file["steps/step"]), list(range(1, step + 4)))

    def test_one_rank_that_is_asked_to_stop_stops_all(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            directory, path, status = self.end(f"asked-{number}", number, to_rank=True)
            self.check_stopped(directory, path, status, number)

    def test_asked_twice(self):
        directory, path, status = self.end("twice", signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, to_rank=True)
        self.check_stopped(directory, path, status, signal.SIGUSR1, signal.SIGTERM)

    def test_asked_until_it_is_gone(self):
        """As by a launcher that sends SIGTERM to the others once one has left: 75 it stays, up to the very end."""
        directory, path, process = self.start("until")
        ranks = ranks_of(path.name.encode())
        deadline = time.monotonic() + 30
        while ranks and time.monotonic() < deadline:
            for rank in list(ranks):
                try:
                    os.kill(rank, signal.SIGTERM)
                except ProcessLookupError:
                    ranks.remove(rank)
        self.check_stopped(directory, path, process.wait(timeout=30), signal.SIGTERM)

    def test_a_checkpoint_on_request(self):
        directory, path, process = self.start("usr2")
        for _ in range(2):
            before = self.latest(directory) if (directory / "checkpoints" / "latest").exists() else 0
            os.kill(process.pid, signal.SIGUSR2)  # the launcher hands it on to all ranks
            deadline = time.monotonic() + 30
            while not (directory / "checkpoints" / "latest").exists() or self.latest(directory) == before:
                self.assertIsNone(process.poll(), "it ended")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        os.kill(process.pid, signal.SIGUSR1)
        self.check_stopped(directory, path, process.wait(timeout=30), signal.SIGUSR1)

    def test_asked_while_it_evaluates(self):
        # Five windows of samples after every step of 16 take nearly all of the time.
        work = Workspace(rows=30000)
        self.addCleanup(work.remove)
        directory = work.folder / "evaluating"
        path = work.input("evaluating.toml", run={"directory": str(directory), "reproducible": True},
                          schedule={"name": "constant", "epochs": None, "steps": 1000000, "warmup_ratio": None},
                          evaluation={"every_steps": 1}, batch={"global": 16})
        for _ in range(2):
            process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL,
                                       env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
            log = directory / "log.txt"
            lines = lambda: log.read_text().count("validation at step") if log.exists() else 0
            before, deadline = lines(), time.monotonic() + 60
            while lines() < before + 2:
                self.assertIsNone(process.poll(), "it ended by itself")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGUSR1)
            self.assertEqual(process.wait(timeout=30), 75)
        step = self.latest(directory)
        with h5py.File(directory / "checkpoints" / f"step-{step:08d}" / "manifest.h5") as file:
            due = dict(zip(file["integers/names"][:], file["integers/values"][:]))[b"evaluation_due"]
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file["evaluations/validation/step"][-1], step - due)
        run("bert_hpc", path, "--set", f"schedule.steps={step + 1}", ranks=1, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["evaluations/validation/step"]), list(range(1, step + 2)))

    def test_stopped_while_it_tests(self):
        # The test takes long; the ten steps write no checkpoint.
        work = Workspace(rows=30000)
        self.addCleanup(work.remove)
        directory, shards = work.folder / "testing", work.folder / "shards"
        path = work.input("testing.toml", run={"directory": str(directory)}, batch={"global": 16},
                          data={"train": [f"{shards}/validation-*.h5"], "validation": None, "test": [f"{shards}/train-*.h5"]},
                          schedule={"name": "constant", "epochs": None, "steps": 10, "warmup_ratio": None})
        process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        deadline = time.monotonic() + 60
        while not (directory / "model" / "model.safetensors").exists():  # written right before the test
            self.assertIsNone(process.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=30), 75)
        self.assertEqual(self.latest(directory), 10)
        done = run("bert_hpc", path, ranks=2, threads=1, check=0)
        self.assertIn("resuming from step 10 (", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["steps/step"]), list(range(1, 11)))
            self.assertEqual(list(file["evaluations/test/step"]), [10])

    def test_the_wall_time_is_kept(self):
        begin = time.monotonic()
        directory, path, process = self.start("walltime", {"max_walltime": "0:20"})
        status = process.wait(timeout=40)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertGreater(time.monotonic() - begin, 8)  # a half of it is used at least
        self.check_stopped(directory, path, status)


class LongSteps(Case):
    """Each step takes seconds, so that no step ends between mpirun's signals."""

    STEPS = 5

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path, directory = cls.input("undisturbed", 0.0)
        run("bert_hpc", path, ranks=2, threads=1, check=0)
        cls.expected = cls.results(directory)

    @classmethod
    def input(cls, name, delay, **tables):
        directory = cls.work.folder / name
        schedule = {"name": "constant", "epochs": None, "steps": cls.STEPS, "warmup_ratio": None}
        path = cls.work.input(f"{name}.toml", run={"directory": str(directory), "reproducible": True}, schedule=schedule,
                              data={"validation": None}, **{"debug": {"step_delay_seconds": delay}, **tables})
        return path, directory

    @staticmethod
    def results(directory):
        with h5py.File(directory / "metrics.h5") as file:
            return (list(file["steps/step"]), list(file["steps/loss"]), (directory / "model/model.safetensors").read_bytes())

    def start(self, path, directory, step, before=()):
        """Until that step is complete; the next one is then in flight."""
        process = subprocess.Popen([*before, MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"),
                                   start_new_session=True)
        self.addCleanup(end, process, path)
        self.wait_for(f"step {step}/", process, directory)
        return process

    def wait_for(self, words, process, directory):
        log, deadline = directory / "log.txt", time.monotonic() + 60
        while not log.exists() or words not in log.read_text():
            self.assertIsNone(process.poll(), f"it ended before: {words}")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def resume(self, path, directory):
        done = run("bert_hpc", path, "--set", "debug.step_delay_seconds=0.0", ranks=2, threads=1, check=0)
        self.assertEqual(self.results(directory), self.expected)
        self.assertEqual([name for name in os.listdir(directory / "checkpoints") if name.startswith(".")], [])
        return done.stdout

    def check_early(self, process, path, directory):
        output = process.communicate(timeout=30)[0]
        self.assertNotEqual(process.returncode, 0)
        self.assertTrue((directory / "checkpoints/latest").exists(), output)
        latest = int((directory / "checkpoints/latest").read_text()[5:])
        self.assertIn(latest, (1, 2), output)  # 2: on a machine so busy that mpirun was late
        self.assertIn("SIGTERM received: stopping with a checkpoint; mpirun may kill all ranks 1 s after it", output)
        self.assertEqual((directory / ".status").read_text(), "stopped\n")
        resumed = self.resume(path, directory)
        self.assertIn(f"resuming from step {latest} (", resumed)
        self.assertNotIn("the earlier start", resumed)

    def test_mpirun_is_interrupted(self):
        for name, send in (("keyboard", lambda process: os.killpg(process.pid, signal.SIGINT)),
                           ("terminated", lambda process: process.send_signal(signal.SIGTERM))):
            with self.subTest(name):
                path, directory = self.input(name, 4.0)
                process = self.start(path, directory, 1)
                send(process)
                # Both while the ranks live: the second step takes twice as long as they have.
                self.wait_for("SIGCONT received: where mpirun ends a run (Ctrl-C, SIGTERM, timeout, a failed rank), it kills "
                              "all ranks 2 s after it. Writing a checkpoint of step 1 now", process, directory)
                self.wait_for("checkpoint step-00000001 is complete", process, directory)
                self.check_early(process, path, directory)

    def test_timeout(self):
        """Without --foreground, timeout signals mpirun directly and by its process group. If mpirun sees two signals rather
        than one, it kills the ranks at once."""
        path, directory = self.input("timeout", 5.0)
        process = self.start(path, directory, 1, before=("timeout", "--foreground", "--preserve-status", "8"))
        self.check_early(process, path, directory)

    def test_a_job_that_is_continued(self):
        """SIGCONT comes then too: the checkpoint does no harm, and the run continues to the same bits."""
        path, directory = self.input("continued", 1.5, checkpoint={"every_steps": 3, "keep": 9})
        process = self.start(path, directory, 1)
        for rank in ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGCONT)
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, "checkpoint step-0000000[12] is complete")
        self.assertEqual(self.results(directory), self.expected)
        self.assertTrue((directory / "checkpoints/step-00000003").exists())

    def test_a_rank_alone_completes_nothing(self):
        """The other ranks do not take part in its checkpoint; a later checkpoint of all ranks is complete."""
        path, directory = self.input("alone", 1.0, checkpoint={"every_steps": 3})
        process = self.start(path, directory, 1)
        os.kill(ranks_of(path.name.encode())[0], signal.SIGCONT)
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertNotIn("is complete", output)
        self.assertEqual(sorted(os.listdir(directory / "checkpoints")), ["latest", "step-00000003"])
        self.assertEqual(self.results(directory), self.expected)

    def kill(self, process, path):
        for pid in (*ranks_of(path.name.encode()), process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=30)

    def test_killed_while_it_writes(self):
        """At any instant of the kill, the next start finds a complete checkpoint or none, never a partial one that looks complete."""
        path, directory = self.input("writing", 1.0)
        for delay in (0, 0.004, 0.012):
            with self.subTest(delay):
                process = self.start(path, directory, 1)
                for rank in ranks_of(path.name.encode()):
                    os.kill(rank, signal.SIGCONT)
                time.sleep(delay)
                self.kill(process, path)
                named = (directory / "checkpoints/step-00000001").exists()
                output = run("bert_hpc", path, "--validate", ranks=2, threads=1, check=0).stdout
                self.assertEqual("it would resume from step 1" in output, named)
                self.assertNotIn("is skipped", output)
                shutil.rmtree(directory)

    def test_killed_without_a_checkpoint(self):
        for name, every, step, words in (
                ("lost", 100, 1, "the earlier start was killed at step [12] or later, without a checkpoint: starting from the beginning"),
                ("older", 2, 3, "the earlier start was killed at step [34] or later; its last checkpoint is of step 2: "
                                "the steps after it are repeated")):
            path, directory = self.input(name, 1.0, checkpoint={"every_steps": every})
            process = self.start(path, directory, step)
            deadline = time.monotonic() + 30
            while every == 2 and not (directory / "checkpoints/step-00000002").exists() and time.monotonic() < deadline:
                time.sleep(0.01)  # it gets its name once the ranks have agreed, with the step after it
            self.kill(process, path)
            self.assertEqual((directory / ".status").read_text(), "running\n")
            self.assertRegex(self.resume(path, directory), f"warning: {words}")

    def test_a_short_run_saves_by_itself(self):
        """Neither key of [checkpoint] is set: 5% of the run's time are less than ten seconds, the shortest interval."""
        path, directory = self.input("by-itself", 2.6)
        run("bert_hpc", path, ranks=2, threads=1, check=0)
        self.assertEqual((directory / "log.txt").read_text().count("checkpoint step-"), 1)


if __name__ == "__main__":
    unittest.main()
