#!/usr/bin/env python3
"""Draws docs/overview.png, the figure of the README, from recorded results.

    experiments/plot_overview.py [-o FILE]

Left: top-1 accuracy on CIFAR-10 over training steps, the mean of three seeds with a band from min to max
(experiments/results/cifar10-alexnet-n2). Right: training steps per second of two workers over the bandwidth of the link between
them (bench/results/slow-link/cifarnet.json). Exits 77 if there is no matplotlib (Debian and Ubuntu: python3-matplotlib).
"""

import argparse
import json
import pathlib
import sys

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[1]
CURVES = ROOT / "experiments/results/cifar10-alexnet-n2"
LINKS = ROOT / "bench/results/slow-link/cifarnet.json"

FP32, TERNARY, DDP, DDP16 = "#4c566a", "#c8553d", "#5e81ac", "#9fb8d6"
# Files of the left panel, with the option that is theirs alone.
GROUPS = [("fp32", "bits32-seed*.jsonl", FP32), ("ternary", "bits1-seed*.jsonl", TERNARY),
          ("ternary, learning rate × 1.5 (one seed)", "bits1-rate0.0003-seed*.jsonl", TERNARY)]
# Rows of the right panel, each the fastest of those named.
ROWS = [("ternary", ["t2", "t5"], TERNARY), ("fp32 (our exchange or MPI's)", ["fp32", "vendor-fp32"], FP32),
        ("PyTorch DDP (Gloo), fp32", ["ddp-fp32"], DDP), ("PyTorch DDP (Gloo), fp16", ["ddp-fp16"], DDP16)]
RATES = {"100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "none": "no limit"}


def accuracies(path):
    """{step: top-1 accuracy in percent} of a metrics file."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {record["step"]: 100 * record["top1"] for record in records if record["kind"] == "test"}


def steps_per_second(rows, rate, names):
    """The fastest of the rows of these names at a rate of the link."""
    return max(row["steps_per_s"] for row in rows if row["rate"] == rate and row["row"] in names)


def draw_curves(axes):
    for label, pattern, colour in GROUPS:
        curves = [accuracies(path) for path in sorted(CURVES.glob(pattern))]
        if not curves:
            sys.exit(f"plot_overview.py: {CURVES} has no {pattern}")
        steps = sorted(set.intersection(*map(set, curves)))
        values = [[curve[step] for curve in curves] for step in steps]
        style = "-" if len(curves) > 1 else ":"
        axes.plot(steps, [sum(v) / len(v) for v in values], style, color=colour, label=label)
        axes.fill_between(steps, [min(v) for v in values], [max(v) for v in values], color=colour, alpha=0.25, linewidth=0)
    axes.set(title="CIFAR-10, cifar10_alexnet, 2 workers", xlabel="step", ylabel="top-1 accuracy, %")
    axes.legend(loc="lower right", frameon=False)


def draw_links(axes):
    rows = json.loads(LINKS.read_text(encoding="utf-8"))["rows"]
    width = 0.8 / len(ROWS)
    for i, (label, names, colour) in enumerate(ROWS):
        values = [steps_per_second(rows, rate, names) for rate in RATES]
        axes.bar([x + (i - (len(ROWS) - 1) / 2) * width for x in range(len(RATES))], values, width, color=colour, label=label)
    axes.set_xticks(range(len(RATES)), RATES.values())
    axes.set(title="cifar10_alexnet, 2 emulated hosts with 1 core each", xlabel="bandwidth between the hosts", ylabel="training steps per second")
    axes.legend(loc="upper left", frameon=False, fontsize="small")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.35)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs/overview.png", help="the PNG file to write")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        print(f"plot_overview.py: skipped: {sys.executable} has no matplotlib (scripts/install_deps.sh --plot)", file=sys.stderr)
        return SKIPPED
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    draw_curves(panels[0])
    draw_links(panels[1])
    # Without the date and the version, so that equal results give equal bytes.
    figure.savefig(arguments.output, dpi=120, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
