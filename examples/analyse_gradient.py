#!/usr/bin/env python3
# %% [markdown]
# Comparison of codecs on a gradient: bits, signal-to-noise ratio, bias, histograms. Cells begin with `# %%` for editors with
# notebooks; the file is also a program.
"""Compares codecs on one gradient, and draws signal to noise over bits and what is sent as histograms.

    examples/analyse_gradient.py --gradient gradient.npy -o gradient.png
    examples/analyse_gradient.py --gradient gradient.pt          # one tensor of torch.save
    examples/analyse_gradient.py                                 # drawn: normal, with heavy tails as real ones have
    examples/analyse_gradient.py --run runs/ternary              # what compression did to each tensor of a training

Without -o nothing is drawn, and matplotlib is not needed.
"""

import argparse
import sys

import numpy
import terngrad

CODECS = ["ternary", "ternary:clip_factor=2.5", "qsgd:bits=2", "qsgd:bits=4", "qsgd:bits=8", "natural:bits=4", "natural", "sign",
          "onebit", "fp8", "bf16"]


# %%
def load(path, seed):
    """The gradient as a float32 array."""
    if path is None:
        return numpy.random.default_rng(seed).standard_t(4, 500_000).astype(numpy.float32) * numpy.float32(1e-3)
    if path.endswith(".npy"):
        return numpy.load(path).astype(numpy.float32)
    import torch

    return torch.load(path).detach().float().numpy()


# %%
def describe(gradient):
    """Prints statistics. A large max|g| / std means that a scaler of max|g| makes codes sparse and noisy."""
    found = terngrad.statistics(gradient)
    print(f"{found.count} elements, mean {found.mean:.3g}, deviation {found.std:.3g}, "
          f"max {found.max_abs / found.std if found.std else 0:.1f} deviations")


# %%
def draw(gradient, rows, path):
    """Plots the signal-to-noise ratio over bits, and histograms of decoded messages."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    rows = sorted(rows, key=lambda row: -row.snr_db)
    for index, row in enumerate(rows):
        left.plot(row.bits_per_element, row.snr_db, "o")
        # Put the name below the names of nearby codecs.
        close = sum(abs(row.snr_db - other.snr_db) < 3 and 0.8 < row.bits_per_element / other.bits_per_element < 1.25
                    for other in rows[:index])
        left.annotate(row.codec, (row.bits_per_element, row.snr_db), xytext=(6, 4 - 12 * close), textcoords="offset points",
                      fontsize=8)
    left.margins(x=0.15)
    left.set(xlabel="bits per element of a message", ylabel="signal to noise, dB", xscale="log")
    left.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    left.grid(alpha=0.3)
    limit = 4 * float(gradient.std())
    bins = numpy.linspace(-limit, limit, 121)
    right.hist(gradient.ravel(), bins, histtype="stepfilled", color="lightgray", label="gradient")
    for codec in ("ternary:clip_factor=2.5", "qsgd:bits=4"):
        sent = terngrad.decode(terngrad.encode(gradient, codec))
        right.hist(sent.ravel(), bins, histtype="step", label=codec)
    right.set(xlabel="element", ylabel="elements in a bin", yscale="log")
    right.legend()
    figure.savefig(path, dpi=120)
    print(f"drawn: {path}")


# %%
def describe_run(folder):
    """Prints telemetry of a run's tensors from its last record, in order of signal-to-noise ratio."""
    layers = terngrad.read_run(folder).layers()
    if not layers:
        sys.exit(f"analyse_gradient.py: --run {folder}: the run has no records of tensors (--telemetry_steps)")
    last = layers["step"] == layers["step"].max()
    order = numpy.argsort(layers["snr_db"][last])
    print(f"step {layers['step'].max()}")
    for name, snr, zeros, clipped in zip(*(layers[column][last][order]
                                           for column in ("tensor", "snr_db", "zero_fraction", "clip_fraction"))):
        print(f"{name:40} {snr:8.2f} dB  {100 * zeros:5.1f} % zeros  {100 * clipped:5.2f} % clipped")


# %%
def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--gradient", metavar="FILE", help="an .npy file, or a tensor of torch.save (default: drawn)")
    what.add_argument("--run", metavar="FOLDER", help="the directory of a terngrad_train")
    parser.add_argument("--codecs", nargs="+", default=CODECS, metavar="SPEC", help="those to compare")
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="messages of each codec, one a step (default 8)")
    parser.add_argument("--seed", type=int, default=1, help="of the gradient that is drawn, and of codecs (default 1)")
    parser.add_argument("-o", "--out", metavar="FILE", help="a picture of it")
    return parser.parse_args()


def main(options):
    try:
        if options.run:
            describe_run(options.run)
            return 0
        gradient = load(options.gradient, options.seed)
        describe(gradient)
        rows = terngrad.compare(gradient, options.codecs, draws=options.steps, seed=options.seed)
    except terngrad.Error as error:
        print(f"analyse_gradient.py: {error}", file=sys.stderr)
        return 2
    print(rows)
    if options.out:
        draw(gradient, rows, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(parse()))
