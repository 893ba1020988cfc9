"""Sums and maxima of tensors, in the order of additions of docs/wire-format.md ("Local scalers").

A tensor, or each of its blocks, is divided into chunks of 4096 elements from its start. Element i of a chunk belongs to
row i / 512 and lane i mod 16; rows and lanes add in order, rows join in pairs, lanes by halves. Slot c mod 256 adds
chunk c, and slots join by halves. Sums are in fp64, where fp32 numbers and their squares are exact.
"""

import dataclasses

import numpy as np

from . import rounding

CHUNK, ROW, LANES = 4096, 512, 16
SLOTS = 256
BLOCK_ROWS = 64  # rows per partial sum of a column


@dataclasses.dataclass
class Statistics:
    """Per run: number of elements, sums of g, g^2 and |g|, bits of the largest |g|. Arrays [runs]."""

    count: np.ndarray
    sum: np.ndarray
    sum_squares: np.ndarray
    sum_magnitudes: np.ndarray
    max_bits: np.ndarray

    @property
    def max(self) -> np.ndarray:
        """The largest |g| of each run in fp32; NaN if an element is NaN."""
        return self.max_bits.view(np.float32)

    def are_finite(self) -> bool:
        return not (self.max_bits >= rounding.INFINITY_BITS).any()


@dataclasses.dataclass
class SignedStatistics:
    """Per run and sign: number of elements, sum of |g|, bits of the largest |g|. Arrays [runs]."""

    num_positive: np.ndarray
    num_negative: np.ndarray
    sum_positive: np.ndarray
    sum_negative: np.ndarray
    max_positive: np.ndarray
    max_negative: np.ndarray

    def are_finite(self) -> bool:
        return not (np.maximum(self.max_positive, self.max_negative) >= rounding.INFINITY_BITS).any()


def add_by_halves(values: np.ndarray) -> np.ndarray:
    """Adds entry j + half to entry j of the last axis until one is left. values: [..., a power of two]"""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[..., :half] + values[..., half:]
    return values[..., 0]


def add_in_order(values: np.ndarray) -> np.ndarray:
    """Sum along the first axis, in order, starting with +0."""
    total = np.zeros(values.shape[1:])
    for summand in values:
        total = total + summand
    return total


def add_in_slots(values: np.ndarray) -> np.ndarray:
    """Sum along the first axis: slot j of 256 adds entries j, j + 256, ... in order, then slots join by halves."""
    padded = _padded(values, -(-len(values) // SLOTS) * SLOTS)
    slots = add_in_order(padded.reshape(-1, SLOTS, *values.shape[1:]))
    return add_by_halves(np.moveaxis(slots, 0, -1))


def tree_sums(values: np.ndarray, block: int = 0) -> np.ndarray:
    """Tree sums of runs of `block` elements, or of all (0). values: fp64 [n], n > 0. @returns [runs]"""
    run = block or len(values)
    num_runs = -(-len(values) // run)
    # A run of one row needs no other rows: they would be zeros, which change no sum.
    rows = 1 if run <= ROW else CHUNK // ROW
    groups = -(-min(run, ROW) // LANES) if rows == 1 else ROW // LANES
    chunk = rows * groups * LANES
    num_chunks = -(-run // chunk)
    runs = _padded(values, num_runs * run).reshape(num_runs, run)
    elements = _padded(runs.T, num_chunks * chunk).reshape(num_chunks, rows, groups, LANES, num_runs)
    in_rows = _padded(np.moveaxis(add_in_order(np.moveaxis(elements, 2, 0)), 1, 0), CHUNK // ROW)
    pairs = in_rows[0::2] + in_rows[1::2]
    lanes = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])  # [chunks, lanes, runs]
    chunks = add_by_halves(np.moveaxis(lanes, 1, -1))
    return chunks[0] if num_chunks == 1 else add_in_slots(chunks)


def column_sums(values: np.ndarray) -> np.ndarray:
    """Sums of the columns of fp64 [rows, columns]: blocks of 64 rows add in order, then slots of blocks as above."""
    num_blocks = -(-len(values) // BLOCK_ROWS)
    padded = _padded(values, num_blocks * BLOCK_ROWS).reshape(num_blocks, BLOCK_ROWS, -1)
    return add_in_slots(add_in_order(np.moveaxis(padded, 1, 0)))


def statistics_of(gradient: np.ndarray, block: int = 0) -> Statistics:
    """Statistics of each run of `block` elements, or of all (0). gradient: fp32 [n]; n = 0 has no runs."""
    if len(gradient) == 0:
        none = np.zeros(0)
        return Statistics(none.astype(np.int64), none, none, none, none.astype(np.uint32))
    wide = gradient.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity - infinity: flagged by the maximum
        sums = [tree_sums(values, block) for values in (wide, wide * wide, np.abs(wide))]
    return Statistics(_counts(len(gradient), block), *sums, _run_maxima(rounding.magnitude_bits(gradient), block))


def signed_statistics_of(gradient: np.ndarray, block: int = 0) -> SignedStatistics:
    """As statistics_of(), by sign."""
    return _by_sides(gradient, lambda values: tree_sums(values, block), lambda bits: _run_maxima(bits, block))


def signed_column_statistics_of(gradient: np.ndarray, columns: int) -> SignedStatistics:
    """Statistics by sign of each column (position modulo `columns`). gradient: fp32 [rows * columns]"""
    return _by_sides(gradient, lambda values: column_sums(values.reshape(-1, columns)),
                     lambda bits: bits.reshape(-1, columns).max(axis=0))


def combined(parts: list[Statistics]) -> Statistics:
    """Statistics of several tensors together: sums in order of the layout, from +0. Skips non-finite tensors."""
    parts = [part for part in parts if len(part.count) and part.are_finite()]
    return Statistics(np.array([sum(int(part.count[0]) for part in parts)]),
                      *(add_in_order(np.array([getattr(part, name) for part in parts]).reshape(-1, 1))
                        for name in ("sum", "sum_squares", "sum_magnitudes")),
                      np.array([max((int(part.max_bits[0]) for part in parts), default=0)], np.uint32))


def _by_sides(gradient: np.ndarray, sums_of, maxima_of) -> SignedStatistics:
    if len(gradient) == 0:
        none = np.zeros(0)
        return SignedStatistics(*(none.astype(np.int64),) * 2, none, none, *(none.astype(np.uint32),) * 2)
    negative = rounding.is_negative(gradient)
    magnitudes = np.abs(gradient.astype(np.float64))
    bits = rounding.magnitude_bits(gradient)
    sides = [~negative, negative]
    with np.errstate(invalid="ignore"):
        return SignedStatistics(*(sums_of(side.astype(np.float64)).astype(np.int64) for side in sides),
                                *(sums_of(np.where(side, magnitudes, 0.0)) for side in sides),
                                *(maxima_of(np.where(side, bits, np.uint32(0))) for side in sides))


def _counts(size: int, block: int) -> np.ndarray:
    begins = np.arange(0, size, block or size)
    return np.minimum(begins + (block or size), size) - begins


def _run_maxima(bits: np.ndarray, block: int) -> np.ndarray:
    return np.maximum.reduceat(bits, np.arange(0, len(bits), block or len(bits)))


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    """Pads with zeros along the first axis."""
    if len(values) == size:
        return values
    padded = np.zeros((size, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded
