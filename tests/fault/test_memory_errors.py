"""A bit that flips in the parameters of a running rank, as memory without error correction does: with debug.parameter_hash_every
the run ends with status 5 and names rank and tensor; what was saved before is good. The bit is flipped from outside, through
/proc/PID/mem. The learning rate is so small that weights keep their bits, by which they are found there."""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from program import BUILD, MPIRUN, Case, ranks_of, run
from waiting import exit_status, recorded_steps, wait_until

TENSOR = "bert.encoder.layer.1.intermediate.dense.weight"


def tensor_bytes(folder, name):
    content = (folder / "model.safetensors").read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    first, last = json.loads(content[8:begin])[name]["data_offsets"]
    return content[begin + first:begin + last]


def addresses_of(process, wanted):
    """Returns the addresses of these bytes, with any first byte, in the memory that the process can write."""
    found = []
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            if not fields[1].startswith("rw") or "[v" in line:
                continue
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except OSError:  # a device's
                continue
            at = content.find(wanted[1:])
            while at > 0:
                found.append(begin + at - 1)
                at = content.find(wanted[1:], at + 1)
    return found


def flip(process, addresses):
    with open(f"/proc/{process}/mem", "r+b", 0) as memory:
        for address in addresses:
            memory.seek(address)
            byte = memory.read(1)[0]
            memory.seek(address)
            memory.write(bytes([byte ^ 1]))


class MemoryErrors(Case):
    def input_for(self, name, steps, **tables):
        directory = self.work.folder / name
        tables = {"debug": {"parameter_hash_every": 1}, "log": {"every_steps": 100}} | tables
        return directory, self.work.input(f"{name}.toml", run={"directory": str(directory)}, data={"validation": None},
                                          optimizer={"learning_rate": 1e-30, "weight_decay": 0.0},
                                          schedule={"name": "constant", "epochs": None, "steps": steps, "warmup_ratio": None},
                                          **tables)

    def test_a_flipped_bit_ends_the_run(self):
        seed, path = self.input_for("seed", 1)
        run("bert_hpc", path, threads=1, check=0)
        weights = tensor_bytes(seed / "model", TENSOR)
        wanted = weights[len(weights) // 2:][:64]
        for name, ranks, parallel in (("copies", 2, {"zero": 0}), ("shared", 2, {"zero": 1}), ("stages", 2, {"pipeline": 2}),
                                      ("many", 4, {"zero": 0})):
            with self.subTest(name):
                directory, path = self.input_for(name, 10000000, parallel=parallel)
                with subprocess.Popen([MPIRUN, "-n", str(ranks), str(BUILD / "bert_hpc"), str(path)], text=True,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      env=dict(os.environ, OMP_NUM_THREADS="1")) as process:
                    try:
                        marker = path.name.encode()
                        wait_until(lambda: (directory / "metrics.h5").exists() and len(ranks_of(marker)) == ranks,
                                   f"metrics.h5 of {ranks} ranks", process)
                        victim = ranks_of(marker)[-1]
                        # The requested checkpoint is complete before a bit is flipped: its snapshot is found in memory too.
                        os.kill(victim, signal.SIGUSR2)
                        wait_until((directory / "checkpoints/latest").exists, "a checkpoint", process)

                        def ended_by_a_flip():
                            """A flip between an update and the hash of its result cannot be detected: the next one is."""
                            try:
                                flip(victim, addresses_of(victim, wanted))
                            except OSError:  # it is gone
                                return True
                            steps = recorded_steps(directory)
                            wait_until(lambda: process.poll() is not None or recorded_steps(directory) > steps + 1, "two more records")
                            return process.poll() is not None
                        wait_until(ended_by_a_flip, "a rank that notices the flipped bit")
                        exit_status(process, "a run with a flipped bit")
                    finally:
                        process.kill()
                    message = " ".join(process.stderr.read().split())
                self.assertEqual(process.returncode, 5, message)
                self.assertEqual(message.count("bert_hpc: error"), 1, message)
                self.assertIn("a parameter's bits changed unexpectedly", message)
                who = "[01]" if name == "shared" else ranks - 1  # of memory that both map, the first to look says so
                self.assertRegex(message, rf"rank {who}: {re.escape(TENSOR)} (has changed between updates|differs from)")
                # The earlier checkpoints are good. The same command resumes from them with the original bit.
                step = int((directory / "checkpoints/latest").read_text()[5:])
                done = run("bert_hpc", path, "--set", f"schedule.steps={step + 5}", ranks=ranks, threads=1, check=0)
                self.assertIn(f"resuming from step {step:,} (", done.stdout)
                self.assertEqual(tensor_bytes(directory / "model", TENSOR), weights)


if __name__ == "__main__":
    unittest.main()
