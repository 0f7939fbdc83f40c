"""What the studies on SQuAD 2.0 share: the source files, the input of bert_hpc_prep, and the model that rows of a small
study begin with."""

import json
import pathlib

from command_line import StudyError
from study_plan import Variant, shards_of, write_source

SIZES = {"tiny": {"max_tokens": 96, "doc_stride": 32, "articles": 4, "words": 2000},
         "small": {"max_tokens": 192, "doc_stride": 64, "articles": 20, "words": 8192},
         "full": {"max_tokens": 384, "doc_stride": 128, "articles": 0, "words": 30522}}
START = {"steps": 800, "batch": 8, "learning_rate": 2e-4}  # the report's F1 of answers shows whether they suffice
DATA = "--data is a folder with SQuAD 2.0's train-v2.0.json and dev-v2.0.json (or files whose names begin with train and dev)."


def files_of(folder):
    """The files of the training and of the validation."""
    found = []
    for split in ("train", "dev"):
        own = sorted(pathlib.Path(folder).glob(f"{split}*.json")) if pathlib.Path(folder).is_dir() else []
        if not own:
            raise StudyError(f"--data {folder}: there is no {split}*.json; {DATA.removeprefix('--data is ')}")
        found.append(own[0])
    for path in found:
        try:
            with open(path, encoding="utf-8") as file:
                articles = json.load(file)["data"]
            if not isinstance(articles, list) or not articles:
                raise StudyError(f"--data: {path} has no articles")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise StudyError(f"--data: {path} is not SQuAD's JSON: {problem}") from None
    return found


class Sources:
    """The source files; or, if a study takes only the first paragraphs of some articles, files in `folder` with these, and with the
    other paragraphs of its training file."""

    def __init__(self, options, folder, paragraphs):
        self.articles, self.paragraphs = SIZES[options.size]["articles"], paragraphs
        self.whole = files_of(options.data)
        self.paths = [folder / path.name for path in self.whole] if paragraphs else self.whole
        self.others = folder / f"other-{self.whole[0].name}" if starts(options) else None

    def all(self):
        return [*self.paths, *([self.others] if self.others else [])]

    def write(self):
        """Writes the smaller files."""
        for whole, path in zip(self.whole, self.paths):
            if path != whole:
                self.write_part(whole, path, self.articles or None, slice(self.paragraphs))
        if self.others:
            self.write_part(self.whole[0], self.others, None, slice(self.paragraphs, None))

    @staticmethod
    def write_part(whole, path, articles, paragraphs):
        with open(whole, encoding="utf-8") as file:
            data = json.load(file)
        data["data"] = [{**article, "paragraphs": article["paragraphs"][paragraphs]} for article in data["data"][:articles]]
        write_source(path, json.dumps(data))


def prepared(options, paragraphs):
    """The input of bert_hpc_prep, the source files, and what is smaller than in the papers. Takes the first paragraphs of each article,
    0 for all."""
    size = SIZES[options.size]
    sources = Sources(options, options.output / "source", paragraphs)
    tokenizer = {"type": "wordpiece", "lowercase": True, "max_tokens": size["max_tokens"], "doc_stride": size["doc_stride"]}
    tokenizer.update({"vocabulary": options.vocabulary} if options.vocabulary else {"train_size": size["words"]})
    shrunk = []
    if options.size != "full":
        rate = learning_rate(options)
        shrunk.append(f"The first {'paragraph' if paragraphs == 1 else f'{paragraphs} paragraphs'} of each article"
                      + (f", of {size['articles']} articles" if size["articles"] else "") + f", in windows of {size['max_tokens']} tokens instead of 384"
                      + (f"; learning rate {rate:g} instead of 3e-05, for fewer steps." if rate != 3e-5 else "."))
    if options.from_scratch:
        shrunk.append("The model begins with random weights, so its scores say nothing about a pretrained BERT.")
    train, dev = sources.paths
    return prep_of(train, dev, tokenizer), sources, shrunk


def prep_of(train, dev, tokenizer):
    return {"source": {"format": "squad", "files": [str(train)], "validation_files": [str(dev)]}, "tokenizer": tokenizer,
            "task": {"name": "question_answering"}}


def starts(options):
    """Whether the rows begin with a model that has learnt to answer: the steps of a small row are too few for a new head."""
    return options.size == "small" and not options.from_scratch


def begin_with_answers(plan, options, sources):
    """The plan whose rows begin with such a model: a run of its own trains it, on the paragraphs that the rows do not have."""
    if not starts(options):
        return plan
    plan.preps["shards-start"] = prep_of(sources.others, sources.paths[1], plan.preps["shards"]["tokenizer"])
    plan.inputs["start"] = {
        "task": {"name": "question_answering"}, "batch": {"global": START["batch"]},
        "data": shards_of(options.output / "shards-start", ("train",)) | {"validation": []},
        "optimizer": {"learning_rate": START["learning_rate"]}, "schedule": {"name": "linear", "warmup_ratio": 0.1, "steps": START["steps"]},
        "log": {"every_steps": 50}}
    plan.inputs["train"]["model"] = {"pretrained": str(options.output / "runs" / "start" / "model")}
    for variant in plan.variants:
        variant.needs = ("start",)
    plan.variants.insert(0, Variant("start", "the model that the rows begin with", input="start", once=True, hidden=True))
    plan.shrunk.append(f"All rows begin with one model, which {START['steps']} steps of {START['batch']} windows on the other paragraphs have taught to answer:"
                       " the few steps of a row would not. So the rows lie closer together than the paper's.")
    return plan


def learning_rate(options):
    """3e-5 as published; larger for weights that begin at random, and for the few steps of a new head."""
    return 3e-4 if options.from_scratch else 1e-4 if options.size == "tiny" else 3e-5


def learned(rows):
    """A model whose answers to questions that have one are all wrong has learnt nothing."""
    return [f"{row.label}: F1 of the questions that have an answer is {row.mean('has_answer_f1'):.1f}" for row in rows
            if row.name and row.mean("has_answer_f1") <= 0.0]
