"""BERT_HPC_COUNT_LAUNCHES=1: what one step asks of the device, as a run prints it."""

import re
import unittest

import program


class Counts(program.Case):
    def table(self, name, ranks, **tables):
        """By section: kernels, products, copies, fills, waits, collectives."""
        path = self.work.input(f"{name}.toml", run={"directory": str(self.work.folder / name)},
                               schedule={"epochs": None, "steps": 4}, **tables)
        done = program.run("bert_hpc", path, ranks=ranks, threads=1, check=0,
                           variables={"BERT_HPC_COUNT_LAUNCHES": "1"})
        self.assertEqual(done.stdout.count("Calls of the device in step 2, rank 0:"), 1, done.stdout)
        rows = re.findall(r"^  ([a-z -]+?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", done.stdout, re.MULTILINE)
        return {name: [int(number) for number in numbers] for name, *numbers in rows}, done.stdout

    def test_one_rank_waits_once_and_updates_in_one_kernel(self):
        table, text = self.table("one", 1)
        self.assertEqual(table["all"][4], 1, text)
        waiting = text.count("1  optimizer, kernels: bert_hpc::ops::postponed_adamw\n")  # CPUs make updates of some embeddings later
        self.assertEqual(table["optimizer"][0], 3 + waiting, text)  # squares, their sum with the clipping factor, AdamW
        self.assertGreater(table["forward"][1], 0)
        self.assertEqual(table["all"], [sum(row[i] for name, row in table.items() if name != "all") for i in range(6)])

    def test_two_ranks_wait_once_and_agree_in_one_message(self):
        table, text = self.table("two", 2)
        self.assertEqual(table["all"][4], 1, text)
        self.assertEqual(len(re.findall("gradient reduction, collectives: all_reduce of doubles$", text, re.MULTILINE)), 1)
        self.assertIn("      1  gradient reduction, collectives: all_reduce of doubles", text)

    def test_nothing_is_printed_unasked(self):
        path = self.work.input("none.toml", run={"directory": str(self.work.folder / "none")},
                               schedule={"epochs": None, "steps": 4})
        self.assertNotIn("Calls of", program.run("bert_hpc", path, threads=1, check=0).stdout)


if __name__ == "__main__":
    unittest.main()
