"""Reads metrics.journal, the rows of metrics.h5 as lines of text: the latest state of a run that was killed between
two writes of metrics.h5. Each line has a checksum; torn or damaged lines are skipped, as in the program itself."""

import math
import zlib

import numpy as np

import per_class
from rundata import EFFICIENCY_COLUMNS, INTEGER_COLUMNS, LOSS_SCALE_COLUMNS, SCHEMA, STEP_COLUMNS, ReportError

JOURNAL_TITLE = "bert_hpc metrics journal 1"


def journal_lines(path):
    """The fields of every valid line; torn or damaged lines are skipped, as in the program itself."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise ReportError(f"Cannot read '{path}': {problem.strerror}.") from None
    for number, line in enumerate(content.split(b"\n")):
        checksum, _, payload = line.partition(b" ")
        good = checksum == b"%08x" % zlib.crc32(payload)
        if number == 0 and (not good or payload.decode("utf-8", "replace") != JOURNAL_TITLE):
            raise ReportError(f"'{path}' is not a metrics journal of bert_hpc.")
        if number > 0 and good:
            yield [unescape(field) for field in payload.decode("utf-8", "replace").split("\t")]


def unescape(field):
    if "\\" not in field:
        return field
    pieces = field.split("\\\\")
    return "\\".join(piece.replace("\\t", "\t").replace("\\n", "\n") for piece in pieces)


def take_groups(fields, width):
    """Splits off a count and that many groups of `width` fields; returns the groups and the remaining fields."""
    count = int(fields[0])
    if not 0 <= count <= (len(fields) - 1) // width:
        raise ValueError("more groups than the line has")
    groups = [fields[1 + width * i : 1 + width * (i + 1)] for i in range(count)]
    return groups, fields[1 + width * count :]


def read_evaluation(fields):
    """Split and row of an evaluation line."""
    metrics, rest = take_groups(fields[3:], 2)
    row = {"step": int(fields[1]), "loss": float(fields[2])}
    row.update((name, float(value)) for name, value in metrics)
    classes = int(rest[0])
    counts, rest = take_groups(rest[1:], 1)
    if len(rest) > 1:  # after the time; lines of older versions lack it
        for name in ("class_counts", "type_counts"):
            if len(rest) > 1:
                counted, rest = take_groups(rest[1:], 1)
                rest = [None, *rest]
                row[name] = np.array(counted, dtype=np.int64).reshape(3, -1)
    if classes > 0:
        row["confusion_matrix"] = np.array(counts, dtype=np.int64).reshape(classes, classes)
    return fields[0], row


def read_journal(run, path):
    """Reads the content of metrics.h5 from the journal; invalid lines are skipped."""
    starts, steps, evaluations, efficiency, scales, samples = [], [], {}, [], [], []

    def take(kind, fields):
        if kind == "info":
            names = ["version", "source_revision", "started", "mode", "task", "resolved_input"]
            run.attributes.update(zip(names, fields))
            labels, rest = take_groups(fields[6:], 1)
            _, rest = take_groups(rest, 2)
            grid, rest = rest[:3], rest[3:]
            run.attributes.update((f"parallel_{name}", int(size)) for name, size in zip(("data", "pipeline", "tensor"), grid))
            for name in ("label_mean", "label_deviation"):
                columns, rest = take_groups(rest, 1)
                numbers = [float(column[0]) for column in columns]
                if numbers:
                    run.attributes[name] = numbers[0] if len(numbers) == 1 else np.array(numbers)
                    run.metric_labels["loss"] = "loss of standardized labels"
            if len(rest) > 1:
                counted = zip(("parameters", "trained_parameters"), map(int, rest[:2]))
                run.attributes.update((name, number) for name, number in counted if number > 0)
            starts.append(run.attributes["started"])
            run.attributes.update(started=starts[0], restarts=starts[1:])
            run.attributes.update(label_names=[label[0] for label in labels], status="running", schema=SCHEMA)
        elif kind == "step":
            row = [float(field) for field in fields[:len(STEP_COLUMNS)]]
            if len(row) == len(STEP_COLUMNS):
                more = fields[len(STEP_COLUMNS):]  # the row's time of day, and computed tokens where there is padding
                steps.append(row + [max(float(more[1]), row[tokens]) if len(more) > 1 else row[tokens]])
        elif kind == "efficiency":
            row = [float(field) for field in fields]
            if len(row) == len(EFFICIENCY_COLUMNS):
                efficiency.append(row)
        elif kind == "evaluation":
            split, row = read_evaluation(fields)
            rows = evaluations.setdefault(split, [])
            rows[:] = [before for before in rows if before["step"] != row["step"]] + [row]  # repeated: replaces the first
        elif kind == "rewind":
            last = int(fields[0])
            steps[:] = [row for row in steps if row[0] <= last]
            efficiency[:] = [row for row in efficiency if row[0] <= last]
            scales[:] = [row for row in scales if row[0] <= last]
            for rows in evaluations.values():
                rows[:] = [row for row in rows if row["step"] <= last]
        elif kind == "timers":
            run.timers = table_of(fields, ["name"], [
                "calls", "seconds_min", "seconds_avg", "seconds_max", "device_seconds_min", "device_seconds_avg", "device_seconds_max"])
        elif kind == "ranks":
            run.ranks = table_of(fields, ["host", "device"], [
                "threads", "peak_memory", "utilisation", "power", "start_memory", "planned_memory", "computing", "communicating",
                "waiting", "gpu_utilisation", "gpu_memory", "energy"])
        elif kind == "memory":
            rest = fields[1:]
            for _ in range(int(fields[0])):
                purpose, (counted, rest) = rest[0], take_groups(rest[1:], 1)
                run.planned_memory[purpose] = np.array([int(value[0]) for value in counted])
        elif kind == "profile":
            read_profile(run, fields)
        elif kind == "loss_scale":
            row = [float(field) for field in fields[:len(LOSS_SCALE_COLUMNS)]]
            if len(row) == len(LOSS_SCALE_COLUMNS):
                scales.append(row)
        elif kind == "rank_sample":
            utilisation, rest = take_groups(fields[1:], 1)
            power, rest = take_groups(rest, 1)
            memory = take_groups(rest, 1)[0] if rest else []  # lines of older versions lack it
            samples.append((float(fields[0]), *([float(x[0]) for x in values] for values in (utilisation, power, memory))))
        elif kind == "status":
            run.attributes["status"] = fields[0]
        elif kind == "total":
            run.attributes["total_" + fields[0]] = float(fields[1])

    tokens = STEP_COLUMNS.index("tokens")
    for kind, *fields in journal_lines(path):
        try:
            take(kind, fields)
        except (ValueError, IndexError):
            continue
    columns = STEP_COLUMNS + ["computed_tokens"]
    table = np.array(steps, dtype=float).reshape(len(steps), len(columns))
    for i, column in enumerate(columns):
        run.steps[column] = table[:, i].astype(np.int64) if column in INTEGER_COLUMNS else table[:, i]
    table = np.array(efficiency, dtype=float).reshape(len(efficiency), len(EFFICIENCY_COLUMNS))
    run.efficiency = {column: table[:, i] for i, column in enumerate(EFFICIENCY_COLUMNS)}
    table = np.array(scales, dtype=float).reshape(len(scales), len(LOSS_SCALE_COLUMNS))
    run.loss_scale = {column: table[:, i] for i, column in enumerate(LOSS_SCALE_COLUMNS)}
    if samples:
        ranks = max(len(sample[1]) for sample in samples)
        filled = lambda values: values + [math.nan] * (ranks - len(values))  # noqa: E731
        run.rank_samples = {"seconds": np.array([sample[0] for sample in samples])} | {
            name: np.array([filled(sample[i]) for sample in samples]) for i, name in enumerate(("utilisation", "power", "memory"), 1)}
    for split, rows in evaluations.items():
        if rows:
            tables = {"class_counts": run.per_class, "type_counts": run.per_type}
            counted = {name: [row.pop(name, None) for row in rows] for name in tables}
            run.evaluations[split] = evaluation_columns(rows)
            for name, counts in counted.items():
                if any(row is not None and row.size for row in counts):
                    tables[name][split] = per_class.of_rows(counts)


def read_profile(run, fields):
    table = table_of(fields[7:], ["section", "kind", "name"], ["calls", "seconds_min", "seconds_avg", "seconds_max", "flops", "bytes"])
    first, steps, ranks, on_gpu = map(int, fields[:4])
    run.profile, run.profile_facts = table, {
        "first_step": first, "steps": steps, "ranks": ranks, "device": "GPU" if on_gpu else "CPU", "seconds": float(fields[4]),
        "cost_seconds": float(fields[5])}
    if float(fields[6]) > 0:
        run.profile_facts["peak_gflops"] = float(fields[6])


def table_of(fields, texts, numbers):
    """Columns of a line that holds a whole table, row by row."""
    rows, _ = take_groups(fields, len(texts) + len(numbers))
    table = {name: [row[i] for row in rows] for i, name in enumerate(texts)}
    for i, name in enumerate(numbers, len(texts)):
        table[name] = np.array([float(row[i]) for row in rows])
    return table


def evaluation_columns(rows):
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        if name == "confusion_matrix":
            matrices = [row[name] for row in rows if name in row]
            columns[name] = np.stack([row.get(name, np.zeros_like(matrices[0])) for row in rows])
        else:
            columns[name] = np.array([row.get(name, math.nan) for row in rows])
    return columns
