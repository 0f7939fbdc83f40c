"""Under debug.check_collectives a mismatch of collectives, or a rank that does not come, ends the whole job with
one message and exit status 6; and a run with the check gives the same results as one without."""

import unittest

from program import Case, run


class CheckedCollectives(Case):
    def ends(self, case, ranks):
        done = run("tests/test_mpi_checked_communicator", case, ranks=ranks)  # a rank that does not come never ends by itself
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("bert_hpc: error"), 1, done.stderr)
        return done.stderr

    def test_a_mismatch(self):
        for ranks in 2, 4:
            message = self.ends("[.mismatch]", ranks)
            self.assertIn("rank 1 entered all_reduce(double × 3, sum)", message)
            self.assertIn("entered broadcast(16 bytes, from rank 0)", message)

    def test_a_missing_rank(self):
        for ranks in 2, 4:
            message = self.ends("[.missing]", ranks)
            self.assertIn("within 2 s", message)
            self.assertIn("entered barrier()", message)
            self.assertIn("rank 1 did not arrive", message)

    def test_the_same_weights_with_and_without(self):
        weights = []
        for checked in False, True:
            directory = self.work.folder / f"checked-{checked}"
            path = self.work.input("checked.toml", run={"directory": str(directory)}, schedule={"epochs": 1},
                                   debug={"check_collectives": checked})
            run("bert_hpc", path, ranks=2, threads=1, check=0)
            weights.append((directory / "model/model.safetensors").read_bytes())
        self.assertEqual(*weights)


if __name__ == "__main__":
    unittest.main()
