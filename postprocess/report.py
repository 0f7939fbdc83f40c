"""Tables and pictures of one run of bert_hpc, or of several side by side.

  report.py RUN                    one run, finished or not
  report.py RUN RUN --output DIR   several in the same pictures, with scaling if their numbers of ranks differ, and
                                   means, standard errors and differences if their seeds differ
  report.py base=RUN large=RUN     the same, with custom names in legends
  report.py RUN --text SOURCE.csv  also predictions.csv with the texts, read from the input file of bert_hpc_prep

Writes into DIR (default: report/ in the first RUN): summary.md, steps.csv, evaluations.csv and other tables, and
each picture as PNG and PDF. Prints the summary. README.md in this folder explains every table and picture."""

import sys

import command  # first: it reports missing packages

import drawing
import errors
import plot_answers
import plot_confusion
import plot_efficiency
import plot_devices
import plot_loss
import plot_loss_scale
import plot_metrics
import plot_predictions
import plot_profile
import plot_ranking
import plot_ranks
import plot_regression
import plot_retrieval
import plot_reliability
import plot_scaling
import plot_schedule
import plot_seeds
import plot_throughput
import plot_timeline
import plot_timers
import reading
import source_text
import tables

PICTURES = [plot_loss, plot_metrics, plot_schedule, plot_confusion, plot_regression, plot_predictions, plot_ranking, plot_reliability,
            plot_retrieval, plot_answers, plot_timers, plot_profile, plot_ranks, plot_timeline, plot_throughput, plot_efficiency, plot_loss_scale, plot_devices, plot_scaling, plot_seeds]


def parse(given):
    parser = command.parser_of(__doc__)
    source_text.add_options(parser)
    return parser.parse_args(given)


def report(given=None):
    options = parse(given)
    style = command.style_of(options)
    runs = reading.load_runs(options.runs, options.journal)
    output = command.make_output(options.output, runs)
    sections, lists = errors.write_all(runs, options, output)
    text, paths = tables.write_all(runs, output, sections)
    paths += lists
    if options.text:
        paths += source_text.write_all(runs, options, output)
    print(text)
    with style.fonts():
        for module in PICTURES:
            for name, figure in module.draw(runs, style):
                paths += drawing.save(figure, name, output)
    print(f"\nIn {output}:")
    for path in paths:
        print(f"  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(report))
