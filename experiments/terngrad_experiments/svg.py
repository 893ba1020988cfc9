"""Line plots and grouped bars as standalone SVG: text stays text, nothing is fetched, equal input gives equal bytes.

A series has a colour, a dash pattern and a marker shape, so that it is told apart in greyscale too. A name has one look within
a drawing: series of equal name, such as one per seed, share it and one entry of the legend. The legend lies below the plot and
adds its height to the drawing's.
"""

import itertools
import math
from dataclasses import dataclass, field, replace

from terngrad_experiments.svg_axes import HUGE, PIXELS, Axis, axis_of, plain
from terngrad_experiments.svg_elements import COLORS, clipped, document, number, path, text_at, text_width, wrap

DASHES = ("", "7 3", "2 2", "9 3 2 3", "4 2", "6 2 1 2 1 2")
# Circle, square, diamond, triangle, the same upside down and cross, relative to the point that they mark.
SHAPES = ("m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "m-3.2-3.2h6.4v6.4h-6.4z", "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
          "m0-4.2l4.3 7.4h-8.6z", "m0 4.2l4.3-7.4h-8.6z",
          "m-1.3-4.1h2.6v2.8h2.8v2.6h-2.8v2.8h-2.6v-2.8h-2.8v-2.6h2.8z")
MARKERS = (None, "hollow", "filled")
TITLE_SIZE, LINE_HEIGHT, SWATCH, LEAST_HEIGHT = 14, 16, 34, 60


@dataclass
class Series:
    """A line over points (x, y), broken where one is not finite, with a band (x, low, high) and error bars of +-error.

    Series of equal style (>= 0) have equal colour, dash and shape, those len(COLORS) apart equal colour; None takes the first one
    that is free. Across: the one y of points, with the one band, is drawn across the whole x axis, whatever its x. Bars: the band
    is drawn as a bar with caps at each x, for values in between mean nothing."""
    name: str
    points: list = field(default_factory=list)
    band: list | None = None
    marker: str | None = None
    line: bool = True
    error: float | None = None
    style: int | None = None
    across: bool = False
    bars: bool = False


@dataclass
class Plot:
    """Axes and their series; without y_range the axis covers all values, with it what lies outside is not drawn."""
    title: str
    x_label: str
    y_label: str
    series: list
    x_log: bool = False
    y_log: bool = False
    y_range: tuple | None = None
    x_ticks: list | None = None
    shade_from: tuple | None = None  # (x, text): from x on the ground is shaded, and the text says why
    width: int = 640
    height: int = 400  # without the legend


@dataclass
class Bars:
    """One bar per group; None and NaN draw none."""
    name: str
    values: list


def _drawable(point):
    return all(abs(value) < HUGE for value in point)


def _check_range(y_range, y_log):
    if y_range and not (len(y_range) == 2 and _drawable(y_range) and y_range[0] < y_range[1]):
        raise ValueError(f"y_range {y_range} is not (low, high) of finite numbers, low < high")
    if y_range and y_log and y_range[0] < 1 / HUGE:
        raise ValueError(f"y_range {y_range}: a log axis takes values > 0 only")


def _check_positive(name, axis, values):
    for value in values:
        if value < 1 / HUGE:
            raise ValueError(f"series '{name}': {axis} = {plain(value)} on a log axis, which takes values > 0 (1e-250 or more)")


def _check(plot):
    """Raises ValueError, naming the series, for what cannot be drawn."""
    _check_range(plot.y_range, plot.y_log)
    if plot.shade_from and not (abs(plot.shade_from[0]) < HUGE and (plot.shade_from[0] > 1 / HUGE or not plot.x_log)):
        raise ValueError(f"shade_from {plot.shade_from}: (x, text), x finite, on a log axis > 0")
    if plot.x_ticks and not all(abs(tick) < HUGE and (tick > 1 / HUGE or not plot.x_log) for tick in plot.x_ticks):
        raise ValueError(f"x_ticks {plot.x_ticks}: finite numbers, on a log axis > 0")
    for one in plot.series:
        if one.marker not in MARKERS:
            raise ValueError(f"series '{one.name}': marker '{one.marker}', not one of None, hollow, filled")
        if one.error is not None and not 0 <= one.error < HUGE:
            raise ValueError(f"series '{one.name}': error {one.error} is not a finite number >= 0")
        if one.across and (len(one.points) != 1 or len(one.band or ()) > 1 or one.marker):
            raise ValueError(f"series '{one.name}': across the axis goes a line of one point, with at most one band and no "
                             "marker")
        for point in one.band or ():
            if not _drawable(point) or point[1] > point[2]:
                raise ValueError(f"series '{one.name}': band {tuple(point)} is not (x, low, high), finite, low <= high")
        if plot.x_log and not one.across:
            _check_positive(one.name, "x", [p[0] for p in one.points] + [p[0] for p in one.band or ()])
        if plot.y_log:
            _check_positive(one.name, "y", [p[1] - (one.error or 0) for p in one.points] + [p[1] for p in one.band or ()])


def _finite(one):
    return [point for point in one.points if _drawable(point)]


def _dash(index):
    dash = DASHES[index % len(DASHES)]
    return ' stroke-width="2" stroke-linejoin="round"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _markers(places, index, kind):
    """Markers at places, in pixels; kind dot is what is seen of a line of one point."""
    shape = "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0z" if kind == "dot" else SHAPES[index % len(SHAPES)]
    color = index % len(COLORS)
    d = "".join(f"M{number(x)} {number(y)}{shape}" for x, y in places)
    return [path(d, stroke=color, fill="ground" if kind == "hollow" else color, more=' stroke-width="1.5"')] if d else []


def _runs(points):
    """Stretches of finite points."""
    runs = [[]]
    for point in points:
        if _drawable(point):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _draw_bar_lines(spans, index, x, y):
    """Bars with caps, of (x, low, high)."""
    places = ((number(x(px)), number(y(low)), number(y(high))) for px, low, high in spans)
    d = "".join(f"M{px} {low}V{high}m-3 0h6M{px} {low}m-3 0h6" for px, low, high in places)
    return [path(d, stroke=index % len(COLORS), more=' stroke-width="1.2"')] if d else []


def _draw_band(one, index, x, y):
    if one.bars:
        return _draw_bar_lines(one.band or (), index, x, y)
    edge = [(p[0], p[2]) for p in one.band or ()] + [(p[0], p[1]) for p in reversed(one.band or ())]
    d = "L".join(f"{number(x(px))} {number(y(py))}" for px, py in edge)
    color = index % len(COLORS)
    return [path(f"M{d}Z", stroke=color, fill=color, more=' fill-opacity="0.18" stroke-opacity="0.18"')] if edge else []


def _draw_line(one, index, x, y):
    runs = _runs(one.points)
    d = "".join("M" + "L".join(f"{number(x(px))} {number(y(py))}" for px, py in run) for run in runs if len(run) > 1)
    parts = [path(d, stroke=index % len(COLORS), more=_dash(index))] if one.line and d else []
    if one.error:
        parts += _draw_bar_lines([(px, py - one.error, py + one.error) for px, py in _finite(one)], index, x, y)
    return parts


def _draw_markers(one, index, x, y):
    dots = [run[0] for run in _runs(one.points) if len(run) == 1] if not one.marker and one.line else []
    places = [(x(px), y(py)) for px, py in (_finite(one) if one.marker else dots) if x.has(px) and y.has(py)]
    return _markers(places, index, one.marker or "dot")


def _thinned(axis):
    """Ticks with labels, every k-th so that labels keep apart."""
    shown = list(zip(axis.ticks, axis.labels))
    for k in range(1, len(shown) + 1):
        kept = [(axis(tick), text_width(label) / 2) for tick, label in shown[::k]]
        if all(b - a >= wa + wb + 8 for (a, wa), (b, wb) in zip(kept, kept[1:])):
            return shown[::k]
    return shown


def _group_labels(x, y, slanted):
    """Names of groups below their slots, slanted or wrapped to them; returns the parts and their height."""
    if slanted:
        parts = [text_at(x(n) + 4, y + 14, label, "end", f' transform="rotate(-40 {number(x(n) + 4)} {number(y + 14)})"')
                 for n, label in enumerate(x.labels)]
        return parts, 14 + 0.65 * max(map(text_width, x.labels))
    lines = [wrap(label, abs(x(1) - x(0)) - 4) for label in x.labels]
    parts = [text_at(x(n), y + 18 + LINE_HEIGHT * k, line, "middle") for n, label in enumerate(lines)
             for k, line in enumerate(label)]
    return parts, 6 + LINE_HEIGHT * max(map(len, lines), default=1)


def _frame(plot, x, y, groups=False):
    """Places the axes in plot.width x plot.height, or more if labels leave no room for data; groups: x labels name slots.

    Returns all that is drawn but data, the data's box (left, top, right, bottom), and the height."""
    titles = wrap(plot.title, plot.width - 24, TITLE_SIZE * 1.1)
    x_titles, y_titles = wrap(plot.x_label, plot.width - 24), wrap(plot.y_label, 0.75 * plot.height)
    labels = max(map(text_width, y.labels), default=0)
    left = 16 + LINE_HEIGHT * len(y_titles) + labels
    right, top = plot.width - 14, 16 + 19 * len(titles)
    slanted = False
    if groups:
        slot = (right - left) / max(len(x.labels), 1)
        slanted_left = max([left] + [0.77 * text_width(label) - (n + 0.5) * slot + 8 for n, label in enumerate(x.labels)])
        words = [word for label in x.labels for word in label.split()]
        slanted = slanted_left < plot.width / 2 and any(text_width(word) > slot - 4 for word in words)
        left = slanted_left if slanted else left
    else:
        right -= max([0] + [text_width(label) / 2 - 10 for label in x.labels[-1:]])
    x.start, x.end = left, right
    height = below = _group_labels(x, 0, slanted)[1] if groups else 6 + LINE_HEIGHT
    height += 8 + LINE_HEIGHT * len(x_titles)
    bottom = max(plot.height - height, top + LEAST_HEIGHT)
    y.start, y.end = bottom, top
    grid = "".join(f"M{number(left)} {number(y(tick))}H{number(right)}" for tick in y.ticks)
    grid += "".join(f"M{number(x(tick))} {number(top)}V{number(bottom)}" for tick in x.ticks if not groups)
    parts = [path(grid, stroke="grid")] if grid else []
    parts += [path(f"M{number(left)} {number(top)}V{number(bottom)}H{number(right)}", stroke="axis")]
    parts += [text_at(plot.width / 2, 22 + 19 * n, line, "middle", f' font-size="{TITLE_SIZE}" font-weight="bold"')
              for n, line in enumerate(titles)]
    parts += [text_at(left - 6, y(tick) + 4, label, "end") for tick, label in zip(y.ticks, y.labels)]
    parts += (_group_labels(x, bottom, slanted)[0] if groups else
              [text_at(x(tick), bottom + 18, label, "middle") for tick, label in _thinned(x)])
    parts += [text_at((left + right) / 2, bottom + below + 12 + LINE_HEIGHT * n, line, "middle")
              for n, line in enumerate(x_titles)]
    places = (f"{number(left - labels - LINE_HEIGHT * n)} {number((top + bottom) / 2)}" for n in range(len(y_titles), 0, -1))
    parts += [text_at(0, 0, line, "middle", f' transform="translate({place}) rotate(-90)"')
              for line, place in zip(y_titles, places)]
    return parts, (left, top, right, bottom), bottom + height


def _stretched(one, x):
    """A series that goes across, from end to end of the axis."""
    if not one.across:
        return one
    return replace(one, points=[(end, y) for end in (x.low, x.high) for _, y in one.points],
                   band=one.band and [(end, *span) for end in (x.low, x.high) for _, *span in one.band])


def _shade(plot, x, box):
    """The ground from plot.shade_from on, and its text; nothing where that lies beyond the axis."""
    if plot.shade_from is None or plot.shade_from[0] >= x.high:
        return [], []
    value, label = plot.shade_from
    left, top, right, bottom = (x(max(value, x.low)), *box[1:])
    area = f"M{number(left)} {number(top)}H{number(right)}V{number(bottom)}H{number(left)}Z"
    # Without room for its text beside the edge it ends at the right.
    fits = left + 6 + text_width(label) <= right
    text = text_at(left + 6, top + 14, label) if fits else text_at(right - 4, top + 14, label, "end")
    return [path(area, fill="grid", more=' fill-opacity="0.45"')], [text]


def _panel(plot, looks):
    """A plot without its legend, and its height."""
    bands = [p for one in plot.series for p in one.band or ()]
    xs = [p[0] for one in plot.series if not one.across for p in (*_finite(one), *(one.band or ()))]
    ys = [y + side * (one.error or 0) for one in plot.series for _, y in _finite(one) for side in (-1, 1)]
    x = axis_of(xs, plot.x_log, plot.width / 90, ticks=plot.x_ticks)
    plot = replace(plot, series=[_stretched(one, x) for one in plot.series])
    y = axis_of(ys + [v for p in bands for v in p[1:]], plot.y_log, plot.height / 45, given=plot.y_range)
    parts, box, height = _frame(plot, x, y)
    bands, lines, markers = ([part for one in plot.series for part in draw(one, looks[one.name], x, y)]
                             for draw in (_draw_band, _draw_line, _draw_markers))
    drawn = bands + lines
    ground, text = _shade(plot, x, box)
    parts = ground + parts + text
    return parts + (clipped(drawn, box) if plot.y_range and drawn else drawn) + markers, height


def _swatch(one, look, left, y):
    """What the legend shows of a series, SWATCH wide around height y."""
    right, middle = left + SWATCH, left + SWATCH / 2
    band = [(left, y - 6, y + 6), (right, y - 6, y + 6)] if one.band and not one.bars else None
    sample = Series("", [(left, y), (right, y)], band, line=one.line and bool(_finite(one) or not band))
    mark = Series("", [(middle, y)], marker=one.marker, line=False, error=7 if one.error or one.bars else None)
    parts = _draw_band(sample, look, PIXELS, PIXELS) + _draw_line(sample, look, PIXELS, PIXELS)
    return parts + _draw_line(mark, look, PIXELS, PIXELS) + _draw_markers(mark, look, PIXELS, PIXELS)


def _legend(entries, width, top):
    """Rows of (name, swatch at (left, y)) below top; returns the parts and where they end."""
    parts, x, y, rows = [], 16, top + 4, 0
    for name, swatch in entries:
        lines = wrap(name, width - SWATCH - 40)
        wide = SWATCH + 8 + max(map(text_width, lines), default=0)
        if x > 16 and x + wide > width - 12:
            x, y, rows = 16, y + rows * LINE_HEIGHT + 2, 0
        parts += swatch(x, y + 8)
        parts += [text_at(x + SWATCH + 8, y + 12 + LINE_HEIGHT * n, line) for n, line in enumerate(lines)]
        x, rows = x + wide + 20, max(rows, len(lines), 1)
    return parts, y + rows * LINE_HEIGHT + 8 if entries else top


def _described(plot):
    texts = [f"{plot.title}: {plot.y_label} over {plot.x_label}."]
    for one in plot.series:
        points = _finite(one)
        if one.across:
            texts.append(f"{one.name}: y {plain(points[0][1])} across." if points else f"{one.name}: 0 points.")
            continue
        spans = [f"{name} {plain(min(v))} to {plain(max(v))}" for name, v in zip("xy", zip(*points))]
        texts.append(f"{one.name}: {', '.join([f'{len(points)} points', *spans])}.")
    return " ".join(texts)


def to_svg(plot):
    """The plot as an svg element with style, title and description; ValueError names the series that cannot be drawn."""
    return grid_svg([plot], 1)


def _looks(plots):
    """Name of a series to its look: the style of any of that name, else the first free one in the order of appearance."""
    series = [one for plot in plots for one in plot.series]
    looks = {one.name: one.style for one in reversed(series) if one.style is not None}
    for one in series:
        if one.name not in looks:
            looks[one.name] = next(n for n in itertools.count() if n not in looks.values())
    return looks


def _grid(plots, columns):
    """Plots row by row with their legend: the parts, and the width and height that they take."""
    if not plots or columns < 1:
        raise ValueError(f"{len(plots)} plots in {columns} columns: at least 1 of both")
    looks, entries, parts, panels = _looks(plots), {}, [], []
    for plot in plots:
        _check(plot)
        panels.append(_panel(plot, looks))
        for one in plot.series:
            entries.setdefault(one.name, lambda left, y, one=one: _swatch(one, looks[one.name], left, y))
    width, height = max(plot.width for plot in plots), max(height for _, height in panels)
    for n, (panel, _) in enumerate(panels):
        place = f"{number(n % columns * width)} {number(n // columns * height)}"
        parts += [f'<g transform="translate({place})">', *panel, "</g>"]
    total = width * min(columns, len(plots))
    legend, end = _legend(entries.items(), total, height * math.ceil(len(plots) / columns))
    return parts + legend, total, end


def _document(parts, width, height, plots):
    return document(width, height, "; ".join(plot.title for plot in plots), " ".join(map(_described, plots)), parts)


def grid_svg(plots, columns):
    """Plots row by row in so many columns, with one legend; a name has the same look in all of them."""
    parts, width, height = _grid(plots, columns)
    return _document(parts, width, height, plots)


def stacked_svg(groups, columns):
    """Groups of plots from top to bottom, each as grid_svg has it, with a legend of its own."""
    if not groups:
        raise ValueError("0 groups of plots: at least 1")
    stacked, widths, top = [], [], 0
    for plots in groups:
        parts, width, height = _grid(plots, columns)
        stacked += [f'<g transform="translate(0 {number(top)})">', *parts, "</g>"]
        widths.append(width)
        top += height
    return _document(stacked, max(widths), top, [plot for plots in groups for plot in plots])


def _draw_bars(boxes, look):
    """Boxes (left, right, top, bottom) in pixels, striped by the dash pattern, which leaves the first look solid."""
    outline = "".join(f"M{number(left)} {number(b)}V{number(t)}H{number(right)}V{number(b)}Z" for left, right, t, b in boxes)
    stripes = "".join(f"M{number((left + right) / 2)} {number(b)}V{number(t)}" for left, right, t, b in boxes)
    if not boxes:
        return []
    color, dash = look % len(COLORS), DASHES[look % len(DASHES)]
    wide = f' stroke-width="{number(boxes[0][1] - boxes[0][0])}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return [path(outline, stroke=color, fill=color, more=' fill-opacity="0.25"'), path(stripes, stroke=color, more=wide)]


def _check_bars(groups, series, y_log, y_range):
    _check_range(y_range, y_log)
    for one in series:
        if len(one.values) != len(groups):
            raise ValueError(f"series '{one.name}': {len(one.values)} values for {len(groups)} groups")
        values = [v for v in one.values if v is not None and not math.isnan(v)]
        if not _drawable(values):
            raise ValueError(f"series '{one.name}': bars are finite, or None or NaN for none")
        if y_log:
            _check_positive(one.name, "y", values)


def bars_svg(title, groups, series, y_label, x_label="", y_log=False, y_range=None, width=640, height=400):
    """Grouped bars: series are Bars with a value per group. Bars start at 0, on a log axis at its lower end, where only their
    ends mean something. ValueError names the series that cannot be drawn."""
    _check_bars(groups, series, y_log, y_range)
    values = [v for one in series for v in one.values if v is not None and not math.isnan(v)]
    if y_log and values and not y_range:
        y_range = (10.0 ** math.floor(math.log10(min(values) / 2)), max(values) * 1.3)
    elif values and not y_range:
        low, high = 1.04 * min([0, *values]), 1.04 * max([0, *values])
        y_range = (low, high if high - low > 1 / HUGE else 1.0)
    plot = Plot(title, x_label, y_label, [], width=width, height=height)
    x = Axis(-0.5, max(len(groups), 1) - 0.5, False, list(range(len(groups))), [str(group) for group in groups])
    y = axis_of([], y_log, height / 45, given=y_range)
    parts, (left, top, right, bottom), end = _frame(plot, x, y, groups=True)
    base, step = bottom if y_log else min(max(y(0), top), bottom), 0.84 / max(len(series), 1)
    parts += [path(f"M{number(left)} {number(base)}H{number(right)}", stroke="axis")] if base < bottom else []
    entries, texts = [], [f"{title}: {y_label} of {', '.join(x.labels)}."]
    for look, one in enumerate(series):
        shown = [(n, v) for n, v in enumerate(one.values) if v is not None and not math.isnan(v)]
        boxes = [(x(n - 0.42 + step * (look + 0.06)), x(n - 0.42 + step * (look + 0.94)), min(max(y(v), top), bottom), base)
                 for n, v in shown]
        parts += _draw_bars(boxes, look)
        entries.append((one.name, lambda left, y, look=look: _draw_bars([(left + 10, left + 28, y - 7, y + 7)], look)))
        texts.append(f"{one.name}: {', '.join(f'{x.labels[n]} {plain(v)}' for n, v in shown)}.")
    legend, end = _legend(entries, width, end)
    return document(width, end, title, " ".join(texts), parts + legend)
