"""[log] tensorboard: the event files hold the values of metrics.h5, each step once, also after a kill and a resume.
The test reads them with its own reader, and with TensorBoard's where the running Python has it."""

import os
import pathlib
import signal
import struct
import subprocess
import time
import unittest

import h5py
import numpy as np

import program
from program import BUILD, MPIRUN
from waiting import exit_status, wait_until


def crc32c(data):
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def masked(data):
    checksum = crc32c(data)
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def payloads(data):
    offset = 0
    while offset < len(data):
        size, = struct.unpack_from("<Q", data, offset)
        payload = data[offset + 12:offset + 12 + size]
        checksums = struct.unpack_from("<I", data, offset + 8) + struct.unpack_from("<I", data, offset + 12 + size)
        if checksums != (masked(data[offset:offset + 8]), masked(payload)):
            raise ValueError(f"a record at {offset} with a wrong checksum")
        yield payload
        offset += 16 + size


def varint(message, offset):
    value = shift = 0
    while True:
        value |= (message[offset] & 127) << shift
        offset, shift = offset + 1, shift + 7
        if message[offset - 1] < 128:
            return value, offset


def fields(message):
    """(number, value) of a protobuf message; numbers of 32 and 64 bits as floats."""
    offset = 0
    while offset < len(message):
        key, offset = varint(message, offset)
        if key & 7 == 0:
            value, offset = varint(message, offset)
        elif key & 7 == 2:
            size, offset = varint(message, offset)
            value, offset = message[offset:offset + size], offset + size
        else:
            kind, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            value, offset = struct.unpack_from(kind, message, offset)[0], offset + size
        yield key >> 3, value


def event_files(directory):
    return sorted((directory / "tensorboard").iterdir())


def read_curves(directory):
    """tag → [(step, value, wall time)] of the last event file; of one before it an empty one may be left."""
    *before, path = event_files(directory)
    if [file.stat().st_size for file in before] not in ([], [0]):
        raise ValueError(f"more than one file with curves: {before}, {path}")
    curves = {}
    versions = []
    for payload in payloads(path.read_bytes()):
        event = dict(fields(payload))
        if 3 in event:
            versions.append(event[3])
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            curves.setdefault(value[1].decode(), []).append((event.get(2, 0), value[2], event[1]))
    if versions != [b"brain.Event:2"]:
        raise ValueError(f"not the event file's version: {versions}")
    return curves


def rows_as_curves(directory):
    """tag → (steps, values) that metrics.h5 asks for."""
    with h5py.File(directory / "metrics.h5") as file:
        steps = {name: file[f"steps/{name}"][:] for name in file["steps"]}
        curves = {f"train/{name}": (steps["step"], steps[name]) for name in ("loss", "learning_rate", "gradient_norm")}
        for name in ("samples", "tokens"):
            curves[f"train/{name}_per_second"] = (steps["step"], steps[name] / steps["seconds"])
        if "loss_scale" in file:
            curves["train/loss_scale"] = (file["loss_scale/step"][:], file["loss_scale/scale"][:])
        for split, group in file["evaluations"].items():
            for name in set(group) - {"step", "confusion_matrix", "per_class"}:
                curves[f"{split}/{name}"] = (group["step"][:], group[name][:])
    return curves


class EventFiles(program.Case):
    rows = 200

    def path(self, name, **tables):
        directory = self.work.folder / name
        shards = self.work.folder / "shards"
        run = {"directory": str(directory), "reproducible": True}
        return self.work.input(f"{name}.toml", **({
            "run": run, "log": {"every_steps": 1, "tensorboard": True}, "data": {"test": [f"{shards}/test-*.h5"]},
            "schedule": {"name": "constant", "epochs": None, "steps": 8, "warmup_ratio": None},
            "evaluation": {"every_steps": 4}} | tables)), directory

    def check(self, directory, begin):
        """Every row of metrics.h5 is there once, in order, with a time from the test's begin on. The curves."""
        curves, expected = read_curves(directory), rows_as_curves(directory)
        self.assertEqual(sorted(curves), sorted(expected))
        for tag, (steps, values) in expected.items():
            self.assertEqual([point[0] for point in curves[tag]], list(steps), tag)
            np.testing.assert_array_equal([point[1] for point in curves[tag]], values.astype(np.float32), err_msg=tag)
            times = [point[2] for point in curves[tag]]
            self.assertEqual(times, sorted(times), tag)
            self.assertGreaterEqual(times[0], begin, tag)
            self.assertLessEqual(times[-1], time.time(), tag)
        return curves

    def killed(self, name):
        """A run on two ranks that is killed some steps after its first checkpoint; its input and its last recorded step."""
        path, directory = self.path(name, checkpoint={"every_steps": 6},
                                    schedule={"name": "constant", "epochs": None, "steps": 1000000000, "warmup_ratio": None})
        process = subprocess.Popen([MPIRUN, "-n", "2", str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"),
                                   start_new_session=True)
        self.addCleanup(process.kill)
        wait_until((directory / "checkpoints/latest").exists, "a checkpoint", process)
        for rank in program.ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGKILL)
        exit_status(process, "a launcher whose ranks are killed")
        return path, directory

    def test_a_run_and_one_that_was_killed_and_went_on(self):
        begin = time.time()
        path, directory = self.killed("killed")
        before, = event_files(directory)
        with open(before, "ab") as file:
            file.write(b"\x20\0\0\0\0")  # torn, as by the kill
        # The newest checkpoint: the kill may have come before the pointer to it was written.
        last = max(int(folder.name[5:]) for folder in (directory / "checkpoints").glob("step-" + 8 * "[0-9]")) + 6
        goes_on = program.run("bert_hpc", path, "--set", f"schedule.steps={last}", threads=1, check=0)
        self.assertIn(f"resuming from step {last - 6}", goes_on.stdout)
        curves = self.check(directory, begin)
        self.assertEqual([point[0] for point in curves["train/loss"]], list(range(1, last + 1)))
        self.assertIn("validation/accuracy", curves)
        self.assertIn("test/loss", curves)
        self.assertGreater(event_files(directory)[-1].name, before.name)
        # The curves equal those of an uninterrupted run, except for speeds, which follow from measured times.
        path, undisturbed = self.path("undisturbed", schedule={"name": "constant", "epochs": None, "steps": last,
                                                               "warmup_ratio": None})
        program.run("bert_hpc", path, ranks=2, threads=1, check=0)
        whole = self.check(undisturbed, begin)
        self.assertEqual(sorted(whole), sorted(curves))
        for tag in set(whole) - {"train/samples_per_second", "train/tokens_per_second"}:
            self.assertEqual([point[:2] for point in whole[tag]], [point[:2] for point in curves[tag]], tag)

    def test_overwrite_starts_new_event_files_and_off_writes_none(self):
        begin = time.time()
        path, directory = self.path("overwritten", precision={"compute": "fp16"}, data={"test": []}, run={
            "directory": str(self.work.folder / "overwritten")})
        program.run("bert_hpc", path, threads=1, check=0)
        self.assertIn("train/loss_scale", self.check(directory, begin))
        program.run("bert_hpc", path, "--overwrite", "--set", "schedule.steps=3", threads=1, check=0)
        self.assertEqual([point[0] for point in self.check(directory, begin)["train/loss"]], [1, 2, 3])
        program.run("bert_hpc", path, "--overwrite", "--set", "schedule.steps=3", "--set", "log.tensorboard=false",
                    threads=1, check=0)
        self.assertFalse((directory / "tensorboard").exists())

    def test_tensorboard_itself_reads_them(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("this Python has no tensorboard")
        path, directory = self.path("read")
        program.run("bert_hpc", path, threads=1, check=0)
        accumulator = EventAccumulator(str(directory / "tensorboard"), size_guidance={"scalars": 0})
        accumulator.Reload()
        curves = read_curves(directory)
        self.assertEqual(sorted(accumulator.Tags()["scalars"]), sorted(curves))
        for tag, points in curves.items():
            self.assertEqual([(event.step, event.value, event.wall_time) for event in accumulator.Scalars(tag)], points)


if __name__ == "__main__":
    unittest.main()
