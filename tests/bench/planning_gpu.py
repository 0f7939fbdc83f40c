#!/usr/bin/env python3
"""The simulated step of --validate on the GPUs of input/machine_*.toml against steps that were measured on one of them.

    python3 planning_gpu.py [--program BUILD/bert_hpc]

Cases and milliseconds are those of results/gpu.md, of its newest revision with a figure. LoRA is left out, and FP8 on the H100, whose figure is older
than the last changes of these products. A plan has lengths that are uniform around the mean of the case. A CPU build makes the plans, but not
that of tf32, which needs a CUDA build (--program). Prints a Markdown table. Exit status: 0, or 1 where a program failed.
"""

import argparse
import pathlib
import re
import tempfile

import planning

BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
SQUAD, FULL, SHORT = 158, 512, 18  # mean tokens of a sequence
# (case, model, mean length, precision, {machine: milliseconds})
CASES = [
    ("base, SQuAD's lengths", BASE, SQUAD, "bf16", {"h200": 7.33, "h100": 7.88}),
    ("large, SQuAD's lengths", LARGE, SQUAD, "bf16", {"h200": 23.18, "h100": 24.35}),
    ("base, 512 tokens", BASE, FULL, "bf16", {"h200": 21.90, "h100": 22.80}),
    ("large, 512 tokens", LARGE, FULL, "bf16", {"h200": 68.60}),
    ("base, short texts", BASE, SHORT, "bf16", {"h200": 2.84, "h100": 3.10}),
    ("base, SQuAD's lengths", BASE, SQUAD, "fp32", {"h200": 59.4}),
    ("base, SQuAD's lengths", BASE, SQUAD, "tf32", {"h200": 16.9, "h100": 17.39}),
    ("base, SQuAD's lengths", BASE, SQUAD, "fp8", {"h200": 7.35}),
    ("large, SQuAD's lengths", LARGE, SQUAD, "fp8", {"h200": 20.41}),
    ("large, 512 tokens", LARGE, FULL, "fp8", {"h200": 58.43}),
]
SEQUENCES = 32


def simulated(program, folder, model, length, precision, machine):
    path = folder / "input.toml"
    path.write_text(f"""[run]
directory = "{folder}/run"
machine = "{planning.ROOT}/input/machine_{machine}_node.toml"
[model]
{chr(10).join(f"{key} = {value}" for key, value in model.items())}
vocab_size = 30522
[task]
name = "classification"
[data]
train = ["none.h5"]
[batch]
global = {SEQUENCES}
[optimizer]
learning_rate = 1e-4
[schedule]
steps = 10
[precision]
compute = "{precision}"
""")
    command = [program, path, "--validate", "--ranks", 1, "--tokens", 1000 * SEQUENCES * length, "--mean-length", length]
    return planning.milliseconds(planning.call(1, command))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=planning.ROOT / "build/bert_hpc")
    options = parser.parse_args()
    gpu = re.search(r"build +CUDA", planning.call(1, [options.program, "--version"])) is not None
    print("| case | precision | GPU | simulated, ms | measured, ms | simulated / measured |\n|---|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, model, length, precision, measured in CASES:
            if precision == "tf32" and not gpu:
                continue
            for machine, milliseconds in measured.items():
                found = simulated(options.program, pathlib.Path(folder), model, length, precision, machine)
                print(f"| {name} | {precision} | {machine.upper()} | {found:.2f} | {milliseconds:.2f} | {found / milliseconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
