"""What the tests of the reference share. Importing it ends a test as skipped (exit code 77) where numpy is missing."""

import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def gaussian(count: int, seed: int) -> np.ndarray:
    """Normal deviates in fp32, from numpy's own generator, so that no draw under test made its own input."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def bits(*values: int) -> np.ndarray:
    """fp32 numbers from their bits."""
    return np.array(values, np.uint32).view(np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def square(values: np.ndarray) -> float:
    """|values|^2 in fp64."""
    return float((values.astype(np.float64) ** 2).sum())
