#!/usr/bin/env python3
"""The training benchmark: ours and PyTorch + Transformers, alternately in one run, on the same steps.

    python3 run.py --bench BUILD/bench_training [--python PYTHON] [--case NAME]... [--rounds R] [--threads T] [--cap]
                   [--precision fp32|bf16|fp16]... [--device cpu|cuda] [--compile] [--launch "mpirun -n 2"] [--json FILE]

  --bench    our program: bench_training --case CASE.json --steps N --warmup W --compute PRECISION, one line of JSON with
             "seconds": [per timed step] on standard output
  --python   a Python with torch and transformers (default: this one); where they are missing, PyTorch's columns say so
  --rounds   how often both run, one after the other (default 2); a program's time is its least over the rounds, which on
             a busy machine is the one least disturbed
  --precision  fp32 (the default), bf16 or fp16 (ours with that precision.compute, PyTorch under torch.autocast), or
             several by turns
  --device   cuda: our program is of a CUDA build, PyTorch runs on the GPU, and cases are larger (cases.py)
  --compile  PyTorch also compiled (torch.compile), which the warm-up pays for
  --cap      PyTorch also with every batch padded to the cap
  --launch   put before our program
  --tuned    PyTorch with its memory kept between steps (MALLOC_MMAP_MAX_=0), 8 to 29% faster than as it comes
  --json     writes everything measured to FILE

Exit status: 0 measured, 1 a program failed, 77 neither program is there. The table reports whether the aim is
reached; the exit status does not depend on it: machines differ.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

import cases

HERE = os.path.dirname(os.path.abspath(__file__))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--case", action="append", choices=sorted({case["name"] for kind in ("cpu", "cuda") for case in cases.all_cases(kind)}))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", action="append", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cap", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--launch", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.precision = options.precision or ["fp32"]
    options.failed = set()
    return options


def has_pytorch(python):
    try:
        probe = subprocess.run([python, "-c", "import torch, transformers"], capture_output=True)
    except OSError:
        return False
    return probe.returncode == 0


def run(command, environment):
    """The report of one program; None, and its last words on stderr, where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        print(f"{shlex.join(command)}\nended with status {result.returncode}:\n{result.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def programs(options, with_pytorch):
    """[(key, precision, command before --case, environment)] in the order of a round."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    torch_environment = dict(environment, TOKENIZERS_PARALLELISM="false")
    if options.tuned:
        torch_environment.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="-1")
    listed = []
    for precision in options.precision:
        if options.bench:
            ours = shlex.split(options.launch) + [options.bench, "--compute", precision]
            listed.append(("ours", precision, ours, environment))
        if with_pytorch:
            theirs = [options.python, os.path.join(HERE, "bench_training.py"), "--threads", str(options.threads)]
            theirs += ["--precision", precision, "--device", options.device, "--padding"]
            listed.append(("longest", precision, theirs + ["longest"], torch_environment))
            if options.compile:
                listed.append(("compiled", precision, theirs + ["longest", "--compile"], torch_environment))
            if options.cap:
                listed.append(("cap", precision, theirs + ["cap"], torch_environment))
    return listed


def measure(path, case, options, listed):
    """{precision: {key: [the program's reports, one per round]}}, warmup, steps. What fails is left out and named in
    options.failed; a compiler that fails is not tried again."""
    steps = options.steps if options.steps is not None else case["steps"]
    warmup = options.warmup if options.warmup is not None else case["warmup"]
    reports = {precision: {} for precision in options.precision}
    for _ in range(options.rounds):
        for key, precision, command, environment in listed:
            if key == "cap" and min(map(min, case["lengths"])) == case["cap"]:
                continue  # nothing to pad
            if {(case["name"], key, precision), ("", key, precision)} & options.failed:
                continue
            arguments = ["--case", path, "--steps", str(steps), "--warmup", str(warmup)]
            report = run(command + arguments, environment)
            if report is None:
                options.failed.add(("" if key == "compiled" else case["name"], key, precision))
            else:
                reports[precision].setdefault(key, []).append(report)
    return reports, warmup, steps


def speed(reports, amount):
    """Best over the rounds of amount per second; None where there are no reports."""
    return max((amount / sum(report["seconds"]) for report in reports), default=None)


def cell(value, form="{:.1f}"):
    return "-" if value is None else form.format(value)


HEADER = ["case", "type", "ours seq/s", "GFLOP/s", "PyTorch seq/s", "GFLOP/s", "ratio", "aim", "to cap seq/s", "ratio",
          "compiled seq/s", "ratio"]


def row(case, precision, reports, warmup, steps):
    sequences, _, operations = cases.work(case, warmup, steps)
    ours, theirs, capped, compiled = (speed(reports.get(key, []), sequences) for key in ("ours", "longest", "cap", "compiled"))
    giga = lambda value: None if value is None else value / sequences * operations / 1e9  # noqa: E731
    ratio = ours / theirs if ours and theirs else None
    cap_ratio = ours / capped if ours and capped else None
    compiled_ratio = ours / compiled if ours and compiled else None
    verdict = "" if ratio is None else (" reached" if ratio >= case["aim"] else " missed")
    return [
        case["name"],
        precision,
        cell(ours, "{:.4g}"),
        cell(giga(ours)),
        cell(theirs, "{:.4g}"),
        cell(giga(theirs)),
        cell(ratio, "{:.2f}"),
        f"{case['aim']:.1f}{verdict}",
        cell(capped, "{:.4g}"),
        cell(cap_ratio, "{:.2f}"),
        cell(compiled, "{:.4g}"),
        cell(compiled_ratio, "{:.2f}"),
    ]


def print_row(cells):
    widths = [13, 4, 11, 8, 14, 8, 6, 12, 13, 6, 15, 6]
    print("  ".join(text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(cells, widths))))
    sys.stdout.flush()


def main():
    options = parse_options()
    with_pytorch = has_pytorch(options.python)
    if not with_pytorch:
        print(f"PyTorch: skipped, as {options.python} has no torch and transformers (--python names one that does)")
    if not options.bench:
        print("ours: skipped, as --bench does not name our program")
    listed = programs(options, with_pytorch)
    if not listed:
        return 77
    measured = {}
    print_row(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, case) in cases.write_cases(folder, options.case, options.device).items():
            reports, warmup, steps = measure(path, case, options, listed)
            rows = [row(case, precision, reports[precision], warmup, steps) for precision in options.precision]
            measured[name] = {"reports": reports, "table": rows}
            for cells in rows:
                print_row(cells)
            if options.json:  # after each case: the next one may not end
                with open(options.json, "w") as file:
                    json.dump({"columns": HEADER, "cases": measured}, file, indent=1)
    print(f"{options.threads} threads; PyTorch pads to the longest of a batch; GFLOP/s of real tokens")
    return 1 if options.failed else 0


if __name__ == "__main__":
    sys.exit(main())
