"""How near texts are to those that belong to them: embeddings that mode embed writes of shards of the task embedding.

  text_pairs.py RUN/embeddings          the folder of a run, or its files; the test split if there is one, else validation, else train

Rows without scores: how often an anchor's positive is the nearest of all positives and negatives of the split, or among the nearest, and the
cosines of anchors with their positives, with their own negatives and with other texts. Rows with scores: their correlation with the cosines,
and both as points. Writes the picture as PNG and PDF and the numbers as CSV into --output (default: pictures/ beside the files)."""

import argparse
import sys

import command  # first: it reports missing packages

import h5py
import numpy as np

import drawing
import embeddings
from rundata import ReportError

CUTS = (1, 5, 10, 100)
BLOCK = 1024  # anchors that are compared at once
MOST_POINTS = 5000


class Rows:
    """Texts of a split, at length 1: `first` is the anchor of each row, `second` its positive, `negatives` are other texts of rows, whose
    anchors are `anchors`. Scores of rows, or None."""

    def __init__(self, paths, split):
        self.split = split
        parts, numbers, scores = [], [], []
        for path in paths:
            try:
                with h5py.File(path, "r") as file:
                    parts.append(embeddings.rows_of(file))
                    numbers.append(file["source_index"][()])
                    if "labels" in file:
                        scores.append(file["labels"][()])
            except (OSError, KeyError) as problem:
                raise ReportError(f"Cannot read '{path}': {problem}.") from None
        texts, numbers = np.concatenate(parts), np.concatenate(numbers)
        texts = embeddings.at_length_1(texts)
        begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        counts = np.diff(begins, append=len(numbers))
        if len(begins) < 2 or counts.min() < 2:
            raise ReportError("These are no texts of rows: a row of the task embedding has two or more texts with one source_index.")
        index = np.arange(len(numbers)) - np.repeat(begins, counts)
        self.first, self.second, self.negatives = texts[begins], texts[begins + 1], texts[index > 1]
        self.anchors = np.repeat(np.arange(len(begins)), counts)[index > 1]
        self.scores = np.concatenate(scores)[begins].astype(float) if scores else None
        self.cosines = np.einsum("ij,ij->i", self.first, self.second)

    def ranks(self):
        """The rank of each anchor's positive among all candidates; an equal one comes before it."""
        candidates = np.concatenate([self.second, self.negatives])
        found = np.empty(len(self.first), int)
        for begin in range(0, len(self.first), BLOCK):
            end = min(begin + BLOCK, len(self.first))
            nearness = self.first[begin:end] @ candidates.T
            own = nearness[np.arange(end - begin), np.arange(begin, end)]
            found[begin:end] = (nearness >= own[:, None]).sum(axis=1)
        return found


def spearman(x, y):
    def ranked(values):
        order = np.sort(values)
        return (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right")) / 2

    return np.corrcoef(ranked(x), ranked(y))[0, 1]


def numbers_of(rows):
    """Name → number."""
    if rows.scores is not None:
        return {"rows": len(rows.first), "pearson": np.corrcoef(rows.scores, rows.cosines)[0, 1], "spearman": spearman(rows.scores, rows.cosines)}
    ranks, candidates = rows.ranks(), len(rows.second) + len(rows.negatives)
    found = {"rows": len(rows.first), "candidates": candidates}
    found |= {f"recall_at_{cut}": np.mean(ranks <= cut) for cut in CUTS if cut < candidates}
    return found | {"mrr_at_10": np.mean(np.where(ranks <= 10, 1 / ranks, 0))}


def draw_cosines(rows, numbers, style):
    figure, axes = style.subplots(1, 1, 7, 4.2)
    others = np.einsum("ij,ij->i", rows.first, np.roll(rows.second, 1, axis=0))
    kinds = [("its positive", rows.cosines, "-"), ("the positive of another row", others, "--")]
    if len(rows.negatives):
        kinds.append(("its negative", np.einsum("ij,ij->i", rows.first[rows.anchors], rows.negatives), ":"))
    values = np.concatenate([kind[1] for kind in kinds])
    edges = np.linspace(values.min(), max(values.max(), values.min() + 1e-6), 61)
    for number, (name, cosines, line) in enumerate(kinds):
        weights, colour = np.full(len(cosines), 100 / len(cosines)), drawing.colour(number)
        axes.hist(cosines, edges, weights=weights, histtype="stepfilled", color=colour, alpha=0.25)
        axes.hist(cosines, edges, weights=weights, histtype="step", color=colour, linestyle=line, linewidth=1.6)
        axes.plot([], [], color=colour, linestyle=line, label=drawing.minus(f"{name} (mean {cosines.mean():.3f})"))
    axes.set(xlabel="Cosine of an anchor and another text", ylabel="% of the pairs")
    drawing.legend_below(figure, len(kinds), handles=axes.get_lines())
    if style.title != "":
        figure.suptitle(f"{style.title or f'Anchors and other texts ({rows.split})'}\n{numbers['rows']:,} rows; the positive is the nearest of "
                        f"{numbers['candidates']:,} candidates in {100 * numbers['recall_at_1']:.1f}%")
    return figure


def draw_scores(rows, numbers, style):
    figure, axes = style.subplots(1, 1, 6, 4.6)
    shown = slice(None, None, max(1, len(rows.scores) // MOST_POINTS))
    axes.plot(rows.scores[shown], rows.cosines[shown], "o", color=drawing.colour(0), markersize=3.5, alpha=0.4, markeredgewidth=0)
    axes.set(xlabel=style.label_name or "Score", ylabel="Cosine of the two texts")
    if style.title != "":
        figure.suptitle(f"{style.title or f'Scores and cosines ({rows.split})'}\n"
                        f"{numbers['rows']:,} rows; Spearman {drawing.minus(format(numbers['spearman'], '.3f'))}")
    return figure


def draw(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", nargs="+", metavar="EMBEDDINGS", help="RUN/embeddings, or its .h5 files")
    parser.add_argument("--split", choices=sorted(embeddings.SPLITS), help="default: test if there is one, else validation, else train")
    parser.add_argument("--output", metavar="DIR", help="where the picture and the numbers go (default: pictures/ beside the files)")
    command.add_style(parser)
    options = parser.parse_args(given)
    style = command.style_of(options)
    paths, split = embeddings.files_of(options.embeddings, options.split)
    rows = Rows(paths, split)
    numbers = numbers_of(rows)
    for name, number in numbers.items():
        print(f"{name:14} {number:,}" if isinstance(number, int) else f"{name:14} {number:.4f}")
    output = command.make_output(options.output or paths[0].parent / "pictures", [])
    with style.fonts():
        figure = draw_cosines(rows, numbers, style) if rows.scores is None else draw_scores(rows, numbers, style)
        print(*drawing.save(figure, f"pairs-{split}", output), sep="\n")
    path = output / f"pairs-{split}.csv"
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in zip(*numbers.items())))
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(draw))
