"""[model] recompute: the same bits in less memory; what excludes it is named."""

import hashlib
import re
import unittest

from program import Case, run

CHOICES = ("none", "attention", "blocks", 3)


class Recompute(Case):
    def train(self, name, recompute, ranks=1, check=0, **tables):
        directory = self.work.folder / name
        tables["model"] = {"recompute": recompute, "num_hidden_layers": 4} | tables.get("model", {})
        path = self.work.input(f"{name}.toml", run={"directory": str(directory), "reproducible": True},
                               schedule={"epochs": None, "steps": 6}, **tables)
        done = run("bert_hpc", path, ranks=ranks, threads=1, check=check)
        if check:
            return done.stderr
        return hashlib.sha256((directory / "model/model.safetensors").read_bytes()).hexdigest()

    def test_the_bits_are_those_of_kept_activations(self):
        layouts = {"one": (1, {}), "stages": (2, {"pipeline": 2}), "replicas": (2, {"data": 2, "zero": 2}), "tensor": (2, {"tensor": 2})}
        for name, (ranks, parallel) in layouts.items():
            batch = {"micro_batches": 4} if name == "stages" else {"micro": 8}
            found = {choice: self.train(f"{name} {choice}", choice, ranks, parallel=parallel, batch=batch) for choice in CHOICES}
            for choice, bits in found.items():
                with self.subTest(layout=name, recompute=choice):
                    self.assertEqual(bits, found["none"])

    def test_frozen_blocks_and_16_bits(self):
        for name, tables in {"frozen": {"model": {"freeze_layers": 2}}, "bf16": {"precision": {"compute": "bf16"}}}.items():
            with self.subTest(name):
                self.assertEqual(self.train(f"{name} blocks", "blocks", **tables), self.train(f"{name} none", "none", **tables))

    def test_activations_take_less_memory(self):
        """Of 8 blocks, one is there at a time, beside a result of each, gradients and the head: half is far more than that."""
        found = {}
        for choice in CHOICES:
            path = self.work.input("memory.toml", model={"recompute": choice, "num_hidden_layers": 8, "hidden_size": 128}, batch={"global": 300})
            text = run("bert_hpc", path, "--validate", check=0).stdout
            found[choice] = float(re.search(r"[( ]activations ([\d.]+) MiB", text).group(1))
            # The table of choices has the planned memory and, for the machine is not known, shares of operations.
            table = dict(re.findall(r'("\w+"|\d) ([\d.]+ MiB, \d+)% of the operations', text))
            total = re.search(r"  memory +([\d.]+ MiB) per rank", text).group(1)
            own = table[f'"{choice}"' if isinstance(choice, str) else str(choice)]
            self.assertEqual(own.split(",")[0], total)
            self.assertEqual(table['"none"'].split()[-1], "100")
            self.assertGreater(int(table['"blocks"'].split()[-1]), 120)
        self.assertLess(found["blocks"], found["none"] / 2)
        self.assertLess(found["attention"], 0.9 * found["none"])
        self.assertLess(found[3], 0.9 * found["none"])

    def test_what_excludes_it_is_named(self):
        self.assertIn('does not go with [precision] compute = "fp8"',
                      self.train("fp8", "blocks", check=2, precision={"compute": "fp8"}))
        self.assertIn('does not go with [parallel] pipeline_schedule = "zb_h1"',
                      self.train("zb", "attention", ranks=2, check=2, parallel={"pipeline": 2, "pipeline_schedule": "zb_h1"}))
        self.assertIn("a whole number of blocks from 0 to 4", self.train("many", 5, check=2))


if __name__ == "__main__":
    unittest.main()
