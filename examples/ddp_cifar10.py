#!/usr/bin/env python3
"""Trains ResNet-18 on CIFAR-10 under DistributedDataParallel with compressed gradients, on CPUs over Gloo or on GPUs over NCCL.

    torchrun --nproc_per_node 2 examples/ddp_cifar10.py --data data/cifar10 --codec ternary:clip_factor=2.5 --steps 500
    torchrun --nproc_per_node 2 examples/ddp_cifar10.py --synthetic --codec none --steps 10

Rank and number of processes are torchrun's (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); without them it is one process. --data
is a folder with the files of the binary version of CIFAR-10, data_batch_1.bin and so on and test_batch.bin, or a folder with
cifar-10-batches-bin in it; files may be packed as .gz or .xz. --synthetic draws images of ten patterns in noise.

--codec says how gradients travel: a name, preset or spec of docs/codecs.md; none is DistributedDataParallel as it is, in fp32;
fp16 is PyTorch's own hook. Bytes are what a rank sends in a step: of a codec as its exchange reports them, of none and fp16 what a
ring all-reduce of the gradient sends, 2 (N - 1) / N times its size. Loss and accuracy are means over all ranks.
"""

import argparse
import gzip
import lzma
import os
import pathlib
import statistics
import sys
import time

import numpy
import terngrad.torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.functional import cross_entropy, interpolate, pad, relu

CLASSES = 10
IMAGE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32  # label and three planes of pixels
BYTES_OF = {"none": 4, "fp16": 2}  # bytes per element that PyTorch sends
OPENERS = {".bin": open, ".gz": gzip.open, ".xz": lzma.open}


class Block(torch.nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes (He et al., CVPR 2016)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                torch.nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(torch.nn.Module):
    """ResNet-18 for images of 32 x 32: a 3x3 stem of stride 1 and no max pool. 11,173,962 parameters with 64 channels."""

    def __init__(self, width=64):
        """@param width  channels of the stem; the four stages have 1, 2, 4 and 8 times as many"""
        super().__init__()
        self.stem = torch.nn.Conv2d(IMAGE[0], width, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(width)
        stages, inputs = [], width
        for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
            stages.append(torch.nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1)))
            inputs = outputs
        self.stages = torch.nn.Sequential(*stages)
        self.fc = torch.nn.Linear(inputs, CLASSES)

    def forward(self, images):
        x = self.stages(relu(self.norm(self.stem(images))))
        return self.fc(x.mean((2, 3)))


def read_records(path):
    """(images uint8 [n, 3, 32, 32], labels [n]) of a file. @raises ValueError for data that are not CIFAR-10 records"""
    with OPENERS[path.suffix](path, "rb") as file:
        records = numpy.frombuffer(file.read(), numpy.uint8)
    if records.size == 0 or records.size % RECORD_BYTES != 0:
        raise ValueError(f"'{path}' has {records.size} bytes, expected records of {RECORD_BYTES}")
    records = torch.from_numpy(records.reshape(-1, RECORD_BYTES).copy())
    if records[:, 0].max() >= CLASSES:
        raise ValueError(f"'{path}' has a label of {records[:, 0].max()}, expected 0 to {CLASSES - 1}")
    return records[:, 1:].reshape(-1, *IMAGE), records[:, 0].long()


def read_set(folder, stem):
    """Images and labels of all files in a folder named `stem` with .bin, .bin.gz or .bin.xz. @raises ValueError if none exists"""
    if (folder / "cifar-10-batches-bin").is_dir():
        folder = folder / "cifar-10-batches-bin"
    paths = [path for path in sorted(folder.glob(f"{stem}.bin*")) if path.suffix in OPENERS]
    if not paths:
        raise ValueError(f"'{folder}' has no {stem}.bin, .bin.gz or .bin.xz (scripts/download_data.sh cifar10 fetches them)")
    images, labels = zip(*map(read_records, paths))
    return torch.cat(images), torch.cat(labels)


def draw_set(num_examples, seed, of_set):
    """Synthetic images: a pattern per class, equal in all sets of a seed, plus noise. @param of_set  keys labels and noise"""
    generator = torch.Generator().manual_seed(seed)
    patterns = interpolate(torch.randn(CLASSES, IMAGE[0], 2, 2, generator=generator), scale_factor=16)
    generator.manual_seed((seed << 8) + of_set)
    labels = torch.randint(CLASSES, (num_examples,), generator=generator)
    noise = torch.randn(num_examples, *IMAGE, generator=generator)
    return (128 + 50 * patterns[labels] + 25 * noise).clamp(0, 255).byte(), labels


def normalize(images):
    """Converts bytes to floats of about -2 to 2."""
    return images.float() / 64 - 2


def augment(images, generator):
    """Mirrors half of the images, and shifts each by up to 4 pixels in both directions."""
    mirrored = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    images = pad(torch.where(mirrored, images.flip(3), images), (4, 4, 4, 4))
    tops, lefts = torch.randint(9, (2, len(images)), generator=generator).tolist()
    return torch.stack([image[:, top:top + IMAGE[1], left:left + IMAGE[2]] for image, top, left in zip(images, tops, lefts)])


def compress(ddp, codec, **options):
    """Registers the communication hook for a codec. @returns the state of terngrad's hook, None for another hook or none"""
    if codec == "none":
        return None
    if codec == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return None
    return terngrad.torch.compress(ddp, codec, **options)


def sent_bytes(model, codec, state):
    """Bytes that a rank sends per step."""
    if state is not None:
        return state.report().sent_bytes
    size = dist.get_world_size()
    return 2 * (size - 1) * BYTES_OF[codec] * sum(parameter.numel() for parameter in model.parameters()) // size


def mean_over_ranks(values, device):
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return (total / dist.get_world_size()).tolist()


def num_right(scores, labels):
    return int((scores.argmax(1) == labels).sum())


def accuracy_on(model, device, images, labels):
    """Accuracy with rank 0's batch norm statistics; each rank evaluates a part of the images. Collective."""
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
    model.eval()
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = images[rank::size], labels[rank::size]
    with torch.no_grad():
        right = sum(num_right(model(normalize(some).to(device)).cpu(), of_them)
                    for some, of_them in zip(images.split(100), labels.split(100)))
    right, total = mean_over_ranks([right, len(labels)], device)
    return right / total


def train(options, device):
    rank = dist.get_rank()

    def say(text):
        if rank == 0:
            print(text, flush=True)

    if options.synthetic:
        (images, labels), test_set = draw_set(2000, options.seed, 0), draw_set(options.test_examples, options.seed, 1)
    else:
        (images, labels), test_set = read_set(options.data, "data_batch_*"), read_set(options.data, "test_batch")
    torch.manual_seed(options.seed)
    model = ResNet18(options.width).to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    state = compress(ddp, options.codec, seed=options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9, weight_decay=5e-4)
    generator = torch.Generator().manual_seed((options.seed << 16) + rank)  # each rank draws other examples
    say(f"{dist.get_world_size()} ranks, {sum(p.numel() for p in model.parameters())} parameters, {len(labels)} examples")
    seconds, losses, right = [], [], 0
    for step in range(1, options.steps + 1):
        begin = time.perf_counter()
        chosen = torch.randint(len(labels), (options.batch_size,), generator=generator)
        of_batch = labels[chosen].to(device)
        scores = ddp(augment(normalize(images[chosen]), generator).to(device))
        loss = cross_entropy(scores, of_batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # waits for the GPU
        seconds.append(time.perf_counter() - begin)
        right += num_right(scores, of_batch)
        if step % options.log_steps == 0 or step == options.steps:
            mean_loss, accuracy = mean_over_ranks([statistics.mean(losses), right / (len(losses) * options.batch_size)], device)
            say(f"step {step}: loss {mean_loss:.4f}, accuracy {accuracy:.3f}, {sent_bytes(model, options.codec, state)} bytes "
                f"sent, {statistics.median(seconds):.3f} s per step")
            seconds, losses, right = [], [], 0
    accuracy = accuracy_on(model, device, *(each[:options.test_examples] for each in test_set))
    say(f"test accuracy {accuracy:.3f}")


def codec_word(word):
    """Parses an argument that is none, fp16, or a codec."""
    if word not in BYTES_OF:
        try:
            terngrad.Codec(word)
        except terngrad.Error as error:
            raise argparse.ArgumentTypeError(f"{error}; or none, fp16") from None
    return word


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", type=pathlib.Path, metavar="FOLDER", help="of the files of CIFAR-10")
    what.add_argument("--synthetic", action="store_true", help="draws images in place of CIFAR-10")
    parser.add_argument("--codec", type=codec_word, default="ternary:clip_factor=2.5", metavar="SPEC|none|fp16",
                        help="how gradients travel (default ternary:clip_factor=2.5)")
    parser.add_argument("--steps", type=int, default=100, help="default 100")
    parser.add_argument("--batch_size", type=int, default=32, help="examples of a rank in a step (default 32)")
    parser.add_argument("--learning_rate", type=float, default=0.02, help="default 0.02")
    parser.add_argument("--width", type=int, default=64, help="channels of the stem: 64 (default) is ResNet-18")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, examples and codecs' draws (default 1)")
    parser.add_argument("--log_steps", type=int, default=10, help="steps from line to line (default 10)")
    parser.add_argument("--test_examples", type=int, default=1000, help="for the accuracy at the end (default 1000)")
    parser.add_argument("--threads", type=int, default=1, help="of a rank (default 1)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the ranks; cuda: a GPU for each (default cpu)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU")
    for name in ("steps", "batch_size", "width", "log_steps", "test_examples", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if not 0 <= options.seed < 2**32:
        parser.error("--seed: must be from 0 to 2^32 - 1")
    return options


def main(options):
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    backend = "nccl" if options.device == "cuda" else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        train(options, device)
    except ValueError as error:
        print(f"ddp_cifar10.py: error: {error}", file=sys.stderr)
        return 1
    dist.destroy_process_group()  # after DDP, which was destroyed with train()'s variables: the reverse order may hang
    return 0


if __name__ == "__main__":
    sys.exit(main(parse()))
