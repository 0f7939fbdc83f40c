"""A run's data: rows of steps and evaluations as numpy arrays, the settings of its input, and the selection of an
evaluation."""

import math

import numpy as np

from wording import metric_label, spoken

SCHEMA = "bert_hpc metrics 1"
LOSS_SCALE_COLUMNS = ["step", "scale", "skipped"]
EFFICIENCY_COLUMNS = ["step", "noise_scale", "efficiency", "goodput"]
STEP_COLUMNS = ["step", "epoch", "loss", "learning_rate", "gradient_norm", "samples", "tokens", "seconds", "skipped"]
INTEGER_COLUMNS = {"step", "samples", "tokens", "skipped", "computed_tokens"}


class ReportError(Exception):
    """An error that the user can correct; printed without a traceback."""


class Run:
    """One run's rows as numpy arrays; groups missing in the file are empty."""

    def __init__(self, path, name):
        self.path = path
        self.name = name
        self.attributes = {}
        self.steps = {column: np.array([]) for column in STEP_COLUMNS}
        self.evaluations = {}  # split -> {"step", "loss", metrics…, "confusion_matrix"}
        self.per_class = {}  # split -> {"precision", "recall", "f1", "support"}, each (evaluations, classes)
        self.per_type = {}  # the same of entity types
        self.metric_labels = {}  # a metric's name in words, where metrics.h5 says
        self.larger_is_better = {}  # of a metric, where metrics.h5 says
        self.efficiency = {column: np.array([]) for column in EFFICIENCY_COLUMNS}
        self.timers = {"name": [], "calls": [], "seconds_min": [], "seconds_avg": [], "seconds_max": []}
        self.ranks = {}
        self.planned_memory = {}  # purpose -> bytes of each rank
        self.profile = {}  # columns of /profile, of a run with [log] profile = true
        self.profile_facts = {}  # its attributes: first_step, steps, ranks, device, seconds, …
        self.rank_samples = {}  # seconds (rows); utilisation, power and memory (rows, ranks)
        self.loss_scale = {column: np.array([]) for column in LOSS_SCALE_COLUMNS}
        self.predictions = None
        self.failure = ""  # of a failed run, why
        self.has_metrics = True  # False if it failed before it wrote any; only comparisons show such a run

    @property
    def label_names(self):
        return [str(name) for name in self.attributes.get("label_names", [])]

    @property
    def rank_count(self):
        return len(self.ranks.get("host", []))

    @property
    def task(self):
        return str(self.attributes.get("task", ""))

    @property
    def computed_tokens(self):
        """Of each row, padding included; as many as tokens where a run of an older version does not say."""
        return self.steps.get("computed_tokens", self.steps["tokens"])

    @property
    def padding_share(self):
        """Of all computed tokens; 0 without padding or steps."""
        computed = float(np.sum(self.computed_tokens))
        return 1 - float(np.sum(self.steps["tokens"])) / computed if computed > 0 else 0.0

    @property
    def went_on(self):
        """True if it was stopped or killed and resumed: then ranks and timers are those of the last start only."""
        return len(self.attributes.get("restarts", [])) > 0

    @property
    def timed_seconds(self):
        """The wall time that the timers refer to, as in the table at the log's end; NaN if unknown."""
        return float(self.attributes.get("total_timed_seconds", math.nan))

    @property
    def has_device_times(self):
        """True if sections were also timed by the GPU's clock."""
        return bool(np.isfinite(np.asarray(self.timers.get("device_seconds_avg", []), dtype=float)).any())

    @property
    def section_seconds(self):
        """Least, mean and most seconds of each section over ranks, by the GPU's clock where the run has it."""
        clock = "device_seconds" if self.has_device_times else "seconds"
        return [np.asarray(self.timers[f"{clock}_{which}"], dtype=float) for which in ("min", "avg", "max")]

    @property
    def status(self):
        return str(self.attributes.get("status", "unknown"))


def settings(run):
    """The resolved input as {"table.key": value}, values as they are written in the file."""
    return settings_of(str(run.attributes.get("resolved_input", "")))


def settings_of(text):
    """The same of a file that a program of bert_hpc has resolved: each key and its value are one line."""
    table, found = "", {}
    for line in text.splitlines():
        key, equals, value = line.partition(" = ")
        if line.startswith("["):
            table = line.strip("[] ")
        elif equals:
            found[f"{table}.{key.strip()}"] = value.strip()
    return found


def metric_names(run):
    """Names of the run's metrics, without the loss, over all splits."""
    evaluated = [columns for columns in run.evaluations.values() if len(columns["step"]) > 0]
    names = dict.fromkeys(name for columns in evaluated for name in columns)
    return [name for name in names if name not in ("step", "loss", "confusion_matrix", "seconds", "samples", "tokens")]


def column_metrics(run):
    """{metric of one label column, such as "rmse_grammar": (the metric, the column)} of a regression on several columns."""
    if run.task != "regression" or len(run.label_names) < 2:
        return {}
    names = metric_names(run)
    return {f"{metric}_{column}": (metric, column) for metric in names for column in run.label_names if f"{metric}_{column}" in names}


def label_of(runs, metric):
    """A metric's display name, such as "macro F1"."""
    for run in runs:
        if any(metric in columns for columns in run.evaluations.values()):
            return spoken(metric_label(metric, run.task, run.metric_labels.get(metric)))
    return spoken(metric)


def in_order(splits):
    """The standard splits first, in the order of their use."""
    order = ("train", "validation", "test")
    return sorted(splits, key=lambda split: (order.index(split) if split in order else len(order), split))


# --- Selection of an evaluation.

SMALLER_IS_BETTER = ("loss", "rmse", "mae", "perplexity", "ece")  # the ends of names, for files that do not say


def larger_is_better(metric, run=None):
    said = run.larger_is_better if run else {}
    return said.get(metric, not metric.endswith(SMALLER_IS_BETTER))


def best_of(values, metric, run=None):
    """Index of the best value, the first of equal ones, or nothing where none is a number."""
    values = np.asarray(values, dtype=float)
    if not np.isfinite(values).any():
        return None
    values = np.where(np.isfinite(values), values, np.nan)
    return int(np.nanargmax(values) if larger_is_better(metric, run) else np.nanargmin(values))


def selecting_metric(run):
    """The metric of evaluation.best, or None."""
    return settings(run).get("evaluation.best", "").strip('"')


def best_step(run):
    """The step of a training run's best checkpoint, by validation and evaluation.best; None if its model is the last
    one."""
    if run.attributes.get("mode", "train") != "train":
        return None
    best, columns = selecting_metric(run), run.evaluations.get("validation", {})
    row = best_of(columns[best], best, run) if best in columns else None
    return None if row is None else int(columns["step"][row])


def chosen(run, split):
    """The selected evaluation of a split and its description: that of the best checkpoint, otherwise the last. So all
    values of a run come from one model."""
    steps = list(run.evaluations.get(split, {}).get("step", []))
    best = best_step(run)
    if not steps:
        return None, ""
    if split != "validation" and best in steps:
        return steps.index(best), "best checkpoint"
    if len(steps) == 1:
        return 0, "only one"
    if best in steps:
        return steps.index(best), f"best {label_of([run], selecting_metric(run))}"
    return len(steps) - 1, "last"


def described(run, split, row, which):
    """The description for a title: "best accuracy, step 1,370"."""
    step = int(run.evaluations[split]["step"][row])
    return ", ".join(([] if which == "only one" else [which]) + ([f"step {step:,}"] if step > 0 else []))
