"""log.profile = true: the calls of a few steps in metrics.h5, beside what BERT_HPC_COUNT_LAUNCHES=1 counts of one step, the
arithmetic of the model's layers, and a run without it."""

import hashlib
import pathlib
import re
import unittest

import h5py
import numpy as np

import program

HIDDEN, INNER, BLOCKS, STEPS = 128, 512, 2, 7  # steps of some milliseconds, so that launches are not most of them
PROFILED = STEPS - 2  # steps 3 to 7
MODEL = {"hidden_size": HIDDEN, "num_hidden_layers": BLOCKS, "num_attention_heads": 4, "intermediate_size": INNER}


def rows_of(directory):
    """Rows of /profile as dictionaries, and its attributes."""
    with h5py.File(directory / "metrics.h5") as file:
        group = file["profile"]
        columns = {name: item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()] for name, item in group.items()}
        rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
        return rows, dict(group.attrs)


def steps_of(directory):
    with h5py.File(directory / "metrics.h5") as file:
        return {name: file[f"steps/{name}"][()] for name in ("loss", "gradient_norm", "tokens", "samples", "step")}


def weights_of(directory):
    return hashlib.sha256((directory / "model" / "model.safetensors").read_bytes()).hexdigest()


class Profile(program.Case):
    def train(self, name, ranks=1, profile=True, variables={}, **tables):
        self.directory = self.work.folder / name
        given = {"run": {"directory": str(self.directory)}, "model": MODEL, "batch": {"global": 64}, "schedule": {"epochs": None, "steps": STEPS},
                 "log": {"every_steps": 1, "progress": "lines", "profile": profile}, "data": {"validation": None}, "evaluation": None}
        for table, keys in tables.items():
            given[table] = (given.get(table) or {}) | keys
        path = self.work.input(f"{name}.toml", **given)
        return program.run("bert_hpc", path, ranks=ranks, threads=1, check=0, variables=variables).stdout

    def counted(self, text):
        """{(section, kind, name): calls} of the step that BERT_HPC_COUNT_LAUNCHES printed."""
        found = re.findall(r"^ +([\d,]+)  (.+?), (kernels|products|copies|fills|waits|collectives): (.+)$", text, re.MULTILINE)
        return {("" if section == "between sections" else section, kind, name): int(calls.replace(",", ""))
                for calls, section, kind, name in found}

    def check_calls_and_time(self, ranks, text):
        rows, facts = rows_of(self.directory)
        self.assertEqual((facts["first_step"], facts["steps"], facts["ranks"], facts["device"]), (3, PROFILED, ranks, "CPU"))
        found = {(row["section"], row["kind"], row["name"]): row["calls"] for row in rows}
        # Every rank makes the calls of rank 0: each step is one micro-batch of each.
        self.assertEqual(found, {call: ranks * PROFILED * calls for call, calls in self.counted(text).items()})
        timed = [row for row in rows if np.isfinite(row["seconds_avg"])]
        self.assertLessEqual(sum(row["seconds_avg"] for row in timed), facts["seconds"])
        self.assertTrue(all(row["seconds_avg"] > 0 for row in timed if row["kind"] == "products"), rows)
        for row in timed:
            self.assertTrue(0 <= row["seconds_min"] <= row["seconds_avg"] * (1 + 1e-9) <= row["seconds_max"] * (1 + 2e-9), row)
        self.assertTrue(all(row["kind"] in ("waits", "collectives") for row in rows if row not in timed), rows)
        self.assertGreater(facts["cost_seconds"], 0)
        return rows

    def test_one_rank_has_the_calls_of_a_step_and_the_arithmetic_of_the_layers(self):
        text = self.train("one", variables={"BERT_HPC_COUNT_LAUNCHES": "1"})
        rows = self.check_calls_and_time(1, text)
        self.assertEqual(text.count("Profile of steps 3 to 7, over 1 rank:"), 1, text)
        self.assertRegex(text, r"steps/s; measuring took [\d.e-]+% of the time; all rows in .*/metrics.h5, /profile")
        steps = steps_of(self.directory)
        tokens, samples = int(sum(steps["tokens"][2:])), int(sum(steps["samples"][2:]))
        labels = len(program.KINDS)
        # Multiplications and additions of a forward pass. The head reads the first row of each sequence, so the last block
        # computes keys and values of every token and all else of those rows.
        block = 4 * HIDDEN**2 + 2 * HIDDEN * INNER
        forward = 2 * ((BLOCKS - 1) * tokens * block + tokens * 2 * HIDDEN**2
                       + samples * (2 * HIDDEN**2 + 2 * HIDDEN * INNER) + samples * (HIDDEN**2 + HIDDEN * labels))
        flops = {section: sum(row["flops"] for row in rows if row["kind"] == "products" and row["section"] == section)
                 for section in ("forward", "backward")}
        self.assertEqual(flops, {"forward": forward, "backward": 2 * forward})
        attention = {row["section"]: row["flops"] for row in rows if "attention" in row["name"]}
        self.assertGreater(attention["forward"], 0)
        self.assertEqual(attention["backward"], 2.5 * attention["forward"])  # five products instead of two
        optimizer = next(row for row in rows if row["name"] == "bert_hpc::ops::adamw")
        self.assertGreater(optimizer["bytes"], 0)
        self.assertTrue(np.isnan(optimizer["flops"]))

    def test_two_ranks_have_the_calls_of_both(self):
        text = self.train("two", ranks=2, variables={"BERT_HPC_COUNT_LAUNCHES": "1"})
        rows = self.check_calls_and_time(2, text)
        self.assertIn("collectives", {row["kind"] for row in rows})

    def test_a_profile_changes_no_bit_and_is_not_made_unasked(self):
        self.train("with")
        profiled, weights = steps_of(self.directory), weights_of(self.directory)
        text = self.train("without", profile=False)
        self.assertNotIn("Profile of", text)
        with h5py.File(self.directory / "metrics.h5") as file:
            self.assertNotIn("profile", file)
        for name, values in steps_of(self.directory).items():
            np.testing.assert_array_equal(values, profiled[name], err_msg=name)
        self.assertEqual(weights_of(self.directory), weights)

    def test_a_resumed_run_profiles_its_own_steps_without_evaluations(self):
        shards = self.work.folder / "shards"
        data = {"validation": [f"{shards}/validation-*.h5"]}
        evaluation = {"every_steps": 1}
        self.train("resumed", data=data, evaluation=evaluation, checkpoint={"every_steps": 3, "keep": 10})
        first, _ = rows_of(self.directory)
        self.assertNotIn("evaluation", {row["section"] for row in first})
        self.assertFalse({row["name"] for row in first if "arg_max" in row["name"]})  # of evaluations alone
        program.as_if_killed_after(3, self.directory)
        self.train("resumed", data=data, evaluation=evaluation, checkpoint={"every_steps": 3, "keep": 10})
        _, facts = rows_of(self.directory)
        self.assertEqual((facts["first_step"], facts["steps"]), (6, 2))


if __name__ == "__main__":
    unittest.main()
