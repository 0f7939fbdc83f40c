"""The report's tables: a summary with one column per run, the evaluations, the classes, and the timers; as text,
Markdown and CSV."""

import csv
import math

import numpy as np

import kernel_mix
import per_class
import smoothing
import rundata
import wording
import plot_seeds
from atomic import written
from plot_confusion import matrices


# The summary takes these from the rows, and the table of timers contains the last one.
KNOWN_TOTALS = ("total_steps", "total_samples", "total_tokens", "total_computed_tokens", "total_seconds", "total_timed_seconds",
                "total_training_seconds")
TOTAL_NAMES = {"model_flops": "FLOPs of the model in training"}


def number(value):
    """A number with four significant digits, or a whole number with commas between thousands."""
    if isinstance(value, str):
        return value
    if value is None or not math.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def last_of(values):
    return float(values[-1]) if len(values) else math.nan


def summary_column(run, alone):
    """One run's values in the summary, by row name. With several runs the names omit steps, so that equal quantities
    share a row."""
    steps = run.steps
    column = {"status": run.status, "started (UTC)": str(run.attributes.get("started", "–")),
              "version": f"{run.attributes.get('version', '–')} ({str(run.attributes.get('source_revision', '–'))[:10]})",
              "mode, task": f"{run.attributes.get('mode') or '–'}, {run.attributes.get('task') or '–'}",
              "ranks": float(run.rank_count) if run.rank_count else None}
    if "parallel_data" in run.attributes:
        column["data × pipeline × tensor"] = " × ".join(str(run.attributes[f"parallel_{name}"])
                                                        for name in ("data", "pipeline", "tensor"))
    if len(steps["step"]):
        column["steps"] = float(steps["step"][-1])
        column["epochs"] = float(steps["epoch"][-1])
        column["samples seen"] = float(np.sum(steps["samples"]))
        column["tokens seen"] = float(np.sum(steps["tokens"]))
        if run.padding_share > 0:
            column["tokens computed"] = float(np.sum(run.computed_tokens))
            column["padding"] = f"{100 * run.padding_share:.3g}% of the computed tokens"
        column["time in steps"] = wording.duration_text(float(np.sum(steps["seconds"])))
        column["sequences/s"] = smoothing.steady_rate(run, "samples")
        column["tokens/s"] = smoothing.steady_rate(run, "tokens")
        column["training loss at the end"] = last_of(smoothing.curve(run, "loss")[1])
    for split, columns in sorted(run.evaluations.items()):
        if len(columns["step"]) == 0:
            continue
        row, which = rundata.chosen(run, split)
        which = rundata.described(run, split, row, which) if alone and which not in ("last", "only one") else which
        for name in ["loss"] + [name for name in rundata.metric_names(run) if name in columns]:
            column[f"{split} {rundata.label_of([run], name)}" + ("" if which == "only one" else f" ({which})")] = float(columns[name][row])
    if not alone and rundata.best_step(run) is not None:
        column["step of the best checkpoint"] = float(rundata.best_step(run))
    for name, value in run.attributes.items():
        if name.startswith("total_") and name not in KNOWN_TOTALS:
            own = name[len("total_") :]
            column[TOTAL_NAMES.get(own) or "total " + wording.spoken(own)] = float(value)
    memory = run.ranks.get("peak_memory", [])
    if len(memory) and np.max(memory) > 0:
        column["peak memory per rank (maximum)"] = wording.bytes_text(np.max(memory))
    return column


def summary(runs):
    columns = [summary_column(run, len(runs) == 1) for run in runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[name] + [number(column.get(name)) for column in columns] for name in names]
    return ["", *[run.name for run in runs]], rows


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
        for split, columns in sorted(run.evaluations.items()):
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
    return [found[split] for split in sorted(found)]


def classes(runs):
    """Precision, recall and F1 of every class, or label name, in the selected evaluation of each split."""
    return rates(runs, "class", class_figures)


def entities(runs):
    """The same of the entities of every type."""

    def figures(run):
        types = sorted({name.partition("-")[2] or "_" for name in run.label_names if name != "O"})
        found = selected(run, run.per_type, types)
        return [found[split] for split in sorted(found)]

    return rates(runs, "entity type", figures)


def rates(runs, kind, figures):
    header, rows = ["run", "split", "evaluation", kind, "samples", "precision", "recall", "F1"], []
    for run in runs:
        for split, which, labels, columns in figures(run):
            support = columns["support"]
            names = labels if len(labels) == len(support) else [str(i) for i in range(len(support))]
            rows += [[run.name, split, which, name, int(support[i]), *(number(columns[rate][i]) for rate in per_class.RATES)]
                     for i, name in enumerate(names)]
    return header, rows


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
        lines = [(str(run.timers["name"][i]), int(run.timers["calls"][i]), host[i], [column[i] for column in columns])
                 for i in np.argsort(columns[1])[::-1]]
        if lines and wall > 0:
            # Bounds, because the extremes of different sections may be on different ranks.
            lines.append(("other", "", max(0.0, wall - host.sum()), [max(0.0, wall - column.sum()) for column in reversed(columns)]))
            lines.append(("wall time", "", wall, [wall] * 3))
        for name, calls, of_host, seconds in lines:
            shown = [of_host, *seconds] if on_device else seconds
            share = f"{100 * seconds[1] / wall:.1f}" if wall > 0 else "–"
            rows.append([run.name, name, calls, *(f"{value:.3f}" for value in shown), share])
    return header, rows


def seeds(runs):
    """Means over seeds, and paired differences between variants of an input."""
    header, rows = plot_seeds.table(runs)
    return header, [[number(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]


def as_text(header, rows):
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
             for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


MOST_IN_MARKDOWN = 1000  # rows of a table; its CSV file has all


def as_markdown(header, rows, name, texts=0):
    """The table, its first column and the last `texts` on the left; of one with more rows than a reader wants, the first ones and where the others are."""
    def line(row):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"

    rule = "|" + "|".join("---" if i == 0 or i >= len(header) - texts else "---:" for i in range(len(header))) + "|"
    lines = [line(header), rule, *(line(row) for row in rows[:MOST_IN_MARKDOWN])]
    if len(rows) > MOST_IN_MARKDOWN:
        lines += ["", f"The first {MOST_IN_MARKDOWN:,} of {len(rows):,} rows; {name}.csv has all."]
    return "\n".join(lines)


def write_csv(path, header, rows):
    with written(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_all(runs, output, sections=()):
    """summary.md, with more sections at its end, and the CSV files; returns the summary as text and the paths."""
    tables = {"summary": summary(runs), "evaluations": evaluations(runs), "entities": entities(runs), "classes": classes(runs),
              "timers": timers(runs), "kernel_mix": kernel_mix.group_table(runs), "profile": kernel_mix.call_table(runs),
              "seeds": seeds(runs)}
    paths = []
    if any(len(run.steps["step"]) for run in runs):
        paths.append(output / "steps.csv")
        write_csv(paths[-1], *steps(runs))
    for name, (header, rows) in tables.items():
        if rows:
            paths.append(output / (name + ".csv"))
            write_csv(paths[-1], header, rows)
    titles = {"summary": "Summary", "seeds": "Seeds: means, and paired differences from the first variant",
              "entities": "Entities", "classes": "Classes", "timers": "Time by section",
              "kernel_mix": "Kernel mix of the profiled steps"}
    parts = [f"## {title}\n\n{as_markdown(*tables[name], name)}" for name, title in titles.items() if tables[name][1]]
    markdown = output / "summary.md"
    with written(markdown) as file:
        file.write("\n\n".join(["# Report: " + ", ".join(run.name for run in runs), *parts, *sections]) + "\n")
    return as_text(*tables["summary"]), [markdown, *paths]
