"""A process group of torch.distributed as a Communicator."""

import numpy
import torch
import torch.distributed as dist

from terngrad._communicators import Communicator


class GroupCommunicator(Communicator):
    """Exchanges over a process group of its own, or over one that is given: on the CPU (Gloo, MPI).

    Operations of a group must come in the same order on all ranks, so one that others use too needs care: what
    DistributedDataParallel does by itself comes from other threads.
    """

    def __init__(self, group=None):
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def all_gather(self, message):
        size = torch.tensor([message.size])
        sizes = [torch.empty_like(size) for _ in range(self.size)]
        dist.all_gather(sizes, size, group=self.group)
        sizes = [int(each) for each in sizes]
        # Gloo gathers equal sizes only.
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[:message.size] = torch.from_numpy(message)
        gathered = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(gathered, padded, group=self.group)
        return [each.numpy()[:size] for each, size in zip(gathered, sizes)]

    def all_to_all(self, messages):
        sizes = torch.tensor([message.size for message in messages])
        incoming_sizes = torch.empty_like(sizes)
        dist.all_to_all_single(incoming_sizes, sizes, group=self.group)
        outgoing = torch.from_numpy(numpy.concatenate(messages))
        incoming = torch.empty(int(incoming_sizes.sum()), dtype=torch.uint8)
        dist.all_to_all_single(incoming, outgoing, incoming_sizes.tolist(), sizes.tolist(), group=self.group)
        return [each.numpy() for each in incoming.split(incoming_sizes.tolist())]

    def all_reduce_sum(self, values):
        dist.all_reduce(torch.from_numpy(values), group=self.group)

    def all_reduce_max(self, values):
        dist.all_reduce(torch.from_numpy(values), op=dist.ReduceOp.MAX, group=self.group)

    def broadcast(self, values, root):
        dist.broadcast(torch.from_numpy(values), src=dist.get_global_rank(self.group, root) if self.group else root,
                       group=self.group)

    def barrier(self):
        dist.barrier(group=self.group)
