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


def bit_reversed_place(number: int, count: int) -> int:
    """Rank of a number among 0 to count - 1 in the order of their reversed binary digits."""
    digits = (count - 1).bit_length()
    return sorted(range(count), key=lambda i: f"{i:0{digits}b}"[::-1]).index(number)


def of_stratum(shared: np.ndarray, worker: int, num_workers: int, negative: np.ndarray) -> np.ndarray:
    """A worker's 40-bit draws u from those U that all workers share: workers 2m and 2m + 1 of an even number N have
    u = U + o and 1 - u, with o = place of m among the N / 2 pairs / (N / 2); an odd N has no pairs. Offsets have 16 bits.
    Negative elements have 1 - u. shared: uint64, below 2^40"""
    in_pairs = num_workers % 2 == 0
    strata, number = (num_workers // 2, worker // 2) if in_pairs else (num_workers, worker)
    offset = bit_reversed_place(number, strata) * 2**16 // strata * 2**24
    moved = (shared + np.uint64(offset)) % np.uint64(2**40)
    return np.where(negative ^ (in_pairs and worker % 2 == 1), np.uint64(2**40 - 1) - moved, moved)


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws of one worker's tensor. offset: the tensor's draw offset, a multiple of 64; num_workers: N of the run."""

    seed: int = 1
    step: int = 0
    worker: int = 0
    offset: int = 0
    num_workers: int = 1

    def rounds_up(self, fractions: np.ndarray, first: int, purposes: tuple[int, int], stratified: bool = False,
                  negative: np.ndarray | bool = False) -> np.ndarray:
        """Rounds elements up from position `first` of the tensor. purposes: those of the 16-bit and of the 24-bit draws;
        negative: the elements' signs, for stratified draws."""
        shares = stratified and self.num_workers > 1
        begin, count = self.offset + first, len(fractions)
        keys = [philox.DrawKey(self.seed, self.step, 0 if shares else self.worker, purpose) for purpose in purposes]
        r16 = philox.draws16(keys[0], begin, count)
        r24 = philox.draws32(keys[1], begin, count) >> np.uint32(8)
        if shares:
            shared = r16.astype(np.uint64) << np.uint64(24) | r24
            drawn = of_stratum(shared, self.worker, self.num_workers, negative)
            r16, r24 = drawn >> np.uint64(24), drawn % np.uint64(2**24)
        return rounds_up(fractions, r16, r24)
