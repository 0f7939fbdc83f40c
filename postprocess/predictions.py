"""A run's predictions and the labels of its samples. Mode "predict" does not read labels; if the shards named in the
run's input still exist, hold the same samples and have labels, their labels are used."""

import glob
import json
import os
import pathlib

import h5py
import numpy as np

import reading
import rundata


def known(labels):
    """Marks known labels: unknown ones are NaN, or -1 for classes."""
    return labels >= 0 if np.issubdtype(labels.dtype, np.integer) else np.isfinite(labels)


def shard_files(run):
    """The files of the predicted split in [data], relative to the folder where the run was started, or to this one."""
    settings = rundata.settings(run)
    split = (run.predictions or {}).get("split") or ("test" if settings.get("data.test", "[]") != "[]" else "validation")
    try:
        patterns = [str(pattern) for pattern in json.loads(settings.get(f"data.{split}", "[]"))]
        directory = pathlib.PurePath(json.loads(settings.get("run.directory", '""')))
    except (ValueError, TypeError):
        return []
    here, own = run.path.resolve().parts, directory.parts
    started_in = [pathlib.Path(*here[: -len(own)])] if own and here[-len(own) :] == own else []
    for folder in [*started_in, pathlib.Path()]:
        found = [path for pattern in patterns for path in sorted(glob.glob(os.path.join(folder, pattern)))]
        if found:
            return found
    return []


def first_windows(sources):
    """Where a row begins among the sequences of a shard: windows of a row are neighbours with one source index."""
    return np.concatenate([[True], sources[1:] != sources[:-1]]) if len(sources) else np.zeros(0, dtype=bool)


def labels_of_shards(run):
    """The labels of exactly the predicted samples, or rows if these have windows, or None."""
    labels, sources = [], []
    try:
        for path in shard_files(run):
            with h5py.File(path, "r") as file:
                if reading.plain(file.attrs.get("task", "")) != run.predictions["task"]:
                    return None
                names = json.loads(reading.plain(file.attrs.get("label_names", "[]")))
                if run.predictions["label_names"] and names != run.predictions["label_names"]:
                    return None
                own = file["labels"][()]
                rows = np.ravel(file["source_index"][()])
                taken = first_windows(rows) if "window_count" in run.predictions else np.ones(len(rows), dtype=bool)
                labels.append(own[taken])
                sources.append(rows[taken])
    except (OSError, KeyError, ValueError, TypeError, IndexError):
        return None
    same = labels and np.array_equal(np.concatenate(sources), run.predictions["source_index"])
    return np.concatenate(labels) if same and sum(map(len, labels)) == len(run.predictions["source_index"]) else None


def labels(run):
    """(samples), or (samples, names) of sets and of several label columns, as many as predictions; unknown if neither they nor the shards have labels."""
    own = run.predictions["label"]
    if not known(own).any():
        found = labels_of_shards(run)
        if found is not None and found.shape == own.shape and (found.dtype.kind == "f") == (own.dtype.kind == "f"):
            run.predictions["label"] = found
    return run.predictions["label"]


def parts(run, rows=65536):
    """(first row, probabilities (rows, classes or names)) of predictions.h5, a part at a time, because there may be many classes."""
    with h5py.File(run.path / "predictions.h5", "r") as file:
        stored = file["probabilities"]
        for begin in range(0, len(stored), rows):
            yield begin, stored[begin : begin + rows]


def probabilities(run, columns):
    """(samples, columns) of predictions.h5; `columns` are ascending."""
    with h5py.File(run.path / "predictions.h5", "r") as file:
        return file["probabilities"][:, columns]


def split_of(run):
    """Name of the data that the predictions are for."""
    known_split = (run.predictions or {}).get("split")
    if known_split:
        return known_split
    return "validation" if list(run.evaluations) == ["validation"] else "test"


MOST_CLASSES = 1000  # maximum for a confusion matrix, as in bert_hpc: its memory grows quadratically


def numbered_levels(run):
    """Names of a regression's levels, and the numbers of the labels' and of the predictions' ones, -1 where unknown."""
    actual, predicted = (np.asarray(column, dtype=float) for column in (labels(run), run.predictions["level"]))
    try:
        levels = np.asarray(json.loads(rundata.settings(run).get("task.levels", "[]")), dtype=np.float32).astype(float)
    except ValueError:  # those of the training labels
        levels = np.unique(np.concatenate([actual[np.isfinite(actual)], predicted[np.isfinite(predicted)]]))
    if len(levels) == 0 or len(levels) > MOST_CLASSES:
        return [], np.array([]), np.array([])
    numbers = [np.where(np.isfinite(column), np.abs(levels[None] - column[:, None]).argmin(axis=1), -1)
               for column in (actual, predicted)]
    return [f"{level:.6g}" for level in levels], *numbers


def confusion(run):
    """Names and counts (classes, classes) over samples with known class, or of a regression's levels; None for other tasks, too
    many classes or no such samples."""
    data = run.predictions
    if data is not None and data["task"] == "regression" and "level" in data:
        names, actual, predicted = numbered_levels(run)
    elif data is not None and data["task"] == "classification":
        names, actual, predicted = data["label_names"], labels(run), data["prediction"]
    else:
        return None
    classes = len(names)
    if classes > MOST_CLASSES or not all(np.issubdtype(column.dtype, np.integer) for column in (actual, predicted)):
        return None
    good = (actual >= 0) & (actual < classes) & (predicted >= 0) & (predicted < classes)
    if not good.any():
        return None
    pairs = actual[good].astype(np.int64) * classes + predicted[good]
    return names, np.bincount(pairs, minlength=classes * classes).reshape(classes, classes).astype(float)
