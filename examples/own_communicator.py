#!/usr/bin/env python3
"""An exchange over a transport of one's own: a terngrad.Communicator on TCP sockets, a connection for each pair of ranks.

    examples/own_communicator.py --ranks 3 --codec ternary:clip_factor=2.5 --algorithm scatter_reduce

Starts the ranks as processes of this machine. Each is a worker with a gradient of its own, and exchanges it with the others in
--steps steps. At the end their means are compared with those of one process that has all workers: they are bit-identical, or the
exit code is 1. Needs numpy, no PyTorch.
"""

import argparse
import concurrent.futures
import multiprocessing
import socket
import sys

import numpy
import terngrad

socket.setdefaulttimeout(60)  # seconds, after which a missing rank is an error


class SocketCommunicator(terngrad.Communicator):
    def __init__(self, rank, addresses, listener):
        """@param addresses  (host, port) of each rank. @param listener  this rank's listening socket"""
        self.rank, self.size, self.peers = rank, len(addresses), {}
        for peer in range(rank):
            self.peers[peer] = socket.create_connection(addresses[peer])
            self.peers[peer].sendall(bytes([rank]))  # identifies this rank
        for _ in range(rank + 1, self.size):
            connection, _ = listener.accept()
            self.peers[connection.recv(1)[0]] = connection
        for connection in self.peers.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, peer, message):
        self.peers[peer].sendall(message.size.to_bytes(8, "little") + message.tobytes())

    def receive(self, peer):
        return numpy.frombuffer(self.read(peer, int.from_bytes(self.read(peer, 8), "little")), numpy.uint8)

    def read(self, peer, size):
        data = bytearray()
        while len(data) < size:
            piece = self.peers[peer].recv(size - len(data))
            if not piece:
                raise ConnectionError(f"rank {peer} has closed its connection to rank {self.rank}")
            data += piece
        return data

    def all_to_all(self, messages):
        incoming = {self.rank: messages[self.rank].copy()}
        # Deadlock-free: all ranks process pairs in one order, and the lower rank of a pair sends first.
        for peer in sorted(self.peers):
            if self.rank < peer:
                self.send(peer, messages[peer])
            incoming[peer] = self.receive(peer)
            if self.rank > peer:
                self.send(peer, messages[peer])
        return [incoming[rank] for rank in range(self.size)]

    def all_gather(self, message):
        return self.all_to_all([message] * self.size)

    def all_reduce_sum(self, values):
        values[:] = sum(self.gathered(values))

    def all_reduce_max(self, values):
        values[:] = numpy.maximum.reduce(self.gathered(values))

    def gathered(self, values):
        return [message.view(values.dtype) for message in self.all_gather(values.view(numpy.uint8))]


def gradient_of(worker, step):
    draws = numpy.random.default_rng([worker, step])
    return {"conv": draws.standard_normal((64, 32, 3, 3), numpy.float32), "fc": draws.standard_normal((1000, 64), numpy.float32)}


def exchange_all(options, workers, communicator=None):
    """Exchanges all steps. @param workers  this process's workers. @returns (bits of all means, bytes sent in the last step)"""
    exchange = terngrad.Exchange(terngrad.Layout.of(gradient_of(0, 0)), options.ranks, options.codec,
                                 algorithm=options.algorithm, communicator=communicator)
    bits = b""
    for step in range(options.steps):
        report = exchange.exchange([gradient_of(worker, step) for worker in workers], step=step)
        bits += b"".join(mean.tobytes() for mean in report.mean_tensors.values())
    return bits, report.sent_bytes


def run_rank(options, rank, addresses, listener):
    return exchange_all(options, [rank], SocketCommunicator(rank, addresses, listener))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="default 2")
    parser.add_argument("--codec", default="ternary:clip_factor=2.5", help="default ternary:clip_factor=2.5")
    parser.add_argument("--algorithm", default="auto", help="auto (default), all_gather, scatter_reduce or integer_sum")
    parser.add_argument("--steps", type=int, default=10, help="default 10")
    options = parser.parse_args()
    if not 1 <= options.ranks <= 255 or options.steps < 1:
        parser.error("--ranks: must be from 1 to 255; --steps: must be at least 1")
    return options


def main(options):
    try:
        expected, _ = exchange_all(options, range(options.ranks))
    except terngrad.InvalidArgument as error:
        print(f"own_communicator.py: error: {error}", file=sys.stderr)
        return 2
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=options.ranks) for _ in range(options.ranks)]
    addresses = [listener.getsockname() for listener in listeners]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.ranks, spawn) as processes:
        ranks = [processes.submit(run_rank, options, rank, addresses, listener) for rank, listener in enumerate(listeners)]
        results = [rank.result() for rank in ranks]
    num_equal = 0
    for rank, (bits, sent) in enumerate(results):
        is_equal = bits == expected
        num_equal += is_equal
        print(f"rank {rank}: {sent} bytes sent in a step, the mean {'equals' if is_equal else 'DIFFERS FROM'} that of one process")
    return 0 if num_equal == options.ranks else 1


if __name__ == "__main__":
    sys.exit(main(parse()))
