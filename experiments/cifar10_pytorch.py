#!/usr/bin/env python3
"""The recipe table1/b128-n2-float in PyTorch: the same net, augmentation, Adam, weight decay and averaged weights.

It answers two questions: does fp32 training here end where another implementation ends, and how many steps does PyTorch
need with its own compression? It shares no arithmetic and no random numbers with terngrad. Prints the test accuracy of the
averaged and of the raw weights at intervals.

As several processes over Gloo, each of which takes its share of every batch:

    mpirun -np 2 experiments/cifar10_pytorch.py DATA --hook powersgd:rank=4 --master 127.0.0.1:29500 --until 0.60

What travels is what scripts/bench/bench_pytorch_ddp.py measures the time of: float32, or by DDP's hooks fp16 or PowerSGD's
factors. The shares of a batch are independent draws of examples, and rank 0 evaluates.
"""

import argparse
import gzip
import json
import lzma
import math
import os
import sys
import time

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts")
sys.path[:0] = [os.path.join(SCRIPTS, "common"), os.path.join(SCRIPTS, "bench")]
import gloo_launch  # noqa: E402
import missing_package  # noqa: E402
from ddp_hook_words import checked, powersgd_rank  # noqa: E402

CROP = 24


def initialize(net):
    """The recipe's initial parameters: truncated normal weights, constant biases."""
    stddevs = {"conv1": 0.05, "conv2": 0.05, "fc3": 0.04, "fc4": 0.04, "logits": 1 / 192}
    biases = {"conv1": 0.0, "conv2": 0.1, "fc3": 0.1, "fc4": 0.1, "logits": 0.0}
    for name, std in stddevs.items():
        layer = getattr(net, name)
        torch.nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
        torch.nn.init.constant_(layer.bias, biases[name])


def read_batch(folder, name):
    """Labels [n] and images [n, 3, 32, 32] in [0, 1] of one file of the binary version, compressed or not."""
    for suffix, opener in (("", open), (".gz", gzip.open), (".xz", lzma.open)):
        path = os.path.join(folder, name + suffix)
        if os.path.exists(path):
            with opener(path, "rb") as file:
                records = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)
            return records[:, 0].astype(np.int64), records[:, 1:].reshape(-1, 3, 32, 32)
    sys.exit(f"cifar10_pytorch.py: no {name}, .gz or .xz in {folder}")


def standardize(images):
    """(x - mean) / max(std, 1 / sqrt(count)) over all pixels and channels of each image."""
    flat = images.reshape(len(images), -1)
    mean = flat.mean(1, keepdims=True)
    std = np.maximum(flat.std(1, keepdims=True), 1 / math.sqrt(flat.shape[1]))
    return ((flat - mean) / std).reshape(images.shape).astype(np.float32)


def augment(images, random):
    """Random crop, flip, brightness and contrast, as the original's training pipeline."""
    n = len(images)
    out = np.empty((n, 3, CROP, CROP), np.float32)
    tops, lefts = random.integers(0, 33 - CROP, n), random.integers(0, 33 - CROP, n)
    flips = random.random(n) < 0.5
    for i in range(n):
        crop = images[i, :, tops[i] : tops[i] + CROP, lefts[i] : lefts[i] + CROP]
        out[i] = crop[:, :, ::-1] if flips[i] else crop
    out /= 255
    out += random.uniform(-63 / 255, 63 / 255, (n, 1, 1, 1)).astype(np.float32)
    mean = out.mean((2, 3), keepdims=True)
    return standardize((out - mean) * random.uniform(0.2, 1.8, (n, 1, 1, 1)).astype(np.float32) + mean)


def accuracy(net, images, labels):
    with torch.no_grad():
        hits = sum(
            (net(images[i : i + 500]).argmax(1) == labels[i : i + 500]).sum().item() for i in range(0, len(labels), 500)
        )
    return hits / len(labels)


def hook_word(word):
    if checked(word) not in ("fp32", "fp16") and powersgd_rank(word) is None:
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected fp32, fp16 or powersgd:rank=R")
    return word


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir")
    parser.add_argument("--steps", type=int, default=10000, help="default 10000")
    parser.add_argument("--batch_size", type=int, default=128, help="examples of a step, of all processes (default 128)")
    parser.add_argument("--learning_rate", type=float, default=0.0002, help="default 0.0002")
    parser.add_argument("--weight_decay", type=float, default=0.004, help="default 0.004")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--eval_steps", type=int, default=1000, help="steps per evaluation (default 1000)")
    parser.add_argument("--until", type=float, default=1.0, help="end at an evaluation with this accuracy of averaged weights")
    parser.add_argument("--hook", type=hook_word, default="fp32", help="what travels: fp32, fp16 or powersgd:rank=R")
    gloo_launch.add_options(parser)
    options = parser.parse_args()
    gloo_launch.check_options(parser, options, ("steps", "batch_size", "eval_steps"))
    if options.batch_size % options.world_size != 0:
        parser.error(f"--batch_size: {options.batch_size} is no multiple of {options.world_size} processes")
    if options.hook != "fp32" and options.world_size == 1:
        parser.error(f"--hook: {options.hook} needs several processes")
    return options


class Batches:
    """This process's examples of each step, from epochs in its own random order."""

    def __init__(self, images, labels, options):
        self.images, self.labels = images, labels
        self.size = options.batch_size // options.world_size
        self.random = np.random.default_rng([options.seed, options.rank] if options.rank else options.seed)
        self.order, self.position = self.random.permutation(len(labels)), 0

    def next(self):
        chosen = self.order[self.position : self.position + self.size]
        self.position += self.size
        if self.position > len(self.labels):
            self.position -= len(self.labels)
            self.order = self.random.permutation(len(self.labels))
            chosen = np.concatenate([chosen, self.order[: self.position]])
        images = torch.from_numpy(augment(self.images[chosen], self.random)).contiguous(memory_format=torch.channels_last)
        return images, torch.from_numpy(self.labels[chosen])


def exchanged(net, options):
    """The module that computes logits and whose backward pass exchanges gradients by --hook."""
    if options.world_size == 1:
        return net
    rank = powersgd_rank(options.hook)
    if rank is not None:
        return ddp_powersgd.wrap(net, rank)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    if options.hook == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return ddp


def is_reached(accuracy_of_average, options):
    """True, on all ranks, if rank 0's accuracy has reached --until."""
    reached = torch.tensor(float(options.rank == 0 and accuracy_of_average >= options.until))
    if options.world_size > 1:
        torch.distributed.broadcast(reached, 0)
    return bool(reached)


def main(options):
    torch.set_num_threads(options.threads)
    if options.world_size > 1 and not gloo_launch.meet(options):
        return 1
    torch.manual_seed(options.seed)

    parts = [read_batch(options.data_dir, f"data_batch_{i}.bin") for i in range(1, 6)]
    labels = np.concatenate([part[0] for part in parts])
    batches = Batches(np.concatenate([part[1] for part in parts]), labels, options)
    test_labels, test_raw = read_batch(options.data_dir, "test_batch.bin")
    margin = (32 - CROP) // 2
    cropped = test_raw[:, :, margin : margin + CROP, margin : margin + CROP].astype(np.float32) / 255
    channels_last = torch.channels_last
    test_images = torch.from_numpy(standardize(cropped)).contiguous(memory_format=channels_last)
    test_labels = torch.from_numpy(test_labels)

    net = Cifar10Alexnet().to(memory_format=channels_last)
    initialize(net)
    average = Cifar10Alexnet().to(memory_format=channels_last)
    average.load_state_dict(net.state_dict())
    logits_of = exchanged(net, options)
    adam = torch.optim.Adam(net.parameters(), lr=options.learning_rate, eps=1e-8)
    begin = time.time()
    for step in range(options.steps):
        images, expected = batches.next()
        loss = torch.nn.functional.cross_entropy(logits_of(images), expected)
        penalty = (net.fc3.weight.square().sum() + net.fc4.weight.square().sum()) * (options.weight_decay / 2)
        adam.zero_grad()
        (loss + penalty).backward()
        adam.step()
        decay = min(0.9999, (1 + step) / (10 + step))
        with torch.no_grad():
            for shadow, parameter in zip(average.parameters(), net.parameters()):
                shadow.lerp_(parameter, 1 - decay)
        if (step + 1) % options.eval_steps == 0 or step + 1 == options.steps:
            top1 = math.nan
            if options.rank == 0:
                top1 = accuracy(average, test_images, test_labels)
                line = {
                    "step": step + 1,
                    "loss": round(loss.item(), 4),
                    "top1_ema": top1,
                    "top1_raw": accuracy(net, test_images, test_labels),
                    "elapsed_seconds": round(time.time() - begin, 1),
                }
                print(json.dumps(line), flush=True)
                if options.out:
                    with open(options.out, "a" if step >= options.eval_steps else "w", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
            if is_reached(top1, options):
                break
    if options.world_size > 1:
        gloo_launch.check_equal_parameters(net)
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy as np
        import torch
        import ddp_powersgd
        from pytorch_nets import Cifar10Alexnet
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    except ImportError as missing:
        sys.exit(f"cifar10_pytorch.py: {missing_package.hint(missing)}")
    sys.exit(main(arguments))
