"""A faulty environment: clocks that jump, file locks that are not available, an output without a reader, shards that change,
ranks with an old view of the disk, too little memory on one rank, a directory that not even the superuser may write."""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import program
from program import BUILD, MPIRUN
from waiting import LIMIT, exit_status, recorded_steps, wait_until, wait_until_recorded

SHIM = BUILD / "tests/libfailing_files.so"
CONSTANT = {"name": "constant", "warmup_ratio": None}


def weights(directory):
    return hashlib.sha256((directory / "model" / "model.safetensors").read_bytes()).hexdigest()


class Surroundings(program.Case):
    rows = 200

    def path(self, name, steps=10, **tables):
        directory = self.work.folder / name
        run = {"directory": str(directory), "reproducible": True} | tables.pop("run", {})
        schedule = CONSTANT | {"epochs": None, "steps": steps} | tables.pop("schedule", {})
        return self.work.input(f"{name}.toml", run=run, schedule=schedule, **({"data": {"validation": None}} | tables)), directory

    def whole(self):
        path, directory = self.path("whole")
        if not directory.exists():
            program.run("bert_hpc", path, threads=1, check=0)
        return weights(directory)

    def shim(self, **variables):
        if not SHIM.exists():
            self.skipTest("failing surroundings are not part of this build")
        return ["env", f"LD_PRELOAD={SHIM}", *(f"{name}={value}" for name, value in variables.items())]

    def run_command(self, command, check=0, **more):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT,
                              env=dict(os.environ, OMP_NUM_THREADS="1"), **more)
        self.assertEqual(done.returncode, check, done.stdout[-3000:] + done.stderr[-3000:])
        return done

    def launch(self, path, command=()):
        """Starts a run on two ranks. Returns the process; its output is in the file beside the input."""
        self.output = path.with_suffix(".out")
        with open(self.output, "w") as output:
            process = subprocess.Popen([MPIRUN, "-n", "2", *map(str, command), str(BUILD / "bert_hpc"), str(path)], stdout=output,
                                       stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.addCleanup(program.end, process, path)
        return process

    def stopped_status(self, process):
        process.send_signal(signal.SIGUSR1)
        return exit_status(process, "a run that is asked to stop", self.output)

    def test_clocks_that_jump(self):
        # The wall clock jumps by ten days, back and forth, at each reading: neither the wall-time limit nor the checkpoints by
        # minutes follow it. The steady clock, which they follow, then jumps beyond both.
        ahead = self.work.folder / "ahead"
        hour = 3600
        path, directory = self.path("clock", steps=1000000000, run={"max_walltime": "1:00:00"}, checkpoint={"every_minutes": 30.0})
        process = self.launch(path, self.shim(BERT_HPC_CLOCK_JUMPS=864000, BERT_HPC_CLOCK_AHEAD=ahead))
        begin = time.monotonic()
        wait_until_recorded(directory, 100, process, self.output)
        self.assertEqual(self.output.read_text().count("checkpoint step-"), 0)
        (self.work.folder / "new").write_text(str(hour))
        (self.work.folder / "new").rename(ahead)
        self.assertEqual(exit_status(process, "a run beyond its wall-time limit", self.output), 75)
        taken = time.monotonic() - begin
        text = self.output.read_text()
        self.assertRegex(text, r"stopped after step [\d,]+ before the wall-time limit; checkpoint written")
        self.assertEqual(len(re.findall(r"^checkpoint step-", text, re.M)), 1)  # the last one
        with h5py.File(directory / "metrics.h5") as file:
            seconds = file["steps/seconds"][:]
            self.assertEqual(file.attrs["status"], "stopped")
        self.assertGreaterEqual(seconds.min(), 0)
        self.assertLess(seconds.sum(), taken + hour)

    def test_locks_that_are_not_there(self):
        path, directory = self.path("unlocked", checkpoint={"every_steps": 3})
        self.run_command([MPIRUN, "-n", 2, *self.shim(BERT_HPC_FAIL_LOCKS=1), BUILD / "bert_hpc", path])
        self.assertEqual(weights(directory), self.whole())
        (directory / ".status").write_text("running\n")
        done = self.run_command([*self.shim(BERT_HPC_FAIL_LOCKS=1), BUILD / "bert_hpc", path, "--set", "schedule.steps=12"])
        self.assertIn("resuming from step 9 (", done.stdout)

    def test_outputs_that_are_closed(self):
        path, directory = self.path("closed", checkpoint={"every_steps": 3})
        self.run_command(["bash", "-c", f"exec '{BUILD}/bert_hpc' '{path}' <&- >&- 2>&-"])
        self.assertEqual(weights(directory), self.whole())
        self.assertIn("checkpoint step-00000009", (directory / "log.txt").read_text())
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(len(file["steps/step"]), 10)

    def test_a_reader_that_goes_away(self):
        path, directory = self.path("gone")
        self.run_command(["bash", "-c", f"set -o pipefail; '{BUILD}/bert_hpc' '{path}' | head -n 2"])
        self.assertEqual(weights(directory), self.whole())

    def test_metrics_held_open(self):
        path, directory = self.path("held", steps=1000000000)
        process = self.launch(path)
        wait_until((directory / "metrics.h5").exists, "metrics.h5", process, self.output)
        held = h5py.File(directory / "metrics.h5")
        before = (directory / "metrics.h5").stat().st_ino
        wait_until_recorded(directory, 20, process, self.output)
        self.assertEqual(self.stopped_status(process), 75)
        self.assertNotEqual((directory / "metrics.h5").stat().st_ino, before)
        self.assertEqual(held.attrs["status"], "running")  # still the whole file of then
        held.close()
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "stopped")

    def test_a_shard_that_changes_while_it_is_read(self):
        shards = self.work.folder / "own-shards"
        shutil.copytree(self.work.folder / "shards", shards)
        for how in ("truncated", "replaced"):
            path, directory = self.path(f"shard-{how}", steps=1000000000,
                                        data={"train": [f"{shards}/train-*.h5"], "validation": None})
            process = self.launch(path)
            wait_until_recorded(directory, 50, process, self.output)
            shard = shards / "train-00000.h5"
            content = shard.read_bytes()
            if how == "truncated":
                os.truncate(shard, len(content) // 2)
            else:
                shutil.copy(shards / "test-00000.h5", shard)
            # The run continues with the data that it has read.
            wait_until_recorded(directory, recorded_steps(directory) + 50, process, self.output)
            self.assertEqual(self.stopped_status(process), 75, self.output.read_text()[-3000:])
            # The resumed run reports the changed shard.
            done = program.run("bert_hpc", path, ranks=2, threads=1, check=3 if how == "truncated" else 2)
            self.assertIn("train-00000.h5", done.stderr)
            shard.write_bytes(content)
            last = int((directory / "checkpoints/latest").read_text()[5:])
            done = program.run("bert_hpc", path, "--set", f"schedule.steps={last + 1}", ranks=2, threads=1, check=0)
            self.assertIn(f"resuming from step {last:,} (", done.stdout)

    def test_ranks_that_would_load_different_steps(self):
        path, directory = self.path("views", checkpoint={"every_steps": 4})
        program.run("bert_hpc", path, ranks=2, threads=1, check=0)
        (directory / ".status").write_text("running\n")
        # Rank 1 finds the checkpoint of step 4 where that of step 8 should be.
        old_view = self.shim(BERT_HPC_STALE="step-00000008=step-00000004")
        done = self.run_command([MPIRUN, "-n", 1, BUILD / "bert_hpc", path, ":", "-n", 1, *old_view, BUILD / "bert_hpc", path])
        self.assertRegex(done.stdout, r"step-00000008 is skipped\. .*rank-0000\d\.h5")
        self.assertIn("resuming from step 4 (", done.stdout)
        self.assertEqual(weights(directory), self.whole())

    def test_too_little_memory_on_one_rank(self):
        small, directory = self.path("small", steps=1000000000)
        process = self.launch(small)
        wait_until_recorded(directory, 20, process, self.output)
        status = pathlib.Path(f"/proc/{program.ranks_of(b'small.toml')[1]}/status").read_text()
        used = int(re.search(r"VmPeak:\s+(\d+) kB", status)[1])
        self.stopped_status(process)
        model = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 4}
        # While all is set up; then in the optimizer's moments, when the run has begun.
        for more, left in ((100000, False), (550000, True)):
            path, directory = self.path(f"large{more}", model=model)
            limited = ["bash", "-c", f"ulimit -v {used + more}; exec '{BUILD}/bert_hpc' '{path}'"]
            done = self.run_command([MPIRUN, "-n", 1, BUILD / "bert_hpc", path, ":", "-n", 1, *limited], check=2)
            self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
            self.assertIn("out of memory", done.stderr)
            self.assertRegex(done.stderr, r"rank 1 on")
            self.assertEqual(program.ranks_of(f"large{more}.toml".encode()), [])
            self.assertEqual((directory / ".status").exists(), left)
            if left:
                self.assertEqual((directory / ".status").read_text().strip(), "failed")

    def test_a_rank_alone_needs_no_temporary_directory(self):
        """Without a launcher. Open MPI would give all such processes of a user one directory, which the first that ends removes."""
        nothing = self.work.folder / "nothing"
        nothing.write_text("a file\n")
        path, _ = self.path("alone")
        self.run_command(["env", f"TMPDIR={nothing}", BUILD / "bert_hpc", path])

    def test_a_directory_that_no_user_may_write(self):
        folder = self.work.folder / "read-only"
        folder.mkdir()
        # A read-only mount in a separate namespace refuses the superuser, too.
        mount = f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"
        alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        if subprocess.run([*alone, "sh", "-c", mount], capture_output=True).returncode != 0:
            self.skipTest("this user may not mount a folder here")
        for name in ("run", "not/yet/there"):
            path, _ = self.path("ro", run={"directory": str(folder / name)})
            done = self.run_command([*alone, "sh", "-c", f"{mount} && exec '{MPIRUN}' -n 2 '{BUILD}/bert_hpc' '{path}'"], check=4)
            self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
            self.assertIn(str(folder), done.stderr)
            self.assertIn("Read-only file system", done.stderr)


if __name__ == "__main__":
    unittest.main()
