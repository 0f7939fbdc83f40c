"""What the studies on SQuAD 2.0 share: the source files, and the input of bert_hpc_prep."""

import json
import pathlib

from command_line import StudyError
from study_plan import write_source

SIZES = {"tiny": {"max_tokens": 96, "doc_stride": 32, "articles": 4, "paragraphs": 6, "words": 2000},
         "small": {"max_tokens": 192, "doc_stride": 64, "articles": 0, "paragraphs": 4, "words": 8192},
         "full": {"max_tokens": 384, "doc_stride": 128, "articles": 0, "paragraphs": 0, "words": 30522}}
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
    """The source files, or files in `folder` with the first paragraphs of some articles."""

    def __init__(self, options, folder):
        size = SIZES[options.size]
        self.whole, self.size = files_of(options.data), size
        self.paths = [folder / path.name for path in self.whole] if size["paragraphs"] else self.whole

    def write(self):
        """Writes the smaller files."""
        for whole, path in zip(self.whole, self.paths):
            if path == whole:
                continue
            with open(whole, encoding="utf-8") as file:
                data = json.load(file)
            data["data"] = [{**article, "paragraphs": article["paragraphs"][: self.size["paragraphs"]]}
                            for article in data["data"][: self.size["articles"] or None]]
            write_source(path, json.dumps(data))


def prepared(options):
    """The input of bert_hpc_prep, the source files, and what is smaller than in the papers."""
    size = SIZES[options.size]
    sources = Sources(options, options.output / "source")
    train, dev = sources.paths
    tokenizer = {"type": "wordpiece", "lowercase": True, "max_tokens": size["max_tokens"], "doc_stride": size["doc_stride"]}
    tokenizer.update({"vocabulary": options.vocabulary} if options.vocabulary else {"train_size": size["words"]})
    prep = {"source": {"format": "squad", "files": [str(train)], "validation_files": [str(dev)]}, "tokenizer": tokenizer,
            "task": {"name": "question_answering"}}
    shrunk = []
    if options.size != "full":
        shrunk.append(f"The first {size['paragraphs']} paragraphs of each article" + (f", of {size['articles']} articles" if size["articles"] else "")
                      + f", in windows of {size['max_tokens']} tokens instead of 384; learning rate {learning_rate(options):g} instead of 3e-05, for fewer steps.")
    if options.from_scratch:
        shrunk.append("The model begins with random weights, so its scores say nothing about a pretrained BERT.")
    return prep, sources, shrunk


def learning_rate(options):
    """3e-5 as published; larger for weights that begin at random, and for the few steps of a smaller size."""
    return 3e-4 if options.from_scratch else 3e-5 if options.size == "full" else 1e-4


def learned(rows):
    """A model whose answers to questions that have one are all wrong has learnt nothing."""
    return [f"{row.label}: F1 of the questions that have an answer is {row.mean('has_answer_f1'):.1f}" for row in rows
            if row.name and row.mean("has_answer_f1") <= 0.0]
