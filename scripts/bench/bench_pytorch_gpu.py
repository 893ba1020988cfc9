#!/usr/bin/env python3
"""Measures how fast PyTorch trains one of our nets on a GPU: forward, backward and an update, on data that stays there.

    scripts/bench/bench_pytorch_gpu.py --out pytorch.json

To be set beside `terngrad_bench --benchmark_filter=^train_step/cuda/` and terngrad_train on the same GPU. In each of
float32 with TF32 products and without: as written (eager) and by torch.compile(mode="reduce-overhead"), which replays
CUDA graphs; channels_last, Adam (lenet: SGD with momentum) as one fused update. Each mode is its own process: warm-up,
then some repetitions of as many steps, timed from a synchronized GPU to a synchronized GPU. The loss at the end must
be a number below that of the first step. What is measured less than our steps do: no data pipeline, no weight decay, no
moving average, and one worker.

Prints one JSON object; --out writes it to a file too. A mode that fails is in it with its reason, and the exit code is 1
then. Without PyTorch or without a GPU nothing is measured: {"skipped": reason}, exit code 77. `--device cpu --steps 3`
runs the same code on the CPU, where the figures mean little. PyTorch before 2.0 has no torch.compile; those modes are
skipped then.
"""

import pathlib
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package

SKIPPED = 77
BATCHES = {"lenet": 64, "cifar10_alexnet": 128}  # as in the original's run scripts
MODES = ("eager", "compiled")
MATH = ("tf32", "fp32")


def make_optimizer(net, options):
    on_gpu = {"fused": True} if options.device == "cuda" else {}
    if options.net == "lenet":
        return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, **on_gpu)
    return torch.optim.Adam(net.parameters(), lr=0.0002, **on_gpu)


def make_step(options):
    """A function that trains one step and returns its loss."""
    torch.manual_seed(1)
    device = torch.device(options.device)
    net = NETS[options.net]().to(device).to(memory_format=torch.channels_last)
    optimizer = make_optimizer(net, options)
    rows, columns, channels = net.image_shape
    images = torch.randn(options.batch, channels, rows, columns).to(device).contiguous(memory_format=torch.channels_last)
    labels = (torch.arange(options.batch) % 10).to(device)

    def loss_of(images, labels):
        return torch.nn.functional.cross_entropy(net(images), labels)

    if options.mode == "compiled":
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def measure(options):
    """Steps per second of each repetition, and losses that show that training works."""
    allowed = options.math == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True
    step = make_step(options)
    first = step().item()
    for _ in range(options.warmup):
        step()
    rates = []
    for _ in range(options.repetitions):
        synchronize(options)
        start = time.perf_counter()
        for _ in range(options.steps):
            # Not kept: the next replay of a captured graph overwrites the loss.
            step()
        synchronize(options)
        rates.append(options.steps / (time.perf_counter() - start))
    last = step().item()
    if not (math.isfinite(last) and last < first):
        raise RuntimeError(f"the loss went from {first} to {last}: it does not train")
    median = statistics.median(rates)
    return {
        "mode": options.mode,
        "math": options.math,
        "steps_per_s": median,
        "step_us": 1e6 / median,
        "examples_per_s": median * options.batch,
        "all_steps_per_s": rates,
        "first_loss": first,
        "last_loss": last,
    }


def measure_apart(mode, precision, options):
    """The result of a mode in its own process, or the reason of its failure."""
    words = ["--mode", mode, "--math", precision]
    for name in ("device", "net", "batch", "steps", "warmup", "repetitions"):
        words += [f"--{name}", str(getattr(options, name))]
    failed = {"mode": mode, "math": precision}
    if mode == "compiled" and not hasattr(torch, "compile"):
        return {**failed, "skipped": f"PyTorch {torch.__version__} has no torch.compile"}
    try:
        result = subprocess.run([sys.executable, os.path.abspath(__file__), *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {**failed, "error": f"not done after {options.limit} s"}
    lines = result.stdout.strip().splitlines()
    if result.returncode == 0 and lines:
        return json.loads(lines[-1])
    reason = (result.stderr.strip().splitlines() or ["no output"])[-1]
    return {**failed, "error": f"exit code {result.returncode}: {reason}"}


def report_skip(reason, options):
    write({"skipped": reason}, options)
    return SKIPPED


def write(report, options):
    """Writes the report to standard output and to --out."""
    text = json.dumps(report, indent=1)
    print(text, flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")


def describe(options):
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "net": options.net,
        "batch": options.batch,
        "steps": options.steps,
        "repetitions": options.repetitions,
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="cifar10_alexnet", choices=sorted(BATCHES), help="the net (default cifar10_alexnet)")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="default cuda")
    parser.add_argument("--batch", type=int, help="examples in a step (default: 64 for lenet, 128 for cifar10_alexnet)")
    parser.add_argument("--steps", type=int, default=500, help="steps in a repetition (default 500)")
    parser.add_argument("--warmup", type=int, default=100, help="steps before the first repetition (default 100)")
    parser.add_argument("--repetitions", type=int, default=7, help="repetitions (default 7)")
    parser.add_argument("--limit", type=int, default=180, help="seconds that a mode may take (default 180)")
    parser.add_argument("--out", help="file for the JSON")
    parser.add_argument("--mode", choices=MODES, help="one mode only, in this process")
    parser.add_argument("--math", choices=MATH, default="tf32", help="of --mode (default tf32)")
    options = parser.parse_args()
    for name in ("steps", "repetitions", "limit"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if options.warmup < 0:
        parser.error("--warmup: must be at least 0")
    options.batch = options.batch or BATCHES[options.net]
    return options


def main(options):
    if torch is None:
        return report_skip(f"no PyTorch: {WHY_NO_TORCH}", options)
    if options.device == "cuda" and not torch.cuda.is_available():
        return report_skip(f"PyTorch {torch.__version__} sees no GPU", options)
    if options.mode:
        print(json.dumps(measure(options)))
        return 0
    results = [measure_apart(mode, precision, options) for precision in MATH for mode in MODES]
    write({**describe(options), "results": results}, options)
    return 1 if any("error" in result for result in results) else 0


try:
    import torch
    from pytorch_nets import NETS
except ImportError as error:
    torch, WHY_NO_TORCH = None, missing_package.hint(error)

if __name__ == "__main__":
    sys.exit(main(parse()))
