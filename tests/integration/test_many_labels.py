"""Classification with thousands of labels: every precision and layout trains, evaluates and writes its model."""

import json
import pathlib
import shutil
import tempfile
import unittest

import h5py

from program import MPIRUN, run


class ManyLabels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_test_"))
        for labels in (3000, 10000):
            cls.prepare(labels)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def prepare(cls, labels):
        lines = ["text\tlabel"] + [f"the {row % 7} dogs of {row}\tclass {row:05}" for row in range(labels)]
        (cls.folder / f"{labels}.tsv").write_text("\n".join(lines) + "\n")
        (cls.folder / f"{labels}.toml").write_text(f"""
[source]
format = "tsv"
files = ["{cls.folder}/{labels}.tsv"]
text = "text"
label = "label"
[split]
train = 0.9
validation = 0.1
test = 0.0
stratify = false
[tokenizer]
train_size = 100
max_tokens = 16
[task]
name = "classification"
[output]
directory = "{cls.folder}/{labels}"
""")
        run("bert_hpc_prep", cls.folder / f"{labels}.toml", check=0)

    def train(self, name, labels, batch, ranks=1, steps=2, arguments=(), check=0, **tables):
        directory = self.folder / name
        tables = {"run": {"mode": "train", "directory": str(directory), "seed": 5},
                  "model": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
                            "max_position_embeddings": 16},
                  "task": {"name": "classification"},
                  "data": {"train": [f"{self.folder}/{labels}/train-*.h5"],
                           "validation": [f"{self.folder}/{labels}/validation-*.h5"]},
                  "batch": {"global": batch}, "optimizer": {"learning_rate": 1e-3}, "schedule": {"steps": steps},
                  "log": {"every_steps": 1, "progress": "lines"}} | tables
        path = self.folder / f"{name}.toml"
        path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                                for table, keys in tables.items()))
        done = run("bert_hpc", path, *arguments, ranks=ranks, threads=1, check=check)
        return done, directory

    def test_three_thousand_in_every_precision_and_layout(self):
        cases = [(f"{compute}-{batch}", batch, 1, {"precision": {"compute": compute}})
                 for compute in ("fp32", "bf16", "fp16", "fp8") for batch in (1, 16)]
        cases += [("replicas", 16, 2, {}), ("zero", 16, 2, {"parallel": {"zero": 2}}),
                  ("pipeline", 16, 2, {"parallel": {"pipeline": 2}}), ("tensor", 16, 2, {"parallel": {"tensor": 2}})]
        for name, batch, ranks, tables in cases:
            with self.subTest(name):
                _, directory = self.train(name, 3000, batch, ranks, **tables)
                config = json.loads((directory / "model/config.json").read_text())
                self.assertEqual(len(config["id2label"]), 3000)
                with h5py.File(directory / "metrics.h5") as file:
                    self.assertEqual(len(file["steps/loss"]), 2)
                    evaluations = file["evaluations/validation"]
                    self.assertGreater(evaluations["loss"][0], 0)
                    self.assertNotIn("confusion_matrix", evaluations)  # it would have nine million numbers
                    self.assertEqual(evaluations["per_class/f1"].shape, (len(evaluations["step"]), 3000))

    def test_ten_thousand(self):
        _, directory = self.train("ten", 10000, 32, 2)
        validated, _ = self.train("ten-validated", 10000, 32, arguments=("--validate", "--ranks", "2"))
        self.assertIn("The input is valid. Nothing was computed.", validated.stdout)
        with h5py.File(directory / "metrics.h5") as file:
            grown = file["ranks/peak_memory"][:] - file["ranks/start_memory"][:]
            self.assertTrue((grown <= 1.1 * file["ranks/planned_memory"][:]).all(), (grown, file["ranks/planned_memory"][:]))
        # The trained model is read again and judged.
        sizes = {"model": {"pretrained": str(directory / "model")}}
        tables = sizes | {"data": {"test": [f"{self.folder}/10000/validation-*.h5"]},
                          "run": {"mode": "evaluate", "directory": str(self.folder / "judged")}}
        path = self.folder / "judged.toml"
        path.write_text("".join(f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                                for table, keys in (tables | {"task": {"name": "classification"}}).items()))
        self.assertIn("accuracy", run("bert_hpc", path, threads=1, check=0).stdout)


if __name__ == "__main__":
    unittest.main()
