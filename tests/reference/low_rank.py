"""powersgd: low-rank approximation of matrices, computed jointly by all workers (Vogels et al., NeurIPS 2019)."""

import numpy as np

from . import philox, rounding
from .floats import Bf16, Fp32
from .worker_tree import tree_mean

CHUNK = 4096
LANES = 16
BLOCK = 64
SLOTS = 256


def sum_along_row(products: np.ndarray) -> np.ndarray:
    """Sum over the last axis, fp64: 16 lanes in chunks of 4096, lanes by 8, 4, 2, 1, chunks in order."""
    total = np.zeros(products.shape[:-1])
    for begin in range(0, products.shape[-1], CHUNK):
        chunk = products[..., begin : begin + CHUNK]
        lanes = np.zeros((*products.shape[:-1], LANES))
        for first in range(0, chunk.shape[-1], LANES):
            part = chunk[..., first : first + LANES]
            lanes[..., : part.shape[-1]] += part
        for half in 8, 4, 2, 1:
            lanes[..., :half] += lanes[..., half : 2 * half]
        total += lanes[..., 0]
    return total


def sum_along_column(products: np.ndarray) -> np.ndarray:
    """Sum over the first axis, fp64: blocks of 64 rows in order; slot b % 256 adds block b; slots in pairs."""
    slots = np.zeros((SLOTS, *products.shape[1:]))
    for block, begin in enumerate(range(0, len(products), BLOCK)):
        total = np.zeros(products.shape[1:])
        for row in products[begin : begin + BLOCK]:
            total += row
        slots[block % SLOTS] += total
    for half in 128, 64, 32, 16, 8, 4, 2, 1:
        slots[:half] += slots[half : 2 * half]
    return slots[0]


def times_columns(matrix: np.ndarray, q: np.ndarray) -> np.ndarray:
    """P^T of P = M Q. q: Q^T [rank, columns], fp32."""
    wide = matrix.astype(np.float64)
    return rounding.fl(np.stack([sum_along_row(wide * column.astype(np.float64)) for column in q]))


def times_rows(matrix: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Q^T of Q = M^T P. p: P^T [rank, rows], fp32."""
    wide = matrix.astype(np.float64)
    return rounding.fl(np.stack([sum_along_column(wide * column.astype(np.float64)[:, None]) for column in p]))


def orthonormal(p: np.ndarray) -> np.ndarray:
    """P^T with orthonormal rows: modified Gram-Schmidt in two passes."""
    columns = [column.copy() for column in p]
    for _ in range(2):
        for j, own in enumerate(columns):
            norm = np.sqrt(_dot(own, own))
            smallest = norm * 2.0**-20
            for other in columns[:j]:
                own = rounding.fl(own.astype(np.float64) - _dot(other, own) * other.astype(np.float64))
            norm = np.sqrt(_dot(own, own))
            is_kept = norm > smallest and np.isfinite(norm)
            columns[j] = rounding.fl(own.astype(np.float64) / norm) if is_kept else np.zeros_like(own)
    return np.stack(columns)


def _dot(a: np.ndarray, b: np.ndarray):
    return sum_along_row(a.astype(np.float64) * b.astype(np.float64))


def elements(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """P Q^T."""
    total = np.zeros((p.shape[1], q.shape[1]))
    for left, right in zip(p.astype(np.float64), q.astype(np.float64), strict=True):
        total += left[:, None] * right
    return rounding.fl(total)


def drawn(seed: int, step: int, draw_offset: int, rank: int, columns: int) -> np.ndarray:
    """Initial Q^T, from the draws of worker 0."""
    key = philox.DrawKey(seed, step, 0, philox.FACTOR_INIT)
    draws = philox.draws16(key, 4 * draw_offset, 4 * rank * columns).astype(np.int64)
    return rounding.fl((draws.reshape(rank, columns, 4).sum(axis=-1) - 131070) * 2.0**-16)


class PowerSgd(Fp32):
    """The message of one worker alone, with a drawn Q. The exchange of several workers is in Rounds."""

    wire_id = 11
    options = {"rank": (4, None), "min_ratio": (2.0, None), "factors": ("fp32", ("fp32", "bf16")),
               "warm_start": ("true", ("true", "false"))}
    aggregation = "rounds"
    default_memory = "ef"

    def __init__(self, **values):
        super().__init__(**values)
        if not 1 <= self.rank <= 32:
            raise ValueError(f"rank={self.rank}: expected 1 to 32")
        if self.min_ratio < 1:
            raise ValueError(f"min_ratio={self.min_ratio}: expected at least 1")

    def format_id(self):
        return 24

    def sizes(self, count: int, columns: int) -> tuple[int, int] | None:
        """r' and n of a tensor; None if it is sent without compression."""
        if columns == 0 or count == 0 or count % columns:
            return None
        rows = count // columns
        rank = min(self.rank, rows, columns)
        return (rank, rows) if self.min_ratio * rank * (rows + columns) < count else None

    def codes(self, elements_, joint, own, draws, cut):
        sizes = self.sizes(len(elements_), cut.columns)
        if sizes is None:
            return elements_
        matrix = elements_.reshape(sizes[1], cut.columns)
        q = drawn(draws.seed, draws.step, draws.offset, sizes[0], cut.columns)
        p = self.as_sent(orthonormal(self.as_sent(times_columns(matrix, q))))
        return self.words(np.concatenate([p.reshape(-1), times_rows(matrix, p).reshape(-1)]))

    def words(self, factors: np.ndarray) -> np.ndarray:
        """The payload as 4-byte numbers."""
        return np.frombuffer(Bf16().pack(factors), np.float32) if self.factors == "bf16" else factors

    def as_sent(self, factor: np.ndarray) -> np.ndarray:
        """The factor as transmitted, widened to fp32."""
        return rounding.to_bfloat16(factor) if self.factors == "bf16" else factor

    def decode(self, message, cut):
        sizes = self.sizes(cut.count, cut.columns)
        if sizes is None:
            return np.frombuffer(message.payload, "<f4").astype(np.float32)
        rank, rows = sizes
        form = Bf16() if self.factors == "bf16" else Fp32()
        values = form.unpack(message.payload, rank * (rows + cut.columns))
        return elements(values[: rank * rows].reshape(rank, rows), values[rank * rows :].reshape(rank, -1)).reshape(-1)


class Rounds:
    """The two rounds of one tensor. Each step draws columns of Q that are zero, and scales the other columns by powers
    of two so that their largest magnitude is in [1, 2)."""

    def __init__(self, codec: PowerSgd, shape: tuple[int, ...], seed: int, draw_offset: int):
        self.codec, self.seed, self.draw_offset = codec, seed, draw_offset
        self.columns = shape[-1]
        self.rank, self.rows = codec.sizes(int(np.prod(shape)), self.columns)
        self.q = np.zeros((self.rank, self.columns), np.float32)

    def step(self, gradients: list[np.ndarray], step: int):
        """Returns P_k^T and Q_k^T of all workers, and the mean."""
        fresh = drawn(self.seed, step, self.draw_offset, self.rank, self.columns)
        is_kept = self.q.any(axis=1, keepdims=True) & (self.codec.warm_start == "true")
        exponents = np.frexp(np.abs(self.q).max(axis=1, keepdims=True))[1] - 1
        begun = np.where(is_kept, rounding.fl(np.ldexp(self.q.astype(np.float64), -exponents)), fresh)
        matrices = [gradient.reshape(self.rows, self.columns) for gradient in gradients]
        of_first = [times_columns(matrix, begun) for matrix in matrices]
        of_first = [self.codec.as_sent(factor) for factor in of_first]
        p = self.codec.as_sent(orthonormal(tree_mean(of_first)))
        of_second = [self.codec.as_sent(times_rows(matrix, p)) for matrix in matrices]
        self.q = tree_mean(of_second)
        return of_first, of_second, elements(p, self.q)
