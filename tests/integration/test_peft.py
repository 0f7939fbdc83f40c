"""Adapters beside PEFT's: 20 steps follow its loss on every layout; PEFT loads a run's adapter, and Transformers its merged model, to
the run's predictions. Needs torch, transformers and peft, skipped without: test_training_goldens.py has PEFT's losses."""

import shutil
import unittest

import hf_reference
import numpy
import peft
import torch

import training_cases as cases
from test_head_labels import tensors_of, write_tensors
from test_transformers import LAYOUTS, PREDICTION_TOLERANCE

# Both sides compute the same steps, PEFT in double, bert_hpc in single precision; the bound is the project's aim.
LOSS_TOLERANCE = 1e-5


class Peft(cases.Trainings):
    def test_losses_and_folders(self):
        for name in cases.ADAPTERS:
            task = cases.adapted_task(name)
            train, test = self.prepare(task)
            start = self.folder / f"{task}_start"
            adapter = f"{name}_adapter"
            cases.write_adapter(self.folder / adapter, name, start.name, train)
            expected, _ = hf_reference.trained_adapter(start, self.folder / adapter, train, task)
            self.assertLess(numpy.mean(expected[-5:]), numpy.mean(expected[:5]), "it learns")
            for layout, parallel in LAYOUTS.items():
                with self.subTest(name, layout=layout):
                    output = f"{name}_{layout.replace(' ', '_')}"
                    difference = numpy.abs(self.train_adapter(adapter, output, parallel, task) - expected).max()
                    print(f"{name}, {layout}: losses {expected[0]:.4f} to {expected[-1]:.4f}, at most {difference:.1e} apart")
                    self.assertLess(difference, LOSS_TOLERANCE)
                    self.check_folder(task, output, test)

    def test_head_of_two_layers(self):
        """RoBERTa's head is one module to PEFT: "classifier"."""
        task = "roberta_classification"
        _, test = self.prepare(task)
        self.start("bert_hpc", "roberta.toml", {
            "run": {"mode": "train", "directory": "roberta_lora"}, "model": {"pretrained": f"{task}_start", "trainable": "lora"},
            "model.lora": {"rank": 4}, "task": {"name": "classification"},
            "data": {"train": [f"{task}/train-*.h5"], "test": [f"{task}/test-*.h5"]}, "batch": {"global": cases.BATCH},
            "optimizer": {"learning_rate": cases.RATE}, "schedule": {"steps": cases.STEPS}, "log": {"progress": "none"}})
        self.check_folder(task, "roberta_lora", test)

    def test_a_head_that_is_not_trained(self):
        """PEFT takes it from the base model, or from the adapter if the base model has none."""
        _, test = self.prepare("classification")
        start, headless = self.folder / "classification_start", self.folder / "headless"
        shutil.copytree(start, headless)
        write_tensors(headless, {name: values for name, values in tensors_of(start).items() if "classifier" not in name})
        for base, modules in ((start, None), (headless, ["bert.pooler.dense", "classifier"])):
            with self.subTest(base.name):
                output = f"{base.name}_alone"
                self.start("bert_hpc", f"{output}.toml", {
                    "run": {"mode": "train", "directory": output}, "model": {"pretrained": base.name, "trainable": "lora"},
                    "model.lora": {"rank": 4, "train_head": False}, "task": {"name": "classification"},
                    "data": {"train": ["classification/train-*.h5"], "test": ["classification/test-*.h5"]}, "batch": {"global": cases.BATCH},
                    "optimizer": {"learning_rate": cases.RATE}, "schedule": {"steps": cases.STEPS}, "log": {"progress": "none"}})
                self.assertEqual(peft.LoraConfig.from_pretrained(self.folder / output / "adapter").modules_to_save, modules)
                self.check_folder("classification", output, test, base)

    def check_folder(self, task, output, shard, start=None):
        """PEFT loads RUN/adapter, and Transformers RUN/model, to the run's predictions."""
        base = hf_reference.class_of(task).from_pretrained(start or self.folder / f"{task}_start")
        adapted = peft.PeftModel.from_pretrained(base, self.folder / output / "adapter").eval()
        whole = hf_reference.class_of(task).from_pretrained(self.folder / output / "model").eval()
        ours = self.predictions(task, output)
        for model in (adapted, whole):
            if task == "gpt2_causal_lm":
                with torch.no_grad():
                    theirs = numpy.array([hf_reference.token_loss(model, shard, [i]).item() for i in range(len(shard["ids"]))])
            else:
                theirs = torch.stack([one.logits[0] for one in hf_reference.outputs(model, shard)]).softmax(-1).numpy()
            difference = numpy.abs(theirs - ours).max()
            print(f"{output}: predictions at most {difference:.1e} apart")
            self.assertLess(difference, PREDICTION_TOLERANCE)


if __name__ == "__main__":
    unittest.main()
