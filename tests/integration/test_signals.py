"""A run that is asked to stop (the scheduler's SIGTERM, a user's Ctrl-C) writes a checkpoint and exits with 75; a run that is
killed is gone within seconds on every rank. The recorded rows can be read, and the same command resumes. Under plain
mpirun, which kills its ranks 2 s after Ctrl-C, the checkpoint is written in the middle of a long step. A test holds steps and
clocks by files (support/failing_files.cpp)."""

import os
import shutil
import signal
import subprocess
import unittest

import h5py

from program import BUILD, MPIRUN, Case, Workspace, end, ranks_of, run
from waiting import contains, exit_status, wait_until, wait_until_recorded

SHIM = BUILD / "tests/libfailing_files.so"


def write_number(path, number):
    """Replaces the file at once: a process reads the old number or the new one."""
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").rename(path)


class Signals(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = Workspace(rows=30000)  # evaluations take nearly all of the time

    @classmethod
    def tearDownClass(cls):
        cls.large.remove()
        super().tearDownClass()

    def launch(self, path, before=()):
        process = subprocess.Popen([MPIRUN, "-n", "2", *map(str, before), str(BUILD / "bert_hpc"), str(path)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        self.addCleanup(end, process, path)
        return process

    def start(self, name, run=None, before=()):
        """An endless run on two ranks, some steps of which are recorded."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory), **(run or {})},
                               schedule={"name": "constant", "epochs": None, "steps": 1000000000, "warmup_ratio": None},
                               data={"validation": None})
        process = self.launch(path, before)
        wait_until_recorded(directory, 21, process, directory / "log.txt")
        self.assertEqual(len(ranks_of(path.name.encode())), 2)
        return directory, path, process

    def end(self, name, *numbers, rank=None):
        """Sends it the signals; the launcher's status."""
        directory, path, process = self.start(name)
        marker = path.name.encode()
        receiver = process.pid if rank is None else ranks_of(marker)[rank]
        os.kill(receiver, numbers[0])
        for number in numbers[1:]:
            try:
                os.kill(receiver, number)
            except ProcessLookupError:  # it was faster
                pass
        status = exit_status(process, "a run that is to end", directory / "log.txt")
        wait_until(lambda: ranks_of(marker) == [], "the end of all ranks")
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
        directory, path, status = self.end("killed", signal.SIGKILL, rank=0)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.check_results(directory, path)

    def latest(self, directory):
        return int((directory / "checkpoints" / "latest").read_text()[5:])

    def check_stopped(self, directory, path, status, *numbers):
        """Accepts each of the signals as the reported reason, because the order of arrival is open; without any it is the wall time."""
        self.assertEqual(status, 75)
        step = self.latest(directory)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "stopped")
            self.assertEqual(file["steps/step"][-1], step)
        self.assertEqual((directory / ".status").read_text(), "stopped\n")
        names = "|".join(signal.Signals(number).name + r" \(Ctrl-C\)" * (number == signal.SIGINT) for number in numbers)
        reason = f"on ({names})" if numbers else "before the wall-time limit"
        self.assertRegex((directory / "log.txt").read_text(), rf"stopped after step [\d,]+ {reason}; checkpoint written; run the same command, or submit the job again, to resume")
        # The same command resumes from that step.
        done = run("bert_hpc", path, "--set", f"schedule.steps={step + 3}", ranks=2, threads=1, check=0)
        self.assertIn(f"resuming from step {step:,} (", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(list(file["steps/step"]), list(range(1, step + 4)))

    def test_one_rank_that_is_asked_to_stop_stops_all(self):
        """The log names the signal, whichever rank received it."""
        for number, rank in ((signal.SIGTERM, 0), (signal.SIGINT, 1), (signal.SIGUSR1, 1)):
            directory, path, status = self.end(f"asked-{number}", number, rank=rank)
            self.check_stopped(directory, path, status, number)

    def test_asked_twice(self):
        directory, path, status = self.end("twice", signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, rank=0)
        self.check_stopped(directory, path, status, signal.SIGUSR1, signal.SIGTERM)

    def test_asked_until_it_is_gone(self):
        """As by a launcher that sends SIGTERM to the others once one has left: 75 it stays, up to the very end."""
        directory, path, process = self.start("until")
        ranks = ranks_of(path.name.encode())

        def all_are_gone():
            for rank in list(ranks):
                try:
                    os.kill(rank, signal.SIGTERM)
                except ProcessLookupError:
                    ranks.remove(rank)
            return not ranks
        wait_until(all_are_gone, "the end of all ranks")
        self.check_stopped(directory, path, exit_status(process, "the launcher"), signal.SIGTERM)

    def test_a_checkpoint_on_request(self):
        directory, path, process = self.start("usr2")
        for _ in range(2):
            before = self.latest(directory) if (directory / "checkpoints" / "latest").exists() else 0
            os.kill(process.pid, signal.SIGUSR2)  # the launcher hands it on to all ranks
            wait_until(lambda: (directory / "checkpoints" / "latest").exists() and self.latest(directory) != before,
                       "a checkpoint", process)
        os.kill(process.pid, signal.SIGUSR1)
        self.check_stopped(directory, path, exit_status(process, "a run that is asked to stop"), signal.SIGUSR1)

    def test_asked_while_it_evaluates(self):
        # Five windows of samples after every step of 16 take nearly all of the time.
        directory = self.large.folder / "evaluating"
        path = self.large.input("evaluating.toml", run={"directory": str(directory), "reproducible": True},
                                schedule={"name": "constant", "epochs": None, "steps": 1000000000, "warmup_ratio": None},
                                evaluation={"every_steps": 1}, batch={"global": 16})
        log = directory / "log.txt"
        for _ in range(2):
            process = self.launch(path)
            before = log.read_text().count("validation at step") if log.exists() else 0
            wait_until(lambda: contains(log, "validation at step", before + 2), "two evaluations", process, log)
            os.kill(process.pid, signal.SIGUSR1)
            self.assertEqual(exit_status(process, "a run that is asked to stop", log), 75)
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
        directory, shards = self.large.folder / "testing", self.large.folder / "shards"
        path = self.large.input("testing.toml", run={"directory": str(directory)}, batch={"global": 16},
                                data={"train": [f"{shards}/validation-*.h5"], "validation": None, "test": [f"{shards}/train-*.h5"]},
                                schedule={"name": "constant", "epochs": None, "steps": 10, "warmup_ratio": None})
        process = self.launch(path)
        # Written right before the test.
        wait_until((directory / "model" / "model.safetensors").exists, "the model", process, directory / "log.txt")
        os.kill(process.pid, signal.SIGUSR1)
        self.assertEqual(exit_status(process, "a run that is asked to stop", directory / "log.txt"), 75)
        self.assertEqual(self.latest(directory), 10)
        done = run("bert_hpc", path, ranks=2, threads=1, check=0)
        self.assertIn("resuming from step 10 (", done.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(list(file["steps/step"]), list(range(1, 11)))
            self.assertEqual(list(file["evaluations/test/step"]), [10])

    def test_the_wall_time_is_kept(self):
        """The clock jumps to the limit. Its rule: unit/app/test_wall_time.cpp."""
        if not SHIM.exists():
            self.skipTest("failing surroundings are not part of this build")
        ahead = self.work.folder / "ahead"
        directory, path, process = self.start("walltime", {"max_walltime": "1:00:00"},
                                              ["env", f"LD_PRELOAD={SHIM}", f"BERT_HPC_CLOCK_AHEAD={ahead}"])
        write_number(ahead, 3600)
        status = exit_status(process, "a run beyond its wall-time limit", directory / "log.txt")
        self.check_stopped(directory, path, status)


class LongSteps(Case):
    """A step ends once the test allows it, so that no step ends between mpirun's signals."""

    STEPS = 5

    @classmethod
    def setUpClass(cls):
        if not SHIM.exists():
            raise unittest.SkipTest("failing surroundings are not part of this build")
        super().setUpClass()
        path, directory = cls.input("undisturbed", 0.0)
        run("bert_hpc", path, ranks=2, threads=1, check=0)
        cls.expected = cls.results(directory)

    @classmethod
    def input(cls, name, delay=0.001, reproducible=True, **tables):
        directory = cls.work.folder / name
        schedule = {"name": "constant", "epochs": None, "steps": cls.STEPS, "warmup_ratio": None}
        path = cls.work.input(f"{name}.toml", run={"directory": str(directory), "reproducible": reproducible}, schedule=schedule,
                              data={"validation": None}, **{"debug": {"step_delay_seconds": delay}, **tables})
        return path, directory

    @staticmethod
    def results(directory):
        with h5py.File(directory / "metrics.h5") as file:
            return (list(file["steps/step"]), list(file["steps/loss"]), (directory / "model/model.safetensors").read_bytes())

    def start(self, path, directory, step, before=(), **variables):
        """Until that step is complete and recorded; the next one is then in flight and does not end. Variables are also those
        of the launcher."""
        self.steps = path.with_suffix(".steps")
        write_number(self.steps, step)
        self.output = path.with_suffix(".out")
        with open(self.output, "w") as output:
            process = subprocess.Popen([*before, MPIRUN, "-n", "2", "env", f"LD_PRELOAD={SHIM}", f"BERT_HPC_STEPS={self.steps}",
                                        str(BUILD / "bert_hpc"), str(path)], stdout=output, stderr=subprocess.STDOUT,
                                       env=dict(os.environ, OMP_NUM_THREADS="1", **variables), start_new_session=True)
        self.addCleanup(end, process, path)
        self.wait_for(f"step {step}/", process, directory)
        wait_until_recorded(directory, step, process, self.output)
        return process

    def allow(self, step):
        write_number(self.steps, step)

    def wait_for(self, words, process, directory):
        wait_until(lambda: contains(directory / "log.txt", words), f"'{words}'", process, self.output)

    def text_at_the_end(self, process):
        """Returns the status and the output."""
        return exit_status(process, "the run", self.output), self.output.read_text()

    def resume(self, path, directory):
        done = run("bert_hpc", path, "--set", "debug.step_delay_seconds=0.0", ranks=2, threads=1, check=0)
        self.assertEqual(self.results(directory), self.expected)
        self.assertEqual([name for name in os.listdir(directory / "checkpoints") if name.startswith(".")], [])
        return done.stdout

    def check_early(self, process, path, directory, held):
        """All that is written comes while the ranks live: mpirun's SIGKILL waits for it."""
        self.wait_for("SIGCONT received: mpirun may be ending this run (Ctrl-C, SIGTERM, timeout or a failed rank) and then kills "
                      "all ranks in 2 s. Writing a checkpoint of step 1 now", process, directory)
        self.wait_for("checkpoint step-00000001 is complete", process, directory)
        wait_until(lambda: (directory / ".status").read_text() == "stopped\n", "the status", process, self.output)
        held.unlink()
        status, output = self.text_at_the_end(process)
        self.assertNotEqual(status, 0)
        self.assertEqual((directory / "checkpoints/latest").read_text(), "step-00000001\n", output)
        self.assertNotIn("SIGTERM received", output)  # SIGCONT announced it
        self.assertEqual((directory / ".status").read_text(), "stopped\n")
        resumed = self.resume(path, directory)
        self.assertIn("resuming from step 1 (", resumed)
        self.assertNotIn("the earlier start", resumed)

    def start_with_a_held_kill(self, name, before=()):
        path, directory = self.input(name)
        held = path.with_suffix(".held")
        held.touch()
        process = self.start(path, directory, 1, before, LD_PRELOAD=str(SHIM), BERT_HPC_HOLD_SIGKILL=str(held))
        return process, path, directory, held

    def test_mpirun_is_interrupted(self):
        for name, send in (("keyboard", lambda process: os.killpg(process.pid, signal.SIGINT)),
                           ("terminated", lambda process: process.send_signal(signal.SIGTERM))):
            with self.subTest(name):
                started = self.start_with_a_held_kill(name)
                send(started[0])
                self.check_early(*started)

    def test_timeout(self):
        """Without --foreground, timeout signals mpirun directly and by its process group. If mpirun sees two signals rather
        than one, it kills the ranks at once."""
        started = self.start_with_a_held_kill("timeout", ("timeout", "--foreground", "--preserve-status", "100000"))
        started[0].send_signal(signal.SIGALRM)  # its time is over
        self.check_early(*started)

    def check_continued(self, path, directory, expected):
        process = self.start(path, directory, 1)
        for rank in ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGCONT)
        self.wait_for("checkpoint step-00000001 is complete", process, directory)
        self.allow(self.STEPS)
        status, output = self.text_at_the_end(process)
        self.assertEqual(status, 0, output)
        self.assertEqual(self.results(directory), expected)

    def test_a_job_that_is_continued(self):
        """SIGCONT comes then too: the checkpoint does no harm, and the run continues to the same bits."""
        path, directory = self.input("continued", checkpoint={"every_steps": 3, "keep": 9})
        self.check_continued(path, directory, self.expected)
        self.assertTrue((directory / "checkpoints/step-00000003").exists())

    def test_a_pipeline_that_is_continued(self):
        """The checkpoint's thread makes the updates of embeddings that wait for readers."""
        layout = {"reproducible": False, "parallel": {"pipeline": 2}}
        path, directory = self.input("pipeline", 0.0, **layout)
        run("bert_hpc", path, ranks=2, threads=1, check=0)
        self.check_continued(*self.input("pipeline-continued", **layout), self.results(directory))

    def test_a_rank_alone_completes_nothing(self):
        """The other ranks do not take part in its checkpoint; a later checkpoint of all ranks is complete."""
        path, directory = self.input("alone", checkpoint={"every_steps": 3})
        process = self.start(path, directory, 1)
        os.kill(ranks_of(path.name.encode())[0], signal.SIGCONT)
        wait_until((directory / "checkpoints/.writing-step-00000001/rank-0.written").exists, "its part", process, self.output)
        self.allow(self.STEPS)
        status, output = self.text_at_the_end(process)
        self.assertEqual(status, 0, output)
        self.assertNotIn("is complete", output)
        self.assertEqual(sorted(os.listdir(directory / "checkpoints")), ["latest", "step-00000003"])
        self.assertEqual(self.results(directory), self.expected)

    def kill(self, process, path):
        for pid in (*ranks_of(path.name.encode()), process.pid):
            os.kill(pid, signal.SIGKILL)
        exit_status(process, "a launcher that is killed")

    def test_killed_while_it_writes(self):
        """At any instant of the kill, the next start finds a complete checkpoint or none, never a partial one that looks complete."""
        path, directory = self.input("writing")
        folder = directory / "checkpoints"
        for instant, reached in (("at once", lambda: True), ("begun", lambda: list(folder.glob("*step-00000001"))),
                                 ("written", lambda: list(folder.glob("*step-00000001/rank-*"))),
                                 ("named", (folder / "step-00000001").exists)):
            with self.subTest(instant):
                process = self.start(path, directory, 1)
                for rank in ranks_of(path.name.encode()):
                    os.kill(rank, signal.SIGCONT)
                wait_until(reached, f"a checkpoint that is {instant}", process, self.output)
                self.kill(process, path)
                named = (folder / "step-00000001").exists()
                self.assertTrue(named or instant != "named")
                output = run("bert_hpc", path, "--validate", ranks=2, threads=1, check=0).stdout
                self.assertEqual("it would resume from step 1" in output, named)
                self.assertNotIn("is skipped", output)
                shutil.rmtree(directory)

    def test_killed_without_a_checkpoint(self):
        for name, every, step, words in (
                ("lost", 100, 1, "the earlier start was killed at step 1 or later, without a checkpoint: starting from the beginning"),
                ("older", 2, 3, "the earlier start was killed at step 3 or later; its last checkpoint is of step 2: "
                                "the steps after it are repeated")):
            path, directory = self.input(name, checkpoint={"every_steps": every})
            process = self.start(path, directory, min(every, step))
            if every == 2:
                # It gets its name once the ranks have agreed, with a step after it, or at once on SIGCONT.
                for rank in ranks_of(path.name.encode()):
                    os.kill(rank, signal.SIGCONT)
                wait_until((directory / "checkpoints/step-00000002").exists, "the checkpoint of step 2", process, self.output)
                self.allow(step)
                self.wait_for(f"step {step}/", process, directory)
                wait_until_recorded(directory, step, process, self.output)
            self.kill(process, path)
            self.assertEqual((directory / ".status").read_text(), "running\n")
            self.assertIn(f"warning: {words}", self.resume(path, directory))

    def test_a_short_run_saves_by_itself(self):
        """Neither key of [checkpoint] is set: 5% of the run's time are less than ten seconds, the shortest interval. The clock
        jumps by that during the second step."""
        path, directory = self.input("by-itself")
        ahead = path.with_suffix(".ahead")
        process = self.start(path, directory, 1, BERT_HPC_CLOCK_AHEAD=str(ahead))
        self.assertFalse(contains(directory / "log.txt", "checkpoint step-"))
        write_number(ahead, 10)
        self.allow(self.STEPS)
        self.assertEqual(exit_status(process, "the run", self.output), 0)
        text = (directory / "log.txt").read_text()
        self.assertEqual(text.count("checkpoint step-"), 1)
        self.assertIn("checkpoint step-00000002", text)


if __name__ == "__main__":
    unittest.main()
