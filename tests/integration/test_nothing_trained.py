"""A run whose every step was skipped is no success: status 5, a message, and no model."""

import unittest

from program import MPIRUN, Workspace, run


class NothingTrained(unittest.TestCase):
    def setUp(self):
        if MPIRUN is None:
            raise unittest.SkipTest("mpirun is not at hand")
        self.work = Workspace(rows=60)

    def tearDown(self):
        self.work.remove()

    def test_gradients_beyond_the_range_of_floats(self):
        for name, ranks, tables in (("last", 1, {}), ("best", 2, {"evaluation": {"best": "loss", "every_steps": 1}})):
            with self.subTest(name):
                directory = self.work.folder / name
                path = self.work.input(f"{name}.toml", run={"directory": str(directory)},
                                       precision={"compute": "fp16", "loss_scale": 1e30},
                                       schedule={"epochs": None, "steps": 5}, **tables)
                done = run("bert_hpc", path, ranks=ranks, threads=1, check=5)
                self.assertIn("All 5 steps were skipped", " ".join(done.stderr.split()))
                self.assertEqual(done.stdout.count("was skipped"), 3)  # the first ones alone
                self.assertFalse((directory / "model").exists())
                self.assertEqual((directory / ".status").read_text().strip(), "failed")


if __name__ == "__main__":
    unittest.main()
