"""A process group of torch.distributed as a DeviceCommunicator for GPU memory."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist

from terngrad import _core
from terngrad._communicators import DeviceCommunicator
from terngrad.torch._communicator import ranks_of, require_backend, require_ranks

BACKENDS = ("nccl",)


class GroupDeviceCommunicator(DeviceCommunicator):
    """Communicator over an NCCL process group, which may be the one that DistributedDataParallel uses. Operations are submitted
    to the current stream, in the order of the hook's calls, which is the same on all ranks.

    @raises CommunicationError in all operations where PyTorch raises RuntimeError. Every later operation then fails too
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        self._ranks = ranks_of(group)
        self._gathers_into = require_backend(group, "the process group", BACKENDS, "GPUs") == "nccl"
        self._failure: Exception | None = None

    def all_gather(self, buffers: list[tuple[Any, list[tuple[int, int]]]]) -> None:
        for buffer, parts in buffers:
            whole = torch.from_dlpack(buffer)
            if self._gathers_into and _are_equal_and_touch(parts):
                self._run(dist.all_gather_into_tensor, whole[parts[0][0]:parts[-1][1]], whole[slice(*parts[self.rank])])
                continue
            for rank, (begin, end) in enumerate(parts):
                if begin < end:
                    self._run(dist.broadcast, whole[begin:end], src=self._ranks[rank])

    def all_to_all(self, outgoing: Any, to: list[tuple[int, int]], incoming: Any, from_: list[tuple[int, int]]) -> None:
        sent, received = torch.from_dlpack(outgoing), torch.from_dlpack(incoming)
        operations = []
        for peer, (there, here) in enumerate(zip(to, from_)):
            if peer == self.rank:
                received[slice(*here)].copy_(sent[slice(*there)])
                continue
            # An empty range is empty on the peer too, so both ranks skip it.
            for operation, buffer, (begin, end) in ((dist.isend, sent, there), (dist.irecv, received, here)):
                if begin < end:
                    operations.append(dist.P2POp(operation, buffer[begin:end], self._ranks[peer], self.group))
        if operations:
            for work in self._call(dist.batch_isend_irecv, operations):
                self._call(work.wait)

    def all_reduce_sum(self, values: Any) -> None:
        self._run(dist.all_reduce, torch.from_dlpack(values))

    def all_reduce_max(self, values: Any) -> None:
        # Flipping the top bit makes signed order equal to unsigned order.
        tensor = torch.from_dlpack(values)
        tensor.bitwise_xor_(-2**31)
        self._run(dist.all_reduce, tensor, op=dist.ReduceOp.MAX)
        tensor.bitwise_xor_(-2**31)

    def broadcast(self, values: Any, root: int) -> None:
        self._run(dist.broadcast, torch.from_dlpack(values), src=self._ranks[root])

    def gather_objects(self, value: Any) -> list[Any]:
        """All-gather of a JSON-serializable value: the values of all ranks, in order."""
        values: list[Any] = [None] * self.size
        self._call(dist.all_gather_object, values, json.dumps(value, default=str), group=self.group)
        return [json.loads(each) for each in values]

    def _run(self, operation: Any, *tensors: torch.Tensor, **options: Any) -> None:
        self._call(operation, *tensors, group=self.group, **options)

    def _call(self, operation: Any, *arguments: Any, **options: Any) -> Any:
        if self._failure is not None:
            raise _core.CommunicationError(f"an operation of this group has failed before: {self._failure}")
        try:
            return operation(*arguments, **options)
        except RuntimeError as error:
            first_line = str(error).strip().split("\n")[0]
            self._failure = _core.CommunicationError(f"a rank does not answer rank {self.rank}: {first_line}")
            raise self._failure from error


def exchange_group_of(process_group: Any, exchange_group: Any, timeout: float | None) -> Any:
    """The group of an exchange: `exchange_group`, which must have the same ranks, or DDP's own. No NCCL group is created, since
    operations of two could wait for each other."""
    if exchange_group is not None:
        require_ranks(exchange_group, process_group, timeout)
        return exchange_group
    if timeout is not None:
        raise _core.InvalidArgument("timeout is of a group that the exchange makes; on GPUs it takes that of DDP, which has its own")
    return process_group


def _are_equal_and_touch(parts: list[tuple[int, int]]) -> bool:
    """True if one all-gather suffices: the parts have equal sizes and are contiguous."""
    size = parts[0][1] - parts[0][0]
    return size > 0 and all(part == (parts[0][0] + rank * size, parts[0][0] + (rank + 1) * size) for rank, part in enumerate(parts))
