"""Signals to a program that has just started, and to one that evaluates or predicts. The program exits with status 75 and
leaves no partial file, or it continues. The same command then gives the results of an uninterrupted run."""

import errno
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import h5py

from program import BUILD, MPIRUN, Case, end, ranks_of, run
from waiting import LIMIT, wait_until, wait_until_recorded

STOPS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


def listens(rank):
    """Has it come as far as its handlers? Before, the system's loader is at work, for some hundredths of a second."""
    try:
        status = pathlib.Path(f"/proc/{rank}/status").read_text()
    except OSError:
        return False
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return all(caught >> (number - 1) & 1 for number in (*STOPS, signal.SIGUSR2))


def results(directory):
    """Returns hashes of the run's results."""
    found = {}
    for name in ("model/model.safetensors", "predictions.h5"):
        path = directory / name
        if path.suffix == ".h5" and path.exists():
            with h5py.File(path) as file:
                found[name] = {key: file[key][:].tobytes() for key in file}
        elif path.exists():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    with h5py.File(directory / "metrics.h5") as file:
        found["evaluations"] = {split: file[f"evaluations/{split}/loss"][:].tobytes() for split in file["evaluations"]}
    return found


class SignalsAtTheStart(Case):
    rows = 3000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.inputs = {mode: cls.input(mode, f"undisturbed-{mode}") for mode in ("train", "evaluate", "predict")}
        cls.expected = {}
        for mode, (path, directory) in cls.inputs.items():  # the others take the first one's model
            run("bert_hpc", path, threads=1, check=0)
            cls.expected[mode] = results(directory)

    @classmethod
    def input(cls, mode, name, **more):
        folder, shards = cls.work.folder, cls.work.folder / "shards"
        tables = {"run": {"mode": mode, "directory": str(folder / name), "reproducible": True},
                  "schedule": {"name": "constant", "epochs": None, "steps": 150, "warmup_ratio": None}}
        if mode != "train":
            tables = {"run": tables["run"], "model": None, "schedule": None, "optimizer": None,
                      "data": {"train": None, "validation": None, "test": [f"{shards}/train-*.h5"]}}
        path = cls.work.input(f"{name}.toml", **tables, **more)
        if mode != "train":
            path.write_text(path.read_text() + f'[model]\npretrained = "{folder}/undisturbed-train/model"\n')
        return path, folder / name

    def launch(self, path, ranks=2, before=()):
        command = [*map(str, before), str(BUILD / "bert_hpc"), str(path)]
        if ranks > 1:
            command = [MPIRUN, "-n", str(ranks), *command]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        self.addCleanup(end, process, path)
        return process

    def open_pipe(self, pipe, process):
        """To write to it, once the program reads from it."""
        def opened():
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                self.assertEqual(error.errno, errno.ENXIO)  # no process reads the pipe yet
                return None
        writer = wait_until(opened, f"a reader of {pipe}", process)
        os.set_blocking(writer, True)
        return writer

    def wait_for_ranks(self, path, process, count=2):
        def ready():
            ranks = [rank for rank in ranks_of(path.name.encode()) if listens(rank)]
            return ranks if len(ranks) >= count else None
        return wait_until(ready, f"{count} ranks", process)

    def test_while_it_waits_for_its_input(self):
        """An input that is a pipe blocks the start, so the instant is certain: only MPI is initialised."""
        for mode, (path, _) in self.inputs.items():
            text = path.read_text()
            for number in (*STOPS, signal.SIGUSR2) if mode == "train" else (signal.SIGUSR1, signal.SIGUSR2):
                with self.subTest(f"{mode}, {number.name}"):
                    directory = self.work.folder / f"held-{mode}-{number.name}"
                    pipe = directory.with_suffix(".toml")
                    os.mkfifo(pipe)
                    process = self.launch(pipe)
                    writer = self.open_pipe(pipe, process)
                    for rank in self.wait_for_ranks(pipe, process):
                        os.kill(rank, number)
                    os.write(writer, text.replace(f"undisturbed-{mode}\"", f"{directory.name}\"").encode())
                    os.close(writer)
                    output = process.communicate(timeout=LIMIT)[0]
                    if number == signal.SIGUSR2:
                        self.assertEqual(process.returncode, 0, output)
                        self.assertEqual(results(directory), self.expected[mode])
                    else:
                        self.assertEqual(process.returncode, 75, output)
                        self.assertRegex(output, rf"stopped on {number.name}( \(Ctrl-C\))? before the first step: give the same command", output)
                        self.assertFalse(directory.exists())

    def ask(self, ranks, number):
        for rank in ranks:
            try:
                os.kill(rank, number)
            except ProcessLookupError:  # it was faster
                pass

    def check_end(self, process, path, directory, mode, ranks, statuses):
        output = process.communicate(timeout=LIMIT)[0]
        self.assertEqual(ranks_of(path.name.encode()), [])
        self.assertIn(process.returncode, statuses, output)
        if process.returncode == 75:
            self.assertIn("stopped", output)
            self.assertFalse((directory / "predictions.h5").exists())
            if directory.exists() and os.listdir(directory):  # empty before it began
                self.assertEqual((directory / ".status").read_text(), "stopped\n")
            run("bert_hpc", path, ranks=ranks, threads=1, check=0)
        self.assertEqual(results(directory), self.expected[mode])

    SIGNALS = ((signal.SIGUSR1, 2), (signal.SIGTERM, 2), (signal.SIGINT, 2), (signal.SIGUSR2, 1))

    def test_at_any_instant(self):
        draw = random.Random(29)
        for mode in self.inputs:
            for number, ranks in self.SIGNALS:
                path, directory = self.input(mode, f"{mode}-{draw.getrandbits(32)}")
                process = self.launch(path, ranks)
                found = self.wait_for_ranks(path, process, ranks)
                instant = draw.uniform(0, 1)
                with self.subTest(f"{mode}, {number.name} to {ranks} after {instant:.3f} s"):
                    time.sleep(instant)
                    self.ask(found, number)
                    self.check_end(process, path, directory, mode, ranks, (0,) if number == signal.SIGUSR2 else (0, 75))

    def test_at_any_step(self):
        """A step that ends once the test allows it: the run stops after that step."""
        shim = BUILD / "tests/libfailing_files.so"
        if not shim.exists():
            self.skipTest("failing surroundings are not part of this build")
        for step, (number, ranks) in zip((0, 1, 74, 149), self.SIGNALS):
            path, directory = self.input("train", f"step-{step}", debug={"step_delay_seconds": 0.001})
            with self.subTest(f"{number.name} to {ranks} during step {step + 1}"):
                steps = path.with_suffix(".steps")
                steps.write_text(str(step))
                process = self.launch(path, ranks, ["env", f"LD_PRELOAD={shim}", f"BERT_HPC_STEPS={steps}"])
                found = self.wait_for_ranks(path, process, ranks)
                wait_until((directory / "metrics.h5").exists, "metrics.h5", process)
                wait_until_recorded(directory, step, process)
                self.ask(found, number)
                steps.write_text("1000000000")
                self.check_end(process, path, directory, "train", ranks, (0,) if number == signal.SIGUSR2 else (75,))

    def test_what_is_only_checked_ends_at_once(self):
        """--validate does not poll for requests to stop: a signal ends the process at once."""
        path, _ = self.inputs["train"]
        pipe = self.work.folder / "checked.toml"
        os.mkfifo(pipe)
        process = subprocess.Popen([str(BUILD / "bert_hpc"), str(pipe), "--validate"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(end, process, pipe)
        self.addCleanup(os.close, self.open_pipe(pipe, process))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=LIMIT), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
