"""The tables of the study of sources beside its main one: filters, texts of each source and split, bytes of the
embeddings, ranks, and human against machine."""

import collections
import json
import math
import pathlib
import re

import h5py
import numpy as np

from study_plan import SPLITS
from measures import most_of_ranks, of_ranks
import per_class
import rundata

MARGIN = 10.0  # percentage points above the majority class that a row must have to count as learnt
PUBLISHED_BYTES = {
    "text": {"train": 5.6e9, "validation": 1.4e9, "test": 1.4e9},
    "HDF5": {"train": 952e6, "validation": 426e6, "test": 534e6},
}
SAMPLE = 1000  # rows whose numbers are written as text to estimate the whole


def confusion(run, split="test"):
    """Counts (actual, predicted) of the chosen evaluation, or None."""
    row, _ = rundata.chosen(run, split)
    found = run.evaluations.get(split, {}).get("confusion_matrix", [])
    return np.asarray(found[row], dtype=float) if row is not None and row < len(found) and np.sum(found[row]) else None


def majority_share(counts):
    return float(counts.sum(axis=1).max() / counts.sum())


def margin(run):
    """Accuracy above that of the largest class, in percentage points."""
    counts = confusion(run)
    return math.nan if counts is None else 100 * (np.trace(counts) / counts.sum() - majority_share(counts))


def learned(rows):
    """A row that is hardly better than the largest source has learnt nothing."""
    known = [row for row in rows if row.name and math.isfinite(row.mean("margin"))]
    poor = [f"{row.label} ({row.mean('margin'):.1f})" for row in known if row.mean("margin") < MARGIN]
    if not poor:
        return []
    return [
        f"{len(poor)} of {len(known)} rows are less than {MARGIN:g} percentage points of accuracy above the largest"
        f" source: {'; '.join(poor)}."
    ]


def human_scores(run):
    """{measure: value} of "a person wrote it" against all other sources, or None if no source is named human."""
    counts, names = confusion(run), [name.lower() for name in run.label_names]
    if counts is None or "human" not in names:
        return None
    own = names.index("human")
    right, actual, predicted, total = counts[own, own], counts[own].sum(), counts[:, own].sum(), counts.sum()
    rates = per_class.of_counts(*np.array([[actual], [predicted], [right]]))
    return {
        "accuracy": (total - actual - predicted + 2 * right) / total,
        "share of the others": 1 - actual / total,
        "precision": rates["precision"][0],
        "recall": rates["recall"][0],
        "F1": rates["f1"][0],
    }


def shard_files(folder, split):
    return sorted(pathlib.Path(folder).glob(f"{split}-*.h5"))


def labels_of(folder):
    """Label names, and {split: labels (sequences)}."""
    names, found = [], {}
    for split in SPLITS:
        parts = []
        for path in shard_files(folder, split):
            with h5py.File(path, "r") as file:
                names, parts = json.loads(file.attrs["label_names"]), [*parts, file["labels"][()]]
        found[split] = np.concatenate(parts) if parts else np.zeros(0, dtype=int)
    return names, found


def as_text(values):
    """Bytes of such numbers as lines of text."""
    return sum(len(",".join(f"{value:.8g}" for value in row)) + 1 for row in values)


def bytes_of(folder, split):
    """Rows, and bytes of the files with a split's embeddings."""
    rows, size = 0, 0
    for path in shard_files(folder, split):
        with h5py.File(path, "r") as file:
            rows += file["embeddings"].shape[0]
        size += path.stat().st_size
    return rows, size


def text_bytes(folder, split):
    """An estimate of the bytes of the same numbers as text, from the first rows of fp32."""
    rows, _ = bytes_of(folder, split)
    files = shard_files(folder, split)
    if not rows or not files:
        return math.nan
    with h5py.File(files[0], "r") as file:
        values = file["embeddings"][:SAMPLE]
    return as_text(values) * rows / len(values)


class Report:
    def __init__(self, encoders, size):
        self.encoders, self.size = encoders, size

    def majority(self, study):
        """The row of the largest source of the test split."""
        _, labels = labels_of(study.output / self.encoders[0].shards)
        counts = np.bincount(labels["test"])
        share = float(counts.max() / counts.sum()) if counts.sum() else math.nan
        return [
            (
                "the largest source",
                {"accuracy": share, "margin": 0.0},
                "always the source with most texts of the test split",
            )
        ]

    def tables(self, study, runs):
        yield self.filters(study)
        yield self.counts(study)
        yield self.embedded(study)
        yield self.ranks(study, runs)
        if machine := self.machine(study, runs):
            yield machine

    def filters(self, study):
        """What each filter removed, from bert_hpc_prep's list of rejected rows and its log."""
        folder = study.output / self.encoders[0].shards
        reasons, rare = collections.Counter(), set()
        if (folder / "rejects.tsv").is_file():
            with open(folder / "rejects.tsv", encoding="utf-8", errors="replace") as file:
                next(file, None)
                for line in file:
                    reason = line.rstrip("\n").rpartition("\t")[2]
                    if name := re.search(r'^the label is rarer.*\("(.*)"\)$', reason):
                        rare.add(name[1])
                    reasons["long" if "max_characters" in reason else "rare" if name else "broken"] += 1
        log = (study.output / "prep.log").read_text(encoding="utf-8")
        read = re.search(r"^rows +([\d,]+) read", log, re.MULTILINE)
        others = re.search(r"([\d,]+) not in the sample", log)
        names, labels = labels_of(folder)
        kept = sum(map(len, labels.values()))
        sampled = int(others[1].replace(",", "")) if others else 0
        left = int(read[1].replace(",", "")) if read else kept + sampled + sum(reasons.values())
        rows = [["read", "–", left, "–"]]
        for what, removed, sources in (
            ("without text or source", reasons["broken"], "–"),
            ("more than 2,000 characters", reasons["long"], "–" if sampled else len(names) + len(rare)),
            ("not in the sample", sampled, len(names) + len(rare)),
            (f"of sources with fewer than {self.size['rows']:,} texts", reasons["rare"], len(names)),
        ):
            left -= removed
            if removed or what != "not in the sample":
                rows.append([what, removed, left, sources])
        return "filters", "What the filters removed", ["filter", "texts removed", "texts left", "sources left"], rows

    def counts(self, study):
        names, labels = labels_of(study.output / self.encoders[0].shards)
        rows = [
            [
                name,
                *(int((labels[split] == i).sum()) for split in SPLITS),
                sum(int((labels[split] == i).sum()) for split in SPLITS),
            ]
            for i, name in enumerate(names)
        ]
        rows.append(["all", *(len(labels[split]) for split in SPLITS), sum(map(len, labels.values()))])
        return "split", "Texts of each source and split", ["source", *SPLITS, "all"], rows

    def embedded(self, study):
        rows = []
        for encoder in self.encoders:
            folders = {
                kind: study.output / "runs" / f"{encoder.key}-embeddings-{kind}" / "embeddings"
                for kind in ("fp32", "fp16", "int8")
            }
            for kind, folder in folders.items():
                sizes = [bytes_of(folder, split)[1] for split in SPLITS]
                if any(sizes):
                    rows.append([encoder.label, f"HDF5, {kind}", *(size / 1e6 for size in sizes)])
            if shard_files(folders["fp32"], "train"):
                rows.append(
                    [
                        encoder.label,
                        f"text (estimated from {SAMPLE:,} rows)",
                        *(text_bytes(folders["fp32"], split) / 1e6 for split in SPLITS),
                    ]
                )
        rows += [
            ["published", kind, *(sizes[split] / 1e6 for split in SPLITS)] for kind, sizes in PUBLISHED_BYTES.items()
        ]
        return "bytes", "Bytes of the embeddings", ["encoder", "as", *(f"{split}, MB" for split in SPLITS)], rows

    @staticmethod
    def ranks(study, runs):
        rows = []
        for name, variant, _ in study.runs():
            if (run := runs.get(name)) is None:
                continue
            busy, memory, peak = of_ranks(run, "utilisation", 100), of_ranks(run, "memory", 2**-20), most_of_ranks(run)
            rows += [
                [
                    variant.label,
                    name,
                    rank,
                    *(float(values[rank]) if rank < len(values) else math.nan for values in (busy, memory, peak)),
                ]
                for rank in range(run.rank_count)
            ]
        return "ranks", "Each rank", ["", "run", "rank", "utilisation, %", "mean memory, MiB", "peak memory, MiB"], rows

    @staticmethod
    def machine(study, runs):
        """Human against machine, from the same predictions; nothing without a source named human."""
        found = [
            (variant.label, name, scores)
            for name, variant, _ in study.runs()
            if name in runs and (scores := human_scores(runs[name]))
        ]
        if not found:
            return None
        columns = list(found[0][2])
        return (
            "human_machine",
            "Human against machine (the same predictions of the test split)",
            ["", "run", *columns],
            [[label, name, *(float(scores[column]) for column in columns)] for label, name, scores in found],
        )
