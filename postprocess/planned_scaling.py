"""How a training is planned to scale, before it has run: tables and a picture for a proposal.

  planned_scaling.py INPUT.toml --machine MACHINE.toml --ranks 8 64 512 [--tokens 3e9 --mean-length 384]

Asks bert_hpc --validate for the step of each number of ranks: with the input's batch (strong scaling), and with as many sequences a rank as
--per-rank says (weak scaling; default: those of the input's batch on the fewest ranks). All other settings are those of the input, which may be
changed with --set. Without shards, --tokens and --mean-length describe the data. Runs given with --measured, of the same input, are points
in the picture. Writes scaling.csv, scaling.md, and the picture as PNG and PDF into --output (default: planned_scaling/ beside the input)."""

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

HEADER = ["scaling", "ranks", "sequences a step", "ms a step", "tokens/s", "efficiency, %", "exposed communication, %"]
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Plan:
    """What bert_hpc --validate says of a step."""

    def __init__(self, kind, ranks, batch, said):
        step, rate = re.search(r"^  time +(.+?) per step(.*)$", said, re.M), re.search(r"^  speed +([\d.,]+) ?([kMGT]?) tokens/s", said, re.M)
        if not step or not rate:
            raise ReportError("bert_hpc --validate printed no time of a step; it needs [run] machine.")
        exposed = re.search(r"communication: ([\d.]+)%", step[2])
        machine = re.search(r"^simulated step on (.+)$", said, re.M)
        self.kind, self.ranks, self.batch = kind, ranks, batch
        self.rate = float(rate[1].replace(",", "")) * PREFIXES[rate[2]]
        self.exposed = float(exposed[1]) if exposed else 0.0
        self.machine = machine[1]
        self.tokens = tokens_of(said)

    @property
    def milliseconds(self):
        return 1e3 * self.batch * self.tokens / self.rate


def tokens_of(said):
    """Mean tokens of a sequence of the training data."""
    found = re.search(r"^  data +train ([\d,]+) sequences?, ([\d,]+) tokens", said, re.M)
    if not found:
        raise ReportError("bert_hpc --validate printed no line about the training data.")
    sequences, tokens = (int(text.replace(",", "")) for text in found.groups())
    return tokens / sequences


def program_of(given):
    found = given or shutil.which("bert_hpc")
    if not found:
        raise ReportError("bert_hpc is not on PATH: name it with --program.")
    return str(found)


def asked(options, ranks, batch):
    """What bert_hpc --validate prints of so many ranks and sequences a step; None for the input's own batch."""
    settings = list(options.set)
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
        raise ReportError(f"{' '.join(words)} ended with status {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def batch_of(said):
    found = re.search(r"^  steps .* of ([\d,]+) sequences?,", said, re.M)
    if not found:
        raise ReportError("bert_hpc --validate printed no line about its steps: planned_scaling.py needs an input that trains.")
    return int(found[1].replace(",", ""))


def plans_of(options):
    """Plans of strong and weak scaling, by ascending ranks; a batch with fewer sequences than ranks has no plan."""
    counts = sorted(set(options.ranks))
    batch = batch_of(asked(options, counts[0], None))
    per_rank = options.per_rank or max(1, batch // counts[0])
    plans = []
    for kind, size_on in (("strong", lambda ranks: batch), ("weak", lambda ranks: per_rank * ranks)):
        for ranks in counts:
            if size_on(ranks) < ranks:
                print(f"no plan of {kind} scaling for {ranks:,} ranks: a step has {size_on(ranks):,} sequences")
                continue
            plans.append(Plan(kind, ranks, size_on(ranks), asked(options, ranks, size_on(ranks))))
    return plans


def efficiencies(plans):
    """Of each plan, in per cent of the rate of a rank on the fewest ranks of its kind."""
    first = {}
    for plan in plans:
        first.setdefault(plan.kind, plan.rate / plan.ranks)
    return [100 * plan.rate / plan.ranks / first[plan.kind] for plan in plans]


def rows_of(plans):
    return [[plan.kind, plan.ranks, plan.batch, float(f"{plan.milliseconds:.3g}"), plan.rate, round(share, 1), plan.exposed]
            for plan, share in zip(plans, efficiencies(plans))]


def measured_rates(paths):
    """(ranks, tokens/s) of finished runs."""
    return [(run.rank_count, smoothing.steady_rate(run, "tokens")) for run in reading.load_runs(paths, False) if run.has_metrics]


def draw(plans, measured, style):
    figure, (left, right) = style.subplots(1, 2, 10, 4.6)
    ticks = sorted({plan.ranks for plan in plans})
    shares = efficiencies(plans)
    for i, kind in enumerate(("strong", "weak")):
        own = [(plan.ranks, plan.rate, share, plan.batch) for plan, share in zip(plans, shares) if plan.kind == kind]
        if not own:
            continue
        ranks, rates, part, batches = (np.array(column) for column in zip(*own))
        size = f"{batches[0]:,} sequences a step" if kind == "strong" else f"{batches[0] // ranks[0]:,} sequences a rank"
        line = {"color": drawing.colour(i), "marker": "os"[i], "label": f"{kind}: {size}"}
        left.loglog(ranks, rates, **line)
        right.semilogx(ranks, part, **line)
        if kind == "weak" or len({plan.kind for plan in plans}) == 1:
            left.loglog(ranks, rates[0] * ranks / ranks[0], color="black", linestyle="--", linewidth=1.2, label="ideal", zorder=1)
    if measured:
        left.loglog(*zip(*measured), "^", color=drawing.colour(2), label="measured")
    left.set(xlabel="Ranks", ylabel="Tokens per second")
    right.axhline(100, color="black", linestyle="--", linewidth=1.2)
    right.set(xlabel="Ranks", ylabel="Parallel efficiency (%)", ylim=(0, 110))
    for axes in (left, right):
        axes.set_xticks(ticks, map(str, ticks))
        axes.minorticks_off()
    left.legend()
    figure.suptitle(style.title if style.title is not None else f"Planned scaling on {plans[0].machine}")
    return figure


def parse_options(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=pathlib.Path, metavar="INPUT.toml")
    parser.add_argument("--ranks", type=int, nargs="+", required=True, metavar="N")
    parser.add_argument("--machine", type=pathlib.Path, metavar="MACHINE.toml", help="default: [run] machine of the input")
    parser.add_argument("--per-rank", type=int, metavar="N", help="sequences a rank in weak scaling")
    parser.add_argument("--tokens", metavar="N", help="of the training data, without shards")
    parser.add_argument("--mean-length", metavar="N", help="tokens of a sequence, with --tokens")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of bert_hpc")
    parser.add_argument("--program", type=pathlib.Path, metavar="BERT_HPC", help="default: bert_hpc on PATH")
    parser.add_argument("--measured", nargs="+", default=[], metavar="RUN", help="runs of this input, as points")
    parser.add_argument("--output", type=pathlib.Path, metavar="DIR")
    command.add_style(parser)
    options = parser.parse_args(given)
    if min(options.ranks) < 1:
        parser.error("--ranks takes numbers from 1 on")
    if bool(options.tokens) != bool(options.mean_length):
        parser.error("--tokens and --mean-length belong together")
    return options


def scale(given=None):
    options = parse_options(given)
    style = command.style_of(options)
    measured = measured_rates(options.measured)
    plans = plans_of(options)
    if not plans:
        raise ReportError("No number of ranks has a plan.")
    output = options.output or options.input.resolve().parent / "planned_scaling"
    output.mkdir(parents=True, exist_ok=True)
    rows = rows_of(plans)
    write_csv(output / "scaling.csv", HEADER, rows)
    shown = [[number(cell) for cell in row] for row in rows]
    with written(output / "scaling.md") as file:
        file.write(f"On {plans[0].machine}.\n\n{as_markdown(HEADER, shown, 'scaling')}\n")
    print(as_text(HEADER, shown))
    with style.fonts():
        for path in drawing.save(draw(plans, measured, style), "scaling", output):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(command.guarded(scale))
