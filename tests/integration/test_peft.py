"""Adapters beside PEFT's: 20 steps follow its loss; it loads the folder of a run's adapter to the run's predictions; and a run
begins with a folder that PEFT saved. Needs torch, transformers and peft, skipped without."""

import os
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py
import numpy
import peft
import torch
import transformers

import test_transformers as beside

STEPS, RATE = 20, 5e-3
# Both sides compute the same steps, PEFT in double, bert_hpc in single precision, whose rounding of 6e-8 a number grows with the
# steps. The bounds are the project's aims.
LOSS_TOLERANCE, PREDICTION_TOLERANCE = 1e-5, 1e-5
CHOICES = {
    "usual": {"rank": 8, "alpha": 16.0},
    "all_layers": {"rank": 4, "alpha": 6.0, "targets": ["all-linear"], "rslora": True},
    "some": {"rank": 2, "targets": ["key", "intermediate.dense"]},
    "magnitudes": {"rank": 4, "alpha": 6.0, "targets": ["query", "key", "intermediate.dense", "output.dense"], "dora": True},
}
PEFT_TARGETS = {"usual": ["query", "value"], "some": ["key", "intermediate.dense"],
                "magnitudes": ["query", "key", "intermediate.dense", "output.dense"],
                "all_layers": ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]}


class Peft(unittest.TestCase):
    setUpClass = classmethod(beside.Transformers.setUpClass.__func__)
    tearDownClass = classmethod(beside.Transformers.tearDownClass.__func__)
    start, prepare, save_model = beside.Transformers.start, beside.Transformers.prepare, beside.Transformers.save_model

    def save_adapter(self, name, folder):
        """PEFT's own first values, but b is not zero and magnitudes are no norms: every gradient counts from the first step on."""
        lora = CHOICES[name]
        model = transformers.BertForSequenceClassification.from_pretrained(self.folder / "classification_start")
        config = peft.LoraConfig(r=lora["rank"], lora_alpha=lora.get("alpha", 8), use_rslora=lora.get("rslora", False),
                                 use_dora=lora.get("dora", False), target_modules=PEFT_TARGETS[name], modules_to_save=["bert.pooler.dense", "classifier"])
        adapted = peft.get_peft_model(model, config)
        with torch.no_grad():
            for key, value in adapted.named_parameters():
                if "lora_B" in key:
                    value.normal_(0, 0.05)
                if "lora_magnitude_vector" in key:
                    value.mul_(torch.empty_like(value).uniform_(0.8, 1.2))
        adapted.save_pretrained(self.folder / folder)

    def losses_of_peft(self, folder, shard):
        base = transformers.BertForSequenceClassification.from_pretrained(self.folder / "classification_start")
        model = peft.PeftModel.from_pretrained(base, self.folder / folder, is_trainable=True).double().train()
        parameters = [value for value in model.parameters() if value.requires_grad]
        biases = {id(value) for key, value in model.named_parameters() if key.endswith("bias")}
        update = torch.optim.AdamW([{"params": [p for p in parameters if id(p) not in biases], "weight_decay": 0.01},
                                    {"params": [p for p in parameters if id(p) in biases], "weight_decay": 0.0}], lr=RATE, eps=1e-8)
        losses = []
        rows = list(range(len(shard["ids"])))
        batches = [rows[begin:begin + beside.BATCH] for begin in range(0, len(rows), beside.BATCH)]
        for step in range(STEPS):
            loss = beside.padded_loss(model, shard, batches[step % len(batches)])
            update.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for group in update.param_groups:
                group["lr"] = RATE * (1 - step / STEPS)
            update.step()
            losses.append(loss.item())
        return numpy.array(losses)

    def train(self, name, adapter, layout, parallel):
        output = f"{name}_{layout.replace(' ', '_')}"
        self.start("bert_hpc", f"{output}.toml", {
            "run": {"mode": "train", "directory": output}, "model": {"pretrained": "classification_start", "trainable": "lora"},
            "model.lora": {"adapter": adapter}, "task": {"name": "classification"},
            "data": {"train": ["classification/train-*.h5"], "test": ["classification/test-*.h5"], "order": "file"},
            "batch": {"global": beside.BATCH}, "optimizer": {"learning_rate": RATE}, "schedule": {"steps": STEPS},
            "parallel": parallel, "log": {"every_steps": 1, "progress": "none"}}, ranks=4 if parallel else 1)
        with h5py.File(self.folder / output / "metrics.h5") as file:
            return output, file["steps/loss"][:]

    def test_losses_and_folders(self):
        train, test = self.prepare("classification", "label")
        self.save_model("classification", train)
        for name in CHOICES:
            self.save_adapter(name, f"{name}_adapter")
            expected = self.losses_of_peft(f"{name}_adapter", train)
            self.assertLess(expected[-5:].mean(), expected[:5].mean(), "it learns")
            for layout, parallel in (("one rank", {}), ("data x pipeline", {"data": 2, "pipeline": 2}),
                                     ("data x tensor", {"data": 2, "tensor": 2})):
                with self.subTest(name, layout=layout):
                    output, losses = self.train(name, f"{name}_adapter", layout, parallel)
                    apart = numpy.abs(losses - expected).max()
                    print(f"{name}, {layout}: losses {expected[0]:.4f} to {expected[-1]:.4f}, at most {apart:.1e} apart")
                    self.assertLess(apart, LOSS_TOLERANCE)
                    self.check_folder(output, test)

    def test_head_of_two_layers(self):
        """RoBERTa's head is one module to PEFT: "classifier"."""
        task = "roberta_classification"
        train, test = self.prepare(task, "label")
        self.save_model(task, train)
        self.start("bert_hpc", "roberta.toml", {
            "run": {"mode": "train", "directory": "roberta_lora"}, "model": {"pretrained": f"{task}_start", "trainable": "lora"},
            "model.lora": {"rank": 4}, "task": {"name": "classification"},
            "data": {"train": [f"{task}/train-*.h5"], "test": [f"{task}/test-*.h5"]}, "batch": {"global": beside.BATCH},
            "optimizer": {"learning_rate": RATE}, "schedule": {"steps": STEPS}, "log": {"progress": "none"}})
        self.check_folder("roberta_lora", test, task)

    def check_folder(self, output, shard, task="classification"):
        """PEFT loads RUN/adapter, and Transformers RUN/model, to the run's predictions."""
        base = beside.class_of(task).from_pretrained(self.folder / f"{task}_start")
        adapted = peft.PeftModel.from_pretrained(base, self.folder / output / "adapter").eval()
        whole = beside.class_of(task).from_pretrained(self.folder / output / "model").eval()
        with h5py.File(self.folder / output / "predictions.h5") as file:
            ours = file["probabilities"][:]
        for model in (adapted, whole):
            with torch.no_grad():
                logits = torch.stack([model(input_ids=torch.tensor([ids])).logits[0] for ids in shard["ids"]])
            apart = numpy.abs(logits.softmax(-1).numpy() - ours).max()
            print(f"{output}: predictions at most {apart:.1e} apart")
            self.assertLess(apart, PREDICTION_TOLERANCE)


if __name__ == "__main__":
    unittest.main()
