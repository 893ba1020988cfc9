"""Interfaces for user-defined transports between the processes of an exchange."""

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
    methods; an exception raised in one ends the operation and propagates through `Exchange`. Arrays are numpy arrays, valid
    only during the call.
    """

    #: This process's rank, counted from 0.
    rank: int
    #: Number of processes (world size).
    size: int

    @abc.abstractmethod
    def all_gather(self, message: Bytes) -> Sequence[Any]:
        """All-gather of messages. @param message  uint8 [n]; n may differ between ranks
        @returns the messages of all ranks as uint8 arrays, in order of ranks, this one's included"""

    @abc.abstractmethod
    def all_to_all(self, messages: list[Bytes]) -> Sequence[Any]:
        """All-to-all: rank r gets messages[r] of every rank. @param messages  `size` uint8 arrays, of any lengths
        @returns the received messages as uint8 arrays, in order of their senders' ranks"""

    @abc.abstractmethod
    def all_reduce_sum(self, values: numpy.typing.NDArray[numpy.int64]) -> None:
        """All-reduce sum in place: int64 [n], wrapping on overflow."""

    @abc.abstractmethod
    def all_reduce_max(self, values: numpy.typing.NDArray[numpy.int32]) -> None:
        """All-reduce maximum in place: int32 [n]."""

    def broadcast(self, values: Bytes, root: int) -> None:
        """Broadcasts rank `root`'s values in place: uint8 [n]. Optional: exchanges do not call it."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Waits for all ranks. Optional: exchanges do not call it."""
        raise NotImplementedError


class DeviceCommunicator(abc.ABC):
    """`Communicator` for an `Exchange` on a GPU: a group of processes ("ranks"), each with one GPU.

    Operations are submitted to the exchange's stream and must not wait for it. Arrays have ``__dlpack__``, lie in GPU memory
    and are valid in stream order while the exchange exists. A range is (begin, end) in bytes.
    """

    #: This process's rank, counted from 0.
    rank: int
    #: Number of processes (world size).
    size: int

    @abc.abstractmethod
    def all_gather(self, buffers: list[tuple[Any, list[tuple[int, int]]]]) -> None:
        """All-gather in place. @param buffers  (uint8 [n], ranges): rank r has filled ranges[r], which all ranks receive"""

    @abc.abstractmethod
    def all_to_all(self, outgoing: Any, to: list[tuple[int, int]], incoming: Any, from_: list[tuple[int, int]]) -> None:
        """All-to-all: range `to[r]` of outgoing (uint8) goes to range `from_[this rank]` of rank r's incoming"""

    @abc.abstractmethod
    def all_reduce_sum(self, values: Any) -> None:
        """All-reduce sum in place: int64 [n], wrapping on overflow."""

    @abc.abstractmethod
    def all_reduce_max(self, values: Any) -> None:
        """All-reduce maximum in place: int32 [n], compared as unsigned numbers."""

    def broadcast(self, values: Any, root: int) -> None:
        """Broadcasts rank `root`'s values in place: uint8 [n]. Optional: exchanges do not call it."""
        raise NotImplementedError
