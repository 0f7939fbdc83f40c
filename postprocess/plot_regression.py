"""Predicted against actual values and the histogram of errors, from predictions.h5 of a regression task."""

import sys

import command  # first, as it says which packages are missing

import matplotlib.pyplot as plt
import numpy as np

import drawing
import predictions
import wording


def known_pairs(run):
    """Actual and predicted values where both are known; nothing for other tasks."""
    if run.predictions is None or run.predictions["task"] != "regression":
        return None
    actual = np.asarray(predictions.labels(run), dtype=float)
    predicted = np.asarray(run.predictions["prediction"], dtype=float)
    known = np.isfinite(actual) & np.isfinite(predicted)
    return (actual[known], predicted[known]) if known.sum() > 1 else None


def draw_scatter(figure, axes, actual, predicted):
    low, high = min(actual.min(), predicted.min()), max(actual.max(), predicted.max())
    room = 0.04 * (high - low or 1.0)
    limits = (low - room, high + room)
    if len(actual) > 4000:
        image = axes.hexbin(actual, predicted, gridsize=50, bins="log", cmap="Blues", mincnt=1, linewidths=0,
                            extent=(*limits, *limits))
        figure.colorbar(image, ax=axes, shrink=0.8, label="Samples in a cell")
    else:
        axes.plot(actual, predicted, "o", color=drawing.colour(0), alpha=0.35, markersize=5, markeredgewidth=0)
    axes.plot(limits, limits, color="black", linewidth=1, linestyle="--", label="exact")
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel="Actual value", ylabel="Predicted value")
    axes.legend(loc="upper left")


def draw_errors(axes, errors):
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    drawing.draw_histogram(axes, errors, errors.mean(), f"mean {errors.mean():+.3f}")
    axes.set(xlabel="Error (predicted − actual)")
    axes.legend(loc="upper right")


def draw(runs):
    """One after the other, so that only one is open: there may be many."""
    for run in runs:
        pairs = known_pairs(run)
        if pairs is None:
            continue
        actual, predicted = pairs
        errors = predicted - actual
        spread = np.sum((actual - actual.mean()) ** 2)
        r2 = 1 - np.sum(errors**2) / spread if spread > 0 else float("nan")
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 5))
        draw_scatter(figure, left, actual, predicted)
        draw_errors(right, errors)
        figure.suptitle(f"Predicted against actual: {run.name}\n{len(errors):,} samples, RMSE {np.sqrt(np.mean(errors**2)):.3f}, "
                        f"MAE {np.mean(np.abs(errors)):.3f}, R² " + wording.minus(f"{r2:.3f}"))
        name = "regression" + (f"-{run.name}" if len(runs) > 1 else "")
        yield wording.file_name(name), figure


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
