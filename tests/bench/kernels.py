#!/usr/bin/env python3
"""The kernels of one training step as ncu measured them, beside what roofline.py expects of them.

    python3 kernels.py NCU.csv --case NAME --step K [--gpu NAME] [--json FILE]

NCU.csv is the log of: ncu --metrics gpu__time_duration.sum,dram__bytes.sum --page raw --csv --print-kernel-base mangled
over step K of a case of cases.py (counted from the first warm-up step). Prints Markdown: one table of groups of kernels,
those furthest above their expected time first, and one of the kernels that take most time. --gpu takes nvidia-smi's
name; the expected times are those of the roofline's GPU of that kind, H100 for any other. --json adds {case: {"gpu",
"groups": {group: µs}}} to a file: results/gpu_kernels.json, which roofline.py prints beside its own times.

Exit status 1: the file holds no kernel.
"""

import argparse
import csv
import json
import re
import sys
from dataclasses import dataclass, field

import cases
import roofline

MEASURED_STEP = 7  # of a case, counted from its first list of lengths: gpu/kernels.sh profiles the one after the warm-up

UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0,
         "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"

# (group, names of kernels, names of the roofline's rows): the first that fits. Kernels of ours are "file: function",
# where the mangled name has the file.
GROUPS = [
    ("attention: forward", r"attention_forward|portable_forward", r"^attention: forward"),
    ("attention: backward", r"attention_|portable_backward", r"^attention: backward"),
    ("matrix products", r"gemm|nvjet|cutlass|xmma|split_?k|cublas", r": (forward|gradient of (input|weight))$"),
    ("layer norm: gradients of weights", r"NormWeight|layer_norm.*weight", r"layer norm: gradients of weights"),
    ("layer norm: backward", r"norm.*backward", r"layer norm.*backward"),
    ("layer norm: forward", r"norm_in_warps|norm_forward|layer_norm", r"layer norm"),
    ("GELU: backward", r"gelu.*backward", r"GELU.*backward"),
    ("GELU: forward", r"gelu", r"GELU"),
    ("gradients of biases", r"ColumnTerm|column", r"gradients? of (the )?bias"),
    ("biases", r"bias", r"bias"),
    ("FP8", r"fp8|round_", r"FP8|transposed"),
    ("embedding", r"embedding|type_?term|position_and_type", r"embedding"),
    ("gradient norm", r"norm|square|one_sum", r"gradient norm"),
    ("AdamW", r"update|adamw", r"AdamW|to 16 bits"),
    ("head, loss and small ones", r"losses|entropy|arg_max|class_shard|tanh|gather|scatter|\bsum|dropout|add_in|first_rows", r"head|loss"),
    ("fills and copies", r"zero|clear|copy|fill|accumulate|View|mark", r"fill|cop(y|ies)|zero"),
    ("communication", r"nccl", r"reduce|gather|messages"),
    ("other", r"", r""),
]


def group_of(name, column):
    """The group that a kernel (column 1) or a row of the roofline (column 2) belongs to."""
    return next(group[0] for group in GROUPS if re.search(group[column], name, re.IGNORECASE if column == 1 else 0))


@dataclass
class Sum:
    launches: int = 0
    seconds: float = 0.0
    bytes: float = 0.0
    members: set = field(default_factory=set)

    def add(self, launches, seconds, moved, member):
        self.launches += launches
        self.seconds += seconds
        self.bytes += moved
        self.members.add(member)


def short_name(mangled):
    """"file: function (type)" of a kernel of ours, as far as its name has these; else the name, cut."""
    ours = roofline.short_name(mangled)
    if ours is None:
        return re.sub(r"^(void )?_Z?", "", mangled)[:60]
    file = re.search(r"_[0-9a-f]{8}_\d+_(\w+?)_cpp_[0-9a-f]{8}", mangled)
    return f"{file.group(1)}: {ours}" if file else ours


def parse(lines):
    """[(mangled name, seconds, bytes)] of ncu's log, in the order of launches."""
    lines = iter(lines)
    header = next((line for line in lines if line.startswith('"ID"')), None)
    if header is None:
        return []
    columns = next(csv.reader([header]))
    rows = csv.reader(line for line in lines if line.startswith('"'))
    units = dict(zip(columns, next(rows, [])))
    found = []
    for row in rows:
        values = dict(zip(columns, row))
        number = lambda metric: float(values[metric].replace(",", "")) * UNITS[units[metric]]  # noqa: E731
        found.append((values["Kernel Name"], number(TIME), number(BYTES)))
    return found


def gpu_named(text):
    return next((gpu for gpu in roofline.GPUS if gpu.name in text), roofline.GPUS[0])


def model_of(config):
    return roofline.Model("", config["num_hidden_layers"], config["hidden_size"], config["vocab_size"],
                          config["max_position_embeddings"])


def sums(entries, column):
    """{group: Sum} of (name, launches, seconds, bytes)."""
    groups = {}
    for name, launches, seconds, moved in entries:
        groups.setdefault(group_of(name, column), Sum()).add(launches, seconds, moved, name)
    return groups


def ratio(measured, expected):
    return f"{measured / expected:.2f}" if expected > 0 else "–"


def document(title, kernels, expected, rate):
    """`kernels`: [(name, seconds, bytes)] measured; `expected`: [(name, launches, seconds, bytes)]; `rate`: the memory's."""
    measured = sums([(name, 1, seconds, moved) for name, seconds, moved in kernels], 1)
    wanted = sums(expected, 2)
    lines = [f"## {title}", "",
             "| group | launches | expected | µs | expected | ratio | MB | expected | share of memory's rate |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    excess = lambda name: measured.get(name, Sum()).seconds - wanted.get(name, Sum()).seconds  # noqa: E731
    names = sorted(measured.keys() | wanted.keys(), key=lambda name: -excess(name))
    all_measured, all_wanted = Sum(), Sum()
    for total, part in ((all_measured, measured), (all_wanted, wanted)):
        for one in part.values():
            total.add(one.launches, one.seconds, one.bytes, "")
    for name, m, w in [*((n, measured.get(n, Sum()), wanted.get(n, Sum())) for n in names), ("all", all_measured, all_wanted)]:
        share = f"{m.bytes / m.seconds / rate:.0%}" if m.seconds > 0 else "–"
        lines.append(f"| {name} | {m.launches} | {w.launches} | {1e6 * m.seconds:.0f} | {1e6 * w.seconds:.0f} "
                     f"| {ratio(m.seconds, w.seconds)} | {1e-6 * m.bytes:.0f} | {1e-6 * w.bytes:.0f} | {share} |")
    lines += ["", "| kernel | group | launches | µs | µs each | MB | share of memory's rate |", "|---|---|---:|---:|---:|---:|---:|"]
    each = {}
    for name, seconds, moved in kernels:
        each.setdefault(name, Sum()).add(1, seconds, moved, name)
    for name, one in sorted(each.items(), key=lambda item: -item[1].seconds)[:40]:
        lines.append(f"| {name} | {group_of(name, 1)} | {one.launches} | {1e6 * one.seconds:.0f} | {1e6 * one.seconds / one.launches:.1f} "
                     f"| {1e-6 * one.bytes:.1f} | {one.bytes / one.seconds / rate:.0%} |")
    return "\n".join(lines) + "\n"


def add_case(path, case, measured):
    try:
        with open(path) as file:
            cases_of_file = json.load(file)
    except FileNotFoundError:
        cases_of_file = {}
    cases_of_file[case] = measured
    with open(path, "w") as file:
        json.dump(cases_of_file, file, indent=1, sort_keys=True)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--case", required=True)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--json")
    options = parser.parse_args()
    with open(options.csv) as file:
        kernels = [(short_name(name), seconds, moved) for name, seconds, moved in parse(file)]
    if not kernels:
        print(f"{options.csv} holds no kernel")
        return 1
    case = next(case for case in cases.all_cases("cuda") if case["name"] == options.case)
    lengths = case["lengths"][options.step % len(case["lengths"])]
    gpu = gpu_named(options.gpu)
    estimate = roofline.estimate(model_of(case["config"]), lengths, gpu)
    expected = [(kernel.name, kernel.launches, seconds, kernel.bytes) for kernel, seconds in estimate.rows]
    title = f"{options.case}, {len(lengths)} sequences, {sum(lengths)} tokens, {options.gpu}, beside the roofline's {gpu.name}"
    sys.stdout.write(document(title, kernels, expected, gpu.memory))
    if options.json:
        groups = sums([(name, 1, seconds, moved) for name, seconds, moved in kernels], 1)
        add_case(options.json, options.case, {"gpu": options.gpu, "groups": {name: round(1e6 * one.seconds) for name, one in groups.items()}})
    total = sum(seconds for _, seconds, _ in kernels)
    print(f"\n= {len(kernels)} kernels, {1e3 * total:.2f} ms; expected {sum(row[1] for row in expected)}, {1e3 * estimate.device:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
