"""Sums over workers in fp32, in the fixed order of all exchanges."""

import numpy as np


def tree_sum(values: list[np.ndarray]) -> np.ndarray:
    """Sum of left and right part; a range of m > 1 workers splits at the largest power of two below m."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    with np.errstate(over="ignore", invalid="ignore"):  # sums may overflow by specification
        return tree_sum(values[:half]) + tree_sum(values[half:])


def tree_mean(values: list[np.ndarray]) -> np.ndarray:
    """fl(fl(1/N) x the sum)."""
    factor = np.float32(1) / np.float32(len(values))
    with np.errstate(over="ignore"):
        return tree_sum(values) * factor
