"""How good the answers of a question_answering run are: exact match and F1 by the length of the right answer and, where questions may
have no answer, by the null threshold. From predictions.json, null_odds.json, nbest_predictions.json and the run's shards."""

import sys

import command  # first: it reports missing packages

import numpy as np

import answers
import drawing
import predictions
import rundata
import wording

LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, None))  # words of the shortest right answer
KINDS = ("exact match", "F1")


def length_of(question):
    """Words of the shortest right answer; 0: there is none."""
    return min((len(answer.split()) for answer in question.answers), default=0)


def name_of(first, last):
    return f"{first}+" if last is None else str(first) if first == last else f"{first}–{last}"


def by_length(asked, scored):
    """(name, questions, means of KINDS) of each range of lengths that occurs. scored: (questions, 2)."""
    lengths = np.array([length_of(question) for question in asked])
    ranges = [("none", lengths == 0)]
    ranges += [(name_of(first, last), (lengths >= first) & (lengths <= (last or lengths.max()))) for first, last in LENGTHS]
    return [(name, chosen.sum(), scored[chosen].mean(axis=0)) for name, chosen in ranges if chosen.any()]


def by_threshold(asked, odds, choices):
    """Thresholds, ascending, and the means of KINDS (thresholds, 2) where a question has no answer if its odds exceed the threshold,
    else its best one that is not empty. The first threshold is below all odds: no question has an answer."""
    order = np.argsort([odds[question.id] for question in asked], kind="stable")
    answered, empty = np.zeros((len(asked), 2)), np.zeros((len(asked), 2))
    for number, question in enumerate(asked):
        best = next((choice["text"] for choice in choices[question.id] if choice["text"]), "")
        answered[number], empty[number] = answers.scores(question.answers, best), answers.scores(question.answers, "")
    gain = np.vstack([np.zeros((1, 2)), np.cumsum((answered - empty)[order], axis=0)])
    thresholds = np.array([odds[asked[number].id] for number in order])
    room = 0.02 * (thresholds[-1] - thresholds[0]) or 1.0
    thresholds, means = np.insert(thresholds, 0, thresholds[0] - room), (empty.sum(axis=0) + gain) / len(asked)
    last = np.append(thresholds[1:] != thresholds[:-1], True)  # of equal odds, all questions have an answer
    return thresholds[last], means[last]


def best_text(thresholds, means):
    """As SQuAD's evaluate-v2.0.py chooses it: of equal values the first."""
    best = int(np.argmax(means))
    return f"best {100 * means[best]:.1f} " + (f"at {thresholds[best]:.2f}" if best else "with no answer at all")


def draw_lengths(axes, ranges):
    for kind, name in enumerate(KINDS):
        positions = np.arange(len(ranges)) + (kind - 0.5) * 0.4
        axes.bar(positions, [100 * means[kind] for _, _, means in ranges], 0.4, color=drawing.colour(kind), label=name)
    for position, (_, count, means) in enumerate(ranges):
        axes.annotate(f"{count:,}", (position, 100 * means.max()), (0, 2), textcoords="offset points", ha="center", fontsize="small")
    axes.set_xticks(range(len(ranges)), [name for name, _, _ in ranges])
    axes.grid(False, axis="x")
    axes.margins(y=0.12)
    axes.set(xlabel="Words of the shortest right answer (above the bars: questions)", ylabel="%")
    axes.legend(fontsize="small")


def draw_thresholds(axes, thresholds, means, used):
    for kind, name in enumerate(KINDS):
        axes.step(thresholds, 100 * means[:, kind], where="post", color=drawing.colour(kind),
                  label=f"{name}, {best_text(thresholds, means[:, kind])}")
    axes.axvline(used, color="black", linewidth=1, linestyle="--", label=f"task.null_threshold = {used:g}")
    axes.set(xlabel="Null threshold: the answer is \"none\" if its score exceeds that of the best answer by more", ylabel="%")
    axes.legend(fontsize="small", frameon=True, facecolor="white", framealpha=0.9, edgecolor="none")


def draw_run(run, given, asked, style):
    scored = np.array([answers.scores(question.answers, given[question.id]) for question in asked])
    odds = answers.read_json(run.path / "null_odds.json")
    choices = answers.read_json(run.path / "nbest_predictions.json")
    has_odds = all(question.id in odds and question.id in choices for question in asked)
    figure, axes = style.subplots(1, 2 if has_odds else 1, 10.5 if has_odds else 6.5, 4.6)
    left = axes[0] if has_odds else axes
    draw_lengths(left, by_length(asked, scored))
    if has_odds:
        used = float(rundata.settings(run).get("task.null_threshold", 0))
        draw_thresholds(axes[1], *by_threshold(asked, odds, choices), used)
    exact, f1 = 100 * scored.mean(axis=0)
    details = f"{len(asked):,} questions, exact {exact:.2f}, F1 {f1:.2f}"
    figure.suptitle(style.title_of(f"Answers ({predictions.split_of(run)})", [run], details))
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        found = answers.of_run(run)
        if found is not None and found[1]:
            name = "answers" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_run(run, *found, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
