#!/usr/bin/env python3
"""Measures how fast PyTorch's DistributedDataParallel trains over Gloo, on CPUs: one process of a launch.

    mpirun -np 2 scripts/bench/bench_pytorch_ddp.py --net cifar10_alexnet --master 127.0.0.1:29500
    sudo scripts/hosts/slow_link.sh --no-mpi 100mbit 2 -- scripts/bench/bench_pytorch_ddp.py --net alexnet_layout --hooks fp32

To be set beside terngrad_train and terngrad_exchange_bench between the same hosts. What travels is float32, or by DDP's
communication hooks fp16 or bf16, which Gloo may refuse: then this says so; or factors, by PyTorch's own PowerSGD with
powersgd:rank=R (scripts/bench/ddp_powersgd.py), which begins after two steps. A step of cifar10_alexnet is forward, backward
with the exchange that overlaps it, and a momentum step, on data in memory. The net alexnet_layout is only parameters, shaped
as terngrad_exchange_bench --layout alexnet has them (61 million): its loss is a sum, so its backward pass costs next to
nothing, and a step is an exchange of the gradients, without an update.

Rank and number of processes are those of --rank and --world_size, or of Open MPI, slow_link.sh or torchrun. --master is
where rank 0 listens; otherwise slow_link.sh's first host, or MASTER_ADDR and MASTER_PORT.

Rank 0 prints one JSON object; --out writes it to a file too. Each hook has its own result: steps per second of all
repetitions and their median, examples per second of all processes together. It is checked that every rank ends with the
same parameters, and for alexnet_layout that gradients are the mean. A hook that fails is in it with its reason, and the
exit code is 1 then. Without PyTorch or Gloo: {"skipped": reason}, exit code 77.
"""

import argparse
import statistics
import sys
import time

import gloo_launch
from ddp_hook_words import POWERSGD_BEGINS, checked, powersgd_rank
from gloo_launch import SKIPPED, first_line, say, write

try:
    import torch
    from torch import distributed
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    import ddp_powersgd
    from pytorch_nets import NETS
except ImportError:
    torch = None  # gloo_launch reports the reason

BATCHES = {"lenet": 64, "cifar10_alexnet": 128, "alexnet_layout": None}  # per process
HOOKS = ("fp32", "fp16", "bf16")


def alexnet_shapes():
    """Shapes of nets/models/alexnet.cpp, with two towers as separate layers."""
    shapes = []
    for side, inputs, outputs in ((11, 3, 48), (5, 48, 128), (3, 256, 192), (3, 192, 192), (3, 192, 128)):
        shapes += 2 * [(side, side, inputs, outputs), (outputs,)]
    for inputs, outputs in ((9216, 4096), (4096, 4096), (4096, 1001)):
        shapes += [(inputs, outputs), (outputs,)]
    return shapes


def make_alexnet_layout():
    class AlexnetLayout(torch.nn.Module):
        """forward(x) is x times the sum of all parameters: every element's gradient is x."""

        def __init__(self):
            super().__init__()
            self.tensors = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in alexnet_shapes())

        def forward(self, x):
            return x * sum(tensor.sum() for tensor in self.tensors)

    return AlexnetLayout()


class LayoutStep:
    """An exchange of gradients with all elements rank + 1, so that the mean is known."""

    def __init__(self, hook, options):
        self.net = make_alexnet_layout()
        self.ddp = compressed_by(hook, self.net, options)
        self.x = torch.tensor(float(options.rank + 1))
        self.mean = (options.world_size + 1) / 2

    def run(self):
        self.net.zero_grad(set_to_none=True)
        self.ddp(self.x).backward()

    def check(self):
        for tensor in self.net.tensors:
            # Tolerance for rounding means to the 11 or 8 bits of fp16 or bf16.
            if not torch.allclose(tensor.grad, torch.full_like(tensor.grad, self.mean), rtol=2.0**-7, atol=0):
                raise RuntimeError(f"a gradient of shape {tuple(tensor.shape)} is not the mean, {self.mean}")


class TrainStep(gloo_launch.TrainStep):
    """Forward, backward and a momentum step."""

    def __init__(self, hook, options):
        torch.manual_seed(1)
        self.net = NETS[options.net]().to(memory_format=torch.channels_last)
        self.ddp = compressed_by(hook, self.net, options)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        height, width, channels = self.net.image_shape
        torch.manual_seed(2 + options.rank)
        images = torch.rand(options.batch, channels, height, width)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.arange(options.batch) % 10


def compressed_by(hook, net, options):
    """DDP of `net` with the communication hook."""
    rank = powersgd_rank(hook)
    if rank is not None:
        return ddp_powersgd.wrap(net, rank)
    ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=options.bucket_mb)
    if hook != "fp32":
        ddp.register_comm_hook(None, {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}[hook])
    return ddp


def why_gloo_refuses(name):
    """Gloo's error for all-reducing this type; None if it is supported."""
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(name, torch.float32)
    try:
        distributed.all_reduce(torch.ones(1, dtype=dtype))
    except RuntimeError as error:
        return f"Gloo of PyTorch {torch.__version__} does not add {name}: {first_line(error)}"
    return None


def measure(name, options):
    refusal = why_gloo_refuses(name)
    if refusal:
        return {"hook": name, "skipped": refusal}
    step = (LayoutStep if options.net == "alexnet_layout" else TrainStep)(name, options)
    for _ in range(options.warmup):
        step.run()
    rates = []
    for _ in range(options.repetitions):
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(options.steps):
            step.run()
        rates.append(options.steps / (time.perf_counter() - start))
    step.check()
    median = statistics.median(rates)
    result = {"hook": name, "steps_per_s": median, "step_seconds": 1 / median, "all_steps_per_s": rates}
    if options.batch:
        result["examples_per_s"] = median * options.batch * options.world_size
    return result


def run(options):
    if not gloo_launch.meet(options):
        return 1
    results = []
    for name in options.hooks:
        try:
            results.append(measure(name, options))
        except RuntimeError as error:
            # The state of the other ranks is unknown: nothing more can be measured.
            results.append({"hook": name, "error": first_line(error)})
            break
    failed = any("error" in result for result in results)
    if options.rank == 0:
        write({**describe(options), "results": results}, options)
    elif failed:
        say(options, results[-1]["error"])
    if not failed:
        distributed.destroy_process_group()
    return 1 if failed else 0


def describe(options):
    return {
        "command": "bench_pytorch_ddp",
        "torch": torch.__version__,
        "backend": "gloo",
        "net": options.net,
        "processes": options.world_size,
        "batch_per_process": options.batch,
        "threads": options.threads,
        "bucket_mb": options.bucket_mb,
        "warmup": options.warmup,
        "steps": options.steps,
        "repetitions": options.repetitions,
    }


def hook_word(word):
    if checked(word) not in HOOKS and powersgd_rank(word) is None:
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected one of {', '.join(HOOKS)}, powersgd:rank=R")
    return word


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="cifar10_alexnet", choices=sorted(BATCHES), help="default cifar10_alexnet")
    parser.add_argument("--hooks", nargs="+", default=list(HOOKS), type=hook_word,
                        help=f"what travels: {', '.join(HOOKS)} or powersgd:rank=R (default: {' '.join(HOOKS)})")
    parser.add_argument("--batch", type=int,
                        help="examples of a process in a step (default: 64 for lenet, 128 for cifar10_alexnet)")
    parser.add_argument("--steps", type=int, default=10, help="steps in a repetition (default 10)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the first repetition (default 3)")
    parser.add_argument("--repetitions", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--bucket_mb", type=int, default=25, help="DDP's buckets in MiB (default 25, as DDP's); PowerSGD has a single one")
    gloo_launch.add_options(parser)
    options = parser.parse_args()
    gloo_launch.check_options(parser, options, ("steps", "repetitions", "bucket_mb"))
    if options.warmup < 0:
        parser.error("--warmup: must be at least 0")
    if options.warmup <= POWERSGD_BEGINS and any(powersgd_rank(hook) is not None for hook in options.hooks):
        parser.error(f"--warmup: must be at least {POWERSGD_BEGINS + 1} for PowerSGD, which begins after {POWERSGD_BEGINS} steps")
    if options.batch is not None and options.net == "alexnet_layout":
        parser.error("--batch: has no effect on alexnet_layout, which has no examples")
    if options.batch is not None and options.batch < 1:
        parser.error("--batch: must be at least 1")
    options.batch = options.batch or BATCHES[options.net]
    return options


def main(options):
    reason = gloo_launch.unavailable_reason()
    if reason is None:
        return run(options)
    if options.rank == 0:
        write({"skipped": reason}, options)
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main(parse()))
