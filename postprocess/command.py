"""The command line shared by all scripts here."""

import argparse
import pathlib
import sys

import packages  # first: it reports missing packages

import drawing
import reading
from rundata import ReportError


def default_output(runs, given):
    """report/ in the first run's folder, or in that of a grid if it is given or all runs are of one."""
    parents = {run.path.parent for run in runs}
    compared = len(runs) > 1 or any(reading.runs_of_grid(path) for path in given)
    return (parents.pop() if compared and len(parents) == 1 and reading.runs_of_grid(runs[0].path.parent) else runs[0].path) / "report"


def make_output(argument, runs, given=()):
    """`given`: the runs and grids of the command line."""
    output = pathlib.Path(argument) if argument else default_output(runs, given)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ReportError(f"Cannot make the folder '{output}': {problem.strerror}. Choose another with --output.") from None
    return output


def positive(text):
    value = float(text)
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a positive size")
    return value


def add_look(parser):
    """Adds the options for titles and sizes of every picture; returns their group."""
    look = parser.add_argument_group("pictures")
    look.add_argument("--title", metavar="TEXT", help="instead of the run's name in titles; '' for pictures without titles")
    look.add_argument("--width", type=positive, metavar="INCHES", help="width of every picture")
    look.add_argument("--font-size", type=positive, metavar="POINTS", help=f"size of text (default {drawing.FONT_SIZE})")
    return look


def add_style(parser):
    """Adds the options for the style of every picture."""
    look = add_look(parser)
    look.add_argument("--x", choices=["steps", "epochs"], default="steps", help="horizontal axis of the curves (default: steps)")
    look.add_argument("--metrics", metavar="all|NAME,...",
                      help="metrics in metrics.png (default: that of evaluation.best and the main one of the task)")
    look.add_argument("--counts", action="store_true", help="confusion matrices in counts instead of per cent")
    look.add_argument("--label-name", metavar="TEXT", help="what a regression predicts, for its axes")


def style_of(options):
    metrics = options.metrics.split(",") if options.metrics else None
    return drawing.Style(options.title, options.width, options.font_size, options.x, metrics, options.counts, options.label_name)


def parser_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN",
                        help="directory of a run, with the name that it has in legends, or of jobs/grid.sh; several runs are shown side by side")
    parser.add_argument("--output", metavar="DIR", help="where tables and pictures go (default: report/ in the first RUN or in the folder of a grid)")
    parser.add_argument("--journal", action="store_true", help="read metrics.journal, which has the last rows before a kill")
    add_style(parser)
    return parser


def guarded(action):
    """Runs `action`; an expected error (ReportError, OSError) becomes one line and exit status 4."""
    try:
        return action()
    except (ReportError, OSError) as problem:
        print(f"{pathlib.Path(sys.argv[0]).name}: error: {problem}", file=sys.stderr)
        return 4


def main(draw, description, given=None, needed=None):
    """Command line of a script that draws one kind of picture: draw(runs, style) yields (name, figure) pairs. `needed`
    describes the runs that the script needs, for the error message. Returns the exit status."""

    def action():
        options = parser_of(description).parse_args(given)
        style = style_of(options)
        runs = [run for run in reading.load_runs(options.runs, options.journal) if run.has_metrics]
        output = make_output(options.output, runs, options.runs)
        drawn = False
        with style.fonts():
            for name, figure in draw(runs, style):
                drawn = True
                for path in drawing.save(figure, name, output):
                    print(path)
        if not drawn:
            print("Nothing to draw: " + (f"this needs {needed}." if needed else "the runs have no such data."))
        return 0

    return guarded(action)
