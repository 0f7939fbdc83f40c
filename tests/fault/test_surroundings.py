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
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, OMP_NUM_THREADS="1"), **more)
        self.assertEqual(done.returncode, check, done.stdout[-3000:] + done.stderr[-3000:])
        return done

    def test_clocks_that_jump(self):
        # The clock jumps by ten days, back and forth, five times a second. This changes neither the wall-time limit nor
        # the checkpoints by minutes.
        path, directory = self.path("clock", steps=10000000, run={"max_walltime": "0:08"}, checkpoint={"every_minutes": 1.0})
        begin = time.monotonic()
        done = self.run_command([MPIRUN, "-n", 2, *self.shim(BERT_HPC_CLOCK_JUMPS=864000), BUILD / "bert_hpc", path], check=75)
        taken = time.monotonic() - begin
        self.assertGreater(taken, 3.5)
        self.assertLess(taken, 14)
        self.assertEqual(len(re.findall(r"^checkpoint step-", done.stdout, re.M)), 1)  # the last one
        with h5py.File(directory / "metrics.h5") as file:
            seconds = file["steps/seconds"][:]
            self.assertEqual(file.attrs["status"], "stopped")
        self.assertGreaterEqual(seconds.min(), 0)
        self.assertLess(seconds.sum(), taken)

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
        path, directory = self.path("held", steps=10000000)
        process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while not (directory / "metrics.h5").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        held = h5py.File(directory / "metrics.h5")
        before = (directory / "metrics.h5").stat().st_ino
        time.sleep(1)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75, process.stderr.read())
        process.stderr.close()
        self.assertNotEqual((directory / "metrics.h5").stat().st_ino, before)
        self.assertEqual(held.attrs["status"], "running")  # still the whole file of then
        held.close()
        with h5py.File(directory / "metrics.h5") as file:
            self.assertEqual(file.attrs["status"], "stopped")

    def test_a_shard_that_changes_while_it_is_read(self):
        shards = self.work.folder / "own-shards"
        shutil.copytree(self.work.folder / "shards", shards)
        for how in ("truncated", "replaced"):
            path, directory = self.path(f"shard-{how}", steps=10000000,
                                        data={"train": [f"{shards}/train-*.h5"], "validation": None})
            process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
            self.addCleanup(process.kill)
            deadline = time.monotonic() + 30
            while not (directory / "metrics.journal").exists() or (directory / "metrics.journal").stat().st_size < 10000:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            shard = shards / "train-00000.h5"
            content = shard.read_bytes()
            if how == "truncated":
                os.truncate(shard, len(content) // 2)
            else:
                shutil.copy(shards / "test-00000.h5", shard)
            time.sleep(0.5)
            process.send_signal(signal.SIGUSR1)  # the run continues with the data that it has read
            self.assertEqual(process.wait(timeout=60), 75, process.stderr.read())
            process.stderr.close()
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
        small, _ = self.path("small", steps=10000000)
        process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(small)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while len(program.ranks_of(b"small.toml")) < 2 or not (self.work.folder / "small/metrics.h5").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        status = pathlib.Path(f"/proc/{program.ranks_of(b'small.toml')[1]}/status").read_text()
        used = int(re.search(r"VmPeak:\s+(\d+) kB", status)[1])
        process.send_signal(signal.SIGUSR1)
        process.wait(timeout=60)
        model = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 4}
        # While all is set up; then in the optimizer's moments, when the run has begun.
        for more, left in ((100000, False), (550000, True)):
            path, directory = self.path(f"large{more}", model=model)
            begin = time.monotonic()
            limited = ["bash", "-c", f"ulimit -v {used + more}; exec '{BUILD}/bert_hpc' '{path}'"]
            done = self.run_command([MPIRUN, "-n", 1, BUILD / "bert_hpc", path, ":", "-n", 1, *limited], check=2)
            self.assertLess(time.monotonic() - begin, 60)
            self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
            self.assertIn("out of memory", done.stderr)
            self.assertRegex(done.stderr, r"rank 1 on")
            self.assertEqual(program.ranks_of(f"large{more}.toml".encode()), [])
            self.assertEqual((directory / ".status").exists(), left)
            if left:
                self.assertEqual((directory / ".status").read_text().strip(), "failed")

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
