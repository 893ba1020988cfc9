"""A process group of torch.distributed as a Communicator."""

from __future__ import annotations

import datetime
import inspect
import json
from collections.abc import Sequence
from typing import Any

import numpy
import numpy.typing
import torch
import torch.distributed as dist

from terngrad import _core
from terngrad._communicators import Bytes, Communicator

BACKENDS = ("gloo", "mpi")  # for tensors on CPUs
_HEADER = 8  # bytes before each message: its size as uint64


class GroupCommunicator(Communicator):
    """Communicator over a process group for CPU tensors (Gloo, MPI). @param group  None: the default group

    All ranks must call a group's operations in the same order. Do not share the group with DistributedDataParallel, which
    calls its own operations from other threads.

    Messages go point to point between all pairs of ranks, each preceded by its size. A receive buffer is as large as the
    largest message of that peer so far; the excess of a longer one follows as a second message. So an operation takes one
    round once sizes have settled. Returned arrays are valid until the next operation; receive buffers never shrink.

    @raises CommunicationError in all operations, naming the rank that did not answer if it is known. Every later operation
    then fails too, because data in flight could be mistaken for its messages
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        self._peers = [peer for peer in range(self.size) if peer != self.rank]
        self._rank_of = {peer: dist.get_global_rank(group, peer) if group else peer for peer in self._peers}
        self._failure: Exception | None = None
        self._sent_room = dict.fromkeys(self._peers, 0)
        self._rooms = {peer: torch.empty(_HEADER, dtype=torch.uint8) for peer in self._peers}

    def all_gather(self, message: Bytes) -> list[Any]:
        return self._exchange([message] * self.size)

    def all_to_all(self, messages: list[Bytes]) -> list[Any]:
        return self._exchange(messages)

    def gather_objects(self, value: Any) -> list[Any]:
        """All-gather of a JSON-serializable value: the values of all ranks, in order."""
        own = numpy.frombuffer(json.dumps(value, default=str).encode(), numpy.uint8)
        return [json.loads(bytes(each)) for each in self.all_gather(own)]

    def _exchange(self, messages: list[Bytes]) -> list[Any]:
        self._require_whole()
        framed: dict[int, Any] = {}  # by id of the message: all_gather sends the same one to all peers
        works = []
        for peer in self._peers:
            message = messages[peer]
            if id(message) not in framed:
                framed[id(message)] = torch.from_numpy(numpy.concatenate(
                    [numpy.array([message.size], numpy.uint64).view(numpy.uint8), message]))
            sent = framed[id(message)]
            first = sent[:_HEADER + self._sent_room[peer]]
            works.append((peer, self._start(dist.isend, first, peer)))
            if first.numel() < sent.numel():
                works.append((peer, self._start(dist.isend, sent[first.numel():], peer)))
                self._sent_room[peer] = message.size
        receiving = [(peer, self._start(dist.irecv, self._rooms[peer], peer)) for peer in self._peers]
        received: dict[int, Any] = {self.rank: messages[self.rank]}
        rest = []
        for peer, work in receiving:
            self._wait(peer, work)
            room = self._rooms[peer].numpy()
            size = int(room[:_HEADER].view(numpy.uint64)[0])
            if size > room.size - _HEADER:
                larger = torch.empty(_HEADER + size, dtype=torch.uint8)
                larger[:room.size] = self._rooms[peer]
                self._rooms[peer] = larger
                rest.append((peer, self._start(dist.irecv, larger[room.size:], peer)))
            received[peer] = self._rooms[peer].numpy()[_HEADER:_HEADER + size]
        for peer, work in rest + works:
            self._wait(peer, work)
        return [received[peer] for peer in range(self.size)]

    def _start(self, operation: Any, tensor: torch.Tensor, peer: int) -> Any:
        try:
            return operation(tensor, self._rank_of[peer], group=self.group)
        except RuntimeError as error:
            raise self._lost(peer, error) from error

    def _wait(self, peer: int, work: Any) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            raise self._lost(peer, error) from error

    def _require_whole(self) -> None:
        if self._failure is not None:
            raise _core.CommunicationError(f"an operation of this group has failed before: {self._failure}")

    def _lost(self, peer: int | None, error: Exception) -> Exception:
        first_line = str(error).strip().split("\n")[0]
        who = "a rank" if peer is None else f"rank {peer}"
        if peer is not None and self._rank_of[peer] != peer:
            who += f" of the group (rank {self._rank_of[peer]} of all)"
        self._failure = _core.CommunicationError(f"{who} does not answer rank {self.rank}: {first_line}")
        return self._failure

    def _collective(self, operation: Any, values: Any, **options: Any) -> None:
        self._require_whole()
        try:
            operation(torch.from_numpy(values), group=self.group, **options)
        except RuntimeError as error:
            raise self._lost(None, error) from error

    def all_reduce_sum(self, values: numpy.typing.NDArray[numpy.int64]) -> None:
        self._collective(dist.all_reduce, values)

    def all_reduce_max(self, values: numpy.typing.NDArray[numpy.int32]) -> None:
        # Only a few numbers: gather them, so that the error names a lost rank.
        of_ranks = self.all_gather(values.view(numpy.uint8))
        numpy.copyto(values, numpy.max([numpy.frombuffer(bytes(each), numpy.int32) for each in of_ranks], axis=0))

    def broadcast(self, values: Bytes, root: int) -> None:
        self._collective(dist.broadcast, values, src=dist.get_global_rank(self.group, root) if self.group else root)

    def barrier(self) -> None:
        self._require_whole()
        try:
            dist.barrier(group=self.group)
        except RuntimeError as error:
            raise self._lost(None, error) from error


def ranks_of(group: Any) -> list[int]:
    """The global ranks of a group's members, in the order of the group."""
    if group is None or group is dist.group.WORLD:
        return list(range(dist.get_world_size()))
    return [dist.get_global_rank(group, rank) for rank in range(dist.get_world_size(group))]


def require_backend(group: Any, name: str, accepted: Sequence[str] = BACKENDS, where: str = "the CPU") -> str:
    """The group's backend; for a group with several ("cpu:gloo,cuda:nccl", or the default of PyTorch 2), that of the device.
    @raises InvalidArgument unless it is one of `accepted`"""
    if not isinstance(group, (dist.ProcessGroup, type(None))):
        raise _core.InvalidArgument(f"{name} must be a group of torch.distributed that this rank is in, got {group!r:.80}")
    backend = str(dist.get_backend(group))
    whole: Any = dist.distributed_c10d._get_default_group() if group is None else group
    if backend not in accepted and hasattr(whole, "_get_backend"):  # from PyTorch 2 on
        try:
            backend = whole._get_backend(torch.device("cpu" if where == "the CPU" else "cuda")).name()
        except RuntimeError:
            pass  # the group has no backend for the device
    if backend not in accepted:
        raise _core.InvalidArgument(f"{name} is of backend {backend}; accepted for gradients on {where}: {', '.join(accepted)}; "
                                    "exchange_group takes a group of one")
    return backend


def require_ranks(exchange_group: Any, process_group: Any, timeout: float | None) -> None:
    """@raises InvalidArgument unless `exchange_group` has the ranks of `process_group` and `timeout` is None"""
    if timeout is not None:
        raise _core.InvalidArgument("timeout is that of the group which the exchange makes; exchange_group has its own")
    if ranks_of(exchange_group) != ranks_of(process_group):
        raise _core.InvalidArgument(f"exchange_group has the ranks {ranks_of(exchange_group)}, process_group "
                                    f"{ranks_of(process_group)}")


def exchange_group_of(process_group: Any, exchange_group: Any, timeout: float | None) -> Any:
    """The group of an exchange: `exchange_group`, which must have the same ranks, or if it is None a new one."""
    if exchange_group is None:
        return own_group(process_group, timeout)
    require_backend(exchange_group, "exchange_group")
    require_ranks(exchange_group, process_group, timeout)
    return exchange_group


def own_group(group: Any, timeout: float | None) -> Any:
    """A new group with the ranks of `group`. @param timeout  seconds that an operation waits; None: PyTorch's default"""
    backend = require_backend(group, "the process group")
    options: dict[str, Any] = {"backend": backend}
    if timeout is not None:
        if not timeout > 0:
            raise _core.InvalidArgument(f"timeout must be above 0 seconds, got {timeout}")
        options["timeout"] = datetime.timedelta(seconds=timeout)
    if ranks_of(group) == ranks_of(None):
        return dist.new_group(**options)
    # Without use_local_synchronization (before PyTorch 2.1, and MPI) all ranks of the default group must call new_group.
    if backend != "mpi" and "use_local_synchronization" in inspect.signature(dist.new_group).parameters:
        options["use_local_synchronization"] = True
    return dist.new_group(ranks_of(group), **options)
