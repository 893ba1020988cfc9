"""Histograms over steps as ridges: a column for each kind of value, one ridge for each step, the first step at the top."""

import dataclasses
import math

from terngrad_experiments.histograms import KINDS, NUM_BUCKETS
from terngrad_experiments.svg_axes import Axis, nice_ticks, plain, tick_labels
from terngrad_experiments.svg_elements import document, number, path, text_at, text_width, wrap

# Titles of the columns and their colours.
COLUMNS = {"gradient": ("original", 0), "clipped": ("clipped", 2), "sent": ("sent", 1), "mean": ("mean of the workers", 3)}
COLUMN_WIDTH, GAP, SPACING, RIDGE = 220, 18, 30, 46
TITLE_SIZE, LINE_HEIGHT, MARGIN = 14, 16, 14
NOTE = ("Heights are square roots of the fraction of the elements in a bucket, so that tails are seen; each ridge has its own "
        "scale. Horizontal: values of the tensor's gradient, equal axes in a row.")


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor of a run; steps are those of histograms.histograms_of()."""

    title: str
    steps: tuple


def outside(row, kind):
    """The largest fraction of the elements that lies beyond the axis at one of the steps."""
    return max((1 - math.fsum(step[kind]) for step in row.steps if kind in step), default=0.0)


def column_title(row, kind):
    title, beyond = COLUMNS[kind][0], outside(row, kind)
    # What is less is rounding, or too little to be seen.
    return f"{title} (up to {100 * beyond:.1f} % beyond)" if beyond > 0.0005 else title


def ridge(step, kind, x, base):
    """A histogram as an outline of steps that stands on `base`, in pixels."""
    fractions, limit = step[kind], step["limit"]
    highest = max(fractions)
    if not highest > 0:
        return []
    width = 2 * limit / NUM_BUCKETS
    heights = [RIDGE * math.sqrt(fraction / highest) for fraction in fractions]
    outline = f"M{number(x(-limit))} {number(base)}"
    for bucket, height in enumerate(heights):
        outline += f"V{number(base - height)}H{number(x(-limit + width * (bucket + 1)))}"
    color = COLUMNS[kind][1]
    # Opaque, so that it hides what is behind it.
    return [path(f"{outline}V{number(base)}Z", fill="ground"),
            path(f"{outline}V{number(base)}Z", stroke=color, fill=color, more=' fill-opacity="0.3" stroke-width="1.2"')]


def draw_column(row, kind, left, top):
    """The column of a kind whose title stands at `top`."""
    x = Axis(-max(step["limit"] for step in row.steps), max(step["limit"] for step in row.steps), False, [], [])
    x.start, x.end = left, left + COLUMN_WIDTH
    bases = [top + 12 + RIDGE + SPACING * index for index in range(len(row.steps))]
    ticks = [tick for tick in nice_ticks(0.9 * x.low, 0.9 * x.high, 5)]
    grid = "".join(f"M{number(x(tick))} {number(top + 8)}V{number(bases[-1])}" for tick in ticks)
    parts = [text_at(left + COLUMN_WIDTH / 2, top, column_title(row, kind), "middle"), path(grid, stroke="grid")]
    for step, base in zip(row.steps, bases):
        line = f"M{number(left)} {number(base)}H{number(left + COLUMN_WIDTH)}"
        parts.append(path(line, stroke="axis", more=' stroke-opacity="0.5"'))
        parts += ridge(step, kind, x, base) if kind in step else []
    if not any(kind in step for step in row.steps):
        parts.append(text_at(left + COLUMN_WIDTH / 2, bases[0], "not recorded", "middle"))
    shown = list(zip(ticks, tick_labels(ticks)))
    widest = max(text_width(label) for _, label in shown)
    stride = next(k for k in range(1, len(shown) + 1) if k == len(shown) or x(shown[k][0]) - x(shown[0][0]) > widest + 8)
    middle = len(shown) // 2 % stride  # so that 0 has a label
    return parts + [text_at(x(tick), bases[-1] + LINE_HEIGHT, label, "middle") for tick, label in shown[middle::stride]]


def draw_row(row, top, left):
    """(parts, where they end) of a tensor; labels of steps stand before `left`."""
    width = left + len(KINDS) * (COLUMN_WIDTH + GAP)
    titles = wrap(row.title, width - 2 * MARGIN, TITLE_SIZE * 1.1)
    parts = [text_at(MARGIN, top + 16 + 19 * index, title, more=f' font-size="{TITLE_SIZE}" font-weight="bold"')
             for index, title in enumerate(titles)]
    head = top + 22 + 19 * len(titles)
    for index, step in enumerate(row.steps):
        parts.append(text_at(left - 8, head + 12 + RIDGE + SPACING * index, plain(step["step"]), "end"))
    parts.append(text_at(left - 8, head, "step", "end"))
    for index, kind in enumerate(KINDS):
        parts += draw_column(row, kind, left + index * (COLUMN_WIDTH + GAP), head)
    return parts, head + 12 + RIDGE + SPACING * (len(row.steps) - 1) + 2 * LINE_HEIGHT + 6


def described(row):
    """A row in words: what is sent, and how the width changes."""
    first, last = row.steps[0], row.steps[-1]
    zeros = [f"{100 * step['sent'][NUM_BUCKETS // 2]:.0f} %" for step in (first, last) if "sent" in step]
    text = (f"{row.title}: {len(row.steps)} steps from {plain(first['step'])} to {plain(last['step'])}, values up to "
            f"{first['limit']:.3g} first and {last['limit']:.3g} last")
    return f"{text}; {' and '.join(zeros)} of what is sent around 0." if len(zeros) == 2 else f"{text}."


def to_svg(rows):
    """Rows below each other as one drawing. @param rows  at least one, with a step each"""
    if not rows or not all(row.steps for row in rows):
        raise ValueError("histograms: at least one row with one step is needed")
    left = MARGIN + 8 + max(text_width(plain(step["step"])) for row in rows for step in row.steps)
    width = left + len(KINDS) * (COLUMN_WIDTH + GAP)
    parts, top = [], 0
    for row in rows:
        drawn, top = draw_row(row, top, left)
        parts += drawn
    for line in wrap(NOTE, width - 2 * MARGIN):
        parts.append(text_at(MARGIN, top + 14, line))
        top += LINE_HEIGHT
    return document(width, top + 10, "; ".join(row.title for row in rows), " ".join(map(described, rows)), parts)
