"""The report's tables: the summary, the evaluations, the classes, and the timers; as text, Markdown and CSV."""

import math

import numpy as np

import comparison
import facts
import kernel_mix
import per_class
import plot_seeds
import rundata
from atomic import written
from plot_confusion import matrices
from writing import as_markdown, as_text, number, write_csv


def summary(run):
    """One run's facts, a row each."""
    return ["", run.name], facts.shown(run)


STEPS_COLUMNS = ["step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds"]


def steps(runs):
    """The rows of training as in metrics.h5, of all runs in sequence."""
    several = len(runs) > 1
    return ["run"] * several + STEPS_COLUMNS, (
        [run.name] * several + [np.asarray(run.steps[name])[row].item() for name in STEPS_COLUMNS]
        for run in runs for row in range(len(run.steps["step"])))


def evaluations(runs):
    """One row per value, with the metric's name in metrics.h5."""
    header, rows = ["run", "split", "step", "metric", "value"], []
    for run in runs:
        for split in rundata.in_order(run.evaluations):
            columns = run.evaluations[split]
            for name, values in columns.items():
                if name in ("step", "confusion_matrix"):
                    continue
                rows += [[run.name, split, int(step), name, repr(float(value))] for step, value in zip(columns["step"], values)]
    return header, rows


def selected(run, tables, names):
    """{split: (split, description of the evaluation, names, columns)} of the selected evaluation's row of each table."""
    found = {}
    for split, columns in tables.items():
        row, which = rundata.chosen(run, split)
        if row is not None and row < len(columns["support"]) and np.isfinite(columns["precision"][row]).all():
            own = {name: values[row] for name, values in columns.items()}
            found[split] = (split, rundata.described(run, split, row, which), names, own)
    return found


def class_figures(run):
    """(split, description of the evaluation, names, columns as per_class.of_counts) of the selected evaluation of each split: from
    metrics.h5 or, of older runs and of predictions, from the confusion matrix."""
    found = selected(run, run.per_class, run.label_names)
    for split, counts, which, names in matrices(run):
        columns = per_class.of_counts(counts.sum(axis=1), counts.sum(axis=0), np.diag(counts))
        found.setdefault(split, (split, which, names, columns))
    return [found[split] for split in rundata.in_order(found)]


def classes(runs):
    """Precision, recall and F1 of every class, or label name, in the selected evaluation of each split."""
    return rates(runs, "class", class_figures)


def entity_figures(run):
    """The same of the entities of every type."""
    types = sorted({name.partition("-")[2] or "_" for name in run.label_names if name != "O"})
    found = selected(run, run.per_type, types)
    return [found[split] for split in rundata.in_order(found)]


def entities(runs):
    return rates(runs, "entity type", entity_figures)


def rates(runs, kind, figures):
    header, rows = ["run", "split", "evaluation", kind, "samples", "precision", "recall", "F1"], []
    for run in runs:
        for split, which, labels, columns in figures(run):
            support = columns["support"]
            names = labels if len(labels) == len(support) else [str(i) for i in range(len(support))]
            rows += [[run.name, split, which, name, int(support[i]), *(number(columns[rate][i]) for rate in per_class.RATES)]
                     for i, name in enumerate(names)]
    return header, rows


def label_columns(runs):
    """The metrics of each label column of a regression on several, a line for each column, in the selected evaluation of each split."""
    found = [rundata.column_metrics(run) for run in runs]
    metrics = list(dict.fromkeys(metric for of_columns in found for metric, _ in of_columns.values()))
    header = ["run", "split", "evaluation", "label column", *(rundata.label_of(runs, metric) for metric in metrics)]
    rows = []
    for run, of_columns in zip(runs, found):
        for split in rundata.in_order(run.evaluations) if of_columns else ():
            row, which = rundata.chosen(run, split)
            values = {pair: float(run.evaluations[split][name][row]) for name, pair in of_columns.items()
                      if row is not None and name in run.evaluations[split]}
            rows += [[run.name, split, rundata.described(run, split, row, which), column,
                      *(values.get((metric, column), math.nan) for metric in metrics)]
                     for column in run.label_names if any((metric, column) in values for metric in metrics)]
    return header, rows


def label_columns_as_text(run):
    """The same of one run for a terminal: a table for each split."""
    header, rows = in_words(*label_columns([run]))
    heads = [name.replace(" ", "\n") for name in header[4:]]
    return ["\n" + as_text([split, *heads], [own[3:] for own in rows if own[1] == split]) for split in dict.fromkeys(own[1] for own in rows)]


def timers(runs):
    """The log's table of sections, largest first; per cents are of the wall time, as in the log. If a run has times of its
    GPU, these are shown, and the host's mean beside them."""
    on_device = any(run.has_device_times for run in runs)
    header = ["run", "section", "calls", *(["host seconds (mean)"] if on_device else []),
              "seconds (min)", "seconds (mean)", "seconds (max)", "% of wall time"]
    rows = []
    for run in runs:
        columns, host = run.section_seconds, np.asarray(run.timers["seconds_avg"], dtype=float)
        wall = run.timed_seconds
        names = [str(name) for name in run.timers["name"]]
        lines = [(names[i], int(run.timers["calls"][i]) or "", host[i], [column[i] for column in columns])
                 for i in sorted(np.argsort(columns[1])[::-1], key=lambda i: names[i] == "other")]
        if lines and wall > 0:
            lines.append(("wall time", "", wall, [wall] * 3))
        for name, calls, of_host, seconds in lines:
            shown = [of_host, *seconds] if on_device else seconds
            share = f"{100 * seconds[1] / wall:.1f}" if wall > 0 else "–"
            rows.append([run.name, name, calls, *(f"{value:.3f}" if np.isfinite(value) else "–" for value in shown), share])
    return header, rows


def seeds(runs):
    """Means over seeds, and paired differences between variants of an input, in full."""
    header, rows = plot_seeds.table(runs)
    return header, [["" if isinstance(cell, float) and not np.isfinite(cell) else cell for cell in row] for row in rows]


def in_words(header, rows):
    """Numbers with four digits, for Markdown."""
    return header, [[number(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]


def beginning(runs):
    """The first sections of summary.md, and the summary for a terminal."""
    if len(runs) == 1 and runs[0].has_metrics:
        text = "\n".join([as_text(*summary(runs[0])), *label_columns_as_text(runs[0])])
        return ["## Summary\n\n" + as_markdown(*summary(runs[0]), "summary")], text
    details = comparison.details_as_markdown(runs)
    title = "Comparison" if len(runs) > 1 else "Summary"
    return [f"## {title}\n\n" + comparison.as_markdown(runs), *(["## Details\n\n" + details] if details else [])], comparison.as_text(runs)


def write_all(runs, output, sections=()):
    """summary.md, with more sections at its end, of several runs comparison.md, and the CSV files; returns the summary as text
    and the paths."""
    title = "# Report: " + ", ".join(run.name for run in runs)
    first, text = beginning(runs)
    paths = [output / "summary.md", output / "summary.csv"]
    if len(runs) > 1:
        paths.insert(0, output / "comparison.md")
        with written(paths[0]) as file:
            file.write(f"# Comparison of {len(runs)} runs\n\n{comparison.as_markdown(runs)}\n")
    write_csv(output / "summary.csv", *facts.data(runs))
    runs = [run for run in runs if run.has_metrics]
    tables = {"evaluations": evaluations(runs), "label_columns": label_columns(runs), "entities": entities(runs), "classes": classes(runs),
              "timers": timers(runs), "kernel_mix": kernel_mix.group_table(runs), "profile": kernel_mix.call_table(runs),
              "seeds": seeds(runs)}
    if any(len(run.steps["step"]) for run in runs):
        paths.append(output / "steps.csv")
        write_csv(paths[-1], *steps(runs))
    for name, (header, rows) in tables.items():
        if rows:
            paths.append(output / (name + ".csv"))
            write_csv(paths[-1], header, rows)
    titles = {"seeds": "Seeds: means, and paired differences from the first variant",
              "label_columns": "Label columns", "entities": "Entities", "classes": "Classes", "timers": "Time by section",
              "kernel_mix": "Kernel mix of the profiled steps"}
    parts = [f"## {name}\n\n{as_markdown(*in_words(*tables[table]), table)}" for table, name in titles.items() if tables[table][1]]
    with written(output / "summary.md") as file:
        file.write("\n\n".join([title, *first, *parts, *sections]) + "\n")
    return text, paths
