"""Question answering from SQuAD's JSON to predictions.json: a model that has learned 40 questions by heart answers each with
the exact characters of its context; layouts agree; the scorer's numbers are those of the run; what cannot be is refused."""

import json
import pathlib
import random
import re
import shutil
import sys
import unittest

import h5py
from program import SIZES, TaskCase, run

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "postprocess"))

import answers as report_answers  # noqa: E402

WORDS = "Größe (tea), çay; 茶 leaves  grow\nin 12.5% of Zoë's garden - not café_au_lait [MASK]".split(" ")
QUESTIONS, UNANSWERABLE = 40, 4  # each fourth has no answer


def document(seed=1):
    """Each context has words of accents, punctuation, several blanks and ideographs; an answer is a run of its words."""
    draw = random.Random(seed)
    paragraphs = []
    for number in range(QUESTIONS):
        words = [draw.choice(WORDS) or "twice" for _ in range(draw.randint(6, 30))]
        first = draw.randrange(len(words))
        last = draw.randint(first, min(len(words) - 1, first + 3))
        answers = [{"text": " ".join(words[first:last + 1]), "answer_start": len(" ".join(words[:first] + [""]))}]
        impossible = number % UNANSWERABLE == 0
        question = {"id": f"q{number}", "question": f"what is number {number} of {draw.randrange(1000)}?", "answers": [] if impossible else answers,
                    "is_impossible": impossible}
        paragraphs.append({"context": " ".join(words), "qas": [question]})
    return {"version": "v2.0", "data": [{"title": "words", "paragraphs": paragraphs}]}


class QuestionAnswering(TaskCase):
    task = "question_answering"
    epochs, max_tokens = 80, 40

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = document()
        (cls.folder / "rows.json").write_text(json.dumps(cls.document), encoding="utf-8")
        cls.prepare("train", {"files": ["rows.json"]}, {"train_size": 200})
        cls.prepare("test", {"test_files": ["rows.json"]}, {"vocabulary": "train"})

    @classmethod
    def prepare(cls, output, source, tokenizer, ranks=1, check=0, split=None, **more):
        tables = {"source": {"format": "squad"} | source, "tokenizer": {"max_tokens": 40, "doc_stride": 8} | tokenizer,
                  "task": {"name": "question_answering"}, "output": {"directory": output}} | more
        if "files" in source:
            tables["split"] = split or {"train": 1, "validation": 0, "test": 0}
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", tables, ranks, check)

    def answers(self, run_folder):
        return json.loads((self.folder / run_folder / "predictions.json").read_text())

    def questions(self):
        return [question for paragraph in self.document["data"][0]["paragraphs"] for question in paragraph["qas"]]

    def lines(self, name, listed=False):
        """The document's questions as Hugging Face's datasets exports them, a question a line."""
        rows = []
        for paragraph in self.document["data"][0]["paragraphs"]:
            for question in paragraph["qas"]:
                columns = {key: [answer[key] for answer in question["answers"]] for key in ("text", "answer_start")}
                rows.append({"id": question["id"], "title": "words", "context": paragraph["context"], "question": question["question"],
                             "answers": question["answers"] if listed else columns})
        (self.folder / name).write_text("".join(json.dumps(row, ensure_ascii=listed) + "\n" for row in rows), encoding="utf-8")
        return rows

    def test_json_lines_give_the_shards_of_the_document(self):
        for name, listed in (("columns.jsonl", False), ("listed.jsonl", True)):
            self.lines(name, listed)
            for ranks in (1, 2):
                self.prepare("lines", {"test_files": [name]}, {"vocabulary": "train"}, ranks=ranks)
                for shard in (self.folder / "test").glob("*.h5"):
                    self.assertEqual(shard.read_bytes(), (self.folder / "lines" / shard.name).read_bytes(), name)
        rows = self.lines("broken.jsonl")
        rows[1]["answers"] = {"text": [rows[1]["context"]], "answer_start": [9999]}  # the context has it once
        rows[2]["answers"] = {"text": ["absent"], "answer_start": [0]}
        rows[3]["id"] = rows[0]["id"]
        del rows[5]["context"]
        rows[6]["is_impossible"], rows[7]["is_impossible"] = True, False
        rows[7]["answers"] = {"text": [], "answer_start": []}
        (self.folder / "broken.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n", encoding="utf-8")
        done = self.prepare("broken", {"test_files": ["broken.jsonl"]}, {"vocabulary": "train"})
        rejects = (self.folder / "broken/rejects.tsv").read_text(encoding="utf-8")
        self.assertIn("3 questions contradict themselves and are used as notes.tsv says (the first is broken.jsonl, row 2, line 2: has the answer",
                      done.stdout)
        notes = (self.folder / "broken/notes.tsv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(notes[0], "file\trow\tline\tnote")
        for note, (line, words) in zip(notes[1:], ((2, "at answer_start 9999, but its context has .*; the answer is at 0 alone, which is used"),
                                                   (7, "answers and is_impossible = true: the answers count"),
                                                   (8, "no answer and is_impossible = false: it counts as without answer")), strict=True):
            self.assertRegex(note, rf"^broken\.jsonl\t{line}\t{line}\thas .*{words}")
        for line, reason in ((3, 'has the answer "absent" at answer_start 0, but its context has'), (4, "id"), (6, 'has no "context"'),
                             (len(rows) + 1, "is not JSON: ")):
            self.assertRegex(rejects, rf"(?m)^broken\.jsonl\t{line}\t{line}\t[^\n]*{reason}")
        self.assertEqual(rejects.count("\n"), 5)
        done = self.prepare("other", {"format": "jsonl", "test_files": ["columns.jsonl"]}, {"vocabulary": "train"}, check=2)
        self.assertIn('must be "squad" for question_answering', done.stderr)

    def test_a_model_that_knows_the_questions_gives_the_exact_characters(self):
        self.train("learned")
        answers = self.answers("learned")
        self.assertEqual(len(answers), QUESTIONS)
        for question in self.questions():
            gold = question["answers"][0]["text"] if question["answers"] else ""
            with self.subTest(question["id"]):
                self.assertEqual(answers[question["id"]], gold)
        with h5py.File(self.folder / "learned/metrics.h5") as file:
            test = file["evaluations/test"]
            for name in ("exact", "f1", "has_answer_exact", "no_answer_exact", "best_exact", "best_f1"):
                self.assertEqual(test[name][-1], 100.0, name)
            self.assertEqual(test["f1"].attrs["label"], "f1")
        n_best = json.loads((self.folder / "learned/nbest_predictions.json").read_text())
        for choices in n_best.values():
            self.assertAlmostEqual(sum(choice["probability"] for choice in choices), 1, delta=1e-6)

    def test_a_best_model_that_answers_nothing_is_warned_of(self):
        """By the metric it is the best, which a model that answers every question later is not."""
        done = self.train("silent", schedule={"epochs": 25}, evaluation={"best": "no_answer_exact", "every_epochs": 1},
                          data={"validation": ["test/test-*.h5"], "test": None})
        evaluations = re.findall(r"validation at step (\d+): .*answered (\d+) of", done.stdout)
        silent = [int(step) for step, answered in evaluations if answered == "0"]
        self.assertTrue(silent and evaluations[-1][1] != "0", done.stdout)
        self.assertEqual(done.stdout.count(f"too few steps ({silent[0]} so far"), 1, done.stdout)
        self.assertIn("warning: validation: the model answers none of the 40 questions", done.stdout.split("predictions of the validation split")[1])

    def test_the_scorer_has_the_numbers_of_the_run(self):
        self.train("half", schedule={"epochs": 25})
        done = run("bert_hpc_score", "squad", "rows.json", "half/predictions.json", "half/null_odds.json", check=0, cwd=self.folder)
        scores = json.loads(done.stdout)
        plain = json.loads(run("bert_hpc_score", "squad", "rows.json", "half/predictions.json", check=0, cwd=self.folder).stdout)
        with h5py.File(self.folder / "half/metrics.h5") as file:
            test = {name: data[-1] for name, data in file["evaluations/test"].items()}
        self.assertTrue(0 < test["exact"] < 100, "a model between none and all")
        given = self.answers("half")
        self.assertAlmostEqual(test["answered"], 100 * sum(given[question["id"]] != "" for question in self.questions()) / QUESTIONS, delta=1e-10)
        count = sum(given[question["id"]] != "" for question in self.questions())
        self.assertIn(f"answered {count} of {QUESTIONS} questions, {QUESTIONS - count} not", (self.folder / "half/log.txt").read_text())
        self.assertEqual(test["questions"], QUESTIONS)
        for name, official in (("exact", "exact"), ("f1", "f1"), ("has_answer_exact", "HasAns_exact"), ("has_answer_f1", "HasAns_f1"),
                               ("no_answer_exact", "NoAns_exact")):
            # The same terms in another order: the shard's, not the file's.
            self.assertAlmostEqual(test[name], plain[official], delta=1e-10)
        self.assertGreaterEqual(test["best_exact"] + 1e-10, scores["best_exact"])  # which knows the answers beyond the threshold
        self.assertGreaterEqual(test["best_exact"] + 1e-10, test["exact"])
        # The report's table of errors scores single answers with the same rules.
        scored = [report_answers.scores([answer["text"] for answer in question["answers"]], given[question["id"]])
                  for question in self.questions()]
        for index, name in enumerate(("exact", "f1")):
            self.assertAlmostEqual(100 * sum(one[index] for one in scored) / QUESTIONS, test[name], delta=1e-10)
        self.check_thresholds(test)

    def check_thresholds(self, test):
        """The best scores and thresholds from the files of predictions; with such a threshold an evaluation has such a score."""
        odds = json.loads((self.folder / "half/null_odds.json").read_text())
        listed = json.loads((self.folder / "half/nbest_predictions.json").read_text())
        gold = {question["id"]: [answer["text"] for answer in question["answers"]] for question in self.questions()}
        # Of one question each, as a document of its own, the scorer's numbers.
        best = {name: next(choice["text"] for choice in choices if choice["text"]) for name, choices in listed.items()}
        right = {}
        for name in best:
            one = {"version": "v2.0", "data": [{"title": "", "paragraphs": [
                paragraph for paragraph in self.document["data"][0]["paragraphs"] if paragraph["qas"][0]["id"] == name]}]}
            (self.folder / "one.json").write_text(json.dumps(one))
            (self.folder / "one.predictions.json").write_text(json.dumps({name: best[name]}))
            done = run("bert_hpc_score", "squad", "one.json", "one.predictions.json", check=0, cwd=self.folder)
            right[name] = json.loads(done.stdout)
        for kind in ("exact", "f1"):
            scores = {limit: sum(right[name][kind] if odds[name] <= limit else 100.0 * (not gold[name]) for name in best) / len(best)
                      for limit in [-1e9, *odds.values()]}
            self.assertAlmostEqual(test[f"best_{kind}"], max(scores.values()), delta=1e-9)
            self.assertAlmostEqual(scores[test[f"best_{kind}_threshold"]], max(scores.values()), delta=1e-9)
        self.train("at_threshold", run={"mode": "evaluate", "directory": "at_threshold"}, model=SIZES | {"pretrained": "half/model"},
                   data={"train": None}, task={"null_threshold": float(test["best_exact_threshold"])})
        with h5py.File(self.folder / "at_threshold/metrics.h5") as file:
            self.assertAlmostEqual(file["evaluations/test/exact"][-1], test["best_exact"], delta=1e-9)
            self.assertIn("larger_is_better", file["evaluations/test/best_exact"].attrs)
            self.assertNotIn("larger_is_better", file["evaluations/test/best_exact_threshold"].attrs)
        done = self.train("by_threshold", evaluation={"best": "best_f1_threshold"}, data={"validation": ["test/test-*.h5"]}, check=None)
        self.assertEqual(done.returncode, 2)
        self.assertIn('best = "best_f1_threshold" is not a metric of the task', done.stderr)

    def test_layouts_agree(self):
        layouts = {"one": (1, {}), "data": (2, {"data": 2}), "pipeline": (2, {"pipeline": 2}), "both": (4, {"data": 2, "pipeline": 2})}
        found = {}
        for name, (ranks, parallel) in layouts.items():
            self.train(name, ranks, parallel=parallel, run={"mode": "train", "directory": name, "reproducible": True}, schedule={"epochs": 3})
            found[name] = [(self.folder / name / file).read_bytes()
                           for file in ("model/model.safetensors", "predictions.json", "nbest_predictions.json", "null_odds.json")]
            self.assertEqual(found[name], found["one"], name)
        self.train("tensor", 2, parallel={"tensor": 2}, schedule={"epochs": 3})
        with h5py.File(self.folder / "one/metrics.h5") as one, h5py.File(self.folder / "tensor/metrics.h5") as two:
            # Sums over hidden units are taken in two parts: a few roundings of fp32 a step.
            self.assertAlmostEqual(one["evaluations/test/loss"][-1] / two["evaluations/test/loss"][-1], 1, delta=1e-3)

    def test_prediction_has_the_answers_of_the_training(self):
        self.train("trained", schedule={"epochs": 10})
        done = self.train("predicted", run={"mode": "predict", "directory": "predicted"}, data={"train": None},
                          model=SIZES | {"pretrained": "trained/model"})
        for name in ("metrics.h5", "predictions.json", "nbest_predictions.json", "null_odds.json"):
            self.assertIn(f"predicted/{name}", done.stdout.split("results in ")[1])
        self.assertEqual(self.answers("predicted"), self.answers("trained"))
        config = json.loads((self.folder / "trained/model/config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForQuestionAnswering"])

    def test_a_training_without_test_data_answers_the_validation_split(self):
        files = ("predictions.json", "nbest_predictions.json", "null_odds.json")
        for name, ranks, best, tables in (("last", 1, None, {}), ("best", 2, "f1", {"parallel": {"pipeline": 2}})):
            done = self.train(name, ranks, data={"test": None, "validation": ["test/test-*.h5"]}, schedule={"epochs": 10},
                              evaluation={"every_epochs": 2, "best": best}, run={"mode": "train", "directory": name, "reproducible": True},
                              **tables)
            self.assertIn(f"predictions of the validation split are in {name}\n", done.stdout)
            self.train(f"{name}_again", run={"mode": "evaluate", "directory": f"{name}_again", "reproducible": True}, data={"train": None},
                       model=SIZES | {"pretrained": f"{name}/model"})
            for file in files[:1]:
                self.assertEqual((self.folder / name / file).read_bytes(), (self.folder / f"{name}_again" / file).read_bytes())
            for file in files:
                self.assertTrue((self.folder / name / file).is_file(), file)
            with h5py.File(self.folder / name / "metrics.h5") as file:
                self.assertEqual(list(file["evaluations"]), ["validation"])
                steps = list(file["evaluations/validation/step"])
                self.assertEqual(steps, sorted(set(steps)))
                best_f1 = max(file["evaluations/validation/f1"]) if best else file["evaluations/validation/f1"][-1]
            official = run("bert_hpc_score", "squad", "rows.json", f"{name}/predictions.json", check=0, cwd=self.folder)
            self.assertAlmostEqual(json.loads(official.stdout)["f1"], best_f1, delta=1e-9)

    def test_shards_do_not_depend_on_ranks(self):
        self.prepare("many", {"test_files": ["rows.json"]}, {"vocabulary": "train"}, ranks=3)
        self.assertEqual((self.folder / "many/test-00000.h5").read_bytes(), (self.folder / "test/test-00000.h5").read_bytes())
        self.assertEqual({path.name for path in (self.folder / "many").iterdir()}, {path.name for path in (self.folder / "test").iterdir()})

    def contexts(self, shards):
        """{row: [(ids, characters) of the context's tokens in each window]}, {row: tokens of the first window}"""
        found, lengths = {}, {}
        with h5py.File(self.folder / shards / "test-00000.h5") as shard:
            for i, row in enumerate(shard["source_index"][:].tolist()):
                first = shard["offsets"][i]
                begin, end = first + shard["context_tokens"][i]
                found.setdefault(row, []).append(list(zip(shard["input_ids"][begin:end].tolist(), map(tuple, shard["token_characters"][begin:end].tolist()))))
                lengths.setdefault(row, int(shard["offsets"][i + 1] - first))
        return found, lengths

    def test_windows_begin_a_step_apart(self):
        step = 9
        self.prepare("whole", {"test_files": ["rows.json"]}, {"vocabulary": "train", "max_tokens": 300})
        self.prepare("steps", {"test_files": ["rows.json"]}, {"vocabulary": "train", "doc_stride": step, "stride": "step"})
        whole, lengths = self.contexts("whole")
        steps, _ = self.contexts("steps")
        self.assertGreater(max(map(len, steps.values())), 3)
        for row, [context] in whole.items():
            room = 40 - (lengths[row] - len(context))  # beside the question and the special tokens
            expected = [context[begin:begin + room] for begin in range(0, len(context), step)
                        if begin == 0 or begin - step + room < len(context)]
            self.assertEqual(steps[row], expected)
        self.prepare("steps_train", {"files": ["rows.json"]}, {"vocabulary": "train", "doc_stride": step, "stride": "step"})
        self.train("by_steps", data={"train": ["steps_train/train-*.h5"], "test": ["steps/test-*.h5"]})
        with h5py.File(self.folder / "by_steps/metrics.h5") as file:
            self.assertGreater(file["evaluations/test/exact"][-1], 95)

    def test_ids_are_unique_within_a_split(self):
        for name, ids in (("dev", {5: "q3", 7: "only_dev"}), ("more", {i: f"more{i}" for i in range(QUESTIONS)} | {9: "q3", 10: "q3"})):
            other = document(seed=2)
            for number, text in ids.items():
                other["data"][0]["paragraphs"][number]["qas"][0]["id"] = text
            (self.folder / f"{name}.json").write_text(json.dumps(other))
        source = {"files": ["rows.json"], "validation_files": ["dev.json", "more.json"]}
        done = self.prepare("shared", source, {"vocabulary": "train"})
        # dev.json shares nearly all its ids with rows.json, and repeats q3 itself; more.json has it twice again.
        rejects = [line.split("\t") for line in (self.folder / "shared/rejects.tsv").read_text().splitlines()[1:]]
        self.assertEqual([line[:2] for line in rejects], [["dev.json", "6"], ["more.json", "10"], ["more.json", "11"]])
        for line in rejects:
            self.assertIn("an earlier row of the split has the same id", line[3])
        self.assertRegex(done.stdout, r"\nquestions   train 40, 10 of them without an answer; validation 77, 20 of them without an answer\n")
        with h5py.File(self.folder / "shared/validation-00000.h5") as shard:
            self.assertEqual(shard.attrs["unanswerable"], 30)  # of all that are kept

    def test_ids_of_divided_files_do_not_meet_those_of_a_splits_own_files(self):
        shutil.copy(self.folder / "rows.json", self.folder / "again.json")
        source = {"files": ["rows.json"], "validation_files": ["again.json"]}
        for name, split, rejected in (("separate", {"train": 1}, 0), ("mixed", {"train": 0.5, "validation": 0.5}, QUESTIONS)):
            self.prepare(name, source, {"vocabulary": "train"}, split=split, filter={"max_rejected": 0.5})
            self.assertEqual(len((self.folder / f"{name}/rejects.tsv").read_text().splitlines()) - 1, rejected, name)

    def test_rejected_rows_are_no_questions_without_answer(self):
        answered = document()
        for paragraph in answered["data"][0]["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question["answers"]]
        first = next(paragraph["qas"][0] for paragraph in answered["data"][0]["paragraphs"] if paragraph["qas"])
        first["answers"][0]["text"] = "nowhere"
        (self.folder / "answered.json").write_text(json.dumps(answered))
        done = self.prepare("answered", {"test_files": ["answered.json"]}, {"vocabulary": "train"})
        self.assertIn("questions   test 29, all with an answer\n", done.stdout)
        with h5py.File(self.folder / "answered/test-00000.h5") as shard:
            self.assertEqual(shard.attrs["unanswerable"], 0)

    def test_what_cannot_be_is_refused(self):
        shutil.copytree(self.folder / "train", self.folder / "copy")
        self.train("base", schedule={"epochs": 1})
        done = self.train("no_texts", run={"mode": "evaluate", "directory": "no_texts"}, model=SIZES | {"pretrained": "base/model"},
                          data={"train": None, "test": ["copy/train-*.h5"]}, check=None)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("it holds no texts, which predictions need", done.stderr)
        twice = document()
        twice["data"][0]["paragraphs"][5]["qas"][0]["id"] = "q1"
        (self.folder / "twice.json").write_text(json.dumps(twice))
        self.prepare("twice", {"files": ["twice.json"]}, {"vocabulary": "train"})
        self.assertRegex((self.folder / "twice/rejects.tsv").read_text(), r'an earlier row of the split has the same id \("[^"]+"\)')
        (self.folder / "rows.csv").write_text("question,context,answers,id\na,b,c,d\n")
        done = self.prepare("table", {"format": "csv", "files": ["rows.csv"]}, {"vocabulary": "train"}, check=None)
        self.assertEqual(done.returncode, 2)
        self.assertIn('must be "squad" for question_answering', done.stderr)


if __name__ == "__main__":
    unittest.main()
