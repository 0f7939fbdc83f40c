"""What every script here shares: reading runs (metrics.h5, or the journal after a kill), errors, the look of the
pictures, and the command line. Colours are those of Okabe and Ito ("Color universal design", 2008), which people with any kind of
colour vision can tell apart."""

import argparse
import math
import os
import pathlib
import sys
import zlib

import h5py
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)

# Black first for a single run; yellow is left out, as it is too faint for lines on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LINE_STYLES = ["-", "--", ":", "-."]
MARKERS = ["o", "s", "^", "D"]
SCHEMA = "bert_hpc metrics 1"
JOURNAL_TITLE = "bert_hpc metrics journal 1"
LOSS_SCALE_COLUMNS = ["step", "scale", "skipped"]
EFFICIENCY_COLUMNS = ["step", "noise_scale", "efficiency", "goodput"]
STEP_COLUMNS = ["step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds", "skipped"]
INTEGER_COLUMNS = {"step", "samples", "tokens", "skipped"}

matplotlib.rcParams.update(
    {
        "figure.dpi": 100,
        "savefig.dpi": 160,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 0.12,
        "figure.constrained_layout.h_pad": 0.12,
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "pdf.fonttype": 42,
    }
)


class ReportError(Exception):
    """What the user can mend; printed without a traceback."""


class Run:
    """One run's rows as numpy arrays; groups that the file lacks are empty."""

    def __init__(self, path, name):
        self.path = path
        self.name = name
        self.attributes = {}
        self.steps = {column: np.array([]) for column in STEP_COLUMNS}
        self.evaluations = {}  # split -> {"step", "loss", metrics…, "confusion_matrix"}
        self.efficiency = {column: np.array([]) for column in EFFICIENCY_COLUMNS}
        self.timers = {"name": [], "calls": [], "seconds_min": [], "seconds_avg": [], "seconds_max": []}
        self.ranks = {}
        self.rank_samples = {}  # of GPUs: seconds (rows), utilisation and power (rows, ranks)
        self.loss_scale = {column: np.array([]) for column in LOSS_SCALE_COLUMNS}
        self.predictions = None

    @property
    def label_names(self):
        return [str(name) for name in self.attributes.get("label_names", [])]

    @property
    def rank_count(self):
        return len(self.ranks.get("host", []))

    @property
    def went_on(self):
        """Whether it was stopped or killed and submitted again: ranks and timers are those of the last start alone."""
        return len(self.attributes.get("restarts", [])) > 0

    @property
    def timed_seconds(self):
        """Wall time that the timers are parts of, as in the table at the log's end; NaN where they are not told."""
        return float(self.attributes.get("total_timed_seconds", math.nan))

    @property
    def status(self):
        return str(self.attributes.get("status", "unknown"))


# --- Reading.


def plain(value):
    """h5py's value as text, number or list."""
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
    """The group's datasets by name; columns of one table are cut to the shortest."""
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
        if "efficiency" in file:
            run.efficiency.update(read_columns(file["efficiency"]))
        if "timers" in file:
            run.timers.update(read_columns(file["timers"]))
        if "ranks" in file:
            run.ranks = read_columns(file["ranks"])
            if "samples" in file["ranks"]:
                run.rank_samples = read_columns(file["ranks/samples"])
        if "loss_scale" in file:
            run.loss_scale.update(read_columns(file["loss_scale"]))


def journal_lines(path):
    """The fields of every whole line; torn or damaged ones are left out, as the program itself does."""
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
    """A count and so many groups of `width` fields, and what follows."""
    count = int(fields[0])
    groups = [fields[1 + width * i : 1 + width * (i + 1)] for i in range(count)]
    return groups, fields[1 + width * count :]


def read_evaluation(fields):
    """Split and row of an evaluation's line."""
    metrics, rest = take_groups(fields[3:], 2)
    row = {"step": int(fields[1]), "loss": float(fields[2])}
    row.update((name, float(value)) for name, value in metrics)
    classes = int(rest[0])
    counts, _ = take_groups(rest[1:], 1)
    if classes > 0:
        row["confusion_matrix"] = np.array(counts, dtype=np.int64).reshape(classes, classes)
    return fields[0], row


def read_journal(run, path):
    """The same as metrics.h5 would hold, made from the journal; lines that make no sense are left out."""
    starts, steps, evaluations, efficiency, scales, samples = [], [], {}, [], [], []

    def take(kind, fields):
        if kind == "info":
            names = ["version", "source_revision", "started", "mode", "task", "resolved_input"]
            run.attributes.update(zip(names, fields))
            labels, _ = take_groups(fields[6:], 1)
            starts.append(run.attributes["started"])
            run.attributes.update(started=starts[0], restarts=starts[1:])
            run.attributes.update(label_names=[label[0] for label in labels], status="running", schema=SCHEMA)
        elif kind == "step":
            row = [float(field) for field in fields]
            if len(row) == len(STEP_COLUMNS):
                steps.append(row)
        elif kind == "efficiency":
            row = [float(field) for field in fields]
            if len(row) == len(EFFICIENCY_COLUMNS):
                efficiency.append(row)
        elif kind == "evaluation":
            split, row = read_evaluation(fields)
            rows = evaluations.setdefault(split, [])
            rows[:] = [before for before in rows if before["step"] != row["step"]] + [row]  # done again: it takes its place
        elif kind == "rewind":
            last = int(fields[0])
            steps[:] = [row for row in steps if row[0] <= last]
            efficiency[:] = [row for row in efficiency if row[0] <= last]
            scales[:] = [row for row in scales if row[0] <= last]
            for rows in evaluations.values():
                rows[:] = [row for row in rows if row["step"] <= last]
        elif kind == "timers":
            run.timers = table_of(fields, ["name"], ["calls", "seconds_min", "seconds_avg", "seconds_max"])
        elif kind == "ranks":
            run.ranks = table_of(fields, ["host", "device"], [
                "threads", "peak_memory", "utilisation", "power", "start_memory", "planned_memory", "computing", "communicating",
                "waiting", "gpu_utilisation", "gpu_memory", "energy"])
        elif kind == "loss_scale":
            row = [float(field) for field in fields]
            if len(row) == len(LOSS_SCALE_COLUMNS):
                scales.append(row)
        elif kind == "rank_sample":
            utilisation, rest = take_groups(fields[1:], 1)
            power, _ = take_groups(rest, 1)
            samples.append((float(fields[0]), [float(x[0]) for x in utilisation], [float(x[0]) for x in power]))
        elif kind == "status":
            run.attributes["status"] = fields[0]
        elif kind == "total":
            run.attributes["total_" + fields[0]] = float(fields[1])

    for kind, *fields in journal_lines(path):
        try:
            take(kind, fields)
        except (ValueError, IndexError):
            continue
    table = np.array(steps, dtype=float).reshape(len(steps), len(STEP_COLUMNS))
    for i, column in enumerate(STEP_COLUMNS):
        run.steps[column] = table[:, i].astype(np.int64) if column in INTEGER_COLUMNS else table[:, i]
    table = np.array(efficiency, dtype=float).reshape(len(efficiency), len(EFFICIENCY_COLUMNS))
    run.efficiency = {column: table[:, i] for i, column in enumerate(EFFICIENCY_COLUMNS)}
    table = np.array(scales, dtype=float).reshape(len(scales), len(LOSS_SCALE_COLUMNS))
    run.loss_scale = {column: table[:, i] for i, column in enumerate(LOSS_SCALE_COLUMNS)}
    if samples:
        ranks = max(len(utilisation) for _, utilisation, _ in samples)
        filled = lambda values: values + [math.nan] * (ranks - len(values))  # noqa: E731
        run.rank_samples = {"seconds": np.array([sample[0] for sample in samples]),
                            "utilisation": np.array([filled(sample[1]) for sample in samples]),
                            "power": np.array([filled(sample[2]) for sample in samples])}
    for split, rows in evaluations.items():
        if rows:
            run.evaluations[split] = evaluation_columns(rows)


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


def read_predictions(run, folder):
    path = folder / "predictions.h5"
    if not path.is_file():
        return
    try:
        with h5py.File(path, "r") as file:
            found = {name: np.ravel(file[name][()]) for name in ("label", "prediction", "source_index") if name in file}
            if len({len(column) for column in found.values()}) != 1 or len(found) < 3:
                raise ReportError(f"'{path}' is damaged: it needs 'label', 'prediction' and 'source_index' of one length.")
            if "probabilities" in file and file["probabilities"].ndim == 2:
                found["probability"] = highest(file["probabilities"])
            found["task"] = plain(file.attrs.get("task", ""))
            found["label_names"] = [str(name) for name in plain(file.attrs.get("label_names", np.array([])))]
            run.predictions = found
    except OSError as problem:
        raise ReportError(f"Cannot read '{path}': {problem}.") from None


def highest(probabilities, rows=65536):
    """Each row's largest, a piece at a time, as there may be many classes."""
    pieces = [probabilities[i : i + rows].max(axis=1) for i in range(0, len(probabilities), rows) if probabilities.shape[1] > 0]
    return np.concatenate(pieces) if pieces else np.array([])


def load_run(path, name, journal=False):
    """A run's directory, or its metrics.h5."""
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
    # A rank that failed alone left its word there; metrics.h5 is rank 0's.
    status = folder / ".status"
    if run.status == "running" and status.is_file() and status.read_text(errors="replace").strip() == "failed":
        run.attributes["status"] = "failed"
    read_predictions(run, folder)
    return run


def run_names(paths):
    """The shortest ends of the paths that tell them apart."""
    parts = []
    for path in paths:
        absolute = pathlib.Path(os.path.abspath(path))
        parts.append((absolute.parent if absolute.name == "metrics.h5" else absolute).parts)
    for depth in range(1, max(len(part) for part in parts) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(part[-1:])} ({i + 1})" for i, part in enumerate(parts)]


def load_runs(paths, journal=False):
    return [load_run(path, name, journal) for path, name in zip(paths, run_names(paths))]


# --- Numbers.


def smooths(count, share=0.02):
    """Whether smooth() does anything to so many values."""
    return count >= 10 and int(round(count * share)) >= 2


def smooth(values, share=0.02, weights=None):
    """A straight line fitted around each value, with bell-shaped weights about `share` of the values wide, times `weights`.
    Unlike a moving mean it does not bend the ends of a falling curve. NaNs are left out."""
    values = np.asarray(values, dtype=float)
    if not smooths(len(values), share):
        return values
    width = int(round(len(values) * share))
    reach = np.arange(-3 * width, 3 * width + 1)
    bell = np.exp(-0.5 * (reach / width) ** 2)
    known = np.isfinite(values) * (1.0 if weights is None else np.asarray(weights, dtype=float))
    filled = np.where(np.isfinite(values), values, 0.0) * known

    def sums(data, power):
        # Convolution mirrors its kernel, and the bell is even: only odd powers change sign.
        kernel = bell * (-reach.astype(float)) ** power
        return np.convolve(data, kernel, mode="full")[len(reach) // 2 :][: len(values)]

    s0, s1, s2 = (sums(known, power) for power in (0, 1, 2))
    t0, t1 = sums(filled, 0), sums(filled, 1)
    determinant = s0 * s2 - s1 * s1
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(determinant > 1e-9 * s0 * s2, (s2 * t0 - s1 * t1) / determinant, np.where(s0 > 0, t0 / s0, np.nan))


def batch_sizes(run):
    """Samples of an update: each row's mean, and each row's last update. The last batch of an epoch may be small; a row's
    loss is of all its updates, its gradient norm of the last one."""
    steps, epochs = np.asarray(run.steps["step"], dtype=float), np.asarray(run.steps["epoch"], dtype=float)
    samples = np.asarray(run.steps["samples"], dtype=float)
    updates = np.maximum(np.diff(steps, prepend=0), 1)
    means = samples / updates
    stated = settings(run).get("batch.global", "")
    usual = max(means.max(initial=0), float(stated) if stated.isdigit() else 0.0)
    # What a row lacks of whole batches is missing at the ends of its epochs.
    ends = np.floor(epochs + 1e-9) - np.floor(np.concatenate([[0.0], epochs[:-1]]) + 1e-9)
    lacking = (usual * updates - samples) / np.maximum(ends, 1)
    last = np.where(np.abs(epochs - np.round(epochs)) < 1e-9, usual - lacking, np.where(updates > 1, usual, means))
    return means, np.clip(last, 0, usual)


def curve(run, column):
    """The bold line of a column: its steps and values, smoothed with the samples as weights; and which rows were left out of
    it, as they tell of less than half a batch: their noise would pass for a jump."""
    values, steps = np.asarray(run.steps[column], dtype=float), np.asarray(run.steps["step"])
    means, last = batch_sizes(run)
    sizes = last if column == "gradient_norm" else means
    light = sizes < 0.5 * sizes.max(initial=0)
    weights = np.where(light, 0.0, last if column == "gradient_norm" else np.asarray(run.steps["samples"], dtype=float))
    bold = smooth(np.where(light, np.nan, values), weights=weights if weights.any() else None)
    return (steps, bold, light) if smooths(len(values)) else (steps[~light], values[~light], light)


LIGHT_ROWS = "of less than half a batch"


def draw_rows(axes, run, column, colour, label=None):
    """A column of the rows: each row faint, as far as there are many, and the bold line."""
    steps, values = np.asarray(run.steps["step"]), np.asarray(run.steps[column], dtype=float)
    at, bold, light = curve(run, column)
    if len(steps) >= 50:
        axes.plot(steps, values, color=colour, alpha=0.22, linewidth=0.8)
    elif light.any():
        told = LIGHT_ROWS in axes.get_legend_handles_labels()[1]
        axes.plot(steps[light], values[light], "o", color=colour, alpha=0.6, markersize=5, markerfacecolor="none",
                  label=None if told else LIGHT_ROWS)
    axes.plot(at, bold, color=colour, label=label)


def settings(run):
    """The resolved input as {"table.key": value}, values as they are written there."""
    table, found = "", {}
    for line in str(run.attributes.get("resolved_input", "")).splitlines():
        key, equals, value = line.partition(" = ")
        if line.startswith("["):
            table = line.strip("[] ")
        elif equals:
            found[f"{table}.{key.strip()}"] = value.strip()
    return found


def steady_rate(run, column):
    """Samples or tokens per second, without the first twentieth of the rows, where caches and threads warm up."""
    amounts, seconds = run.steps[column], run.steps["seconds"]
    skipped = len(seconds) // 20
    duration = float(np.sum(seconds[skipped:]))
    return float(np.sum(amounts[skipped:])) / duration if duration > 0 else math.nan


def metric_names(run):
    """Names of the run's metrics (loss apart), over all splits."""
    evaluated = [columns for columns in run.evaluations.values() if len(columns["step"]) > 0]
    names = dict.fromkeys(name for columns in evaluated for name in columns)
    return [name for name in names if name not in ("step", "loss", "confusion_matrix", "seconds", "samples", "tokens")]


def spoken(name):
    """A column's name for people."""
    known = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "f1": "F1", "mcc": "MCC"}
    return " ".join(known.get(word, word) for word in name.split("_"))


def minus(text):
    """With the minus sign for the hyphen before numbers."""
    return text.replace("-", "−")


def capital(text):
    return text[:1].upper() + text[1:]


def duration_text(seconds):
    if not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


# --- Pictures.


def colour(index):
    return COLOURS[index % len(COLOURS)]


def split_styles(runs):
    """{split: line style and marker}, the same for every run; a split evaluated once has a marker alone."""
    splits = sorted({split for run in runs for split in run.evaluations}, key=lambda split: (split != "validation", split))
    return {split: {"linestyle": LINE_STYLES[1 + number % (len(LINE_STYLES) - 1)], "marker": MARKERS[number % len(MARKERS)]}
            for number, split in enumerate(splits)}


def shortened(text, width):
    """The end tells runs apart."""
    return text if len(text) <= width else "…" + text[1 - width :]


def shared_legend(figure, runs, styles):
    """One legend below all panels: a run is a colour, what was measured a line style and marker. The figure grows by its
    height, so that the panels keep theirs."""
    width, height = figure.get_size_inches()
    names = [shortened(run.name, int(12 * width) - 8) for run in runs]
    groups = [[plt.Line2D([], [], color=colour(index), linewidth=4, label=name) for index, name in enumerate(names)],
              [plt.Line2D([], [], color="#444444", markerfacecolor="white", label=name, **style) for name, style in styles.items()]]
    longest = max(len(handle.get_label()) for group in groups for handle in group)
    # At 9 points a letter is about 0.07 inch wide, a line with its gaps 0.65 inch.
    columns = max(1, min(4, max(map(len, groups)), int(width / (0.65 + 0.07 * longest))))
    cells = []
    for group in groups:  # splits begin a row of their own
        cells += group + [plt.Line2D([], [], color="none", label=" ")] * (-len(group) % columns)
    rows = len(cells) // columns
    handles = [cells[row * columns + column] for column in range(columns) for row in range(rows)]
    figure.set_size_inches(width, height + 0.2 * rows)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9)


def title_of(kind, runs):
    """"Loss: quickstart", with the state of a run that is not finished."""
    if len(runs) > 1:
        return kind
    run = runs[0]
    return f"{kind}: {run.name}" + ("" if run.status == "finished" else f" ({run.status})")


def save(figure, name, output):
    """NAME.png and NAME.pdf in the folder; the same data give the same bytes."""
    paths = []
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None, "Creator": None})):
        path = output / (name + suffix)
        figure.savefig(path, metadata=metadata)
        paths.append(path)
    plt.close(figure)
    return paths


def file_name(text):
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def make_output(argument, runs):
    output = pathlib.Path(argument) if argument else runs[0].path / "report"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ReportError(f"Cannot make the folder '{output}': {problem.strerror}. Choose another with --output.") from None
    return output


def arguments(description, given=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="directory of a run; several are shown side by side")
    parser.add_argument("--output", metavar="DIR", help="where tables and pictures go (default: report/ in the first RUN)")
    parser.add_argument("--journal", action="store_true", help="read metrics.journal, which has the last rows before a kill")
    return parser.parse_args(given)


def guarded(action):
    """Runs `action`; errors of ours become one line and exit status 4."""
    try:
        return action()
    except (ReportError, OSError) as problem:
        print(f"{pathlib.Path(sys.argv[0]).name}: error: {problem}", file=sys.stderr)
        return 4


def main(draw, description, given=None):
    """Command line of a script that draws one kind of picture: draw(runs) gives (name, figure) pairs. The exit status."""

    def action():
        options = arguments(description, given)
        runs = load_runs(options.runs, options.journal)
        output = make_output(options.output, runs)
        pictures = draw(runs)
        if not pictures:
            print("Nothing to draw: the runs have no such data.")
        for name, figure in pictures:
            for path in save(figure, name, output):
                print(path)
        return 0

    return guarded(action)
