"""jobs/study-*.sh from the data to the report: tables, pictures, resumption after a kill, what runs again, what fails, and wrong
command lines. The data are made here: an essay's score follows from its words, a question's answer from its context."""

import csv
import json
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import unittest

import h5py

from program import Case, installed_tree

WORDS = "clear good weak poor strong idea essay town river people work school money road train city tree house".split()


def write_table(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def essays(count=120):
    """Scores are 5 with half a band for each "good" and against each "weak"; one row has none."""
    chance = random.Random(1)
    for i in range(count):
        words = chance.choices(WORDS, k=chance.randint(20, 60))
        score = 5 + 0.5 * (words.count("good") - words.count("weak"))
        text = " ".join(words) + ".\nA second line."
        yield [1 + i % 2, 'Is it good, "really"?', text, "a comment" if i < 9 else "", "" if i == 3 else score]


def write_squad(folder):
    chance = random.Random(2)
    for name, articles in (("train-v2.0.json", 4), ("dev-v2.0.json", 1)):
        data = []
        for a in range(articles):
            paragraphs = []
            for p in range(6):
                words = chance.choices(WORDS, k=30)
                context, questions = " ".join(words), []
                for q in range(3):
                    at = chance.randrange(len(words))
                    answers = [] if q == 2 else [{"text": words[at], "answer_start": len(" ".join(words[:at])) + (at > 0)}]
                    questions.append({"id": f"{name[0]}{a}-{p}-{q}", "question": f"Which word is number {at}?", "answers": answers,
                                      "is_impossible": not answers})
                paragraphs.append({"context": context, "qas": questions})
            data.append({"title": f"article {a}", "paragraphs": paragraphs})
        (folder / name).write_text(json.dumps({"version": "v2.0", "data": data}))


SOURCES = {"Human": "river town tree", "model-a": "clear strong good", "model-b": "weak poor money"}


def source_texts(count=240):
    """Each source prefers three words. Five texts are too long, and six are of a rare source."""
    chance = random.Random(3)
    for i in range(count):
        source = "rare" if i % 40 == 7 else list(SOURCES)[i % 3]
        words = chance.choices(WORDS + 10 * SOURCES.get(source, "").split(), k=400 if i % 48 == 5 else 20)
        text = " ".join(words) + ', "so"\nand on.'
        yield [text, source, i, len(text), len(words)]


def write_wikiqa(folder):
    """A sentence with the question's word is its answer; every fourth question has none. The test file has no
    labels."""
    chance = random.Random(4)
    header = ["QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label"]
    for split, questions in (("train", 50), ("dev", 24), ("test", 6)):
        rows = [header]
        for q in range(questions):
            word, right = WORDS[q % len(WORDS)], chance.randrange(5) if q % 4 else -1
            for s in range(5):
                words = [other for other in chance.choices(WORDS, k=8) if other != word] + [word] * (s == right)
                text, label = " ".join(words) + " .", str(int(s == right))
                rows.append([f"{split}{q}", f"Where is the {word} ?", f"D{q}", word, f"D{q}-{s}", text, label])
        text = "".join("\t".join(row[: 6 if split == "test" else 7]) + "\n" for row in rows)
        (folder / f"WikiQA-{split}.tsv").write_text(text)


class Studies(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.jobs = installed_tree(cls.work.folder, "jobs", "postprocess")
        cls.essays, cls.squad = cls.work.folder / "essays.csv", cls.work.folder / "squad"
        write_table(cls.essays, ["Task_Type", "Question", "Essay", "Examiner_Commen", "Overall"], essays())
        cls.squad.mkdir()
        write_squad(cls.squad)
        cls.wikiqa = cls.work.folder / "wikiqa"
        cls.wikiqa.mkdir()
        write_wikiqa(cls.wikiqa)
        cls.sources = cls.work.folder / "sources.csv"
        columns = ["text", "source", "prompt_id", "text_length", "word_count"]
        write_table(cls.sources, columns, source_texts())

    def study(self, name, *words, status=0, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")} | variables
        environment |= {"OMP_NUM_THREADS": "1", "BERT_HPC_PYTHON": sys.executable}
        done = subprocess.run(["bash", str(self.jobs / f"study-{name}.sh"), *map(str, words)], capture_output=True, text=True, env=environment,
                              cwd=self.work.folder, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def figures(self, output):
        """{(row or its label, measure): mean}."""
        with open(output / "report/table.csv", encoding="utf-8") as file:
            return {(row["row"] or row["label"], row["measure"]): float(row["mean"]) for row in csv.DictReader(file) if row["mean"]}

    def test_essays(self):
        output = self.work.folder / "one"
        words = ["--data", self.essays, "--size", "tiny", "--output", output]
        done = self.study("essays", *words)
        found = self.figures(output)
        for measure in ("rmse", "mae", "r2"):  # any layout, and a run that was killed, computes the same
            self.assertAlmostEqual(found["one", measure], found["parallel", measure], 4)
            self.assertEqual(found["killed", measure], found["parallel", measure])
        self.assertLess(found["ridge on the bag of words", "rmse"], found["the mean of the training scores", "rmse"])
        self.assertIn("resum", (output / "runs/killed/log.txt").read_text())
        page = (output / "report/README.md").read_text()
        for text in ("0.9212", "0.921", "random weights", "study-essays.sh", "one seed"):
            self.assertIn(text, page + (output / "report/table.csv").read_text())
        self.assertIn(r"\begin{tabular}", (output / "report/table.tex").read_text())
        for picture in ("scores", "words", "length_score", "boxes", "correlations", "cloud", "regression", "loss"):
            self.assertTrue((output / f"report/{picture}.png").stat().st_size > 0, picture)
        self.assertFalse((output / "report/cloud_comments.png").exists())  # nine comments of two words
        # What is finished does not run again; a new row does, and so does a row with other settings.
        again = self.study("essays", *words, "--search", "learning_rate=1e-3;epochs=1")
        self.assertIn("Shards: made before", again.stdout)
        self.assertEqual(again.stdout.count("finished before"), 3)
        self.assertIn(("search-learning_rate1e-3-epochs1", "rmse"), self.figures(output))
        changed = self.study("essays", *words, "--only", "^one$", "--model", "layers=1,hidden=16,heads=2")
        self.assertIn("one: its settings have changed", changed.stdout)
        self.assertTrue((output / "runs/.grid/one.before-1/metrics.h5").is_file())
        self.assertNotEqual(self.figures(output)["one", "rmse"], found["one", "rmse"])
        self.assertNotIn("failed", done.stdout)

    def test_parallel(self):
        output = self.work.folder / "two"
        self.study("parallel", "--data", self.squad, "--size", "tiny", "--ranks", "2", "--output", output)
        found = self.figures(output)
        for row in ("one", "pipeline"):
            self.assertAlmostEqual(found[row, "loss"], found["data", "loss"], 3)
        self.assertEqual(found["killed", "loss"], found["data", "loss"])
        self.assertIn("0.603", (output / "report/README.md").read_text())

    def test_efficient_and_what_failed(self):
        output = self.work.folder / "five"
        words = ["--data", self.squad, "--size", "tiny", "--output", output, "--only", "^(A1|A3|A3-fp16|B1|B1-head|C1|D1-A3-portable)$"]
        self.study("efficient", *words)
        found = self.figures(output)
        self.assertAlmostEqual(found["A1", "f1"], found["A3", "f1"], 1)
        for row, epilogues, gradients in (("A1", "off", "fp32"), ("A3", "on", "auto")):
            text = (output / f"runs/{row}/input.toml").read_text()
            self.assertIn(f'epilogues = "{epilogues}"', text)
            self.assertIn(f'weight_gradients = "{gradients}"', text)
        self.assertGreater(found["D1-A3-portable", "device"], 0)
        self.assertRegex((output / "runs/D1-A3-portable/log.txt").read_text(), r"matmul: native \(baseline\)")
        self.assertIn('compute = "fp16"', (output / "runs/A3-fp16/input.toml").read_text())
        self.assertIn('compute = "fp32"', (output / "runs/A3/input.toml").read_text())
        self.assertAlmostEqual(found["A3-fp16", "loss"], found["A3", "loss"], 2)
        self.assertEqual(found["B1", "trained"], 3 * 2 * 32 * 8)  # a block of width 32, rank 8
        self.assertEqual(found["B1-head", "trained"], found["B1", "trained"] + 2 * 32 + 2)
        self.assertLess(found["B1-head", "trained"], found["A3", "trained"])
        self.assertLess(found["C1", "states"], found["A3", "states"])
        self.assertGreater(found["A3", "device"], 0)
        self.assertTrue((output / "report/profile.png").is_file())
        # A run without results is a row that says so; the others stay.
        (output / "runs/C1/metrics.h5").unlink()
        (output / "runs/C1/.status").write_text("failed\n")
        with open(output / "runs/C1/log.txt", "a", encoding="utf-8") as log:
            log.write("error: the disk is full\n")
        done = self.study("efficient", *words, "--report-only")
        self.assertIn("C1: error: the disk is full", done.stdout)
        self.assertNotIn(("C1", "f1"), self.figures(output))
        self.assertIn("| failed |", (output / "report/table.md").read_text())
        self.assertEqual(self.figures(output)["A3", "f1"], found["A3", "f1"])

    def table(self, output, name):
        """The rows of a further table by their first two cells."""
        return {tuple(list(row.values())[:2]): row for row in self.lines_of(output, name)}

    def test_sources(self):
        output = self.work.folder / "four"
        words = ["--data", self.sources, "--size", "tiny", "--output", output, "--only",
                 "^(bert-(none|data|zero2|gpipe-3-1-8|finetuned|killed)|gpt2-(none|int8|layers|finetuned))$"]
        done = self.study("sources", *words)
        found = self.figures(output)
        for row in ("bert-data", "bert-zero2", "bert-gpipe-3-1-8"):  # any layout computes the same
            self.assertAlmostEqual(found[row, "loss"], found["bert-none", "loss"], 3)
        self.assertEqual(found["bert-killed", "loss"], found["bert-finetuned", "loss"])
        self.assertIn("resum", (output / "runs/bert-killed/log.txt").read_text())
        for row in ("bert-none", "gpt2-none", "gpt2-int8"):
            self.assertGreater(found[row, "margin"], 10)
        filters = {key[0]: row for key, row in self.table(output, "filters").items()}
        self.assertEqual(filters["more than 2,000 characters"]["texts removed"], "5")
        self.assertEqual(filters["of sources with fewer than 20 texts"]["texts removed"], "6")
        self.assertEqual([row["texts left"] for row in filters.values()], ["240", "240", "235", "229"])
        split = {key[0]: row for key, row in self.table(output, "split").items()}
        self.assertEqual(sum(int(split["all"][name]) for name in ("train", "validation", "test")), 229)
        self.assertAlmostEqual(int(split["Human"]["test"]) / int(split["Human"]["all"]), 0.2, 1)
        sizes = self.table(output, "bytes")
        self.assertIn(("GPT-2 (random weights)", "HDF5, int8"), sizes)
        self.assertNotIn(("BERT (random weights)", "HDF5, int8"), sizes)  # no row needs it
        human = self.table(output, "human_machine")
        self.assertGreater(float(human["GPT-2 (random weights): no parallelism", "gpt2-none"]["F1"]), 0.5)
        ranks = [row for row in self.table(output, "ranks").values() if row["run"] == "bert-data"]
        self.assertGreater(float(ranks[0]["peak memory, MiB"]), 1)
        page = (output / "report/README.md").read_text()
        for text in ("random weights", "mean memory", "published", "Human against machine"):
            self.assertIn(text, page)
        for picture in ("utilisation", "memory", "minutes", "loss", "metrics", "confusion_matrix-bert-none"):
            self.assertTrue((output / f"report/{picture}.png").is_file(), picture)
        self.assertNotIn("failed", done.stdout)
        # What is finished does not run again. With other weights of an encoder all runs on its embeddings do.
        again = self.study("sources", *words)
        self.assertEqual(again.stdout.count("finished before"), 15)
        other = ["--data", self.sources, "--size", "tiny", "--output", output, "--only", "^(bert|gpt2)-none$",
                 "--encoders", "layers=1,hidden=32,heads=2", "layers=1,hidden=16,heads=2"]
        changed = self.study("sources", *other)
        for run in ("gpt2-weights", "gpt2-embeddings-fp16", "gpt2-none"):
            self.assertIn(f"{run}: its settings have changed", changed.stdout)
        self.assertNotIn("bert-none: its settings have changed", changed.stdout)
        # A run whose needed run failed says so.
        (output / "runs/gpt2-embeddings-fp16/.status").write_text("failed\n")
        (output / "runs/gpt2-none/.status").write_text("failed\n")
        self.study("sources", *other, "--report-only")
        page = (output / "report/README.md").read_text()
        self.assertIn("it needs gpt2-embeddings-fp16, which has not finished", page)

    def test_distillation(self):
        output = self.work.folder / "three"
        words = ["--data", self.wikiqa, "--size", "tiny", "--output", output]
        done = self.study("distillation", *words)
        found = self.figures(output)
        self.assertEqual(found["killed", "map"], self.run_figure(output, "distilled-seed1", "map"))
        self.assertIn("resum", (output / "runs/killed/log.txt").read_text())
        self.assertAlmostEqual(found["ranks1", "map"], found["killed", "map"], 2)
        self.assertGreater(found["baseline", "trained"], found["student", "trained"])
        self.assertEqual(found["distilled", "trained"], found["student", "trained"])
        self.assertEqual(found["distilled-fp16", "scale"], 65536)
        self.assertAlmostEqual(found["distilled-fp16", "map"], found["distilled", "map"], delta=0.2)
        self.assertGreater(found["begun", "map"], 0)
        self.assertIn("initialize = [0]", (output / "runs/begun-seed1/input.toml").read_text())
        for split in ("validation", "test"):  # half of the questions of the dev file each
            lines = (output / f"source/{split}.tsv").read_text().splitlines()[1:]
            self.assertEqual(len({line.split("\t")[0] for line in lines}), 12)
            self.assertEqual(sum(line.endswith("\t1") for line in lines), 9)
        pairs = self.lines_of(output, "comparison")
        self.assertEqual({row["pairs"] for row in pairs if row["paired over"] == "seeds"}, {"2"})
        self.assertEqual({row["pairs"] for row in pairs if row["paired over"] == "questions"}, {"9"})
        for row in pairs:
            if row["measure"] == "MAP" and row["row"].startswith("student alone"):
                self.assertAlmostEqual(float(row["difference"]), found["student", "map"] - found["baseline", "map"], 6)
        for picture in ("scores", "loss_scale", "devices", "scaling", "loss", "metrics"):
            self.assertTrue((output / f"report/{picture}.png").is_file(), picture)
        self.assertNotIn("failed", done.stdout)
        # The teacher is kept; students with other settings run again.
        again = self.study("distillation", *words, "--student", "layers=1,hidden=16,heads=2",
                           "--only", "^(distilled|student)$")
        self.assertIn("teacher: finished before", again.stdout)
        self.assertIn("distilled-seed1: its settings have changed", again.stdout)

    def run_figure(self, output, run, name):
        with h5py.File(output / f"runs/{run}/metrics.h5") as file:
            steps = file["evaluations/validation/step"][()]
            best = int(steps[file[f"evaluations/validation/{name}"][()].argmax()])
            found = file["evaluations/test"]
            return float(found[name][list(found["step"][()]).index(best)])

    @staticmethod
    def lines_of(output, name):
        with open(output / f"report/{name}.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_slurm_stages(self):
        folder = self.work.folder / "stages"
        folder.mkdir()
        self.write_sbatch(folder)
        words = ["--data", self.sources, "--size", "tiny", "--output", folder / "out"]
        self.study("sources", *words, "--only", "^(bert-none|bert-data|bert-finetuned-one)$", "--slurm",
                   PATH=f"{folder}:{os.environ['PATH']}")
        calls = (folder / "calls").read_text().splitlines()
        weights, embeddings = calls[0], calls[2]
        self.assertIn("bert-weights.toml", weights)
        self.assertNotIn("dependency", weights)
        self.assertIn("bert-embeddings.toml", embeddings)
        self.assertIn("--dependency=afterany:101:102", embeddings)
        for call in calls[3:5]:
            self.assertIn("--dependency=afterany:103", call)
            self.assertIn("bert-bilstm-fp16.toml", call)
        self.assertIn("--dependency=afterany:104:105", calls[5])
        self.assertIn("--report-only", calls[5])

    @staticmethod
    def write_sbatch(folder):
        """A program that notes its command lines in FOLDER/calls and answers with the numbers 101, 102, …"""
        sbatch = folder / "sbatch"
        sbatch.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{folder}/calls\necho $((100 + $(wc -l <{folder}/calls)))\n')
        sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)

    def test_slurm(self):
        folder = self.work.folder / "slurm"
        folder.mkdir()
        self.write_sbatch(folder)
        self.study("essays", "--data", self.essays, "--size", "tiny", "--seeds", "2", "--output", folder / "out", "--slurm=--account=project",
                   PATH=f"{folder}:{os.environ['PATH']}")
        one, two, report = (folder / "calls").read_text().splitlines()
        self.assertIn("--array=1-2 --ntasks=1", one)
        self.assertIn("--array=1-2 --ntasks=2", two)
        for call in (one, two, report):  # Slurm may refuse a job without them
            self.assertIn("--account=project", call)
        self.assertIn("--dependency=afterany:101:102", report)
        self.assertIn("--report-only", report)
        self.assertEqual((folder / "out/grid-1-train-2.txt").read_text().count("parallel-seed"), 2)

    def test_wrong_command_lines(self):
        output = self.work.folder / "none"
        table = self.work.folder / "short.csv"
        table.write_text("Question,Essay\na,b\n")
        anonymous = self.work.folder / "anonymous"
        anonymous.mkdir()
        (anonymous / "config.json").write_text("{}")
        torn = self.work.folder / "torn"
        shutil.copytree(self.wikiqa, torn)
        with open(torn / "WikiQA-dev.tsv", "a", encoding="utf-8") as file:
            file.write("\nQ1\ta question\n")
        squad, essays, sources, wikiqa = (
            ["--data", path, "--size", "tiny"] for path in (self.squad, self.essays, self.sources, self.wikiqa))
        for study, words, text in (
            ("essays", ["--data", table], "there is no column Overall"),
            ("essays", ["--data", self.essays, "--size", "huge"], "invalid choice: 'huge'"),
            ("essays", ["--data", self.essays], "needs --model"),
            ("essays", [*essays, "--model", "layers=2,width=3"], "'width=3' is no size"),
            ("essays", [*essays, "--model", "layers=2"], "hidden is missing"),
            ("essays", [*essays, "--search", "speed=3"], "'speed=3' is not"),
            ("essays", [*essays, "--only", "nothing"], "no row has such a name"),
            ("essays", [*essays, "--device", "gpu"], "the CPU build"),
            ("parallel", essays, "there is no train*.json"),
            ("parallel", [*squad, "--ranks", "3"], "an even number"),
            ("sources", essays, "there is no column text, source"),
            ("sources", squad, "the folder has no CSV files"),
            ("sources", ["--data", self.sources], "--size full needs --encoders"),
            ("sources", [*sources, "--encoders", "layers=1", "/nowhere"], "/nowhere: there is no such folder"),
            ("sources", [*sources, "--encoders", anonymous, anonymous], "config.json has no model_type"),
            ("sources", [*sources, "--classifier", "layers=3,hidden=8"], "into quarters"),
            ("sources", [*sources, "--ranks", "3"], "batches of 64"),
            ("distillation", ["--data", self.wikiqa], "--size full needs --teacher"),
            ("distillation", squad, "there is no WikiQA-train.tsv"),
            ("distillation", essays, "it is no folder"),
            ("distillation", ["--data", torn, "--size", "tiny"], "dev.tsv, line 123: 2 fields between tabs, not 7"),
            ("distillation", [*wikiqa, "--teacher", "layers=1,hidden=32,heads=2"], "it has one layer"),
            ("distillation", [*wikiqa, "--ranks", "1"], "take 2 or more"),
            ("efficient", ["--data", self.work.folder / "absent", "--size", "tiny"], "no such file or folder"),
        ):
            error = self.study(study, *words, "--output", output, status=2).stderr
            self.assertEqual(error.count(text), 1, error)
        self.assertFalse((output / "shards").exists())

    def test_a_model_that_is_too_large(self):
        output = self.work.folder / "large"
        done = self.study("essays", "--data", self.essays, "--size", "tiny", "--model", "layers=200,hidden=8192,heads=64", "--output", output, status=2)
        self.assertIn("memory", done.stderr)
        self.assertFalse((output / "runs").exists())


if __name__ == "__main__":
    unittest.main()
