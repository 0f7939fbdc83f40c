"""Trainings beside a teacher: a student that is its teacher, the same bits on every layout, masked language modelling, what a run says
of its teacher, and inputs that are refused. test_training_goldens.py compares whole trainings with PyTorch."""

import json
import re
import shutil
import unittest

import h5py
import numpy as np

import training_cases as cases
from plain_bert import tensors_of
from program import as_if_killed_after, run, toml

LAYOUTS = ({"data": 2}, {"pipeline": 2}, {"data": 2, "pipeline": 2})  # a tensor group rounds otherwise
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "max_position_embeddings": 40,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Distillation(cases.Trainings):
    def check_refusal(self, tables, status, texts):
        text, left_with = self.refused(**tables)
        with self.subTest(texts):
            self.assertEqual(left_with, status, text)
            for expected in texts:
                self.assertIn(expected, text)
            self.assertFalse((self.folder / "refused").exists())

    def teacher_with(self, name, **settings):
        """A copy of classification's teacher with these settings in config.json."""
        shutil.copytree(self.folder / "classification_teacher", self.folder / name)
        config = json.loads((self.folder / name / "config.json").read_text())
        (self.folder / name / "config.json").write_text(json.dumps(config | settings))

    def refused(self, arguments=(), **tables):
        """What a run of classification says that ends with these tables and arguments, and its exit status."""
        everything = {"run": {"mode": "train", "directory": "refused"}, "model": {"pretrained": "classification_start"},
                      "task": {"name": "classification"}, "data": {"train": ["classification/train-*.h5"]},
                      "optimizer": {"learning_rate": 1e-4}, "schedule": {"steps": 1},
                      "distill": {"teacher": "classification_teacher"}} | tables
        (self.folder / "refused.toml").write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                                                          for table, keys in everything.items() if keys))
        done = run("bert_hpc", "refused.toml", *arguments, threads=1, cwd=self.folder)
        return done.stdout + done.stderr, done.returncode

    def test_a_student_that_is_its_teacher_has_no_soft_loss(self):
        states = ["hidden_mse", "hidden_cosine"]
        states.append("attention_mse")
        for task, words, parallel in (
            ("classification", ["kl", "mse_logits"], {}), ("classification", states, {}), ("regression", ["mse_logits"], {}),
            ("question_answering", ["kl", *states], {}), ("gpt2_causal_lm", ["kl", *states], {}), ("gpt2_causal_lm", ["kl", *states], {"tensor": 2})):
            self.prepare(task)
            shutil.rmtree(self.folder / f"{task}_itself", ignore_errors=True)
            more = {"distill": {"teacher": f"{task}_start", "alpha": 1.0, "losses": words}}
            if task == "regression":  # in the unit of the training, whatever it is
                more["task"] = {"name": task, "standardize": True}
            more["optimizer"] = {"learning_rate": cases.RATE, "weight_decay": 0.0}  # which would make another model of the student
            self.assertEqual(self.train(task, f"{task}_itself", parallel, 3, **more).tolist(), [0, 0, 0], task)

    def test_every_layout_has_the_same_bits(self):
        self.teacher_of("classification")
        for number, words in enumerate((["kl", "mse_logits"], ["hidden_mse", "hidden_cosine"], ["attention_mse"])):
            results = []
            for parallel in ({}, *LAYOUTS):
                output = f"same_{number}" + "".join(f"_{key}" for key in parallel)
                losses = self.train("classification", output, parallel, 6, run={"mode": "train", "directory": output, "reproducible": True},
                                    distill={"teacher": "classification_teacher", "losses": words})
                results.append((losses.tolist(), (self.folder / output / "model/model.safetensors").read_bytes()))
            for parallel, result in zip(LAYOUTS, results[1:], strict=True):
                with self.subTest(parallel, words=words):
                    self.assertEqual(result, results[0])

    def test_hidden_states_do_not_depend_on_how_a_step_is_computed(self):
        self.teacher_of("classification")
        distill = {"teacher": "classification_teacher", "losses": ["kl", "hidden_mse", "hidden_cosine", "attention_mse"]}
        plain = self.train("classification", "plain", {}, 6, distill=distill)
        base = {"data": {"train": ["classification/train-*.h5"], "order": "file"}}
        others = {"padded": {"data": base["data"] | {"padding": "max"}}, "small": {"batch": {"global": cases.BATCH, "micro": 4}},
                  "recomputed": {"model": {"pretrained": "classification_start", "recompute": "blocks"}},
                  "split": {"parallel": {"pipeline": 2, "pipeline_schedule": "zb_h1"}},
                  "interleaved": {"parallel": {"pipeline": 2, "virtual_stages": 2, "pipeline_schedule": "interleaved"}},
                  "sharded": {"parallel": {"data": 2, "zero": 2}}}
        for name, tables in others.items():
            parallel = tables.pop("parallel", {})
            with self.subTest(name):
                losses = self.train("classification", name, parallel, 6, distill=distill, **tables)
                self.assertLess(np.abs(losses - plain).max(), 2e-6)  # sums in another order
        rough = self.train("classification", "rough", {}, 6, distill=distill, precision={"compute": "bf16"})
        self.assertLess(np.abs(rough / plain - 1).max(), 0.02)  # bf16 rounds with 2^-9 some ten times

    def test_projections_have_the_same_bits_on_every_layout_and_resume(self):
        self.teacher_of("token_classification")
        results = []
        for parallel in ({}, *LAYOUTS, {"data": 2, "zero": 2}):
            output = "projected" + "".join(f"_{key}" for key in parallel)
            losses = self.distil("states_projected", output, parallel, run={"mode": "train", "directory": output, "reproducible": True},
                                 checkpoint={"every_steps": 5, "keep": 9})
            results.append((losses.tolist(), (self.folder / output / "model/model.safetensors").read_bytes()))
        for parallel, result in zip((*LAYOUTS, "zero"), results[1:], strict=True):
            with self.subTest(parallel):
                self.assertEqual(result, results[0])
        names = tensors_of(self.folder / "projected/model/model.safetensors")
        self.assertEqual([name for name in names if "distillation" in name], [])
        self.assertIn("32 columns are projected to 64", (self.folder / "projected/log.txt").read_text())
        as_if_killed_after(5, self.folder / "projected")
        again = self.distil("states_projected", "projected", {}, run={"mode": "train", "directory": "projected", "reproducible": True},
                            checkpoint={"every_steps": 5, "keep": 9})
        self.assertIn("resuming from step 5", (self.folder / "projected/log.txt").read_text())
        self.assertEqual(again.tolist(), results[0][0])
        rough = self.distil("states_projected", "projected_bf16", {}, precision={"compute": "bf16"})
        self.assertLess(np.abs(rough / np.array(results[0][0]) - 1).max(), 0.02)

    def test_frozen_blocks_are_compared_and_stay(self):
        self.teacher_of("classification")
        self.train("classification", "frozen", {}, 3, model={"pretrained": "classification_start", "freeze_layers": 1},
                   distill={"teacher": "classification_teacher", "losses": ["hidden_mse"], "alpha": 1.0},
                   optimizer={"learning_rate": cases.RATE, "weight_decay": 0.0})
        before, after = (tensors_of(self.folder / folder / "model.safetensors") for folder in ("classification_start", "frozen/model"))
        changed = {name for name, value in after.items() if not np.array_equal(value, before[name])}
        self.assertTrue(changed)
        self.assertEqual({name.split(".")[3] for name in changed if ".layer." in name}, {"1"})
        self.assertEqual([name for name in changed if ".layer." not in name], [])  # the head has no gradient

    def test_a_teacher_of_another_family_in_another_format(self):
        self.prepare("modernbert_classification")
        self.prepare("classification")
        models = ("classification_start", "modernbert_classification_start")
        probabilities = []
        for model in models:  # of the first batch, at temperature 1
            self.start("bert_hpc", f"apply_{model}.toml", {
                "run": {"mode": "predict", "directory": f"apply_{model}"}, "model": {"pretrained": model}, "task": {"name": "classification"},
                "data": {"test": ["classification/train-*.h5"]}})
            with h5py.File(self.folder / f"apply_{model}/predictions.h5") as file:
                probabilities.append(file["probabilities"][:cases.BATCH].astype(float))
        student, teacher = probabilities
        expected = (teacher * np.log(teacher / student)).sum(axis=1).mean()
        for compute, tolerance in (("fp32", 1e-5), ("bf16", 0.02 * expected)):  # bf16 rounds with 2^-9 some ten times
            losses = self.train("classification", f"other_{compute}", {}, 1,
                                distill={"teacher": models[1], "alpha": 1.0, "temperature": 1.0, "compute": compute})
            self.assertLess(abs(losses[0] - expected), tolerance, compute)
            self.assertIn(f"modernbert, 2 blocks of 64, in {compute}; loss = 0 · the task's + 1 · kl at temperature 1",
                          (self.folder / f"other_{compute}/log.txt").read_text())

    def test_a_resumed_run_reads_the_teacher_again(self):
        self.teacher_of("classification")
        more = {"distill": {"teacher": "classification_teacher"}, "checkpoint": {"every_steps": 2, "keep": 9}}
        whole = self.train("classification", "resumed", {}, 6, **more)
        weights = (self.folder / "resumed/model/model.safetensors").read_bytes()
        as_if_killed_after(2, self.folder / "resumed")
        again = self.train("classification", "resumed", {}, 6, **more)
        self.assertIn("resuming from step 2", (self.folder / "resumed/log.txt").read_text())
        self.assertEqual(again.tolist(), whole.tolist())
        self.assertEqual((self.folder / "resumed/model/model.safetensors").read_bytes(), weights)

    def test_a_budget_of_memory_has_room_for_the_teacher(self):
        self.teacher_of("classification")
        most = {}
        for name, distill in (("alone", {}), ("beside", {"teacher": "classification_teacher"})):
            text, status = self.refused(batch={"global": 64, "memory": 52e6}, distill=distill, arguments=["--validate"])
            self.assertEqual(status, 0, text)
            most[name] = int(re.search(r"micro-batches of at most ([\d,]+) tokens", text)[1].replace(",", ""))
            self.assertLess(float(re.search(r"memory +([\d.]+) MiB per rank", text)[1]) * 2**20, 52e6)
        self.assertLess(most["beside"], most["alone"])

    def test_simulated_steps_have_the_teacher(self):
        self.teacher_of("classification")
        tables = {"machine": {"name": "one", "measured": False}, "node": {"ranks": 2},
                  "rank": {"memory_gib": 8.0, "memory_gb_per_second": 1.0, "fp32_gflops": 1.0},
                  **{f"link_{link}": {"gb_per_second": 1.0, "latency_us": 5.0} for link in ("in_node", "between_nodes")}}
        (self.folder / "machine.toml").write_text("".join(f"[{table}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                                                          for table, keys in tables.items()))
        seconds = []
        for distill in ({}, {"teacher": "classification_teacher"}):
            text, status = self.refused(run={"mode": "train", "directory": "refused", "machine": "machine.toml"}, distill=distill,
                                        batch={"global": 64}, arguments=["--validate"])
            self.assertEqual(status, 0, text)
            seconds.append(float(re.search(r"time +([\d.]+) ms per step", text)[1]))
        teacher = float(re.search(r"teacher +([\d.]+) ms of a step", text)[1])
        self.assertGreater(teacher, 0)
        self.assertLess(abs(seconds[1] - seconds[0] - teacher), 0.011 * seconds[1])  # of three numbers with three digits

    def scores_of(self, task, model, shards):
        """The file of predictions of these shards by a model."""
        output = f"scores_{model}"
        if not (self.folder / output).exists():
            self.start("bert_hpc", f"{output}.toml", {"run": {"mode": "predict", "directory": output}, "model": {"pretrained": model},
                                                      "task": {"name": task}, "data": {"test": shards}})
        return f"{output}/predictions.h5"

    def test_stored_outputs_of_a_teacher_do_what_the_teacher_does(self):
        for task, words, settings in (("classification", ["kl", "mse_logits"], {}), ("multi_label", ["kl"], {}),
                                      ("regression", ["mse_logits"], {"standardize": True}), ("regression", ["mse_logits"], {"range": [-9.0, 19.0]}),
                                      ("answer_ranking", ["kl"], {}), ("answer_ranking", ["kl", "margin_mse"], {"loss": "listwise"})):
            self.teacher_of(task)
            teacher = f"{task}_teacher"
            if "range" in settings:  # a teacher that was trained with it
                shutil.copytree(self.folder / teacher, self.folder / "bounded_teacher")
                teacher = "bounded_teacher"
                config = json.loads((self.folder / teacher / "config.json").read_text())
                (self.folder / teacher / "config.json").write_text(json.dumps(config | {"prediction_range": settings["range"]}))
            shards = [f"{task}/{'test' if task == 'answer_ranking' else 'train'}-*.h5"]  # of which predictions can be made
            scores = self.scores_of(task, teacher, shards)
            losses = []
            for name, source, parallel in (("live", {"teacher": teacher}, {}), ("stored", {"teacher_scores": scores}, {}),
                                           ("split", {"teacher_scores": scores}, {"data": 2, "pipeline": 2})):
                output = f"{task}_{name}_{len(settings.get('loss', ''))}_{'range' in settings}"
                losses.append(self.train(task, output, parallel, 6, task={"name": task} | settings, data={"train": shards, "order": "file"},
                                         distill=source | {"losses": words, "alpha": 0.7}))
                self.assertIn("stored outputs of" if name != "live" else "3 blocks", (self.folder / output / "log.txt").read_text())
            for other in losses[1:]:  # outputs of other micro-batches, rounded to single precision: 6e-8 a number, of sums of some hundred
                self.assertLess(np.abs(other / losses[0] - 1).max(), 2e-5, (task, settings))
            alone = self.train(task, f"{output}_alone", {}, 6, task={"name": task} | settings, data={"train": shards, "order": "file"})
            self.assertGreater(np.abs(alone - losses[0]).max(), 1e-3)

    def test_stored_outputs_that_are_refused(self):
        self.teacher_of("classification")
        self.teacher_of("multi_label")
        self.prepare("token_classification")
        right = self.scores_of("classification", "classification_teacher", ["classification/train-*.h5"])
        other = self.scores_of("classification", "classification_start", ["classification/test-*.h5"])
        sets = self.scores_of("multi_label", "multi_label_teacher", ["multi_label/train-*.h5"])
        words = {"task": {"name": "token_classification"}, "data": {"train": ["token_classification/train-*.h5"]},
                 "model": {"pretrained": "token_classification_start"}}
        for tables, status, *texts in (
            ({"distill": {"teacher_scores": "nowhere.h5"}}, 3, "nowhere.h5"),
            ({"distill": {"teacher_scores": "classification/train-00000.h5"}}, 3, "no file of predictions"),
            ({"distill": {"teacher_scores": right, "teacher": "classification_teacher"}}, 2, "exclude each other"),
            ({"distill": {"teacher_scores": right, "compute": "bf16"}}, 2, "initialize and compute need the teacher itself"),
            ({"distill": {"teacher_scores": right, "losses": ["kl", "hidden_mse"]}}, 2, '"hidden_mse" needs the teacher itself'),
            ({"distill": {"teacher_scores": right, "losses": ["attention_mse"]}}, 2, '"attention_mse" needs the teacher itself'),
            ({"distill": {"teacher_scores": other}}, 3, "other shards than [data] train"),
            ({"distill": {"teacher_scores": sets}}, 3, 'of the task "multi_label" and this training is of "classification"'),
            (words | {"distill": {"teacher_scores": right}}, 2, 'teacher_scores is not for the task "token_classification"'),
        ):
            self.check_refusal(tables, status, texts)

    def prepare_masked(self):
        """Makes the shards of masked language modelling in the folder masked, once."""
        if (self.folder / "masked").exists():
            return
        (self.folder / "masked.txt").write_text("\n".join(self.sentences()) + "\n")
        self.start("bert_hpc_prep", "masked_prep.toml", {
            "source": {"format": "text", "files": ["masked.txt"]}, "split": {"train": 0.9, "test": 0.1},
            "tokenizer": {"train_size": 250, "max_tokens": 40}, "task": {"name": "masked_lm"}, "output": {"directory": "masked"}})

    def test_masked_language_models(self):
        self.prepare_masked()
        base = {"data": {"train": ["masked/train-*.h5"], "order": "file"}}
        self.train("masked_lm", "masked_teacher", {}, 4, model={"vocab_size": 250, **SIZES}, **base)
        distill = {"teacher": "masked_teacher/model", "alpha": 1.0}
        same = self.train("masked_lm", "masked_itself", {}, 1, model={"pretrained": "masked_teacher/model"}, distill=distill, **base)
        self.assertEqual(same[0], 0)
        student = {"model": {"vocab_size": 250, **SIZES, "num_hidden_layers": 1}}
        losses = [self.train("masked_lm", f"masked_student_{n}", parallel, 4, distill=distill | {"alpha": 0.5}, **student, **base)
                  for n, parallel in enumerate(({}, {"data": 2}, {"pipeline": 2}, {"tensor": 2}, {"pipeline": 2, "tensor": 2}))]
        self.assertGreater(losses[0][0], 0.1)
        for other in losses[1:]:  # sums in another order
            self.assertLess(np.abs(other - losses[0]).max(), 1e-5)

    def sentences(self):
        return [line.split("\t")[0] for line in (self.folder / "train.tsv").read_text().splitlines()[1:]]

    def test_a_student_begins_with_blocks_of_its_teacher(self):
        self.teacher_of("classification")
        student = {"model": SIZES, "optimizer": {"learning_rate": 1e-30, "weight_decay": 0.0}}
        for output, blocks, parallel in (("upper", [2, 0], {}), ("upper_split", [2, 0], {"data": 2, "pipeline": 2})):
            self.train("classification", output, parallel, 1, distill={"teacher": "classification_teacher", "initialize": blocks}, **student)
            teacher, made = (tensors_of(self.folder / folder / "model.safetensors") for folder in ("classification_teacher", f"{output}/model"))
            for name, value in made.items():
                here = name
                for block, there in enumerate(blocks):
                    if name.startswith(f"bert.encoder.layer.{block}."):
                        here = name.replace(f".{block}.", f".{there}.", 1)
                expected = teacher[here][::-1] if name.startswith("classifier") else teacher[here]  # labels in the opposite order
                np.testing.assert_array_equal(value, expected, name)

    def test_a_run_says_what_its_teacher_takes(self):
        self.teacher_of("classification")
        self.train("classification", "described", {}, 2, distill={"teacher": "classification_teacher"})
        with h5py.File(self.folder / "described/metrics.h5") as file:
            sections = [name.decode() if isinstance(name, bytes) else name for name in file["timers/name"][:]]
        self.assertIn("teacher", sections)
        text = (self.folder / "described/log.txt").read_text()
        self.assertIn("classification_teacher: bert, 3 blocks of 64, in fp32; loss = 0.5 · the task's + 0.5 · kl at temperature 2", text)
        self.assertIn("teacher: parameters", text)
        self.train("classification", "compared", {"pipeline": 2}, 2, distill={"teacher": "classification_teacher", "losses": ["hidden_mse"]})
        text = (self.folder / "compared/log.txt").read_text()
        self.assertIn("hidden_mse compares the embeddings and the student's blocks 0 to 1 with the teacher's [1, 2] (evenly spaced)", text)
        self.assertIn("teacher: hidden states of a step", text)
        self.train("classification", "attended", {"pipeline": 2}, 2, distill={"teacher": "classification_teacher", "losses": ["attention_mse"]})
        text = (self.folder / "attended/log.txt").read_text()
        self.assertIn("attention_mse compares the student's blocks 0 to 1 with the teacher's [1, 2] (evenly spaced)", text)
        self.assertIn("teacher: queries and keys of a step", text)
        resolved = (self.folder / "described/input.toml").read_text()
        self.assertIn('losses = ["kl"]', resolved)
        self.assertIn('compute = "fp32"', resolved)

    def test_inputs_that_are_refused(self):
        self.teacher_of("classification")
        self.teacher_of("multi_label")
        self.prepare("answer_ranking")
        self.prepare_masked()
        config = json.loads((self.folder / "classification_teacher/config.json").read_text())
        names = list(config["label2id"])
        self.teacher_with("other_labels", id2label=config["id2label"] | {"0": "another"}, label2id={"another": 0} | {name: i for i, name in enumerate(names) if i > 0})
        self.teacher_with("fewer_labels", id2label={str(i): name for i, name in enumerate(names[:3])}, label2id={name: i for i, name in enumerate(names[:3])})
        self.teacher_with("short", max_position_embeddings=9, vocab_size=12)
        self.teacher_with("of_sets", problem_type="multi_label_classification")
        self.teacher_with("of_words", architectures=["BertForTokenClassification"])
        self.teacher_with("other_tokenizer")
        pieces = (self.folder / "classification/vocab.txt").read_text().splitlines()
        (self.folder / "other_tokenizer/vocab.txt").write_text("\n".join([*pieces[:-2], pieces[-1], pieces[-2]]) + "\n")
        for tables, status, *texts in (
            ({"distill": {"teacher": "nowhere"}}, 4, "nowhere"),
            ({"distill": {"alpha": 0.5, "temperature": 3.0}}, 2, "[distill] teacher is missing"),
            ({"distill": {"teacher": "t", "temperature": 0.0}}, 2, "[distill] temperature", "above 0"),
            ({"distill": {"teacher": "classification_teacher", "losses": ["hidden"]}}, 2, '"hidden" is none of the task "classification"', '"kl"'),
            ({"distill": {"teacher": "other_labels"}}, 2, "has other labels ("),
            ({"model": SIZES | {"hidden_size": 32},
              "distill": {"teacher": "classification_teacher", "initialize": [0, 1, 3]}}, 2, "names 3 blocks and the student has 2",
             "blocks are 0 to 2", "hidden_size is 32 and the teacher's is 64"),
            ({"distill": {"teacher": "classification_teacher", "initialize": [0, 1]}}, 2, "remove one of them"),
            ({"distill": {"teacher": "classification_teacher", "layer_map": [0, 1]}}, 2, "layer_map is read by losses", "hidden_mse", "attention_mse"),
            ({"distill": {"teacher": "classification_teacher", "match_embeddings": False}}, 2, "match_embeddings is read by losses"),
            ({"distill": {"teacher": "classification_teacher", "losses": ["hidden_mse"], "layer_map": [0, 1, 3]}}, 2,
             "names 3 blocks and the student has 2", "no block 3: its blocks are 0 to 2", "without it, it is [1, 2]"),
            ({"model": SIZES | {"hidden_size": 32, "freeze_layers": 1}, "parallel": {"pipeline_schedule": "zb_h1"},
              "distill": {"teacher": "classification_teacher", "losses": ["hidden_mse"]}}, 2, "trains projections", "freeze_layers 0", '"zb_h1"'),
            ({"model": SIZES | {"hidden_size": 32}, "distill": {"teacher": "classification_teacher", "losses": ["hidden_cosine"]}}, 2,
             '"hidden_cosine" compares hidden states of equal size', "have 32 columns and the teacher's 64"),
            ({"model": SIZES | {"num_attention_heads": 4}, "distill": {"teacher": "classification_teacher", "losses": ["attention_mse"]}}, 2,
             '"attention_mse" compares each head', "the student has 4 heads and the teacher 2", "num_attention_heads = 2"),
            ({"distill": {"teacher": "classification_teacher", "losses": ["kl", "mse_logits", "kl"]}}, 2, 'names "kl" more than once'),
            ({"model": {"pretrained": "classification_start", "trainable": "head"},
              "distill": {"teacher": "classification_teacher", "losses": ["kl", "hidden_cosine"]}}, 2, 'nothing to train with [model] trainable = "head"'),
            ({"model": {"pretrained": "classification_start", "freeze_layers": 2},
              "distill": {"teacher": "classification_teacher", "losses": ["attention_mse"]}}, 2, "freeze_layers = 2, all blocks"),
            ({"distill": {"teacher": "short"}}, 2, "at most 9 tokens", "vocabulary has 12 pieces"),
            ({"distill": {"teacher": "fewer_labels"}}, 2, "3 labels and the student 4"),
            ({"distill": {"teacher": "multi_label_teacher"}}, 2, '"multi_label_teacher" does not fit', "trained for another task",
             'config.json has problem_type "multi_label_classification"', 'the task "classification" needs "single_label_classification"'),
            ({"distill": {"teacher": "of_sets"}}, 2, '"of_sets" does not fit', 'problem_type "multi_label_classification"',
             "use a teacher that was trained for this task, or set [task] name"),
            ({"distill": {"teacher": "of_words"}}, 2, '"of_words" does not fit', 'architectures "…ForTokenClassification"',
             'the task "classification" needs "…ForSequenceClassification"'),
            ({"task": {"name": "masked_lm"}, "data": {"train": ["masked/train-*.h5"]}, "model": {"vocab_size": config["vocab_size"], **SIZES}}, 2,
             'architectures "…ForSequenceClassification"', 'the task "masked_lm" needs "…ForMaskedLM"'),
            ({"distill": {"teacher": "other_tokenizer"}}, 3, "prepared with another vocabulary", "other_tokenizer/vocab.txt"),
            ({"task": {"name": "answer_ranking"}, "data": {"train": ["answer_ranking/train-*.h5"]}, "model": {"pretrained": "answer_ranking_start"},
              "distill": {"teacher": "answer_ranking_start", "losses": ["margin_mse"]}}, 2, 'needs [task] loss = "listwise"'),
            ({"run": {"mode": "predict", "directory": "refused"}, "data": {"test": ["classification/test-*.h5"]}, "optimizer": {}, "schedule": {}},
             2, '[distill] belongs to [run] mode = "train"'),
        ):
            self.check_refusal(tables, status, texts)


if __name__ == "__main__":
    unittest.main()
