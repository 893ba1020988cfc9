#!/usr/bin/env python3
"""Compares our gradients of a net with PyTorch's, on the same weights and examples.

    scripts/dev/compare_pytorch.py --net lenet --program build/release/bin/terngrad_dump_gradients

Prints a line per tensor with max|ours - theirs| / max|theirs| and exits 1 if one is beyond the bound, 77 (skipped) if
there is no PyTorch (Debian and Ubuntu: python3-torch).
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package

NAMES = ("branched", "cifar10_alexnet", "lenet", "resnet_20", "resnet_56")  # of pytorch_nets.NETS, which needs PyTorch
SKIPPED = 77


def read_tensors(folder, file_name):
    """The tensors of a flat buffer by name, shaped as layout.txt says."""
    flat = torch.from_numpy(numpy.fromfile(folder / file_name, dtype="<f4"))
    tensors = {}
    for line in (folder / "layout.txt").read_text().splitlines():
        name, offset, shape = line.split()
        shape = [int(size) for size in shape.split("x")]
        count = int(numpy.prod(shape))
        tensors[name] = flat[int(offset) : int(offset) + count].reshape(shape)
    return tensors


def relative_difference(ours, theirs):
    return float((ours - theirs).abs().max() / theirs.abs().max())


def compare(net, folder, bound):
    def report(name, difference):
        """Prints one line; true if the difference is within the bound (NaN is not)."""
        is_good = difference <= bound
        print(f"{name:16} {difference:9.2e} {'ok' if is_good else f'BEYOND {bound:g}'}")
        return is_good

    load(net, read_tensors(folder, "parameters.f32"))
    labels = torch.from_numpy(numpy.fromfile(folder / "labels.i32", dtype="<i4")).long()
    images = torch.from_numpy(numpy.fromfile(folder / "images.f32", dtype="<f4"))
    images = images.reshape(len(labels), *net.image_shape).permute(0, 3, 1, 2)
    logits = net(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    our_loss = float(numpy.fromfile(folder / "loss.f64", dtype="<f8")[0])
    our_logits = torch.from_numpy(numpy.fromfile(folder / "logits.f32", dtype="<f4")).reshape(logits.shape)
    results = [
        report("loss", abs(our_loss - loss.item()) / loss.item()),
        report("logits", relative_difference(our_logits, logits.detach())),
    ]
    for name, ours in read_tensors(folder, "gradients.f32").items():
        results.append(report(name, relative_difference(to_pytorch(ours), parameter_of(net, name).grad)))
    return all(results)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="lenet", choices=NAMES, help="the net (default lenet)")
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built terngrad_dump_gradients")
    parser.add_argument("--examples", type=int, default=64,
                        help="examples in the batch (default 64). Where one side rounds to 0 and the other does not, a ReLU differs by "
                             "a whole gradient: the more layers, the fewer examples")
    parser.add_argument("--bound", type=float, default=1e-4, help="of the differences (default 0.0001)")
    return parser.parse_args()


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program.resolve(), options.net, folder, str(options.examples)], check=True)
        return 0 if compare(NETS[options.net](), pathlib.Path(folder), options.bound) else 1


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy
        import torch
        from pytorch_nets import NETS, load, parameter_of, to_pytorch
    except ImportError as missing:
        print(f"skipped: {missing_package.hint(missing)}")
        sys.exit(SKIPPED)
    sys.exit(main(arguments))
