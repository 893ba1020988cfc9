#!/usr/bin/env python3
"""Compares our powersgd with PyTorch's own PowerSGD hook, in one process on the CPU: how well equal gradients of rank R are
approximated, and how long a step takes.

    PYTHONPATH=build/release/python scripts/bench/bench_powersgd.py --rank 4 --threads 2 --out powersgd.json

Errors are |approximation - gradient| / |gradient| of matrices whose singular values fall like 1 / k, after steps with the same
gradient and without error feedback: both begin with a random Q and keep it from step to step, so both come to the best
approximation of the rank, which is printed beside them. The time is that of a step of AlexNet's layout (61 million elements, error
feedback on, one worker, no network): PyTorch's is its hook's, ours is begin to finish of an exchange. Medians.

Exit codes: 1 if it failed, 77 without PyTorch, Gloo or the package terngrad.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time

import gloo_launch

try:
    import numpy
    import torch
    from torch import distributed
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    import terngrad
except ImportError as error:
    terngrad, WHY_NO_TERNGRAD = None, gloo_launch.missing_package.hint(error)

SEED = 5
BEGINS = 2  # steps before PyTorch compresses, the minimum that it accepts
SHAPES = {"w0": (512, 128), "w1": (1200, 64), "w2": (300, 300)}  # shapes of the matrices for comparing errors


def alexnet():
    """{name: shape} of AlexNet with two groups, as in terngrad_bench: rows by output units."""
    shapes = {}
    for name, side, inputs, outputs in (("conv1", 11, 3, 48), ("conv2", 5, 48, 128), ("conv3", 3, 256, 192), ("conv4", 3, 192, 192),
                                        ("conv5", 3, 192, 128)):
        for group in "12":
            shapes[f"{name}_{group}_weights"] = (side * side * inputs, outputs)
            shapes[f"{name}_{group}_biases"] = (outputs,)
    for name, inputs, outputs in (("fc6", 9216, 4096), ("fc7", 4096, 4096), ("logits", 4096, 1001)):
        shapes[f"{name}_weights"] = (inputs, outputs)
        shapes[f"{name}_biases"] = (outputs,)
    return shapes


def decaying(shape, random):
    """A matrix whose singular values are 1, 1/2, 1/3, ..."""
    size = min(shape)
    left = numpy.linalg.qr(random.standard_normal((shape[0], size)))[0]
    right = numpy.linalg.qr(random.standard_normal((shape[1], size)))[0]
    return ((left / numpy.arange(1, size + 1)) @ right.T).astype(numpy.float32)


class Linear(torch.nn.Module if terngrad else object):
    """A loss with given gradients: the sum of parameters times gradients."""

    def __init__(self, gradients):
        super().__init__()
        self.gradients = {name: torch.from_numpy(gradient) for name, gradient in gradients.items()}
        for name, gradient in self.gradients.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros_like(gradient)))

    def forward(self):
        return sum((parameter * self.gradients[name]).sum() for name, parameter in self.named_parameters())


def pytorch_steps(gradients, rank, steps, uses_error_feedback):
    """(the last step's mean by name, seconds of each step that compresses)."""
    module = Linear(gradients)
    megabytes = 1 + sum(gradient.nbytes for gradient in gradients.values()) // 2**20
    model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=megabytes)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=BEGINS, random_seed=SEED,
                                        use_error_feedback=uses_error_feedback)
    seconds = [0.0]  # per step, the last for the current one

    def timed(_, bucket):
        begun = time.perf_counter()
        result = powerSGD_hook.powerSGD_hook(state, bucket)
        result.wait()
        seconds[-1] += time.perf_counter() - begun
        if bucket.is_last():
            seconds.append(0.0)
        return result

    model.register_comm_hook(None, timed)
    for _ in range(BEGINS + steps):
        model.zero_grad(set_to_none=True)
        model().backward()
    return {name: parameter.grad.numpy().copy() for name, parameter in module.named_parameters()}, seconds[-1 - steps:-1]


def our_steps(gradients, rank, steps, memory, threads):
    exchange = terngrad.Exchange(terngrad.Layout.of(gradients), 1, codec=f"powersgd:rank={rank}", memory=memory, num_threads=threads,
                                 seed=SEED)
    mean = {name: numpy.empty_like(gradient) for name, gradient in gradients.items()}
    seconds = []
    for step in range(steps):
        begun = time.perf_counter()
        exchange.exchange(gradients, mean, step=step)
        seconds.append(time.perf_counter() - begun)
    return mean, seconds


def error(found, gradient):
    return float(numpy.linalg.norm(found.astype(numpy.float64) - gradient) / numpy.linalg.norm(gradient.astype(numpy.float64)))


def compare_errors(options):
    """A row per matrix: errors of both implementations and of the best approximation."""
    random = numpy.random.default_rng(SEED)
    gradients = {name: decaying(shape, random) for name, shape in SHAPES.items()}
    theirs, _ = pytorch_steps(gradients, options.rank, options.steps, False)
    ours, _ = our_steps(gradients, options.rank, options.steps, "none", options.threads)
    rows = []
    for name, gradient in gradients.items():
        values = numpy.linalg.svd(gradient.astype(numpy.float64), compute_uv=False)
        best = float(numpy.sqrt((values[options.rank:] ** 2).sum() / (values**2).sum()))
        rows.append({"matrix": list(gradient.shape), "ours": error(ours[name], gradient), "pytorch": error(theirs[name], gradient),
                     "best": best})
    return rows


def compare_times(options):
    """Median seconds of a step of AlexNet's layout, without warm-up steps."""
    random = numpy.random.default_rng(SEED)
    gradients = {name: random.standard_normal(shape, numpy.float32) for name, shape in alexnet().items()}
    _, theirs = pytorch_steps(gradients, options.rank, options.repetitions, True)
    _, ours = our_steps(gradients, options.rank, options.repetitions + 1, "ef", options.threads)
    return {"ours_seconds": statistics.median(ours[1:]), "pytorch_seconds": statistics.median(theirs)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=4, help="columns of a factor (default 4)")
    parser.add_argument("--threads", type=int, default=2, help="of each (default 2)")
    parser.add_argument("--steps", type=int, default=20, help="with the same gradient, before errors are compared (default 20)")
    parser.add_argument("--repetitions", type=int, default=7, help="steps that are timed (default 7)")
    parser.add_argument("--errors_only", action="store_true", help="leave the times out")
    parser.add_argument("--out", help="file for the JSON")
    options = parser.parse_args()
    for name in ("rank", "threads", "steps", "repetitions"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return options


def main():
    options = parse()
    reason = gloo_launch.unavailable_reason() or (None if terngrad else f"no package terngrad: {WHY_NO_TERNGRAD}")
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return gloo_launch.SKIPPED
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        result = {"rank": options.rank, "threads": options.threads, "pytorch": torch.__version__, "steps": options.steps,
                  "errors": compare_errors(options), "alexnet": None if options.errors_only else compare_times(options)}
        distributed.destroy_process_group()
    for row in result["errors"]:
        print(f"matrix {row['matrix'][0]} x {row['matrix'][1]}: error ours {row['ours']:.6f}, PyTorch's {row['pytorch']:.6f}, "
              f"best {row['best']:.6f}")
    times = result["alexnet"]
    if times:
        print(f"AlexNet's layout, rank {options.rank}, {options.threads} threads: ours {1e3 * times['ours_seconds']:.0f} ms, "
              f"PyTorch's {1e3 * times['pytorch_seconds']:.0f} ms, {times['pytorch_seconds'] / times['ours_seconds']:.2f} times ours")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
