"""The style of the pictures: colours, legends, sizes. Colours are those of Okabe and Ito ("Color universal design",
2008), which readers with any kind of colour vision can distinguish."""

import collections
import dataclasses
import re
import textwrap

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)
from matplotlib.ticker import LogFormatterMathtext, LogFormatterSciNotation, MaxNLocator  # noqa: E402

import rundata  # noqa: E402
import variants  # noqa: E402
from smoothing import curve  # noqa: E402
from wording import minus, shortened, titled  # noqa: E402

# Without yellow, which is too faint for lines on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
# A role has the same colour in every picture of one run, and the same line and marker in every picture of several.
ROLES = {"training": (COLOURS[0], "-", None), "validation": (COLOURS[1], "--", "o"), "test": (COLOURS[2], ":", "s")}
OTHER_ROLES = [(COLOURS[3], "-.", "^"), (COLOURS[4], (0, (5, 1, 1, 1, 1, 1)), "D"), (COLOURS[5], (0, (1, 3)), "v")]
FONT_SIZE = 11  # points
NARROW = 2.8  # inches; a panel beside another needs more
LABELS = 1.3  # inches of a picture's height taken by title and labels

matplotlib.rcParams.update(
    {
        "figure.dpi": 100,
        "savefig.dpi": 160,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 0.12,
        "figure.constrained_layout.h_pad": 0.12,
        "font.size": FONT_SIZE,
        "axes.titlesize": "large",
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
        "text.parse_math": False,  # show labels and names of metrics literally, including dollar signs
    }
)


@dataclasses.dataclass(frozen=True)
class Style:
    """The style options of the command line; sizes that are not set are None."""

    title: str | None = None  # instead of the run's name; "": no titles
    width: float | None = None  # inches
    font_size: float | None = None  # points
    x: str = "steps"  # or "epochs"
    metrics: list | None = None  # names, or ["all"]
    counts: bool = False
    label_name: str | None = None

    def fonts(self):
        """The drawing context; text sizes are relative to this font size."""
        return matplotlib.rc_context({"font.size": self.font_size or FONT_SIZE})

    def title_of(self, kind, runs, details=""):
        return "" if self.title == "" else titled(kind, runs, self.title) + (f"\n{details}" if details else "")

    @property
    def scale(self):
        """Text size relative to the default."""
        return (self.font_size or FONT_SIZE) / FONT_SIZE

    def subplots(self, rows, columns, width, height, **options):
        """plt.subplots at the default size in inches, or at the requested width: panels scale in proportion, titles
        and labels with the text. Two panels too narrow to stand side by side are stacked."""
        own = self.width or width
        if columns > 1 and own / columns < NARROW * self.scale:
            height *= columns * own / (width / columns)
            rows, columns = rows * columns, 1
        else:
            height *= own / width
        if self.width or self.font_size:
            around = LABELS * (self.scale - own / width)
            height += max(0.0, around)
        return plt.subplots(rows, columns, figsize=(own, height), **options)

    def bars(self, rows, columns, width, height, **options):
        """The same for pictures with lines of text below each other, whose height does not depend on the width."""
        return plt.subplots(rows, columns, figsize=(self.width or width, height * self.scale), **options)


USUAL = Style()


def colour(index):
    return COLOURS[index % len(COLOURS)]


def role(name, others=()):
    """(colour, line style, marker) of a split, or of "training". `others` are all splits of the picture."""
    if name in ROLES:
        return ROLES[name]
    beside = sorted(set(others) - set(ROLES))
    return OTHER_ROLES[beside.index(name) % len(OTHER_ROLES) if name in beside else 0]


# Of more variants than colours, line after line of the palette has another style.
LINES = ["-", (0, (4.5, 1.3)), (0, (1, 1.1)), (0, (5, 1.2, 1, 1.2)), (0, (2.5, 1)), (0, (5, 1, 1, 1, 1, 1))]


def palette(count):
    """Colours of `count` things; of more than there are, they begin again."""
    return [colour(index) for index in range(count)]


Look = collections.namedtuple("Look", "group colour width faint label line", defaults=("-",))
FAINT_RUNS = 4  # with more runs, single rows would only be a fog


def looks(runs):
    """{run's name: Look}: runs that differ only in their seeds share one colour and line style and get thin lines. Computed from
    all runs before any are excluded, so that a run looks the same in every picture."""
    groups = variants.grouped(runs)
    found = {}
    for number, (members, name) in enumerate(zip(groups, variants.labels_of(groups))):
        width = 1.8 if len(members) == 1 else 1.1
        line = LINES[number // len(COLOURS) % len(LINES)]
        found.update((run.name, Look(number, colour(number), width, len(runs) <= FAINT_RUNS, name, line)) for run in members)
    return found


def are_many(looks):
    """True if variants differ in line style too: then splits can differ in their markers only."""
    return any(look.line != "-" for look in looks)


def alone(values):
    """Marks points without a neighbour, which have no line."""
    known = np.isfinite(values)
    return known & ~np.append(known[1:], False) & ~np.insert(known[:-1], 0, False)


def draw_curve(axes, x, y, look, label=None, marker=None):
    """Draws a curve, with a marker at points that no line reaches."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    axes.plot(x, y, color=look.colour, linewidth=look.width, linestyle=look.line, marker=marker or ("o" if len(x) == 1 else None), markersize=4,
              label=label)
    single = alone(y)
    if not marker and len(x) > 1 and single.any():
        axes.plot(x[single], y[single], "o", color=look.colour, markersize=4)


LIGHT_ROWS = "rows of less than half a batch"


def steps_per_epoch(run):
    """Updates per epoch, from the rows; 0 if unknown."""
    steps, epochs = run.steps["step"], run.steps["epoch"]
    return float(steps[-1]) / float(epochs[-1]) if len(steps) and len(epochs) and epochs[-1] > 0 else 0.0


def x_of(run, steps, style):
    """Positions of steps on the horizontal axis."""
    per_epoch = steps_per_epoch(run)
    return np.asarray(steps) / per_epoch if style.x == "epochs" and per_epoch > 0 else np.asarray(steps)


def x_label(style):
    return "Epoch" if style.x == "epochs" else "Step"


def whole_steps(axes, style):
    if style.x == "steps":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def add_epochs(axes, runs, style):
    """Adds a second scale in epochs at the top, if it is the same for all runs."""
    lengths = {round(steps_per_epoch(run), 6) for run in runs}
    longest = max((float(run.steps["epoch"][-1]) for run in runs), default=0.0)
    if style.x == "epochs" or len(lengths) != 1 or 0.0 in lengths or longest < 1:
        return
    length = lengths.pop()
    top = axes.secondary_xaxis("top", functions=(lambda step: step / length, lambda epoch: epoch * length))
    top.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    top.set_xlabel("Epoch", fontsize="small")
    top.tick_params(labelsize="small")


def draw_rows(axes, run, column, look, label=None, style=USUAL):
    """Draws a column of the rows: each row faint, unless there are too few, and the smoothed line bold."""
    steps, values = x_of(run, run.steps["step"], style), np.asarray(run.steps[column], dtype=float)
    at, bold, light = curve(run, column)
    at = x_of(run, at, style)
    if len(steps) >= 50:
        if look.faint:
            axes.plot(steps, values, color=look.colour, alpha=0.22, linewidth=0.8)
    elif light.any():
        named = LIGHT_ROWS in axes.get_legend_handles_labels()[1]
        axes.plot(steps[light], values[light], "o", color=look.colour, alpha=0.6, markersize=5, markerfacecolor="none",
                  label=None if named else LIGHT_ROWS)
    draw_curve(axes, at, bold, look, label)


def light_style(axes):
    """The legend entry for the marks of draw_rows, if there are any."""
    marked = any(LIGHT_ROWS in panel.get_legend_handles_labels()[1] for panel in axes)
    return {LIGHT_ROWS: {"linestyle": "none", "marker": "o", "alpha": 0.6}} if marked else {}


def draw_histogram(axes, values, middle, label):
    """Draws a histogram with a line at the middle of the values."""
    # Twice the Freedman-Diaconis width keeps histograms of small sets from looking ragged.
    axes.hist(values, bins=min(60, max(10, len(np.histogram_bin_edges(values, "fd")) // 2)), color=colour(0), edgecolor="white",
              linewidth=0.5)
    axes.axvline(middle, color=colour(1), linewidth=1.8, label=minus(label))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.15)
    axes.set(ylabel="Samples")


def split_styles(runs, many=False):
    """{split: line style and marker}, the same for every run; a split evaluated once has only a marker. Of many variants,
    the line style is the variant's."""
    splits = rundata.in_order({split for run in runs for split in run.evaluations})
    lines = {split for run in runs for split, columns in run.evaluations.items() if len(columns["step"]) > 1}
    looks = {split: role(split, splits) for split in splits}
    return {split: {"linestyle": line if split in lines and not many else "none", "marker": marker}
            for split, (_, line, marker) in looks.items()}


def legend_below(figure, columns, **entries):
    """A legend below all panels, which make room for it: matplotlib supports that itself from 3.7 on, and Debian 12
    has 3.6. It has fewer columns if the width is too small."""
    renderer = figure.canvas.get_renderer()
    for fewer in range(columns, 0, -1):
        legend = figure.legend(loc="lower center", ncol=fewer, **{"fontsize": "small"} | entries)
        box = legend.get_window_extent(renderer)
        if box.width <= figure.bbox.width or fewer == 1:
            break
        legend.remove()
    share = box.height / figure.bbox.height
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))


def shared_legend(figure, shown, styles=None):
    """One legend below all panels: colours stand for variants, line styles and markers for quantities. The figure
    grows by its height, so that the panels keep theirs."""
    width, height = figure.get_size_inches()
    scale = matplotlib.rcParams["font.size"] / FONT_SIZE
    named = {look.group: (shortened(look.label, max(12, int(12 * width / scale) - 8)), look) for look in shown}
    thick = {"linewidth": 2} if are_many(shown) else {"linewidth": 4}
    groups = [[plt.Line2D([], [], color=look.colour, linestyle=look.line, label=name, **thick) for _, (name, look) in sorted(named.items())],
              [plt.Line2D([], [], label=name, **{"color": "#444444", "markerfacecolor": "white"} | style)
               for name, style in (styles or {}).items()]]
    longest = max(len(handle.get_label()) for group in groups for handle in group)
    # At 9 points a letter is about 0.07 inch wide, a line with its gaps 0.65 inch.
    columns = max(1, min(4, max(map(len, groups)), int(width / scale / (0.65 + 0.07 * longest))))
    cells = []
    for group in groups:  # splits begin a new row
        cells += group + [plt.Line2D([], [], color="none", label=" ")] * (-len(group) % columns)
    rows = len(cells) // columns
    handles = [cells[row * columns + column] for column in range(columns) for row in range(rows)]
    figure.set_size_inches(width, height + 0.2 * scale * rows)
    legend_below(figure, columns, handles=handles, handlelength=3 if are_many(shown) else 2)


SUPERSCRIPTS = str.maketrans("0123456789−-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


class Powers(LogFormatterSciNotation):
    """Ticks of a logarithmic axis in plain text (10², 2×10²), because mathematical text is disabled."""

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


def wrap(text, pixels, renderer):
    """Breaks a text into lines of at most `pixels`. Whether it was longer."""
    def length():
        box = text.get_window_extent(renderer)
        return box.height if text.get_rotation() == 90 else box.width

    lines = text.get_text().split("\n")
    columns = max(map(len, lines)) * pixels / max(length(), 1)
    for width in (int(columns * share) for share in (1, 0.9, 0.8, 0.7)):  # letters differ in width
        if length() <= pixels or width < 8:
            break
        text.set_text("\n".join(textwrap.fill(line, width) for line in lines))
    return text.get_text().split("\n") != lines


def fit_text(figure):
    """Breaks titles and labels into several lines if they are wider than the figure, or than their panel in a row of
    panels. The layout is final then: to find it takes as long as to draw."""
    figure.draw_without_rendering()
    renderer, whole = figure.canvas.get_renderer(), figure.bbox
    wrapped = [figure._suptitle is not None and wrap(figure._suptitle, 0.98 * whole.width, renderer)]
    panels = [axes.get_window_extent(renderer) for axes in figure.axes]
    for axes, box in zip(figure.axes, panels):
        middle, centre = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        wide, high = 2 * min(middle, whole.width - middle), 2 * min(centre, whole.height - centre)
        beside = any(other.x0 > box.x1 or other.x1 < box.x0 for other in panels if other.height > 0.5 * box.height)
        below = any(other.y0 > box.y1 or other.y1 < box.y0 for other in panels)
        wrapped += [wrap(axes.title, wide, renderer), wrap(axes.xaxis.label, min(wide, 1.2 * box.width) if beside else wide, renderer),
                    wrap(axes.yaxis.label, min(high, 1.2 * box.height) if below else high, renderer)]
    if any(wrapped):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


def save(figure, name, output):
    """Writes NAME.png and NAME.pdf to the folder; the same data give the same bytes. A reader never sees half of a
    file."""
    write_plain_powers(figure)
    fit_text(figure)
    paths = []
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None, "Creator": None})):
        path = output / (name + suffix)
        beside = output / (name + ".partial" + suffix)
        figure.savefig(beside, metadata=metadata)
        beside.replace(path)
        paths.append(path)
    plt.close(figure)
    return paths
