"""Tables and pictures of one run of bert_hpc, or of several side by side.

  report.py RUN                  one run, finished or not
  report.py RUN RUN --output DIR   several in the same pictures, with scaling where their numbers of ranks differ, and
                                   means, standard errors and differences where their seeds differ

Writes into DIR (default: report/ in the first RUN): summary.md, *.csv, and each picture as PNG and PDF. Prints the summary."""

import sys

import command  # first, as it says which packages are missing

import drawing
import plot_confusion
import plot_efficiency
import plot_gpus
import plot_loss
import plot_loss_scale
import plot_metrics
import plot_predictions
import plot_ranks
import plot_regression
import plot_scaling
import plot_schedule
import plot_seeds
import plot_throughput
import plot_timeline
import plot_timers
import reading
import tables

PICTURES = [plot_loss, plot_metrics, plot_schedule, plot_confusion, plot_regression, plot_predictions, plot_timers, plot_ranks,
            plot_timeline, plot_throughput, plot_efficiency, plot_loss_scale, plot_gpus, plot_scaling, plot_seeds]


def report(given=None):
    options = command.arguments(__doc__, given)
    runs = reading.load_runs(options.runs, options.journal)
    output = command.make_output(options.output, runs)
    text, paths = tables.write_all(runs, output)
    print(text)
    for module in PICTURES:
        for name, figure in module.draw(runs):
            paths += drawing.save(figure, name, output)
    print(f"\nIn {output}:")
    for path in paths:
        print(f"  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(report))
