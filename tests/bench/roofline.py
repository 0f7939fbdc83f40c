#!/usr/bin/env python3
"""A training step on paper: for every kernel of a step of BERT the bytes it moves, the operations it does and the time
that a GPU needs at least, beside what the compiler says of it. It is written so that the first hour on a GPU goes to
measuring what is far from its line.

    python3 roofline.py [--build build-cuda] > results/roofline.md

With --build the kernel files of a CUDA build are compiled once more, for ptxas' report of registers, spills and shared
memory (a minute or two); nothing of the build is changed.

The model. A matrix product takes the longest of its bytes at the memory's rate and its tiles at the tensor cores' rate:
tiles go to multiprocessors in whole waves, so a small product leaves most of them idle. Gradients of weights may split
their inner dimension, the batch, as they do where runs need not be reproducible: parts of sums are then written and added
by a kernel of their own. Attention takes the rates that the project aims at. Everything else takes its bytes at the memory's rate. No kernel is shorter than the floor of one
that depends on the kernel before. The step takes no less than the host needs to launch all of it.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

import cases


@dataclass(frozen=True)
class Gpu:
    name: str
    tensor: float  # dense bf16 operations a second, by the data sheet
    memory: float  # bytes a second, by the data sheet
    processors: int
    product_share: float  # of `tensor` that a large product reaches: power and issue limits
    attention: tuple  # operations a second forward and backward at length 512; shorter sequences fill tiles less


# Shares and attention's rates are what is published of cuBLAS and of FlashAttention on these chips, or this project's aim.
GPUS = [
    Gpu("H100", 989e12, 3.35e12, 132, 0.70, (330e12, 260e12)),
    Gpu("H200", 989e12, 4.80e12, 132, 0.70, (330e12, 260e12)),
    Gpu("A100", 312e12, 2.04e12, 108, 0.80, (180e12, 140e12)),
]
MEMORY_SHARE = 0.90  # of the data sheet's rate, for long streams
FLOOR = 2.5e-6  # seconds of a dependent kernel that does next to nothing
# Seconds of a product that its first tiles' loads and its last ones' stores take, which nothing hides: the products of
# BERT-base, of 10 to 30 µs, come out at 400 to 500 TFLOP/s with it, as they typically do; 8192³ stays at the share.
RAMP = 6.0e-6
LAUNCH = 2.2e-6  # seconds of the host for a launch; about 0.4 inside a CUDA graph
WORKSPACE = 32 * 2**20  # bytes, of partial sums where the inner dimension is split
SPLITS = range(1, 17)
TILES = [(128, 256, 1.0), (128, 128, 0.9), (64, 128, 0.75), (64, 64, 0.55)]  # and their rate, of the best


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    vocabulary: int = 30522
    positions: int = 512

    @property
    def wide(self):
        return 4 * self.hidden

    @property
    def tables(self):
        """Parameters that are looked up, and that no product reads."""
        return (self.vocabulary + self.positions + 2) * self.hidden

    @property
    def parameters(self):
        h = self.hidden
        block = 4 * h * h + 2 * h * self.wide + 9 * h + self.wide
        return self.layers * (block + 0) + (self.vocabulary + self.positions + 4) * h + h * h + 3 * h + 2


BASE, LARGE = Model("BERT-base", 12, 768), Model("BERT-large", 24, 1024)


@dataclass(frozen=True)
class Kernel:
    """`launches` a step. A product has `shape` (rows, columns, inner) of one launch, and may be `split`; attention says
    which way."""

    name: str
    launches: int
    bytes: float  # of all launches
    operations: float = 0.0  # of the tensor cores, in all launches
    shape: tuple = None
    attention: int = None  # 0 forward, 1 backward
    split: bool = False
    operand: int = 2  # bytes of a number of a product's operands


def counted_calls():
    """Blocks → calls of a step by section and kernel, as tests/unit/train/test_call_counts.cpp counts them on a CPU with
    a GPU's fused forms. CUDA's attention may take a kernel more in backward."""
    table = json.loads((pathlib.Path(__file__).parent / "results/launches.json").read_text())
    return {int(blocks): calls for blocks, calls in table.items()}


CALLS = counted_calls()


def calls(model, *names):
    """Launches a step of the kernels with these names."""
    return sum(count for call, count in CALLS[model.layers].items() if call.split(" ", 1)[1] in names)


def product(name, launches, rows, columns, inner, extra=0.0, out=2, split=False, operand=2):
    """`operand` and `out` bytes an element of operands and result, `extra` bytes beside them."""
    moved = float(operand) * (rows * inner + inner * columns) + out * rows * columns + extra
    return Kernel(name, launches, launches * moved, launches * 2.0 * rows * columns * inner, (rows, columns, inner),
                  split=split, operand=operand)


def linear_layers(model):
    """(name, out, in) of a block's."""
    h, w = model.hidden, model.wide
    return [("query, key, value", 3 * h, h), ("attention output", h, h), ("feed-forward in", w, h), ("feed-forward out", h, w)]


def products_of_step(model, tokens, operand=2, narrow=False):
    """`narrow`: gradients of the blocks' weights are stored in 16 bits (include/bert_hpc/train/weight_gradients.hpp)."""
    n, h = model.layers, model.hidden
    kernels = []
    for name, out, inner in linear_layers(model):
        kernels.append(product(name + ": forward", n, tokens, out, inner, operand=operand))
        # Two of the four add to the residual's gradient, which is read too.
        more = 2.0 * tokens * inner if inner == h and out != h else 0.0
        kernels.append(product(name + ": gradient of input", n, tokens, inner, out, more, operand=operand))
        # The first micro-batch's, here the only one, is written alone.
        kernels.append(product(name + ": gradient of weight", n, out, inner, tokens, out=2 if narrow else 4, split=True, operand=operand))
    return kernels


def fp8_roundings_of_step(model, tokens):
    """From two bytes to one: x for the forward pass, and transposed for the gradient of the weight; d_y both as it is and transposed
    in one pass. GELU and its gradient are computed meanwhile, the gradient from two matrices. Of the weights' copies in 16
    bits the largest magnitudes, and then 8-bit numbers both ways, too."""
    n, layers = model.layers, linear_layers(model)
    intermediate = float(n * tokens * model.wide)
    inputs, outputs = (n * tokens * sum(layer[i] for layer in layers) for i in (2, 1))
    weights = sum(out * inner for _, out, inner in layers)
    return [
        Kernel("activations to FP8", n * len(layers), 3.0 * inputs),
        Kernel("activations to FP8, transposed", n * len(layers), 3.0 * inputs),
        Kernel("gradients to FP8, both ways", n * len(layers), 4.0 * outputs + 2.0 * intermediate),
        Kernel("weights to FP8", 2 * n * len(layers), 6.0 * n * weights),
    ]


def partial_sums(model, tokens):
    """Bytes of the partial sums of a layer norm's backward pass: three rows for each block (src/ops/norm_sums.hpp)."""
    return min(132, math.ceil(tokens / 5)) * 3 * model.hidden * 4.0


def messages_of(model):
    """As train::usual_bucket_elements() and its plan: about a dozen, and one more where known zeros of the embeddings end."""
    elements = min(max(model.parameters // 12, 2**22), 2**25)
    return math.ceil(model.parameters / elements) + 1


def head_calls(model):
    """Launches of the head, the loss, the copies to the host, and the last block's selection of rows: its query has
    products and a bias' gradient of its own. The embeddings have one of the dropouts of each pass."""
    n = model.layers
    return (calls(model, "gemm") - 3 * 4 * n + calls(model, "column_sums") - n + calls(model, "dropout") - 2 +
            calls(model, "cross_entropy", "gather_rows", "scatter_add_rows", "tanh_forward", "tanh_backward", "copy_to_host",
                  "start_copy_to_host"))


def streams_of_step(model, tokens, sequences, ranks=1, narrow=False):
    """All that is not a product: by the elements that each reads and writes, 2 bytes an activation, 4 a parameter. Epilogues
    add the biases of the products whose result no kernel of ours needs at once."""
    n, h, w, p = model.layers, model.hidden, model.wide, model.parameters
    t = float(tokens)
    weights = float(p - model.tables)
    blocks = float(n * (4 * h * h + 2 * h * w))
    spared = 2.0 * blocks if narrow else 0.0
    messages = messages_of(model)
    norm_sums = partial_sums(model, tokens)
    kernels = [
        Kernel("embedding: look-up", calls(model, "embedding_forward"), t * h * (12 + 2)),
        Kernel("embedding: layer norm, dropout", 2, t * h * (6 + 4)),
        Kernel("GELU", calls(model, "gelu_forward"), n * t * w * 4),
        Kernel("bias + dropout + residual + layer norm", calls(model, "residual_layer_norm_forward") - 1, 2 * n * t * h * 8),
        Kernel("layer norm, dropout: backward", calls(model, "residual_layer_norm_backward", "residual_layer_norm_backward_sums"), (2 * n + 1) * t * h * 8 + 2 * n * norm_sums),
        Kernel("GELU: backward", calls(model, "gelu_backward_sums"), n * (t * w * 6 + norm_sums)),
        # GELU's backward pass and this one add up the partial sums of the norm before them: gradients of γ, β and a bias.
        Kernel("gradients of the biases of query, key, value", n, n * (t * 3 * h * 2 + norm_sums)),
        Kernel("embedding layer norm: gradients of weights", calls(model, "layer_norm_backward_weight"), t * h * 4),
        Kernel("embedding: backward", 1 + calls(model, "embedding_backward", "mark_rows", "mark_first_rows"), t * h * (2 + 2) + t * h * 12),
        Kernel("head and loss", head_calls(model), sequences * h * 2 * 30 + 6.0 * h * h * 4),
        Kernel("gradient norm", calls(model, "squared_norm_ranges", "sum_and_clip"), p * 4.0 - spared),
        # Value, gradient, two moments: each read and written, but gradients of the blocks' weights, which the next step
        # replaces, are read alone. Rounded copies of what products read are written with them where a rank updates
        # everything.
        Kernel("AdamW", messages if ranks > 1 else calls(model, "adamw"), p * 32.0 - 4.0 * blocks - spared + (weights * 2.0 if ranks == 1 else 0.0)),
    ]
    if ranks > 1:
        kernels.append(Kernel("weights to 16 bits, after the update", 2, weights * 6.0))
        kernels.append(Kernel(f"reduce-scatters and all-gathers over {ranks} ranks (NVLink, beside backward)", 2 * messages,
                              p * 8.0 * (ranks - 1) / ranks))
    return kernels


def attention_of_step(model, lengths):
    """Forward 4·hidden·s² operations a sequence; backward 10, two of which compute scores again. Which pairs dropout keeps
    is written by forward and read by backward, a bit each. Lengths are such that one kernel does backward."""
    squares = float(sum(s * s for s in lengths))
    tokens, n, h = float(sum(lengths)), model.layers, model.hidden
    bits = h / 64 * squares / 8  # bytes; heads of 64
    return [
        Kernel("attention: forward", n, n * (tokens * h * 8 + bits), 4.0 * n * h * squares, attention=0),
        Kernel("attention: backward", n, n * (tokens * h * 16 + bits), 10.0 * n * h * squares, attention=1),
    ]


def fp8_kernels_of_step(model, lengths):
    """One rank's. The gradient of GELU's bias is added up from sums over 128 rows, with the norm's."""
    tokens = sum(lengths)
    streams = [kernel for kernel in streams_of_step(model, tokens, len(lengths), narrow=True) if not kernel.name.startswith("GELU")]
    sums = model.layers * (math.ceil(tokens / 128) * model.wide * 4.0 + partial_sums(model, tokens))
    streams.append(Kernel("gradients of the intermediate biases", model.layers, sums))
    return (products_of_step(model, tokens, operand=1, narrow=True) + fp8_roundings_of_step(model, tokens) +
            attention_of_step(model, lengths) + streams)


def kernels_of_step(model, lengths, ranks=1):
    tokens = sum(lengths)
    narrow = ranks == 1  # and one micro-batch a step
    return products_of_step(model, tokens, narrow=narrow) + attention_of_step(model, lengths) + streams_of_step(
        model, tokens, len(lengths), ranks, narrow=narrow)


def tile_share(rows, columns, processors, parts=1):
    """Of the tensor cores' rate that whole waves of the best tile leave, each tile being made in this many parts."""
    best = 0.0
    for height, width, rate in TILES:
        tiles = math.ceil(rows / height) * math.ceil(columns / width) * parts
        useful = parts * rows * columns / (tiles * height * width)
        best = max(best, rate * useful * tiles / (math.ceil(tiles / processors) * processors))
    return best


def attention_share(lengths):
    """Of the rate at length 512: tiles of 128 queries by 128 keys, filled by the real rows; and shorter loops."""
    used = sum(s * s for s in lengths)
    taken = sum((128 * math.ceil(s / 128)) ** 2 for s in lengths)
    mean = used / sum(lengths)
    return used / taken * min(1.0, 0.5 + 0.5 * mean / 512)


def product_seconds(kernel, gpu, parts):
    """Of all launches, the inner dimension in this many parts, whose sums are written as floats and read to be added."""
    rows, columns, _ = kernel.shape
    partial = kernel.launches * 4.0 * parts * rows * columns if parts > 1 else 0.0
    rate = gpu.memory * MEMORY_SHARE
    tensor = gpu.tensor * 2 / kernel.operand  # numbers of half the size go through at twice the rate
    computing = kernel.operations / (tensor * gpu.product_share * tile_share(rows, columns, gpu.processors, parts))
    adding = partial / rate + kernel.launches * FLOOR if parts > 1 else 0.0
    return max((kernel.bytes + partial) / rate, computing) + kernel.launches * RAMP + adding


def parts_of(kernel):
    """In how many parts a product may be made."""
    rows, columns, inner = kernel.shape
    return [s for s in SPLITS if s == 1 or (kernel.split and 4 * s * rows * columns <= WORKSPACE and inner >= 128 * s)]


def seconds(kernel, gpu, lengths):
    """Of all launches of a kernel in a step."""
    streaming = kernel.bytes / (gpu.memory * MEMORY_SHARE)
    computing = 0.0
    if kernel.shape is not None:
        computing = min(product_seconds(kernel, gpu, parts) for parts in parts_of(kernel))
    elif kernel.attention is not None:
        computing = kernel.operations / (gpu.attention[kernel.attention] * attention_share(lengths))
    return max(streaming, computing, kernel.launches * FLOOR)


@dataclass(frozen=True)
class Estimate:
    rows: list  # (kernel, seconds)
    device: float
    host: float
    useful: float  # operations: 72·L·H² + 12·L·H·s a token

    @property
    def step(self):
        return max(self.device, self.host)


def estimate(model, lengths, gpu, ranks=1, fp8=False):
    kernels = fp8_kernels_of_step(model, lengths) if fp8 else kernels_of_step(model, lengths, ranks)
    rows = [(kernel, seconds(kernel, gpu, lengths)) for kernel in kernels]
    useful = sum(s * (72.0 * model.layers * model.hidden**2 + 12.0 * model.layers * model.hidden * s) for s in lengths)
    launches = sum(kernel.launches for kernel, _ in rows)
    return Estimate(rows, sum(time for _, time in rows), launches * LAUNCH, useful)


# --- What the compiler says.


def parse_ptxas(text):
    """ptxas -v's report as {mangled name: {registers, stack, spill_stores, spill_loads, shared}}."""
    found, name = {}, None
    for line in text.splitlines():
        begin = re.search(r"Compiling entry function '([^']+)'", line)
        if begin:
            name = begin.group(1)
            found[name] = {"registers": 0, "stack": 0, "spill_stores": 0, "spill_loads": 0, "shared": 0}
            continue
        if name is None:
            continue
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if memory:
            for key, value in zip(("stack", "spill_stores", "spill_loads"), memory.groups()):
                found[name][key] = int(value)
        used = re.search(r"Used (\d+) registers", line)
        if used:
            found[name]["registers"] = int(used.group(1))
            shared = re.search(r"(\d+) bytes smem", line)
            found[name]["shared"] = int(shared.group(1)) if shared else 0
            name = None
    return found


LAUNCHERS = {"kernel", "launch", "run", "map", "warps", "sums_of_strips", "StripSums", "packs", "embedding_rows", "pack_rows", "cuda", "for_items", "for_elements", "for_flat",
             "for_uneven_items", "for_marked", "for_rows", "for_warps", "for_strips", "for_packs"}
ELEMENT = re.compile(r"I(?:(?P<float>f)|N[^E]*?\d(?P<half>Bf16|Fp16)E)")


def identifiers(mangled):
    """The length-prefixed names in a mangled one, each with where it ends."""
    position = 0
    while found := re.compile(r"S[0-9A-Z]*_|L[a-z]n?\d+E|\d+").search(mangled, position):
        position = found.end()
        if found.group()[0] in "SL":  # a substitution, or a number
            continue
        length = int(found.group())
        name = mangled[position : position + length]
        if len(name) == length and re.fullmatch(r"[A-Za-z_]\w*", name):
            position += length
            yield name, position


def short_name(mangled):
    """The function of ours that a kernel's body was written in, with its first type; None for kernels of libraries. (Not
    every demangler knows nvcc's lambdas.)"""
    inside = False
    for name, end in identifiers(mangled):
        if name == "ops":
            inside = True
        elif inside and name not in LAUNCHERS and not name.startswith(("_GLOBAL__N_", "_INTERNAL_")):
            element = ELEMENT.match(mangled, end)
            kind = "" if not element else " (fp32)" if element["float"] else f" ({element['half'].lower()})"
            return name + kind
    return None


def compiler_report(build):
    """{file: ptxas' words on it} for the kernel files of a CUDA build."""
    said = {}
    with open(os.path.join(build, "compile_commands.json")) as file:
        commands = json.load(file)
    for entry in commands:
        words = shlex.split(entry["command"])
        if not any(word.endswith("nvcc") for word in words[:2]) or "/src/ops/" not in entry["file"]:
            continue
        words = words[next(i for i, word in enumerate(words) if word.endswith("nvcc")) :]
        words[words.index("-o") + 1] = os.devnull
        done = subprocess.run([*words, "-Xptxas=-v"], cwd=entry["directory"], capture_output=True, text=True, check=True)
        said[os.path.splitext(os.path.basename(entry["file"]))[0]] = done.stderr
    return said


def kernel_resources(said):
    """{"file: kernel of ours": its figures}; of several instances the largest of each figure."""
    kernels = {}
    for file, text in said.items():
        for full, figures in parse_ptxas(text).items():
            name = short_name(full)
            if name is None:
                continue
            known = kernels.setdefault(f"{file}: {name}", dict(figures))
            for key, value in figures.items():
                known[key] = max(known[key], value)
    return kernels


# --- Text.


def shape_cases():
    squad = cases.squad_like(32, 1)
    short = cases.gloss_like(32, 1)
    return [
        ("BERT-base, 32 sequences of SQuAD's lengths", BASE, squad),
        ("BERT-large, 32 sequences of SQuAD's lengths", LARGE, squad),
        ("BERT-base, 32 sequences of 512", BASE, [512] * 32),
        ("BERT-base, 32 short sequences", BASE, short),
    ]


def summary_lines():
    lines = ["| case | tokens | GPU | device, ms | launches | launching, ms | step, ms | TFLOP/s | sequences/s |",
             "|---|---|---|---|---|---|---|---|---|"]
    for title, model, lengths in shape_cases():
        for gpu in GPUS:
            e = estimate(model, lengths, gpu)
            launches = sum(kernel.launches for kernel, _ in e.rows)
            lines.append(
                f"| {title} | {sum(lengths)} | {gpu.name} | {1e3 * e.device:.2f} | {launches} | {1e3 * e.host:.2f} "
                f"| {1e3 * e.step:.2f} | {1e-12 * e.useful / e.step:.0f} | {len(lengths) / e.step:.0f} |")
    return lines


def fp8_lines():
    """Of the GPUs that multiply 8-bit numbers."""
    lines = ["## In FP8", "", "The encoder's products at twice the rate, and what it takes to round their operands; one rank.", "",
             "| case | GPU | bf16: device, ms | FP8: device, ms | products | roundings | FP8 / bf16 |", "|---|---|---|---|---|---|---|"]
    for title, model, lengths in shape_cases():
        for gpu in GPUS[:2]:
            half, eighth = (estimate(model, lengths, gpu, fp8=fp8) for fp8 in (False, True))
            roundings = {kernel.name for kernel in fp8_roundings_of_step(model, 1)}
            products = sum(time for kernel, time in eighth.rows if kernel.shape)
            rounding = sum(time for kernel, time in eighth.rows if kernel.name in roundings)
            lines.append(f"| {title} | {gpu.name} | {1e3 * half.device:.2f} | {1e3 * eighth.device:.2f} | {1e3 * products:.2f} "
                         f"| {1e3 * rounding:.2f} | {eighth.device / half.device:.2f} |")
    return lines + [""]


def case_lines(title, model, lengths):
    lines = [f"## {title}", "",
             "| kernel | launches | MB | GFLOP | " + " | ".join(f"{gpu.name}, µs" for gpu in GPUS) + f" | share on {GPUS[0].name} |",
             "|---|---|---|---|" + "---|" * (len(GPUS) + 1)]
    estimates = [estimate(model, lengths, gpu) for gpu in GPUS]
    order = sorted(range(len(estimates[0].rows)), key=lambda i: -estimates[0].rows[i][1])
    for i in order:
        kernel = estimates[0].rows[i][0]
        times = " | ".join(f"{1e6 * e.rows[i][1]:.0f}" for e in estimates)
        lines.append(f"| {kernel.name} | {kernel.launches} | {1e-6 * kernel.bytes:.1f} | {1e-9 * kernel.operations:.1f} "
                     f"| {times} | {100 * estimates[0].rows[i][1] / estimates[0].device:.1f} % |")
    return lines + [""]


def measured_case(name, gpu_name):
    """A case whose kernels were measured: (case, lengths of the measured step, {group of kernels: µs on paper})."""
    import kernels  # which imports this module

    case = next(case for case in cases.all_cases("cuda") if case["name"] == name)
    lengths = case["lengths"][kernels.MEASURED_STEP % len(case["lengths"])]
    paper = {}
    for kernel, seconds_on_paper in estimate(kernels.model_of(case["config"]), lengths, kernels.gpu_named(gpu_name)).rows:
        group = kernels.group_of(kernel.name, 2)
        paper[group] = paper.get(group, 0.0) + 1e6 * seconds_on_paper
    return case, lengths, paper


def measured_lines(measured):
    """`measured`: results/gpu_kernels.json, of kernels.py: groups of kernels beside their rows on paper, in µs a step."""
    lines = []
    for name, one in measured.items():
        case, lengths, paper = measured_case(name, one["gpu"])
        lines += [f"## Measured: {case['description']}, {sum(lengths)} tokens, {one['gpu']}", "",
                  "| kernels | paper, µs | measured, µs | ratio |", "|---|---:|---:|---:|"]
        for group in sorted(paper.keys() | one["groups"].keys(), key=lambda group: -one["groups"].get(group, 0)):
            expected, found = paper.get(group, 0.0), one["groups"].get(group, 0)
            lines.append(f"| {group} | {expected:.0f} | {found} | {f'{found / expected:.2f}' if expected else '–'} |")
        expected, found = sum(paper.values()), sum(one["groups"].values())
        lines += [f"| all | {expected:.0f} | {found} | {found / expected:.2f} |", ""]
    return lines


def resource_lines(kernels):
    lines = ["## What ptxas says", "", "For sm_90; the largest of a kernel's instances (layer norms: rows of 2048 columns). Spills are bytes stored and loaded.", "",
             "| kernel | registers | stack | spills | shared |", "|---|---|---|---|---|"]
    for name, figures in sorted(kernels.items()):
        lines.append(f"| {name} | {figures['registers']} | {figures['stack']} "
                     f"| {figures['spill_stores']} + {figures['spill_loads']} | {figures['shared']} |")
    return lines + [""]


def document(commit, kernels, remarks="", measured=None):
    lines = ["# A training step on paper", "",
             f"Made by `tests/bench/roofline.py` at commit {commit}; what was measured on a GPU says so. bf16, dropout 0.1, one rank, not reproducible. "
             f"Products at {', '.join(f'{gpu.name} {gpu.product_share:.0%}' for gpu in GPUS)} of the data sheet's dense rate and whole "
             f"waves of tiles, memory at {MEMORY_SHARE:.0%} of its rate, no kernel below {1e6 * FLOOR:.1f} µs, {1e6 * LAUNCH:.1f} µs of the "
             "host a launch. TFLOP/s count 72·L·H² + 12·L·H·s a token.", ""]
    lines += summary_lines() + [""]
    if remarks:
        lines += [remarks.strip(), ""]
    lines += fp8_lines()
    for title, model, lengths in shape_cases():
        lines += case_lines(title, model, lengths)
    lines += measured_lines(measured or {})
    if kernels:
        lines += resource_lines(kernels)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="a CUDA build folder, for ptxas' report")
    arguments = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(["git", "-C", here, "describe", "--always"], capture_output=True, text=True).stdout.strip()
    remarks = os.path.join(here, "results", "roofline_remarks.md")
    text = ""
    if os.path.exists(remarks):
        with open(remarks) as file:
            text = file.read()
    measured = {}
    if os.path.exists(path := os.path.join(here, "results", "gpu_kernels.json")):
        with open(path) as file:
            measured = json.load(file)
    kernels = kernel_resources(compiler_report(arguments.build)) if arguments.build else {}
    sys.stdout.write(document(commit or "unknown", kernels, text, measured))


if __name__ == "__main__":
    main()
