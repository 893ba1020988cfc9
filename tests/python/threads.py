"""Ranks as threads of one process, connected by a Communicator written in Python."""

import threading

import numpy
import terngrad


class Group:
    """State shared by the ranks: a barrier and a slot for each rank's value."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=60)
        self.places = [None] * size


class ThreadCommunicator(terngrad.Communicator):
    def __init__(self, group, rank):
        self.group, self.rank, self.size = group, rank, group.size
        self.calls = 0

    def meet(self, value):
        """Returns the values of all ranks."""
        self.calls += 1
        self.group.places[self.rank] = value
        self.group.barrier.wait()
        values = list(self.group.places)
        self.group.barrier.wait()
        return values

    def all_gather(self, message):
        return self.meet(message.copy())

    def all_to_all(self, messages):
        return [sent[self.rank] for sent in self.meet([message.copy() for message in messages])]

    def all_reduce_sum(self, values):
        values[:] = sum(self.meet(values.copy()))

    def all_reduce_max(self, values):
        values[:] = numpy.maximum.reduce(self.meet(values.copy()))


def run_ranks(size, body, make=ThreadCommunicator):
    """Runs body(communicator) on each rank. @returns the results by rank; @raises the first error"""
    group = Group(size)
    results, errors = [None] * size, []

    def run(rank):
        try:
            results[rank] = body(make(group, rank))
        except BaseException as error:  # raised below
            errors.append(error)
            group.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return results
