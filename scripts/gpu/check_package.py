#!/usr/bin/env python3
"""Checks the Python package on GPUs, under PyTorch: bits beside those of the CPU, and times of a training step.

    scripts/gpu/check_package.py --out check-package.json

Bits: a module whose gradients are the same numbers on every device takes three steps with every codec and preset, with gradients in
float32, bfloat16 and float16. Their means have to be those that VirtualWorkers give on the CPU, bit for bit:

  virtual  VirtualWorkers with 4 workers on the first GPU
  hook     DistributedDataParallel with terngrad.torch.compress in several buckets, one rank on each GPU over NCCL. Gradients are
           late by milliseconds, so that an exchange which does not wait for the backward pass is seen; the case `control`, in
           which it does not wait, has to differ. With one GPU, NCCL's operations move nothing

Times: milliseconds of a step of ResNet-18 on images of 32 x 32 (examples/ddp_cifar10.py), the median of repetitions, each timed from
a synchronized GPU to a synchronized GPU: `accumulate` is 8 slices of a batch one after the other, `virtual` the same with their
exchange, the others are hooks of DistributedDataParallel on all ranks; `host` is the time in which the host submits a step.

Prints a line for each case that fails and for each part; --out has all of it in JSON, from case to case. A case that takes more than
a minute ends the program with the stacks of its threads. Exit codes: 0 all passed, 1 something failed, 2 wrong usage, 77 without
PyTorch, or without a GPU where --device does not ask for one. With --device cpu two ranks over Gloo do the same on the CPU, with
fewer types.
"""

import argparse
import contextlib
import datetime
import faulthandler
import gc
import hashlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

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
BUCKET_MB = 0.1  # for several buckets per step
CASE_SECONDS = 60
SHAPES = {"conv": (64, 32, 3, 3), "embedding": (1000, 64), "linear": (300, 257), "bias": (300,), "scale": (1,)}
# Rows of the table of times: options of compress; None is plain DistributedDataParallel, a string one of PyTorch's hooks.
HOOKS = {"fp32": None, "fp16": "fp16", "PowerSGD 4": "PowerSGD 4", "ternary": {"codec": "ternary", "clip_factor": 2.5},
         "ternary, no overlap": {"codec": "ternary", "clip_factor": 2.5, "overlap": False},
         "terngrad_ef": {"codec": "terngrad_ef"}, "qsgd": {"codec": "qsgd", "bits": 4}}
VIRTUAL_WORKERS = 8


def say(text):
    print(f"check_package.py: {text}", flush=True)


class Found:
    """The results so far, written to a file after each."""

    def __init__(self, path, **about):
        self.path = pathlib.Path(path) if path else None
        self.values = {**about, "virtual": {}, "hook": {}, "step_ms": {}}

    def run(self, part, name, function, *arguments):
        """Records the value of a call, or the text of its exception."""
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
        try:
            value = function(*arguments)
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        faulthandler.cancel_dump_traceback_later()
        self.note(part, name, value)
        return value

    def note(self, part, name, value):
        self.values[part][name] = value
        if self.path:
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps(self.values, indent=1) + "\n")
            temporary.replace(self.path)

    def failures(self, part, names):
        """The values that are missing or report a failure, by name."""
        passes = (lambda value: isinstance(value, dict)) if part == "step_ms" else (lambda value: value == "equal")
        values = {name: self.values[part].get(name, "has not run") for name in names}
        return {name: value for name, value in values.items() if not passes(value)}


def module_of_known_gradients(device, dtype):
    """A module with known gradients for each step and worker: its loss is the sum of parameters times these."""

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
    """A digest of each parameter's gradient."""
    return {name: hashlib.sha256(parameter.grad.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
            for name, parameter in module.named_parameters()}


def run_virtual(device, spec, dtype, num_workers):
    """Digests of each step's mean, by VirtualWorkers."""
    module = module_of_known_gradients(device, dtype)
    virtual = terngrad.torch.VirtualWorkers(module, num_workers, spec)
    found = []
    for step in range(STEPS):
        virtual.backward(lambda ids: module(step, int(ids)), torch.arange(num_workers))
        found.append(digests_of(module))
    return found


def run_hook(device, spec, dtype, late):
    """The same for this rank with DistributedDataParallel. @param late  True delays each gradient on the GPU"""
    module = module_of_known_gradients(device, dtype)
    if late:
        for parameter in module.parameters():
            parameter.register_hook(lambda gradient: (torch.cuda._sleep(LATE_CYCLES), gradient)[1])
    ddp = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=BUCKET_MB)
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
    """`equal`, or the steps and tensors in which a run differs."""
    found = run(*arguments)
    different = [f"{name} in step {step}" for step, digests in enumerate(expected) for name in digests
                 if digests[name] != found[step][name]]
    return f"differs: {', '.join(different)}" if different else "equal"


def run_control(expected, device, spec, dtype):
    """`equal` if an exchange that does not wait for the backward pass is detected."""
    @contextlib.contextmanager
    def after_nothing(side, overlap):
        with torch.cuda.stream(side._stream):
            yield
        torch.cuda.current_stream(side.device).wait_stream(side._stream)

    side_stream = terngrad.torch._gpu.SideStream
    right, side_stream.after_current = side_stream.after_current, after_nothing
    try:
        seen = compared(expected, run_hook, device, spec, dtype, True)
    finally:
        side_stream.after_current = right
    return "equal" if seen.startswith("differs") else f"an exchange that does not wait is not seen: {seen}"


def cases(device):
    """Pairs of a spec and a type of gradients."""
    specs = [*terngrad.codecs(), *terngrad.presets(), "ternary:clip_factor=2.5", "ternary:sharing=none,levels=asymmetric"]
    if device == "cuda":
        return list(itertools.product(specs, (torch.float32, torch.bfloat16, torch.float16)))
    # Gloo in older versions of PyTorch does not support bfloat16.
    return [*((spec, torch.float32) for spec in specs), *((spec, torch.float16) for spec in ("ternary", "terngrad_ef"))]


def name_of(spec, dtype):
    return f"{spec} of {str(dtype).removeprefix('torch.')}"


def milliseconds(step, options):
    """Medians over repetitions of milliseconds per step, and of the host's part."""
    def synchronize():
        if options.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(options.warmup):
        step()
    times, of_host = [], []
    for _ in range(options.repetitions):
        synchronize()
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        of_host.append(1000 * (time.perf_counter() - begin) / options.steps)
        synchronize()
        times.append(1000 * (time.perf_counter() - begin) / options.steps)
    return {"step": statistics.median(times), "host": statistics.median(of_host)}


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
    elif hook == "PowerSGD 4":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
        ddp.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2),
                               powerSGD_hook.powerSGD_hook)
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
    """Times a step of 8 virtual workers, or without codec of 8 slices with accumulated gradients."""
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
    """One process of a launch; rank 0 writes the results of all."""
    faulthandler.enable()
    device = torch.device(options.device, number if options.device == "cuda" else None)
    if options.device == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # the host name may not resolve
    dist.init_process_group({"cuda": "nccl", "cpu": "gloo"}[options.device], init_method=f"file://{folder}/meet", rank=number,
                            world_size=options.ranks, timeout=datetime.timedelta(seconds=CASE_SECONDS - 20))

    def of_all_ranks(run, *arguments):
        """The first rank's result that is not `equal`, else `equal`."""
        found = [None] * options.ranks
        try:
            own = run(*arguments)
        except Exception as error:
            own = f"{type(error).__name__}: {error}"
        dist.all_gather_object(found, own)
        return next((text for text in found if text != "equal"), "equal")

    late = options.device == "cuda"
    found = Found(f"{folder}/found.json" if number == 0 else None)
    for case in cases(options.device):
        name = name_of(*case)
        found.run("hook", name, of_all_ranks, compared, expected[name], run_hook, device, *case, late)
    if late:
        case = ("ternary", torch.float32)
        found.run("hook", "control", of_all_ranks, run_control, expected[name_of(*case)], device, *case)
    for name, hook in HOOKS.items():
        found.run("step_ms", name, time_hook, device, options, hook)
    gc.collect()  # destroy models with the hook before the group that they use
    dist.destroy_process_group()


def run_ranks(options, found):
    """Runs the ranks, compares with virtual workers on the CPU, and records the results."""
    expected = {name_of(*case): run_virtual("cpu", *case, options.ranks) for case in cases(options.device)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(rank, (folder, options, expected), options.ranks)
        finally:
            path = pathlib.Path(folder) / "found.json"
            values = json.loads(path.read_text()) if path.exists() else {}
            for part, name in ((part, name) for part in ("hook", "step_ms") for name in values.get(part, {})):
                found.note(part, name, values[part][name])


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda, if there is a GPU")
    numbers = {"batch_size": (128, "images of a step"), "width": (64, "channels of the net's first layer"),
               "steps": (20, "steps of a repetition"), "warmup": (10, "steps before the first repetition"),
               "repetitions": (3, "repetitions, of which the median counts")}
    for name, (default, text) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--out", help="file for the JSON")
    options = parser.parse_args(arguments)
    for name in numbers:
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if options.batch_size % VIRTUAL_WORKERS:
        parser.error(f"--batch_size: must be a multiple of {VIRTUAL_WORKERS}")
    return options


def main(arguments):
    options = parse(arguments)
    faulthandler.enable()
    if torch is None:
        say(f"skipped: {WHY_NO_TORCH}")
        return SKIPPED
    if options.device != "cpu" and not torch.cuda.is_available():
        say(f"{'skipped' if options.device is None else 'failed'}: PyTorch finds no GPU")
        return SKIPPED if options.device is None else 1
    options.device = options.device or "cuda"
    on_gpu = options.device == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    options.ranks = torch.cuda.device_count() if on_gpu else 2
    device = torch.device(options.device)
    found = Found(options.out, torch=torch.__version__, python=sys.version.split()[0], terngrad=terngrad.__version__,
                  device=torch.cuda.get_device_name() if on_gpu else "CPU", ranks=options.ranks)
    names = [name_of(*case) for case in cases(options.device)]
    planned = {"virtual": names, "hook": [*names, *(["control"] if on_gpu else [])], "step_ms": ["accumulate", "virtual", *HOOKS]}
    for case in cases(options.device):
        found.run("virtual", name_of(*case), lambda: compared(run_virtual("cpu", *case, WORKERS), run_virtual, device, *case, WORKERS))
    for name, codec in {"accumulate": None, "virtual": HOOKS["ternary"]}.items():
        found.run("step_ms", name, time_slices, device, options, codec)
    try:
        run_ranks(options, found)
    except Exception as error:
        say(f"the ranks ended early: {error}")
    failed = {part: found.failures(part, planned[part]) for part in planned}
    times = [f"{name} {value['step']:.3g}" for name, value in found.values["step_ms"].items() if name not in failed["step_ms"]]
    say(f"ms a step: {', '.join(times)}")
    for part, failures in failed.items():
        for name, text in failures.items():
            say(f"{part}: {name}: {text}")
    # Reports quote the last line.
    say("; ".join(f"{part}: {len(planned[part]) - len(failures)} of {len(planned[part])} passed" for part, failures in failed.items()))
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
