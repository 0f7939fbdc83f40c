"""Study 1: essay scoring as a regression, data parallel."""

import math
import re

import h5py
import numpy as np

from command_line import StudyError
from study_plan import Measure, Plan, Variant
import explore
import plot_regression
import source_rows
import source_text
from source_columns import table_of
from measures import epoch_seconds, metric, runtime

ABOUT = """Essay scoring: BERT with one linear output predicts the band of an essay from its prompt and text (mean squared error,
learning rate 5e-5, 16 sequences, 3 epochs, the best model by validation), on one rank and data parallel on two.

--data is a CSV file with the columns Question, Essay, Overall and Task_Type (the IELTS writing data set). Rows without
a score are dropped; 80% are for training, 10% each for validation and test.

The table has RMSE, MAE, R2 and the share of predictions within half a band, of the test split, and the times of
training, beside the mean of the training labels, a ridge regression on the bag of words and a search over learning
rate, batch and epochs where --search names values."""

COLUMNS = ("Question", "Essay", "Overall")
SIZES = {"tiny": {"max_tokens": 128, "epochs": 2, "sample": 200, "words": 1000},
         "small": {"max_tokens": 512, "epochs": 3, "sample": 900, "words": 8192},
         "full": {"max_tokens": 512, "epochs": 3, "sample": 0, "words": 30522}}
SCRATCH = {"learning_rate": 1e-3, "epochs": 10}  # of a model that begins with random weights


def add_options(parser):
    parser.add_argument("--search", default="", metavar="KEY=VALUES;…",
                        help="also a row for each combination, for example 'learning_rate=2e-5,5e-5;batch=16,32;epochs=3,4'")


KEYS = {"learning_rate": "optimizer.learning_rate", "batch": "batch.global", "epochs": "schedule.epochs"}


def search(text, ranks):
    """A variant for each combination of --search's values."""
    chosen = [{}]
    for part in filter(None, text.split(";")):
        key, _, values = part.partition("=")
        if key not in KEYS or not all(re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", value) for value in values.split(",")):
            raise StudyError(f"--search: '{part}' is not KEY=VALUE,VALUE; the keys are {', '.join(KEYS)}")
        chosen = [{**before, key: value} for before in chosen for value in values.split(",")]
    return [Variant("search-" + "-".join(f"{key}{value}" for key, value in one.items()),
                    "search: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in one.items()),
                    {KEYS[key]: float(value) if key == "learning_rate" else int(value) for key, value in one.items()}, ranks)
            for one in chosen if one]


def within_half(run):
    """Share of the test's predictions at most half a band from the label."""
    if run.predictions is None:
        return math.nan
    return float(np.mean(np.abs(run.predictions["prediction"] - run.predictions["label"]) <= 0.5))


def plan(options, given):
    options.data = table_of(options.data, COLUMNS)
    size, ranks = SIZES[options.size], options.ranks or 2
    tokenizer = {"type": "wordpiece", "lowercase": True, "max_tokens": size["max_tokens"]}
    tokenizer.update({"vocabulary": options.vocabulary} if options.vocabulary else {"train_size": size["words"]})
    prep = {"source": {"format": "csv", "files": [str(options.data)], "text": "Question", "text_pair": "Essay", "label": "Overall"},
            "filter": {"drop_missing": True, **({"sample": size["sample"]} if size["sample"] else {})},
            "split": {"train": 0.8, "validation": 0.1, "test": 0.1, "seed": 1}, "tokenizer": tokenizer, "task": {"name": "regression"}}
    scratch = options.from_scratch
    train = {"task": {"name": "regression"}, "batch": {"global": 16},
             "optimizer": {"learning_rate": SCRATCH["learning_rate"] if scratch else 5e-5},
             "schedule": {"warmup_ratio": 0.1, "epochs": SCRATCH["epochs"] if scratch and options.size != "tiny" else size["epochs"]},
             "evaluation": {"every_epochs": 1, "best": "rmse"}, "log": {"every_steps": 10}}
    variants = [Variant("one", "BERT on 1 rank", {}, 1, {"rmse": 0.9212, "mae": 0.7160, "r2": 0.0948}),
                Variant("parallel", f"BERT on {ranks} ranks, data parallel", {}, ranks, {"rmse": 0.85, "mae": 0.65, "r2": 0.20}),
                Variant("killed", "the same, killed and resumed", {"checkpoint.every_steps": 10}, ranks, killed=True,
                        note="all ranks are killed after a checkpoint; the run resumes from it and must end with the same numbers"),
                *search(given.search, ranks)]
    shrunk = ["Their baseline is plain BERT on one GPU, without their data cleaning; both our rows are the same training."]
    if scratch:
        shrunk.append("The model begins with random weights, so its figures say nothing about a pretrained BERT.")
    if size["sample"]:
        shrunk.append(f"{size['sample']} essays, cut at {size['max_tokens']} tokens.")
    measures = [Measure("rmse", "RMSE", metric("test", "rmse"), 3, change=True), Measure("mae", "MAE", metric("test", "mae"), 3, change=True),
                Measure("r2", "R²", metric("test", "r2"), 3), Measure("within", "within 0.5", within_half, 3),
                Measure("epoch", "s an epoch", epoch_seconds, 1, change=True), Measure("runtime", "training, s", runtime, 1)]
    return Plan("Essay scoring: BERT as a regression, data parallel", {"shards": prep}, {"train": train}, variants,
                measures, [options.data], "one", shrunk, others=baselines, pictures=pictures, learned=learned)


def split_texts(study):
    """{split: (texts, scores)} of the rows in the shards."""
    found = {}
    for split in ("train", "test"):
        numbers = []
        for path in sorted((study.output / "shards").glob(f"{split}-*.h5")):
            with h5py.File(path, "r") as file:
                numbers += np.ravel(file["source_index"][()]).tolist()
        rows = source_text.texts_of([study.options.data], COLUMNS, set(numbers), source_rows.Form("csv"))
        found[split] = ([" ".join(rows[number][:2]) for number in numbers], np.array([float(rows[number][2]) for number in numbers]))
    return found


def scores(actual, predicted):
    errors = predicted - actual
    return {"rmse": float(np.sqrt(np.mean(errors**2))), "mae": float(np.mean(np.abs(errors))),
            "r2": float(plot_regression.r_squared(actual, errors)), "within": float(np.mean(np.abs(errors) <= 0.5))}


def baselines(study):
    """The mean of the training scores, and a ridge regression on the bag of words whose strength is chosen by cross validation."""
    splits = split_texts(study)
    texts, labels = splits["train"]
    held_out, actual = splits["test"]
    found = [("the mean of the training scores", scores(actual, np.full(len(actual), labels.mean())), "")]
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import RidgeCV
    except ImportError:
        return [*found, ("ridge on the bag of words", {}, "scikit-learn is missing: jobs/setup.sh --studies installs it")]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    model = RidgeCV(alphas=np.logspace(-2, 2, 9)).fit(words.fit_transform(texts), labels)
    return [*found, ("ridge on the bag of words", scores(actual, model.predict(words.transform(held_out))),
                     f"TF-IDF of words and pairs, strength {model.alpha_:.3g} by cross validation")]


def learned(rows):
    """A model that does not beat the mean has learnt nothing."""
    mean = next(row for row in rows if row.label.startswith("the mean")).mean("rmse")
    return [f"{row.label}: RMSE {row.mean('rmse'):.3f} is not below the mean's {mean:.3f}" for row in rows
            if row.name and math.isfinite(row.mean("rmse")) and row.mean("rmse") >= mean]


def pictures(study, runs):
    yield from explore.draw_table(study.options.data, text="Essay", label="Overall", category="Task_Type", comment="Examiner_Commen")
    if runs:
        yield from plot_regression.draw([min(runs.values(), key=metric("test", "rmse"))])
