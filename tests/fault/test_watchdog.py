"""A suspended rank: the other ranks name it after run.watchdog_seconds. The run continues when the rank does. It ends with
status 6 if the rank does not continue within run.watchdog_limit_seconds."""

import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import h5py

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS.parent / "postprocess")]
import program
from program import BUILD, MPIRUN
from reading import load_run
from waiting import LIMIT, exit_status, wait_for_pauses, wait_until

SHIM = BUILD / "tests" / "libfailing_files.so"
HOST = re.escape(socket.gethostname())


class Watchdog(program.Case):
    rows = 200

    def start(self, name, ranks, seconds, limit, first=(), **tables):
        """Starts a run and waits for some steps and heartbeats. Returns the process, its output so far, its marker and its
        directory. `seconds` is far more than a busy machine keeps a thread from running."""
        directory = self.work.folder / name
        path = self.work.input(f"{name}.toml", run={"directory": str(directory), "watchdog_seconds": seconds,
                                                    "watchdog_limit_seconds": limit},
                               data={"validation": None}, schedule={"epochs": None, "steps": 1000000000}, **tables)
        process = subprocess.Popen([MPIRUN, *first, "-n", str(ranks), str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, bufsize=1, start_new_session=True,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"))
        said = []
        reader = threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, "")))
        reader.start()
        self.reader = reader
        marker = path.name.encode()

        def end():
            for rank in program.ranks_of(marker):
                os.kill(rank, signal.SIGCONT)
                os.kill(rank, signal.SIGKILL)
            process.wait(timeout=LIMIT)
            reader.join()
            process.stdout.close()

        self.addCleanup(end)
        self.wait_for_lines("loss", 21, process, said)
        # A watchdog does not judge a rank before the first heartbeat of that rank: each thread sends before it waits, and
        # receives after it has waited.
        wait_for_pauses(program.ranks_of(marker), "watchdog", 3)
        return process, said, marker, directory

    def wait_for_lines(self, part, count, process, said):
        wait_until(lambda: len(self.lines(said, part)) >= count, f"{count} lines with '{part}'", process, said)

    def wait_for_rounds(self, marker, settings, seconds):
        """Waits until the watchdogs of all ranks have looked for heartbeats for so long. A round takes a twelfth of
        watchdog_seconds or more."""
        wait_for_pauses(program.ranks_of(marker), "watchdog", math.ceil(12 * seconds / settings) + 2)

    def lines(self, said, part):
        return [line for line in said if part in line]

    def stop(self, process, said):
        os.kill(process.pid, signal.SIGUSR1)
        self.assertEqual(exit_status(process, "a run that is asked to stop", said), 75)

    def test_stopped_for_a_while(self):
        for ranks, victim in ((2, 1), (2, 0)):
            with self.subTest(ranks=ranks, victim=victim):
                process, said, marker, directory = self.start(f"while-{ranks}-{victim}", ranks, 2.5, 10000)
                rank = program.ranks_of(marker)[victim]
                os.kill(rank, signal.SIGSTOP)
                self.wait_for_lines("no heartbeat", 1, process, said)
                steps = len(self.lines(said, "loss"))
                os.kill(rank, signal.SIGCONT)
                self.wait_for_lines("is back after", 1, process, said)
                self.wait_for_lines("loss", steps + 11, process, said)
                warnings = self.lines(said, "no heartbeat")
                self.assertEqual(len(warnings), 1, warnings)
                found = re.search(rf'warning: rank {victim} on {HOST} has sent no heartbeat for ([0-9.]+) s; '
                                  rf'it had finished step [\d,]+ and was in "[a-z -]+"\.', warnings[0])
                self.assertIsNotNone(found, warnings)
                self.assertGreaterEqual(float(found[1]), 2.5)
                if victim != 0:
                    self.assertIn("no heartbeat", (directory / "log.txt").read_text())
                self.stop(process, said)

    def test_stopped_for_ever(self):
        for ranks, victim, parallel in ((2, 0, {}), (4, 2, {"pipeline": 2, "tensor": 2})):
            with self.subTest(ranks=ranks, victim=victim):
                process, said, marker, directory = self.start(f"ever-{ranks}-{victim}", ranks, 0.5, 3, parallel=parallel,
                                                              checkpoint={"every_steps": 10})
                os.kill(program.ranks_of(marker)[victim], signal.SIGSTOP)
                self.assertEqual(exit_status(process, "a run with a stopped rank", said), 6, said[-10:])
                wait_until(lambda: program.ranks_of(marker) == [], "the end of all ranks")
                # The last lines may still be in the pipe when mpirun has ended.
                self.reader.join(timeout=LIMIT)
                self.assertEqual(len(self.lines(said, "bert_hpc: error")), 1, said[-20:])
                silence = rf"rank {victim} on {HOST} has sent no heartbeat for ([0-9.]+) s .*: the run is ended"
                found = re.search(silence, "".join(said))
                self.assertIsNotNone(found, said[-20:])
                self.assertGreaterEqual(float(found[1]), 3)
                self.assertEqual((directory / ".status").read_text(), "failed\n")
                # metrics.h5 may have another status, because rank 0 was ended, too: readers use the status in .status.
                self.assertEqual(load_run(directory, "run").status, "failed")
                # Nothing is lost but the steps since the last checkpoint.
                path = self.work.folder / f"ever-{ranks}-{victim}.toml"
                # The newest that is whole, which `latest` may not name yet: its folder is renamed before that file is.
                last = max(int(path.name[5:]) for path in (directory / "checkpoints").glob("step-*") if path.name[5:].isdigit())
                done = program.run("bert_hpc", path, "--set", f"schedule.steps={last + 2}", "--set", "parallel.pipeline=1",
                                   "--set", "parallel.tensor=1", ranks=2, threads=1, check=0)
                self.assertIn(f"resuming from step {last:,} (", done.stdout)
                with h5py.File(directory / "metrics.h5") as file:
                    self.assertEqual(file.attrs["status"], "finished")

    def test_a_main_thread_that_hangs(self):
        # The main thread of rank 0 hangs while its process lives: all ranks send heartbeats, and no rank makes progress.
        if not SHIM.exists():
            self.skipTest("failing surroundings are not part of this build")
        flag = self.work.folder / "hang"
        path = self.work.folder / "hangs.toml"
        first = ["-n", "1", "env", f"LD_PRELOAD={SHIM}", f"BERT_HPC_HANG={flag}", str(BUILD / "bert_hpc"), str(path), ":"]
        process, said, marker, _ = self.start("hangs", 1, 1.5, 2, first)
        flag.touch()
        self.wait_for_lines("no rank has made progress", 1, process, said)
        self.wait_for_rounds(marker, 1.5, 2)  # beyond the limit for ranks that are silent
        steps = len(self.lines(said, "loss"))
        flag.unlink()
        self.wait_for_lines("loss", steps + 11, process, said)
        self.wait_for_lines("make progress again", 1, process, said)
        warnings = self.lines(said, "no rank has made progress")
        self.assertEqual(len(warnings), 1, warnings)
        where = rf'(rank [01] on {HOST} is in "[a-z, -]+", rank [01] on {HOST} is|ranks 0, 1 are) in "[a-z, -]+"'
        found = re.search(rf"warning: no rank has made progress for ([0-9.]+) s after step [\d,]+: {where}\. All processes are alive",
                          warnings[0])
        self.assertIsNotNone(found, warnings)
        self.assertGreaterEqual(float(found[1]), 1.5)
        self.assertEqual(self.lines(said, "no heartbeat"), [])
        self.stop(process, said)

    def test_datagrams_that_arrive_no_more(self):
        # From some moment on the two ranks receive no heartbeat from each other. The run continues beyond the limit.
        if not SHIM.exists():
            self.skipTest("failing surroundings are not part of this build")
        flag = self.work.folder / "drop"
        shim = {"LD_PRELOAD": str(SHIM), "BERT_HPC_DROP_DATAGRAMS": str(flag)}
        process, said, marker, _ = self.start("datagrams", 2, 2, 3, [word for name, value in shim.items()
                                                                     for word in ("-x", f"{name}={value}")])
        flag.touch()
        self.wait_for_lines("have not reached", 2, process, said)
        self.wait_for_rounds(marker, 2, 3)
        steps = len(self.lines(said, "loss"))
        self.wait_for_lines("loss", steps + 11, process, said)
        warnings = self.lines(said, "have not reached")
        self.assertEqual(len(warnings), 2, warnings)
        for rank in range(2):
            line = rf"warning: the datagrams .* of rank {rank} on {HOST} have not reached rank {1 - rank} on {HOST} for"
            self.assertRegex("".join(warnings), line)
        self.assertEqual(self.lines(said, "no heartbeat"), [])
        self.stop(process, said)

    def test_a_job_that_is_suspended_as_a_whole(self):
        process, said, marker, _ = self.start("suspended", 2, 3, 4)
        ranks = program.ranks_of(marker)
        os.kill(ranks[1], signal.SIGSTOP)
        wait_for_pauses(ranks[:1], "watchdog", 2)  # rank 0 has received all that rank 1 has sent
        os.kill(ranks[0], signal.SIGSTOP)
        time.sleep(5)  # longer than the limit
        steps = len(self.lines(said, "loss"))
        os.kill(ranks[0], signal.SIGCONT)
        wait_for_pauses(ranks[:1], "watchdog", 2)  # rank 0 has looked for heartbeats of rank 1
        os.kill(ranks[1], signal.SIGCONT)
        self.wait_for_lines("loss", steps + 11, process, said)
        wait_for_pauses(ranks, "watchdog", 10)
        self.assertEqual(self.lines(said, "heartbeat"), [])
        self.stop(process, said)


if __name__ == "__main__":
    unittest.main()
