"""Philox4x32-10 (Salmon et al., SC 2011) and the draws that docs/wire-format.md derives from it, vectorized."""

import dataclasses

import numpy as np

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the key before each further round
WORD = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ROUNDS = 10

TERNARIZE, TERNARIZE_REFINE = 1, 2
SYNTHETIC_DATA = 9
QUANTIZE, QUANTIZE_REFINE = 10, 11
ROTATE = 12
SELECT = 13
FACTOR_INIT = 14


def philox4x32_10(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Four 32-bit words for each counter. counters: integers below 2^32, [..., 4]. @returns uint32, [..., 4]"""
    x0, x1, x2, x3 = (counters[..., word].astype(np.uint64) for word in range(4))
    for number in range(ROUNDS):
        low, high = (np.uint64((key[i] + number * WEYL[i]) % 2**32) for i in range(2))
        a, b = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (b >> HALF) ^ x1 ^ low, b & WORD, (a >> HALF) ^ x3 ^ high, a & WORD
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)


@dataclasses.dataclass(frozen=True)
class DrawKey:
    """Key of a sequence of draws; equal keys and indices give equal draws."""

    seed: int
    step: int
    worker: int
    purpose: int

    def blocks(self, first: int, count: int) -> np.ndarray:
        """Blocks first to first + count - 1 of the sequence, uint32 [count, 4]."""
        if not (0 <= self.step < 2**40 and 0 <= self.worker < 2**32 and 0 <= first and first + count <= 2**48):
            raise ValueError(f"step {self.step}, worker {self.worker}, block {first}: outside of the counter")
        numbers = np.arange(first, first + count, dtype=np.uint64)
        counters = np.empty((count, 4), np.uint64)
        counters[:, 0] = numbers & WORD
        counters[:, 1] = self.worker
        counters[:, 2] = self.step % 2**32
        counters[:, 3] = (numbers >> HALF) | np.uint64(self.step // 2**32 << 16) | np.uint64(self.purpose << 24)
        return philox4x32_10(counters, (self.seed % 2**32, self.seed // 2**32))


def draws16(key: DrawKey, first: int, count: int) -> np.ndarray:
    """16-bit draws from index `first`, as uint32: draw d is half (d mod 2), low first, of word (d mod 8) / 2 of block d / 8."""
    blocks = _blocks_of(key, first, count, 8)
    halves = np.stack([blocks & np.uint32(0xFFFF), blocks >> np.uint32(16)], axis=-1).reshape(-1)
    return halves[first % 8 : first % 8 + count]


def draws32(key: DrawKey, first: int, count: int) -> np.ndarray:
    """32-bit draws from index `first`: draw d is word d mod 4 of block d / 4."""
    return _blocks_of(key, first, count, 4).reshape(-1)[first % 4 : first % 4 + count]


def _blocks_of(key: DrawKey, first: int, count: int, per_block: int) -> np.ndarray:
    begin = first // per_block
    return key.blocks(begin, -(-(first + count) // per_block) - begin)
