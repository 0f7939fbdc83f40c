"""Stopping and resuming: a run that is stopped, or killed, and submitted again on any other grid gives the bits of one that
was never disturbed; what does not fit is refused by name."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import h5py
import numpy as np

import program
import saved
from program import BUILD, MPIRUN
from waiting import LIMIT, contains, wait_until

STEPS = 12


def read_safetensors(path):
    """The tensors of a file of float32: eight bytes with the length of a JSON header, the header, the numbers."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[begin + first:begin + last], np.float32).reshape(entry["shape"])
    return tensors


def weights(directory):
    return hashlib.sha256((directory / "model" / "model.safetensors").read_bytes()).hexdigest()


def rows(directory, *names):
    with h5py.File(directory / "metrics.h5") as file:
        return [np.array(file[f"steps/{name}"]).tolist() for name in names]


def checkpoints(directory):
    return sorted(path.name for path in (directory / "checkpoints").glob("step-*"))


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.tasks = {}

    def work(self, task="classification"):
        if task not in self.tasks:
            self.tasks[task] = program.Workspace(task, rows=200)
            self.addCleanup(self.tasks[task].remove)
        return self.tasks[task]

    def path(self, name, task="classification", **tables):
        work = self.work(task)
        tables["run"] = {"directory": str(work.folder / name)} | tables.get("run", {})
        tables.setdefault("schedule", {"epochs": None, "steps": STEPS, "warmup_ratio": 0.2})
        return work.input(f"{name}.toml", **tables), pathlib.Path(tables["run"]["directory"])

    def run_all(self, name, ranks=1, check=0, overrides=(), **tables):
        path, directory = self.path(name, **tables)
        arguments = [word for text in overrides for word in ("--set", text)]
        return program.run("bert_hpc", path, *arguments, ranks=ranks, threads=1, check=check), directory

    def stopped_at(self, name, step, **tables):
        """A run of STEPS steps as it is when it was killed after the checkpoint of `step`."""
        ranks = tables.pop("ranks", 1)
        done, directory = self.run_all(name, ranks, checkpoint={"every_steps": step, "keep": 100}, **tables)
        program.as_if_killed_after(step, directory)
        return directory

    def check_grids(self, task, grids, **tables):
        """From each grid to the next one, against an uninterrupted run on one rank."""
        tables = {"task": task, "run": {"reproducible": True}, **tables}
        _, whole = self.run_all("whole", **tables)
        for number, ((ranks, there), (ranks_after, here)) in enumerate(zip(grids, grids[1:] + grids[:1])):
            name = f"grid{number}"
            run = {"run": {**tables["run"], "directory": str(self.work(task).folder / name)}}
            given = {key: value for key, value in tables.items() if key != "run"}
            directory = self.stopped_at(name, 5, ranks=ranks, parallel=there, **given, **run)
            done, _ = self.run_all(name, ranks_after, parallel=here, **given, **run)
            self.assertIn("resuming from step 5", done.stdout)
            self.assertEqual(rows(directory, "step", "loss", "gradient_norm", "learning_rate"),
                             rows(whole, "step", "loss", "gradient_norm", "learning_rate"), f"{there} to {here}")
            self.assertEqual(weights(directory), weights(whole), f"{there} to {here}")

    def test_the_same_bits_on_any_grid(self):
        self.check_grids("classification", [
            (1, {"zero": 0}), (2, {"zero": 1}), (2, {"zero": 0}), (4, {"zero": 2}), (2, {"pipeline": 2, "zero": 0}),
            (4, {"pipeline": 2, "zero": 1, "pipeline_schedule": "gpipe"}), (1, {"zero": 1, "offload": True}),
            (2, {"pipeline": 2, "pipeline_schedule": "zb_h1"})])

    def test_the_same_bits_with_tied_embeddings(self):
        self.check_grids("masked_lm", [(1, {"zero": 1}), (2, {"pipeline": 2, "zero": 0}), (4, {"pipeline": 2, "zero": 1}),
                                       (2, {"zero": 2, "offload": True})])

    def test_rows_between_checkpoints_are_the_same_too(self):
        # A row spans four steps, the checkpoint is in the middle of one.
        self.check_grids("regression", [(1, {}), (2, {}), (2, {"pipeline": 2, "zero": 0})], log={"every_steps": 4})

    def test_fast_runs_resume_with_the_same_bits_on_the_same_grid(self):
        for name, ranks, parallel in (("alone", 1, {}), ("zero1", 2, {"zero": 1}), ("zero2", 2, {"zero": 2}),
                                      ("stages", 2, {"pipeline": 2})):
            _, whole = self.run_all(f"{name}-whole", ranks, parallel=parallel)
            directory = self.stopped_at(name, 5, ranks=ranks, parallel=parallel)
            self.run_all(name, ranks, parallel=parallel)
            self.assertEqual(rows(directory, "step", "loss"), rows(whole, "step", "loss"), name)
            self.assertEqual(weights(directory), weights(whole), name)
            with h5py.File(directory / "metrics.h5") as file, h5py.File(whole / "metrics.h5") as other:
                for key in file.get("efficiency", []):
                    if key != "goodput":  # depends on the time
                        self.assertEqual(list(file[f"efficiency/{key}"]), list(other[f"efficiency/{key}"]), name)

    def test_tensor_ranks_read_what_others_wrote(self):
        # Tensor ranks sum in another order: losses agree to rounding, and a checkpoint's parameters to the bit.
        _, whole = self.run_all("whole")
        for name, (ranks, there), (after, here) in (("split", (2, {"tensor": 2}), (1, {})), ("join", (1, {}), (2, {"tensor": 2})),
                                                    ("cross", (4, {"tensor": 2, "zero": 1}), (2, {"tensor": 2}))):
            directory = self.stopped_at(name, 5, ranks=ranks, parallel=there)
            self.run_all(name, after, parallel=here)
            # Seven steps of rounding of 1e-7, amplified by the learning rate's feedback to well below 1e-4.
            np.testing.assert_allclose(rows(directory, "loss")[0], rows(whole, "loss")[0], atol=1e-4, err_msg=name)

    def test_the_best_model_and_patience_are_resumed(self):
        tables = {"evaluation": {"every_steps": 2, "best": "loss"}, "run": {"reproducible": True},
                  "schedule": {"epochs": None, "steps": STEPS, "warmup_ratio": 0.2},
                  "optimizer": {"learning_rate": 2e-2}}
        _, whole = self.run_all("whole", **tables)
        directory = self.stopped_at("stopped", 6, **tables)
        self.assertTrue((directory / "checkpoints" / "best").read_text().startswith("step-"))
        self.run_all("stopped", 2, **tables)
        self.assertEqual(weights(directory), weights(whole))
        with h5py.File(directory / "metrics.h5") as file, h5py.File(whole / "metrics.h5") as other:
            for name in ("step", "loss", "accuracy"):
                self.assertEqual(list(file[f"evaluations/validation/{name}"]), list(other[f"evaluations/validation/{name}"]))
            self.assertEqual(file.attrs["total_samples"], other.attrs["total_samples"])
        best = (directory / "checkpoints" / "best").read_text()
        self.assertEqual(best, (whole / "checkpoints" / "best").read_text())
        self.assertIn(best.strip(), checkpoints(directory))

    def test_a_checkpoint_holds_the_model(self):
        """The file has the documented content: whole tensors in pieces, under their Hugging Face names."""
        _, directory = self.run_all("run", 4, parallel={"pipeline": 2, "zero": 1}, checkpoint={"every_steps": STEPS})
        checkpoint = directory / "checkpoints" / f"step-{STEPS:08d}"
        with h5py.File(checkpoint / "manifest.h5") as file:
            names = [name.decode() for name in file["tensors/names"][:]]
            shapes = [tuple(map(int, shape.decode().split(","))) for shape in file["tensors/shapes"][:]]
            ranks, counts, pieces = file["files/ranks"][:], file["files/pieces"][:], file["pieces"][:]
            self.assertEqual(file.attrs["step"], STEPS)
        found = [np.full(np.prod(shape), np.nan, np.float32) for shape in shapes]
        next_piece = 0
        for rank, count in zip(ranks, counts):
            with h5py.File(checkpoint / f"rank-{rank:05d}.h5") as file:
                numbers, at = file["parameters"][:], 0
                self.assertEqual(file["second_moments"].shape, numbers.shape)
                for tensor, first, length, runs, stride in pieces[next_piece:next_piece + count]:
                    for r in range(runs):
                        found[tensor][first + r * stride:first + r * stride + length] = numbers[at:at + length]
                        at += length
                self.assertEqual(at, len(numbers))
            next_piece += count
        model = read_safetensors(directory / "model" / "model.safetensors")
        for name, shape, values in zip(names, shapes, found):
            np.testing.assert_array_equal(values.reshape(shape), model[name], err_msg=name)
        # Every rank wrote a share.
        self.assertEqual(list(ranks), [0, 1, 2, 3])

    def test_old_checkpoints_go_and_named_ones_stay(self):
        _, directory = self.run_all("keep", checkpoint={"every_steps": 2, "keep": 2})
        self.assertEqual(checkpoints(directory), ["step-00000010", "step-00000012"])
        self.assertEqual((directory / "checkpoints" / "latest").read_text(), "step-00000012\n")
        self.assertFalse((directory / "checkpoints" / "best").exists())

    def test_a_run_directory_that_exists(self):
        directory = self.stopped_at("there", 5)
        # The error names a changed key that must stay the same.
        for override, named in (("batch.global=8", "batch.global"), ("run.seed=6", "run.seed"),
                                ("model.hidden_size=64", "model.hidden_size"),
                                ("model.hidden_dropout_prob=0.3", "model.hidden_dropout_prob")):
            done, _ = self.run_all("there", check=2, overrides=[override])
            self.assertIn(named, done.stderr)
            self.assertIn("--overwrite", done.stderr)
        done, _ = self.run_all("there", check=2, overrides=['run.resume="never"'])
        self.assertIn("not finished", done.stderr)
        done, _ = self.run_all("there", check=2, overrides=["schedule.steps=4"])
        self.assertIn("the checkpoint is of step 5, but [schedule] ends at step 4", done.stderr)
        # Changes of input that are allowed are reported and recorded.
        done, _ = self.run_all("there", overrides=["optimizer.learning_rate=1e-3", "schedule.steps=10"])
        self.assertIn("changed since that step: optimizer.learning_rate: 0.003 there, 0.001 here", done.stdout)
        self.assertEqual(rows(directory, "step")[0], list(range(1, 11)))
        self.assertIn("learning_rate = 0.001", (directory / "input.toml").read_text())
        with h5py.File(directory / "metrics.h5") as file:
            self.assertIn("learning_rate = 0.001", file.attrs["resolved_input"])
            self.assertEqual(len(file.attrs["restarts"]), 1)
        # A finished run stays finished without --overwrite.
        done, _ = self.run_all("there", check=2)
        self.assertIn("is finished", done.stderr)
        path, _ = self.path("there")
        program.run("bert_hpc", path, "--overwrite", "--set", "schedule.steps=3", threads=1, check=0)
        self.assertEqual(rows(directory, "step")[0], [1, 2, 3])
        self.assertFalse((directory / "checkpoints").exists() and checkpoints(directory))

    def test_changed_data_are_found(self):
        self.stopped_at("data", 5)
        shard = sorted((self.work().folder / "shards").glob("train-*.h5"))[0]
        content = shard.read_bytes()
        # The same shards elsewhere are the same data.
        other = self.work().folder / "moved"
        shutil.copytree(shard.parent, other)
        done, _ = self.run_all("data", overrides=[f'data.train="{other}/train-*.h5"', "schedule.steps=6"])
        self.assertIn("resuming from step 5", done.stdout)
        self.stopped_at("data2", 5)
        prep = (self.work().folder / "prep.toml").read_text()
        program.write_tsv(self.work().folder / "rows.tsv", program.sentences(200, seed=2))
        program.run("bert_hpc_prep", self.work().folder / "prep.toml", check=0)
        self.assertNotEqual(shard.read_bytes(), content)
        done, _ = self.run_all("data2", check=2)
        self.assertIn("the training data: ", done.stderr)

    def test_changed_validation_and_test_data_are_reported(self):
        shards = self.work().folder / "shards"
        validation, test = shards / "validation-00000.h5", shards / "test-00000.h5"
        content = validation.read_bytes(), test.read_bytes()
        for name, best in (("warned", {}), ("refused", {"evaluation": {"best": "loss", "every_steps": 5}})):
            tables = {"data": {"test": [str(test)]}, **best}
            self.stopped_at(name, 5, **tables)
            validation.write_bytes(content[1])
            test.write_bytes(content[0])
            done, directory = self.run_all(name, check=2 if best else 0, **tables)
            if best:
                self.assertIn("the validation data, which select the best model: validation-00000.h5", done.stderr)
            else:
                log = (directory / "log.txt").read_text()
                for what in ("validation", "test"):
                    self.assertRegex(log, f"warning: changed since that step: the {what} data: {what}-00000.h5 bytes")
            validation.write_bytes(content[0])
            test.write_bytes(content[1])

    def test_what_decides_the_bits_is_warned_of(self):
        for name, reproducible in (("bits", True), ("fast", False)):
            run = {"reproducible": reproducible}
            self.stopped_at(name, 5, run=run)
            done, _ = self.run_all(name, 2, parallel={"tensor": 2}, batch={"chunks": 4}, run=run)
            warnings = [line for line in done.stdout.splitlines() if "from here on results are not bitwise identical" in line]
            self.assertEqual(len(warnings), 2 if reproducible else 0, done.stdout)

    def test_log_and_metrics_are_cut_back(self):
        directory = self.stopped_at("cut", 5)
        text = (directory / "log.txt").read_text()
        self.assertIn("step 12/12", text)
        self.run_all("cut", overrides=["schedule.steps=7"])
        text = (directory / "log.txt").read_text()
        self.assertEqual(text.count("step 5/12"), 1)
        self.assertEqual(text.count("step 6/12"), 0)
        self.assertEqual(text.count("step 6/7,"), 1)
        self.assertIn("resuming from step 5", text)
        self.assertEqual(rows(directory, "step")[0], [1, 2, 3, 4, 5, 6, 7])

    def test_the_metric_history_is_part_of_a_checkpoint(self):
        """With any damage of the journal, metrics.h5 has all rows and evaluations at the end."""
        tables = {"evaluation": {"every_steps": 2}, "run": {"reproducible": True}}
        _, undisturbed = self.run_all("undisturbed", **tables)
        expected = saved.recorded(undisturbed)
        self.assertEqual(expected["evaluations/validation/step"], [repr(np.int64(step)) for step in range(2, STEPS + 1, 2)])

        def flip(journal):
            content = bytearray(journal.read_bytes())
            content[content.index(b"step\t3\t") + 8] ^= 1
            journal.write_bytes(content)

        def shorten(journal):
            content = journal.read_bytes()
            journal.write_bytes(content[:content.index(b"evaluation\tvalidation\t4\t") - 9])

        said = re.search(r"every 4 steps, ([\d.]+ \w+) each",
                         self.run_all("planned", 2, checkpoint={"every_steps": 4}, **tables)[0].stdout)[1]
        number, unit = said.split()
        planned = float(number) * 1024 ** (1 + ["KiB", "MiB"].index(unit))
        damages = {"gone": os.remove, "flipped": flip, "shortened": shorten, "whole": lambda journal: None}
        for (name, damage), (ranks, after) in zip(damages.items(), ((1, 2), (2, 1), (1, 1), (1, 1))):
            with self.subTest(name):
                directory = self.stopped_at(name, 4, ranks=ranks, **tables)
                checkpoint, journal = directory / "checkpoints" / "step-00000004", directory / "metrics.journal"
                history = (checkpoint / "metrics.journal").read_bytes()
                self.assertTrue(journal.read_bytes().startswith(history))
                # The history has the rows of the checkpoint's step, and no later row.
                self.assertTrue(history.splitlines()[-1][9:].startswith(b"evaluation\tvalidation\t4\t"))
                self.assertEqual(len(re.findall(rb" step\t", history)), 4)
                self.assertLess(sum(file.stat().st_size for file in checkpoint.iterdir()), planned + 1024)
                damage(journal)
                (directory / "metrics.h5").unlink()
                done, _ = self.run_all(name, after, **tables)
                notes = [line for line in done.stdout.splitlines() if "The rows up to step 4 come from the checkpoint." in line]
                self.assertEqual(len(notes), 0 if name == "whole" else 1, done.stdout)
                self.assertEqual((directory / "metrics.journal.damaged").exists(), name in ("flipped", "shortened"))
                self.assertEqual(list(directory.glob("metrics.before-*")), [])
                self.assertEqual(saved.recorded(directory), expected)
                self.assertEqual(weights(directory), weights(undisturbed))

    def test_a_due_evaluation_is_recorded_once_by_a_run_without_its_journal(self):
        tables = {"evaluation": {"every_steps": 1}, "run": {"reproducible": True},
                  "schedule": {"name": "constant", "epochs": None, "warmup_ratio": None, "steps": 1000000000}}
        path, directory = self.path("due", **tables)
        process = subprocess.Popen([str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.addCleanup(process.kill)
        wait_until(lambda: contains(directory / "log.txt", "step 3/"), "step 3", process)
        process.send_signal(signal.SIGTERM)
        self.assertIn("checkpoint written", process.communicate(timeout=LIMIT)[0])
        self.assertEqual(process.returncode, 75)
        step = int(checkpoints(directory)[-1][5:])
        history = (directory / "checkpoints" / checkpoints(directory)[-1] / "metrics.journal").read_bytes()
        self.assertIn(b" step\t%d\t" % step, history)
        (directory / "metrics.journal").unlink()
        (directory / "metrics.h5").unlink()
        tables["schedule"] = tables["schedule"] | {"steps": step + 2}
        self.run_all("due", **tables)
        _, undisturbed = self.run_all("due-whole", **tables)
        self.assertEqual(saved.recorded(directory), saved.recorded(undisturbed))

    def test_from_a_checkpoint_into_another_run(self):
        directory = self.stopped_at("from", 5)
        source = directory / "checkpoints" / "step-00000005"
        done, other = self.run_all("into", overrides=[f'run.resume="{source}"'])
        self.assertEqual(rows(other, "step")[0], list(range(6, STEPS + 1)))
        self.run_all("from")
        self.assertEqual(weights(other), weights(directory))
        done, _ = self.run_all("nowhere", check=2, overrides=['run.resume="atuo"'])
        self.assertIn("neither", done.stderr)

    def test_a_run_of_a_version_with_fewer_recorded_keys_resumes(self):
        """Its resolved input lacks the keys that were left to their defaults, in input.toml and in the checkpoint."""
        directory = self.stopped_at("older", 5, schedule={"epochs": None, "steps": STEPS, "warmup_ratio": None})
        lacking = ("type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "initializer_range",
                   "warmup_ratio")
        text = (directory / "input.toml").read_text()
        for key in lacking:
            self.assertIn(f"\n{key} = ", text)
        older = "".join(line for line in text.splitlines(True) if line.split(" = ")[0] not in lacking)
        (directory / "input.toml").write_text(older)
        manifest = directory / "checkpoints" / "step-00000005" / "manifest.h5"
        with h5py.File(manifest, "r+") as file:
            texts = file["texts/values"]
            index = list(file["texts/names"].asstr()).index("input")
            self.assertEqual(texts.asstr()[index], text)
            texts[index] = older
        saved.seal(manifest)
        same = {"schedule": {"epochs": None, "steps": STEPS, "warmup_ratio": None}, "checkpoint": {"every_steps": 5, "keep": 100}}
        done, _ = self.run_all("older", check=2, overrides=["model.hidden_dropout_prob=0.3"], **same)
        self.assertIn("model.hidden_dropout_prob: not given there, 0.3 here", done.stderr)
        done, _ = self.run_all("older", **same)
        self.assertIn("resuming from step 5", done.stdout)
        self.assertNotIn("changed since that step", done.stdout)
        self.assertEqual((directory / "input.toml").read_text(), text)

    def test_validate_reports_the_step_to_resume_from(self):
        self.stopped_at("validated", 5)
        path, _ = self.path("validated")
        done = program.run("bert_hpc", path, "--validate", threads=1, check=0)
        self.assertIn("it would resume from step 5", done.stdout)
        self.assertIn("snapshot for checkpoints", done.stdout)

    def test_validate_notes_what_the_directory_holds(self):
        """The state of the directory is no error of an input, and stays as it is."""
        directory = self.stopped_at("noted", 5)
        path, _ = self.path("noted")

        def validated(*words, arguments=(), ranks=1):
            before = {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}
            done = program.run("bert_hpc", path, "--validate", *arguments, ranks=ranks, threads=1, check=0)
            after = {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}
            self.assertEqual(before, after)
            for word in (*words, "The input is valid. Nothing was computed."):
                self.assertIn(word, done.stdout)
            return done.stdout

        validated("note: ", "is not finished, and its input differs", "run.seed", arguments=("--set", "run.seed=6"))
        validated("note: ", "the checkpoint is of step 5, but [schedule] ends at step 4",
                  arguments=("--set", "schedule.steps=4"), ranks=2)
        self.assertNotIn("note: ", validated("it would resume from step 5"))
        self.run_all("noted")
        said = validated("note: ", "is finished, with the same input", arguments=("--ranks", "4"))
        self.assertNotIn("resume from step", said)
        self.assertNotIn("note: ", validated(arguments=("--overwrite",)))


if __name__ == "__main__":
    unittest.main()
