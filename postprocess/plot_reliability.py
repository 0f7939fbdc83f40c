"""How often predictions of a classification are correct, by the probability of the predicted class, from predictions.h5 with labels:
bars of a calibrated model end at the diagonal. The expected calibration error in the title is the metric "ece" of metrics.h5."""

import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import predictions
import wording

BINS = 15  # of equal width, as in the metric


def bins_of(confidence, right):
    """(samples, mean confidence, share that is right) of each bin with samples, and the bins' numbers. Bin m, from 0, has
    m / BINS < confidence <= (m + 1) / BINS."""
    numbers = np.clip(np.ceil(np.asarray(confidence, dtype=float) * BINS).astype(int) - 1, 0, BINS - 1)
    counts = np.bincount(numbers, minlength=BINS)
    filled = np.flatnonzero(counts)
    means = [np.bincount(numbers, values, BINS)[filled] / counts[filled] for values in (confidence, right)]
    return counts[filled], *means, filled


def calibration_error(confidence, right):
    """Guo et al. 2017, equation 3."""
    counts, confidences, shares, _ = bins_of(confidence, right)
    return float(np.sum(counts * np.abs(shares - confidences)) / counts.sum())


def known_confidences(run):
    """Probability of the predicted class, and whether it is right, of samples with known labels; None for other runs."""
    data = run.predictions
    if data is None or data["task"] != "classification" or "probability" not in data:
        return None
    actual, confidence = predictions.labels(run), np.asarray(data["probability"], dtype=float)
    known = predictions.known(actual) & np.isfinite(confidence)
    return (confidence[known], (actual == data["prediction"])[known]) if known.any() else None


def draw_run(run, confidence, right, style):
    counts, confidences, shares, filled = bins_of(confidence, right)
    figure, (left, beside) = style.subplots(1, 2, 10.5, 5)
    middles, bin_width = (filled + 0.5) / BINS, 1 / BINS
    left.bar(middles, shares, bin_width, color=drawing.colour(0), edgecolor="white", linewidth=0.5, label="correct predictions")
    left.bar(middles, confidences - shares, bin_width, bottom=shares, facecolor="none", hatch="///", edgecolor=drawing.colour(1),
             linewidth=0.8, label="gap to the mean probability")
    left.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="calibrated")
    left.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="Probability of the predicted class", ylabel="Fraction correct")
    beside.bar(middles, 100 * counts / counts.sum(), bin_width, color=drawing.colour(0), edgecolor="white", linewidth=0.5)
    for value, name, colour, line in ((confidence.mean(), "mean probability", 1, "-"), (right.mean(), "accuracy", 2, "--")):
        beside.axvline(value, color=drawing.colour(colour), linestyle=line, label=f"{name} {value:.3f}")
    beside.set(xlim=(0, 1), xlabel="Probability of the predicted class", ylabel="% of the samples")
    beside.margins(y=0.15)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.45 * style.scale)
    handles = [handle for axes in (left, beside) for handle in axes.get_legend_handles_labels()[0]]
    drawing.legend_below(figure, 3, handles=handles)
    details = f"expected calibration error {calibration_error(confidence, right):.4f} on {len(right):,} samples"
    figure.suptitle(style.title_of(f"Reliability ({predictions.split_of(run)})", [run], details))
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        found = known_confidences(run)
        if found is not None:
            name = "reliability" + (f"-{run.name}" if len(runs) > 1 else "")
            yield wording.file_name(name), draw_run(run, *found, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
