"""Question answering by Transformers' fast tokenizer and the rules of its run_qa.py, written independently: windows and
their labels, and answers from the scores of tokens. Needs numpy, and a tokenizer of transformers."""

import json

import numpy


def asked_in(path):
    """[(question, context)] of SQuAD's JSON."""
    paragraphs = json.loads(path.read_text(encoding="utf-8"))["data"][0]["paragraphs"]
    return [(question, paragraph["context"]) for paragraph in paragraphs for question in paragraph["qas"]]


def windows_of(tokenizer, question, context, max_tokens, overlap):
    """The windows of a question, each with ids, types, indices of the context's tokens and characters of every token."""
    made = tokenizer(question, context, truncation="only_second", max_length=max_tokens, stride=overlap, return_overflowing_tokens=True,
                     return_offsets_mapping=True, return_token_type_ids=True)
    windows = []
    for i in range(len(made["input_ids"])):
        indices = [index for index, text in enumerate(made.sequence_ids(i)) if text == 1]
        windows.append({"ids": made["input_ids"][i], "types": made["token_type_ids"][i], "context": indices,
                        "characters": made["offset_mapping"][i]})
    return windows


def windows_in(tokenizer, asked, max_tokens, overlap):
    """The windows of each question."""
    return [windows_of(tokenizer, question["question"], context, max_tokens, overlap) for question, context in asked]


def check_windows(shard, windows, asked, first):
    """Fails unless the shard has these windows and their labels. first: the source row of the first question."""
    ours = {}
    for i, row in enumerate(shard["rows"]):
        ours.setdefault(int(row) - first, []).append((shard["ids"][i], shard["types"][i], tuple(shard["labels"][i].tolist())))
    assert set(ours) == set(range(len(asked)))
    assert sum(map(len, windows)) > len(asked), "there are questions of several windows"
    for row, (question, _) in enumerate(asked):
        theirs = [(w["ids"], w["types"], span_of(w, question["answers"])) for w in windows[row]]
        assert ours[row] == theirs, question["id"]


def span_of(window, answers):
    """First and last token of the first answer; (0, 0) where the window does not hold all of it."""
    if not answers or not window["context"]:
        return 0, 0
    begin = answers[0]["answer_start"]
    end = begin + len(answers[0]["text"])
    at, indices = window["characters"], window["context"]
    if at[indices[0]][0] > begin or at[indices[-1]][1] < end:
        return 0, 0
    return max(p for p in indices if at[p][0] <= begin), min(p for p in indices if at[p][1] >= end)


def spans_of_window(window, scores, n_best, max_answer):
    """(score, start logit, end logit, first character, end character) of all spans made of the n best starts and ends."""
    context, at = set(window["context"]), window["characters"]
    best = [numpy.argsort(-column, kind="stable")[:n_best] for column in scores.T]
    for first in best[0]:
        for last in best[1]:
            if first in context and last in context and first <= last < first + max_answer:
                yield scores[first, 0] + scores[last, 1], scores[first, 0], scores[last, 1], at[first][0], at[last][1]


def answer(context, windows, scores, no_answer, n_best=20, max_answer=30, threshold=0.0):
    """(text, n-best list, null odds or None) of a question. scores: float32 (tokens, 2) of each window."""
    none = min(((s[0, 0] + s[0, 1], s[0, 0], s[0, 1], 0, 0) for s in scores), key=lambda choice: choice[0])
    choices = [none] if no_answer else []
    for window, of_window in zip(windows, scores, strict=True):
        choices += spans_of_window(window, of_window, n_best, max_answer)
    choices = sorted(choices, key=lambda choice: -choice[0])[:n_best]
    if no_answer and none not in choices:
        choices.append(none)
    texts = [context[choice[3]:choice[4]] for choice in choices]
    logits = [(choice[0], choice[1], choice[2]) for choice in choices]
    if not any(texts):
        texts, logits = ["empty", *texts], [(0.0, 0.0, 0.0), *logits]
    weights = numpy.exp(numpy.array([score for score, _, _ in logits], numpy.float64) - max(score for score, _, _ in logits))
    listed = [{"text": text, "start_logit": float(start), "end_logit": float(end), "probability": float(weight / weights.sum())}
              for text, (_, start, end), weight in zip(texts, logits, weights, strict=True)]
    if not no_answer:
        return texts[0], listed, None
    best = next(choice for choice in listed if choice["text"])
    odds = float(none[0]) - best["start_logit"] - best["end_logit"]
    return "" if odds > threshold else best["text"], listed, odds


def answers_of(asked, windows, scores, settings):
    """{question id: (text, n-best list, null odds or None)} from the scores of all windows in order. settings: of [task]."""
    scores, found = iter(scores), {}
    for (question, context), of_row in zip(asked, windows, strict=True):
        found[question["id"]] = answer(
            context, of_row, [next(scores) for _ in of_row], settings.get("no_answer", True), settings.get("n_best", 20),
            settings.get("max_answer_tokens", 30), settings.get("null_threshold", 0.0))
    return found
