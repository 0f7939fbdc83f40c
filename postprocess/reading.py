"""Reading runs: metrics.h5, or the journal after a kill, and predictions.h5."""

import os
import pathlib

import h5py
import numpy as np

import failures
from journal import read_journal
from rundata import SCHEMA, ReportError, Run


def plain(value):
    """Converts h5py's value to text, number or list."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, h5py.Empty):
        return ""
    return value


def read_columns(group):
    """The group's datasets by name; columns of one table are truncated to the shortest."""
    columns = {}
    for name, item in group.items():
        if isinstance(item, h5py.Dataset):
            columns[name] = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
    rows = min((len(column) for column in columns.values()), default=0)
    return {name: column[:rows] for name, column in columns.items()}


def read_metrics(run, path):
    try:
        file = h5py.File(path, "r")
    except OSError as problem:
        raise ReportError(f"Cannot read '{path}': {problem}. If the run was killed, try --journal.") from None
    with file:
        run.attributes = {name: plain(value) for name, value in file.attrs.items()}
        if run.attributes.get("schema") != SCHEMA:
            found = run.attributes.get("schema", "no schema")
            raise ReportError(f"'{path}' is not a metrics file of bert_hpc: it has {found!r}, needed is {SCHEMA!r}.")
        if "steps" in file:
            run.steps.update(read_columns(file["steps"]))
        for split, group in file.get("evaluations", {}).items():
            run.evaluations[split] = read_columns(group)
            if "per_class" in group:
                run.per_class[split] = read_columns(group["per_class"])
            if "per_type" in group:
                run.per_type[split] = read_columns(group["per_type"])
            for name, item in group.items():
                if "label" in item.attrs:
                    run.metric_labels[name] = plain(item.attrs["label"])
                if "larger_is_better" in item.attrs:
                    run.larger_is_better[name] = bool(item.attrs["larger_is_better"])
        if "efficiency" in file:
            run.efficiency.update(read_columns(file["efficiency"]))
        if "timers" in file:
            run.timers.update(read_columns(file["timers"]))
        if "ranks" in file:
            run.ranks = read_columns(file["ranks"])
            if "memory" in file["ranks"]:
                memory = read_columns(file["ranks/memory"])
                run.planned_memory = dict(zip(memory["purpose"], memory["bytes"]))
            if "samples" in file["ranks"]:
                run.rank_samples = read_columns(file["ranks/samples"])
        if "profile" in file:
            run.profile = read_columns(file["profile"])
            run.profile_facts = {name: plain(value) for name, value in file["profile"].attrs.items()}
        if "loss_scale" in file:
            run.loss_scale.update(read_columns(file["loss_scale"]))


NEEDED = ("label", "prediction", "source_index")  # columns of predictions.h5
OF_SOME_TASKS = ("rank", "query", "relevant", "level", "window_count")


def read_predictions(run, folder):
    path = folder / "predictions.h5"
    if not path.is_file():
        return
    try:
        with h5py.File(path, "r") as file:
            if plain(file.attrs.get("task", "")) == "causal_lm":
                return  # losses of sequences, which have no labels
            found = {name: np.atleast_1d(file[name][()]) for name in (*NEEDED, *OF_SOME_TASKS) if name in file}
            if len({len(column) for column in found.values()}) != 1 or not set(NEEDED) <= set(found):
                raise ReportError(f"'{path}' is damaged: it needs 'label', 'prediction' and 'source_index' of one length.")
            if "probabilities" in file and file["probabilities"].ndim == 2:
                found["probability"] = highest(file["probabilities"])
                found["outputs"] = file["probabilities"].shape[1]
            for name in ("task", "split", "label_column"):
                found[name] = plain(file.attrs.get(name, ""))
            found["label_names"] = [str(name) for name in plain(file.attrs.get("label_names", np.array([])))]
            run.predictions = found
    except OSError as problem:
        raise ReportError(f"Cannot read '{path}': {problem}.") from None


def highest(probabilities, rows=65536):
    """Maximum of each row, computed in pieces, because there may be many classes."""
    pieces = [probabilities[i : i + rows].max(axis=1) for i in range(0, len(probabilities), rows) if probabilities.shape[1] > 0]
    return np.concatenate(pieces) if pieces else np.array([])


def load_run(path, name, journal=False):
    """Loads a run from its directory or its metrics.h5."""
    given = pathlib.Path(path)
    if not given.exists():
        raise ReportError(f"There is no '{path}'. Give the directory of a run ([run] directory in its input file).")
    folder = given if given.is_dir() else given.parent
    metrics = given if given.is_file() else folder / "metrics.h5"
    run = Run(folder, name)
    journal_path = folder / "metrics.journal"
    if journal or (not metrics.is_file() and journal_path.is_file()):
        read_journal(run, journal_path)
    elif metrics.is_file():
        read_metrics(run, metrics)
    else:
        raise ReportError(f"There is no 'metrics.h5' in '{path}': it is not the directory of a run, or the run never started.")
    # A rank that failed alone writes this word; metrics.h5 is written by rank 0.
    status = folder / ".status"
    if run.status == "running" and status.is_file() and status.read_text(errors="replace").strip() == "failed":
        run.attributes["status"] = "failed"
    if run.status == "failed":
        run.failure = failures.reason_of(folder)
    read_predictions(run, folder)
    return run


def without_metrics(path, name):
    """The run of a folder that has no metrics yet, in most cases because it failed before; None for a folder of something else."""
    folder = pathlib.Path(path)
    left_files = any((folder / file).is_file() for file in (".status", "log.txt"))
    if any((folder / file).is_file() for file in ("metrics.h5", "metrics.journal")) or not (left_files or failures.is_recorded(folder)):
        return None
    run = Run(folder, name)
    run.attributes["status"], run.has_metrics = failures.status_of(folder), False
    run.failure = failures.reason_of(folder) if run.status == "failed" else ""
    return run


GENERIC = "run"  # the run folder's name in every input of input/


def run_names(paths):
    """The shortest suffixes of the paths in which they differ. If all runs share the last folder name "run", the
    folder above it names the run."""
    parts = []
    for path in paths:
        absolute = pathlib.Path(os.path.abspath(path))
        parts.append((absolute.parent if absolute.name == "metrics.h5" else absolute).parts)
    if all(len(part) > 2 and part[-1] == GENERIC for part in parts):
        parts = [part[:-1] for part in parts]
    for depth in range(1, max(len(part) for part in parts) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(part[-1:])} ({i + 1})" for i, part in enumerate(parts)]


def named_path(argument):
    """(name, path) of "NAME=RUN"; the name is "" if the argument is a path, which may itself contain "="."""
    name, equals, path = str(argument).partition("=")
    return ("", argument) if not equals or not name or pathlib.Path(argument).exists() else (name, path)


def runs_of_grid(folder):
    """Names of the runs of jobs/grid.sh in a folder, in the order of the file of settings; none for any other folder."""
    return failures.lines_of(pathlib.Path(folder) / ".grid" / "names")


def given_paths(arguments):
    """[(name or "", path)] of the command line; the folder of a grid stands for its runs."""
    found = []
    for name, path in map(named_path, arguments):
        grid = runs_of_grid(path)
        found += [(own, pathlib.Path(path) / own) for own in grid] if grid else [(name, path)]
    return found


def load_predicted(argument):
    """The run of one argument, which has predictions."""
    run = load_runs([argument])[0]
    if run.predictions is None:
        raise ReportError(f"There is no 'predictions.h5' in '{argument}'.")
    return run


def load_runs(arguments, journal=False):
    """Loads the runs in the given order. Equal names get numbers. Among several runs, and in a
    grid, one may have failed before it wrote metrics."""
    given = given_paths(arguments)
    unnamed = iter(run_names([path for name, path in given if not name]) if not all(name for name, _ in given) else [])
    names = [name or next(unnamed) for name, _ in given]
    names = [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]
    compared = len(given) > 1 or any(runs_of_grid(argument) for argument in arguments)
    return [(without_metrics(path, name) if compared else None) or load_run(path, name, journal)
            for name, (_, path) in zip(names, given)]
