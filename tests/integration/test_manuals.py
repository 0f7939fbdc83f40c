"""The manuals' inputs run as printed, their length and the files they name."""

import pathlib
import re
import subprocess
import sys
import unittest

from program import Workspace, run, sentences

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def blocks(manual, language):
    """The fenced blocks of a language in a manual, in order."""
    text = (SOURCE / manual).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Manuals(unittest.TestCase):
    def test_readme_is_short_and_names_the_two_commands(self):
        lines = (SOURCE / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), 150)
        self.assertTrue(any(line.startswith("./jobs/quickstart.sh") for line in lines))
        self.assertTrue(any(line.startswith("./tests/run.sh") for line in lines))

    def test_the_tests_that_manuals_name_exist(self):
        for manual in ("README.md", "tests/README.md", "tests/bench/README.md", "src/README.md"):
            for name in re.findall(r"`(tests/[\w./]+\.\w+)`", (SOURCE / manual).read_text()):
                self.assertTrue((SOURCE / name).exists(), f"{manual} names {name}")

    def test_the_inputs_run_as_printed(self):
        """README's fine-tuning and input/README's prediction, on a small CSV and with a small model instead of BERT."""
        work = Workspace(rows=60)
        self.addCleanup(work.remove)
        small = work.input(run={"directory": str(work.folder / "small")}, model={"max_position_embeddings": 128},
                           schedule={"epochs": 1})
        run("bert_hpc", small, check=0)
        (work.folder / "small" / "model").rename(work.folder / "bert-base-uncased")
        for name, rows in (("reviews.csv", sentences(90, 2)), ("new.csv", sentences(10, 3))):
            labels = name == "reviews.csv"
            (work.folder / name).write_text("".join(
                [f"text{',label' if labels else ''}\n"] + [f"{text}{',' + label if labels else ''}\n" for text, label, _ in rows]))
        inputs = blocks("README.md", "toml") + blocks("input/README.md", "toml")
        self.assertEqual(len(inputs), 4)
        for program, text in zip(("bert_hpc_prep", "bert_hpc") * 2, inputs):
            path = work.folder / "printed.toml"
            path.write_text(text)
            run(program, path, cwd=work.folder, check=0)
        self.assertTrue((work.folder / "run" / "model" / "model.safetensors").exists())
        [code] = blocks("input/README.md", "python")
        printed = subprocess.run([sys.executable, "-c", code], cwd=work.folder, capture_output=True, text=True)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertEqual(len(printed.stdout.splitlines()), 10)
        self.assertRegex(printed.stdout.splitlines()[0], r"^0 \w+ 0\.\d+$")


if __name__ == "__main__":
    unittest.main()
