#!/usr/bin/env python3
"""The recipe table1/b128-n2-float in PyTorch: the same net, augmentation, Adam, weight decay and averaged weights.

It answers one question: does fp32 training here end where another implementation ends? It shares no arithmetic and no
random numbers with terngrad. Prints the test accuracy of the averaged and of the raw weights at intervals.
"""

import argparse
import gzip
import json
import lzma
import math
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "common"))
import missing_package  # noqa: E402

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
    """Labels [n] and images [n, 3, 32, 32] in [0, 1] of one file of the binary version, packed or not."""
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


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_dir")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=0.0002)
    parser.add_argument("--weight_decay", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch takes")
    parser.add_argument("--eval_steps", type=int, default=1000)
    return parser.parse_args()


def main(options):
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    random = np.random.default_rng(options.seed)

    parts = [read_batch(options.data_dir, f"data_batch_{i}.bin") for i in range(1, 6)]
    labels = np.concatenate([part[0] for part in parts])
    images = np.concatenate([part[1] for part in parts])
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
    adam = torch.optim.Adam(net.parameters(), lr=options.learning_rate, eps=1e-8)
    order, position = random.permutation(len(labels)), 0
    begin = time.time()
    for step in range(options.steps):
        chosen = order[position : position + options.batch_size]
        position += options.batch_size
        if position > len(labels):
            position -= len(labels)
            order = random.permutation(len(labels))
            chosen = np.concatenate([chosen, order[:position]])
        batch = torch.from_numpy(augment(images[chosen], random)).contiguous(memory_format=channels_last)
        loss = torch.nn.functional.cross_entropy(net(batch), torch.from_numpy(labels[chosen]))
        penalty = (net.fc3.weight.square().sum() + net.fc4.weight.square().sum()) * (options.weight_decay / 2)
        adam.zero_grad()
        (loss + penalty).backward()
        adam.step()
        decay = min(0.9999, (1 + step) / (10 + step))
        with torch.no_grad():
            for shadow, parameter in zip(average.parameters(), net.parameters()):
                shadow.lerp_(parameter, 1 - decay)
        if (step + 1) % options.eval_steps == 0 or step + 1 == options.steps:
            line = {
                "step": step + 1,
                "loss": round(loss.item(), 4),
                "top1_ema": accuracy(average, test_images, test_labels),
                "top1_raw": accuracy(net, test_images, test_labels),
                "elapsed_seconds": round(time.time() - begin, 1),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy as np
        import torch
        from pytorch_nets import Cifar10Alexnet
    except ImportError as missing:
        sys.exit(f"cifar10_pytorch.py: {missing_package.hint(missing)}")
    main(arguments)
