#!/usr/bin/env python3
"""Numbers of official scorers on small random files, for tests/integration/test_score_official.py: official.json, a list of
cases {scorer, gold, predictions, numbers, digits, delta}. A number of bert_hpc_score must differ by at most `delta`; where
`digits` is given, its text with so many decimals must be the script's.

    python3 generate.py SCRIPTS > official.json    SCRIPTS: a folder with conlleval.pl, ms_marco_eval.py and WikiQA's eval.py

It needs numpy, scipy, scikit-learn, seqeval and perl."""

import contextlib
import importlib.util
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import scipy.stats
import seqeval.metrics
from sklearn import metrics

SCRIPTS = pathlib.Path(sys.argv[1])
CASES = []


def case(scorer, gold, predictions, numbers, delta=0.0, digits=None):
    numbers = {name: float(value) for name, value in numbers.items()}
    CASES.append({"scorer": scorer, "gold": gold, "predictions": predictions, "numbers": numbers, "digits": digits, "delta": delta})


def module(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@contextlib.contextmanager
def files(*texts):
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / str(number) for number in range(len(texts))]
        for path, text in zip(paths, texts):
            path.write_text(text)
        yield [str(path) for path in paths]


def tag(rng, kinds):
    kind = rng.choice(kinds)
    return kind if kind == "O" else f"{kind}-{rng.choice(['PER', 'LOC', 'A-B'])}"


def columns(sentences):
    return "-DOCSTART- -X- O\n\n" + "".join("".join(f"w{i} x {t}\n" for i, t in enumerate(tags)) + "\n" for tags in sentences)


def conll(rng, kinds):
    """Tags at random, so that most sequences are broken."""
    gold = [[tag(rng, kinds) for _ in range(rng.randrange(1, 9))] for _ in range(rng.randrange(1, 12))]
    predicted = [[t if rng.random() < 0.7 else tag(rng, kinds) for t in tags] for tags in gold]
    report = seqeval.metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
    numbers = {"accuracy": 100 * seqeval.metrics.accuracy_score(gold, predicted)}
    for name, row in report.items():
        prefix = "" if name == "micro avg" else f"{name}_"
        if not name.endswith(" avg") or not prefix:
            numbers |= {f"{prefix}{ours}": 100 * row[theirs] for ours, theirs in (("precision", "precision"), ("recall", "recall"), ("FB1", "f1-score"))}
    case("conll", columns(gold), columns(predicted), numbers, delta=1e-13)  # percent: 4 roundings of numbers up to 100
    if "E" in kinds:
        return
    both = "".join("".join(f"w {g} {p}\n" for g, p in zip(*tags)) + "\n" for tags in zip(gold, predicted))
    lines = subprocess.run(["perl", SCRIPTS / "conlleval.pl"], input=both, capture_output=True, text=True, check=True).stdout.splitlines()
    counts = re.match(r"processed (\d+) tokens with (\d+) phrases; found: (\d+) phrases; correct: (\d+)", lines[0]).groups()
    printed = dict(zip(("tokens", "phrases", "found", "correct"), counts))
    printed["accuracy"] = re.search(r"accuracy: *([\d.]+)", lines[1])[1]
    for line in lines[1:]:
        name = "" if "accuracy" in line else line.split(":")[0].strip() + "_"
        printed |= {f"{name}{key}": value for key, value in re.findall(r"(precision|recall|FB1): *([\d.]+)", line)}
        if name:
            printed[f"{name}found"] = line.split()[-1]
    case("conll", columns(gold), columns(predicted), printed, digits=2)


def msmarco(rng, script):
    qrels = "".join(f"{q}\t0\t{p}\t1\n" for q in range(1, 20) for p in rng.sample(range(1, 30), rng.randrange(1, 4)))
    ranking = ""
    for query in rng.sample(range(1, 25), 12):
        passages = rng.sample(range(1, 40), 14)
        ranking += "".join(f"{query}\t{p}\t{rank}\n" for rank, p in enumerate(passages, 1) if rng.random() < 0.9)
    with files(qrels, ranking) as paths:
        case("msmarco", qrels, ranking, script.compute_metrics_from_files(*paths))


def wikiqa(rng, script):
    """Questions with several right answers, one or none; equal scores."""
    gold = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"
    predictions = reference = run = ""
    for question in range(20):
        for sentence in range(rng.randrange(1, 14)):
            label = int(rng.random() < 0.2 and question % 3 > 0)
            score = rng.choice([0.9, rng.random()] if label else [0.05, 0.11, 0.5, 0.9, rng.random() / 2])
            gold += f"Q{question}\tq?\tD{question}\ttitle\tD{question}-{sentence}\ta \"text\".\t{label}\n"
            predictions += f"Q{question}\tD{question}-{sentence}\t{score!r}\n"
            reference += f"Q{question} 0 {sentence} {label}\n"
            run += f"Q{question} 0 {sentence} 0 {score!r} run\n"
    with files(reference, run) as paths:
        found = script.get_prf(*paths, thre=0.11)
    case("wikiqa", gold, predictions, dict(zip(("triggering_precision", "triggering_recall", "triggering_f1"), found[3:6])))


def multilabel(rng, separator):
    labels = ["toxic", "severe_toxic", "obscene", "threat"]
    rows = rng.randrange(8, 30)
    gold = np.array([[int(rng.random() < 0.4) for _ in labels] for _ in range(rows)])
    gold[0], gold[1] = 1, 0
    scores = np.array([[rng.choice([0.0, 0.5, 1.0, round(rng.random(), 3)]) for _ in labels] for _ in range(rows)])
    guessed = (scores >= 0.5).astype(int)
    header = separator.join(["id", *labels]) + "\n"
    numbers = {"micro_f1": metrics.f1_score(gold, guessed, average="micro", zero_division=0),
               "macro_f1": metrics.f1_score(gold, guessed, average="macro", zero_division=0),
               "exact_match": metrics.accuracy_score(gold, guessed), "hamming_loss": metrics.hamming_loss(gold, guessed),
               "lrap": metrics.label_ranking_average_precision_score(gold, scores)}
    areas = {f"{label}_roc_auc": metrics.roc_auc_score(gold[:, i], scores[:, i]) for i, label in enumerate(labels)}
    texts = [header + "".join(separator.join([f"r{i}", *map(str, row)]) + "\n" for i, row in enumerate(table.tolist())) for table in (gold, scores)]
    case("multilabel", *texts, numbers)
    # scikit-learn adds up to 30 trapezoids, each with a rounding or two of numbers up to 1.
    case("multilabel", *texts, areas | {"macro_roc_auc": metrics.roc_auc_score(gold, scores, average="macro")}, delta=30 * 2**-52)


def glue(rng, name, header, row, labels):
    rows = rng.randrange(20, 60)
    if labels:
        gold = [rng.choice(labels) for _ in range(rows)]
        predicted = [label if rng.random() < 0.7 else rng.choice(labels) for label in gold]
    else:
        gold = [rng.choice([0.0, 2.5, 5.0, rng.uniform(0, 5)]) for _ in range(rows)]
        predicted = [round(value + rng.gauss(0, 1), 3) for value in gold]
    texts = (header + "".join(row.format(label) + "\n" for label in gold),
             "index\tprediction\n" + "".join(f"{i}\t{label}\n" for i, label in enumerate(predicted)))
    if not labels:
        pearson, spearman = scipy.stats.pearsonr(gold, predicted)[0], scipy.stats.spearmanr(gold, predicted)[0]
        # Sums of up to 60 products: relative errors of at most 60 roundings in each of three sums, on both sides.
        return case(name, *texts, {"pearson": pearson, "spearmanr": spearman, "corr": (pearson + spearman) / 2}, delta=400 * 2**-53)
    accuracy = np.mean(np.array(gold) == np.array(predicted))
    numbers = {"acc": accuracy}
    if name == "glue-cola":
        numbers = {"mcc": metrics.matthews_corrcoef(gold, predicted)}
    if name in ("glue-mrpc", "glue-qqp"):
        f1 = metrics.f1_score(gold, predicted, pos_label="1")
        numbers |= {"f1": f1, "acc_and_f1": (accuracy + f1) / 2}
    return case(name, *texts, numbers)


def main():
    rng = random.Random(3)
    for _ in range(5):
        conll(rng, "BIO")
        conll(rng, "IO")
        conll(rng, "BIESO")
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(3):
            msmarco(rng, module("ms_marco_eval"))
            wikiqa(rng, module("eval"))
            multilabel(rng, rng.choice(",\t"))
    binary, entailment, pair = ["0", "1"], ["entailment", "not_entailment"], "index\tsentence1\tsentence2\tlabel\n"
    for _ in range(2):
        glue(rng, "glue-cola", "", "gj04\t{}\t*\tA \"text.", binary)
        glue(rng, "glue-sst-2", "sentence\tlabel\n", "a \"text\t{}", binary)
        glue(rng, "glue-mrpc", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "{}\t1\t2\ta\tb", binary)
        glue(rng, "glue-sts-b", "index\tsentence1\tsentence2\tscore\n", "0\ta\tb\t{}", None)
        glue(rng, "glue-qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", "1\t2\t3\ta\tb\t{}", binary)
        glue(rng, "glue-mnli", "index\tsentence1\tsentence2\tlabel1\tgold_label\n", "0\ta\tb\tneutral\t{}", ["contradiction", "entailment", "neutral"])
        glue(rng, "glue-qnli", "index\tquestion\tsentence\tlabel\n", "0\ta\tb\t{}", entailment)
        glue(rng, "glue-rte", pair, "0\ta\tb\t{}", entailment)
        glue(rng, "glue-wnli", pair, "0\ta\tb\t{}", binary)
    print("[" + ",\n".join(json.dumps(one) for one in CASES) + "]")


main()
