"""Several runs side by side: a line for each, with its score, trained parameters, speed and memory, and both relative to the
first run that finished. What is equal in all runs is said once; a run that failed keeps its line, and says why."""

import collections
import math
import textwrap

import facts
import rundata
import smoothing
import variants
import wording
import writing

WIDTH = 100  # columns of a terminal
SHORTEST_NAME = 12
MOST_COLUMNS = 8
# Of a task, the metrics that a comparison shows if evaluation.best names none, the first one that is known.
MAIN = {"classification": ("accuracy",), "regression": ("rmse",), "token_classification": ("entity_f1", "f1"), "question_answering": ("f1",),
        "answer_ranking": ("map",), "multi_label": ("micro_f1",), "masked_lm": ("perplexity",), "masked_lm_pairs": ("perplexity",),
        "causal_lm": ("perplexity",)}

Score = collections.namedtuple("Score", "split metric label")


def value_of(run, split, metric):
    """The value of a run's selected evaluation; NaN without one."""
    row, columns = rundata.chosen(run, split)[0], run.evaluations.get(split, {})
    return float(columns[metric][row]) if row is not None and row < len(columns.get(metric, ())) else math.nan


def score_of(runs):
    """The score that all runs with evaluations have: of the test split if all have it, by evaluation.best or the main metric of
    the task. None without one."""
    evaluated = [run for run in runs if any(len(columns["step"]) for columns in run.evaluations.values())]
    if not evaluated:
        return None
    first = evaluated[0]
    wanted = [*(rundata.selecting_metric(run) for run in evaluated), *MAIN.get(first.task, ()), *rundata.metric_names(first), "loss"]
    for split in sorted(rundata.in_order(first.evaluations), key=lambda split: split != "test"):
        for metric in wanted:
            if all(math.isfinite(value_of(run, split, metric)) for run in evaluated):
                return Score(split, metric, f"{rundata.label_of(evaluated, metric)} ({split})")
    return None


def peak_memory(run):
    """Bytes of the rank that took most; NaN if unknown."""
    found = max(map(float, run.ranks.get("peak_memory", ())), default=math.nan)
    return found if found > 0 else math.nan


def rate_of(run):
    return smoothing.steady_rate(run, "tokens") if len(run.steps["step"]) else math.nan


def baseline_of(runs):
    """The first run that finished, otherwise the first one."""
    return next((run for run in runs if run.status == "finished"), runs[0])


def ratio_text(value, base):
    return wording.rate_text(value / base) if math.isfinite(value) and base > 0 else "–"


def columns_of(runs):
    """{header: a cell for each run}, without columns that no run has values for."""
    base, score = baseline_of(runs), score_of(runs)
    columns = {"run": [run.name for run in runs], "status": [run.status for run in runs]}
    if score:
        columns[score.label] = [writing.number(value_of(run, score.split, score.metric)) for run in runs]
    columns["trained parameters"] = [writing.number(run.attributes.get("trained_parameters")) for run in runs]
    columns["tokens/s"] = [wording.rate_text(rate_of(run)) for run in runs]
    columns["peak memory"] = [wording.bytes_text(peak_memory(run)) if math.isfinite(peak_memory(run)) else "–" for run in runs]
    columns["speed ratio"] = [ratio_text(rate_of(run), rate_of(base)) for run in runs]
    columns["memory ratio"] = [ratio_text(peak_memory(run), peak_memory(base)) for run in runs]
    return {header: cells for header, cells in columns.items() if header == "run" or any(cell != "–" for cell in cells)}


def equal_facts(runs):
    """{label: text} of what is equal in all runs; runs without metrics have a status alone."""
    found = [{own.label: own.text for own in facts.of_run(run, alone=False)} for run in runs if run.has_metrics]
    if len(found) < 2:
        return {}
    equal = {label: text for label, text in found[0].items() if text != "–" and all(own.get(label) == text for own in found[1:])}
    equal.pop("started (UTC)", None)
    if len(found) < len(runs):
        equal.pop("status", None)
    return equal


LABELS = {"peak memory": "peak memory per rank (maximum)", "memory ratio": "peak memory per rank (maximum)"}


def table(runs, equal):
    """Header and rows of the comparison, without columns that say the same of all runs."""
    columns = {header: cells for header, cells in columns_of(runs).items() if header == "run" or LABELS.get(header, header) not in equal}
    return list(columns), [list(row) for row in zip(*columns.values())]


def keys_of_table(runs):
    """Of the facts that the comparison itself shows."""
    score = score_of(runs)
    return {"status", "error", "trained_parameters", "tokens_per_second", "peak_memory_bytes", f"{score.split}_{score.metric}" if score else ""}


def details(runs, equal):
    """More tables with a line for each run, of at most MOST_COLUMNS columns: all other facts that differ."""
    above = keys_of_table(runs)
    found = [{own.label: own.text for own in facts.of_run(run, alone=False) if own.key not in above} for run in runs]
    labels = [label for label in dict.fromkeys(label for own in found for label in own)
              if label not in equal and any(own.get(label, "–") != "–" for own in found)]
    step = MOST_COLUMNS - 1
    return [(["run", *part], [[run.name, *(own.get(label, "–") for label in part)] for run, own in zip(runs, found)])
            for part in (labels[begin : begin + step] for begin in range(0, len(labels), step))]


def own_settings(runs):
    """For each run, the settings in which it differs from most of the others. A table of settings that only few runs have, all with
    the same value, follows from another setting."""
    inputs = [variants.identity(run, ("run.directory", "run.max_walltime")) if run.has_metrics else {} for run in runs]
    present = [own for own in inputs if own]
    usual, follows = {}, set()
    for key in sorted({key for own in present for key in own}):
        counts = collections.Counter(own.get(key) for own in present)
        usual[key] = counts.most_common(1)[0][0]  # of equal counts the first
        if usual[key] is None and len(counts) == 2:
            follows.add(key)
    found = []
    for own in inputs:
        differing = [key for key in usual if own and own.get(key) != usual[key]]
        differing = [key for key in differing if key not in follows] or differing
        found.append([f"{key} = {own.get(key, 'not set')}" for key in differing])
    return found


def failed(runs):
    """Sentences about the runs that failed."""
    return [f"{run.name}: {run.failure}" for run in runs if run.failure]


def equal_text(runs, equal):
    """What is equal in all runs, in one sentence."""
    which = "In all runs" if all(run.has_metrics for run in runs) else "In all runs with results"
    return f"{which}: " + ", ".join(f"{label} {text}" for label, text in equal.items()) + "."


def ratio_note(runs, header):
    return f"Ratios are to {baseline_of(runs).name}." if any(name.endswith("ratio") for name in header) else ""


def failure_lines(runs):
    sentences = failed(runs)
    return [f"{len(sentences)} of {len(runs)} runs failed:", *(f"- {sentence}" for sentence in sentences)] if sentences else []


def as_text(runs):
    """The comparison for a terminal; a header is broken into lines, and names are cut where the table would be too wide."""
    equal = equal_facts(runs)
    header, rows = table(runs, equal)
    lines = [name.replace(" ", "\n") for name in header]
    excess = writing.width_of(writing.as_text(lines, rows)) - WIDTH
    if excess > 0:
        width = max(SHORTEST_NAME, max(len(run.name) for run in runs) - excess)
        rows = [[wording.shortened(name, width), *cells] for name, *cells in rows]
    blocks = [textwrap.fill(equal_text(runs, equal), WIDTH)] * bool(equal) + [writing.as_text(lines, rows)]
    blocks += [ratio_note(runs, header)] * bool(ratio_note(runs, header))
    return "\n\n".join(blocks)


def as_markdown(runs):
    """The text of comparison.md without its title."""
    equal = equal_facts(runs)
    header, rows = table(runs, equal)
    parts = [writing.as_markdown(header, rows, "summary"), ratio_note(runs, header), equal_text(runs, equal) if equal else ""]
    settings = own_settings(runs)
    if any(settings):
        lines = [[run.name, ", ".join(f"`{setting}`" for setting in own) or "nothing: it has the settings of most runs"] for run, own in zip(runs, settings)
                 if run.has_metrics]
        parts += ["### Settings", writing.as_markdown(["run", "differs in"], lines, "summary")]
    parts += ["### Failed runs", "\n".join(failure_lines(runs)[1:])] if failed(runs) else []
    return "\n\n".join(part for part in parts if part)


def details_as_markdown(runs):
    """The other facts, for summary.md."""
    equal = equal_facts(runs)
    return "\n\n".join(writing.as_markdown(header, rows, "summary") for header, rows in details(runs, equal))
