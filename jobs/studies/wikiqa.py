"""WikiQA's files for the study of distillation: its dev file is divided if its test file has no labels."""

import csv
import itertools
import pathlib

from command_line import StudyError
from study_plan import write_source

COLUMNS = ["QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label"]
DATA = """--data is a folder with WikiQA-train.tsv, WikiQA-dev.tsv and WikiQA-test.tsv (the corpus of Yang et al.
2015). If the last has no labels, or is not there, half of the questions of the dev file are held out for the test,
the other half choose the best model."""


def rows_of(path):
    """The header and the rows of a file, without blank ones."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise StudyError(f"--data: {path} cannot be read: {problem}") from None
    header = rows[0][1] if rows else []
    if header[:6] != COLUMNS[:6]:
        raise StudyError(f"--data: {path} does not begin with the columns {', '.join(COLUMNS)}, between tabs")
    if len(rows) == 1:
        raise StudyError(f"--data: {path} has no rows")
    for line, row in rows:
        if len(row) != len(header):
            raise StudyError(f"--data: {path}, line {line}: {len(row)} fields between tabs, not {len(header)}")
    return header, [row for _, row in rows[1:]]


def groups_of(rows):
    """[rows of a question], in the order of the file."""
    groups = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    return list(groups.values())


def relevance_of(path):
    """[[is the sentence an answer?] of a question]"""
    return [[row[6] == "1" for row in group] for group in groups_of(rows_of(path)[1])]


def chance_of(groups):
    """{measure: its expected value} of sentences in random order."""
    precision, reciprocal = 0.0, 0.0
    for labels in groups:
        n, right = len(labels), sum(labels)
        # A relevant sentence at rank k has (right − 1) others among n − 1 ranks, (k − 1) of which are before it.
        precision += sum((1 + (k - 1) * (right - 1) / max(1, n - 1)) / k for k in range(1, n + 1)) / n
        none = 1.0
        for k in range(1, n - right + 2):  # the first relevant one is at rank k
            here = right / (n - k + 1)
            reciprocal += none * here / k
            none *= 1 - here
    return {"map": precision / len(groups), "mrr": reciprocal / len(groups)}


class Sources:
    """The files of the three splits: the user's if they serve as they are, else files in the study's folder."""

    def __init__(self, options, most):
        folder, own = pathlib.Path(options.data), options.output / "source"
        if not folder.is_dir():
            raise StudyError(f"--data {folder}: it is no folder; take one with WikiQA-train.tsv and WikiQA-dev.tsv")
        self.train, self.dev, test = (folder / f"WikiQA-{split}.tsv" for split in ("train", "dev", "test"))
        for path in (self.train, self.dev):
            if not path.is_file():
                raise StudyError(f"--data {folder}: there is no {path.name}")
            if rows_of(path)[0] != COLUMNS:
                raise StudyError(f"--data: {path} has no column Label")
        self.most = most
        self.labelled = test.is_file() and rows_of(test)[0] == COLUMNS
        self.paths = [
            own / "train.tsv" if most else self.train,
            self.dev if self.labelled else own / "validation.tsv",
            test if self.labelled else own / "test.tsv",
        ]
        self.held_out = (
            "The held-out questions are those of WikiQA's test file."
            if self.labelled
            else "WikiQA's test file has no labels here: every second question of its dev file is held out,"
            " of those with an answer and of those without."
        )

    def write(self):
        """Writes the files that are not the user's."""
        if self.most:
            self.write_groups(self.paths[0], groups_of(rows_of(self.train)[1])[: self.most])
        if not self.labelled:
            groups = groups_of(rows_of(self.dev)[1])
            kinds = [
                [group for group in groups if any(row[6] == "1" for row in group) == answered]
                for answered in (True, False)
            ]
            for path, begin in zip(self.paths[1:], (0, 1)):
                self.write_groups(path, itertools.chain(*(kind[begin::2] for kind in kinds)))

    @staticmethod
    def write_groups(path, groups):
        write_source(path, "".join("\t".join(row) + "\n" for row in [COLUMNS, *itertools.chain(*groups)]))
