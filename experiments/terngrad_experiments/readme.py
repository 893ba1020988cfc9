"""The README's table of results and its figures, made from recorded results so that they cannot drift apart."""

import dataclasses
import json
import pathlib
import xml.etree.ElementTree

from terngrad_experiments import figures, recipes, statistics, store, svg, tables

BEGIN, END = "<!-- results: terngrad_experiment readme -->", "<!-- end of results -->"
OVERVIEW = "docs/overview.svg"
CODECS = "docs/codecs.svg"
LINKS = "bench/results/slow-link/cifarnet.json"
WIRE = "bench/results/wire-bytes/results.json"
SPEED = "bench/results/pytorch-cpu.json"
HOOKS = "bench/results/hooks/results.json"
RATES = {"100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "none": "no limit"}
# Bars of the figure, each the fastest of the rows named.
BARS = {"ternary": ("t2", "t5"), "fp32, our exchange or MPI's": ("fp32", "vendor-fp32"), "PyTorch DDP (Gloo), fp32": ("ddp-fp32",),
        "PyTorch DDP (Gloo), fp16": ("ddp-fp16",)}


def read_json(root, name):
    return json.loads((pathlib.Path(root) / name).read_text(encoding="utf-8"))


def steps_per_second(links, rate, names):
    """The fastest of the rows of these names at a rate of the link."""
    return max(row["steps_per_s"] for row in links["rows"] if row["rate"] == rate and row["row"] in names)


def hook_rates(hooks, name):
    """"0.25 steps/s; 1.09 steps/s", of a hook at 100 Mbit/s and 1 Gbit/s."""
    rates = [next(row["steps_per_s"] for row in hooks["rows"] if (row["rate"], row["hook"]) == (rate, name))
             for rate in ("100mbit", "1000mbit")]
    return "; ".join(f"{each:.2f} steps/s" for each in rates)


def accuracy_text(results, cell, scale):
    """"99.30 +- 0.04 %", of the last result of each seed on CPUs."""
    values = list(tables.samples_of(tables.results_of(results, cell, scale, "cpu"), "top1").values())
    return f"{statistics.mean(values):.2f} ± {statistics.sample_deviation(values):.2f} %"


def wire_row(wire, row, workers):
    return next(each for each in wire["rows"] if (each["row"], each["workers"]) == (row, workers))


def megabytes(row):
    return f"{max(row['reported'].values()) / 1e6:.2f} MB"


def table_lines(root):
    results = store.read_all(sorted((pathlib.Path(root) / "experiments/results").glob("*.jsonl")))
    links, wire, speed = read_json(root, LINKS), read_json(root, WIRE), read_json(root, SPEED)["nets"]
    hooks = read_json(root, HOOKS)
    t2, fp32 = wire_row(wire, "t2", 2), wire_row(wire, "fp32", 2)
    t2_8, fp32_8 = wire_row(wire, "t2", 8), wire_row(wire, "fp32", 8)

    def rate(names, at="100mbit"):
        return f"{steps_per_second(links, at, names):.1f} steps/s"
    cifar = speed["cifar10_alexnet"]
    experiments = recipes.load_all(pathlib.Path(root) / "experiments/recipes")

    def paper(*names):
        cells = [recipes.match(experiments, name)[0] for name in names]
        return ", ".join(f"{cell.paper['top1']:.2f} %" for cell in cells)
    return [
        "| | fp32 | ternary, clip factor 2.5 | beside it | command, record |",
        "| --- | --- | --- | --- | --- |",
        f"| LeNet, MNIST, 8 workers, 10,000 steps, top-1 | {accuracy_text(results, 'fig3/momentum-n8-float', '1')} | "
        f"{accuracy_text(results, 'fig3/momentum-n8-ternary', '1')} | "
        f"paper's chart: {paper('fig3/momentum-n8-float', 'fig3/momentum-n8-ternary')} | "
        "`terngrad_experiment table fig3`, [record](experiments/results/fig3.jsonl) |",
        f"| CifarNet, CIFAR-10, 2 workers, 10,000 of 300,000 steps, top-1 | {accuracy_text(results, 'table1/b128-n2-float', '1/30')} | "
        f"{accuracy_text(results, 'table1/b128-n2-ternary', '1/30')} | "
        f"paper, all steps: {paper('table1/b128-n2-float', 'table1/b128-n2-ternary')} | "
        "`terngrad_experiment table table1`, [record](experiments/results/table1.jsonl) |",
        f"| LeNet, bytes a step over a worker's link, 2 workers; 8 workers | {megabytes(fp32)}; {megabytes(fp32_8)} | "
        f"{megabytes(t2)} ({t2['ratio']:.1f}x); {megabytes(t2_8)} ({t2_8['ratio']:.1f}x) | interfaces count 0.2 to 1.4 % more | "
        "`scripts/bench/bench_wire_bytes.py`, [record](bench/results/wire-bytes/README.md) |",
        f"| CifarNet, 2 emulated hosts, 100 Mbit/s; no limit | {rate(BARS[list(BARS)[1]])}; {rate(BARS[list(BARS)[1]], 'none')} | "
        f"{rate(BARS['ternary'])}; {rate(BARS['ternary'], 'none')} | PyTorch DDP fp16: {rate(('ddp-fp16',))}; "
        f"{rate(('ddp-fp16',), 'none')} | `scripts/bench/bench_slow_link.py`, [record](bench/results/slow-link/cifarnet.md) |",
        f"| ResNet-18 under PyTorch's DDP, 2 emulated hosts, 100 Mbit/s; 1 Gbit/s | {hook_rates(hooks, 'none')} | "
        f"{hook_rates(hooks, 'ternary:clip_factor=2.5')} | fp16 hook: {hook_rates(hooks, 'fp16')}; PowerSGD: "
        f"{hook_rates(hooks, 'powersgd:rank=4')} | `scripts/bench/bench_hooks.py`, [record](bench/results/hooks/README.md) |",
        f"| CifarNet on 2 cores, one process | {cifar['float'][0]:,} examples/s | {cifar['ternary_8_workers'][0]:,} examples/s, 8 workers | "
        f"PyTorch 2.15: {cifar['pytorch'][0]:,} examples/s | `scripts/bench/bench_pytorch.py`, [record](bench/results/README.md) |",
    ]


def codecs_figure(root):
    """Accuracy over bytes of every codec: a panel of the recipe codecs."""
    experiment = recipes.load_all(pathlib.Path(root) / "experiments/recipes")["codecs"]
    results = store.read_all([pathlib.Path(root) / "experiments/results/codecs.jsonl"])
    (plot,) = (plot for plot in figures.plots_of(experiment, results))
    return svg.to_svg(dataclasses.replace(plot, width=900, height=520))


def overview_figure(root):
    """Accuracy over steps with the band of all seeds, and steps per second over the bandwidth of the link."""
    experiments = recipes.load_all(pathlib.Path(root) / "experiments/recipes")
    results = store.read_all([pathlib.Path(root) / "experiments/results/table1.jsonl"])
    cells = [recipes.match(experiments, f"table1/b128-n2-{kind}")[0] for kind in ("ternary", "float")]
    series = figures.curve_series(results, cells, "test_top1", "1/30")
    names = ("ternary, mean and range of 3 seeds", "fp32")
    curves = svg.Plot(title="CifarNet on CIFAR-10, 2 workers, first 10,000 steps", x_label="step", y_label="top-1 accuracy, %",
                      series=[dataclasses.replace(line, name=name) for line, name in zip(series, names)], width=560, height=360)
    links = read_json(root, LINKS)
    bars = svg.bars_svg("Training speed, 2 emulated hosts of one core", list(RATES.values()),
                        [svg.Bars(name, [steps_per_second(links, rate, names) for rate in RATES]) for name, names in BARS.items()],
                        "steps per second", x_label="bandwidth between the hosts", width=560, height=360)
    return beside(svg.to_svg(curves), bars)


def size_of(drawing):
    """(width, height) of an SVG drawing, in its own units."""
    element = xml.etree.ElementTree.fromstring(drawing)
    return tuple(float(number) for number in element.get("viewBox").split()[2:])


def beside(left, right, gap=20):
    """Two drawings in one, side by side."""
    (left_width, left_height), (right_width, right_height) = size_of(left), size_of(right)
    width, height = left_width + gap + right_width, max(left_height, right_height)
    inner = left + right.replace("<svg ", f'<svg x="{left_width + gap:g}" ', 1)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">{inner}</svg>\n'


def with_table(text, lines):
    """The README with the table in place of what is between the marks. @throws ValueError without them"""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"README.md: needs one line '{BEGIN}' and one '{END}'")
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1]


def update(root, check=False):
    """Writes all, or with `check` @returns the files that differ from what the records say."""
    root = pathlib.Path(root)
    contents = {root / "README.md": with_table((root / "README.md").read_text(encoding="utf-8"), table_lines(root)),
                root / OVERVIEW: overview_figure(root), root / CODECS: codecs_figure(root)}
    stale = [path for path, content in contents.items() if not path.exists() or path.read_text(encoding="utf-8") != content]
    if not check:
        for path in stale:
            path.write_text(contents[path], encoding="utf-8")
    return stale
