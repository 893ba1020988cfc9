"""Transports of one's own between the processes of an exchange."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy
import numpy.typing

Bytes = numpy.typing.NDArray[numpy.uint8]


class Communicator(abc.ABC):
    """A group of processes ("ranks"), each of which calls the same operations in the same order.

    Derive from it to run an exchange over any transport: sockets, mpi4py, torch.distributed. The library calls these
    methods; an exception of theirs ends the operation and passes through `Exchange`. Arrays are of numpy, and are valid
    only during the call.
    """

    #: Of this process, from 0 on.
    rank: int
    #: How many processes there are.
    size: int

    @abc.abstractmethod
    def all_gather(self, message: Bytes) -> Sequence[Any]:
        """Every rank gets every rank's message. @param message  uint8 [n], of a size of its own on each rank
        @returns a list of arrays of uint8, one for each rank in order, of this one too"""

    @abc.abstractmethod
    def all_to_all(self, messages: list[Bytes]) -> Sequence[Any]:
        """Rank r gets what each rank has at place r. @param messages  a list of `size` arrays of uint8
        @returns a list of arrays of uint8, one from each rank in order"""

    @abc.abstractmethod
    def all_reduce_sum(self, values: numpy.typing.NDArray[numpy.int64]) -> None:
        """The sum over ranks, in place: int64 [n], wrapping."""

    @abc.abstractmethod
    def all_reduce_max(self, values: numpy.typing.NDArray[numpy.int32]) -> None:
        """The maximum over ranks, in place: int32 [n]."""

    def broadcast(self, values: Bytes, root: int) -> None:
        """Rank `root`'s values to all, in place: uint8 [n]. What exchanges do not need."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Waits for all ranks. What exchanges do not need."""
        raise NotImplementedError


class DeviceCommunicator(abc.ABC):
    """A group of processes ("ranks") that each drive a GPU: as `Communicator`, for an `Exchange` on a GPU.

    Operations are submitted to the exchange's stream, and nothing waits for them. Arrays have ``__dlpack__``, are in the
    GPU's memory, and can be used in the stream's order until the exchange ends. A range is (begin, end) in bytes.
    """

    #: Of this process, from 0 on.
    rank: int
    #: How many processes there are.
    size: int

    @abc.abstractmethod
    def all_gather(self, buffers: list[tuple[Any, list[tuple[int, int]]]]) -> None:
        """Gathers in place. @param buffers  each uint8 [n], and the range of it that each rank has filled and all are to get"""

    @abc.abstractmethod
    def all_to_all(self, outgoing: Any, to: list[tuple[int, int]], incoming: Any, from_: list[tuple[int, int]]) -> None:
        """What is in range `to[r]` of outgoing (uint8) comes into range `from_[this rank]` of rank r's incoming"""

    @abc.abstractmethod
    def all_reduce_sum(self, values: Any) -> None:
        """The sum over ranks, in place: int64 [n], wrapping."""

    @abc.abstractmethod
    def all_reduce_max(self, values: Any) -> None:
        """The maximum over ranks, in place: int32 [n], compared as numbers without a sign."""

    def broadcast(self, values: Any, root: int) -> None:
        """Rank `root`'s values to all, in place: uint8 [n]. What exchanges do not need."""
        raise NotImplementedError
