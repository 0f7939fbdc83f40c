"""The worst answers of a question_answering run, from predictions.json and the texts in the shards of questions with known answers:
those with the lowest F1 first, of equal ones the most probable."""

import answers
from error_rows import MOST, Line, Worst

NONE = "(no answer)"


def probability_of(choices, text):
    return next((choice["probability"] for choice in choices if choice["text"] == text), float("nan"))


def of_run(run):
    of_questions = answers.of_run(run)
    if of_questions is None:
        return None
    given, asked = of_questions
    found = []
    choices = answers.read_json(run.path / "nbest_predictions.json")
    for question in asked:
        text = given[question.id]
        exact, f1 = answers.scores(question.answers, text)
        if exact < 1:
            found.append((f1, probability_of(choices.get(question.id, []), text), question, text))
    found.sort(key=lambda one: (one[0], -one[1] if one[1] == one[1] else 1.0))
    lines = [Line([question.id, f1, probability, " | ".join(dict.fromkeys(question.answers)) or NONE, text or NONE], [question.row], [question.id],
                  about=(question.answers or [text])[0]) for f1, probability, question, text in found[:MOST]]
    return Worst("Worst answers", ["id", "f1", "probability", "answers", "prediction"], lines) if lines else None
