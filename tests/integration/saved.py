"""What runs leave: the rows of metrics.h5 compared, checkpoints changed on purpose."""

import zlib

import h5py
import numpy as np


def recorded(directory):
    """The values in metrics.h5 that two runs with the same bits share: all but durations and values computed from them."""
    found = {}

    def take(name, item):
        parts = name.split("/")
        if isinstance(item, h5py.Dataset) and parts[0] in ("steps", "evaluations", "efficiency", "loss_scale") and \
                parts[-1] not in ("seconds", "goodput"):
            found[name] = [repr(value) for value in np.ravel(item[:])]

    with h5py.File(directory / "metrics.h5") as file:
        file.visititems(take)
        for name in ("total_steps", "total_samples", "total_tokens"):
            found[name] = file.attrs[name]
    return found


def values_of(evaluations):
    """{name: value} of the last evaluation in a group /evaluations/SPLIT: step, loss and metrics."""
    return {name: item[-1] for name, item in evaluations.items() if isinstance(item, h5py.Dataset) and item.ndim == 1}


def numbers_in(group):
    """{path below the group: array} of all datasets of numbers."""
    found = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iufb":
            found[name] = item[()]

    group.visititems(take)
    return found


def rankings_of(directory):
    """The lines of run.trec without their last column, the name of the run."""
    return [line.rsplit(" ", 1)[0] for line in (directory / "run.trec").read_text(encoding="utf-8").splitlines()]


def class_report(label, prediction):
    """Precision, recall, F1 and support by their definitions, of (samples, classes) of 0 and 1: scikit-learn's
    classification_report with zero_division=0, whose numbers it is compared with where scikit-learn is at hand."""
    columns = {"precision": [], "recall": [], "f1": [], "support": []}
    for actual, guess in zip(np.asarray(label).T, np.asarray(prediction).T):
        hits, wrong, missed = (int(np.sum((actual == a) & (guess == g))) for a, g in ((1, 1), (0, 1), (1, 0)))
        columns["precision"].append(hits / (hits + wrong) if hits + wrong else 0.0)
        columns["recall"].append(hits / (hits + missed) if hits + missed else 0.0)
        columns["f1"].append(2 * hits / (2 * hits + wrong + missed) if hits + wrong + missed else 0.0)
        columns["support"].append(hits + missed)
    try:
        from sklearn.metrics import precision_recall_fscore_support
    except ImportError:
        return columns
    for name, values in zip(columns, precision_recall_fscore_support(label, prediction, zero_division=0)):
        np.testing.assert_allclose(columns[name], values, rtol=1e-15, err_msg=name)
    return columns


def seal(path):
    """Makes the checksum in front of a changed file right again."""
    content = path.read_bytes()
    kind = content[: content.index(b"\n")]
    header = kind + b"\nbytes %d\ncrc32 %08x\n" % (len(content), zlib.crc32(content[512:]))
    path.write_bytes(header.ljust(512, b"\0") + content[512:])


def without_history(checkpoint):
    """Makes of a checkpoint one of a version that kept no metric history in it."""
    (checkpoint / "metrics.journal").unlink()
    with h5py.File(checkpoint / "manifest.h5", "r+") as file:
        names = file["integers/names"]
        for index in [i for i, name in enumerate(names.asstr()) if name.startswith("history_")]:
            names[index] = f"unknown_{index}"
    seal(checkpoint / "manifest.h5")


def without_label_scale(checkpoint):
    """Makes of a checkpoint of a regression on raw labels one of a version that knew nothing else."""
    with h5py.File(checkpoint / "manifest.h5", "r+") as file:
        names = file["reals/names"]
        for index in [i for i, name in enumerate(names.asstr()) if name.startswith("label_")]:
            names[index] = f"unknown_{index}"
        texts = file["texts/values"]
        for index, text in enumerate(texts.asstr()[:]):
            texts[index] = text.replace("standardize = false\n", "")
    seal(checkpoint / "manifest.h5")
