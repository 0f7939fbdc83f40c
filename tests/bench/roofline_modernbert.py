#!/usr/bin/env python3
"""A pretraining step of ModernBERT-base on paper: the kernels of a micro-batch by roofline.py's model, attention by
roofline_attention.py's, and the tokens a second that follow.

    python3 roofline_modernbert.py > results/roofline_modernbert.md

The recipe is that of input/modernbert_base.toml, first phase: 1,024 tokens a sequence, 4,608 sequences a step on eight GPUs, 30% of the
tokens masked, no dropout but after attention's output. The last block and the head compute what the masked tokens need. A second
column multiplies each kernel's time by what the same kind of kernel took on an H200 over its time on paper (results/gpu_kernels.json,
results/gpu.md), with products at no more than the rate measured there; kernels that were never measured get the ratio of GELU, which is
element-wise as they are. Attention's ratio is of the kernels at 512 tokens with dropout (results/gpu.md#causal-attention); at 1,024 tokens and
with windows the backward pass takes two other kernels, whose ratio is not known.
"""

import json
import math
import pathlib
import subprocess
from dataclasses import dataclass

import roofline
import roofline_attention as attention
from roofline import Kernel, product

LAYERS, HIDDEN, INNER, HEADS, VOCABULARY = 22, 768, 1152, 12, 50368
GLOBAL_EVERY, WINDOW = 3, 128
LENGTH, MASKED = 1024, 0.3
GPUS, SEQUENCES = 8, 4608  # of a step
MICRO_BATCH = 64  # sequences
PARAMETERS = 149_655_232
# Operations a token as the published rate is counted (all blocks whole): products, attention, masked tokens' head.
COUNTED = 6 * LAYERS * (4 * HIDDEN**2 + 3 * HIDDEN * INNER) + 12 * HIDDEN * (8 * LENGTH + 14 * (WINDOW + 1)) + MASKED * 6 * (HIDDEN**2 + HIDDEN * VOCABULARY)
PUBLISHED = (304e3, 307e3)  # tokens a second of a GPU, 8 x H100 SXM
AIM = 463e3  # tokens a second of ModernBERT-base at 382 TFLOP/s, this project's rate of BERT-base
PRODUCT_RATE = 730e12  # operations a second of BERT-base's products at 16,384 rows on an H200 (results/gpu.md): the most that is assumed


@dataclass(frozen=True)
class Timed:
    kernel: Kernel
    paper: float  # seconds of all launches
    measured: float  # the same times the ratio


def linear(name, launches, rows, out, inner):
    """The three products of `launches` linear layers; gradients of weights are added up over micro-batches, read and written."""
    return [product(name + ": forward", launches, rows, out, inner), product(name + ": gradient of input", launches, rows, inner, out),
            product(name + ": gradient of weight", launches, out, inner, rows, out=8, split=True)]


def products(tokens, selects=True):
    """`selects`: the last block computes keys and values of all tokens, the rest of masked ones."""
    h, i, masked = HIDDEN, INNER, round(MASKED * tokens)
    whole = LAYERS - 1 if selects else LAYERS
    kernels = linear("query, key, value", whole, tokens, 3 * h, h) + linear("attention output", whole, tokens, h, h)
    kernels += linear("gated feed-forward in", whole, tokens, 2 * i, h) + linear("feed-forward out", whole, tokens, h, i)
    if selects:
        kernels += linear("last block: key, value", 1, tokens, 2 * h, h) + linear("last block: query", 1, masked, h, h)
        kernels += linear("last block: attention output", 1, masked, h, h) + linear("last block: gated feed-forward in", 1, masked, 2 * i, h)
        kernels += linear("last block: feed-forward out", 1, masked, h, i)
    return kernels + linear("head: dense", 1, masked, h, h) + linear("head: decoder", 1, masked, VOCABULARY, h)


def streams(tokens):
    """All else but attention: 2 bytes an activation. Norms, gates and positions of the last block are those of masked tokens."""
    h, i, n, masked = HIDDEN, INNER, LAYERS - 1 + MASKED, round(MASKED * tokens)
    t, norms = float(tokens), 2 * LAYERS + 2  # two a block but for the first, of the embeddings, at the end, and of the head
    return [
        Kernel("embedding", 1, t * h * (4 + 2) + t * h * (2 + 2)),
        Kernel("norm: forward", norms, 2 * n * t * h * 8 + 2 * t * h * 8),
        Kernel("norm: backward", norms, 2 * n * t * h * 8 + 2 * t * h * 8),
        Kernel("rotary positions", LAYERS + 1, n * t * 2 * h * 4),
        Kernel("rotary positions: backward", LAYERS + 1, n * t * 2 * h * 4),
        Kernel("gate: forward", LAYERS, n * t * i * 6),
        Kernel("gate: backward", LAYERS, n * t * i * 10),
        Kernel("head: GELU and its gradient", 2, masked * h * 10.0),
        Kernel("cross entropy", 1, masked * float(VOCABULARY) * 4),
        Kernel("selected rows", 4, masked * h * 8.0),
        Kernel("embedding: backward", 3, t * h * (2 + 2) + t * h * 12),
    ]


def update():
    """Of a step: the rule reads value, gradient and two moments and writes three, after a pass over what it clips by."""
    return [Kernel("StableAdamW", 2, PARAMETERS * (28.0 + 16.0) + PARAMETERS * 2.0)]


def attention_seconds(tokens, chip):
    """{name: seconds} of a micro-batch."""
    lengths = [LENGTH] * (tokens // LENGTH)
    whole = math.ceil(LAYERS / GLOBAL_EVERY)
    times = {}
    for name, mask, count in (("global attention", attention.FULL, whole), ("local attention", attention.window(WINDOW), LAYERS - whole)):
        kernels = {"forward": ([attention.forward_kernel(64)], 4), "backward": (attention.backward_kernels(64, chip, LENGTH, mask), 10)}
        for way, (own, operations) in kernels.items():
            times[f"{name}: {way}"] = count * attention.one_way(own, operations, 64, chip, lengths, HEADS, False, mask)[0]
    return times


def ratios():
    """{kind: measured over paper} of the H200's kernels of a BERT-base step, and of attention at 512 tokens as bench_attention had it."""
    one = json.loads((pathlib.Path(__file__).parent / "results/gpu_kernels.json").read_text())["base_squad"]
    _, _, paper = roofline.measured_case("base_squad", one["gpu"])
    found = {group: one["groups"][group] / paper[group] for group in paper if one["groups"].get(group)}
    chip, lengths = attention.CHIPS[0], [512] * 32
    for way, measured, own, count in (("forward", 127e-6, [attention.forward_kernel(64)], 4),
                                      ("backward", 325e-6, attention.backward_kernels(64, chip, 512), 10)):
        found[f"attention: {way}"] = measured / attention.one_way(own, count, 64, chip, lengths, HEADS, True)[0]
    return found


def kind_of(name):
    """The group of ratios() for a kernel that is no product."""
    if "attention: " in name:
        return "attention: " + name.rsplit(" ", 1)[1]
    if name.startswith("norm"):
        return "layer norm: " + name.rsplit(" ", 1)[1]
    if name == "StableAdamW":
        return "AdamW"
    return "GELU: backward" if "backward" in name else "GELU: forward"


def timed(tokens, gpu, chip, found):
    """Kernels of a micro-batch, with the share of the update that it has."""
    micro_batches = SEQUENCES * LENGTH / GPUS / tokens
    rows = []
    for kernel in products(tokens) + streams(tokens):
        seconds = roofline.seconds(kernel, gpu, [LENGTH])
        measured = seconds * found["matrix products" if kernel.shape else kind_of(kernel.name)]
        rows.append(Timed(kernel, seconds, max(measured, kernel.operations / PRODUCT_RATE)))
    for name, seconds in attention_seconds(tokens, chip).items():
        rows.append(Timed(Kernel(name, LAYERS, 0.0), seconds, seconds * found[kind_of(name)]))
    for kernel in update():
        seconds = roofline.seconds(kernel, gpu, [LENGTH]) / micro_batches
        rows.append(Timed(kernel, seconds, seconds * found["AdamW"]))
    return rows


def groups(rows):
    """[(name, paper, measured)] by descending time: products of one kind of layer together."""
    sums = {}
    for row in rows:
        name = "matrix products of the head" if row.kernel.shape and "head" in row.kernel.name else "matrix products" if row.kernel.shape else row.kernel.name
        old = sums.get(name, (0.0, 0.0))
        sums[name] = (old[0] + row.paper, old[1] + row.measured)
    return sorted(((name, *times) for name, times in sums.items()), key=lambda group: -group[2])


def document(commit):
    gpu, chip, tokens = roofline.GPUS[0], attention.CHIPS[0], MICRO_BATCH * LENGTH
    found = ratios()
    rows = timed(tokens, gpu, chip, found)
    paper, measured = sum(row.paper for row in rows), sum(row.measured for row in rows)
    rate = lambda seconds: tokens / seconds
    share = lambda seconds: 1e-12 * COUNTED * rate(seconds)
    lines = ["# ModernBERT-base's pretraining on paper", "",
             f"Made by `tests/bench/roofline_modernbert.py` at commit {commit}; no step of it was measured. One {gpu.name} of eight, bf16, micro-batches of {MICRO_BATCH} sequences of "
             f"{LENGTH:,} tokens; {1e-9 * COUNTED:.3f} GFLOP a token. Communication between GPUs overlaps with the last micro-batch's backward pass and is left out.", "",
             "| | ms a micro-batch | tokens/s of a GPU | TFLOP/s | published rate |", "|---|---:|---:|---:|---:|"]
    for name, seconds in (("on paper", paper), ("by the ratios of an H200's kernels", measured)):
        lines.append(f"| {name} | {1e3 * seconds:.1f} | {1e-3 * rate(seconds):.0f} k | {share(seconds):.0f} | {rate(seconds) / PUBLISHED[1]:.2f} × |")
    lines += ["", f"Published: {1e-3 * PUBLISHED[0]:.0f} to {1e-3 * PUBLISHED[1]:.0f} k tokens/s of a GPU on 8 × H100 SXM (Warner et al. 2024), {share(tokens / PUBLISHED[1]):.0f} TFLOP/s. The aim is {1e-3 * AIM:.0f} k. The ratio of attention's backward pass "
              "is that of the kernel for up to 512 tokens; at 1,024 others run, which were not measured with this shape.", "",
              "| kernels | paper, µs | ratio | with it, µs | share |", "|---|---:|---:|---:|---:|"]
    for name, own, times in groups(rows):
        lines.append(f"| {name} | {1e6 * own:.0f} | {times / own:.2f} | {1e6 * times:.0f} | {100 * times / measured:.1f}% |")
    return "\n".join(lines) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent
    commit = subprocess.run(["git", "-C", str(here), "describe", "--always"], capture_output=True, text=True, check=False).stdout.strip()
    print(document(commit or "unknown"), end="")


if __name__ == "__main__":
    main()
