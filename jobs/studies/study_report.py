"""The report of a study: its table with the published figures beside ours (Markdown, CSV, LaTeX), pictures, and a page
that says what was shrunk, on what machine, with how many seeds, and what failed."""

import math
import platform
import shlex
import statistics
from dataclasses import dataclass, field

import harness  # first: it makes the modules of postprocess/ visible
import drawing
import plot_loss
import plot_metrics
import plot_scaling
import plot_seeds
import plot_throughput
import reading
import writing
from atomic import written
from failures import reason_of, status_of


@dataclass
class Row:
    """A line of the table."""

    name: str
    label: str
    values: dict = field(default_factory=dict)  # measure -> a number for each run
    published: dict = field(default_factory=dict)
    note: str = ""
    ranks: int = 0
    failed: list = field(default_factory=list)  # sentences: which run failed, and why

    def mean(self, measure):
        known = [value for value in self.values.get(measure, []) if math.isfinite(value)]
        return statistics.fmean(known) if known else math.nan

    def deviation(self, measure):
        known = [value for value in self.values.get(measure, []) if math.isfinite(value)]
        return statistics.stdev(known) if len(known) > 1 else math.nan


def reason(study, variant, name):
    """Why a run did not finish: what refused its input, a run that it needs, or its last error."""
    folder = study.output / "runs" / name
    if variant.name in study.refused:
        return study.refused[variant.name]
    if missing := study.missing(variant):
        return f"it needs {', '.join(missing)}, which has not finished"
    return "it did not start" if status_of(folder) == "not started" else reason_of(folder)


def load(study):
    """The rows, and the runs that finished, by name."""
    rows, runs = {}, {}
    for variant in study.plan.variants:
        rows[variant.name] = Row(variant.name, variant.label, {measure.key: [] for measure in study.plan.measures}, variant.published, variant.note,
                                 variant.ranks)
    for name, variant, _ in study.runs():
        row = rows[variant.name]
        if not study.finished(name):
            row.failed.append(f"{name}: {reason(study, variant, name)}")
            continue
        if variant.hidden:
            continue
        runs[name] = run = reading.load_run(study.output / "runs" / name, name)
        for measure in study.plan.measures:
            row.values[measure.key].append(float(measure.of(run)))
    found = [rows[variant.name] for variant in study.plan.variants if not variant.hidden or rows[variant.name].failed]
    for label, values, note in study.plan.others(study) if study.plan.others else []:
        found.append(Row("", label, {key: [value] for key, value in values.items()}, {}, note))
    return found, runs


def number(value, digits):
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2g}" if 0 < abs(value) < 0.5 * 10**-digits else f"{value:.{digits}f}"


def cell(row, measure):
    text = number(row.mean(measure.key), measure.digits)
    deviation = row.deviation(measure.key)
    if math.isfinite(deviation) and (deviation or measure.digits):
        text += f" ± {number(deviation, measure.digits)}"
    return text


def change(row, base, measure):
    own, other = row.mean(measure.key), base.mean(measure.key) if base else math.nan
    if row is base or not math.isfinite(own) or not math.isfinite(other) or not other:
        return "–"
    text = f"{100 * (own / other - 1):+.1f}%"
    return "0.0%" if text[1:] == "0.0%" else text


def table(study, rows, brief=False):
    """The header and the cells: ours, the published number where the paper has one, and the change to the baseline; only ours, if `brief`."""
    base = next((row for row in rows if row.name == study.plan.baseline), None)
    header, columns = ["", "ranks"], []
    for measure in study.plan.measures:
        if brief and not any(math.isfinite(row.mean(measure.key)) for row in rows):
            continue
        header.append(measure.title)
        columns.append(lambda row, measure=measure: cell(row, measure))
        if brief:
            continue
        if any(measure.key in row.published for row in rows):
            header.append(f"{measure.title}, published")
            columns.append(lambda row, measure=measure: number(float(row.published.get(measure.key, math.nan)), measure.digits))
        if measure.change and base:
            header.append(f"{measure.title}, change")
            columns.append(lambda row, measure=measure: change(row, base, measure))
    body = [[row.label, str(row.ranks or "–"), *(["failed"] + ["–"] * (len(columns) - 1) if row.failed and not any(row.values.values()) else
                                                 [column(row) for column in columns])] for row in rows]
    return header, body


LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "±": r"$\pm$", "–": "--", "²": "$^2$", "×": r"$\times$", "≤": r"$\le$", "→": r"$\to$"}


def as_latex(header, body):
    def line(cells):
        return " & ".join("".join(LATEX.get(letter, letter) for letter in cell) for cell in cells) + r" \\"

    return "\n".join([r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\hline", line(header), r"\hline", *map(line, body), r"\hline",
                      r"\end{tabular}"]) + "\n"


def write_table(study, rows, folder):
    header, body = table(study, rows)
    markdown = writing.as_markdown(header, body, "table")
    with written(folder / "table.md") as file:
        file.write(markdown + "\n")
    with written(folder / "table.tex") as file:
        file.write(as_latex(header, body))
    figures = []
    for row in rows:
        for measure in study.plan.measures:
            known = [value for value in row.values.get(measure.key, []) if math.isfinite(value)]
            figures.append([row.name, row.label, row.ranks, measure.key, repr(row.mean(measure.key)) if known else "",
                            repr(row.deviation(measure.key)) if len(known) > 1 else "", len(known), row.published.get(measure.key, "")])
    header = ["row", "label", "ranks", "measure", "mean", "deviation", "runs", "published"]
    writing.write_csv(folder / "table.csv", header, figures)
    return markdown


def write_overview(study, rows, folder):
    """overview.csv, which overview.py draws beside those of other studies: the main measure of each row."""
    plan = study.plan
    measure = next((measure for measure in plan.measures if measure.key == plan.headline), plan.measures[0])
    base = next((row for row in rows if row.name == plan.baseline), None) if plan.relative else None
    own = base.mean(measure.key) if base else 1.0
    theirs = float(base.published.get(measure.key, math.nan)) if base else 1.0
    title = f"{measure.title} ÷ {base.label}" if base else measure.title
    lines = [[plan.title, title, row.label, row.mean(measure.key) / own, row.deviation(measure.key) / own,
              float(row.published.get(measure.key, math.nan)) / theirs] for row in rows]
    writing.write_csv(folder / "overview.csv", ["study", "measure", "row", "mean", "deviation", "published"],
                      [line for line in lines if math.isfinite(line[3])])


def machine_of(runs):
    """The machine and the program, from what a run recorded."""
    for run in runs.values():
        devices = sorted({str(name) for name in run.ranks.get("device", [])})
        hosts = {str(name) for name in run.ranks.get("host", [])}
        return (f"{len(hosts)} node(s), {', '.join(devices) or platform.processor() or platform.machine()};"
                f" bert_hpc {run.attributes.get('version', '')} ({str(run.attributes.get('source_revision', ''))[:10]})")
    return "no run finished"


def further_cell(value):
    return value if isinstance(value, str) else number(float(value), 3 if isinstance(value, float) else 0)


def write_tables(study, runs, folder):
    """The further tables of a study; returns their part of the page."""
    parts = []
    for name, title, header, body in study.plan.tables(study, runs) if study.plan.tables else []:
        cells = [[further_cell(cell) for cell in line] for line in body]
        writing.write_csv(folder / f"{name}.csv", header, body)
        with written(folder / f"{name}.tex") as file:
            file.write(as_latex(header, cells))
        parts += [f"## {title}", "", writing.as_markdown(header, cells, "table"), ""]
    return parts


def page(study, rows, runs, markdown, more, pictures):
    """report/README.md."""
    options, plan = study.options, study.plan
    seeds = "one seed" if options.seeds == 1 else f"{options.seeds} seeds: means ± standard deviations"
    lines = [f"# {plan.title}", "", f"Size {options.size}; {seeds}. {machine_of(runs)}. Command: `jobs/study-{study.name}.sh {shlex.join(study.words)}`.", "",
             markdown, "", *more]
    failures = [failure for row in rows for failure in row.failed]
    if failures:
        lines += ["## What failed", "", *(f"- {failure}" for failure in failures), ""]
    unlearned = plan.learned(rows) if plan.learned else []
    if unlearned:
        lines += ["## What did not learn", "", *(f"- {sentence}" for sentence in unlearned), ""]
    if plan.shrunk:
        lines += ["## What differs from the paper", "", *(f"- {sentence}" for sentence in plan.shrunk), ""]
    notes = [f"- {row.label}: {row.note}" for row in rows if row.note]
    if notes:
        lines += ["## Rows", "", *notes, ""]
    if pictures:
        lines += ["## Pictures", "", *(f"![{path.stem}]({path.name})" for path in pictures if path.suffix == ".png"), ""]
    return "\n".join(lines), failures, unlearned


PICTURES = (plot_loss, plot_metrics, plot_throughput, plot_scaling, plot_seeds)


def draw(study, runs, folder):
    """The study's own pictures, and those of all runs together."""
    paths = []
    style = drawing.USUAL
    with style.fonts():
        for name, figure in study.plan.pictures(study, runs) if study.plan.pictures else []:
            paths += drawing.save(figure, name, folder)
        compared = list(runs.values()) if study.plan.compared is None else study.plan.compared(study, runs)
        for module in PICTURES if compared else ():
            for name, figure in module.draw(compared, style):
                paths += drawing.save(figure, name, folder)
    return paths


def write(study):
    """Writes report/; prints the table and what failed."""
    folder = study.output / "report"
    folder.mkdir(parents=True, exist_ok=True)
    rows, runs = load(study)
    markdown = write_table(study, rows, folder)
    write_overview(study, rows, folder)
    pictures = draw(study, runs, folder)
    text, failures, unlearned = page(study, rows, runs, markdown, write_tables(study, runs, folder), pictures)
    with written(folder / "README.md") as file:
        file.write(text)
    print(f"\n{study.plan.title}\n\n{writing.as_text(*table(study, rows, brief=True))}\n")
    for sentence in [*failures, *unlearned]:
        harness.say(sentence)
    harness.say(f"Report: {folder}/README.md, table.csv, table.tex and {len(list(folder.glob('*.png')))} pictures")
