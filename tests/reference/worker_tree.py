"""Sums over workers in fp32, in the one order that every exchange has."""

import numpy as np


def tree_sum(values: list[np.ndarray]) -> np.ndarray:
    """A range of m > 1 workers splits at the largest power of two below m; its sum is left plus right."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    with np.errstate(over="ignore", invalid="ignore"):  # a sum may leave the range, as the format says
        return tree_sum(values[:half]) + tree_sum(values[half:])


def tree_mean(values: list[np.ndarray]) -> np.ndarray:
    """fl(fl(1/N) x the sum)."""
    factor = np.float32(1) / np.float32(len(values))
    with np.errstate(over="ignore"):
        return tree_sum(values) * factor
