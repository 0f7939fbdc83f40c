#!/usr/bin/env python3
"""Attention's kernels on paper: for every kernel what each unit of a multiprocessor has to do for a pair of query and key,
and the least time that leaves, beside tiles, shared memory and what the compiler says.

    python3 roofline_attention.py [--ptxas FILE]... > results/roofline_attention.md

A FILE is what "nvcc -Xptxas -v" said of src/ops/cuda/fused_attention.cpp for one architecture.

The model. Tensor cores: the products that a kernel computes (the backward kernels compute scores twice). Exponentials: 16
a cycle and multiprocessor. Shared memory: 128 bytes a cycle, for what warps read as operands; there are no bank conflicts
(a unit test counts them). Issue: 128 lanes' instructions a cycle, counted per pair from the source: multiplications,
maxima and sums of the softmax, rounding, addresses, one mma per 16 × 8 × 16; dropout adds Philox, 8 keys a draw, its
exchange between lanes and the choice. A kernel takes its busiest unit's time at least, which the table names; how much of
the others' is hidden behind it with two blocks a multiprocessor is for the first GPU hour to measure.
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
PHILOX = 13.0  # instructions a pair: 80 for a draw of eight, 16 of exchange for the same, one comparison and choice


@dataclass(frozen=True)
class Kernel:
    """`rows` own rows a block of four warps, `others` of the other side at a time; `products` of rows × others × D."""

    name: str
    head_dim: int
    rows: int
    others: int
    products: int  # computed
    useful: int  # of the 2 forward and 5 backward that are counted
    tiles: int  # of `others` rows in shared memory
    own_tiles: int  # of `rows` rows in shared memory
    numbers: int  # floats beside each of the other rows
    kept: bool  # left operands stay in registers
    scalar: float  # instructions a pair beside products, addresses and dropout

    @property
    def shared_bytes(self):
        return 2 * self.head_dim * (self.own_tiles * self.rows + self.tiles * self.others) + 4 * self.numbers * self.others

    @property
    def operations(self):
        return 2.0 * self.head_dim * self.products

    @property
    def operand_bytes(self):
        """Shared memory read for a pair: each warp reads the other side's tile for every product, for its own rows."""
        per_warp = self.rows / 4
        right = self.products * 2.0 * self.head_dim / per_warp
        left = 0.0 if self.kept else 2 * 2.0 * self.head_dim / self.others
        return right + left

    def instructions(self, dropout):
        mma = self.operations / (2.0 * 16 * 8 * 16) * 32
        loads = 3.0 * self.operand_bytes / 16.0  # ldmatrix moves 16 bytes a lane; two for its address
        return self.scalar + mma + loads + (PHILOX if dropout else 0.0)

    def cycles(self, chip, dropout):
        """{unit: cycles a pair on one multiprocessor}"""
        return {
            "tensor": self.operations / chip.tensor,
            "exp": 1.0 / EXPONENTIALS,
            "shared": self.operand_bytes / SHARED_BYTES,
            "issue": self.instructions(dropout) / ISSUES,
        }


def kernels(head_dim):
    """As ForwardShape and BackwardShape in src/ops/cuda have them."""
    row_tiles = 1 if head_dim == 128 else 2
    rescaling = head_dim / 64.0  # of the result, once a tile of 64 keys
    return [
        Kernel("forward", head_dim, 64 * row_tiles, 64, 2, 2, 2, 1, 0, True, 4.5 + rescaling),
        Kernel("backward: keys", head_dim, 64 * row_tiles, 32, 4, 0, 4, 2, 6, head_dim == 32, 8.0),
        Kernel("backward: queries", head_dim, 64 * row_tiles, 32, 3, 0, 4, 2, 0, True, 6.0),
    ]


def pairs_computed(kernel, lengths):
    """Whole tiles of the other side; of the own rows whole warps' shares, as warps without rows rest."""
    share = kernel.rows // 4
    return float(sum(share * math.ceil(s / share) * kernel.others * math.ceil(s / kernel.others) for s in lengths))


def seconds(kernel, chip, lengths, heads, dropout):
    """(seconds, unit) of one launch: blocks in whole waves over the multiprocessors."""
    unit, cycles = max(kernel.cycles(chip, dropout).items(), key=lambda item: item[1])
    resident = min(2, chip.shared // (kernel.shared_bytes + 1024))
    blocks = heads * sum(math.ceil(s / kernel.rows) for s in lengths)
    slots = chip.processors * resident
    wave_share = blocks / (math.ceil(blocks / slots) * slots) if blocks < 8 * slots else 1.0
    computing = cycles * pairs_computed(kernel, lengths) * heads / (chip.processors * chip.clock * wave_share)
    moved = 2.0 * sum(lengths) * heads * kernel.head_dim * (4 if kernel.useful else 5)
    streaming = moved / (chip.memory * roofline.MEMORY_SHARE)
    return max((computing, unit), (streaming, "memory"), (roofline.FLOOR, "launch"))


def both_ways(head_dim, chip, lengths, heads, dropout):
    """[(name, seconds, TFLOP/s counted, units)] forward and backward of one layer."""
    pairs = float(sum(s * s for s in lengths)) * heads
    forward, *backward = [(k, *seconds(k, chip, lengths, heads, dropout)) for k in kernels(head_dim)]
    dots = 2.0 * sum(lengths) * heads * head_dim * 2 / (chip.memory * roofline.MEMORY_SHARE) + roofline.FLOOR
    back = sum(time for _, time, _ in backward) + dots
    return [("forward", forward[1], 4e-12 * head_dim * pairs / forward[1], forward[2]),
            ("backward", back, 10e-12 * head_dim * pairs / back, " + ".join(unit for _, _, unit in backward))]


def registers(text):
    """{(kernel, head_dim): (architecture, registers, spilled bytes)} of nvcc's report, bf16."""
    found = {}
    names = {"forward": "forward", "backward_keys": "backward: keys", "backward_queries": "backward: queries"}
    architectures = dict(re.findall(r"Compiling entry function '(\S+)' for '(\w+)'", text))
    for mangled, figures in roofline.parse_ptxas(text).items():
        name = re.search(r"attention_(\w+?)_kernelIN.*?Bf16ELi(\d+)E", mangled)
        if name and name.group(1) in names:
            spilled = figures["spill_stores"] + figures["spill_loads"]
            found[names[name.group(1)], int(name.group(2))] = (architectures[mangled], figures["registers"], spilled)
    return found


def document(reports):
    lines = ["# Attention's kernels on paper", "",
             "Made by `tests/bench/roofline_attention.py`; nothing here was measured on a GPU. Four warps a block.", "",
             "## A block, and a pair of query and key", "",
             "Cycles of each unit of a multiprocessor a 1000 pairs, on an H100 and an A100; issue without and with dropout.", "",
             "| kernel | head size | own rows | others | shared, KiB | registers + spilled bytes | FLOP | bytes of shared memory | tensor | exp | shared | issue |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for head_dim in (32, 64, 128):
        for k in kernels(head_dim):
            said = "; ".join("{}: {} + {}".format(*r[k.name, head_dim]) for r in reports if (k.name, head_dim) in r)
            units = [[f"{1e3 * c:.0f}" for c in (k.cycles(chip, False)[unit] for chip in CHIPS)] for unit in ("tensor", "exp", "shared")]
            cells = [" / ".join(units[0]), units[1][0], units[2][0],
                     " / ".join(f"{1e3 * k.cycles(CHIPS[0], d)['issue']:.0f}" for d in (False, True))]
            lines.append(f"| {k.name} | {head_dim} | {k.rows} | {k.others} | {k.shared_bytes / 1024:.1f} | {said} "
                         f"| {k.operations:.0f} | {k.operand_bytes:.1f} | " + " | ".join(cells) + " |")
    lines += ["", "## A layer, 16,384 tokens", "",
              "Least time by the busiest unit, and the rate of 4·hidden·s² operations forward and 10 backward that it would be.", "",
              "| heads | length | dropout | GPU | forward, µs | TFLOP/s | by | backward, µs | TFLOP/s | by |", "|---|---|---|---|---|---|---|---|---|---|"]
    for heads, head_dim in ((12, 64), (16, 64), (8, 128), (12, 32)):
        for length in (512, 128) if heads == 12 and head_dim == 64 else (512,):
            for dropout in (False, True):
                for chip in CHIPS:
                    f, b = both_ways(head_dim, chip, [length] * (16384 // length), heads, dropout)
                    lines.append(f"| {heads} of {head_dim} | {length} | {0.1 if dropout else 0.0} | {chip.name} | {1e6 * f[1]:.0f} "
                                 f"| {f[2]:.0f} | {f[3]} | {1e6 * b[1]:.0f} | {b[2]:.0f} | {b[3]} |")
    lines += ["", "What it says: with dropout the generator's instructions bound the kernels of small heads and the forward kernel, as in every "
              "implementation that draws per element. At dropout 0 the forward kernel's aim on Hopper (330 TFLOP/s at head size 64) leaves "
              "room for latencies; the backward aim (260) leaves little, as seven products are computed for five that count: wgmma, "
              "or sums of d_q in the keys' kernel, would be the next step.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", action="append", default=[], help="nvcc -Xptxas -v's words for one architecture")
    reports = []
    for path in parser.parse_args().ptxas:
        with open(path) as file:
            reports.append(registers(file.read()))
    sys.stdout.write(document(reports))


if __name__ == "__main__":
    main()
