"""Generates the README's table of results and its figures from recorded results."""

import json
import pathlib

from terngrad_experiments import figures, plots, recipes, statistics, store, tables

BEGIN, END = "<!-- results: terngrad_experiment readme -->", "<!-- end of results -->"
OVERVIEW = "docs/overview.svg"
CODECS = "docs/codecs.svg"
TIMES = "bench/results/slow-link/time-to-accuracy.json"
LINKS = "bench/results/slow-link/cifarnet.json"
WIRE = "bench/results/wire-bytes/results.json"
SPEED = "bench/results/pytorch-cpu.json"
HOOKS = "bench/results/hooks/results.json"
RATES = {"100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "none": "no limit"}
# Bars of the figure: (row, training) of the record, of which the fastest counts.
TRAININGS = {"fp32": (("fp32", "fp32"), ("vendor-fp32", "fp32")), "bf16": (("bf16", "bf16"), ("vendor-bf16", "bf16")), "ternary": (("t2", "ternary"), ("t5", "ternary")),
             "top-k, 1 %": (("topk-1", "topk-1"),),             "PowerSGD, rank 4": (("powersgd-4", "powersgd-4"),)}
# Columns of the table: the fastest of the given rows.
BARS = {"ternary": ("t2", "t5"), "fp32, our exchange or MPI's": ("fp32", "vendor-fp32"), "PyTorch DDP (Gloo), fp32": ("ddp-fp32",),
        "PyTorch DDP (Gloo), fp16": ("ddp-fp16",)}


def read_json(root, name):
    return json.loads((pathlib.Path(root) / name).read_text(encoding="utf-8"))


def steps_per_second(links, rate, names):
    """The fastest of the rows with these names at a rate of the link."""
    return max(row["steps_per_s"] for row in links["rows"] if row["rate"] == rate and row["row"] in names)


def hook_rates(hooks, name):
    """Rates of a hook at 100 Mbit/s and 1 Gbit/s: "0.25 steps/s; 1.09 steps/s"."""
    rates = [next(row["steps_per_s"] for row in hooks["rows"] if (row["rate"], row["hook"]) == (rate, name))
             for rate in ("100mbit", "1000mbit")]
    return "; ".join(f"{each:.2f} steps/s" for each in rates)


def accuracy_text(results, cell, scale):
    """Accuracy "99.30 +- 0.04 %" from the last result of each seed on CPUs."""
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
        f"{megabytes(t2)} ({t2['ratio']:.1f}x fp32, {t2['ratio'] / 2:.1f}x bf16); {megabytes(t2_8)} "
        f"({t2_8['ratio']:.1f}x fp32, {t2_8['ratio'] / 2:.1f}x bf16) | interfaces count 0.2 to 1.4 % more | "
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


def _results(root, name):
    return store.read_all([pathlib.Path(root) / f"experiments/results/{name}.jsonl"])


def codec_points(root):
    """[(name, MB per worker and step, mean accuracy, interval or None for a single seed)] of the recipe codecs."""
    experiment = recipes.load_all(pathlib.Path(root) / "experiments/recipes")["codecs"]
    results = _results(root, "codecs")
    rows = [row for row in tables.make_table(experiment, results).rows if not row.is_scaled and row.values and row.backend == "cpu"]
    sent = [(row, figures.bytes_of(results, row)) for row in rows]
    return [(row.cell.partition("/")[2], of_row / 1e6, row.mean, figures.interval_of(row) if len(row.values) > 1 else None)
            for row, of_row in sent if of_row is not None]


def median_half_width(points):
    """Median half width of the existing intervals."""
    widths = sorted((interval[1] - interval[0]) / 2 for *_, interval in points if interval)
    return widths[len(widths) // 2]


def pareto_front(points):
    """The points that no other point beats in both bytes and accuracy, sorted by bytes."""
    front, best = [], -1.0
    for point in sorted(points, key=lambda each: (each[1], -each[2])):
        if point[2] > best:
            front.append(point)
            best = point[2]
    return front


def _place_labels(figure, axes, points):
    """Places each name so that it covers no mark and no other name; thin lines lead to distant names."""
    renderer = figure.canvas.get_renderer()
    marks = [axes.transData.transform(point[1:3]) for point in points]
    taken = []
    for (name, *place), mark in sorted(zip([(point[0], point[1], point[2]) for point in points], marks), key=lambda each: each[1][0]):
        options = [(dx, dy, align) for distance in (7, 16, 28, 42, 58, 76, 96) for dx, dy, align in (
            (distance, -3, "left"), (-distance, -3, "right"), (0, distance - 2, "center"), (0, -distance - 5, "center"),
            (distance * 0.7, distance * 0.7, "left"), (-distance * 0.7, distance * 0.7, "right"),
            (distance * 0.7, -distance * 0.7 - 5, "left"), (-distance * 0.7, -distance * 0.7 - 5, "right"))]
        for dx, dy, align in options:
            lead = {"arrowstyle": "-", "color": "#777777", "linewidth": 0.5, "shrinkB": 3} if max(abs(dx), abs(dy)) > 12 else None
            text = axes.annotate(name, place, (dx, dy), textcoords="offset points", ha=align, fontsize=8, arrowprops=lead)
            box = text.get_window_extent(renderer)
            inside = axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1 and axes.bbox.y0 < box.y0 and box.y1 < axes.bbox.y1
            if inside and not any(box.overlaps(other) for other in taken) and not any(
                    box.x0 - 3 < x < box.x1 + 3 and box.y0 - 3 < y < box.y1 + 3 for x, y in marks):
                break
            text.remove()
        else:
            text = axes.annotate(name, place, (7, -3), textcoords="offset points", fontsize=8)
            box = text.get_window_extent(renderer)
        taken.append(box)


def codecs_drawing(root):
    """Accuracy over bytes of every codec, with names beside the marks."""
    points = sorted(codec_points(root))
    accuracies = sorted(accuracy for _, _, accuracy, _ in points)
    # Points more than three interquartile ranges below the first quartile become a note instead of stretching the axis.
    low, high = accuracies[len(accuracies) // 4], accuracies[3 * len(accuracies) // 4]
    shown = [point for point in points if point[2] >= low - 3 * (high - low)]
    with plots.style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        figure = plots.new_figure(960, 600)
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set(xscale="log", xlabel="MB of a worker's link in a step, in its busier direction", ylabel="top-1, %",
                 title="LeNet on MNIST, 8 workers: accuracy over bytes, by codec")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        front = pareto_front(shown)
        axes.plot([point[1] for point in front], [point[2] for point in front], color="#777777", linewidth=1, zorder=1,
                  label="no other is better in both")
        for several, label in ((True, f"mean of several seeds, 95 % intervals ±{median_half_width(points):.2f} in the median"), (False, "one seed")):
            own = [point for point in shown if (point[3] is not None) == several]
            axes.plot([point[1] for point in own], [point[2] for point in own], "o", color=plots.COLORS[0], markersize=5, label=label,
                      markerfacecolor=plots.COLORS[0] if several else "white")
        axes.set_xlim(0.75 * min(point[1] for point in shown), 1.35 * max(point[1] for point in shown))
        spread = max(point[2] for point in shown) - min(point[2] for point in shown)
        axes.set_ylim(min(point[2] for point in shown) - 0.12 * spread, max(point[2] for point in shown) + 0.12 * spread)
        left_out = [f"{name}: {accuracy:.2f} %, {size:.2g} MB" for name, size, accuracy, _ in points if name not in [each[0] for each in shown]]
        if left_out:
            axes.annotate("below the axis: " + "; ".join(left_out), (0.01, 0.015), xycoords="axes fraction", fontsize=8)
        axes.legend(loc="upper left")
        figure.draw_without_rendering()
        _place_labels(figure, axes, shown)
    return plots.Drawing(figure, "Accuracy over bytes, a mark for each codec.", plots.digest_of(points))


def times_to_accuracy(root):
    """{rate: {name: seconds, None if not measured}}: the fastest row of each name. For the unlimited rate, where only steps were
    timed, the number of steps times their duration."""
    trained = read_json(root, TIMES)["rates"]
    steps = {(row["row"], row["training"]): row["steps"] for rows in trained.values() for row in rows}
    free = {row["row"]: 1 / row["steps_per_s"] for row in read_json(root, LINKS)["rows"]
            if row["rate"] == "none" and row.get("steps_per_s")}
    seconds = {rate: {(row["row"], row["training"]): row["seconds"] for row in rows} for rate, rows in trained.items()}
    seconds["none"] = {(row, training): count * free[row] for (row, training), count in steps.items() if row in free}
    return {RATES[rate]: {name: min((of[key] for key in keys if key in of), default=None) for name, keys in TRAININGS.items()}
            for rate, of in seconds.items()}


def overview_drawing(root):
    """Seconds to an accuracy on each link, with marks where compression loses to fp32."""
    times, target = times_to_accuracy(root), 100 * read_json(root, TIMES)["top1"]
    with plots.style():
        figure = plots.new_figure(960, 290)
        panels = figure.subplots(1, len(times), sharey=True)
        for axes, (rate, seconds) in zip(panels, times.items()):
            fp32 = seconds["fp32"]
            axes.axvline(fp32, color="#1A1A1A", linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)
            for place, (name, value) in enumerate(seconds.items()):
                color = "#1A1A1A" if name == "fp32" else plots.COLORS[0 if value is None or value <= fp32 else 1]
                axes.barh(place, value or 0, color=color, height=0.62)
                text = "not measured" if value is None else f"{value:,.0f} s" + ("" if name == "fp32" else f", {fp32 / value:.1f}x")
                axes.annotate(text, (value or 0, place), (4, 0), va="center", textcoords="offset points", fontsize=8,
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
            axes.set(title=rate, xlim=(0, 1.4 * max(value for value in seconds.values() if value)), xlabel="seconds")
            axes.set_yticks(range(len(seconds)), seconds)
            axes.grid(visible=False)
        panels[0].invert_yaxis()
        figure.suptitle(f"CifarNet on CIFAR-10, 2 hosts: time to {target:.0f} % top-1 (blue: faster than fp32, red: slower)", fontsize=10,
                        fontweight="bold")
    return plots.Drawing(figure, "; ".join(f"{rate}: " + ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items() if value)
                                           for rate, seconds in times.items()), plots.digest_of(times, target))


def with_table(text, lines):
    """The README with the table between the marks replaced. @throws ValueError without the marks"""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"README.md: needs one line '{BEGIN}' and one '{END}'")
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1]


def update(root, check=False):
    """Writes all files, or with `check` @returns the files that are out of date. Drawings are compared by digests of their data,
    because their bytes depend on the version of matplotlib."""
    root = pathlib.Path(root)
    readme = root / "README.md"
    text = with_table(readme.read_text(encoding="utf-8"), table_lines(root))
    drawings = {root / OVERVIEW: overview_drawing(root), root / CODECS: codecs_drawing(root)}
    stale = [readme] if readme.read_text(encoding="utf-8") != text else []
    stale += [path for path, drawing in drawings.items()
              if not path.exists() or plots.digest_in(path.read_text(encoding="utf-8")) != drawing.digest]
    if not check:
        readme.write_text(text, encoding="utf-8")
        for path, drawing in drawings.items():
            if path in stale:
                drawing.save(path, "svg")
    return stale
