#!/usr/bin/env python3
"""Attention's kernels on paper: for every kernel what each unit of a multiprocessor has to do for a pair of query and key,
and the least time that leaves, beside tiles, shared memory and what the compiler says.

    python3 roofline_attention.py [--ptxas FILE]... > results/roofline_attention.md
    python3 roofline_attention.py --masks    the section about causal and window masks alone

A FILE is what "nvcc -Xptxas -v" said of src/ops/cuda/fused_attention.cpp for one architecture.

The model. Tensor cores: the products that a kernel computes (split backward kernels compute scores twice). Exponentials:
16 a cycle and multiprocessor. Shared memory: 128 bytes a cycle, for what warps read as operands and write of ds; there are
no bank conflicts (a unit test counts them). Issue: 128 lanes' instructions a cycle, as many a pair as the loops of the
machine code have that nvcc 13.0 makes for sm_90, every branch counted. Only forward draws dropout's numbers; what they
decide is kept as a bit a pair, which forward writes and backward reads. With a mask, tiles outside it are skipped. A kernel takes its busiest unit's time at least,
which the table names; how much of the other units' time overlaps with it, a measurement on a GPU must show.
"""

import argparse
import math
import re
import sys
from dataclasses import dataclass

import roofline


@dataclass(frozen=True)
class Chip:
    name: str
    processors: int
    clock: float  # Hz under load
    tensor: float  # operations a cycle and multiprocessor by mma.sync
    memory: float  # bytes a second
    shared: int  # bytes of shared memory that blocks of a multiprocessor can have


# On Hopper mma.sync reaches about 0.62 of the rate that wgmma has.
CHIPS = [Chip("H100", 132, 1.70e9, 0.62 * 4096, 3.35e12, 227 * 1024), Chip("A100", 108, 1.41e9, 2048, 2.04e12, 163 * 1024)]
EXPONENTIALS, SHARED_BYTES, ISSUES = 16.0, 128.0, 128.0  # a cycle and multiprocessor
# {head size: instructions a pair of forward's dropout}: the difference of the two forward kernels' loops. 2.4 are those of a
# draw of 16 decisions, the rest compares, gathers, stores and applies them.
DROPOUT = {32: 5.7, 64: 5.7, 128: 6.8}
# {(kernel, head size): instructions a pair with dropout}, counted in the loops of the machine code.
INSTRUCTIONS = {
    ("forward", 32): 16.0, ("forward", 64): 18.5, ("forward", 128): 27.9,
    ("split: keys", 32): 15.7, ("split: keys", 64): 19.3, ("split: keys", 128): 33.5,
    ("split: queries", 32): 14.1, ("split: queries", 64): 16.9, ("split: queries", 128): 28.4,
    ("sequence, 4 warps", 32): 20.3, ("sequence, 4 warps", 64): 25.6,
    ("sequence, 8 warps", 32): 20.4, ("sequence, 8 warps", 64): 27.5, ("sequence, 8 warps, small", 64): 29.8,
}


@dataclass(frozen=True)
class Mask:
    """A query attends to so many keys before and after its own; None: to all."""

    name: str
    before: int | None
    after: int | None

    def meets(self, queries, keys):
        """Whether a query of [begin, end) attends to a key of [begin, end)."""
        return ((self.after is None or keys[0] <= queries[1] - 1 + self.after)
                and (self.before is None or queries[0] - self.before <= keys[1] - 1))


FULL, CAUSAL = Mask("full", None, None), Mask("causal", None, 0)


def window(keys):
    return Mask(f"window of {keys} + 1", keys // 2, keys // 2)


@dataclass(frozen=True)
class Kernel:
    """`rows` own rows a block, 16 or 32 a warp, `others` of the other side at a time; `products` of rows × others × D."""

    name: str
    head_dim: int
    rows: int
    others: int
    products: int  # computed, in 16-bit ones that take the same time
    shared_bytes: int  # a block
    operand_bytes: float  # of shared memory read and written for a pair
    matrices: int  # of 16-bit elements read or written in device memory
    warp_rows: int
    resident: int  # blocks to a multiprocessor, as registers allow
    sequences: bool = False  # a block takes all of a sequence, its own rows by tiles

    @property
    def own_queries(self):
        return self.name.endswith(("forward", "queries"))

    @property
    def operations(self):
        return 2.0 * self.head_dim * self.products

    def instructions(self, dropout):
        drawn = DROPOUT[self.head_dim] if self.name == "forward" and not dropout else 0.0
        return INSTRUCTIONS[self.name, self.head_dim] - drawn

    def issue(self, dropout):
        return self.instructions(dropout) / ISSUES

    def cycles(self, chip):
        """{unit: cycles a pair on one multiprocessor}, without issue"""
        return {
            "tensor": self.operations / chip.tensor,
            "exp": 1.0 / EXPONENTIALS,
            "shared": self.operand_bytes / SHARED_BYTES,
        }


def side_kernel(name, head_dim, others, products, tiles, own_tiles, numbers, kept, matrices):
    """Four warps, each of which reads the other side's tile for every product, and its own rows where these are not `kept`."""
    warp_rows = 16 if head_dim == 128 else 32
    rows = 4 * warp_rows
    shared = 2 * head_dim * (own_tiles * rows + tiles * others) + 4 * numbers * others
    operands = products * 2.0 * head_dim / warp_rows + (0.0 if kept else 2 * 2.0 * head_dim / others)
    return Kernel(name, head_dim, rows, others, products, shared, operands, matrices, warp_rows, 2)


def sequence_kernel(name, head_dim, warps, others, length):
    """As SequenceShape in src/ops/cuda/attention_backward_sequence.hpp has it, for sequences up to `length`."""
    keys = 32 * warps
    row_parts = 4 if head_dim == 32 and warps == 8 else 2
    part_rows, part_columns = others // row_parts, head_dim // (warps // row_parts)
    padded = others * math.ceil(length / others)
    shared = 4 * head_dim * (keys + others) + 2 * keys * others + padded * (8 + (4 * head_dim if length > keys else 0))
    side = 4 * 2.0 * head_dim / 32 + (0.0 if head_dim == 32 else 2 * 2.0 * head_dim / 32)
    operands = side + 2.0 + 2.0 * warps * (part_rows + part_columns) / others
    return Kernel(name, head_dim, keys, others, 5, shared, operands, 8, 32, 1 if warps == 8 else 2, True)


def forward_kernel(head_dim):
    return side_kernel("forward", head_dim, 64, 2, 2, 1, 0, True, 4)


def split_kernels(head_dim):
    """As BackwardShape in src/ops/cuda/attention_backward.hpp has them."""
    return [side_kernel("split: keys", head_dim, 32, 4, 4, 2, 4, head_dim == 32, 6),
            side_kernel("split: queries", head_dim, 32, 3, 4, 2, 0, True, 5)]


def float_kernels(kind, head_dim):
    """The kernels of "tf32", or "fp32" with three TF32 products for each: 16 rows a warp, which reads all operands from tiles.
    TF32 has half the tensor cores' rate of 16 bits."""
    kernels = []
    slots = 3 if head_dim == 32 else 2
    for name, others, products, tiles, own_tiles, numbers, lefts, matrices in (
            ("forward", 64, 2, 2, 1, 0, 1, 4),
            ("split: keys", 32 if head_dim <= 64 else 16, 4, 4, 2, 4, 2, 6),
            ("split: queries", 32 if head_dim <= 64 else 16, 3, 4, 2, 0, 2, 5)):
        shared = 4 * head_dim * (own_tiles * 64 + tiles * others) + 4 * numbers * others
        operands = products * 4.0 * head_dim / 16 + lefts * 4.0 * head_dim / others
        time = products * (2 if kind == "tf32" else 6)
        kernels.append(Kernel(f"{kind}, {name}", head_dim, 64, others, time, shared, operands, 2 * matrices, 16, slots))
    return kernels


def sequence_kernels(head_dim, length):
    """In the order in which src/ops/cuda/attention_choice.hpp tries them."""
    if head_dim == 128:
        return []
    four = [sequence_kernel("sequence, 4 warps", head_dim, 4, 64, length)] if length <= 128 else []
    small = [sequence_kernel("sequence, 8 warps, small", head_dim, 8, 32, length)] if head_dim == 64 else []
    return four + [sequence_kernel("sequence, 8 warps", head_dim, 8, 64, length)] + small


def backward_kernels(head_dim, chip, length, mask=FULL):
    for kernel in sequence_kernels(head_dim, length) if mask.before is None else []:
        if kernel.shared_bytes <= chip.shared:
            return [kernel]
    return split_kernels(head_dim)


def pairs_computed(kernel, lengths, mask=FULL, whole_blocks=False):
    """Own rows by whole warps' shares, as warps without rows rest; of the other side whole tiles, by 32 of sequences, and with a
    mask those that the share meets. whole_blocks: as if a block's warps all worked until its last one has no tile left."""
    others = 32 if kernel.sequences else kernel.others
    share = kernel.warp_rows

    def of_sequence(s):
        if mask == FULL:
            return share * math.ceil(s / share) * others * math.ceil(s / others)
        step, pairs = kernel.rows if whole_blocks else share, 0
        for own in range(0, s, step):
            rows = (own, min(own + step, s))
            tiles = [(at, min(at + kernel.others, s)) for at in range(0, s, kernel.others)]
            met = [tile for tile in tiles if mask.meets(*((rows, tile) if kernel.own_queries else (tile, rows)))]
            pairs += share * math.ceil((rows[1] - own) / share) * sum(others * math.ceil((end - at) / others) for at, end in met)
        return pairs

    computed = {s: of_sequence(s) for s in set(lengths)}
    return float(sum(computed[s] for s in lengths))


def seconds(kernel, chip, lengths, heads, dropout, mask=FULL, whole_blocks=False):
    """(seconds, unit) of one launch: blocks in whole waves over the multiprocessors."""
    units = {**kernel.cycles(chip), "issue": kernel.issue(dropout)}
    unit, cycles = max(units.items(), key=lambda item: item[1])
    resident = min(kernel.resident, chip.shared // (kernel.shared_bytes + 1024)) if kernel.resident > 1 else 1
    blocks = heads * (len(lengths) if kernel.sequences else sum(math.ceil(s / kernel.rows) for s in lengths))
    slots = chip.processors * max(1, resident)
    wave_share = blocks / (math.ceil(blocks / slots) * slots) if blocks < 8 * slots else 1.0
    pairs = pairs_computed(kernel, lengths, mask, whole_blocks)
    computing = cycles * pairs * heads / (chip.processors * chip.clock * wave_share)
    bits = heads * min(pairs, sum(s * s for s in lengths)) / 8.0 if dropout else 0.0
    moved = 2.0 * sum(lengths) * heads * kernel.head_dim * kernel.matrices + bits
    streaming = moved / (chip.memory * roofline.MEMORY_SHARE)
    return max((computing, unit), (streaming, "memory"), (roofline.FLOOR, "launch"))


def one_way(kernels, count, head_dim, chip, lengths, heads, dropout, *masked):
    """(seconds, TFLOP/s counted, units) of a layer by these kernels, `count` operations a pair and column of the full mask."""
    pairs = float(sum(s * s for s in lengths)) * heads
    times = [seconds(k, chip, lengths, heads, dropout, *masked) for k in kernels]
    total = sum(time for time, _ in times)
    if len(kernels) > 1:  # D has a kernel of its own
        total += 2.0 * sum(lengths) * heads * head_dim * 2 / (chip.memory * roofline.MEMORY_SHARE) + roofline.FLOOR
    return total, count * 1e-12 * head_dim * pairs / total, " + ".join(unit for _, unit in times)


def ways(head_dim, chip, lengths, heads, dropout):
    """Forward, backward by the kernel that is chosen, and by the split ones: see one_way()."""
    arguments = (head_dim, chip, lengths, heads, dropout)
    return [one_way([forward_kernel(head_dim)], 4, *arguments),
            one_way(backward_kernels(head_dim, chip, max(lengths)), 10, *arguments),
            one_way(split_kernels(head_dim), 10, *arguments)]


MASKED = [(512, CAUSAL), (384, CAUSAL), (256, CAUSAL), (128, CAUSAL), (1024, CAUSAL), (512, window(128)), (1024, window(128)), (4096, window(128))]


def mask_section():
    """Times of masks, and their share of the full mask's."""
    chip = CHIPS[0]
    lines = ["## Causal and window masks", "",
             f"12 heads of 64, 16,384 tokens, dropout 0.1, {chip.name}: µs, and the share of the full mask's time. A warp skips tiles outside the mask. "
             "The first share takes it that other warps then use the units; the second, of whole blocks, that they wait until the "
             "block's last warp is done. A window's backward pass takes the split kernels at every length.", "",
             "| length | mask | forward, full | masked | share | of blocks | backward, full | masked | share | of blocks |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for length, mask in MASKED:
        cells = []
        for count in (4, 10):
            times = []
            for masked in ((FULL, False), (mask, False), (mask, True)):
                kernels = [forward_kernel(64)] if count == 4 else backward_kernels(64, chip, length, masked[0])
                times.append(one_way(kernels, count, 64, chip, [length] * (16384 // length), 12, True, *masked)[0])
            cells += [f"{1e6 * times[0]:.0f}", f"{1e6 * times[1]:.0f}", f"{times[1] / times[0]:.2f}", f"{times[2] / times[0]:.2f}"]
        lines.append(f"| {length} | {mask.name} | " + " | ".join(cells) + " |")
    return lines + ["", "At 512 tokens a causal mask is to take at most 0.6 of the full mask's time. On paper it does if other warps use the units of those "
                    "that skip tiles; if blocks wait, it does not. Measured on an H200 it takes 0.74 forward and 0.82 backward, so the aim is "
                    "not reached: see [causal attention](gpu.md#causal-attention). Short sequences gain little in either case: a tile has 64 "
                    "keys, and up to 256 tokens memory bounds both masks."]


def registers(text):
    """{(kernel, head_dim): (architecture, registers, spilled bytes)} of nvcc's report, bf16 and floats."""
    found = {}
    names = {"forward": "forward", "backward_keys": "split: keys", "backward_queries": "split: queries"}
    shapes = {("4", "64"): "sequence, 4 warps", ("8", "64"): "sequence, 8 warps", ("8", "32"): "sequence, 8 warps, small"}
    architectures = dict(re.findall(r"Compiling entry function '(\S+)' for '(\w+)'", text))
    for mangled, figures in roofline.parse_ptxas(text).items():
        name = re.search(r"attention_(\w+?)_kernelIN.*?(Bf16|SplitFp32|Tf32)ELi(\d+)E(?:\w*SequenceShapeILi\d+ELi(\d)ELi(\d+)E)?",
                         mangled)
        kernel = name and (names.get(name.group(1)) or shapes.get(name.group(4, 5)))
        if kernel and not (kernel == "forward" and "ELb0E" in mangled):  # the kernel without dropout
            spilled = figures["spill_stores"] + figures["spill_loads"]
            kind = {"SplitFp32": "fp32, ", "Tf32": "tf32, "}.get(name.group(2), "")
            found[kind + kernel, int(name.group(3))] = (architectures[mangled], figures["registers"], spilled)
    return found


def row(kernel, reports):
    """The cells that both tables of kernels have."""
    said = "; ".join("{}: {} + {}".format(*r[kernel.name, kernel.head_dim]) for r in reports if (kernel.name, kernel.head_dim) in r)
    units = [[f"{1e3 * c:.0f}" for c in (kernel.cycles(chip)[unit] for chip in CHIPS)] for unit in ("tensor", "exp", "shared")]
    return (f"| {kernel.name} | {kernel.head_dim} | {kernel.rows} | {kernel.others} | {kernel.shared_bytes / 1024:.1f} | {said} ",
            f"| {kernel.operand_bytes:.1f} | " + " | ".join([" / ".join(units[0]), units[1][0], units[2][0]]))


def document(reports):
    lines = ["# Attention's kernels on paper", "",
             "Made by `tests/bench/roofline_attention.py`; nothing here was measured on a GPU, unless a sentence says so. A `sequence` kernel's shared memory is for sequences of 128, 384 and 512.", "",
             "## A block, and a pair of query and key", "",
             "Cycles of each unit of a multiprocessor a 1000 pairs, on an H100 and an A100; issue without and with dropout.", "",
             "| kernel | head size | own rows | others | shared, KiB | registers + spilled bytes | products | bytes of shared memory | tensor | exp | shared | issue |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for head_dim in (32, 64, 128):
        lengths = {"sequence, 4 warps": 128, "sequence, 8 warps": 384, "sequence, 8 warps, small": 512}
        sequences = [k for name, length in lengths.items() for k in sequence_kernels(head_dim, length) if k.name == name]
        for k in [forward_kernel(head_dim), *split_kernels(head_dim), *sequences]:
            block, pair = row(k, reports)
            issue = " / ".join(f"{1e3 * k.issue(d):.0f}" for d in (False, True))
            lines.append(f"{block}| {k.products} {pair} | {issue} |")
    lines += ["", "## Kernels of floats", "",
              "fp32 has three TF32 products for each, tf32 one; backward by the split kernels at every length. Cycles as above; issue is not counted.", "",
              "| kernel | head size | own rows | others | shared, KiB | registers + spilled bytes | bytes of shared memory | tensor | exp | shared |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for kind in ("fp32", "tf32"):
        for head_dim in (32, 64, 128):
            lines += ["".join(row(k, reports)) + " |" for k in float_kernels(kind, head_dim)]
    lines += ["", "## A layer, 16,384 tokens", "",
              "Least time by the busiest unit, and the rate of 4·hidden·s² operations forward and 10 backward that it would be. Backward by the "
              "kernel that is chosen for the length, and by the split kernels (`fused-split` of bench_attention).", "",
              "| heads | length | dropout | GPU | forward, µs | TFLOP/s | by | backward | µs | TFLOP/s | by | split, µs | by |",
              "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for heads, head_dim in ((12, 64), (16, 64), (8, 128), (12, 32)):
        for length in (512, 384, 128) if heads == 12 and head_dim == 64 else (512,):
            for dropout in (False, True):
                for chip in CHIPS:
                    f, b, split = ways(head_dim, chip, [length] * (16384 // length), heads, dropout)
                    chosen = backward_kernels(head_dim, chip, length)
                    name = chosen[0].name if len(chosen) == 1 else "split"
                    lines.append(f"| {heads} of {head_dim} | {length} | {0.1 if dropout else 0.0} | {chip.name} | {1e6 * f[0]:.0f} "
                                 f"| {f[1]:.0f} | {f[2]} | {name} | {1e6 * b[0]:.0f} | {b[1]:.0f} | {b[2]} | {1e6 * split[0]:.0f} | {split[2]} |")
    lines += ["", *mask_section(), "", "What it says: forward with dropout is bound by instructions, a third of which are the generator's and those of its decisions; backward executes none of them. With five products "
              "tensor cores, shared memory and issue are nearly equally busy in the backward kernel of sequences, which leaves little room for "
              "latencies: how near a GPU comes to this is open, and eight warps in one block overlap less than two blocks of four. Lengths that "
              "differ leave multiprocessors idle at the end, which the table does not have; the longest sequences are begun first against it. "
              "`bench_attention` times both backward variants.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", action="append", default=[], help="nvcc -Xptxas -v's words for one architecture")
    parser.add_argument("--masks", action="store_true", help="only the section about masks")
    options = parser.parse_args()
    if options.masks:
        print("\n".join(mask_section()))
        return
    reports = []
    for path in options.ptxas:
        with open(path) as file:
            reports.append(registers(file.read()))
    sys.stdout.write(document(reports))


if __name__ == "__main__":
    main()
