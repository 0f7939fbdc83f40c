"""One rank against every factorisation of 2, 4 and 8 ranks, with every schedule and every stage of ZeRO, with and without
offload: ten steps in reproducible mode with dropout on. Layouts without tensor ranks give the same bits, the others the
same to rounding. The usual tests take a selection of these (test_pipeline, test_sharding, test_tensor);
BERT_HPC_EVERY_LAYOUT=1 asks for all, which takes three minutes on two cores."""

import os
import sys
import unittest

import h5py
import numpy as np
from program import Case, run
from test_tensor import read_safetensors

# Eight heads for eight tensor ranks, sixteen halves for eight stages of two parts.
MODEL = {"hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 8}
SCHEDULES = [{"pipeline_schedule": name} for name in ("gpipe", "1f1b", "zb_h1")]
SCHEDULES.append({"pipeline_schedule": "interleaved", "virtual_stages": 2})
SHARDED = [{"zero": 0}] + [{"zero": zero, "offload": offload} for zero in (1, 2) for offload in (False, True)]


def layouts():
    """(ranks, [parallel])"""
    for ranks in (2, 4, 8):
        sizes = [size for size in (1, 2, 4, 8) if size <= ranks]
        for data, pipeline, tensor in ((d, p, ranks // d // p) for d in sizes for p in sizes if d * p <= ranks):
            for schedule in SCHEDULES if pipeline > 1 else [{}]:
                for sharded in SHARDED if data > 1 else [{"zero": 0}]:
                    yield ranks, {"data": data, "pipeline": pipeline, "tensor": tensor} | schedule | sharded


class EveryLayout(Case):
    def train(self, name, ranks, parallel):
        directory = self.work.folder / name
        run("bert_hpc", self.work.input(f"{name}.toml", model=MODEL, parallel=parallel,
                                        run={"directory": str(directory), "reproducible": True},
                                        schedule={"epochs": None, "steps": 10}, batch={"global": 16}),
            ranks=ranks, threads=1, check=0)
        with h5py.File(directory / "metrics.h5") as file:
            losses = np.array(file["steps/loss"])
        return losses, read_safetensors(directory / "model/model.safetensors")

    def test_every_layout(self):
        losses, weights = self.train("one", 1, {})
        count = 0
        for ranks, parallel in layouts():
            with self.subTest(ranks=ranks, **parallel):
                found, mine = self.train(f"layout-{count}", ranks, parallel)
                count += 1
                exact = parallel["tensor"] == 1
                self.assertEqual(mine.keys(), weights.keys())
                # Rounding of 1e-7 a pass, which ten updates at most multiply by some hundred.
                np.testing.assert_allclose(found, losses, rtol=0 if exact else 1e-4, atol=0)
                for tensor, values in weights.items():
                    if exact:
                        np.testing.assert_array_equal(mine[tensor], values, tensor)
                    # The gradient of a key's bias is zero but for rounding, which AdamW blows up to whole updates.
                    elif not tensor.endswith("key.bias"):
                        self.assertLess(np.linalg.norm(mine[tensor] - values), 1e-3 * np.linalg.norm(values), tensor)
        print(f"{count} layouts compared with one rank")


if __name__ == "__main__":
    if os.environ.get("BERT_HPC_EVERY_LAYOUT") != "1":
        print("skipped: BERT_HPC_EVERY_LAYOUT=1 runs every layout, which takes some minutes")
        sys.exit(77)
    unittest.main()
