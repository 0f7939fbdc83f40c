"""Functions of a run for the columns of a study's table. Each returns a number, NaN where the run has none."""

import math
import re

import numpy as np

import harness  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import rundata
import smoothing


def metric(split, name):
    """A measure's function: the chosen evaluation's metric of a split."""

    def of(run):
        columns = run.evaluations.get(split, {})
        row, _ = rundata.chosen(run, split)
        return float(columns[name][row]) if name in columns and row is not None else math.nan

    return of


def runtime(run):
    """Seconds in training steps."""
    return float(np.sum(run.steps["seconds"]))


def steps(run):
    return float(run.steps["step"][-1]) if len(run.steps["step"]) else math.nan


def rate(run):
    """Sequences per second, without the first steps."""
    return smoothing.steady_rate(run, "samples")


def peak_memory(run):
    """MiB of the rank that took most."""
    memory = run.ranks.get("peak_memory", [])
    return float(np.max(memory)) / 2**20 if len(memory) else math.nan


def of_samples(name):
    """The mean over ranks and time of a series of the GPUs: utilisation (per cent) or power (watts)."""

    def of(run):
        values = np.asarray(run.rank_samples.get(name, []), dtype=float)
        return float(np.nanmean(values)) if values.size and np.isfinite(values).any() else math.nan

    return of


def of_efficiency(name):
    """The mean over the training of statistical efficiency or goodput."""

    def of(run):
        values = np.asarray(run.efficiency.get(name, []), dtype=float)
        return float(np.nanmean(values)) if values.size and np.isfinite(values).any() else math.nan

    return of


def total(name):
    """An attribute total_NAME of metrics.h5."""
    return lambda run: float(run.attributes.get(f"total_{name}", math.nan))


def banner_line(run, name):
    """What the first lines of a run's log say of something."""
    try:
        with open(run.path / "log.txt", encoding="utf-8", errors="replace") as log:
            return next((line.split(maxsplit=1)[1] for line in log if line.startswith(f"  {name} ")), "")
    except OSError:
        return ""


def trained(run):
    """Trained parameters, of all if the log names no others."""
    found = re.match(r"(\d[\d,]*\b)(?:, of which (\d[\d,]*\b) are trained)?", banner_line(run, "parameters"))
    return float((found.group(2) or found.group(1)).replace(",", "")) if found else math.nan


UNITS = {"B": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 2**10, "TiB": 2**20}


def planned(*names):
    """MiB per rank that a run planned for some parts of its memory."""

    def of(run):
        line = banner_line(run, "memory")
        found = {name.strip(): float(number) * UNITS[unit] for name, number, unit in re.findall(r"([a-z][a-z ]+) ([\d.]+) ([KMGT]?i?B)\b", line)}
        return sum(found.get(name, 0.0) for name in names) if found else math.nan

    return of


def device_time(run):
    """Seconds in kernels, products and copies of a profiled step, from /profile."""
    seconds = np.asarray(run.profile.get("seconds_avg", []), dtype=float)
    return float(np.nansum(seconds)) / float(run.profile_facts.get("steps", 1)) if seconds.size else math.nan
