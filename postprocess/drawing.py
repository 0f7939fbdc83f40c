"""The look of the pictures: colours, legends, sizes. Colours are those of Okabe and Ito ("Color universal design", 2008), which
people with any kind of colour vision can tell apart."""

import collections
import re

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)
from matplotlib.ticker import LogFormatterMathtext, LogFormatterSciNotation, MaxNLocator  # noqa: E402

import variants  # noqa: E402
from smoothing import curve  # noqa: E402
from wording import minus, shortened  # noqa: E402

# Black first for a single run; yellow is left out, as it is too faint for lines on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LINE_STYLES = ["-", "--", ":", "-."]
MARKERS = ["o", "s", "^", "D"]

matplotlib.rcParams.update(
    {
        "figure.dpi": 100,
        "savefig.dpi": 160,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 0.12,
        "figure.constrained_layout.h_pad": 0.12,
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "pdf.fonttype": 42,
        "text.parse_math": False,  # labels and names of metrics are shown as they are, dollar signs too
    }
)


def colour(index):
    return COLOURS[index % len(COLOURS)]


def palette(count):
    """As many colours, no two alike; many are shades from dark to light, so that they differ in grey too
    (the lightest are left out)."""
    if count <= len(COLOURS):
        return COLOURS[:count]
    return [matplotlib.colors.to_hex(plt.get_cmap("viridis")(0.85 * index / (count - 1))) for index in range(count)]


Look = collections.namedtuple("Look", "group colour width faint label")
FAINT_RUNS = 4  # of more, single rows would be a fog


def looks(runs):
    """{run's name: Look}: runs that differ in their seeds alone have one colour and thin lines. Made of all runs before any are
    left out, a run looks alike in every picture."""
    groups = variants.grouped(runs)
    found = {}
    for number, (members, name, shade) in enumerate(zip(groups, variants.labels_of(groups), palette(len(groups)))):
        width = 1.8 if len(members) == 1 else 1.1
        found.update((run.name, Look(number, shade, width, len(runs) <= FAINT_RUNS, name)) for run in members)
    return found


LIGHT_ROWS = "of less than half a batch"


def draw_rows(axes, run, column, look, label=None):
    """A column of the rows: each row faint, as far as there are many, and the bold line."""
    steps, values = np.asarray(run.steps["step"]), np.asarray(run.steps[column], dtype=float)
    at, bold, light = curve(run, column)
    if len(steps) >= 50:
        if look.faint:
            axes.plot(steps, values, color=look.colour, alpha=0.22, linewidth=0.8)
    elif light.any():
        told = LIGHT_ROWS in axes.get_legend_handles_labels()[1]
        axes.plot(steps[light], values[light], "o", color=look.colour, alpha=0.6, markersize=5, markerfacecolor="none",
                  label=None if told else LIGHT_ROWS)
    axes.plot(at, bold, color=look.colour, linewidth=look.width, label=label)


def light_style(axes):
    """The legend's entry for what draw_rows marks, if it has."""
    told = any(LIGHT_ROWS in panel.get_legend_handles_labels()[1] for panel in axes)
    return {LIGHT_ROWS: {"linestyle": "none", "marker": "o", "alpha": 0.6}} if told else {}


def draw_histogram(axes, values, middle, label):
    """With a line at their middle."""
    # Twice the Freedman-Diaconis width keeps small sets from looking ragged.
    axes.hist(values, bins=min(60, max(10, len(np.histogram_bin_edges(values, "fd")) // 2)), color=colour(0), edgecolor="white",
              linewidth=0.5)
    axes.axvline(middle, color=colour(1), linewidth=1.8, label=minus(label))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.15)
    axes.set(ylabel="Samples")


def split_styles(runs):
    """{split: line style and marker}, the same for every run; a split evaluated once has a marker alone."""
    splits = sorted({split for run in runs for split in run.evaluations}, key=lambda split: (split != "validation", split))
    lines = {split for run in runs for split, columns in run.evaluations.items() if len(columns["step"]) > 1}
    return {split: {"linestyle": LINE_STYLES[1 + number % (len(LINE_STYLES) - 1)] if split in lines else "none",
                    "marker": MARKERS[number % len(MARKERS)]} for number, split in enumerate(splits)}


def legend_below(figure, columns, **entries):
    """A legend below all panels, which leave it room: of itself matplotlib does so from 3.7 on, and Debian 12 has 3.6."""
    legend = figure.legend(loc="lower center", ncol=columns, **{"fontsize": 9} | entries)
    share = legend.get_window_extent(figure.canvas.get_renderer()).height / figure.bbox.height
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))


def shared_legend(figure, shown, styles=None):
    """One legend below all panels: a variant is a colour, what was measured a line style and marker. The figure grows by its
    height, so that the panels keep theirs."""
    width, height = figure.get_size_inches()
    named = {look.group: (shortened(look.label, int(12 * width) - 8), look.colour) for look in shown}
    groups = [[plt.Line2D([], [], color=colour, linewidth=4, label=name) for _, (name, colour) in sorted(named.items())],
              [plt.Line2D([], [], label=name, **{"color": "#444444", "markerfacecolor": "white"} | style)
               for name, style in (styles or {}).items()]]
    longest = max(len(handle.get_label()) for group in groups for handle in group)
    # At 9 points a letter is about 0.07 inch wide, a line with its gaps 0.65 inch.
    columns = max(1, min(4, max(map(len, groups)), int(width / (0.65 + 0.07 * longest))))
    cells = []
    for group in groups:  # splits begin a row of their own
        cells += group + [plt.Line2D([], [], color="none", label=" ")] * (-len(group) % columns)
    rows = len(cells) // columns
    handles = [cells[row * columns + column] for column in range(columns) for row in range(rows)]
    figure.set_size_inches(width, height + 0.2 * rows)
    legend_below(figure, columns, handles=handles)


SUPERSCRIPTS = str.maketrans("0123456789−-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


class Powers(LogFormatterSciNotation):
    """Ticks of a logarithmic axis in plain text (10², 2×10²), as mathematics is read nowhere."""

    def __call__(self, value, position=None):
        text = re.sub(r"^\$\\mathdefault\{(.*)\}\$$", r"\1", super().__call__(value, position)).replace(r"\times", "×")
        return re.sub(r"\^\{(.*?)\}", lambda power: power[1].translate(SUPERSCRIPTS), text)


def write_plain_powers(figure):
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            major, minor = axis.get_major_formatter(), axis.get_minor_formatter()
            if isinstance(major, LogFormatterMathtext):
                axis.set_major_formatter(Powers(axis.get_transform().base))
            if isinstance(minor, LogFormatterMathtext):
                axis.set_minor_formatter(Powers(axis.get_transform().base))


def save(figure, name, output):
    """NAME.png and NAME.pdf in the folder; the same data give the same bytes."""
    write_plain_powers(figure)
    paths = []
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None, "Creator": None})):
        path = output / (name + suffix)
        figure.savefig(path, metadata=metadata)
        paths.append(path)
    plt.close(figure)
    return paths
