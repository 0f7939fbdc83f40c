"""[task] loss = "concordance": a loss over all sequences of a step, against its definition in numpy; layouts agree."""

import hashlib
import unittest

import h5py
import numpy as np
from program import SIZES, Case, run

CONCORDANCE = {"loss": "concordance"}


def concordance(x, y):
    return 2 * np.mean((x - x.mean()) * (y - y.mean())) / (x.var() + y.var() + (x.mean() - y.mean()) ** 2)


class StepLoss(Case):
    task = "regression"

    def start(self, name, ranks=1, check=0, **tables):
        directory = self.work.folder / name
        tables["run"] = {"directory": str(directory)} | tables.get("run", {})
        tables["schedule"] = {"epochs": None} | tables.get("schedule", {"steps": 1})
        return directory, run("bert_hpc", self.work.input(f"{name}.toml", **tables), ranks=ranks, threads=1, check=check)

    def test_the_loss_of_a_step_is_that_of_all_its_sequences(self):
        base, _ = self.start("base", schedule={"steps": 20})
        shards = [f"{self.work.folder}/shards/train-*.h5"]
        folder, _ = self.start("predicted", run={"mode": "evaluate"}, model=SIZES | {"pretrained": f"{base}/model"},
                               data={"train": None, "validation": None, "test": shards})
        with h5py.File(folder / "predictions.h5") as file:
            predicted, labels = (file[name][()].astype(float) for name in ("prediction", "label"))
        with h5py.File(folder / "metrics.h5") as file:
            # The same sums of some hundred terms in another order.
            self.assertAlmostEqual(file["evaluations/test/concordance"][0], concordance(predicted, labels), delta=1e-12)
        model = SIZES | {"pretrained": f"{base}/model", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        for batch in ({"global": len(labels)}, {"global": len(labels), "micro": 50}):
            name = f"step of {batch}"
            with self.subTest(name):
                directory, done = self.start(name, ranks=2, model=model, task=CONCORDANCE, batch=batch)
                with h5py.File(directory / "metrics.h5") as file:
                    # Predictions of about 1 are rounded to 6e-8 by some layers: below 1e-5 of a loss between 0 and 2.
                    self.assertAlmostEqual(file["steps/loss"][0], 1 - concordance(predicted, labels), delta=1e-5)
                self.assertIn("1 − the concordance of a step's predictions", done.stdout)
                self.assertIn("outputs of a whole step", done.stdout)

    def test_it_learns(self):
        directory, _ = self.start("learns", ranks=2, task=CONCORDANCE, schedule={"epochs": 15})
        with h5py.File(directory / "metrics.h5") as file:
            # A constant guess has a concordance of 0.
            self.assertGreater(max(file["evaluations/validation/concordance"]), 0.8)

    def test_layouts_change_no_bit(self):
        layouts = {"one": (1, {}, {}), "two": (2, {"data": 2}, {}), "small": (1, {}, {"micro": 4}),
                   "stages": (2, {"pipeline": 2}, {"micro_batches": 4}), "both": (4, {"data": 2, "pipeline": 2}, {"micro_batches": 2}),
                   "shared states": (2, {"data": 2, "zero": 2}, {"micro": 4})}
        found = {}
        for name, (ranks, parallel, batch) in layouts.items():
            directory, _ = self.start(f"layout {name}", ranks, task=CONCORDANCE, parallel=parallel, batch={"global": 16} | batch,
                                      run={"directory": f"{self.work.folder}/layout {name}", "reproducible": True},
                                      schedule={"steps": 25})
            with h5py.File(directory / "metrics.h5") as file:
                found[name] = (list(file["steps/loss"]), hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest())
        for name, values in found.items():
            self.assertEqual(values, found["one"], name)

    def test_schedules_of_another_order_are_refused(self):
        _, done = self.start("refused", ranks=2, check=2, task=CONCORDANCE,
                             parallel={"pipeline": 2, "pipeline_schedule": "zb_h1"})
        self.assertIn('pipeline_schedule = "zb_h1" begins backward passes before', done.stderr)


if __name__ == "__main__":
    unittest.main()
