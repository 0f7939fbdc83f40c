"""Functions of a run for the columns of a study's table. Each returns a number, NaN if the run has none."""

import math

import numpy as np

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import comparison
import smoothing


def metric(split, name):
    """A measure's function: the chosen evaluation's metric of a split."""
    return lambda run: comparison.value_of(run, split, name)


def runtime(run):
    """Seconds in training steps."""
    return float(np.sum(run.steps["seconds"]))


def epoch_seconds(run):
    """Seconds of an epoch in training steps."""
    epochs = float(run.steps["epoch"][-1]) if len(run.steps["epoch"]) else math.nan
    return runtime(run) / epochs


def steps(run):
    return float(run.steps["step"][-1]) if len(run.steps["step"]) else math.nan


def rate(run):
    """Sequences per second, without the first steps."""
    return smoothing.steady_rate(run, "samples")


def peak_memory(run):
    """MiB of the rank that took most."""
    memory = peak_of_ranks(run)
    return float(np.nanmax(memory)) if np.isfinite(memory).any() else math.nan


def of_samples(name, factor=1.0):
    """The mean over ranks and time of a series, times a factor: utilisation (0 to 1), memory (bytes) or power (watts)."""

    def of(run):
        values = np.asarray(run.rank_samples.get(name, []), dtype=float)
        return factor * float(np.nanmean(values)) if values.size and np.isfinite(values).any() else math.nan

    return of


def of_ranks(run, name, factor=1.0):
    """The mean of such a series for each rank (ranks)."""
    values = np.asarray(run.rank_samples.get(name, []), dtype=float)
    if values.ndim != 2:
        return np.full(run.rank_count, math.nan)
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0).sum(axis=0), known.sum(axis=0)
    return factor * np.divide(sums, counts, out=np.full(values.shape[1], math.nan), where=counts > 0)


def peak_of_ranks(run):
    """Peak memory of each rank in MiB (ranks): of its GPU, or resident."""
    for name in ("gpu_memory", "peak_memory"):
        memory = np.asarray(run.ranks.get(name, []), dtype=float)
        if np.isfinite(memory).any():
            return memory / 2**20
    return np.full(run.rank_count, math.nan)


def most_of_ranks(run):
    """The most memory of each rank in MiB (ranks): its peak or its largest sample, which on CPUs counts what ranks
    share."""
    peak, samples = peak_of_ranks(run), np.asarray(run.rank_samples.get("memory", []), dtype=float)
    if samples.ndim != 2 or samples.shape[1] != len(peak):
        return peak
    return np.fmax(peak, np.fmax.reduce(samples, axis=0) / 2**20)


def of_efficiency(name):
    """The mean over the training of statistical efficiency or goodput."""

    def of(run):
        values = np.asarray(run.efficiency.get(name, []), dtype=float)
        return float(np.nanmean(values)) if values.size and np.isfinite(values).any() else math.nan

    return of


def total(name):
    """An attribute total_NAME of metrics.h5."""
    return lambda run: float(run.attributes.get(f"total_{name}", math.nan))


def trained(run):
    return float(run.attributes.get("trained_parameters", math.nan))


def planned(*purposes):
    """MiB that a run planned for some purposes, of the rank with the most."""

    def of(run):
        known = [run.planned_memory[purpose] for purpose in purposes if purpose in run.planned_memory]
        return float(np.max(np.sum(known, axis=0))) / 2**20 if known else math.nan

    return of


def device_time(run):
    """Seconds in kernels, products and copies of a profiled step, from /profile."""
    seconds = np.asarray(run.profile.get("seconds_avg", []), dtype=float)
    return float(np.nansum(seconds)) / float(run.profile_facts.get("steps", 1)) if seconds.size else math.nan
