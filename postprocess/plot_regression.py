"""Predicted against actual values and the histogram of errors, from predictions.h5 of a regression task."""

import sys
import textwrap

import command  # first: it reports missing packages

import numpy as np

import drawing
import predictions
import wording


def known_pairs(run):
    """(label column or "", actual and predicted values where both are known) of each label column; none for other tasks."""
    if run.predictions is None or run.predictions["task"] != "regression":
        return []
    actual = np.asarray(predictions.labels(run), dtype=float)
    predicted = np.asarray(run.predictions["prediction"], dtype=float)
    several = run.predictions["label_names"] if actual.ndim > 1 else [""]
    pairs = []
    for column, own, guess in zip(several, np.atleast_2d(actual.T), np.atleast_2d(predicted.T)):
        known = np.isfinite(own) & np.isfinite(guess)
        if known.sum() > 1:
            pairs.append((column, own[known], guess[known]))
    return pairs


def r_squared(actual, errors):
    spread = np.sum((actual - actual.mean()) ** 2)
    return 1 - np.sum(errors**2) / spread if spread > 0 else float("nan")


def warning_of(actual, predicted, r2):
    """A warning about a model that has learnt nothing; "" otherwise."""
    if predicted.std() < 0.02 * actual.std():
        return "The predictions are nearly all the same value."
    return "R² below 0: worse than predicting the mean of the labels." if r2 < -0.0005 else ""


def draw_scatter(figure, axes, actual, predicted, label):
    low, high = min(actual.min(), predicted.min()), max(actual.max(), predicted.max())
    room = 0.04 * (high - low or 1.0)
    limits = (low - room, high + room)
    if len(actual) > 4000:
        image = axes.hexbin(actual, predicted, gridsize=50, bins="log", cmap="Blues", mincnt=1, linewidths=0,
                            extent=(*limits, *limits))
        figure.colorbar(image, ax=axes, shrink=0.8, label="Samples in a cell")
    else:
        axes.plot(actual, predicted, "o", color=drawing.colour(0), alpha=0.35, markersize=5, markeredgewidth=0)
    axes.plot(limits, limits, color="black", linewidth=1, linestyle="--", label="predicted = actual")
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel=f"Actual {label}", ylabel=f"Predicted {label}")
    axes.legend(loc="upper left")


def draw_errors(axes, errors, label):
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    drawing.draw_histogram(axes, errors, errors.mean(), f"mean {errors.mean():+.3f}")
    axes.set(xlabel=f"Error in {label} (predicted − actual)" if label != "value" else "Error (predicted − actual)")
    axes.legend(loc="upper right")


def draw_run(run, column, actual, predicted, style):
    errors = predicted - actual
    r2 = r_squared(actual, errors)
    label = column or style.label_name or run.predictions.get("label_column") or "value"
    figure, (left, right) = style.subplots(1, 2, 10.5, 5)
    draw_scatter(figure, left, actual, predicted, label)
    draw_errors(right, errors, label)
    figures = (f"{len(errors):,} samples, RMSE {np.sqrt(np.mean(errors**2)):.3f}, MAE {np.mean(np.abs(errors)):.3f}, R² "
               + wording.minus(f"{r2:.3f}".replace("-0.000", "0.000")))
    figure.suptitle(style.title_of(f"Predicted against actual ({predictions.split_of(run)})", [run], figures))
    warning = warning_of(actual, predicted, r2)
    if warning:
        left.text(0.98, 0.02, textwrap.fill(warning, 34), transform=left.transAxes, ha="right", va="bottom", fontsize="small",
                  color=drawing.colour(1))
    return figure


def draw(runs, style=drawing.USUAL):
    """Yields one figure at a time, so that only one is open: there may be many."""
    for run in runs:
        for column, actual, predicted in known_pairs(run):
            name = "regression" + (f"-{run.name}" if len(runs) > 1 else "") + (f"-{column}" if column else "")
            yield wording.file_name(name), draw_run(run, column, actual, predicted, style)


if __name__ == "__main__":
    sys.exit(command.main(draw, __doc__))
