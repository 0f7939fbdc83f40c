"""One picture of several studies: a panel for each, in it the main measure of each row beside the published figure.

    python jobs/studies/overview.py study-essays study-parallel … --output studies.png
"""

import argparse
import csv
import math
import pathlib
import sys
import textwrap
from dataclasses import dataclass, field

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import drawing
from drawing import plt

LINE = 0.19  # inches of a row
AROUND = 1.1  # inches of a panel's title and axis
COLUMNS = 3


@dataclass
class Panel:
    """The overview.csv of a report."""

    title: str
    measure: str
    rows: list = field(default_factory=list)  # (label, mean, deviation, published); NaN: unknown

    @property
    def height(self):
        return AROUND + LINE * len(self.rows)


def read(folder):
    """The panel of a study's folder. Raises OSError or ValueError if there is no report."""
    path = pathlib.Path(folder) / "report" / "overview.csv"
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    if not lines:
        raise ValueError(f"{path} has no rows: no run of the study has finished")
    numbers = [(line["row"], *(float(line[key] or "nan") for key in ("mean", "deviation", "published"))) for line in lines]
    return Panel(lines[0]["study"], lines[0]["measure"], numbers)


def in_columns(panels, count):
    """The panels in at most so many columns of nearly equal height, the highest first; each keeps its order within a column."""
    columns = [[] for _ in range(min(count, len(panels)))]
    for panel in sorted(panels, key=lambda panel: -panel.height):
        min(columns, key=lambda column: sum(other.height for other in column)).append(panel)
    return [sorted(column, key=panels.index) for column in columns]


def draw_panel(axes, panel):
    positions = range(len(panel.rows))
    _, means, deviations, published = zip(*panel.rows)
    axes.barh(positions, means, xerr=[value if math.isfinite(value) else 0.0 for value in deviations], height=0.7, color=drawing.colour(0),
              error_kw={"elinewidth": 1.0}, label="bert_hpc")
    known = [(value, position) for position, value in enumerate(published) if math.isfinite(value)]
    if known:
        axes.plot(*zip(*known), "D", color=drawing.colour(1), markersize=5, label="published")
    axes.set_yticks(positions, [textwrap.shorten(row[0], 52, placeholder=" …") for row in panel.rows], fontsize="x-small")
    axes.set(ylim=(len(panel.rows) - 0.4, -0.6))
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.measure, fontsize="small")
    axes.tick_params(axis="x", labelsize="small")
    axes.grid(axis="y", visible=False)


def draw(panels):
    columns = in_columns(panels, COLUMNS)
    height = max(sum(panel.height for panel in column) for column in columns)
    figure = plt.figure(figsize=(5.6 * len(columns), height))
    grid = figure.add_gridspec(1, len(columns))
    for number, column in enumerate(columns):
        part = grid[number].subgridspec(len(column), 1, height_ratios=[panel.height for panel in column])
        for row, panel in enumerate(column):
            draw_panel(figure.add_subplot(part[row]), panel)
    entries = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels())}
    drawing.legend_below(figure, 2, handles=list(entries.values()), labels=list(entries))
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="the output folder of a study")
    parser.add_argument("--output", default="studies.png", metavar="FILE.png", help="default: studies.png; a PDF is beside it")
    given = parser.parse_args()
    panels, problems = [], []
    for folder in given.folders:
        try:
            panels.append(read(folder))
        except (OSError, ValueError, KeyError) as problem:
            problems.append(f"error: {folder}: {problem}; jobs/study-*.sh --report-only writes the report again")
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    output = pathlib.Path(given.output)
    for path in drawing.save(draw(panels), output.stem, output.parent):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
