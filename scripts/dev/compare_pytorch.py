#!/usr/bin/env python3
"""Compares our gradients of a net, and the moving statistics after a step, with PyTorch's, on the same weights and examples.

    scripts/dev/compare_pytorch.py --net lenet --program build/release/bin/terngrad_dump_gradients

Prints a line per tensor with max|ours - theirs| / max|theirs| and exits 1 if one is beyond the bound, 77 (skipped) if
there is no PyTorch (Debian and Ubuntu: python3-torch).
"""

import argparse
import functools
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package

# Names of pytorch_nets.NETS, which cannot be imported without PyTorch.
NAMES = ("alexnet", "alexnet_v2", "branched", "cifar10_alexnet", "cifarnet", "googlenet", "googlenet_2014", "inception_v3", "lenet",
         "resnet_18", "resnet_18_cifar", "resnet_20", "resnet_50", "resnet_56", "vgg_16", "vgg_a")
SKIPPED = 77


def read_tensors(folder, file_name, layout="layout.txt"):
    """The tensors of a flat buffer by name, with shapes from `layout`."""
    flat = torch.from_numpy(numpy.fromfile(folder / file_name, dtype="<f4"))
    tensors = {}
    for line in (folder / layout).read_text().splitlines():
        name, offset, shape = line.split()
        shape = [int(size) for size in shape.split("x")]
        count = int(numpy.prod(shape))
        tensors[name] = flat[int(offset) : int(offset) + count].reshape(shape)
    return tensors


def relative_difference(ours, theirs, scale=None):
    """max|ours - theirs| relative to `scale`, by default `theirs`."""
    return float((ours - theirs).abs().max() / (theirs if scale is None else scale).abs().max())


def gradient_difference(net, name, ours):
    """Relative difference of a gradient. Gradients of an offset before another batch norm almost cancel: they are compared with
    those of its factor, sums of the same terms times normalized values, if these are larger."""
    theirs = tensor_of(net, name).grad
    layer, kind = name.split("/")
    if kind != "beta":
        return relative_difference(to_pytorch(ours), theirs)
    return relative_difference(ours, theirs, torch.cat([theirs, tensor_of(net, f"{layer}/gamma").grad]))


class BatchStatistics:
    """Makes the batch norms of a net store the statistics of one pass, as in our first step, and counts their values."""

    def __init__(self, net):
        self.num_values = {}  # values per channel, by the name of the batch norm
        for name, module in net.named_modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = 1  # our averages' weights sum to 1 after every step: the first step replaces the initial values
                module.register_forward_hook(functools.partial(self.count, name))

    def count(self, name, module, inputs, _):
        self.num_values[name] = inputs[0].numel() // module.num_features

    def difference(self, net, name, ours):
        """Difference of moving statistics. Our variances are biased (divided by n), PyTorch's running_var is divided by n - 1."""
        layer, kind = name.split("/")
        theirs = tensor_of(net, name)
        if kind == "moving_mean":
            return relative_difference(ours, theirs)
        n = self.num_values[layer]
        return relative_difference(ours * (n / (n - 1)), theirs)


def compute_losses(net, images, labels):
    """The logits, their loss, and the weighted sum of auxiliary losses (0 in most nets)."""
    is_auxiliary = isinstance(net, AuxiliaryNet)
    logits, *others = net.classifiers(images) if is_auxiliary else [net(images)]
    smoothing = net.label_smoothing if is_auxiliary else 0.0

    def loss(values):
        return torch.nn.functional.cross_entropy(values, labels, label_smoothing=smoothing)

    return logits, loss(logits), sum(net.auxiliary_weight * loss(values) for values in others)


def read_examples(net, folder):
    labels = torch.from_numpy(numpy.fromfile(folder / "labels.i32", dtype="<i4")).long()
    images = torch.from_numpy(numpy.fromfile(folder / "images.f32", dtype="<f4"))
    return images.reshape(len(labels), *net.image_shape).permute(0, 3, 1, 2), labels


def differences(net, folder):
    """(name, relative difference, True for a gradient) of losses, logits, gradients and moving statistics."""
    load(net, read_tensors(folder, "parameters.f32"))
    statistics = BatchStatistics(net)
    logits, loss, auxiliary_loss = compute_losses(net, *read_examples(net, folder))
    (loss + auxiliary_loss).backward()
    our_loss, our_auxiliary_loss = numpy.fromfile(folder / "loss.f64", dtype="<f8")
    our_logits = torch.from_numpy(numpy.fromfile(folder / "logits.f32", dtype="<f4")).reshape(logits.shape)
    yield "loss", abs(our_loss / loss.item() - 1), False
    if isinstance(net, AuxiliaryNet):
        yield "auxiliary loss", abs(our_auxiliary_loss / auxiliary_loss.item() - 1), False
    yield "logits", relative_difference(our_logits, logits.detach()), False
    for name, ours in read_tensors(folder, "gradients.f32").items():
        yield name, gradient_difference(net, name, ours), True
    for name, ours in read_tensors(folder, "state.f32", "state_layout.txt").items():
        if not name.endswith("/moving_weight"):  # PyTorch has none
            yield name, statistics.difference(net, name, ours), False


def compare(net, folder, bound):
    """Prints a line for each difference. @returns (gradients, all others): True if within the bound; NaN is not"""
    is_good = {True: True, False: True}
    for what, difference, is_gradient in differences(net, folder):
        is_within = difference <= bound
        print(f"{what:16} {difference:9.2e} {'ok' if is_within else f'BEYOND {bound:g}'}")
        is_good[is_gradient] &= is_within
    return is_good[True], is_good[False]


def make_net(options):
    """Creates the net. @throws ValueError for an image size that it does not support"""
    net = NETS[options.net]()
    if options.image_size is None:
        return net
    rows, columns, _ = net.image_shape
    if not isinstance(net, AuxiliaryNet) and options.image_size != rows:
        raise ValueError(f"--image_size {options.image_size}: {options.net} is compared on images of {rows} x {columns} alone")
    if options.image_size < rows:
        raise ValueError(f"--image_size {options.image_size}: images of {options.net} have {rows} rows and columns at least")
    return NETS[options.net](options.image_size) if isinstance(net, AuxiliaryNet) else net


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="lenet", choices=NAMES, help="the net (default lenet)")
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built terngrad_dump_gradients")
    parser.add_argument("--examples", type=int, default=64,
                        help="examples in the batch (default 64). Where one side rounds to 0 and the other does not, a ReLU differs by "
                             "a whole gradient: the more layers, the fewer examples")
    parser.add_argument("--image_size", type=int,
                        help="rows and columns of images for googlenet_2014 and inception_v3 (default: the fewest that they take)")
    parser.add_argument("--firm_relus", action="store_true",
                        help="offsets of 8 and -8 in batch norms, so that no ReLU behind one hangs on rounding: without it, float32 and "
                             "float64 differ by a tenth in nets as deep as googlenet and resnet_50, in PyTorch too")
    parser.add_argument("--batches", type=int, default=1,
                        help="batches to try until all gradients of one are within the bound (default 1): rounding decides a ReLU or a "
                             "max pool in some, in others on other processors. All else must be within it in every batch")
    parser.add_argument("--bound", type=float, default=1e-4, help="of the differences (default 0.0001)")
    return parser.parse_args()


def compare_batch(options, batch):
    """compare() for a batch, numbered from 1."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = [str(number) for number in (options.examples, options.image_size or 0, batch)]
        command = [options.program.resolve(), options.net, folder, *numbers]
        subprocess.run([*command, "firm"] if options.firm_relus else command, check=True)
        return compare(make_net(options), pathlib.Path(folder), options.bound)


def main(options):
    try:
        make_net(options)
    except ValueError as error:
        print(f"compare_pytorch.py: {error}", file=sys.stderr)
        return 2
    for batch in range(1, options.batches + 1):
        print(f"batch {batch}", flush=True)
        are_gradients_good, is_rest_good = compare_batch(options, batch)
        if not is_rest_good:
            return 1
        if are_gradients_good:
            return 0
    return 1


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy
        import torch
        from pytorch_nets import NETS, AuxiliaryNet, load, tensor_of, to_pytorch
    except ImportError as missing:
        print(f"skipped: {missing_package.hint(missing)}")
        sys.exit(SKIPPED)
    sys.exit(main(arguments))
