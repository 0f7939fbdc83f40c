"""How a training is planned to scale, before it has run: tables and a picture for a proposal.

  planned_scaling.py INPUT.toml --machine MACHINE.toml --ranks 8 64 512 [--tokens 3e9 --mean-length 384]

Asks bert_hpc --validate for the step of each number of ranks: with the input's batch (strong scaling), and with as many sequences a rank as
--per-rank says (weak scaling; default: those of the input's batch on the fewest ranks). All other settings are those of the input, which may be
changed with --set. Without shards, --tokens and --mean-length describe the data. Runs given with --measured are points in the picture; they
should be of the same input. A number of ranks that bert_hpc refuses is left out, with the reason. Writes scaling.csv, scaling.md, and the picture
as PNG and PDF into --output (default: planned_scaling/ beside the input)."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

import command  # first: it reports missing packages

import numpy as np

import drawing
import reading
import smoothing
from atomic import written
from rundata import ReportError
from writing import as_markdown, as_text, number, write_csv

HEADER = ["scaling", "ranks", "global batch", "seconds a step", "tokens/s", "efficiency, %", "exposed communication, %"]
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Refused(ReportError):
    """bert_hpc takes the input for no such number of ranks."""


def whole(text):
    return int(text.replace(",", ""))


def seconds_of(text):
    """Of a duration as bert_hpc prints it: "231 ms", "1.2 s", "1 min 05 s"."""
    return sum(float(value) * UNITS[unit] for value, unit in re.findall(r"([\d.]+) (ms|s|min|h|d)\b", text))


class Plan:
    """What bert_hpc --validate says of a step, in the three digits that it prints."""

    def __init__(self, kind, ranks, batch, said):
        step, rate = re.search(r"^  time +(.+?) per step(.*)$", said, re.M), re.search(r"^  speed +([\d.,]+) ?([kMGT]?) tokens/s", said, re.M)
        if not step or not rate:
            raise ReportError("bert_hpc --validate printed no time of a step: name a machine's file with --machine or [run] machine.")
        exposed = re.search(r"communication: ([\d.]+)%", step[2])
        self.kind, self.ranks, self.batch = kind, ranks, batch
        self.seconds = seconds_of(step[1])
        self.rate = float(rate[1].replace(",", "")) * PREFIXES[rate[2]]
        self.exposed = float(exposed[1]) if exposed else 0.0
        self.machine = re.search(r"^simulated step on (.+)$", said, re.M)[1]
        self.warnings = re.findall(r"^warning: (.+)$", said, re.M)


def program_of(given):
    found = given or shutil.which("bert_hpc")
    if not found:
        raise ReportError("bert_hpc is not on PATH: name it with --program.")
    return str(found)


def asked(options, ranks, batch):
    """What bert_hpc --validate prints of so many ranks and this batch; None: the input's own. Raises Refused."""
    settings = [*options.set, "log.trace=false"]
    if options.machine:
        settings.append(f'run.machine="{options.machine.resolve()}"')
    if batch is not None:
        settings.append(f"batch.global={batch}")
    words = [program_of(options.program), str(options.input), "--validate", "--ranks", str(ranks)]
    if options.tokens:
        words += ["--tokens", options.tokens, "--mean-length", options.mean_length]
    for setting in settings:
        words += ["--set", setting]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"{' '.join(words)} ended with status {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def batch_of(options, counts):
    """The input's batch, from the first number of ranks that bert_hpc takes."""
    refused = None
    for ranks in counts:
        try:
            said = asked(options, ranks, None)
        except Refused as problem:
            refused = refused or problem
            continue
        found = re.search(r"^  steps .*? of ([\d,]+) (?:sequence|quer|row)", said, re.M)
        if not found:
            raise ReportError("bert_hpc --validate printed no line about steps: planned_scaling.py needs an input that trains.")
        return whole(found[1])
    raise refused


def plans_of(options):
    """Plans of strong and weak scaling, by ascending ranks."""
    counts = sorted(set(options.ranks))
    batch = batch_of(options, counts)
    per_rank = options.per_rank or max(1, batch // counts[0])
    plans, refused = [], None
    for kind, batch_on in (("strong", lambda ranks: batch), ("weak", lambda ranks: per_rank * ranks)):
        for ranks in counts:
            try:
                plans.append(Plan(kind, ranks, batch_on(ranks), asked(options, ranks, batch_on(ranks))))
            except Refused as problem:
                refused = problem
                print(f"no plan of {kind} scaling for {ranks:,} ranks: {problem}")
    if not plans:
        raise refused
    return plans


def efficiencies(plans):
    """Of each plan, in per cent of the rate of a rank on the fewest ranks of its kind."""
    first = {}
    for plan in plans:
        first.setdefault(plan.kind, plan.rate / plan.ranks)
    return [100 * plan.rate / plan.ranks / first[plan.kind] for plan in plans]


def rows_of(plans):
    return [[plan.kind, plan.ranks, plan.batch, plan.seconds, plan.rate, round(share), plan.exposed] for plan, share in zip(plans, efficiencies(plans))]


def warnings_of(plans):
    """Each different warning, with the numbers of ranks that have it."""
    found = {}
    for plan in plans:
        for warning in plan.warnings:
            found.setdefault(warning, []).append(f"{plan.kind} {plan.ranks:,}")
    return [f"{', '.join(ranks)}: {warning}" for warning, ranks in found.items()]


def measured_rates(paths):
    """(ranks, tokens/s) of finished runs."""
    return [(run.rank_count, smoothing.steady_rate(run, "tokens")) for run in reading.load_runs(paths, False) if run.has_metrics] if paths else []


def draw(plans, measured, style):
    figure, (left, right) = style.subplots(1, 2, 10, 4.6)
    ticks = sorted({plan.ranks for plan in plans})
    shares = efficiencies(plans)
    for i, kind in enumerate(("strong", "weak")):
        own = [(plan.ranks, plan.rate, share, plan.batch) for plan, share in zip(plans, shares) if plan.kind == kind]
        if not own:
            continue
        ranks, rates, part, batches = (np.array(column) for column in zip(*own))
        size = f"global batch {batches[0]:,}" if kind == "strong" else f"{batches[0] // ranks[0]:,} a rank"
        line = {"color": drawing.colour(i), "marker": "os"[i], "label": f"{kind}: {size}"}
        left.loglog(ranks, rates, **line)
        right.semilogx(ranks, part, **line)
        if kind == plans[-1].kind:
            left.loglog(ranks, rates[0] * ranks / ranks[0], color="black", linestyle="--", linewidth=1.2, label="ideal", zorder=1)
    if measured:
        left.loglog(*zip(*measured), "^", color=drawing.colour(2), label="measured")
    left.set(xlabel="Ranks", ylabel="Tokens per second")
    right.axhline(100, color="black", linestyle="--", linewidth=1.2)
    right.set(xlabel="Ranks", ylabel="Parallel efficiency (%)", ylim=(0, 110))
    for axes in (left, right):
        axes.set_xticks(ticks, map(str, ticks))
        axes.tick_params(axis="x", labelsize="small")
        axes.minorticks_off()
    left.legend(loc="upper left")
    figure.suptitle(style.title if style.title is not None else f"Planned scaling on {plans[0].machine}")
    return figure


def at_least_1(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def parse_options(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=pathlib.Path, metavar="INPUT.toml")
    parser.add_argument("--ranks", type=at_least_1, nargs="+", required=True, metavar="N")
    parser.add_argument("--machine", type=pathlib.Path, metavar="MACHINE.toml", help="default: [run] machine of the input")
    parser.add_argument("--per-rank", type=at_least_1, metavar="N", help="of the global batch, a rank in weak scaling (default: as on the fewest ranks)")
    parser.add_argument("--tokens", metavar="N", help="of the training data, without shards")
    parser.add_argument("--mean-length", metavar="N", help="tokens of a sequence, with --tokens")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of bert_hpc")
    parser.add_argument("--program", type=pathlib.Path, metavar="BERT_HPC", help="default: bert_hpc on PATH")
    parser.add_argument("--measured", nargs="+", default=[], metavar="RUN", help="runs, as points")
    parser.add_argument("--output", type=pathlib.Path, metavar="DIR", help="default: planned_scaling/ beside the input")
    command.add_look(parser)
    options = parser.parse_args(given)
    if bool(options.tokens) != bool(options.mean_length):
        parser.error("--tokens and --mean-length belong together")
    return options


def scale(given=None):
    options = parse_options(given)
    style = drawing.Style(options.title, options.width, options.font_size)
    measured = measured_rates(options.measured)
    output = command.make_output(options.output or options.input.resolve().parent / "planned_scaling", [])
    plans = plans_of(options)
    rows, warnings = rows_of(plans), warnings_of(plans)
    write_csv(output / "scaling.csv", HEADER, rows)
    shown = [[number(cell) for cell in row] for row in rows]
    with written(output / "scaling.md") as file:
        file.write(f"On {plans[0].machine}.\n\n{as_markdown(HEADER, shown, 'scaling')}\n" + "".join(f"\nWarning of {text}\n" for text in warnings))
    print(as_text(HEADER, shown))
    for text in warnings:
        print(f"warning of {text}")
    with style.fonts():
        for path in drawing.save(draw(plans, measured, style), "scaling", output):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(scale))
