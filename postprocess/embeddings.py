"""Pictures of the embeddings that mode embed writes, by label: the two main components (PCA), t-SNE, and how similar rows with the same
label are beside rows with different labels.

  embeddings.py RUN/embeddings          the folder of a run, or its files; the test split if there is one, else validation, else train

Embeddings of tokens are averaged for each text. Many rows are drawn by lot, the same ones each time. Writes each picture as PNG and PDF into
--output (default: pictures/ beside the files). t-SNE needs scikit-learn, which jobs/setup.sh --studies installs."""

import argparse
import json
import pathlib
import sys

import command  # first: it reports missing packages

import h5py
import numpy as np

import drawing
import reading
from rundata import ReportError

SCHEMA = "bert_hpc-embeddings-1"
SPLITS = ("test", "validation", "train")  # the first that there is
FEWEST_ROWS = 10
MOST_LABELS = 12  # in a legend; the least frequent are one
MOST_PAIRS = 200_000
QUARTERS = 4  # of labels that are numbers, where pairs need the same label
BLOCK = 1 << 16  # rows of tokens that are read at once


def files_of(given, split):
    """The files of one split, and its name. Raises ReportError if there are none."""
    paths = []
    for argument in given:
        path = pathlib.Path(argument)
        inner = path / "embeddings"
        paths += sorted((inner if inner.is_dir() else path).glob("*-*.h5")) if path.is_dir() else [path]
    found = {}
    for path in paths:
        found.setdefault(path.name.rpartition("-")[0], []).append(path)
    names = [split] if split else [name for name in SPLITS if name in found] or list(found)
    if not names or names[0] not in found:
        there = f"; there is {', '.join(sorted(found))}" if found else ""
        raise ReportError(f"There are no embeddings{f' of the split {split!r}' if split else ''} in {', '.join(map(str, given))}{there}.")
    return found[names[0]], names[0]


def decoded(values, kind, scales):
    """Rows as float32, from the type in the file (input/README.md, "Embeddings")."""
    if kind == "fp16":
        return values.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values * scales[:, None] if kind == "int8" else values


def rows_of(file):
    """A row for each text; of tokens the mean of the text's rows."""
    data, kind = file["embeddings"], reading.plain(file["embeddings"].attrs["type"])

    def read(begin, end):
        return decoded(data[begin:end], kind, file["scales"][begin:end] if kind == "int8" else None)

    if "offsets" not in file:
        return read(0, len(data))
    offsets = file["offsets"][()]
    rows = np.empty((len(offsets) - 1, data.shape[1]), np.float32)
    first = 0
    while first < len(rows):  # as many texts as a block of tokens holds, at least one
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, side="right")) - 1)
        part = read(offsets[first], offsets[last])
        rows[first:last] = np.add.reduceat(part, offsets[first:last] - offsets[first]) / np.diff(offsets[first:last + 1])[:, None]
        first = last
    return rows


def at_length_1(rows):
    """Rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


class Embedded:
    """Rows of a split with their labels. `groups` are numbers of `names`: of labels, or of quarters of labels that are numbers, which are
    in `values` then."""

    def __init__(self, paths, split):
        self.split, self.of_tokens, self.names, self.values = split, False, [], None
        rows, labels = [], []
        for path in paths:
            try:
                with h5py.File(path, "r") as file:
                    if reading.plain(file.attrs.get("schema", "")) != SCHEMA:
                        raise ReportError(f"'{path}' is no file of mode embed.")
                    if "labels" not in file:
                        raise ReportError(f"'{path}' has no labels, and the pictures are by label. Mode embed copies those of its shards.")
                    self.names = json.loads(reading.plain(file.attrs.get("label_names", "[]")))
                    self.of_tokens = "offsets" in file
                    rows.append(rows_of(file))
                    labels.append(file["labels"][()])
            except (OSError, KeyError) as problem:
                raise ReportError(f"Cannot read '{path}': {problem}.") from None
        if len({part.shape[1] for part in rows}) > 1:
            raise ReportError("The files have embeddings of different widths.")
        self.rows, labels = np.concatenate(rows), np.concatenate(labels)
        self.set_labels(labels)
        self.keep(self.groups >= 0)
        if len(self.rows) < FEWEST_ROWS:
            raise ReportError(f"{len(self.rows)} rows with labels are too few: {FEWEST_ROWS} are needed.")
        if len(np.unique(self.groups)) < 2:
            raise ReportError(f"All rows have the label {self.names[self.groups[0]]!r}; pictures by label need two or more labels.")

    def set_labels(self, labels):
        if labels.ndim == 2 and labels.dtype.kind == "f":  # several label columns: the last one, usually the overall score
            labels = labels[:, -1]
        if labels.ndim == 2:  # sets of names
            several, none = len(self.names), len(self.names) + 1
            counts = labels.sum(axis=1)
            self.groups = np.where(counts == 1, labels.argmax(axis=1), np.where(counts == 0, none, several))
            self.names = [*self.names, "several labels", "no label"]
        elif np.issubdtype(labels.dtype, np.integer):
            self.groups = labels.astype(int)
            self.names += [str(i) for i in range(len(self.names), labels.max(initial=-1) + 1)]
        else:
            known = np.isfinite(labels)
            edges = np.quantile(labels[known], np.arange(1, QUARTERS) / QUARTERS) if known.any() else []
            self.values, self.groups = labels, np.where(known, np.searchsorted(edges, labels, side="right"), -1)
            self.names = [f"quarter {i + 1}" for i in range(QUARTERS)]

    def keep(self, chosen):
        self.rows, self.groups = self.rows[chosen], self.groups[chosen]
        if self.values is not None:
            self.values = self.values[chosen]

    def draw_by_lot(self, most):
        """Keeps `most` rows, or all of fewer. Returns how many there were."""
        count = len(self.rows)
        if count > most:
            self.keep(np.sort(np.random.default_rng(1).choice(count, most, replace=False)))
        return count

    def units(self):
        return at_length_1(self.rows)


def principal(rows):
    """Coordinates on the two main components (rows, 2), and the shares of the variance that they have."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    axes = vectors[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])])  # the same signs in each call
    at = centred @ axes
    if at.shape[1] < 2:
        at = np.column_stack([at, np.zeros(len(at))])
    return at, np.append(values[::-1], 0)[:2] / max(values.sum(), 1e-30)


def neighbours(rows):
    """(rows, 2) by t-SNE, or None without scikit-learn."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        print("There is no t-SNE: the package scikit-learn is missing (jobs/setup.sh --studies).", file=sys.stderr)
        return None
    perplexity = min(30.0, (len(rows) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=1).fit_transform(rows)


def nearest_share(found):
    """Share of the rows whose most similar other row has the same label."""
    units = found.units()
    same = 0
    for begin in range(0, len(units), 1024):
        part = units[begin:begin + 1024] @ units.T
        part[np.arange(len(part)), np.arange(begin, begin + len(part))] = -np.inf
        same += np.sum(found.groups[part.argmax(axis=1)] == found.groups[begin:begin + len(part)])
    return same / len(units)


def similarities(found):
    """Cosines of pairs drawn by lot: with the same label, with different ones."""
    generator, units = np.random.default_rng(2), found.units()
    count = len(units)
    if count * (count - 1) // 2 <= MOST_PAIRS:
        first, second = np.triu_indices(count, 1)
    else:
        first = generator.integers(0, count, MOST_PAIRS)
        second = (first + generator.integers(1, count, MOST_PAIRS)) % count
    cosines = np.einsum("ij,ij->i", units[first], units[second])
    same = found.groups[first] == found.groups[second]
    return cosines[same], cosines[~same]


def more_similar(same, other):
    """Probability that a pair with the same label is more similar than one with different labels (the area under the ROC curve)."""
    order = np.sort(other)
    below, up_to = (np.searchsorted(order, same, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(other))


def draw_points(found, at, labels, title, details, style):
    figure, axes = style.subplots(1, 1, 7, 5.2)
    size = 4.5 if len(at) <= 1000 else 3.2
    if found.values is not None:
        points = axes.scatter(at[:, 0], at[:, 1], c=found.values, s=size**2, alpha=0.75, linewidths=0, cmap="viridis")
        figure.colorbar(points, ax=axes, label=style.label_name or "Label")
    else:
        order = np.argsort(-np.bincount(found.groups, minlength=len(found.names)), kind="stable")
        order = [group for group in order if np.any(found.groups == group)]
        shown = order if len(order) <= MOST_LABELS else order[:MOST_LABELS - 1]
        for group, colour in zip(shown, drawing.palette(len(shown))):
            own = found.groups == group
            axes.plot(*at[own].T, "o", color=colour, markersize=size, alpha=0.65, markeredgewidth=0,
                      label=f"{drawing.shortened(found.names[group], 24)} ({np.sum(own):,})")
        rest = ~np.isin(found.groups, shown)
        if rest.any():
            axes.plot(*at[rest].T, "o", color="#BBBBBB", markersize=size, alpha=0.5, markeredgewidth=0, zorder=1,
                      label=f"{len(order) - len(shown)} other labels ({np.sum(rest):,})")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small", markerscale=7 / size)
    axes.set(**labels)
    if style.title != "":
        figure.suptitle(f"{style.title or title}\n{details}")
    return figure


def draw_similarity(found, details, style):
    same, other = similarities(found)
    if len(same) == 0:
        print("There is no picture of similarities: no two rows have the same label.", file=sys.stderr)
        return None
    figure, axes = style.subplots(1, 1, 7, 4.2)
    edges = np.linspace(min(same.min(), other.min()), max(same.max(), other.max(), same.min() + 1e-6), 61)
    kinds = ("the same quarter of the labels", "different quarters") if found.values is not None else ("the same label", "different labels")
    for values, kind, colour, line in zip((other, same), kinds[::-1], (drawing.colour(1), drawing.colour(0)), ("--", "-")):
        weights = np.full(len(values), 100 / len(values))
        axes.hist(values, edges, weights=weights, histtype="stepfilled", color=colour, alpha=0.25)
        axes.hist(values, edges, weights=weights, histtype="step", color=colour, linestyle=line, linewidth=1.6)
        axes.plot([], [], color=colour, linestyle=line, label=drawing.minus(f"{kind} (mean {values.mean():.3f}, {len(values):,} pairs)"))
    axes.set(xlabel="Cosine similarity of two rows", ylabel="% of the pairs")
    drawing.legend_below(figure, 2, handles=axes.get_lines())
    if style.title != "":
        figure.suptitle(f"{style.title or f'Similarity of embeddings ({found.split})'}\n{details}; "
                        f"a pair with the same label is the more similar one with probability {more_similar(same, other):.3f}")
    return figure


def pictures(found, count, style=drawing.USUAL):
    drawn = f"{len(found.rows):,} of {count:,} rows" if len(found.rows) < count else f"{count:,} rows"
    details = f"{drawn}, {found.rows.shape[1]} columns" + (", the mean of tokens" if found.of_tokens else "")
    at, shares = principal(found.rows)
    labels = {"xlabel": f"Component 1 ({100 * shares[0]:.1f}% of the variance)", "ylabel": f"Component 2 ({100 * shares[1]:.1f}%)"}
    yield "pca", draw_points(found, at, labels, f"Main components of embeddings ({found.split})", details, style)
    at = neighbours(found.rows)
    if at is not None:
        nearest = ""
        if found.values is None:
            largest = np.bincount(found.groups).max() / len(found.groups)
            nearest = f"; the nearest row has the same label in {100 * nearest_share(found):.1f}% (largest label: {100 * largest:.1f}%)"
        yield "tsne", draw_points(found, at, {"xticks": [], "yticks": []}, f"t-SNE of embeddings ({found.split})", details + nearest, style)
    figure = draw_similarity(found, details, style)
    if figure is not None:
        yield "similarity", figure


def draw(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", nargs="+", metavar="EMBEDDINGS", help="RUN/embeddings, or its .h5 files")
    parser.add_argument("--split", choices=sorted(SPLITS), help="default: test if there is one, else validation, else train")
    parser.add_argument("--most", type=int, default=2000, metavar="N", help="rows that are drawn (default: 2000)")
    parser.add_argument("--output", metavar="DIR", help="where the pictures go (default: pictures/ beside the files)")
    command.add_style(parser)
    options = parser.parse_args(given)
    if options.most < FEWEST_ROWS:
        parser.error(f"--most {options.most}: at least {FEWEST_ROWS}")
    style = command.style_of(options)
    paths, split = files_of(options.embeddings, options.split)
    found = Embedded(paths, split)
    if found.of_tokens:
        print("Embeddings of tokens: each text is the mean of its tokens.")
    count = found.draw_by_lot(options.most)
    output = command.make_output(options.output or paths[0].parent / "pictures", [])
    with style.fonts():
        for name, figure in pictures(found, count, style):
            print(*drawing.save(figure, f"{name}-{split}", output), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(draw))
