"""Line plots of experiments, drawn by matplotlib as SVG or PNG. Text of SVG stays text, and equal plots give equal bytes with one
version of matplotlib. A name has one colour, line style and marker within a drawing; one legend below each group of plots has them.
"""

import base64
import contextlib
import dataclasses
import hashlib
import html
import io
import itertools
import math
import re

# Okabe and Ito's palette for the colour-blind, without yellow, which is invisible on white, and with black at the end.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1A1A1A")
LINES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (3, 1.5)), (0, (5, 2, 1, 2, 1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P")
DPI = 96  # sizes are given in pixels at this resolution


@dataclasses.dataclass
class Series:
    """A line over points (x, y), broken where one is not finite, with a band (x, low, high), or with `bars` an error bar at each x.

    Series of equal style (0 and up) look alike, those len(COLORS) apart have equal colour; None takes the first one that is free.
    marker: None, "hollow" or "filled". error: half the length of error bars at points. across: draws the y of the single point,
    and its band, across the whole axis."""
    name: str
    points: list = dataclasses.field(default_factory=list)
    band: list | None = None
    marker: str | None = None
    line: bool = True
    error: float | None = None
    style: int | None = None
    across: bool = False
    bars: bool = False


@dataclasses.dataclass
class Plot:
    """Axes and their series. shade_from: (x, text): shades the background from x on, labelled with the text."""
    title: str
    x_label: str
    y_label: str
    series: list
    x_log: bool = False
    y_log: bool = False
    y_range: tuple | None = None
    x_ticks: list | None = None
    shade_from: tuple | None = None
    width: int = 640
    height: int = 400  # pixels, without the legend


@contextlib.contextmanager
def style():
    """matplotlib with the look of all drawings. @throws ImportError without matplotlib"""
    import matplotlib
    settings = {"svg.hashsalt": "terngrad", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold",
                "axes.grid": True, "axes.axisbelow": True, "grid.color": "#DDDDDD", "axes.spines.top": False,
                "axes.spines.right": False, "legend.frameon": False, "legend.fontsize": 8.5, "figure.facecolor": "white"}
    with matplotlib.rc_context(settings):
        yield matplotlib


def new_figure(width, height):
    """Creates a figure of a size in pixels; call within `style()`."""
    from matplotlib.figure import Figure
    return Figure(figsize=(width / DPI, height / DPI), dpi=DPI, layout="constrained")


def to_svg(figure, digest="", text=""):
    """@param digest  digest of the data. @param text  description. Both are stored in the file's metadata"""
    out = io.StringIO()
    with style():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "terngrad_experiment", "Description": f"{text} [{digest}]"})
    return re.sub(r"[ \t]+\n", "\n", out.getvalue())


def digest_in(svg):
    """The digest passed to to_svg(); "" for other drawings."""
    found = re.search(r"\[([0-9a-f]{16})\]", svg)
    return found[1] if found else ""


def digest_of(*values):
    """Digest of plain values and dataclasses: 16 hexadecimal digits."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def looks_of(plots):
    """{name of a series: look}: the style of any series with the name, else the first free one, in order of appearance."""
    series = [one for plot in plots for one in plot.series]
    looks = {one.name: one.style for one in reversed(series) if one.style is not None}
    for one in series:
        if one.name not in looks:
            looks[one.name] = next(n for n in itertools.count() if n not in looks.values())
    return looks


def _thousands(value, _=None):
    return f"{value:,.10g}" if value == 0 or 1e-4 <= abs(value) < 1e7 else f"{value:g}"


def _draw_series(axes, one, look):
    color, line = COLORS[look % len(COLORS)], LINES[look % len(LINES)]
    low_high = list(axes.get_xlim())
    points = [(end, one.points[0][1]) for end in low_high] if one.across else one.points
    band = one.band and ([(end, *one.band[0][1:]) for end in low_high] if one.across else one.band)
    if band and one.bars:
        middle = dict(one.points)
        axes.errorbar([x for x, _, _ in band], [middle.get(x, (low + high) / 2) for x, low, high in band],
                      [[middle.get(x, (low + high) / 2) - low for x, low, high in band],
                       [high - middle.get(x, (low + high) / 2) for x, low, high in band]], fmt="none", ecolor=color, elinewidth=1, capsize=3)
    elif band:
        axes.fill_between(*zip(*band), color=color, alpha=0.18, linewidth=0)
    finite = [point for point in points if all(map(math.isfinite, point))]
    if one.error:
        axes.errorbar(*zip(*finite), one.error, fmt="none", ecolor=color, elinewidth=1, capsize=3)
    is_lone = one.line and len(finite) == 1
    axes.plot([x for x, _ in points], [y if math.isfinite(y) else math.nan for _, y in points], color=color, linewidth=1.6,
              linestyle=line if one.line else "none", marker=MARKERS[look % len(MARKERS)] if one.marker or is_lone else None, markersize=5,
              markerfacecolor="white" if one.marker == "hollow" else color)


def draw(axes, plot, looks):
    """@throws ValueError, naming the series, for values that a logarithmic axis cannot show"""
    for one in plot.series:
        values = [*([] if one.across or not plot.x_log else [x for x, _ in one.points]), *([y for _, y in one.points] if plot.y_log else [])]
        if any(value <= 0 for value in values):
            raise ValueError(f"series '{one.name}': a logarithmic axis takes values above 0 only")
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label, **({"xscale": "log"} if plot.x_log else {}),
             **({"yscale": "log"} if plot.y_log else {}))
    if plot.y_range:
        axes.set_ylim(*plot.y_range)
    for one in plot.series:
        if not one.across:
            _draw_series(axes, one, looks[one.name])
    if any(one.across for one in plot.series):
        axes.set_xlim(axes.get_xlim())  # series across the axis end where others do
        for one in plot.series:
            if one.across:
                _draw_series(axes, one, looks[one.name])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_thousands)
    if plot.x_ticks:
        axes.set_xticks(plot.x_ticks)
        axes.minorticks_off()
    if plot.shade_from and plot.shade_from[0] < axes.get_xlim()[1]:
        end = axes.get_xlim()[1]
        axes.axvspan(plot.shade_from[0], end, color="#DDDDDD", alpha=0.45, linewidth=0)
        axes.set_xlim(right=end)
        axes.annotate(plot.shade_from[1], (plot.shade_from[0], 1), xycoords=("data", "axes fraction"), xytext=(4, -10),
                      textcoords="offset points")


def _handles(plots, looks):
    """{name: handle} for the legend."""
    from matplotlib.lines import Line2D
    found = {}
    for one in (one for plot in plots for one in plot.series):
        look = looks[one.name]
        color = COLORS[look % len(COLORS)]
        is_line = one.line
        handle = found.setdefault(one.name, Line2D([], [], color=color, linestyle="none", label=one.name, markersize=5))
        if is_line:
            handle.set_linestyle(LINES[look % len(LINES)])
        if one.marker:
            handle.set(marker=MARKERS[look % len(MARKERS)], markerfacecolor="white" if one.marker == "hollow" else color)
    return found


def stacked(groups, columns):
    """A figure of groups of plots from top to bottom, each in `columns` columns with its own legend. Call within `style()`.

    @throws ValueError as draw(), and for no plots"""
    if not groups or not all(groups):
        raise ValueError("a figure needs a plot in each group")
    looks = [looks_of(group) for group in groups]
    columns = min(columns, max(map(len, groups)))
    width = columns * max(plot.width for group in groups for plot in group)
    handles = [_handles(group, look) for group, look in zip(groups, looks)]
    heights, rows = [], []
    for group, of_group in zip(groups, handles):
        of_legend = max(1, int(width / (7 * max(map(len, of_group)) + 60))) if of_group else 1
        lines = -(-len(of_group) // of_legend)
        rows += [(group[i:i + columns], None, 0) for i in range(0, len(group), columns)] + [(None, of_group, of_legend)]
        heights += [max(plot.height for plot in group)] * -(-len(group) // columns) + [18 * lines + 8]
    figure = new_figure(width, sum(heights))
    grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
    index = 0
    for row, (plots, of_group, of_legend) in enumerate(rows):
        if plots is not None:
            for column, plot in enumerate(plots):
                draw(figure.add_subplot(grid[row, column]), plot, looks[index])
            continue
        axes = figure.add_subplot(grid[row, :])
        axes.set_axis_off()
        axes.legend(handles=list(of_group.values()), loc="center", ncol=of_legend)
        index += 1
    return figure


def described(plots):
    """Description of the plots in words."""
    return " ".join(f"{plot.title}: {plot.y_label} over {plot.x_label}, of {', '.join(dict.fromkeys(one.name for one in plot.series))}."
                    for plot in plots)


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure with a description in words and a digest of its data."""

    figure: object
    text: str
    digest: str

    def svg(self):
        return to_svg(self.figure, self.digest, self.text)

    def html(self):
        """An img element; wide images scroll on narrow screens."""
        data = base64.b64encode(self.svg().encode()).decode()
        wide = ' class="wide"' if self.figure.get_figwidth() * DPI > 800 else ""
        return (f'<figure{wide}><img alt="{html.escape(self.text)}" data-digest="{self.digest}" '
                f'src="data:image/svg+xml;base64,{data}"></figure>')

    def save(self, path, form):
        """@param form  svg or png"""
        if form == "svg":
            path.write_text(self.svg(), encoding="utf-8")
        else:
            with style():
                self.figure.savefig(path, format=form, dpi=2 * DPI)


def drawing(groups, columns):
    """A Drawing of groups of plots, as stacked()."""
    plots = [plot for group in groups for plot in group]
    with style():
        return Drawing(stacked(groups, columns), described(plots), digest_of(groups, columns))
