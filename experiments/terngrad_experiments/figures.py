"""The plots of an experiment, from recorded results: curves over steps with the band of all seeds, and accuracy over workers."""

from terngrad_experiments import recipes, statistics, svg, tables


def band_of(curves):
    """(mean, band) of several curves [[x, y], ...] at the x that all have."""
    common = set.intersection(*({x for x, _ in curve} for curve in curves))
    values = {x: [] for x in sorted(common)}
    for curve in curves:
        for x, y in curve:
            if x in values and y is not None:
                values[x].append(y)
    points = [(x, statistics.mean(ys)) for x, ys in values.items() if ys]
    band = [(x, min(ys), max(ys)) for x, ys in values.items() if ys]
    return points, band


def curve_series(results, cells, curve, factor=1.0):
    """One line for each cell: the mean over its seeds."""
    series = []
    for cell in cells:
        own = [result for result in results if result["cell"] == cell.base_name and result["scale"] == cell.scale]
        curves = [[[x, factor * y] for x, y in result["curves"][curve]] for result in own
                  if curve in result.get("curves", {}) and result["curves"][curve]]
        if not curves:
            continue
        points, band = band_of(curves)
        series.append(svg.Series(name=f"{cell.short_name} ({len(curves)} seed{'s' if len(curves) > 1 else ''})", points=points,
                                 band=band if len(curves) > 1 else None))
    return series


def zeros_series(results, cells, tensor):
    series = []
    for cell in cells:
        own = [result for result in results if result["cell"] == cell.base_name and result["scale"] == cell.scale]
        curves = [[[x, 100 * y] for x, y in result["tensors"][tensor]["zeros"]] for result in own
                  if tensor in result.get("tensors", {}) and result["tensors"][tensor].get("zeros")]
        if curves:
            points, band = band_of(curves)
            series.append(svg.Series(name=cell.short_name, points=points, band=band if len(curves) > 1 else None))
    return series


def over_workers(experiment, results, prefix, title):
    """Accuracy over the number of workers, ours with 95 % intervals or, of fewer than three seeds, all seeds; and the paper's."""
    table = tables.make_table(experiment, results)
    rows = {row.cell: row for row in table.rows if not row.is_scaled}
    series = []
    for style, kind in enumerate(("ternary", "float")):
        points, band, paper = [], [], []
        for cell in experiment.cells:
            if not cell.name.startswith(prefix) or not cell.name.endswith(kind):
                continue
            workers = int(cell.options["num_nodes"])
            row = rows.get(cell.base_name)
            if row is not None and row.values:
                points.append((workers, row.mean))
                low, high = (row.interval.low, row.interval.high) if row.interval else (min(row.values), max(row.values))
                band.append((workers, low, high))
            if cell.paper and experiment.metric in cell.paper:
                paper.append((workers, cell.paper[experiment.metric]))
        if points:
            series.append(svg.Series(name=f"ours, {kind}", points=points, band=band, marker="filled", style=style))
        if paper:
            series.append(svg.Series(name=f"paper, {kind}", points=paper, marker="hollow", line=False, error=experiment.reading_error,
                                     style=style))
    return svg.Plot(title=title, x_label="workers N", y_label="top-1 accuracy, %", series=series, x_log=True,
                    x_ticks=[2, 4, 8, 16, 32, 64])


def with_scales(experiment, results):
    """The cells of an experiment at every scale that is recorded, the full ones first."""
    cells = []
    for cell in [*experiment.cells, *experiment.variant_cells()]:
        scales = sorted({result["scale"] for result in results if result["cell"] == cell.base_name}, key=lambda s: (s != "1", s))
        cells += [cell if scale == "1" else recipes.scaled(cell, scale) for scale in scales]
    return cells


def plots_of(experiment, results):
    """All plots for which there is something to draw."""
    if experiment.name == "fig3":
        plots = [over_workers(experiment, results, "momentum", "LeNet on MNIST, momentum SGD"),
                 over_workers(experiment, results, "vanilla", "LeNet on MNIST, vanilla SGD")]
        return [plot for plot in plots if plot.series]
    cells = with_scales(experiment, results)
    plots = []
    for scale in dict.fromkeys(cell.scale for cell in cells):
        own = [cell for cell in cells if cell.scale == scale]
        suffix = "" if scale == "1" else f", {scale} of the steps"
        plots += [svg.Plot(title=f"test accuracy{suffix}", x_label="step", y_label="top-1, %",
                           series=curve_series(results, own, "test_top1", 100.0)),
                  svg.Plot(title=f"training loss{suffix}", x_label="step", y_label="cross-entropy",
                           series=curve_series(results, own, "train_loss"))]
        if experiment.zeros_of:
            plots.append(svg.Plot(title=f"zeros sent of {experiment.zeros_of}{suffix}", x_label="step", y_label="% of elements",
                                  series=zeros_series(results, own, experiment.zeros_of)))
    return [plot for plot in plots if plot.series]
