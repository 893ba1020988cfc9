#!/usr/bin/env python3
"""Draws runs: loss, accuracy, bits sent for each element of the gradient, and the fraction sent as zero, over steps.

    scripts/plot_run.py runs/ternary runs/fp32 -o comparison.png
    scripts/plot_run.py --group out/bits32-seed* out/bits1-seed* -o seeds.png

Reads metrics.jsonl (and eval/metrics.jsonl, if there is one) of each run directory. With --group, runs whose options differ
in the seed only are one line, their mean, in a band from their least to their greatest value. Exits 77 if there is no
matplotlib (Debian and Ubuntu: python3-matplotlib).
"""

import argparse
import json
import os
import pathlib
import re
import sys

SKIPPED = 77
# What may differ between runs of one group: the seed, places, and how often things are reported.
NOT_COMPARED = {"seed", "train_dir", "data_dir", "resume", "threads", "num_preprocess_threads", "log_steps",
                "telemetry_steps", "eval_steps", "save_iter", "keep_checkpoints", "tensorboard", "histogram_steps",
                "stop_after_secs", "on_save_error", "device"}


def read_lines(path):
    """Records of a metrics file; a half-written last line, of a run under way or killed, is no record yet."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        sys.exit(f"plot_run.py: {path} is damaged: {error}")


def tensor_sizes(run):
    """Elements of each tensor, from the header of the newest checkpoint; empty without one."""
    checkpoints = sorted(run.glob("checkpoint-*.safetensors"))
    if not checkpoints:
        return {}
    with open(checkpoints[-1], "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    sizes = {}
    for name, tensor in header.items():
        group, _, rest = name.partition("/")
        if group == "parameters":
            first, last = tensor["data_offsets"]
            sizes[rest] = (last - first) // 4
    return sizes


class Run:
    """The curves of one run: {name: {step: value}}."""

    def __init__(self, path):
        self.path = path
        if not (path / "metrics.jsonl").exists():
            sys.exit(f"plot_run.py: {path} is no run directory: it has no metrics.jsonl")
        self.options = {}
        if (path / "config.json").exists():
            self.options = json.loads((path / "config.json").read_text(encoding="utf-8")).get("options", {})
        self.sizes = tensor_sizes(path)
        self.curves = {}
        self.tensors = {}  # {tensor: {step: fraction of zeros}}
        for line in read_lines(path / "metrics.jsonl") + read_lines(path / "eval" / "metrics.jsonl"):
            self.add(line)

    def put(self, name, step, value):
        if value is not None:
            self.curves.setdefault(name, {})[step] = value

    def add(self, line):
        step = line["step"]
        if line["kind"] == "train" and "learning_rate" in line:
            self.put("train loss", step, line["loss"])
            self.put("train accuracy", step, 100 * line["accuracy"])
            if line.get("compression_ratio"):
                self.put("bits", step, 32 / line["compression_ratio"])
        elif line["kind"] == "test" and line["weights"] == "ema":
            self.put("test loss", step, line["loss"])
            self.put("test accuracy", step, 100 * line["top1"])
        elif line["kind"] == "tensors":
            fractions = {name: tensor["zero_fraction"] for name, tensor in line["tensors"].items()}
            for name, fraction in fractions.items():
                self.tensors.setdefault(name, {})[step] = 100 * fraction
            # Each element counts alike; without a checkpoint to tell the sizes each tensor does.
            weights = {name: self.sizes.get(name, 1) for name in fractions}
            total = sum(weights.values())
            self.put("zeros", step, 100 * sum(weights[name] * fractions[name] for name in fractions) / total)


class Group:
    """Runs that are one line."""

    def __init__(self, label, runs):
        self.label = label
        self.runs = runs

    def draw(self, axes, name, color, dots=False, **style):
        """Draws one curve where all runs have it. True if there is any."""
        curves = [run.curves.get(name, {}) for run in self.runs]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        if not steps:
            return False
        values = [[curve[step] for curve in curves] for step in steps]
        axes.plot(steps, [sum(v) / len(v) for v in values], color=color, **style, **(marked(steps) if dots else {}))
        if len(self.runs) > 1:
            axes.fill_between(steps, [min(v) for v in values], [max(v) for v in values], color=color, alpha=0.2, lw=0)
        return True


def labels_of(paths):
    """Names of the folders, or paths where two have the same name."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def group_runs(runs, labels, by_options):
    if not by_options:
        return [Group(label, [run]) for run, label in zip(runs, labels)]
    groups = {}
    for run, label in zip(runs, labels):
        key = json.dumps({k: v for k, v in run.options.items() if k not in NOT_COMPARED}, sort_keys=True)
        groups.setdefault(key, []).append((run, label))
    result = []
    for members in groups.values():
        label = members[0][1]
        if len(members) > 1:
            prefix = os.path.commonprefix([name for _, name in members])
            label = re.sub(r"[-_/.]*(seed)?[-_/.]*$", "", prefix) or label
            label = f"{label} (mean and range of {len(members)} runs)"
        result.append(Group(label, [run for run, _ in members]))
    return result


def marked(steps):
    """Style of a curve of single measurements: dots, as long as they do not run together."""
    return {"marker": "o", "ms": 3} if len(steps) <= 40 else {}


def say(axes, text):
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")


def draw_pair(axes, groups, colors, quantity):
    """Training (solid) and test (dashed) curves of loss or accuracy."""
    drawn = False
    for group, color in zip(groups, colors):
        drawn |= group.draw(axes, f"train {quantity}", color, lw=1.3, alpha=0.9)
        drawn |= group.draw(axes, f"test {quantity}", color, lw=1.3, ls="--", dots=True)
    if not drawn:
        say(axes, "no records")


def draw_bits(axes, groups, colors):
    drawn = [group.draw(axes, "bits", color, lw=1.5) for group, color in zip(groups, colors)]
    if not any(drawn):
        return say(axes, "nothing was sent")
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 1), max(high, 40))
    ticks = [1, 1.6, 2, 4, 8, 16, 32]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def draw_zeros(axes, groups, colors):
    """One run: a line for each tensor. Several: the mean over all elements of each."""
    axes.set_ylim(-3, 103)
    if len(groups) == 1 and len(groups[0].runs) == 1 and 1 <= len(groups[0].runs[0].tensors) <= 12:
        axes.set_title("Elements sent as zero (worker 0), by tensor")
        tensors = groups[0].runs[0].tensors
        layers = list(dict.fromkeys(name.rpartition("/")[0] for name in tensors))
        for name, curve in tensors.items():
            layer, _, kind = name.rpartition("/")
            steps = sorted(curve)
            axes.plot(steps, [curve[step] for step in steps], color=pyplot.get_cmap("tab10")(layers.index(layer) % 10),
                      lw=1.3, ls=":" if kind == "biases" else "-", **marked(steps), label=name)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small")
        return
    axes.set_title("Elements sent as zero (worker 0), all tensors")
    if not any([group.draw(axes, "zeros", color, lw=1.5, dots=True) for group, color in zip(groups, colors)]):
        say(axes, "no telemetry")


def draw(groups, path):
    colors = [pyplot.get_cmap("tab10")(index % 10) for index in range(len(groups))]
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 7.5))
    (loss, accuracy), (bits, zeros) = panels
    draw_pair(loss, groups, colors, "loss")
    draw_pair(accuracy, groups, colors, "accuracy")
    draw_bits(bits, groups, colors)
    draw_zeros(zeros, groups, colors)
    loss.set(title="Loss", ylabel="cross-entropy (nats)")
    accuracy.set(title="Top-1 accuracy", ylabel="accuracy (%)")
    bits.set(title="Sent by a worker, everything counted", ylabel="bits per element of the gradient")
    zeros.set(ylabel="zeros (%)")
    last_step = max((step for g in groups for run in g.runs for curve in run.curves.values() for step in curve), default=1)
    for axes in panels.flat:
        axes.set_xlabel("step")
        axes.set_xlim(0, last_step * 1.02)
        axes.grid(True, color="0.9")
        axes.set_axisbelow(True)
    handles = [Line2D([], [], color=color, lw=2, label=group.label) for group, color in zip(groups, colors)]
    handles += [Line2D([], [], color="0.3", lw=1.3, label="training batches"),
                Line2D([], [], color="0.3", lw=1.3, ls="--", marker="o", ms=3, label="test set (averaged weights)")]
    columns = 2 if max(len(group.label) for group in groups) > 30 else 4
    rows = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="lower center", ncol=columns, frameon=False)
    figure.tight_layout(rect=(0, 0.015 + 0.032 * rows, 1, 1), h_pad=2)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        sys.exit(f"plot_run.py: cannot write {path}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="run directory")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("run.png"),
                        help="file to write; its suffix says the format (default run.png)")
    parser.add_argument("--group", action="store_true", help="runs that differ in the seed only become one line")
    options = parser.parse_args()
    runs = [Run(path) for path in options.runs]
    draw(group_runs(runs, labels_of(options.runs), options.group), options.output)
    print(options.output)


if __name__ == "__main__":
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
        from matplotlib.lines import Line2D
    except ImportError as missing:
        print(f"skipped: {missing} (Debian and Ubuntu: python3-matplotlib)", file=sys.stderr)
        sys.exit(SKIPPED)
    main()
