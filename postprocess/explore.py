"""Pictures of data before a training: of shards, and of the table that they were made of.

  explore.py SHARDS                     a folder of bert_hpc_prep, or shards: lengths in tokens and the share that was cut off, labels,
                                        label names that occur together, the most frequent tokens
  explore.py SHARDS --table FILE.csv    also of its rows: --label NAME the distribution of a number, --category NAME its box plots,
                                        lengths in words against it coloured by category, how numbers of the table go together, and
                                        a word cloud of --text NAME and of --comment NAME

Writes each picture as PNG and PDF into --output (default: explore/ beside the shards). Word clouds need the package wordcloud."""

import argparse
import collections
import json
import pathlib
import sys

import command  # first: it reports missing packages

import h5py
import numpy as np

import drawing
import reading
import source_rows
from rundata import ReportError

MOST_CLASSES = 40  # bars of a picture; the others are one
MOST_TOKENS = 30
MOST_POINTS = 20000  # of a scatter plot
FEWEST_WORDS = 20  # of a word cloud


def shard_paths(given):
    """The shards of files and folders, by split; raises ReportError where there are none."""
    paths = []
    for argument in given:
        path = pathlib.Path(argument)
        paths += sorted(path.glob("*.h5")) if path.is_dir() else [path]
    if not paths:
        raise ReportError(f"There are no shards in {', '.join(map(str, given))}.")
    return paths


class Shards:
    """What the pictures need of shards: lengths, labels, tokens, of all files together."""

    def __init__(self, paths):
        lengths, labels, counts = [], [], collections.Counter()
        self.task, self.names, self.label, self.max_tokens = "", [], "label", 0
        for path in paths:
            try:
                with h5py.File(path, "r") as file:
                    attributes = {name: reading.plain(value) for name, value in file.attrs.items()}
                    if attributes.get("schema") != "bert_hpc shard 2":
                        raise ReportError(f"'{path}' is no shard of bert_hpc_prep.")
                    self.task = attributes.get("task", "")
                    self.names = json.loads(attributes.get("label_names") or "[]")
                    self.label = attributes.get("label_column") or self.label
                    self.max_tokens = int(json.loads(attributes.get("tokenizer") or "{}").get("max_tokens", 0))
                    lengths.append(np.diff(file["offsets"][()]))
                    if "labels" in file:
                        labels.append(file["labels"][()])
                    ids, times = np.unique(file["input_ids"][()], return_counts=True)
                    counts.update(dict(zip(ids.tolist(), times.tolist())))
            except OSError as problem:
                raise ReportError(f"Cannot read '{path}': {problem}.") from None
        self.lengths = np.concatenate(lengths)
        self.labels = np.concatenate(labels) if labels else None
        self.counts = counts
        self.vocabulary = self.words_of(paths[0].parent / "vocab.txt")

    @staticmethod
    def words_of(path):
        return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def draw_lengths(shards, style):
    figure, axes = style.subplots(1, 1, 7, 4)
    drawing.draw_histogram(axes, shards.lengths, shards.lengths.mean(), f"mean {shards.lengths.mean():.1f}")
    cut = np.mean(shards.lengths >= shards.max_tokens) if shards.max_tokens else 0.0
    if shards.max_tokens:
        axes.axvline(shards.max_tokens, color=drawing.colour(1), linestyle="--", linewidth=1.2,
                     label=f"the most tokens, {shards.max_tokens}: {100 * cut:.1f}% reach them")
    axes.set(xlabel="Tokens of a sequence, special tokens included", ylabel="Sequences")
    axes.legend()
    figure.suptitle(f"Lengths of {len(shards.lengths):,} sequences")
    return figure


def draw_bars(names, counts, xlabel, title, style):
    """Horizontal bars, the largest first; what is not shown is one bar."""
    order = np.argsort(counts)[::-1]
    shown = [(names[i], counts[i]) for i in order[:MOST_CLASSES]]
    if len(order) > MOST_CLASSES:
        shown.append((f"{len(order) - MOST_CLASSES} others", sum(counts[i] for i in order[MOST_CLASSES:])))
    figure, axes = style.bars(1, 1, 7, 1.2 + 0.28 * len(shown))
    axes.barh(range(len(shown)), [count for _, count in shown], color=drawing.colour(0))
    axes.set_yticks(range(len(shown)), [drawing.shortened(str(name), 40) for name, _ in shown])
    axes.invert_yaxis()
    axes.set(xlabel=xlabel)
    axes.grid(axis="y", visible=False)
    figure.suptitle(title)
    return figure


def draw_labels(shards, style):
    """Bars of classes, words or names; a histogram of numbers, of each label column."""
    labels = shards.labels
    if shards.task == "regression" and labels.ndim > 1:
        return draw_columns(labels.astype(float), shards.names, style)
    if shards.task == "multi_label":
        return draw_bars(shards.names, labels.sum(axis=0).astype(int), "Rows", f"Label names of {len(labels):,} rows", style)
    labels = np.ravel(labels)
    if np.issubdtype(labels.dtype, np.integer) and shards.names:
        known = labels[(labels >= 0) & (labels < len(shards.names))]
        return draw_bars(shards.names, np.bincount(known, minlength=len(shards.names)), "Rows", f"Labels of {len(known):,} rows", style)
    known = labels[np.isfinite(labels.astype(float))].astype(float)
    return draw_numbers(known, shards.label, style)


def draw_columns(labels, names, style):
    """The known numbers of each label column, one below the other."""
    figure, all_axes = style.subplots(len(names), 1, 7, 3 * len(names))
    for name, axes, column in zip(names, np.ravel(all_axes), labels.T):
        known = column[np.isfinite(column)]
        if len(known) > 0:
            fill_numbers(axes, known, name)
    figure.suptitle(f"Labels of {len(labels):,} rows")
    return figure


def draw_numbers(values, name, style):
    figure, axes = style.subplots(1, 1, 7, 4)
    fill_numbers(axes, values, name)
    figure.suptitle(f"{name} of {len(values):,} rows")
    return figure


def fill_numbers(axes, values, name):
    different = np.unique(values)
    if len(different) <= MOST_CLASSES:  # levels: a bar each
        spacing = np.diff(different).min() if len(different) > 1 else 1.0
        axes.bar(different, [np.sum(values == value) for value in different], width=0.8 * spacing, color=drawing.colour(0))
    else:
        drawing.draw_histogram(axes, values, values.mean(), f"mean {values.mean():.3g}")
    axes.axvline(values.mean(), color=drawing.colour(1), linestyle="--", linewidth=1.2, label=f"mean {values.mean():.3g}, deviation {values.std():.3g}")
    axes.set(xlabel=name, ylabel="Rows")
    axes.legend()


def draw_matrix(values, names, bar, title, style, limits):
    figure, axes = style.subplots(1, 1, 2.5 + 0.5 * len(names), 2 + 0.5 * len(names))
    image = axes.imshow(values, cmap="RdBu_r" if limits[0] < 0 else "Blues", vmin=limits[0], vmax=limits[1])
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.grid(visible=False)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if np.isfinite(value):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize="small", color="white" if abs(value) > 0.6 else "black")
    figure.colorbar(image, ax=axes, shrink=0.8, label=bar)
    figure.suptitle(title)
    return figure


def draw_together(shards, style):
    """Of the rows with one name, the share that has another."""
    sets = shards.labels.astype(float)
    order = np.argsort(sets.sum(axis=0))[::-1][:20]
    order = [i for i in order if sets[:, i].sum() > 0]
    both = sets[:, order].T @ sets[:, order]
    return draw_matrix(both / np.diag(both)[:, None], [shards.names[i] for i in order], "Share of the rows with the left name", "Label names together", style, (0, 1))


def draw_tokens(shards, style):
    special = {"[CLS]", "[SEP]", "[PAD]", "[MASK]"}
    words = [(shards.vocabulary[token] if token < len(shards.vocabulary) else str(token), times) for token, times in shards.counts.most_common(MOST_TOKENS + 5)]
    words = [entry for entry in words if entry[0] not in special][:MOST_TOKENS]
    return draw_bars([word for word, _ in words], [times for _, times in words], "Occurrences", f"The most frequent of {len(shards.counts):,} tokens", style)


def draw_shards(paths, style=drawing.USUAL):
    shards = Shards(paths)
    yield "lengths", draw_lengths(shards, style)
    if shards.labels is not None and shards.task not in ("question_answering", "masked_lm"):
        yield "labels", draw_labels(shards, style)
        if shards.task == "multi_label":
            yield "together", draw_together(shards, style)
    yield "tokens", draw_tokens(shards, style)


# --- The table that shards were made of.


def number_of(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return float("nan")


def table_of(path):
    """The rows of a CSV or TSV file with a header, as bert_hpc_prep reads them."""
    try:
        rows = list(source_rows.rows_of(path, source_rows.form_of(path)))[1:]
    except ValueError as problem:
        raise ReportError(f"Cannot read '{path}': {problem}.") from None
    if not rows:
        raise ReportError(f"'{path}' has no rows.")
    return rows


def column(rows, name, path):
    if name not in rows[0]:
        raise ReportError(f"'{path}' has no column {name!r}; it has {', '.join(map(repr, rows[0]))}.")
    return [row[name] or "" for row in rows]


def draw_length_against(words, values, categories, name, category, style):
    figure, axes = style.subplots(1, 1, 7, 4.5)
    kinds = sorted(set(categories))
    for i, kind in enumerate(kinds):
        own = np.array([c == kind for c in categories]) & np.isfinite(values)
        at = np.flatnonzero(own)[:: max(1, int(own.sum()) * len(kinds) // MOST_POINTS)]
        axes.plot(words[at], values[at], "o", markersize=4, alpha=0.45, markeredgewidth=0, color=drawing.colour(i), label=kind or "all rows")
    axes.set(xlabel="Words of a text", ylabel=name)
    if len(kinds) > 1:
        axes.legend(title=category)
    figure.suptitle(f"Length and {name}")
    return figure


def draw_boxes(values, categories, name, category, style):
    kinds = sorted(kind for kind, _ in collections.Counter(categories).most_common(12))
    figure, axes = style.subplots(1, 1, 2.5 + 0.9 * len(kinds), 4.5)
    own = [values[np.array([c == kind for c in categories]) & np.isfinite(values)] for kind in kinds]
    axes.boxplot(own, medianprops={"color": drawing.colour(1)})
    axes.set_xticks(range(1, len(kinds) + 1), [f"{kind}\n{len(part):,} rows" for kind, part in zip(kinds, own)])
    axes.set(xlabel=category, ylabel=name)
    figure.suptitle(f"{name} by {category}")
    return figure


def numbers_of(rows, words):
    """{column: values} of the columns whose cells are numbers, and the words of the text."""
    found = {name: np.array([number_of(row[name]) for row in rows]) for name in rows[0] if name}
    found = {name: values for name, values in found.items() if np.isfinite(values).mean() > 0.5 and np.nanstd(values) > 0}
    return {**found, "words": words}


def draw_correlations(numbers, style):
    names = list(numbers)
    known = np.array([numbers[name] for name in names])
    known = known[:, np.isfinite(known).all(axis=0)]
    return draw_matrix(np.atleast_2d(np.corrcoef(known)), names, "Correlation", "How the table's numbers go together", style, (-1, 1))


def draw_cloud(texts, title, style):
    """None where there are too few words, or without the library."""
    try:
        from wordcloud import WordCloud
    except ImportError:
        print("There is no word cloud: the package wordcloud is missing.", file=sys.stderr)
        return None
    counts = WordCloud(collocations=False).process_text(" ".join(texts))
    if len(counts) < FEWEST_WORDS:
        return None
    figure, axes = style.subplots(1, 1, 8, 4.2)
    axes.imshow(WordCloud(width=1600, height=800, background_color="white", random_state=1, colormap="viridis").generate_from_frequencies(counts))
    axes.set_axis_off()
    figure.suptitle(title)
    return figure


def draw_table(path, text, label, category="", comment="", style=drawing.USUAL):
    rows = table_of(path)
    texts = column(rows, text, path)
    words = np.array([len(cell.split()) for cell in texts], dtype=float)
    categories = column(rows, category, path) if category else [""] * len(rows)
    figure, axes = style.subplots(1, 1, 7, 4)
    drawing.draw_histogram(axes, words, words.mean(), f"mean {words.mean():.0f}")
    axes.set(xlabel=f"Words of {text}", ylabel="Rows")
    axes.legend()
    figure.suptitle(f"Lengths of {len(words):,} texts")
    yield "words", figure
    if label:
        values = np.array([number_of(cell) for cell in column(rows, label, path)])
        if np.isfinite(values).any():
            yield "scores", draw_numbers(values[np.isfinite(values)], label, style)
            yield "length_score", draw_length_against(words, values, categories, label, category, style)
            if category:
                yield "boxes", draw_boxes(values, categories, label, category, style)
    numbers = numbers_of(rows, words)
    if len(numbers) > 1:
        yield "correlations", draw_correlations(numbers, style)
    for name, source in (("cloud", text), ("cloud_comments", comment)):
        if source and (figure := draw_cloud(column(rows, source, path), f"Words of {source}", style)):
            yield name, figure


def explore(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", nargs="+", metavar="SHARDS", help="a folder of bert_hpc_prep, or its .h5 files")
    parser.add_argument("--table", metavar="FILE", help="the CSV or TSV file, with a header, that the shards were made of")
    for name, default in (("text", "text"), ("label", ""), ("category", ""), ("comment", "")):
        parser.add_argument(f"--{name}", default=default, metavar="COLUMN", help=f"column of --table (default: {default or 'none'})")
    parser.add_argument("--output", metavar="DIR", help="where the pictures go (default: explore/ beside the shards)")
    command.add_style(parser)
    options = parser.parse_args(given)
    style = command.style_of(options)
    paths = shard_paths(options.shards)
    output = command.make_output(options.output or paths[0].parent / "explore", [])
    with style.fonts():
        for name, figure in draw_shards(paths, style):
            print(*drawing.save(figure, name, output), sep="\n")
        if options.table:
            for name, figure in draw_table(options.table, options.text, options.label, options.category, options.comment, style):
                print(*drawing.save(figure, name, output), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(explore))
