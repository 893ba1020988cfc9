#!/usr/bin/env python3
"""Measures how fast PyTorch trains one of our nets on the CPU: forward, backward and a momentum SGD step, float32.

    scripts/bench/bench_pytorch.py --net cifar10_alexnet --threads 2

Prints examples/s (median and best of the repetitions) and peak memory for both memory layouts, each in a process of its
own, so that a run can be alternated with one of terngrad_bench (--benchmark_filter=training_step) or terngrad_train on
the same cores. Exits 77 (skipped) if there is no PyTorch (Debian and Ubuntu: python3-torch).
"""

import pathlib
import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package

SKIPPED = 77
LAYOUTS = ("nchw", "channels_last")
# Batch sizes of the original's run scripts; for ImageNet nets as many examples as two cores train in a few seconds.
BATCHES = {"lenet": 64, "cifar10_alexnet": 128, "alexnet": 64, "googlenet": 32, "resnet_50": 32}


def blas_library():
    """The BLAS that PyTorch's matrix products use. Distributions link it dynamically: with the reference BLAS (Debian
    without libopenblas0) PyTorch is several times slower, and no baseline to quote."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if ".so" in line}
    names = sorted(os.path.realpath(path) for path in paths if "blas" in os.path.basename(path) or "mkl" in path)
    return names[0] if names else "built in"


def measure(layout, options):
    """Examples per second of each repetition."""
    torch.manual_seed(1)
    memory_format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    net = NETS[options.net]()
    height, width, channels = net.image_shape
    if options.image_size:
        height = width = options.image_size
        if hasattr(net, "fc6"):  # its number of inputs depends on the image size
            net.fc6 = torch.nn.LazyLinear(net.fc6.out_features)
            net(torch.zeros(1, channels, height, width).expand(2, -1, -1, -1))
    net = net.to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images = torch.rand(options.batch, channels, height, width).contiguous(memory_format=memory_format)
    labels = torch.arange(options.batch) % 10

    model = torch.compile(net) if options.compile else net

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(options.warmup):
        step()
    rates = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        for _ in range(options.steps):
            step()
        rates.append(options.batch * options.steps / (time.perf_counter() - start))
    return rates


def rate_text(rate):
    """Formats a rate as an integer from 100 on, else with three digits."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def report(layout, options):
    rates = measure(layout, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"pytorch {torch.__version__} {options.net} {layout}{' compiled' if options.compile else ''} batch {options.batch} threads {options.threads}: "
        f"median {rate_text(statistics.median(rates))} best {rate_text(max(rates))} examples/s, peak memory {peak:.0f} MiB",
        flush=True,
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    parser.add_argument("--net", default="lenet", choices=sorted(BATCHES), help="the net (default lenet)")
    parser.add_argument("--layout", choices=LAYOUTS, help="one memory layout (default: both, one after the other)")
    parser.add_argument("--batch", type=int, help="examples in a step (default: that of the net in BATCHES)")
    parser.add_argument("--image_size", type=int, help="rows and columns of the images (default: the net's in pytorch_nets.py)")
    parser.add_argument("--steps", type=int, default=20, help="steps in a repetition (default 20)")
    parser.add_argument("--warmup", type=int, default=10, help="steps before the first repetition (default 10)")
    parser.add_argument("--repetitions", type=int, default=9, help="repetitions (default 9)")
    parser.add_argument("--compile", action="store_true", help="train torch.compile's form of the net (PyTorch 2 and later)")
    options = parser.parse_args()
    options.batch = options.batch or BATCHES[options.net]
    return options


def main(options):
    if options.compile and not hasattr(torch, "compile"):
        print(f"bench_pytorch.py: --compile: PyTorch {torch.__version__} has no torch.compile", file=sys.stderr)
        return 2
    if options.layout:
        torch.set_num_threads(options.threads)
        report(options.layout, options)
        return 0
    print(f"BLAS: {blas_library()}", flush=True)
    for layout in LAYOUTS:
        subprocess.run([sys.executable, *sys.argv, "--layout", layout], check=True)
    return 0


if __name__ == "__main__":
    arguments = parse()
    # A preset core type makes OpenBLAS use another processor's kernels, at half the speed. The variable is read at import.
    os.environ.pop("OPENBLAS_CORETYPE", None)
    try:
        import torch
        from pytorch_nets import NETS
    except ImportError as missing:
        print(f"skipped: {missing_package.hint(missing)}")
        sys.exit(SKIPPED)
    sys.exit(main(arguments))
