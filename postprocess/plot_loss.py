"""Loss against steps: training (each row faint; bold: smoothed, without rows of less than half a batch) and every
evaluated split. Runs with different kinds of loss are in separate pictures."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import rundata
import smoothing

KINDS = {"classification": "cross-entropy", "regression": "mean squared error", "masked_lm": "cross-entropy per masked token",
         "masked_lm_pairs": "cross-entropy per masked token and per pair",
         "causal_lm": "cross-entropy per token", "token_classification": "cross-entropy per token",
         "multi_label": "binary cross-entropy", "question_answering": "cross-entropy of start and end",
         "answer_ranking": "cross-entropy"}


def kind_of(run):
    """The kind of the run's loss; None for an unknown task."""
    kind = KINDS.get(run.task, "")
    if "task.range" in rundata.settings(run):
        return kind + " of labels scaled to 0 … 1"
    return kind + (" of standardized labels" if "label_deviation" in run.attributes else "")


def loss_label(runs):
    kind = kind_of(runs[0])
    return f"Loss ({kind})" if kind else "Loss"


def draw_training(axes, run, look, several, style):
    smoothed = " (smoothed)" if smoothing.smooths(len(run.steps["step"])) else ""
    if not several:
        look = look._replace(colour=drawing.role("training")[0])
    drawing.draw_rows(axes, run, "loss", look, f"{run.name}: training" if several else "training" + smoothed, style)


def draw_evaluations(axes, run, look, several, styles, many, style):
    for split in rundata.in_order(run.evaluations):
        columns = run.evaluations[split]
        if len(columns["step"]) == 0 or (len(columns["step"]) == 1 and len(run.steps["step"]) == 0):
            continue
        colour = look.colour if several else drawing.role(split, styles)[0]
        name = f"{run.name}: {split}" if several else split
        line = styles[split]
        if len(columns["step"]) > 1 and (many or not several):
            line = line | {"linestyle": look.line}
        axes.plot(drawing.x_of(run, columns["step"], style), columns["loss"], color=colour, linewidth=look.width, markersize=max(5, 3.2 + look.width),
                  markerfacecolor="white", label=name, **line)


def coincide(one, other):
    """Whether the curves of two runs look the same, as those of one training in several layouts."""
    return (np.array_equal(one.steps["step"], other.steps["step"])
            and np.allclose(one.steps["loss"], other.steps["loss"], rtol=1e-3, atol=0, equal_nan=True))


def nested(runs, looks):
    """Looks in which each of several curves that coincide is seen: it is wider than those drawn later."""
    groups = []
    for run in runs:
        group = next((group for group in groups if coincide(group[0], run)), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    step = min(2.0, 9.0 / max(map(len, groups)))
    return {run.name: looks[run.name]._replace(width=looks[run.name].width + step * behind)
            for group in groups for behind, run in enumerate(reversed(group))}


def limit(axes, runs):
    """Fits the scale to the smoothed curves, so that a single outlier batch does not flatten everything."""
    tops, bottoms = [], []
    for run in runs:
        loss = run.steps["loss"]
        curves = [smoothing.curve(run, "loss")[1]] + [columns["loss"] for columns in run.evaluations.values()]
        for values in curves:
            values = np.asarray(values)[np.isfinite(values)]
            if len(values):
                tops.append(values.max())
                bottoms.append(values.min())
        if len(loss) and np.isfinite(loss).any():
            finite = loss[np.isfinite(loss)]
            share = 0.5 if len(loss) >= 50 else 0  # show all of few rows
            bottoms.append(np.percentile(finite, share))
            tops.append(np.percentile(finite, 100 - share))
    if tops and max(tops) > min(bottoms):
        room = 0.06 * (max(tops) - min(bottoms))
        axes.set_ylim(max(0.0, min(bottoms) - room), max(tops) + room)


def draw_kind(runs, looks, style):
    """Draws the runs with one kind of loss."""
    figure, axes = style.subplots(1, 1, 8, 4.8)
    shown = [looks[run.name] for run in runs]
    many = drawing.are_many(shown)
    styles = drawing.split_styles(runs, many)
    looks, usual = nested(runs, looks), looks
    name = "Loss" if looks.items() <= usual.items() else "Loss (equal curves are nested)"
    for run in sorted(runs, key=lambda run: -looks[run.name].width):  # wide ones behind all others
        draw_training(axes, run, looks[run.name], len(runs) > 1, style)
        draw_evaluations(axes, run, looks[run.name], len(runs) > 1, styles, many, style)
    limit(axes, runs)
    drawing.whole_steps(axes, style)
    axes.set(xlabel=drawing.x_label(style), ylabel=loss_label(runs), title=style.title_of(name, runs))
    drawing.add_epochs(axes, runs, style)
    if len(runs) > 1:
        drawing.shared_legend(figure, shown, {"training": {"linestyle": "-"}} | drawing.light_style([axes]) | styles)
    else:
        axes.legend()
    return figure


def draw(runs, style=drawing.USUAL):
    looks = drawing.looks(runs)
    kinds = {}
    for run in runs:
        if np.isfinite(np.asarray(run.steps["loss"], dtype=float)).any():
            kinds.setdefault(kind_of(run), []).append(run)
    for members in kinds.values():
        yield "loss" if len(kinds) == 1 else f"loss-{members[0].task or 'other'}", draw_kind(members, looks, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
