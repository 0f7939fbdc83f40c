"""How each rank spent the steps' time: computing, exposed communication, waiting, and the rest, in per cent."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import wording

PARTS = [("computing", "computing"), ("communicating", "exposed communication"), ("waiting", "waiting (pipeline or data)")]
MOST = 64  # maximum number of distinguishable bars, over all runs


def steps_seconds(run):
    """The total that the ranks' times refer to. For a resumed run they are those of the last start, but its rows cover
    all starts."""
    computing, share = (np.asarray(run.ranks.get(name, []), dtype=float) for name in ("computing", "utilisation"))
    known = np.isfinite(share) & (share > 0) if len(share) == len(computing) else np.array([], dtype=bool)
    if known.any():
        return float(np.median(computing[known] / share[known]))
    return 0.0 if run.went_on else float(np.sum(run.steps["seconds"]))


def parts_of(run, ranks):
    """{label: per cent of the steps' time of each rank}. A single rank does not communicate: the time of that section
    counts as other work."""
    total = steps_seconds(run)
    parts = {label: 100 * np.asarray(run.ranks[name], dtype=float)[ranks] / total for name, label in PARTS
             if name != "communicating" or run.rank_count > 1}
    return parts | {"other": np.maximum(0, 100 - sum(parts.values()))}


def shown_ranks(run, most):
    count = run.rank_count
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(int))


def labels_of(run, ranks, alone):
    """Names of the bars: the rank; with several runs, also the run's name at its first rank."""
    if alone:
        return [str(rank) for rank in ranks]
    name = wording.shortened(run.name, 40)
    return [name] if run.rank_count == 1 else [f"{name}   {ranks[0]}", *(str(rank) for rank in ranks[1:])]


def note_on(runs, shown, count):
    """A note for the title about omitted ranks."""
    if count > len(runs):
        return f" (the first {len(runs)} of {count} runs)"
    if all(len(ranks) == run.rank_count for run, ranks in zip(runs, shown)):
        return ""
    return f" ({len(shown[0])} of {runs[0].rank_count} ranks)" if count == 1 else f" (up to {max(map(len, shown))} ranks of each)"


def draw_bars(axes, runs, shown):
    """Draws all ranks below each other, runs separated; returns the parts' bars by label."""
    colours = dict(zip([label for _, label in PARTS], drawing.COLOURS)) | {"other": "0.85"}
    spacing = 1.6 if max(map(len, shown)) > 1 else 1.0
    positions, labels, used = [], [], {}
    for run, ranks in zip(runs, shown):
        at, left = (positions[-1] + spacing if positions else 0) + np.arange(len(ranks)), np.zeros(len(ranks))
        for label, share in parts_of(run, ranks).items():
            used[label] = axes.barh(at, share, left=left, height=0.8, color=colours[label])
            left += share
        positions += list(at)
        labels += labels_of(run, ranks, len(runs) == 1)
    axes.set_yticks(positions, labels, fontsize="small" if len(positions) <= 32 else "x-small")
    axes.set_ylim(positions[-1] + 0.6, -0.6)
    axes.set_xlim(0, 100)
    axes.grid(False, axis="y")
    return {label: used[label] for label in colours if label in used}


def draw(runs, style=drawing.USUAL):
    runs = [run for run in runs if np.sum(run.ranks.get("computing", [0])) > 0 and steps_seconds(run) > 0]
    if not runs:
        return []
    count, runs = len(runs), runs[:MOST]
    shown = [shown_ranks(run, MOST // len(runs)) for run in runs]
    bars = sum(map(len, shown))
    height = 0.3 if bars <= 16 else 0.24 if bars <= 32 else 0.17
    figure, axes = style.bars(1, 1, 8.5, 2.6 + height * bars)
    parts = draw_bars(axes, runs, shown)
    title = "Time of the ranks" + note_on(runs, shown, count)
    axes.set(xlabel="% of the time in steps", ylabel="Rank" if len(runs) == 1 else "Run, rank", title=style.title_of(title, runs))
    drawing.legend_below(figure, 4, handles=list(parts.values()), labels=list(parts))
    return [("ranks", figure)]


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
