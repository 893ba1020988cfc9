#!/usr/bin/env python3
"""Stops a DistributedDataParallel training with error feedback and resumes it: it ends with the bits of one that was not stopped.

    examples/resume_ddp.py --ranks 2 --codec terngrad_ef --steps 10

Starts the ranks as processes of this machine, over Gloo. The first ones train --steps steps, then again from the beginning up to
the middle, where each saves a checkpoint and ends. Other processes load the checkpoints and train the rest.

With error feedback a rank keeps what its messages left out, the residuals, and puts that into the next ones. So a checkpoint is of
a rank: its model and optimizer, which are equal on all ranks, and the state of the hook, which is not. Resumed without that
state, the training ends with other bits: that is shown too. Examples of a step are drawn by its number; a loader's place would
belong into the checkpoint as well. Exit code 1 if bits differ.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import terngrad.torch
import torch
import torch.distributed as dist

FEATURES, CLASSES, BATCH = 64, 10, 32


class Training:
    """Training of a small net on one rank."""

    def __init__(self, codec):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES))
        self.ddp = torch.nn.parallel.DistributedDataParallel(self.model)
        self.state = terngrad.torch.compress(self.ddp, codec)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def run(self, steps):
        for step in steps:
            torch.manual_seed((1 + step) * dist.get_world_size() + dist.get_rank())
            labels = torch.randint(CLASSES, (BATCH,))
            examples = torch.randn(BATCH, FEATURES) + torch.nn.functional.one_hot(labels, FEATURES)
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.ddp(examples), labels).backward()
            self.optimizer.step()

    def save(self, file):
        """Writes a temporary file and renames it, so that a rank that is killed here keeps the previous checkpoint."""
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "hook": self.state.state_dict()},
                   f"{file}.part")
        os.replace(f"{file}.part", file)

    def load(self, file, with_hook=True):
        saved = torch.load(file, weights_only=False)  # has numpy arrays, too
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        if with_hook:
            self.state.load_state_dict(saved["hook"])
        else:
            self.state.step = saved["hook"]["step"]  # the step keys later draws; residuals are not restored

    def bits(self):
        """The bits of the parameters, by name."""
        return {name: tensor.numpy().tobytes() for name, tensor in self.model.state_dict().items()}


def run_first(options, folder, rank):
    whole = Training(options.codec)
    whole.run(range(options.steps))
    torch.save(whole.bits(), folder / f"expected-{rank}.pt")
    stopped = Training(options.codec)
    stopped.run(range(options.steps // 2))
    stopped.save(folder / f"checkpoint-{rank}.pt")


def run_second(options, folder, rank):
    expected = torch.load(folder / f"expected-{rank}.pt", weights_only=False)
    rest = range(options.steps // 2, options.steps)
    found = {}
    for with_hook in (True, False):
        resumed = Training(options.codec)
        resumed.load(folder / f"checkpoint-{rank}.pt", with_hook)
        resumed.run(rest)
        found[with_hook] = sum(resumed.bits()[name] != bits for name, bits in expected.items())
    print(f"rank {rank}: resumed at step {rest.start} of {rest.stop}, {found[True]} of {len(expected)} tensors differ; without the "
          f"state of the hook {found[False]}\n", end="", flush=True)  # one write, since ranks print concurrently
    if found[True]:
        sys.exit(1)


def run_rank(rank, options, folder, run):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # independent of this machine's host name
    dist.init_process_group("gloo", init_method=f"file://{folder}/{run.__name__}", rank=rank, world_size=options.ranks)
    run(options, folder, rank)
    dist.destroy_process_group()  # after DDP, which was destroyed with run()'s variables: the reverse order may hang


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="default 2")
    parser.add_argument("--codec", default="terngrad_ef", help="default terngrad_ef: ternary with error feedback")
    parser.add_argument("--steps", type=int, default=10, help="default 10")
    options = parser.parse_args()
    if options.ranks < 1 or options.steps < 2:
        parser.error("--ranks: must be at least 1; --steps: must be at least 2")
    return options


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        for run in (run_first, run_second):
            try:
                torch.multiprocessing.spawn(run_rank, (options, pathlib.Path(folder), run), options.ranks)
            except (torch.multiprocessing.ProcessExitedException, torch.multiprocessing.ProcessRaisedException) as error:
                print(f"resume_ddp.py: error: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(parse()))
