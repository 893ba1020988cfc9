"""The plots of an experiment, from recorded results: curves over steps with the band of all seeds, and accuracy over workers."""

import math

from terngrad_experiments import histogram_figure, plots, statistics, tables, views
from terngrad_experiments.cells import Curve

# Curves of recipes that do not define any.
DEFAULT_CURVES = (Curve("accuracy", "step", "test_top1", ("*",), "accuracy"), Curve("loss", "step", "train_loss", ("*",), "loss"))
TITLES = {"test_top1": "test accuracy", "train_loss": "training loss"}
LABELS = {"test_top1": "top-1, %", "train_loss": "cross-entropy", "zeros": "% of elements"}
X_LABELS = {"num_nodes": "workers N"}
UNFINISHED = "unfinished"  # status of a run that was recorded before its last step


def label_of(y):
    return LABELS.get(y.partition("/")[0], f"{y.replace('top', 'top-')} accuracy, %")


def panel_title(curves, otherwise=None):
    """The title of one of the panel's curves, else their quantity."""
    kind, _, tensor = curves[0].y.partition("/")
    shown = otherwise or TITLES.get(kind, f"zeros sent of {tensor}")
    return next((curve.title for curve in curves if curve.title), shown)


def band_of(curves):
    """(mean, band) of several curves [[x, y], ...] at their common x."""
    common = set.intersection(*({x for x, _ in curve} for curve in curves))
    values = {x: [] for x in sorted(common)}
    for curve in curves:
        for x, y in curve:
            if x in values and y is not None:
                values[x].append(y)
    points = [(x, statistics.mean(ys)) for x, ys in values.items() if ys]
    band = [(x, min(ys), max(ys)) for x, ys in values.items() if ys]
    return points, band


def points_of(result, y):
    """Recorded points [x, y] of a run over steps; empty without records. @param y  quantity, as in curves of recipes"""
    kind, _, tensor = y.partition("/")
    if kind == "zeros":
        return [[step, 100 * zeros] for step, zeros in result.get("tensors", {}).get(tensor, {}).get("zeros", ())]
    factor = 100 if y == "test_top1" else 1
    return [[step, factor * value] for step, value in result.get("curves", {}).get(y, ()) if value is not None]


def seeds_text(count):
    return f"{count} seed{'s' if count > 1 else ''}"


def on_gpu(backend):
    return "" if backend == "cpu" else " on GPU"


def samples(results, cell, scale):
    """(name, results of each seed) of the runs that represent a cell at a scale, separately for each device kind. Unfinished runs
    count only if none is finished."""
    names = views.names_at(cell, scale)
    for name in names:
        shown = cell.short_name if len(names) == 1 else name
        backends = {result.get("backend", "cpu") for result in results if (result["cell"], result["scale"]) == (name, scale)}
        for backend in sorted(backends):
            runs = tables.results_of(results, name, scale, backend)
            done = [result for result in runs if result["status"] == "done"]
            yield shown + on_gpu(backend), done or [result for result in runs if result["status"] == UNFINISHED]


def unfinished_text(runs):
    """Text that legends and titles add for unfinished runs."""
    return ", unfinished" if any(result["status"] == UNFINISHED for result in runs) else ""


def curve_series(results, cells, y, scale, styles=None):
    """One line over steps for each cell: the mean over its seeds, and their band. @param styles  by names of samples"""
    series = []
    for name, runs in (sample for cell in cells for sample in samples(results, cell, scale)):
        curves = [points for result in runs if (points := points_of(result, y))]
        if curves:
            points, band = band_of(curves)
            series.append(plots.Series(f"{name} ({seeds_text(len(curves))}{unfinished_text(runs)})", points=points,
                                     band=band if len(curves) > 1 else None, style=(styles or {}).get(name)))
    return series


def styles_of(experiment, results):
    """A style for each recorded sample, equal in all plots of the experiment."""
    cells = experiment.all_cells()
    names = [name for scale in scales_of(cells, results) for cell in cells for name, _ in samples(results, cell, scale)]
    return {name: style for style, name in enumerate(dict.fromkeys(names))}


def interval_of(row):
    """Interval around a mean: 95 % confidence, or minimum and maximum for fewer than three seeds."""
    return (row.interval.low, row.interval.high) if row.interval else (min(row.values), max(row.values))


def option_series(experiment, curve, rows, style):
    """Series of a curve over an option: recorded values and those of the paper."""
    name = curve.name.removeprefix(f"{curve.panel}-")
    cells = sorted(experiment.cells_of(curve), key=lambda cell: cell.options[curve.x])
    series = []
    for backend in sorted({row.backend for row in rows}):
        own = {row.cell: row for row in rows if row.backend == backend and row.values}
        found = [(cell.options[curve.x], own[cell.base_name]) for cell in cells if cell.base_name in own]
        if found:
            # NaN breaks the line at cells without runs.
            points = [(cell.options[curve.x], own[cell.base_name].mean if cell.base_name in own else math.nan) for cell in cells]
            series.append(plots.Series(f"ours, {name}{on_gpu(backend)}", points=points,
                                     band=[(x, *interval_of(row)) for x, row in found], across=curve.whole_axis,
                                     bars=not curve.whole_axis, marker=None if curve.whole_axis else "filled",
                                     style=style if backend == "cpu" else None))
    points = experiment.paper_points(curve)
    if points and curve.whole_axis:
        y, error = points[0].y, points[0].error or 0
        # Same colour as our series, other dash.
        series.append(plots.Series(f"paper, {name}", points=[(0, y)], band=[(0, y - error, y + error)],
                                 style=style + len(plots.COLORS), across=True))
    elif points:
        series.append(plots.Series(f"paper, {name}", points=[(point.x, point.y) for point in points], marker="hollow", line=False,
                                 error=points[0].error, style=style))
    return series


def over_option(experiment, results, curves):
    """Accuracy over an option: ours with 95 % intervals (all seeds for fewer than three), and the paper's."""
    rows = [row for row in tables.make_table(experiment, results).rows if not row.is_scaled]
    series = [one for style, curve in enumerate(curves) for one in option_series(experiment, curve, rows, style)]
    x = curves[0].x
    ticks = sorted({cell.options[x] for curve in curves if not curve.whole_axis for cell in experiment.cells_of(curve)})
    return plots.Plot(title=panel_title(curves, experiment.title), x_label=X_LABELS.get(x, x), y_label=label_of(curves[0].y),
                    series=series, x_log=x == "num_nodes", x_ticks=ticks)


def bytes_of(results, row):
    """Bytes per worker and step, averaged over a row's runs that recorded them; None if none did."""
    runs = tables.results_of(results, row.cell, row.scale, row.backend)
    sent = [run["bytes"]["bytes_per_worker_step"] for run in runs if run["status"] == "done" and run.get("bytes")]
    return statistics.mean(sent) if sent else None


def over_bytes(experiment, results, curves):
    """Accuracy over bytes: a mark with interval for each cell, in one colour per curve. The title has the number of seeds if it
    is equal for all."""
    rows = [row for row in tables.make_table(experiment, results).rows if not row.is_scaled and row.values]
    counts = {len(row.values) for row in rows}
    of_all = f", {seeds_text(*counts)}" if len(counts) == 1 else ""
    series = []
    for color, curve in enumerate(curves):
        names = [cell.base_name for cell in experiment.cells_of(curve)]
        of_curve = [row for name in names for row in rows if row.cell == name]
        for number, row in enumerate(of_curve):
            sent = bytes_of(results, row)
            if sent is not None:
                of_row = "" if of_all else f" ({seeds_text(len(row.values))})"
                name = f"{row.cell.partition('/')[2]}{on_gpu(row.backend)}{of_row}"
                x = sent / 1e6
                series.append(plots.Series(name, points=[(x, row.mean)], band=[(x, *interval_of(row))], bars=True,
                                         marker="filled", line=False, style=color % len(plots.COLORS) + len(plots.COLORS) * number))
    return plots.Plot(title=panel_title(curves, experiment.title) + of_all, x_label="MB per worker and step",
                    y_label=label_of(curves[0].y), series=series, x_log=True)


def scales_of(cells, results):
    """The recorded scales of the runs that represent cells, all steps first."""
    sources = [source for cell in cells for source in views.sources(cell)]
    found = {result["scale"] for result in results for base, fixed in sources
             if result["cell"] == base and fixed in (None, result["scale"])}
    return sorted(found, key=lambda scale: (scale != "1", scale))


def paper_series(points, styles):
    """Series of the paper's chart over steps: marks, and values that hold for all steps as a line with a band from minimum to
    maximum.

    @param styles  styles of our series, by names of samples"""
    series = []
    for point in points:
        name = f"paper, {point.cell}" if point.cell else "paper"
        style = styles.get(point.cell)
        if point.x is None:
            band = None if point.low is None else [(0, point.low, point.high)]
            # Another name than that of a mark, which would determine its style.
            series.append(plots.Series(f"{name}, all steps", points=[(0, point.y)], band=band, across=True,
                                     style=None if style is None else style + len(plots.COLORS)))
        else:
            series.append(plots.Series(name, points=[(point.x, point.y)], marker="hollow", line=False, error=point.error,
                                     style=style))
    return series


def over_steps(experiment, results, curves):
    """A plot for each recorded scale, for all steps with the paper's points."""
    found, styles = [], styles_of(experiment, results)
    cells = [cell for curve in curves for cell in experiment.cells_of(curve)]
    for scale in scales_of(cells, results):
        series = [one for curve in curves for one in curve_series(results, experiment.cells_of(curve), curve.y, scale, styles)]
        if not series:
            continue
        if scale == "1":
            series += [one for curve in curves for one in paper_series(experiment.paper_points(curve), styles)]
        suffix = "" if scale == "1" else f", {scale} of the steps"
        found.append(plots.Plot(title=panel_title(curves) + suffix, x_label="step", y_label=label_of(curves[0].y), series=series))
    return found


def plots_of(experiment, results):
    """All plots with data, for the recipe's curves or else accuracy and loss."""
    panels = {}
    for curve in experiment.curves or DEFAULT_CURVES:
        panels.setdefault(curve.panel, []).append(curve)
    found = []
    for curves in panels.values():
        if curves[0].x == "step":
            found += over_steps(experiment, results, curves)
        elif curves[0].x == "bytes":
            found.append(over_bytes(experiment, results, curves))
        elif curves[0].x != "value":
            found.append(over_option(experiment, results, curves))
    return [plot for plot in found if plot.series]


def histograms_of(experiment, results):
    """A histogram_figure.Row for each curve over values and cell with histograms of its tensor, from the first seed."""
    rows = []
    curves = [curve for curve in experiment.curves if curve.x == "value"]
    for curve, cell in ((curve, cell) for curve in curves for cell in experiment.cells_of(curve)):
        tensor = curve.y.partition("/")[2]
        for scale in scales_of([cell], results):
            for name, runs in samples(results, cell, scale):
                found = next((run for run in runs if run.get("histograms", {}).get(tensor)), None)
                if found is not None:
                    of = f"{found['cell']}{'' if scale == '1' else '~' + scale}, seed {found['seed']}{unfinished_text([found])}"
                    steps = tuple(found["histograms"][tensor])
                    rows.append(histogram_figure.Row(f"{curve.title or name}: {tensor} of {of}", steps))
    return rows


OVER_STEPS = ("Lines are means over the seeds, bands reach from the lowest to the highest seed; test accuracy is that of the "
              "averaged weights.")
PAPER_MARKS = " Hollow marks and lines that are called paper are read off its chart."
OVER_BYTES = ("Marks are means over the seeds with their 95 % intervals, where there is none from the lowest to the highest seed. "
              "Bytes are those of a worker's link in its busier direction.")
OVER_OPTION = ("Ours: means over the seeds with their 95 % intervals, where there is none from the lowest to the highest seed; the "
               "line is broken where nothing is recorded. Paper: one run each{reading}. What is drawn across does not depend on "
               "the horizontal axis.")


def caption_of(experiment):
    """Explanation of the marks in its plots."""
    curves = experiment.curves or DEFAULT_CURVES
    if curves[0].x == "value":
        return histogram_figure.NOTE
    if curves[0].x == "step":
        return OVER_STEPS + (PAPER_MARKS if any(curve.paper for curve in curves) else "")
    if curves[0].x == "bytes":
        return OVER_BYTES
    error = experiment.reading_error
    return OVER_OPTION.format(reading="" if error is None else f", read off its chart to {error:g} points")


def drawings_of(experiment, results):
    """The experiment's plots.Drawing objects, each with a legend."""
    rows = histograms_of(experiment, results)
    return [plots.drawing([[plot]], 1) for plot in plots_of(experiment, results)] + ([histogram_figure.drawing(rows)] if rows else [])


def drawing_of(experiment, results):
    """One plots.Drawing of all plots, None without data. A recipe has either curves over values or other ones."""
    rows = histograms_of(experiment, results)
    if rows:
        return histogram_figure.drawing(rows)
    of_all = plots_of(experiment, results)
    return plots.drawing([of_all], 1 if len(of_all) == 1 else 2 if len(of_all) % 3 else 3) if of_all else None
