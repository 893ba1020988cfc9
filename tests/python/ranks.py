"""Runs ranks of PyTorch as processes of a test, with small models to train. Importing it skips the test without PyTorch."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    print(f"{pathlib.Path(sys.argv[0]).name}: skipped: there is no PyTorch")
    sys.exit(77)
import terngrad.torch

EXAMPLES = 12


class Net(torch.nn.Module):
    def __init__(self, channels_last=False, unused=False):
        super().__init__()
        torch.manual_seed(3)
        self.conv = torch.nn.Conv2d(3, 16, 3)
        self.norm = torch.nn.BatchNorm2d(16)
        self.fc = torch.nn.Linear(16 * 36, 40)
        self.last = torch.nn.Linear(40, 10)
        if unused:
            self.unused = torch.nn.Linear(40, 30)
        if channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.last(torch.relu(self.fc(x.contiguous().flatten(1))))


def batch_of(step):
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(EXAMPLES, 3, 8, 8, generator=generator), torch.randint(10, (EXAMPLES,), generator=generator))


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def parameters_of(model):
    return {terngrad.torch._parameters.plain_name(name): tensor.detach().contiguous().numpy().tobytes()
            for name, tensor in model.state_dict().items()}


def make_ddp(net, **options):
    return DistributedDataParallel(Net(**net), **options)


def train_step(ddp, optimizer, rank, size, step):
    x, y = (each.chunk(size)[rank] for each in batch_of(step))
    optimizer.zero_grad()
    torch.nn.CrossEntropyLoss()(ddp(x), y).backward()
    optimizer.step()


def child(rank, size, folder, checks, arguments):
    failures = []

    def expect(holds, text):
        if not holds:
            failures.append(f"rank {rank}: {text}")

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # independent of the host name
    dist.init_process_group("gloo", init_method=f"file://{folder}/init", rank=rank, world_size=size)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # silences warnings of DDP
            for check in checks:
                check(rank, size, expect, *arguments)
    except BaseException:
        failures.append(f"rank {rank}: {traceback.format_exc()}")
    (pathlib.Path(folder) / f"rank-{rank}.json").write_text(json.dumps(failures))
    os._exit(0)  # without waiting for threads of a failed exchange


def run_ranks(test, size, *checks, arguments=(), killed=(), seconds=120):
    """Runs check(rank, size, expect, *arguments) for each of `checks` on every rank; expect(holds, text) records a
    failure with its text. @param killed  ranks that end without a result. @param seconds  time limit"""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.get_context("spawn")
        processes = [context.Process(target=child, args=(rank, size, folder, checks, arguments)) for rank in range(size)]
        for process in processes:
            process.start()
        deadline = time.monotonic() + seconds
        failures = []
        for rank, process in enumerate(processes):
            process.join(max(0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                failures.append(f"rank {rank} did not end")
            result = pathlib.Path(folder) / f"rank-{rank}.json"
            if rank not in killed:
                failures += json.loads(result.read_text()) if result.exists() else [f"rank {rank} has no result"]
        test.assertFalse(failures, "\n".join(failures))
