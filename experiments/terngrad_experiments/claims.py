"""Claims of the paper's text, measured in recorded runs: what clipping does to a gradient, how sparse codes are, what clipping is
worth. Runs cut to a part of their steps count with a mark."""

import dataclasses
import fnmatch
import math

from terngrad_experiments import statistics, tables

# Exact values for a Gaussian clipped at c = 2.5 deviations: norm lost in %, angle in degrees, zeros in %.
GAUSSIAN = {"norm_change_percent": 1.13, "angle_degrees": 2.75, "zero_percent": 68.2}


@dataclasses.dataclass(frozen=True)
class Finding:
    claim: str
    what: str
    ours: str
    paper: str
    of: str


def runs_of(results, name):
    """The last result of each seed of a cell, from the largest available scale and one device kind, preferably the CPU.
    @returns (runs, (scale, device kind))"""
    own = [result for result in results if result["cell"] == name and result["status"] == "done"]
    kinds = {(result["scale"], result.get("backend", "cpu")) for result in own}
    if not kinds:
        return [], ("1", "cpu")
    kind = min(kinds, key=lambda each: (int(each[0].partition("/")[2] or 1), each[1]))
    return tables.last_of_seeds(result for result in own if (result["scale"], result.get("backend", "cpu")) == kind), kind


def tensor_means(runs, patterns, number):
    """Means over steps of the telemetry `number`, for each tensor and run that has it."""
    return [tensor[number] for run in runs for name, tensor in run.get("tensors", {}).items()
            if tensor.get(number) is not None and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def range_text(value):
    return f"{value[0]:g} to {value[1]:g}" if isinstance(value, (list, tuple)) else f"{value:g}"


def source_text(name, kind, runs):
    scale, backend = kind
    seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
    return f"{name}{'' if scale == '1' else '~' + scale}, {seeds}{'' if backend == 'cpu' else ' on GPU'}"


def of_tensors(cell, results, number, convert, unit, what, key):
    """One finding per run of the cell."""
    for name in cell.runs_of:
        name = name.partition("~")[0]
        runs, kind = runs_of(results, name)
        values = [convert(value) for value in tensor_means(runs, cell.tensors, number)]
        if not values:
            continue
        spread = "" if len(values) == 1 else f" ({min(values):.1f} to {max(values):.1f})"
        paper = range_text(cell.paper[key]) + unit if cell.paper and key in cell.paper else "-"
        yield Finding(cell.short_name, what, f"{statistics.mean(values):.1f}{unit}{spread}; Gaussian {GAUSSIAN[key]:g}{unit}", paper,
                      source_text(name, kind, runs))


def of_gap(cell, results):
    """Accuracy of the first run minus that of the second, paired by seed."""
    (first, kind), (second, other) = (runs_of(results, name) for name in cell.runs_of)
    if kind != other:
        return
    both = {run["seed"]: 100 * run["final"]["top1"] for run in second}
    pairs = [(100 * run["final"]["top1"], both[run["seed"]]) for run in first if run["seed"] in both]
    if not pairs:
        return
    gap = statistics.compare_paired([a for a, _ in pairs], [b for _, b in pairs])
    text = f"{gap.difference:+.2f} points"
    if gap.interval is not None:
        text += f" ({gap.interval.low:+.2f}..{gap.interval.high:+.2f})"
    paper = f"{cell.paper['top1_gap']:+.2f} points" if cell.paper and "top1_gap" in cell.paper else "-"
    yield Finding(cell.short_name, "without clipping minus with", text, paper, source_text(cell.runs_of[0], kind, first))


def findings_of(cell, results):
    if cell.name.startswith("text-clip"):
        yield from of_tensors(cell, results, "kept_norm", lambda kept: 100 * (1 - kept), " %", "length lost by clipping",
                              "norm_change_percent")
        yield from of_tensors(cell, results, "clip_angle_degrees", lambda angle: angle, " degrees",
                              "angle between a gradient and the clipped one", "angle_degrees")
    elif cell.name.startswith("text-sparsity"):
        yield from of_tensors(cell, results, "zero_fraction", lambda zeros: 100 * zeros, " %", f"zeros sent of {', '.join(cell.tensors)}",
                              "zero_percent")
    elif cell.name.startswith("text-noclip") and len(cell.runs_of) == 2:
        yield from of_gap(cell, results)


def bits_findings(cell, results):
    """Ratios of fp32's bytes to those of messages, measured if they are recorded, and as computed from the number of code values."""
    if not cell.paper or not cell.paper.keys() & {"uplink_ratio", "downlink_ratio"}:
        return
    if "downlink_ratio" in cell.paper:
        workers = int(cell.name.rpartition("n")[2])
        lanes = 64 / (64 // math.ceil(math.log2(2 * workers + 1)))
        way, what, computed = "downlink", f"downlink, {workers} workers", f"{32 / lanes:.2f}x in lanes of whole bits"
        paper = f"{cell.paper['downlink_ratio']:g}x, 32 / log2(1 + 2N)"
    else:
        bits = 2 if "2bit" in cell.name else 1.6
        way, what, computed = "uplink", "uplink", f"{32 / bits:g}x at {bits:g} bits"
        paper = f"{cell.paper['uplink_ratio']:g}x"
    own = [result for result in results if (result["cell"], result["status"]) == (cell.base_name, "measured")]
    if own:
        yield Finding(cell.short_name, what, f"{own[-1]['ratios'][way]:.2f}x measured; {computed}", paper, own[-1]["command"])
    else:
        yield Finding(cell.short_name, what, computed, paper, "computed")


def findings(experiment, results):
    """All findings available so far, in order of the recipe."""
    found = []
    for cell in experiment.cells:
        found.extend(findings_of(cell, results))
        found.extend(bits_findings(cell, results))
    return found


HEADER = ("claim", "what", "ours: mean (lowest to highest)", "paper", "of")


def rows(experiment, results):
    return [dataclasses.astuple(finding) for finding in findings(experiment, results)]


def notes(experiment, results):
    """Notes on findings that are missing, with reasons, and on assumptions that the paper does not state."""
    lines = []
    for cell in experiment.cells:
        if not [*findings_of(cell, results), *bits_findings(cell, results)]:
            lines.append(f"not measured yet: {cell.short_name}, of {', '.join(cell.runs_of) or cell.command}")
    return lines + [f"assumed: {text}" for text in dict.fromkeys(text for cell in experiment.cells for text in cell.assumed)]
