#!/usr/bin/env python3
"""Checks the Python package on GPUs, under PyTorch: bits beside those of the CPU, and times of a training step.

    scripts/gpu/check_package.py --out check-package.json

Bits: a module whose gradients are the same numbers on every device takes three steps with every codec and preset, with gradients in
float32, bfloat16 and float16. Their means have to be those that VirtualWorkers give on the CPU, bit for bit:

  virtual  VirtualWorkers with 4 workers on the first GPU
  hook     DistributedDataParallel with terngrad.torch.compress, one rank on each GPU over NCCL. Gradients are late by milliseconds,
           so that an exchange which does not wait for the backward pass is seen

A codec that is not there for GPUs has to say so by NotSupported. Times: milliseconds of a step of ResNet-18 on images of 32 x 32
(examples/ddp_cifar10.py), the median of repetitions, each timed from a synchronized GPU to a synchronized GPU: `accumulate` is 8
slices of a batch one after the other, `virtual` the same with their exchange, the others are hooks of DistributedDataParallel on
all ranks.

Prints one line for each part; --out has all of it in JSON. Exit codes: 0 all passed, 1 something failed, 2 wrong usage, 77 without
PyTorch or a GPU. With --device cpu two ranks over Gloo do the same on the CPU, without bfloat16, which Gloo of older
versions of PyTorch does not move.
"""

import argparse
import datetime
import hashlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts" / "common"), str(ROOT / "examples")]
import missing_package

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    torch, WHY_NO_TORCH = None, missing_package.hint(error)
else:
    import ddp_cifar10
    import terngrad.torch

SKIPPED = 77
WORKERS = 4
STEPS = 3
LATE_CYCLES = 4_000_000
SHAPES = {"conv": (64, 32, 3, 3), "embedding": (1000, 64), "linear": (300, 257), "bias": (300,), "scale": (1,)}
# Rows of the table of times: codec and options of compress; None is DistributedDataParallel as it is.
HOOKS = {"fp32": None, "fp16": "fp16", "ternary": {"codec": "ternary", "clip_factor": 2.5},
         "ternary, no overlap": {"codec": "ternary", "clip_factor": 2.5, "overlap": False},
         "terngrad_ef": {"codec": "terngrad_ef"}, "qsgd": {"codec": "qsgd", "bits": 4}}
VIRTUAL_WORKERS = 8


def say(text):
    print(f"check_package.py: {text}", flush=True)


def module_of_known_gradients(device, dtype):
    """A module whose loss is the sum of all parameters times numbers of step and worker, which so are its gradients."""

    class Known(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, shape in SHAPES.items():
                parameter = torch.nn.Parameter(torch.zeros(shape, dtype=dtype, device=device))
                if parameter.dim() == 4:
                    parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
                setattr(self, name, parameter)

        def forward(self, step, worker):
            return sum((parameter * self.gradient(i, step, worker)).sum() for i, parameter in enumerate(self.parameters()))

        def gradient(self, i, step, worker):
            generator = torch.Generator().manual_seed((i * STEPS + step) * 1000 + worker)
            values = torch.randn(list(SHAPES.values())[i], generator=generator) * 10.0**-i
            return values.to(dtype).to(device)

    return Known()


def digests_of(module):
    """A digest of each parameter's gradient, in its memory on the CPU."""
    return {name: hashlib.sha256(parameter.grad.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
            for name, parameter in module.named_parameters()}


def run_virtual(device, spec, dtype, num_workers):
    """What workers of `num_workers` end each step with."""
    module = module_of_known_gradients(device, dtype)
    virtual = terngrad.torch.VirtualWorkers(module, num_workers, spec)
    found = []
    for step in range(STEPS):
        virtual.backward(lambda ids: module(step, int(ids)), torch.arange(num_workers))
        found.append(digests_of(module))
    return found


def run_hook(device, spec, dtype):
    """The same, of this rank under DistributedDataParallel."""
    module = module_of_known_gradients(device, dtype)
    if device.type == "cuda":
        for parameter in module.parameters():
            parameter.register_hook(lambda gradient: (torch.cuda._sleep(LATE_CYCLES), gradient)[1])
    ddp = torch.nn.parallel.DistributedDataParallel(module)
    state = terngrad.torch.compress(ddp, spec)
    found = []
    try:
        for step in range(STEPS):
            ddp.zero_grad(set_to_none=True)
            ddp(step, dist.get_rank()).backward()
            found.append(digests_of(module))
    finally:
        state.close()
    return found


def compared(expected, run, *arguments):
    """What a run came to, in words: equal, not supported, or what is wrong."""
    try:
        found = run(*arguments)
    except terngrad.NotSupported as error:
        return f"not supported: {error}"
    except Exception:
        return traceback.format_exc()
    different = [f"{name} in step {step}" for step, digests in enumerate(expected) for name in digests
                 if digests[name] != found[step][name]]
    return f"differs: {', '.join(different)}" if different else "equal"


def cases(device):
    """(spec, type of gradients)"""
    specs = [*terngrad.codecs(), *terngrad.presets(), "ternary:clip_factor=2.5", "ternary:sharing=none,levels=asymmetric"]
    types = [torch.float32, torch.float16, *([torch.bfloat16] if device == "cuda" else [])]
    return list(itertools.product(specs, types))


def name_of(spec, dtype):
    return f"{spec} of {str(dtype).removeprefix('torch.')}"


def milliseconds(step, options):
    """The median over repetitions of a step's time."""
    def synchronize():
        if options.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(options.warmup):
        step()
    times = []
    for _ in range(options.repetitions):
        synchronize()
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        synchronize()
        times.append(1000 * (time.perf_counter() - begin) / options.steps)
    return statistics.median(times)


def training(device, options):
    """A net, its optimizer, and a batch."""
    torch.manual_seed(1)
    net = ddp_cifar10.ResNet18(options.width).to(device)
    images, labels = ddp_cifar10.draw_set(options.batch_size, 1, 0)
    return net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), ddp_cifar10.normalize(images).to(device), labels.to(device)


def time_hook(device, options, hook):
    net, optimizer, images, labels = training(device, options)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    state = None
    if hook == "fp16":
        ddp.register_comm_hook(None, ddp_cifar10.default_hooks.fp16_compress_hook)
    elif hook is not None:
        state = terngrad.torch.compress(ddp, **hook)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(ddp(images), labels).backward()
        optimizer.step()

    try:
        return milliseconds(step, options)
    finally:
        if state is not None:
            state.close()


def time_slices(device, options, codec):
    """A step of 8 workers, or of as many slices whose gradients add up."""
    net, optimizer, images, labels = training(device, options)
    loss_of = lambda images, labels: torch.nn.functional.cross_entropy(net(images), labels)  # noqa: E731
    virtual = terngrad.torch.VirtualWorkers(net, VIRTUAL_WORKERS, **codec) if codec else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        if virtual:
            virtual.backward(loss_of, images, labels)
        else:
            for slices in zip(images.chunk(VIRTUAL_WORKERS), labels.chunk(VIRTUAL_WORKERS)):
                (loss_of(*slices) / VIRTUAL_WORKERS).backward()
        optimizer.step()

    return milliseconds(step, options)


def rank(number, folder, options, expected):
    """One process: rank 0 leaves what all ranks found."""
    device = torch.device(options.device, number if options.device == "cuda" else None)
    if options.device == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine calls itself
    dist.init_process_group({"cuda": "nccl", "cpu": "gloo"}[options.device], init_method=f"file://{folder}/meet", rank=number,
                            world_size=options.ranks, timeout=datetime.timedelta(seconds=120))
    bits, times = {}, {}
    for spec, dtype in cases(options.device):
        name = name_of(spec, dtype)
        found = [None] * options.ranks
        dist.all_gather_object(found, compared(expected[name], run_hook, device, spec, dtype))
        bits[name] = next((text for text in found if text != "equal"), "equal")
    for name, hook in HOOKS.items():
        times[name] = time_hook(device, options, hook)
    if number == 0:
        (pathlib.Path(folder) / "found.json").write_text(json.dumps({"bits": bits, "times": times}))
    dist.destroy_process_group()


def run_ranks(options):
    """What the ranks found, against workers of one process on the CPU."""
    expected = {name_of(*case): run_virtual("cpu", *case, options.ranks) for case in cases(options.device)}
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank, (folder, options, expected), options.ranks)
        return json.loads((pathlib.Path(folder) / "found.json").read_text())


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    for name, default, text in (("batch_size", 128, "images of a step"), ("width", 64, "channels of the net's first layer"),
                                ("steps", 20, "of a repetition"), ("warmup", 10, "steps before"), ("repetitions", 5, "")):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})".strip())
    parser.add_argument("--out", help="file for the JSON")
    options = parser.parse_args(arguments)
    for name in ("batch_size", "width", "steps", "warmup", "repetitions"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if options.batch_size % VIRTUAL_WORKERS:
        parser.error(f"--batch_size: must be a multiple of {VIRTUAL_WORKERS}")
    return options


def main(arguments):
    options = parse(arguments)
    if torch is None:
        say(f"skipped: {WHY_NO_TORCH}")
        return SKIPPED
    if options.device == "cuda" and not torch.cuda.is_available():
        say("skipped: PyTorch finds no GPU")
        return SKIPPED
    options.ranks = torch.cuda.device_count() if options.device == "cuda" else 2
    device = torch.device(options.device)
    report = {"torch": torch.__version__, "python": sys.version.split()[0], "terngrad": terngrad.__version__, "ranks": options.ranks,
              "device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU", "virtual": {}, "hook": {}, "step_ms": {}}
    for case in cases(options.device):
        report["virtual"][name_of(*case)] = compared(run_virtual("cpu", *case, WORKERS), run_virtual, device, *case, WORKERS)
    for name, codec in {"accumulate": None, "virtual": HOOKS["ternary"]}.items():
        report["step_ms"][name] = time_slices(device, options, codec)
    failed = False
    try:
        found = run_ranks(options)
        report["hook"] = found["bits"]
        report["step_ms"].update(found["times"])
    except Exception as error:
        failed = True
        report["failure"] = str(error)
        say(f"hook: {error}")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    say("ms a step: " + ", ".join(f"{name} {value:.3g}" for name, value in report["step_ms"].items()))
    for part in ("virtual", "hook"):
        texts = report[part]
        for name, text in texts.items():
            if text != "equal":
                say(f"{part}: {name}: {text}")
        wrong = [name for name, text in texts.items() if text != "equal" and not text.startswith("not supported")]
        failed = failed or bool(wrong)
        say(f"{part}: {sum(text == 'equal' for text in texts.values())} of {len(texts)} codecs have the CPU's bits, {len(wrong)} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
