"""Questions of a question_answering run with known answers, from the texts in its shards, its predictions, and their exact match and
F1 as SQuAD's evaluate-v2.0.py has them."""

import collections
import json
import re
import string

import h5py
import numpy as np

import predictions

TEXTS_OF_ROW = 3  # id, context, answers

Question = collections.namedtuple("Question", "row id answers")


def questions_of(path):
    """The questions of a shard whose answers are known: `row` of the source, all right `answers`."""
    with h5py.File(path, "r") as file:
        source, offsets = file["source_index"][()], file["text_offsets"][()]
        texts = file["texts"][()].tobytes()
    rows = source[np.flatnonzero(np.append(True, source[1:] != source[:-1]))]  # windows of a question are neighbours
    found = []
    for number, row in enumerate(rows):
        first, second, third, fourth = offsets[TEXTS_OF_ROW * number : TEXTS_OF_ROW * (number + 1) + 1]
        answers = texts[third:fourth].decode("utf-8", "replace")
        if answers:
            found.append(Question(int(row), texts[first:second].decode("utf-8", "replace"), json.loads(answers)))
    return found


ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
MARKS = str.maketrans("", "", string.punctuation)


def words_of(answer):
    """The words that SQuAD's evaluate-v2.0.py compares."""
    return ARTICLES.sub(" ", answer.lower().translate(MARKS)).split()


def f1_of(gold, answer):
    """Of two lists of words. An empty one is right where both are."""
    if not gold or not answer:
        return float(gold == answer)
    same = sum((collections.Counter(gold) & collections.Counter(answer)).values())
    return 2 * same / (len(gold) + len(answer))


def scores(answers, given):
    """Exact match and F1 with the answer that suits best."""
    gold = [words for words in map(words_of, answers) if words] or [[]]
    given = words_of(given)
    return float(given in gold), max(f1_of(one, given) for one in gold)


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def of_run(run):
    """The run's answers by the ids of questions, and the questions whose right answers are known; None for other runs."""
    given = read_json(run.path / "predictions.json") if run.task == "question_answering" else {}
    if not given:
        return None
    try:
        asked = [question for path in predictions.shard_files(run) for question in questions_of(path)]
    except (OSError, KeyError, ValueError):
        return None
    return given, [question for question in asked if question.id in given]
