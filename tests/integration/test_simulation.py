"""The simulated step of --validate, and traces of simulated and measured steps."""

import json
import re
import unittest

import program
from program import MACHINE, run


class Simulation(program.Case):
    def input(self, **tables):
        machine = self.work.folder / "machine.toml"
        machine.write_text(MACHINE)
        directory = str(self.work.folder / self.id().rsplit(".", 1)[1])
        return self.work.input(**{"run": {"directory": directory, "machine": str(machine)}, "batch": {"micro": 2}, "schedule": {"epochs": 1}}
                               | tables)

    def test_validate_reports_times_of_a_known_machine(self):
        said = run("bert_hpc", self.input(), "--validate", "--ranks", 4, check=0).stdout
        self.assertIn("simulated step on test machine (rates not measured)", said)
        self.assertIn("tokens/s", said)
        self.assertRegex(said, r"ranks +4 planned; this check runs on 1 rank on 1 node\n")
        self.assertEqual(said.count(" activations "), 1)  # those of the plan
        self.assertIn("of saved activations", said)
        self.assertIn("between nodes", said)  # four replicas on nodes of two ranks
        self.assertFalse((self.work.folder / "test_validate_reports_times_of_a_known_machine").exists())

    def test_without_a_machine_it_says_what_is_missing(self):
        path = self.work.input(run={"directory": str(self.work.folder / "none")})
        said = run("bert_hpc", path, "--validate", check=0).stdout
        self.assertIn("[run] machine", said)
        self.assertNotIn("tokens/s", said)

    def test_what_asks_for_more_than_there_is_is_warned_of(self):
        path = self.work.input(run={"directory": str(self.work.folder / "none")})
        self.assertNotRegex(run("bert_hpc", path, "--validate", check=0).stdout, "warning: (schedule|batch|planned memory)")
        said = run("bert_hpc", path, "--validate", "--set", "schedule.warmup_steps=1000", "--set", "batch.global=100000", "--set",
                   "model.vocab_size=2000000000", "--set", "model.hidden_size=4096", check=0).stdout
        self.assertIn("warning: schedule.warmup_steps = 1,000 is more than the run's 3 steps", said)
        self.assertIn("warning: batch.global = 100,000 is more than the 350 sequences to train on", said)
        self.assertRegex(said, r"warning: planned memory: [\d.]+ TiB per rank, but this node has ")

    def test_a_plan_is_compared_with_the_memory_of_the_machine_description_once(self):
        # The machine has 4 GiB per rank; a table of 4 GiB with gradients and moments needs more, however large this node is.
        said = run("bert_hpc", self.input(), "--validate", "--set", "model.vocab_size=40000000", check=0).stdout
        self.assertRegex(said, r"warning: planned memory: [\d.]+ GiB per rank, but a rank of test machine has 4.0 GiB")
        self.assertEqual(said.count("warning"), 1, said)

    def test_a_machine_description_that_is_missing_is_named_once(self):
        done = run("bert_hpc", self.input(), "--validate", "--set", 'run.machine="no/such.toml"', ranks=2)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("cannot read the description of a machine no/such.toml"), 1, done.stderr)
        done = run("bert_hpc", self.input(), "--validate", "--set", 'run.machine="no/such.toml"', "--set", "optimizer.learning_rat=1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("learning_rat", done.stderr)
        self.assertIn("Also: cannot read the description of a machine no/such.toml", done.stderr)

    def test_a_plan_for_gpus_says_which_build_made_it(self):
        path, words = self.input(), "note: test machine has GPUs, and a CPU build made this plan"
        self.assertNotIn(words, run("bert_hpc", path, "--validate", check=0).stdout)
        machine = self.work.folder / "machine.toml"
        machine.write_text(MACHINE.replace("[rank]\n", '[rank]\ndevice = "gpu"\n'))
        self.assertEqual(run("bert_hpc", path, "--validate", check=0).stdout.count(words), 1)

    def test_a_plan_for_gpus_has_their_sizes_of_micro_batches_and_messages(self):
        path = self.input(batch={"global": 20000}, parallel={"zero": 1})
        ranks = ("--validate", "--ranks", 2, "--set", "model.hidden_size=512", "--tokens", "1e7", "--mean-length", 16)
        said = run("bert_hpc", path, *ranks, check=0).stdout
        self.assertIn("micro-batches of at most 4,096 tokens", said)
        on_cpus = int(re.search(r"gradients in (\d+) messages", said)[1])
        machine = self.work.folder / "machine.toml"
        machine.write_text(MACHINE.replace("[rank]\n", '[rank]\ndevice = "gpu"\n').replace("memory_gib = 4", "memory_gib = 80"))
        said = run("bert_hpc", path, *ranks, check=0).stdout
        self.assertIn("micro-batches of at most 65,536 tokens", said)
        self.assertLess(int(re.search(r"gradients in (\d+) message", said)[1]), on_cpus)

    def test_an_automatic_budget_is_that_of_the_machine_description(self):
        def most_tokens(memory_gib, *arguments):
            path = self.input(batch={"memory": "auto", "global": 350})
            (self.work.folder / "machine.toml").write_text(MACHINE.replace("memory_gib = 4", f"memory_gib = {memory_gib}"))
            said = run("bert_hpc", path, "--validate", *arguments, check=0).stdout
            self.assertNotIn("planned memory:", said)
            return int(re.search(r"micro-batches of at most ([\d,]+) tokens", said)[1].replace(",", ""))

        small, large = most_tokens(0.05), most_tokens(0.0625)
        self.assertLess(small, large)
        self.assertGreaterEqual(most_tokens(0.05, "--ranks", 4), small)  # a rank of four has as much, not a quarter

    def test_a_plan_ends_with_time_cost_and_restarts_of_the_whole_run(self):
        said = run("bert_hpc", self.input(), "--validate", "--ranks", 4, check=0).stdout
        self.assertRegex(said, r"total time +[\d.]+ m?s: \d+ steps in [\d.]+ m?s, 1 evaluation in [\d.]+ m?s\n")
        self.assertRegex(said, r"cost +\S+ node-hours \(2 whole nodes of 2 ranks\)\n")
        other = ("--validate", "--ranks", 3, "--set", "batch.global=12", "--set", "run.node_ranks=4")
        said_of_other = run("bert_hpc", self.input(), *other, check=0).stdout
        self.assertRegex(said_of_other, r"\(1 whole node of 4 ranks, of which the run uses 3; run.node_ranks sets the size of a node\)\n")
        self.assertRegex(said, r"restarts +0 in jobs of 24 h \(run.max_walltime is not set\)\n")
        said = run("bert_hpc", self.input(), "--validate", "--set", "schedule.epochs=1000000000", "--set",
                   'run.max_walltime="1-00:00:00"', check=0).stdout
        self.assertRegex(said, r"total time +[\d.]+ (years|days): ")
        self.assertRegex(said, r"restarts +[\d,]+ with run.max_walltime = 1 d 00 h\n")

    def test_a_plan_needs_no_shards(self):
        absent = {"train": None, "validation": ["no/such/shards-*.h5"], "test": None}
        path = self.input(data=absent, task={"name": "classification"})
        self.assertEqual(run("bert_hpc", path, "--validate").returncode, 2)
        said = run("bert_hpc", path, "--validate", "--tokens", "1e8", "--mean-length", 16, "--ranks", 4, check=0).stdout
        self.assertIn("6,250,000 sequences, lengths uniform from 1 to 31 tokens", said)
        self.assertIn("node-hours", said)
        self.assertIn("The input is valid. Nothing was computed.", said)
        self.assertNotIn("warning", said)
        for bad, part in ((["--tokens", "1e8"], "belong together"), (["--tokens", "x", "--mean-length", "1"], "--tokens must be"),
                          (["--tokens", "9", "--mean-length", "9999"], "max_position_embeddings")):
            done = run("bert_hpc", path, "--validate", *bad)
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)

    def test_more_ranks_than_sequences_are_planned_with_a_warning(self):
        said = run("bert_hpc", self.input(), "--validate", "--ranks", 1024, "--set", "batch.global=2048", "--set", "batch.micro=1",
                   check=0).stdout
        self.assertRegex(said, r"warning: data.train has \d+ sequences, fewer than the 1,024 data-parallel replicas")
        self.assertIn("(512 whole nodes of 2 ranks)", said)
        self.assertIn("The input is valid. Nothing was computed.", said)

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
                if event["name"] == "gradient_reduction":
                    self.assertGreaterEqual(event["ts"] + event["dur"], last)

    def test_a_run_without_a_machine_is_simulated_with_its_own_times(self):
        for ranks, parallel in ((1, {}), (2, {"pipeline": 2}), (4, {"pipeline": 2, "pipeline_schedule": "zb_h1"})):
            with self.subTest(ranks=ranks):
                folder = self.work.folder / f"own-{ranks}"
                path = self.work.input(run={"directory": str(folder)}, log={"trace": True}, schedule={"epochs": 1},
                                       parallel=parallel)
                said = run("bert_hpc", path, ranks=ranks, threads=1, check=0).stdout
                self.assertRegex(said, r"traced steps: \S+ ms.*; simulated with measured pass times: \S+ ms")
                self.assertEqual("bubble" in said.split("traced steps", 1)[1].split("\n", 1)[0], "pipeline" in parallel)
                simulated = json.loads((folder / "trace_simulated.json").read_text())
                self.assertIn("measured pass times", simulated["otherData"]["machine"])
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


class Measurement(program.Case):
    """bert_hpc --measure-machine."""

    def test_a_measured_machine_is_written_and_serves_a_plan(self):
        path = self.work.folder / "measured.toml"
        run("bert_hpc", "--measure-machine", path, ranks=2, threads=1, check=0)
        text = path.read_text()
        self.assertTrue(text.startswith("# Written by bert_hpc --measure-machine.\n"))
        self.assertIn("2 ranks on 1 node, 1 thread each", text)
        self.assertIn("NOT MEASURED, a guess: [link_between_nodes]", text)
        # Rates are written with three digits: each is off by at most 0.5 %.
        attention, gemm = (json.loads(re.search(form, text, re.M)[1]) for form in (r"^attention_gflops = (.*)", r"^fp32_gflops = (\[.*)"))
        self.assertLessEqual(attention, 1.01 * max(gemm))
        self.assertEqual(sorted(file.name for file in self.work.folder.glob("measured.toml*")), ["measured.toml"])
        said = run("bert_hpc", self.work.input(run={"directory": str(self.work.folder / "run"), "machine": str(path)}),
                   "--validate", "--ranks", 2, check=0).stdout
        self.assertIn("node-hours", said)
        self.assertNotIn("rates not measured", said)

    def test_what_it_did_not_write_is_kept(self):
        path = self.work.folder / "mine.toml"
        for content in (MACHINE, "", "# Written by bert_hpc --measure-machine.x\n"):
            path.write_text(content)
            done = run("bert_hpc", "--measure-machine", path)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("was not written by --measure-machine", done.stderr)
            self.assertEqual(path.read_text(), content)
        for name in ("none/m.toml", ""):
            self.assertIn(run("bert_hpc", "--measure-machine", self.work.folder / name).returncode, (2, 4))


if __name__ == "__main__":
    unittest.main()
