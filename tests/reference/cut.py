"""Which elements a message holds, and which scalers are for them."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cut:
    """Elements first to first + count - 1 of a tensor. columns: its last dimension; 0 if it has but one."""

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
    """What shares scalers: blocks of `block` elements from the tensor's start; else columns; else the whole tensor.

    scalers_each: how many scalers a run has; those of a run lie beside each other.
    """

    block: int = 0
    by_column: bool = False
    scalers_each: int = 1

    def indices(self, cut: Cut) -> np.ndarray:
        """For each element of the cut its run, counted from the tensor's first."""
        if self.block:
            return cut.positions // self.block
        if self.by_column and cut.columns:
            return cut.positions % cut.columns
        return np.zeros(cut.count, np.int64)

    def touched(self, cut: Cut) -> tuple[int, int]:
        """The runs whose scalers travel with the cut: those that it touches, and all columns."""
        if cut.count == 0:
            return 0, 0
        if self.block:
            return cut.first // self.block, (cut.end - 1) // self.block + 1
        return 0, cut.columns if self.by_column and cut.columns else 1

    def scalers_of(self, scalers: np.ndarray, cut: Cut) -> np.ndarray:
        """Of the tensor's scalers those that travel with the cut."""
        begin, end = self.touched(cut)
        return scalers[begin * self.scalers_each : end * self.scalers_each]

    def spread(self, scalers: np.ndarray, cut: Cut) -> np.ndarray:
        """For each element its run's scalers, [scalers_each, count], from those that travel with the cut."""
        begin, end = self.touched(cut)
        if len(scalers) != (end - begin) * self.scalers_each:
            raise ValueError(f"{len(scalers)} scalers for runs {begin} to {end} of {self.scalers_each} each")
        return scalers.reshape(-1, self.scalers_each)[self.indices(cut) - begin].T
