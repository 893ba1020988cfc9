"""Summary of a run's histograms.jsonl: two tensors at a few steps, in buckets of equal width."""

import json
import pathlib

from terngrad_experiments import store
from terngrad_experiments.record_shape import KINDS, NUM_BUCKETS

MAX_STEPS = 6
# With at most this number of nonempty buckets each counts as a single value, as for ternary codes and their mean.
MAX_VALUES = 16


def lines_of(folder):
    """Yields the lines of the gradient's kinds, as the file may be large; skips an incomplete last line."""
    path = pathlib.Path(folder) / "histograms.jsonl"
    if not path.exists():
        return
    with open(path, "rb") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line["kind"] in KINDS:
                yield line


def chosen_tensors(sizes):
    """The largest convolution tensor and the largest other tensor. @param sizes  number of elements by name"""
    kinds = ([name for name in sizes if name.startswith("conv")], [name for name in sizes if not name.startswith("conv")])
    return [max(names, key=lambda name: sizes[name]) for names in kinds if names]


def parts_of(line):
    """(low, high, count) of the nonempty buckets, in order; low = high for single values."""
    limits, counts = line["limits"], line["counts"]
    parts = [(low, high, count) for low, high, count in zip([line["min"], *limits], limits, counts) if count]
    if not parts:
        return []
    parts[-1] = (min(parts[-1][0], line["max"]), line["max"], parts[-1][2])
    if len(parts) > MAX_VALUES:
        return parts
    # The first and the last bucket contain the minimum and the maximum; the bucket of zeros begins at 0.
    values = [low if low == 0 or index == 0 else (low + high) / 2 for index, (low, high, _) in enumerate(parts)]
    values[-1] = line["max"]
    return [(value, value, count) for value, (_, _, count) in zip(values, parts)]


def rebinned(parts, limit, num_elements):
    """The fraction of elements in each of NUM_BUCKETS buckets of equal width from -limit to limit; others are dropped. Counts are
    distributed evenly over (low, high). If rounding makes low >= high, they count as one value, the one of smaller magnitude."""
    fractions = [0.0] * NUM_BUCKETS

    def place(edge):
        return (edge / limit + 1) * NUM_BUCKETS / 2
    for low, high, count in parts:
        first, last = place(low), place(high)
        if low >= high or last <= first:
            value = min(low, high, key=abs)
            if abs(value) <= limit:
                fractions[min(int(place(value)), NUM_BUCKETS - 1)] += count
            continue
        for bucket in range(int(max(0.0, first)), int(min(NUM_BUCKETS - 1, last)) + 1):
            overlap = min(last, bucket + 1) - max(first, bucket)
            fractions[bucket] += count * max(overlap, 0.0) / (last - first)
    return [float(f"{fraction / num_elements:.4g}") for fraction in fractions]


def step_of(step, lines):
    """Summary of one tensor at one step: each kind's fractions between -limit and limit, the largest magnitude that is sent,
    clipped or averaged. None without finite nonzero values. @param lines  by kind"""
    reach = {kind: max(abs(line["min"]), abs(line["max"])) for kind, line in lines.items() if line["num"]}
    limit = max((reach[kind] for kind in reach if kind != "gradient"), default=reach.get("gradient", 0.0))
    if not limit > 0:
        return None
    return {"step": step, "limit": limit} | {kind: rebinned(parts_of(line), limit, line["num"] + line["nonfinite"])
                                             for kind, line in lines.items() if line["num"]}


def histograms_of(folder):
    """{tensor: [{"step", "limit", and fractions by kind}]} of a run's folder, empty without histograms. Steps are evenly spaced,
    with the first and the last."""
    sizes, steps = {}, {}
    for line in lines_of(folder):
        sizes.setdefault(line["tensor"], line["num"] + line["nonfinite"])
        steps[line["step"]] = None
    tensors, kept = chosen_tensors(sizes), set(store.thin(sorted(steps), MAX_STEPS))
    found = {}
    for line in lines_of(folder):
        if line["tensor"] in tensors and line["step"] in kept:
            found.setdefault(line["tensor"], {}).setdefault(line["step"], {})[line["kind"]] = line
    result = {tensor: [one for step in sorted(found.get(tensor, {})) if (one := step_of(step, found[tensor][step])) is not None]
              for tensor in tensors}
    return {tensor: own for tensor, own in result.items() if own}
