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

# Of pytorch_nets.NETS, which needs PyTorch.
NAMES = ("alexnet", "alexnet_v2", "branched", "cifar10_alexnet", "cifarnet", "googlenet", "lenet", "resnet_18", "resnet_18_cifar",
         "resnet_20", "resnet_50", "resnet_56", "vgg_16", "vgg_a")
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


def relative_difference(ours, theirs, scale=None):
    """`scale`: in place of `theirs` where differences are to be seen beside something larger."""
    return float((ours - theirs).abs().max() / (theirs if scale is None else scale).abs().max())


def gradient_difference(net, name, ours):
    """Gradients of an offset behind which another batch norm comes cancel almost: seen beside those of its factor, sums of the same
    terms times normalized values, if these are larger."""
    theirs = parameter_of(net, name).grad
    layer, kind = name.split("/")
    if kind != "beta":
        return relative_difference(to_pytorch(ours), theirs)
    return relative_difference(ours, theirs, torch.cat([theirs, parameter_of(net, f"{layer}/gamma").grad]))


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
        results.append(report(name, gradient_difference(net, name, ours)))
    return all(results)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="lenet", choices=NAMES, help="the net (default lenet)")
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built terngrad_dump_gradients")
    parser.add_argument("--examples", type=int, default=64,
                        help="examples in the batch (default 64). Where one side rounds to 0 and the other does not, a ReLU differs by "
                             "a whole gradient: the more layers, the fewer examples")
    parser.add_argument("--firm_relus", action="store_true",
                        help="offsets of 8 and -8 in batch norms, so that no ReLU behind one hangs on rounding: without it, float32 and "
                             "float64 differ by a tenth in nets as deep as googlenet and resnet_50, in PyTorch too")
    parser.add_argument("--bound", type=float, default=1e-4, help="of the differences (default 0.0001)")
    return parser.parse_args()


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.program.resolve(), options.net, folder, str(options.examples)]
        subprocess.run([*command, "firm"] if options.firm_relus else command, check=True)
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
