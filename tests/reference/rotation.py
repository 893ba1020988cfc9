"""Rotation of runs by random signs and the Walsh-Hadamard matrix (Suresh et al., ICML 2017), and its inverse."""

import numpy as np

from . import philox

RUNS = (64, 128, 256, 512, 1024, 2048, 4096)
BITS_PER_BLOCK = 128


def signs(count: int, seed: int, step: int, draw_offset: int) -> np.ndarray:
    """Random sign of each element, fp32: bit d mod 128 of block floor(d / 128), d from the draw offset on."""
    key = philox.DrawKey(seed, step, 0, philox.ROTATE)
    first = draw_offset // BITS_PER_BLOCK
    blocks = key.blocks(first, -(-(draw_offset + count) // BITS_PER_BLOCK) - first)
    bits = np.unpackbits(np.ascontiguousarray(blocks, "<u4").view(np.uint8).reshape(-1), bitorder="little")
    begin = draw_offset - first * BITS_PER_BLOCK
    return np.float32(1) - np.float32(2) * bits[begin : begin + count].astype(np.float32)


def runs(count: int, run: int) -> list[tuple[int, int]]:
    """[begin, end) of each run: runs of `run` elements, then descending powers of two."""
    ends = [(begin, begin + run) for begin in range(0, count - run + 1, run)]
    begin = len(ends) * run
    while run := run // 2:
        if (count - begin) & run:
            ends.append((begin, begin + run))
            begin += run
    return ends


def hadamard(x: np.ndarray) -> np.ndarray:
    """Butterflies (a + b, a - b) with strides 1, 2, 4, ... in fp32, then one multiplication."""
    size = x.size
    stride = 1
    while stride < size:
        a, b = np.moveaxis(x.reshape(-1, 2, stride), 1, 0)
        x = np.stack([a + b, a - b], axis=1).reshape(-1)
        stride *= 2
    return x * np.float32(1 / np.sqrt(np.float64(size)))


def _by_runs(x: np.ndarray, run: int) -> np.ndarray:
    pieces = [hadamard(x[begin:end]) for begin, end in runs(x.size, run)]
    return np.concatenate(pieces) if pieces else x


def mixed(tail: int) -> int:
    """Number of the last elements of a tail that are transformed twice: the largest power of two, if it is not all."""
    largest = 1 << tail.bit_length() >> 1
    return largest % tail if tail else 0


def rotate(x: np.ndarray, run: int, seed: int, step: int, draw_offset: int, tails_twice: bool) -> np.ndarray:
    """H D x / sqrt(run) of a whole tensor, fp32, of its shape."""
    with np.errstate(over="ignore", invalid="ignore"):
        random = signs(x.size, seed, step, draw_offset)
        y = _by_runs(x.reshape(-1) * random, run)
        tail = x.size % run
        if tails_twice and (count := mixed(tail)):
            y[-count:] = hadamard(y[-count:] * random[-tail:][:count])
        return y.reshape(x.shape)


def turn_back(y: np.ndarray, run: int, seed: int, step: int, draw_offset: int, tails_twice: bool) -> np.ndarray:
    """D (H y) / sqrt(run), fp32. y [count] must start and end at boundaries of runs."""
    with np.errstate(over="ignore", invalid="ignore"):
        random = signs(y.size, seed, step, draw_offset)
        tail = y.size % run
        if tails_twice and (count := mixed(tail)):
            y = np.concatenate([y[:-count], hadamard(y[-count:]) * random[-tail:][:count]])
        return _by_runs(y, run) * random
