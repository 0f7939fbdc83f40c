"""Tables and pictures of one run of bert_hpc, or of several side by side.

  report.py RUN                    one run, finished or not
  report.py RUN RUN --output DIR   several in the same pictures, with scaling if their numbers of ranks differ, and
                                   means, standard errors and differences if their seeds differ
  report.py base=RUN large=RUN     the same, with custom names in legends
  report.py DIRECTORY              the same of all runs of jobs/grid.sh in DIRECTORY, into DIRECTORY/report
  report.py RUN --text SOURCE.csv  also predictions.csv with the texts, read from the input file of bert_hpc_prep

Writes into DIR (default: report/ in the first RUN): summary.md, steps.csv, evaluations.csv and other tables, and
each picture as PNG and PDF. Prints the summary. README.md in this folder explains every table and picture."""

import sys
import textwrap

import command  # first: it reports missing packages

import comparison
import drawing
import errors
import plot_answers
import plot_classes
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
import plot_tradeoff
import prepared_text
import reading
import source_text
import tables

PICTURES = [plot_loss, plot_metrics, plot_tradeoff, plot_schedule, plot_confusion, plot_classes, plot_regression, plot_predictions,
            plot_ranking, plot_reliability, plot_retrieval, plot_answers, plot_timers, plot_profile, plot_ranks, plot_timeline,
            plot_throughput, plot_efficiency, plot_loss_scale, plot_devices, plot_scaling, plot_seeds]


def parse(given):
    parser = command.parser_of(__doc__)
    source_text.add_options(parser)
    return parser.parse_args(given)


def listed(paths, output):
    """The names of the files, pictures without their two endings."""
    pictures = [path.stem for path in paths if path.suffix == ".png"]
    lines = [f"In {output}: " + ", ".join(path.name for path in paths if path.suffix not in (".png", ".pdf"))]
    lines += ["Pictures (.png and .pdf): " + ", ".join(pictures)] * bool(pictures)
    return "\n".join(textwrap.fill(line, comparison.WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def report(given=None):
    options = parse(given)
    style = command.style_of(options)
    runs = reading.load_runs(options.runs, options.journal)
    output = command.make_output(options.output, runs, options.runs)
    drawn = [run for run in runs if run.has_metrics]
    sections, lists = errors.write_all(drawn, options, output)
    text, paths = tables.write_all(runs, output, sections)
    paths += lists
    if options.text:
        for run in drawn:
            prepared_text.warn_of_other_files(run, options.text)
        paths += source_text.write_all(drawn, options, output)
    print(text)
    with style.fonts():
        for module in PICTURES if drawn else ():
            for name, figure in module.draw(drawn, style):
                paths += drawing.save(figure, name, output)
    print("\n" + listed(paths, output))
    if comparison.failure_lines(runs):
        print("\n" + "\n".join(comparison.failure_lines(runs)))
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(report))
