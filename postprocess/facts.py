"""What a run's summary says: named values as data (columns of summary.csv) and as text (rows of summary.md)."""

import collections
import math

import numpy as np

import predicted_entities
import rundata
import smoothing
import wording
import writing

# key: column of summary.csv, with its unit; label: in words; value: text, number or None; text: the value in words.
Fact = collections.namedtuple("Fact", "key label value text")
MOST_TYPES = 40  # of predicted entities
# Totals that the rows of steps or the table of timers have already.
KNOWN_TOTALS = ("total_steps", "total_samples", "total_tokens", "total_computed_tokens", "total_seconds", "total_timed_seconds",
                "total_training_seconds")


def fact(key, label, value, text=None):
    return Fact(key, label, value, writing.number(value) if text is None else text)


def known(value):
    """True for a value that a cell can show."""
    return value is not None and value != "" and not (isinstance(value, float) and not math.isfinite(value))


def of_start(run):
    attributes = run.attributes
    yield fact("status", "status", run.status)
    if run.failure:
        yield fact("error", "error", run.failure)
    yield fact("started_utc", "started (UTC)", str(attributes.get("started", "")) or "–")
    version, revision = str(attributes.get("version", "")), str(attributes.get("source_revision", ""))[:10]
    if version:
        yield fact("version", "version", f"{version} ({revision})")
    for name in ("mode", "task"):
        yield fact(name, name, str(attributes.get(name) or "–"))
    yield fact("ranks", "ranks", run.rank_count or None)
    if "parallel_data" in attributes:
        layout = [str(attributes[f"parallel_{name}"]) for name in ("data", "pipeline", "tensor")]
        yield fact("layout", "data × pipeline × tensor", "x".join(layout), " × ".join(layout))


def of_model(run):
    whole, trained = (run.attributes.get(name) for name in ("parameters", "trained_parameters"))
    if whole:
        yield fact("parameters", "parameters", int(whole))
    if whole and trained is not None:
        share = f" ({100 * trained / whole:.3g}%)" if trained != whole else ""
        yield fact("trained_parameters", "trained parameters", int(trained), writing.number(int(trained)) + share)


def of_steps(run):
    steps = run.steps
    if not len(steps["step"]):
        return
    tokens, seconds = int(np.sum(steps["tokens"])), float(np.sum(steps["seconds"]))
    yield fact("steps", "steps", int(steps["step"][-1]))
    yield fact("epochs", "epochs", float(steps["epoch"][-1]))
    yield fact("samples", "samples seen", int(np.sum(steps["samples"])))
    yield fact("tokens", "tokens seen", tokens)
    if run.padding_share > 0:
        share = 100 * run.padding_share
        yield fact("computed_tokens", "tokens computed", int(np.sum(run.computed_tokens)))
        yield fact("padding_percent", "padding", share, f"{share:.3g}% of the computed tokens")
    yield fact("step_seconds", "time in steps", seconds, wording.duration_text(seconds))
    yield fact("sequences_per_second", "sequences/s", smoothing.steady_rate(run, "samples"))
    yield fact("tokens_per_second", "tokens/s", smoothing.steady_rate(run, "tokens"))
    losses = smoothing.curve(run, "loss")[1]
    yield fact("training_loss", "training loss at the end", float(losses[-1]) if len(losses) else math.nan)


def answered_text(columns, row):
    """How many questions have an answer, and how many not."""
    whole = int(columns["questions"][row])
    part = round(columns["answered"][row] * whole / 100) if whole else 0
    return f"{part:,} of {whole:,}, {whole - part:,} not"


def of_evaluations(run, alone, columns_too):
    """Of the selected evaluation of each split. With several runs the labels omit its step, so that equal values have equal labels.
    The metrics of single label columns are many, and have a table of their own."""
    left_out = {} if columns_too else rundata.column_metrics(run)
    for split in rundata.in_order(run.evaluations):
        columns = run.evaluations[split]
        row, which = rundata.chosen(run, split)
        if row is None:
            continue
        words = rundata.described(run, split, row, which) if alone and which not in ("last", "only one") else which
        yield fact(f"{split}_step", f"{split} step", int(columns["step"][row]))
        yield fact(f"{split}_evaluation", f"{split} evaluation", which, "–" if which == "only one" else which)
        for name in ["loss"] + [name for name in rundata.metric_names(run) if name in columns and name not in left_out]:
            label = f"{split} {rundata.label_of([run], name)}" + (f" ({words})" if alone and which != "only one" else "")
            if name == "answered" and "questions" in columns:
                label, counts = label.replace(rundata.label_of([run], name), "questions answered"), answered_text(columns, row)
                yield fact(f"{split}_{name}", label, float(columns[name][row]), counts)
            else:
                yield fact(f"{split}_{name}", label, float(columns[name][row]))
    if rundata.best_step(run) is not None:
        yield fact("best_step", "step of the best checkpoint", rundata.best_step(run))


def of_resources(run):
    for name, value in run.attributes.items():
        if name.startswith("total_") and name not in KNOWN_TOTALS:
            own = name[len("total_") :]
            if own == "model_flops":
                yield fact(own, "FLOPs of the model in training", float(value), wording.flop_text(float(value)))
            else:
                yield fact(own, "total " + wording.spoken(own), float(value))
    memory = run.ranks.get("peak_memory", [])
    if len(memory) and np.max(memory) > 0:
        yield fact("peak_memory_bytes", "peak memory per rank (maximum)", int(np.max(memory)), wording.bytes_text(np.max(memory)))
    for folder in ("model", "adapter"):
        size = sum(path.stat().st_size for path in (run.path / folder).glob("*.safetensors"))
        if size:
            yield fact(f"{folder}_bytes", f"weights in {folder}/", size, wording.bytes_text(size))


def predicted_classes(run):
    """("class", counts by name) of mode predict in classification; None for other runs."""
    data = run.predictions
    if run.attributes.get("mode") != "predict" or data is None or data["task"] != "classification":
        return None
    names = dict(enumerate(data["label_names"]))
    return "class", collections.Counter(names.get(int(number), str(number)) for number in data["prediction"])


def of_predictions(run):
    """Of texts or sentences without labels, how often each class, or how many entities of each type were predicted."""
    found = predicted_classes(run) or predicted_entities.counts(run)
    for name, count in found[1].most_common(MOST_TYPES) if found else ():
        yield fact(f"predicted_{found[0]}_{name}", f"predicted {found[0]}: {name}", count)


def of_run(run, alone=True, columns_too=False):
    return [*of_start(run), *of_model(run), *of_steps(run), *of_evaluations(run, alone, columns_too), *of_predictions(run), *of_resources(run)]


# What one run's table does not repeat: it stands in other rows.
ONLY_DATA = ("_step", "_evaluation", "_questions")


def shown(run):
    """The rows of one run's summary, without those that have no value: label and text."""
    splits = tuple(split + end for split in run.evaluations for end in ONLY_DATA)
    return [[own.label, own.text] for own in of_run(run) if own.key not in (*splits, "best_step") and own.text != "–"]


def data(runs):
    """Header and rows of summary.csv: a line for each run, numbers in full, cells without a value empty."""
    found = [{own.key: own.value for own in of_run(run, alone=False, columns_too=True)} for run in runs]
    keys = list(dict.fromkeys(key for columns in found for key in columns))
    return ["run", *keys], [[run.name, *(cell(columns.get(key)) for key in keys)] for run, columns in zip(runs, found)]


def cell(value):
    if not known(value) or value == "–":
        return ""
    return repr(value) if isinstance(value, float) else value
