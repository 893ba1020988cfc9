#!/usr/bin/env python3
"""Draws runs, or codecs. Of runs: loss, accuracy, bits on the wire for each element of the gradient, and the fraction sent as zero, over steps.

    scripts/plot_run.py runs/ternary runs/fp32 -o comparison.png
    scripts/plot_run.py runs/ternary runs/fp32 --x bytes -o bytes.png
    scripts/plot_run.py --group out/bits32-seed* out/bits1-seed* -o seeds.png

Reads metrics.jsonl (and eval/metrics.jsonl, if there is one) of each run directory. Labels have the options in which the runs
differ. With --group, runs whose options differ in the seed only are one line, their mean, in a band from their min to their
max value. Bits on the wire are those of the busiest link in its busier direction (docs/measuring.md).
--x bytes draws over the megabytes of that link, and --x seconds over the time of the steps, evaluations and saves left out.

    terngrad_codec inspect gradient.npy --json codecs.json && scripts/plot_run.py codecs.json -o rate.png

draws what codecs do to a gradient, instead of runs: signal to noise over bits of an element, a mark for each codec.

Exits 77 if there is no matplotlib (Debian and Ubuntu: python3-matplotlib).
"""

import argparse
import json
import os
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "common"))
import missing_package

SKIPPED = 77
# Maximum number of options in a label.
MOST_OPTIONS = 4
# Options that may differ within a group: seed, folders and reporting. Written by scripts/dev/option_tables.py.
NOT_COMPARED = set(json.loads((pathlib.Path(__file__).resolve().parent / "common/train_options.json").read_text())["not_compared"])
# {--x: (name of the axis, divisor for its unit)}.
AXES = {"step": ("step", 1), "bytes": ("MB sent or received by a worker, the busier direction", 1e6),
        "seconds": ("seconds of steps", 1)}


def read_lines(path):
    """Records of a metrics file, without an incomplete last line of a run in progress or killed."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        sys.exit(f"plot_run.py: {path} is damaged: {error}")


def tensor_sizes(run):
    """Number of elements by tensor, from the header of the newest checkpoint; empty without one."""
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


def bytes_of_step(line):
    """Bytes per step on the busiest link in its busier direction, from a training record; None if it lacks them."""
    known = [sum(legs.values()) for legs in line.get("wire_bytes_per_worker", {}).values()] + list(line.get("wire_bytes_per_server", {}).values())
    return max(known) if known else None


def seconds_of_step(line, batch_size):
    rate = line.get("examples_per_second")
    return batch_size / rate if rate and batch_size else None


class Progress:
    """Cumulative consumption (bytes, seconds) of a run at its records: {step: total}, 0 at step 0."""

    def __init__(self):
        self.totals = {0: 0}
        self.is_known = True

    def add(self, step, per_step):
        """Adds a record for the steps since the last one. If its value is unknown, so are all later totals."""
        last = max(self.totals)
        if step <= last:
            return
        if per_step is None:
            self.is_known = False
        if self.is_known:
            self.totals[step] = self.totals[last] + (step - last) * per_step

    def at(self, step):
        """The total at a step, interpolated linearly between records; None if unknown."""
        after = min((known for known in self.totals if known >= step), default=None)
        if after is None:
            return None
        before = max(known for known in self.totals if known <= step)
        if after == before:
            return self.totals[step]
        part = (step - before) / (after - before)
        return self.totals[before] + part * (self.totals[after] - self.totals[before])


class Run:
    """Curves of one run, {name: {step: value}}, and a Progress for each --x."""

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
        self.progress = {"bytes": Progress(), "seconds": Progress()}
        self.notes = {}  # printed once
        for line in read_lines(path / "metrics.jsonl") + read_lines(path / "eval" / "metrics.jsonl"):
            self.add(line)
        for note in self.notes:
            print(f"plot_run.py: {path}: {note}", file=sys.stderr)

    def put(self, name, step, value):
        if value is not None:
            self.curves.setdefault(name, {})[step] = value

    def put_bits(self, line):
        """Records bits per gradient element and step on the busiest link, in its busier direction."""
        if line.get("wire_ratio"):
            workers = self.options.get("num_nodes")
            if workers is None:
                self.notes["config.json does not say num_nodes: no bits on the wire"] = None
                return
            # Bytes of an fp32 ring all-reduce over the actual bytes.
            self.put("bits", line["step"], 64 * (workers - 1) / workers / line["wire_ratio"])

    def add(self, line):
        step = line["step"]
        if line["kind"] == "train" and "learning_rate" in line:
            self.put("train loss", step, line["loss"])
            self.put("train accuracy", step, 100 * line["accuracy"])
            self.progress["bytes"].add(step, bytes_of_step(line))
            self.progress["seconds"].add(step, seconds_of_step(line, self.options.get("batch_size")))
            self.put_bits(line)
        elif line["kind"] == "test" and line["weights"] == "ema":
            self.put("test loss", step, line["loss"])
            self.put("test accuracy", step, 100 * line["top1"])
        elif line["kind"] == "tensors":
            fractions = {name: tensor["zero_fraction"] for name, tensor in line["tensors"].items()}
            for name, fraction in fractions.items():
                self.tensors.setdefault(name, {})[step] = 100 * fraction
            # Weights by elements; without a checkpoint, which has the sizes, all tensors count equally.
            weights = {name: self.sizes.get(name, 1) for name in fractions}
            total = sum(weights.values())
            self.put("zeros", step, 100 * sum(weights[name] * fractions[name] for name in fractions) / total)

    def places(self, steps, x):
        """Positions of steps on the axis, in its unit; None if unknown."""
        if x == "step":
            return list(steps)
        totals = [self.progress[x].at(step) for step in steps]
        return [None if total is None else total / AXES[x][1] for total in totals]


class Group:
    """Runs that are drawn as one line."""

    def __init__(self, label, runs):
        self.label = label
        self.runs = runs

    def draw(self, axes, name, color, x, dots=False, **style):
        """Draws a curve at the steps that all runs have, at their mean positions. @returns True if there are any"""
        curves = [run.curves.get(name, {}) for run in self.runs]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        of_runs = zip(*(run.places(steps, x) for run in self.runs))
        known = [(step, sum(at) / len(at)) for step, at in zip(steps, of_runs) if None not in at]
        if not known:
            return False
        values = [[curve[step] for curve in curves] for step, _ in known]
        places = [place for _, place in known]
        is_marked = dots or len(places) == 1  # a line with one point would be invisible
        axes.plot(places, [sum(v) / len(v) for v in values], color=color, **style, **(marked(places) if is_marked else {}))
        if len(self.runs) > 1:
            axes.fill_between(places, [min(v) for v in values], [max(v) for v in values], color=color, alpha=0.2, lw=0)
        return True


def labels_of(paths):
    """Names of the folders, or paths if names are equal."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def value_text(value):
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_differences(groups, not_compared):
    """The groups with labels that list up to MOST_OPTIONS differing options."""
    options = [group.runs[0].options for group in groups]
    names = [name for name in dict.fromkeys(name for of_run in options for name in of_run) if name not in not_compared]
    differing = [name for name in names if len({json.dumps(of_run.get(name)) for of_run in options}) > 1]
    for group, of_run in zip(groups, options):
        texts = [f"{name} {value_text(of_run[name])}" for name in differing[:MOST_OPTIONS] if name in of_run]
        if len(differing) > MOST_OPTIONS:
            texts.append("...")
        if texts:
            group.label += f": {', '.join(texts)}"
    return groups


def group_runs(runs, labels, by_options):
    if not by_options:
        return with_differences([Group(label, [run]) for run, label in zip(runs, labels)], NOT_COMPARED - {"seed"})
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
    return with_differences(result, NOT_COMPARED)


def marked(steps):
    """Style of a curve of single measurements: dots, unless they would overlap."""
    return {"marker": "o", "ms": 3} if len(steps) <= 40 else {}


def say(axes, text):
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")


def draw_pair(axes, groups, colors, quantity, x):
    """Training (solid) and test (dashed) curves of loss or accuracy."""
    drawn = False
    for group, color in zip(groups, colors):
        drawn |= group.draw(axes, f"train {quantity}", color, x, lw=1.3, alpha=0.9)
        drawn |= group.draw(axes, f"test {quantity}", color, x, lw=1.3, ls="--", dots=True)
    if not drawn:
        say(axes, "no records" if x == "step" else f"no records that have {x}")


def draw_bits(axes, groups, colors, x):
    drawn = [group.draw(axes, "bits", color, x, lw=1.5) for group, color in zip(groups, colors)]
    if not any(drawn):
        return say(axes, "no bytes are known")
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 1), max(high, 80))
    ticks = [1, 2, 4, 8, 16, 32, 64]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def draw_zeros(axes, groups, colors, x):
    """Draws a line per tensor for one run, or the mean over all elements per run for several."""
    axes.set_ylim(-3, 103)
    if len(groups) == 1 and len(groups[0].runs) == 1 and 1 <= len(groups[0].runs[0].tensors) <= 12:
        axes.set_title("Elements sent as zero (worker 0), by tensor")
        tensors = groups[0].runs[0].tensors
        layers = list(dict.fromkeys(name.rpartition("/")[0] for name in tensors))
        for name, curve in tensors.items():
            layer, _, kind = name.rpartition("/")
            steps = sorted(curve)
            at = groups[0].runs[0].places(steps, x)
            known = [(place, curve[step]) for place, step in zip(at, steps) if place is not None]
            axes.plot([place for place, _ in known], [value for _, value in known],
                      color=pyplot.get_cmap("tab10")(layers.index(layer) % 10),
                      lw=1.3, ls=":" if kind == "biases" else "-", **marked(steps), label=name)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small")
        return
    axes.set_title("Elements sent as zero (worker 0), all tensors")
    if not any([group.draw(axes, "zeros", color, x, lw=1.5, dots=True) for group, color in zip(groups, colors)]):
        say(axes, "no telemetry")


def draw(groups, path, x):
    colors = [pyplot.get_cmap("tab10")(index % 10) for index in range(len(groups))]
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 7.5))
    (loss, accuracy), (bits, zeros) = panels
    draw_pair(loss, groups, colors, "loss", x)
    draw_pair(accuracy, groups, colors, "accuracy", x)
    draw_bits(bits, groups, colors, x)
    draw_zeros(zeros, groups, colors, x)
    loss.set(title="Loss", ylabel="cross-entropy (nats)")
    accuracy.set(title="Top-1 accuracy", ylabel="accuracy (%)")
    bits.set(title="Over the busiest link, in its busier direction", ylabel="bits per element of the gradient")
    zeros.set(ylabel="zeros (%)")
    places = [place for g in groups for run in g.runs for curve in run.curves.values() for place in run.places(curve, x)]
    last = max((place for place in places if place is not None), default=1) or 1
    for axes in panels.flat:
        axes.set_xlabel(AXES[x][0])
        axes.set_xlim(0, last * 1.02)
        axes.grid(True, color="0.9")
        axes.set_axisbelow(True)
    handles = [Line2D([], [], color=color, lw=2, label=group.label) for group, color in zip(groups, colors)]
    handles += [Line2D([], [], color="0.3", lw=1.3, label="training batches"),
                Line2D([], [], color="0.3", lw=1.3, ls="--", marker="o", ms=3, label="test set (averaged weights)")]
    longest = max(len(group.label) for group in groups)
    columns = 1 if longest > 75 else 2 if longest > 30 else 4
    rows = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="lower center", ncol=columns, frameon=False)
    figure.tight_layout(rect=(0, 0.015 + 0.032 * rows, 1, 1), h_pad=2)
    save(figure, path)


def save(figure, path):
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        sys.exit(f"plot_run.py: cannot write {path}: {error}")


def draw_rates(path, output):
    """Draws results of `terngrad_codec inspect --json`. Lossless codecs are at the lower edge."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"plot_run.py: {path} is not of terngrad_codec inspect --json: {error}")
    known = [row for row in found.get("codecs", []) if row["message_bits_per_element"]]
    if not known:
        sys.exit(f"plot_run.py: {path} is not of terngrad_codec inspect --json: it has no codecs")
    figure, axes = pyplot.subplots(figsize=(9, 6))
    errors = [row["vnmse"] for row in known if row["vnmse"]]
    exact = min(errors, default=1) / 10
    axes.set(xscale="log", yscale="log", xlim=(0.7 * min(row["message_bits_per_element"] for row in known), 150),
             ylim=(exact / 3, 6 * max(errors, default=1)))
    taken = []
    for index, row in enumerate(sorted(known, key=lambda row: row["message_bits_per_element"])):
        if row["vnmse"] is None:
            continue
        is_exact = row["vnmse"] == 0
        place = (row["message_bits_per_element"], row["vnmse"] or exact)
        axes.plot(*place, "o", color=pyplot.get_cmap("tab10")(index % 10))
        label = row["codec"] + (f" + {row['memory']}" if row["memory"] != "none" else "") + (" (exact)" if is_exact else "")
        text = axes.annotate(label, place, (6, -4), textcoords="offset points", fontsize=8)
        for offset in (-4, 8, -16, 20, -28, 32, -40):  # until it covers no other name
            text.set_position((6, offset))
            box = text.get_window_extent(figure.canvas.get_renderer())
            if not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)
    axes.set(xlabel="bits of an element, of the whole message", ylabel="vNMSE of a message",
             title=f"{found['source']}: {found['num_elements']:,} elements, {found['num_workers']} workers")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(True, color="0.9")
    figure.tight_layout()
    save(figure, output)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="run directory, or one JSON file of terngrad_codec inspect")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("run.png"),
                        help="file to write; its suffix says the format (default run.png)")
    parser.add_argument("--group", action="store_true", help="runs that differ in the seed only become one line")
    parser.add_argument("--x", choices=tuple(AXES), default="step", help="what to draw over (default step)")
    return parser.parse_args()


def main(options):
    if len(options.runs) == 1 and options.runs[0].is_file():
        draw_rates(options.runs[0], options.output)
        print(options.output)
        return
    runs = [Run(path) for path in options.runs]
    draw(group_runs(runs, labels_of(options.runs), options.group), options.output, options.x)
    print(options.output)


if __name__ == "__main__":
    arguments = parse()
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
        from matplotlib.lines import Line2D
    except ImportError as missing:
        print(f"skipped: {missing_package.hint(missing)}", file=sys.stderr)
        sys.exit(SKIPPED)
    main(arguments)
