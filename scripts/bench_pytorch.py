#!/usr/bin/env python3
"""Measures how fast PyTorch trains our LeNet on the CPU: forward, backward and a momentum SGD step, float32.

    scripts/bench_pytorch.py --threads 2

Prints examples/s (median and best of the repetitions) for both memory layouts, so that a run can be alternated with one
of terngrad_train on the same cores. Exits 77 (skipped) if there is no PyTorch (Debian and Ubuntu: python3-torch).
"""

import argparse
import os
import statistics
import sys
import time

SKIPPED = 77


def blas_library():
    """The BLAS that PyTorch's matrix products use. Distributions link it dynamically: with the reference BLAS (Debian
    without libopenblas0) PyTorch is several times slower, and no baseline to quote."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if ".so" in line}
    names = sorted(os.path.realpath(path) for path in paths if "blas" in os.path.basename(path) or "mkl" in path)
    return names[0] if names else "built in"


def measure(memory_format, options):
    """Examples per second of each repetition."""
    torch.manual_seed(1)
    net = LeNet().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images = torch.rand(options.batch, 1, 28, 28).contiguous(memory_format=memory_format)
    labels = torch.arange(options.batch) % 10

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(images), labels).backward()
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    parser.add_argument("--batch", type=int, default=64, help="examples in a step (default 64)")
    parser.add_argument("--steps", type=int, default=20, help="steps in a repetition (default 20)")
    parser.add_argument("--warmup", type=int, default=10, help="steps before the first repetition (default 10)")
    parser.add_argument("--repetitions", type=int, default=9, help="repetitions (default 9)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"BLAS: {blas_library()}", flush=True)
    for name, memory_format in (("nchw", torch.contiguous_format), ("channels_last", torch.channels_last)):
        rates = measure(memory_format, options)
        print(
            f"pytorch {torch.__version__} lenet {name} batch {options.batch} threads {options.threads}: "
            f"median {statistics.median(rates):.0f} best {max(rates):.0f} examples/s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    # A preset core type makes OpenBLAS use kernels for another processor, at half the speed; it is read at import.
    os.environ.pop("OPENBLAS_CORETYPE", None)
    try:
        import torch
        from pytorch_lenet import LeNet
    except ImportError as missing:
        print(f"skipped: {missing} (Debian and Ubuntu: python3-torch)")
        sys.exit(SKIPPED)
    sys.exit(main())
