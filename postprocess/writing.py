"""Tables as text, Markdown and CSV."""

import csv
import math
import re

from atomic import written

MOST_IN_MARKDOWN = 1000  # rows of a table; its CSV file has all
PLAIN = r"[−+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?"
NUMBER = re.compile(rf"{PLAIN}( ± {PLAIN})?( ?(%|[A-Za-z]{{1,6}}))?( \(\d[\d.]*%\))?")  # with a unit, or a share


def number(value):
    """A number with four significant digits, or a whole number with commas between thousands."""
    if isinstance(value, str):
        return value
    if value is None or not math.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def is_number(text):
    """True for a number, perhaps with a unit, and for a cell without a value."""
    return text in ("", "–") or NUMBER.fullmatch(text) is not None


def right_aligned(header, rows):
    """For each column whether it is aligned on the right: the first never, others if they hold numbers only."""
    return [i > 0 and all(is_number(str(row[i])) for row in rows) for i in range(len(header))]


def as_text(header, rows):
    """The table for a terminal; a header may have several lines."""
    right = right_aligned(header, rows)
    heads = [str(name).split("\n") for name in header]
    deepest = max(map(len, heads))
    above = [list(line) for line in zip(*([""] * (deepest - len(head)) + head for head in heads))]
    cells = [*above, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(cell.rjust(width) if own else cell.ljust(width) for cell, width, own in zip(row, widths, right)) for row in cells]
    lines.insert(deepest, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def width_of(text):
    return max(map(len, text.split("\n")))


def as_markdown(header, rows, name):
    """The table; of one with more rows than a reader wants, the first ones and the name of the CSV file that has the others."""
    def line(row):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"

    shown = rows[:MOST_IN_MARKDOWN]
    rule = "|" + "|".join("---:" if own else "---" for own in right_aligned(header, shown)) + "|"
    lines = [line(header), rule, *map(line, shown)]
    if len(rows) > MOST_IN_MARKDOWN:
        lines += ["", f"The first {MOST_IN_MARKDOWN:,} of {len(rows):,} rows; {name}.csv has all."]
    return "\n".join(lines)


def write_csv(path, header, rows):
    """A cell without a value is empty."""
    with written(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(["" if cell == "–" else cell for cell in row] for row in rows)
