"""The simulated step of --validate, and traces of simulated and measured steps."""

import json
import unittest

import program
from program import run

MACHINE = """[machine]
name = "test machine"
[node]
ranks = 2
[rank]
memory_gib = 4
memory_gb_per_second = 20
fp32_gflops = 100
[link_in_node]
gb_per_second = 8
latency_us = 1
[link_between_nodes]
gb_per_second = 2
latency_us = 3
"""


class Simulation(program.Case):
    def input(self, **tables):
        machine = self.work.folder / "machine.toml"
        machine.write_text(MACHINE)
        directory = str(self.work.folder / self.id().rsplit(".", 1)[1])
        return self.work.input(run={"directory": directory, "machine": str(machine)}, batch={"micro": 2}, schedule={"epochs": 1},
                               **tables)

    def test_validate_tells_times_of_a_known_machine(self):
        said = run("bert_hpc", self.input(), "--validate", "--ranks", 4, check=0).stdout
        self.assertIn("simulated step on test machine (rates not measured)", said)
        self.assertIn("tokens/s", said)
        self.assertRegex(said, r"ranks +4 planned, for what follows; this check itself: 1 rank on 1 host\n")
        self.assertEqual(said.count("activations "), 1)  # those of the plan
        self.assertIn("kept for the backward pass of this batch", said)
        self.assertIn("between nodes", said)  # four replicas on nodes of two ranks
        self.assertFalse((self.work.folder / "test_validate_tells_times_of_a_known_machine").exists())

    def test_without_a_machine_it_says_what_is_missing(self):
        path = self.work.input(run={"directory": str(self.work.folder / "none")})
        said = run("bert_hpc", path, "--validate", check=0).stdout
        self.assertIn("[run] machine", said)
        self.assertNotIn("tokens/s", said)

    def test_what_asks_for_more_than_there_is_is_warned_of(self):
        path = self.work.input(run={"directory": str(self.work.folder / "none")})
        self.assertNotRegex(run("bert_hpc", path, "--validate", check=0).stdout, "warning: (schedule|batch|.* are planned)")
        said = run("bert_hpc", path, "--validate", "--set", "schedule.warmup_steps=1000", "--set", "batch.global=100000", "--set",
                   "model.vocab_size=2000000000", "--set", "model.hidden_size=4096", check=0).stdout
        self.assertIn("warning: schedule.warmup_steps = 1,000 is more than the run's 3 steps", said)
        self.assertIn("warning: batch.global = 100,000 is more than the 350 sequences to train on", said)
        self.assertRegex(said, r"warning: [\d.]+ TiB are planned for a rank, and this host has ")

    def test_traces(self):
        path = self.input(log={"trace": True})
        run("bert_hpc", path, "--validate", check=0)
        folder = self.work.folder / "test_traces"
        self.assertEqual([file.name for file in folder.iterdir()], ["trace_simulated.json"])
        run("bert_hpc", path, ranks=2, check=0)
        for name, kind in (("trace_simulated.json", "simulated"), ("trace.json", "measured")):
            trace = json.loads((folder / name).read_text())
            self.assertEqual(trace["otherData"]["kind"], kind)
            events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
            self.assertGreaterEqual({event["name"] for event in events}, {"forward", "backward", "update"})
            self.assertTrue(all(event["dur"] >= 0 for event in events))
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.assertEqual({event["args"]["step"] for event in events}, {2, 3, 4, 5, 6})
        # Every rank's sums of a step end after the last backward pass of all ranks has begun: one clock for all.
        for step in range(2, 7):
            chosen = [event for event in events if event["args"]["step"] == step]
            last = max(event["ts"] for event in chosen if event["name"] == "backward")
            for event in chosen:
                if event["name"] == "gradient_sum":
                    self.assertGreaterEqual(event["ts"] + event["dur"], last)

    def test_a_run_without_a_machine_is_simulated_with_its_own_times(self):
        for ranks, parallel in ((1, {}), (2, {"pipeline": 2}), (4, {"pipeline": 2, "pipeline_schedule": "zb_h1"})):
            with self.subTest(ranks=ranks):
                folder = self.work.folder / f"own-{ranks}"
                path = self.work.input(run={"directory": str(folder)}, log={"trace": True}, schedule={"epochs": 1},
                                       parallel=parallel)
                said = run("bert_hpc", path, ranks=ranks, threads=1, check=0).stdout
                self.assertRegex(said, r"traced steps: \S+ ms.*; simulated with the times of their own passes.*: \S+ ms")
                self.assertEqual("bubble" in said.split("traced steps", 1)[1].split("\n", 1)[0], "pipeline" in parallel)
                simulated = json.loads((folder / "trace_simulated.json").read_text())
                self.assertIn("this one", simulated["otherData"]["machine"])
                names = {event["name"] for event in simulated["traceEvents"] if event["ph"] == "X"}
                self.assertGreaterEqual(names, {"forward", "update"})

    def test_a_machine_that_cannot_be_read(self):
        (self.work.folder / "bad.toml").write_text(MACHINE.replace("fp32_gflops", "fp32_gflop"))
        for machine, part in (("absent.toml", "absent.toml"), ("bad.toml", '"fp32_gflops"')):
            path = self.work.input(run={"directory": str(self.work.folder / "bad"), "machine": str(self.work.folder / machine)})
            for more in (["--validate"], []):
                done = run("bert_hpc", path, *more)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(part, done.stderr)
            self.assertFalse((self.work.folder / "bad").exists())


if __name__ == "__main__":
    unittest.main()
