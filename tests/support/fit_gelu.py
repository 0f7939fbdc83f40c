#!/usr/bin/env python3
"""Fits the polynomials of GELU for 16-bit results in include/bert_hpc/ops/vector_math.hpp and prints their coefficients,
lowest power first. Minimax fits by Lawson's reweighted least squares, in double.

GELU and its derivative are powers of two times simple factors, for a = |x|:
  Φ(−a)       = 2^T(a)                    T falls from −1 to −127 on [0, 13]
  gelu'(−a)   = (zero − a) · 2^D(a)       zero: the root of Φ(−a) − a·φ(a), which D does not have
The error of T or D, times ln 2, is the relative error of the result. It weighs less where 16-bit types need less: for
GELU half-precision numbers are subnormal from a = 4.3 on and zero from a = 5.8 on; the derivative is multiplied by a
gradient, so its tail matters up to a = 6.3."""

import math

import numpy as np


def fit(function, weight, degree, begin, end, points=1500, rounds=150):
    """(largest weighted error, coefficients of powers)."""
    grid = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = (begin + end) / 2 + (end - begin) / 2 * grid
    basis = np.polynomial.chebyshev.chebvander(grid, degree)
    value, importance, share = function(x), weight(x), np.ones(points) / points
    best = (math.inf, None)
    for _ in range(rounds):
        scale = np.sqrt(share) * importance
        coefficients = np.linalg.lstsq(basis * scale[:, None], value * scale, rcond=None)[0]
        error = abs((basis @ coefficients - value) * importance)
        best = min(best, (error.max(), coefficients), key=lambda found: found[0])
        share *= error
        share /= share.sum()
    powers = np.polynomial.Chebyshev(best[1], domain=[begin, end]).convert(kind=np.polynomial.Polynomial)
    return best[0], powers.coef


def normal_tail(a):
    return 0.5 * np.vectorize(math.erfc)(a / math.sqrt(2))


def scaled_slope(a):
    """gelu'(−a) · exp(a²/2)."""
    return normal_tail(a) * np.exp(a * a / 2) - a / math.sqrt(2 * math.pi)


def root(function, low, high):
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low


def main():
    zero = root(scaled_slope, 0.5, 1.0)
    fits = {
        "2^r": fit(np.exp2, lambda r: np.exp2(-r), 3, -0.5, 0.5),
        "T": fit(lambda a: np.log2(normal_tail(a)), lambda a: np.select([a < 4.3, a < 6], [1, 0.5], 0.125), 8, 0, 13),
        "D": fit(lambda a: np.log2(scaled_slope(a) / (zero - a)) - a * a / 2 / math.log(2),
                 lambda a: np.where(a < 6.3, 1, 0.125), 9, 0, 13.2),
    }
    print(f"zero = {np.float32(zero)!s}")
    for name, (error, powers) in fits.items():
        print(f"{name}: weighted error 2^{np.log2(error):.2f}:", ", ".join(f"{np.float32(c)!s}f" for c in powers))


if __name__ == "__main__":
    main()
