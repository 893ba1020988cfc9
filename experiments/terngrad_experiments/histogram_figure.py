"""Ridge plots of histograms over steps: a column per kind of value, a ridge per step, the first step at the top."""

import dataclasses
import math

from terngrad_experiments import plots
from terngrad_experiments.histograms import KINDS, NUM_BUCKETS

# Titles of the columns.
COLUMNS = {"gradient": "original", "clipped": "clipped", "sent": "sent", "mean": "mean of the workers"}
NOTE = ("Heights are square roots of the fraction of the elements in a bucket, so that tails are seen; each ridge has its own "
        "scale. Horizontal: values of the tensor's gradient, equal axes in a row.")
RIDGE = 1.6  # height of a ridge in spacings of ridges


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor of a run, with the steps of histograms.histograms_of()."""

    title: str
    steps: tuple


def outside(row, kind):
    """The maximum over steps of the fraction of elements beyond the axis."""
    return max((1 - math.fsum(step[kind]) for step in row.steps if kind in step), default=0.0)


def column_title(row, kind):
    title, beyond = COLUMNS[kind], outside(row, kind)
    # Smaller fractions are rounding errors or invisible.
    return f"{title} (up to {100 * beyond:.1f} % beyond)" if beyond > 0.0005 else title


def _draw(axes, row, kind, color):
    limit = max(step["limit"] for step in row.steps)
    axes.set(xlim=(-limit, limit), ylim=(-0.2, len(row.steps) - 1 + RIDGE + 0.1), title=column_title(row, kind))
    axes.title.set(fontweight="normal", fontsize=9)
    axes.set_yticks(range(len(row.steps)), [f"{step['step']:,}" for step in reversed(row.steps)])
    axes.locator_params(axis="x", nbins=3)
    if not any(kind in step for step in row.steps):
        axes.annotate("not recorded", (0.5, 0.5), xycoords="axes fraction", ha="center")
    for base, step in zip(range(len(row.steps) - 1, -1, -1), row.steps):
        highest = max(step.get(kind, (0,)))
        if highest > 0:
            edges = [step["limit"] * (2 * bucket / NUM_BUCKETS - 1) for bucket in range(NUM_BUCKETS + 1)]
            heights = [base + RIDGE * math.sqrt(fraction / highest) for fraction in step[kind]]
            # Opaque, so that it hides the ridges behind it.
            axes.stairs(heights, edges, baseline=base, fill=True, color="white", zorder=2 + len(row.steps) - base)
            axes.stairs(heights, edges, baseline=base, fill=True, facecolor=color + "4D", edgecolor=color, linewidth=0.9,
                        zorder=2.5 + len(row.steps) - base)


def described(row):
    """A row in words: the values sent, and the change of the width."""
    first, last = row.steps[0], row.steps[-1]
    zeros = [f"{100 * step['sent'][NUM_BUCKETS // 2]:.0f} %" for step in (first, last) if "sent" in step]
    text = (f"{row.title}: {len(row.steps)} steps from {first['step']:,} to {last['step']:,}, values up to "
            f"{first['limit']:.3g} first and {last['limit']:.3g} last")
    return f"{text}; {' and '.join(zeros)} of what is sent around 0." if len(zeros) == 2 else f"{text}."


def drawing(rows):
    """Rows below each other as one plots.Drawing. @param rows  at least one, each with at least one step"""
    if not rows or not all(row.steps for row in rows):
        raise ValueError("histograms: at least one row with one step is needed")
    with plots.style():
        figure = plots.new_figure(960, sum(90 + 26 * len(row.steps) for row in rows))
        parts = figure.subfigures(len(rows), 1, height_ratios=[90 + 26 * len(row.steps) for row in rows], squeeze=False)
        for row, (part,) in zip(rows, parts):
            part.suptitle(row.title, fontsize=10, fontweight="bold")
            columns = part.subplots(1, len(KINDS), sharey=True)
            columns[0].set_ylabel("step")
            for axes, kind, color in zip(columns, KINDS, (0, 2, 1, 3)):
                _draw(axes, row, kind, plots.COLORS[color])
    return plots.Drawing(figure, " ".join(map(described, rows)), plots.digest_of(rows))
