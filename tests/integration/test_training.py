"""The whole program on small data: training learns, results are as documented, layouts change no bits."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import h5py
import numpy as np

from program import Case, run, sentences, write_tsv

REPORT = pathlib.Path(__file__).resolve().parents[2] / "postprocess" / "report.py"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def predict(case, model, name, lines, **source):
    """Prepares the lines as a table for the test split alone, without a word on labels but what `source` says, and predicts
    them: prep's output and the open predictions.h5."""
    folder = case.work.folder
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    keys = "".join(f"{key} = {value}\n" for key, value in source.items())
    (folder / f"{name}_prep.toml").write_text(f"""
[source]
format = "tsv"
test_files = ["{folder}/{name}.tsv"]
{keys}
[tokenizer]
vocabulary = "{model}"
max_tokens = 32
[task]
name = "{case.task}"
[output]
directory = "{folder}/{name}_shards"
""")
    prepared = run("bert_hpc_prep", folder / f"{name}_prep.toml", check=0)
    path = case.work.input(f"{name}.toml", run={"mode": "predict", "directory": f"{folder}/{name}"},
                           model={key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                                                        "intermediate_size", "max_position_embeddings")}
                           | {"pretrained": str(model)},
                           data={"train": None, "validation": None, "test": [f"{folder}/{name}_shards/test-*.h5"]})
    run("bert_hpc", path, ranks=2, threads=1, check=0)
    return prepared.stdout, h5py.File(folder / name / "predictions.h5")


def check_unlabelled(case, model):
    """Texts without labels are predicted as the same texts with labels, and serve nothing else."""
    folder, column = case.work.folder, {"classification": "label", "regression": "score"}[case.task]
    rows = [line.split("\t") for line in (folder / "rows.tsv").read_text().splitlines()[:41]]
    texts, tables = [row[0] for row in rows], ["\t".join(row) for row in rows]
    _, known = predict(case, model, "labelled", tables, label=f'"{column}"')
    # No column of the name that is taken where none is given; none at all; and one that is there is not read.
    for name, lines, source in (("absent", texts, {}), ("empty", texts, {"label": '""'}), ("unread", tables, {"label": '""'})):
        said, found = predict(case, model, name, lines, **source)
        case.assertIn('labels      none: these shards are for [run] mode = "predict" alone', said)
        with found:
            for column in ("source_index", "prediction") + (("probabilities",) if case.task == "classification" else ()):
                case.assertEqual(found[column][()].tolist(), known[column][()].tolist(), f"{name}: {column}")
            case.assertEqual(list(found["source_index"]), list(range(40)))  # the order of the source
            case.assertEqual(found["label"].shape, (40,))
            unknown = found["label"][()] == -1 if case.task == "classification" else found["label"][()] != found["label"][()]
            case.assertTrue(unknown.all())
            case.assertEqual(list(found.attrs["label_names"]), list(known.attrs["label_names"]))
    known.close()
    done = subprocess.run([sys.executable, str(REPORT), str(folder / "empty"), "--output", str(folder / "report")],
                          capture_output=True, text=True, env=os.environ | {"MPLCONFIGDIR": str(folder)})
    case.assertEqual(done.returncode, 0, done.stderr)
    case.assertFalse(list((folder / "report").glob("confusion*")))
    case.assertTrue((folder / "report" / "predictions.png").exists())
    shards = [f"{folder}/empty_shards/test-*.h5"]
    for tables in ({"data": {"train": shards}}, {"data": {"validation": shards}}, {"data": {"test": shards}},
                   {"run": {"mode": "evaluate"}, "data": {"train": None, "validation": None, "test": shards},
                    "model": {"hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None,
                              "intermediate_size": None, "max_position_embeddings": None, "pretrained": str(model)}}):
        tables = tables | {"run": tables.get("run", {}) | {"directory": str(folder / "refused")}}
        done = run("bert_hpc", case.work.input("refused.toml", **tables), check=3)
        case.assertIn("have no labels", done.stderr)
        case.assertIn('"predict"', done.stderr)


class Classification(Case):
    def train(self, name, ranks=1, threads=1, **tables):
        directory = self.work.folder / name
        tables.setdefault("run", {})["directory"] = str(directory)
        run("bert_hpc", self.work.input(f"{name}.toml", **tables), ranks=ranks, threads=threads, check=0)
        return directory

    def test_it_learns_and_leaves_what_is_documented(self):
        directory = self.train("learns", ranks=2, schedule={"epochs": 12}, evaluation={"best": "accuracy"})
        with h5py.File(directory / "metrics.h5") as file:
            steps = file["steps"]
            self.assertEqual(set(steps), {"step", "epoch", "loss", "learning_rate", "gradient_norm", "samples",
                                          "tokens", "computed_tokens", "seconds", "skipped"})
            self.assertEqual(list(steps["step"]), list(range(1, len(steps["step"]) + 1)))
            self.assertAlmostEqual(steps["epoch"][-1], 12)
            evaluations = file["evaluations/validation"]
            self.assertEqual(evaluations["confusion_matrix"].shape[1:], (4, 4))
            # One word decides the label, so a model that works at all gets nearly every text right.
            self.assertGreater(max(evaluations["accuracy"]), 0.9)
            self.assertEqual(file.attrs["status"], "finished")
            self.assertEqual(len(file["ranks/host"]), 2)
            self.assertEqual([file.attrs[f"parallel_{name}"] for name in ("data", "pipeline", "tensor")], [2, 1, 1])
            self.assertIn(b"forward", list(file["timers/name"]))
            self.check_timers(file, (directory / "log.txt").read_text())
        config = json.loads((directory / "model/config.json").read_text())
        self.assertEqual(list(config["id2label"].values()), ["animal", "machine", "music", "nature"])
        for name in ("model.safetensors", "vocab.txt", "tokenizer_config.json"):
            self.assertTrue((directory / "model" / name).exists(), name)

        # Evaluating the exported model gives what training saw; predictions agree with it.
        run("bert_hpc", self.work.input("again.toml", run={"mode": "evaluate", "directory": str(directory) + "-again"},
                                        model=None, data={"train": None}), "--set",
            f'model.pretrained="{directory}/model"', ranks=2, threads=1, check=0)
        with h5py.File(str(directory) + "-again/metrics.h5") as again, h5py.File(directory / "metrics.h5") as file:
            best = max(file["evaluations/validation/accuracy"])
            self.assertAlmostEqual(again["evaluations/validation/accuracy"][0], best, places=6)
        self.check_numbered_labels(directory / "model", list(config["id2label"].values()))

    def check_numbered_labels(self, model, names):
        """Text whose labels are the numbers of the model's."""
        rows, shards = self.work.folder / "numbered.tsv", self.work.folder / "numbered"
        write_tsv(rows, [(text, names.index(label), score) for text, label, score in sentences(60, seed=9)])
        run("bert_hpc_prep", self.work.folder / "prep.toml", "--set", f'source.files=["{rows}"]', "--set", "split.train=0",
            "--set", "split.validation=0", "--set", "split.test=1", "--set", f'tokenizer.vocabulary="{model}"',
            "--set", f'output.directory="{shards}"', check=0)
        done = run("bert_hpc", self.work.input("numbered.toml", run={"mode": "evaluate", "directory": f"{shards}-run"},
                                               model=None,
                                               data={"train": None, "validation": None, "test": [f"{shards}/*.h5"]}),
                   "--set", f'model.pretrained="{model}"', check=0)
        self.assertIn("by number: animal is 0, machine is 1", done.stdout)
        with h5py.File(f"{shards}-run/metrics.h5") as file:
            self.assertGreater(file["evaluations/test/accuracy"][0], 0.9)
        with h5py.File(f"{shards}-run/predictions.h5") as file:
            self.assertEqual(list(file.attrs["label_names"]), names)

    def test_texts_without_labels_are_predicted(self):
        directory = self.train("unlabelled", schedule={"epochs": 3})
        check_unlabelled(self, directory / "model")
        # A column that should be there is still missed.
        (self.work.folder / "missing.toml").write_text(
            (self.work.folder / "prep.toml").read_text().replace('label = "label"', "").replace("rows.tsv", "empty.tsv"))
        done = run("bert_hpc_prep", self.work.folder / "missing.toml", check=3)
        self.assertIn('"label"', done.stderr)

    def test_each_update_is_timed_once(self):
        for ranks in (1, 2):
            directory = self.train(f"timed-{ranks}", ranks=ranks, schedule={"epochs": 1})
            with h5py.File(directory / "metrics.h5") as file:
                calls = dict(zip(file["timers/name"].asstr(), file["timers/calls"]))
                self.assertEqual(calls["optimizer"], file["steps/step"][-1])

    def check_timers(self, file, log):
        """The log's table of sections can be made again from metrics.h5, per cents too; it omits sections without time."""
        rows = {row[0]: row[1:] for row in re.findall(r"^  (\S.*?)  .*?([\d.]+) +[\d.]+ +([\d.]+)$", log, re.MULTILINE)}
        wall = file.attrs["total_timed_seconds"]
        self.assertEqual(rows["wall time"], (f"{wall:.3f}", "100.0"))
        timers = file["timers"]
        clock = "device_seconds" if "device_seconds_avg" in timers else "seconds"
        for name, seconds, most, host in zip(timers["name"].asstr(), timers[f"{clock}_avg"], timers[f"{clock}_max"],
                                             timers["seconds_max"]):
            if max(most, host) < 0.0005:
                self.assertNotIn(name, rows)
                continue
            self.assertEqual(rows[name], (f"{seconds:.3f}", f"{100 * seconds / wall:.1f}"), name)
        # "other" is the rest of each rank's time, and ranks end a run within moments of each other.
        self.assertEqual(timers["name"].asstr()[-1], "other")
        self.assertAlmostEqual(sum(timers[f"{clock}_avg"]), wall, delta=0.05 * wall)

    def test_layouts_change_no_bit_in_reproducible_mode(self):
        layouts = {"one": (1, 1, {}), "threads": (1, 2, {}), "two": (2, 1, {}), "four": (4, 1, {})}
        found = {}
        for name, (ranks, threads, batch) in layouts.items():
            directory = self.train(f"bits-{name}", ranks, threads, run={"reproducible": True},
                                   batch={"global": 16, **batch})
            with h5py.File(directory / "metrics.h5") as file:
                found[name] = (digest(directory / "model/model.safetensors"), list(file["steps/loss"]),
                               list(file["steps/gradient_norm"]))
        for name in layouts:
            self.assertEqual(found[name], found["one"], name)
        # A test that cannot fail proves nothing: another seed gives other bits.
        other = self.train("bits-other", run={"reproducible": True, "seed": 6})
        self.assertNotEqual(digest(other / "model/model.safetensors"), found["one"][0])

    def test_micro_batches_and_ranks_change_only_rounding_in_fast_mode(self):
        losses = {}
        for name, (ranks, batch) in {"whole": (1, {}), "micro": (1, {"micro_tokens": 60}), "two": (2, {})}.items():
            directory = self.train(f"fast-{name}", ranks, 1, batch={"global": 16, **batch}, schedule={"epochs": 1})
            with h5py.File(directory / "metrics.h5") as file:
                losses[name] = list(file["steps/loss"])
        for name, values in losses.items():
            # Ten steps: rounding of 1e-7 grows by the learning rate's feedback to well below 1e-4.
            for mine, whole in zip(values, losses["whole"], strict=True):
                self.assertAlmostEqual(mine, whole, delta=1e-4, msg=name)


class Regression(Case):
    task = "regression"

    def test_it_learns_a_number_and_predicts_it(self):
        directory = self.work.folder / "run"
        shards = self.work.folder / "shards"
        run("bert_hpc", self.work.input(schedule={"epochs": 15}, evaluation={"best": "pearson"},
                                        data={"test": [f"{shards}/test-*.h5"]}), ranks=2, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            # Scores count words: they are spread over 0.25 to 2.6; a constant guess has R² of 0.
            self.assertGreater(max(file["evaluations/validation/r2"]), 0.7)
            found = {name: file[f"evaluations/test/{name}"][-1] for name in ("rmse", "pearson", "spearman")}
        with h5py.File(directory / "predictions.h5") as file:
            actual, guessed = (file[name][:].astype(float) for name in ("label", "prediction"))
        # Each rank had a part of the samples. The same sums of some dozens of terms in another order.
        rank = lambda x: np.array([np.sum(x < value) + np.sum(x <= value) for value in x])
        self.assertAlmostEqual(found["rmse"], np.sqrt(np.mean((guessed - actual) ** 2)), delta=1e-13)
        self.assertAlmostEqual(found["pearson"], np.corrcoef(actual, guessed)[0, 1], delta=1e-13)
        self.assertAlmostEqual(found["spearman"], np.corrcoef(rank(actual), rank(guessed))[0, 1], delta=1e-13)
        run("bert_hpc", self.work.input("predict.toml", run={"mode": "predict", "directory": str(directory) + "-p"},
                                        model=None, data={"train": None, "validation": None,
                                                          "test": [f"{shards}/test-*.h5"]}), "--set",
            f'model.pretrained="{directory}/model"', ranks=2, threads=1, check=0)
        with h5py.File(str(directory) + "-p/predictions.h5") as file:
            self.assertEqual(len(file["prediction"]), len(file["source_index"]))
            self.assertGreater(len(file["prediction"]), 20)
        check_unlabelled(self, directory / "model")


class MaskedLm(Case):
    task = "masked_lm"

    def test_masked_words_are_learnt_and_layouts_change_no_bit(self):
        digests = []
        for ranks in (1, 2):
            directory = self.work.folder / f"mlm-{ranks}"
            run("bert_hpc", self.work.input(run={"directory": str(directory), "reproducible": True}), ranks=ranks,
                threads=1, check=0)
            digests.append(digest(directory / "model/model.safetensors"))
            with h5py.File(directory / "metrics.h5") as file:
                loss = file["steps/loss"][:]
                self.assertLess(loss[-5:].mean(), loss[:5].mean() - 0.3)
        self.assertEqual(digests[0], digests[1])

    def every_word(self, name, task={}, shards="shards", **log):
        """Steps and totals of an epoch that predicts every token but the two special ones of a sequence: 0.999 rounds up."""
        directory = self.work.folder / name
        run("bert_hpc", self.work.input(f"{name}.toml", run={"directory": str(directory)}, task={"mask_probability": 0.999} | task,
                                        data={"order": "by_length", "train": [f"{self.work.folder}/{shards}/train-*.h5"],
                                              "validation": None}, schedule={"epochs": 1}, log=log),
            threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            return {key: file[f"steps/{key}"][:] for key in file["steps"]}, dict(file.attrs)

    def test_figures_count_the_head(self):
        rows, totals = self.every_word("head")
        lengths = np.concatenate([np.diff(h5py.File(path)["offsets"][:]) for path in (self.work.folder / "shards").glob("train-*.h5")])
        vocabulary = json.loads((self.work.folder / "head/model/config.json").read_text())["vocab_size"]
        weights = 4 * 32**2 + 2 * 32 * 64
        blocks = 2 * (6 * weights * lengths.sum() + 12 * 32 * (lengths**2).sum())
        head = 6 * 32 * (32 + vocabulary) * (lengths - 2).sum()
        self.assertAlmostEqual(totals["total_model_flops"] / (blocks + head), 1, delta=1e-12)

    def test_whole_words_are_the_same_tokens_if_every_one_is_masked_and_others_if_not(self):
        prep = (self.work.folder / "prep.toml").read_text()
        (self.work.folder / "pieces.toml").write_text(prep.replace("= 120", "= 60").replace('/shards"', '/pieces"'))
        run("bert_hpc_prep", self.work.folder / "pieces.toml", check=0)

        def losses(name, **task):
            return list(self.every_word(name, task, shards="pieces")[0]["loss"])

        self.assertEqual(losses("tokens"), losses("words", mask_whole_words=True))
        self.assertNotEqual(losses("some", mask_probability=0.3), losses("some-words", mask_probability=0.3, mask_whole_words=True))

    def test_losses_of_several_steps_are_means_over_masked_tokens(self):
        single, _ = self.every_word("single", every_steps=1)
        joined, _ = self.every_word("joined", every_steps=4)
        targets = (single["tokens"] - 2 * single["samples"]).astype(float)
        for row, last in enumerate(joined["step"]):
            steps = slice(4 * row, last)
            # Rounding alone: the same updates, summed in another order.
            self.assertAlmostEqual(joined["loss"][row], np.average(single["loss"][steps], weights=targets[steps]), delta=1e-6)


if __name__ == "__main__":
    unittest.main()
