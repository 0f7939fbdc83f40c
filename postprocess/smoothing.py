"""Curves from the rows of steps: smoothing, batch sizes, rates."""

import math

import numpy as np

from rundata import settings


def smooths(count, share=0.02):
    """True if smooth() changes this many values."""
    return count >= 10 and int(round(count * share)) >= 2


def smooth(values, share=0.02, weights=None):
    """Fits a straight line around each value, with bell-shaped weights about `share` of the values wide, times
    `weights`. Unlike a moving mean it does not bend the ends of a falling curve. NaNs are skipped."""
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


def updates_of(run):
    """Updates of each row. If metrics begin after step 1, as in a run that starts from another's checkpoint, those of
    the first row follow from its samples."""
    steps, samples = (np.asarray(run.steps[name], dtype=float) for name in ("step", "samples"))
    updates = np.maximum(np.diff(steps, prepend=0), 1)
    if len(updates) > 1 and updates[0] > updates[1:].max():
        batch = max(np.max(samples[1:] / updates[1:]), 1)
        updates[0] = np.clip(np.ceil(samples[0] / batch), 1, updates[0])  # its last batch may be small
    return updates


def batch_sizes(run):
    """Samples per update: each row's mean, and each row's last update. The last batch of an epoch may be small; a
    row's loss covers all its updates, its gradient norm only the last one."""
    steps, epochs = np.asarray(run.steps["step"], dtype=float), np.asarray(run.steps["epoch"], dtype=float)
    samples, updates = np.asarray(run.steps["samples"], dtype=float), updates_of(run)
    means = samples / updates
    stated = settings(run).get("batch.global", "")
    usual = max(means.max(initial=0), float(stated) if stated.isdigit() else 0.0)
    # A row's deficit relative to whole batches belongs to the ends of its epochs.
    begins = np.concatenate([epochs[:1] * (1 - updates[:1] / steps[:1]), epochs[:-1]])
    ends = np.floor(epochs + 1e-9) - np.floor(begins + 1e-9)
    lacking = (usual * updates - samples) / np.maximum(ends, 1)
    last = np.where(np.abs(epochs - np.round(epochs)) < 1e-9, usual - lacking, np.where(updates > 1, usual, means))
    return means, np.clip(last, 0, usual)


def samples_trained_on(run):
    """Approximate samples per row: all samples less those of skipped updates, at the mean batch size. The row's loss
    covers these."""
    samples, skipped = np.asarray(run.steps["samples"], dtype=float), np.asarray(run.steps["skipped"], dtype=float)
    if len(skipped) != len(samples):  # from a version that did not count them
        return samples
    return samples * np.clip(1 - skipped / updates_of(run), 0, 1)


def curve(run, column):
    """The bold line of a column: its steps and values, smoothed with the samples as weights; and a mask of excluded
    rows, those of less than half a batch, whose noise would look like a jump."""
    values, steps = np.asarray(run.steps[column], dtype=float), np.asarray(run.steps["step"])
    means, last = batch_sizes(run)
    sizes = last if column == "gradient_norm" else means
    light = sizes < 0.5 * sizes.max(initial=0)
    weights = np.where(light, 0.0, last if column == "gradient_norm" else samples_trained_on(run))
    bold = smooth(np.where(light, np.nan, values), weights=weights if weights.any() else None)
    return (steps, bold, light) if smooths(len(values)) else (steps[~light], values[~light], light)


def steady_rate(run, column):
    """Samples or tokens per second, without the first twentieth of the rows, in which caches and threads warm up."""
    amounts, seconds = run.steps[column], run.steps["seconds"]
    skipped = len(seconds) // 20
    duration = float(np.sum(seconds[skipped:]))
    return float(np.sum(amounts[skipped:])) / duration if duration > 0 else math.nan
