"""The elements of a message, and the scalers that belong to them."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cut:
    """Elements first to first + count - 1 of a tensor. columns: its last dimension; 0 for one dimension."""

    first: int
    count: int
    columns: int = 0

    @staticmethod
    def whole(shape: tuple[int, ...]) -> "Cut":
        return Cut(0, math.prod(shape), shape[-1] if len(shape) > 1 else 0)

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def positions(self) -> np.ndarray:
        return np.arange(self.first, self.end)


@dataclasses.dataclass(frozen=True)
class Runs:
    """Groups of elements that share scalers: blocks of `block` elements from the tensor's start, else columns, else
    all.

    scalers_each: number of scalers of a run, which are adjacent.
    """

    block: int = 0
    by_column: bool = False
    scalers_each: int = 1

    def indices(self, cut: Cut) -> np.ndarray:
        """The run of each element of the cut, counted from the tensor's start."""
        if self.block:
            return cut.positions // self.block
        if self.by_column and cut.columns:
            return cut.positions % cut.columns
        return np.zeros(cut.count, np.int64)

    def touched(self, cut: Cut) -> tuple[int, int]:
        """Range of the runs whose scalers travel with the cut: the blocks that it touches, or all columns."""
        if cut.count == 0:
            return 0, 0
        if self.block:
            return cut.first // self.block, (cut.end - 1) // self.block + 1
        return 0, cut.columns if self.by_column and cut.columns else 1

    def scalers_of(self, scalers: np.ndarray, cut: Cut) -> np.ndarray:
        """The tensor's scalers that travel with the cut."""
        begin, end = self.touched(cut)
        return scalers[begin * self.scalers_each : end * self.scalers_each]

    def spread(self, scalers: np.ndarray, cut: Cut) -> np.ndarray:
        """The scalers of each element, [scalers_each, count], from the scalers that travel with the cut."""
        begin, end = self.touched(cut)
        if len(scalers) != (end - begin) * self.scalers_each:
            raise ValueError(f"{len(scalers)} scalers for runs {begin} to {end} of {self.scalers_each} each")
        return scalers.reshape(-1, self.scalers_each)[self.indices(cut) - begin].T
