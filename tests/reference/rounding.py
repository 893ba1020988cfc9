"""Rounding to fp32 and bf16, and stochastic rounding."""

import dataclasses

import numpy as np

from . import philox

INFINITY_BITS = np.uint32(0x7F800000)
CANONICAL_NAN = np.array([0x7FC00000], np.uint32).view(np.float32)[0]
SMALLEST = 2.0**-86  # smaller scalers count as zero
LARGEST = 2.0**126  # larger scalers count as non-finite


def fl(values) -> np.ndarray:
    """Rounds to fp32 once, to nearest, ties to even; infinite above the range."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


def magnitude_bits(values: np.ndarray) -> np.ndarray:
    """Bits of |values|, ordered as the magnitudes: finite < infinity < NaN."""
    return values.view(np.uint32) & np.uint32(0x7FFFFFFF)


def is_negative(values: np.ndarray) -> np.ndarray:
    """The sign bit, also of -0 and NaN."""
    return values.view(np.uint32) >> np.uint32(31) == 1


def power_of_two_above(values: np.ndarray) -> np.ndarray:
    """The smallest power of two >= each value, in fp64. values: fp32, finite; 0 gives 0."""
    fractions, exponents = np.frexp(values.astype(np.float64))
    powers = np.ldexp(1.0, np.where(fractions == 0.5, exponents - 1, exponents))
    return np.where(values == 0, 0.0, powers)


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Upper halves of fp32, rounded to nearest, ties to even. values: fp32 without NaN. @returns uint16"""
    bits = values.view(np.uint32).astype(np.uint64)
    upper, lower = bits >> np.uint64(16), bits & np.uint64(0xFFFF)
    half = np.uint64(0x8000)
    is_up = (lower > half) | ((lower == half) & (upper % np.uint64(2) == 1))
    return (upper + is_up).astype(np.uint16)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Rounds to bf16 and returns fp32. values: fp32 without NaN"""
    return (bfloat16_bits(values).astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounds_up(fractions: np.ndarray, r16: np.ndarray, r24: np.ndarray) -> np.ndarray:
    """True where to round up, with probabilities `fractions` (fp32 in [0, 1)), given 16 and 24 drawn bits each.

    t = 65536 f, h = floor(t); up if r16 < h, or if r16 = h and r24 < (t - h) 2^24. All operations are exact; of the
    2^40 pairs of draws, ceil(f 2^40) round up.
    """
    if fractions.dtype != np.float32:
        raise TypeError(f"fractions are {fractions.dtype}, not fp32")
    t = fractions * np.float32(65536)
    h = np.floor(t)
    rest = (t - h) * np.float32(2**24)
    return (r16 < h) | ((r16 == h) & (r24 < rest))


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws of one worker's tensor. offset: the tensor's draw offset, a multiple of 64."""

    seed: int = 1
    step: int = 0
    worker: int = 0
    offset: int = 0

    def rounds_up(self, fractions: np.ndarray, first: int, purposes: tuple[int, int]) -> np.ndarray:
        """Rounds elements up from position `first` of the tensor. purposes: those of the 16-bit and of the 24-bit draws."""
        begin, count = self.offset + first, len(fractions)
        keys = [philox.DrawKey(self.seed, self.step, self.worker, purpose) for purpose in purposes]
        r16 = philox.draws16(keys[0], begin, count)
        r24 = philox.draws32(keys[1], begin, count) >> np.uint32(8)
        return rounds_up(fractions, r16, r24)
