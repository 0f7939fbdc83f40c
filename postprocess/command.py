"""The command line that every script here has."""

import argparse
import pathlib
import sys

import packages  # first, as it says which packages are missing

import drawing
import reading
from rundata import ReportError


def make_output(argument, runs):
    output = pathlib.Path(argument) if argument else runs[0].path / "report"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ReportError(f"Cannot make the folder '{output}': {problem.strerror}. Choose another with --output.") from None
    return output


def arguments(description, given=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="directory of a run; several are shown side by side")
    parser.add_argument("--output", metavar="DIR", help="where tables and pictures go (default: report/ in the first RUN)")
    parser.add_argument("--journal", action="store_true", help="read metrics.journal, which has the last rows before a kill")
    return parser.parse_args(given)


def guarded(action):
    """Runs `action`; errors of ours become one line and exit status 4."""
    try:
        return action()
    except (ReportError, OSError) as problem:
        print(f"{pathlib.Path(sys.argv[0]).name}: error: {problem}", file=sys.stderr)
        return 4


def main(draw, description, given=None, needed=None):
    """Command line of a script that draws one kind of picture: draw(runs) gives (name, figure) pairs. What is
    `needed` is said where there is none. The exit status."""

    def action():
        options = arguments(description, given)
        runs = reading.load_runs(options.runs, options.journal)
        output = make_output(options.output, runs)
        drawn = False
        for name, figure in draw(runs):
            drawn = True
            for path in drawing.save(figure, name, output):
                print(path)
        if not drawn:
            print("Nothing to draw: " + (f"this needs {needed}." if needed else "the runs have no such data."))
        return 0

    return guarded(action)
