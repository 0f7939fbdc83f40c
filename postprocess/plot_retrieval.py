"""Where the rankings of an answer_ranking run have what is relevant, from predictions.h5 with labels: the rank of each query's
first relevant candidate, and how success@k, recall@k and MRR@k grow with the candidates that are looked at."""

import sys

import command  # first: it reports missing packages

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

import drawing
import predictions
import queries
import wording

EDGES = [1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000]  # last ranks of the bars
FEW = 20  # ranks; more are drawn on a logarithmic axis


def bars_of(best, most):
    """Names and heights (queries) of the bars: ranges of ranks up to `most`, then the queries without a relevant candidate."""
    names, counts, begin = [], [], 1
    for end in [*(edge for edge in EDGES if edge < most), most]:
        names.append(str(end) if end == begin else f"{begin}–{end}")
        counts.append(np.count_nonzero((best >= begin) & (best <= end)))
        begin = end + 1
    return names, counts, np.count_nonzero(np.isinf(best))


def draw_ranks(axes, found):
    names, counts, none = bars_of(found.best, int(found.candidates.max()))
    colours = [drawing.colour(0)] * len(names)
    if none:
        names, counts, colours = [*names, "none"], [*counts, none], [*colours, drawing.colour(1)]
    shares = 100 * np.array(counts) / len(found)
    axes.bar(range(len(names)), shares, color=colours, width=0.8)
    for position, (share, count) in enumerate(zip(shares, counts)):
        axes.annotate(f"{count:,}", (position, share), (0, 2), textcoords="offset points", ha="center", fontsize="small")
    long = len(names) > 6
    axes.set_xticks(range(len(names)), names, rotation=45 if long else 0, ha="right" if long else "center",
                    rotation_mode="anchor" if long else None, fontsize="small")
    axes.grid(False, axis="x")
    axes.margins(y=0.12)
    axes.set(xlabel="Rank of the first relevant candidate", ylabel="% of the queries")


def draw_curves(axes, run, found):
    most = int(found.candidates.max())
    at = np.arange(1, most + 1)
    success, chance = queries.success(found), queries.success_by_chance(run, found)
    curves = [("success@k", success, 0, "-"), ("recall@k", queries.recall(run, found), 1, "--"),
              ("MRR@k", queries.reciprocal_rank(found), 2, "-.")]
    if np.allclose(curves[1][1], success):  # one relevant candidate for each query: the same curve
        curves[:2] = [("success@k = recall@k", success, 0, "-")]
    for name, values, colour, line in curves:
        axes.plot(at, values, line, color=drawing.colour(colour), label=name, marker="o" if most <= FEW else None, markersize=4)
    axes.plot(at, chance, ":", color="#444444", linewidth=1.3, label="success@k of a random order")
    if most > FEW:
        axes.set_xscale("log")
        ticks = (1, 2, 5, 10, 20, 50, 100) if most <= 100 else (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= most]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:.0f}")
    else:
        axes.xaxis.set_major_locator(FixedLocator(at if most <= 10 else at[::2]))
    axes.set(xlabel="k: candidates from the top of the ranking", ylabel="Mean over the queries", ylim=(0, 1.03))


def draw_run(run, found, style):
    figure, (left, right) = style.subplots(1, 2, 10.5, 4.6)
    draw_ranks(left, found)
    draw_curves(right, run, found)
    kind = "queries with a relevant passage" if queries.skips_unanswerable(run) else "queries"
    details = f"{len(found):,} {kind}, MAP {found.average_precision.mean():.3f}, MRR {queries.reciprocal_rank(found)[-1]:.3f}"
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.25 * style.scale)
    drawing.legend_below(figure, 4, handles=right.get_lines())
    figure.suptitle(style.title_of(f"Rank of the first relevant passage ({predictions.split_of(run)})", [run], details))
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        found = queries.judged(run)
        if found is not None:
            name = "retrieval" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_run(run, found, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
