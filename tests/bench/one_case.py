#!/usr/bin/env python3
"""One training program on one case, for scripts that run many within a time.

    python3 one_case.py --case NAME --name NAME [--device cpu|cuda] [--json FILE] [--steps N] [--warmup W] -- COMMAND…
    python3 one_case.py --table FILE [--markdown FILE]

The first form adds --case FILE --steps N --warmup W to the command, reads its line of JSON, prints one line that begins
with "= " (time of a step, sequences and operations a second, the device's sections) and appends {"case", "name",
"device", "warmup", "steps", "report"} to a list in the JSON file. The second prints that list as a Markdown table: each
program beside the first one of the same case whose name is "pytorch".

Exit status: the command's (77: what it needs is missing), 1 where it printed no JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import cases


def describe(case, warmup, steps, report):
    """(seconds of a step, sequences a second, real tokens' TFLOP/s, text of the sections)."""
    sequences, _, operations = cases.work(case, warmup, steps)
    seconds = sum(report["seconds"])
    sections = ""
    if report.get("clock") == "device":
        each = sorted(report["sections"].items(), key=lambda item: -item[1])
        sections = ", ".join(f"{name} {1e3 * value / steps:.2f}" for name, value in each)
    return seconds / steps, sequences / seconds, 1e-12 * operations / seconds, sections


def append(path, record):
    records = read(path)
    records.append(record)
    with open(path + ".new", "w") as file:  # a run that is killed leaves the records before it
        json.dump(records, file, indent=1)
    os.replace(path + ".new", path)


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return json.load(file)


def run(options):
    with tempfile.TemporaryDirectory() as folder:
        path, case = cases.write_cases(folder, [options.case], options.device)[options.case]
        steps = case["steps"] if options.steps is None else options.steps
        warmup = case["warmup"] if options.warmup is None else options.warmup
        command = options.command + ["--case", path, "--steps", str(steps), "--warmup", str(warmup)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        return done.returncode if done.returncode > 0 else 128 - done.returncode
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print("the command printed no line of JSON")
        return 1
    report = json.loads(lines[-1])
    step, rate, tera, sections = describe(case, warmup, steps, report)
    print(f"= {1e3 * step:.2f} ms a step, {rate:.4g} sequences/s, {tera:.4g} TFLOP/s" + (f" ({sections})" if sections else ""))
    if options.json:
        append(options.json, {"case": options.case, "name": options.name, "device": options.device, "warmup": warmup,
                              "steps": steps, "report": report})
    return 0


def table(records):
    """A Markdown table; ratios are of sequences a second."""
    lines = ["| case | program | ms a step | sequences/s | TFLOP/s | to PyTorch | device, ms |", "|---|---|---:|---:|---:|---:|---|"]
    described = []
    for record in records:
        case = next(case for case in cases.all_cases(record["device"]) if case["name"] == record["case"])
        described.append((record, describe(case, record["warmup"], record["steps"], record["report"])))
    theirs = {}
    for record, (_, rate, _, _) in described:
        if record["name"] == "pytorch":
            theirs.setdefault(record["case"], rate)
    for record, (step, rate, tera, sections) in described:
        report = record["report"]
        program = ", ".join(str(x) for x in (record["name"], report["program"], report.get("attention")) if x)
        ratio = f"{rate / theirs[record['case']]:.2f}" if record["case"] in theirs else "–"
        lines.append(f"| {record['case']} | {program} | {1e3 * step:.2f} | {rate:.4g} | {tera:.4g} | {ratio} | {sections} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case")
    parser.add_argument("--name")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--json")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--table")
    parser.add_argument("--markdown")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    if options.table:
        records = read(options.table)
        if not records:
            print("skipped: nothing was measured")
            return 77
        text = table(records)
        sys.stdout.write(text)
        if options.markdown:
            with open(options.markdown, "w") as file:
                file.write(text)
        return 0
    if not options.command or options.case not in {case["name"] for case in cases.all_cases(options.device)}:
        parser.error("needs --case with a name of cases.py, and a command after --")
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
