"""The figure of a recipe of kind `model`: throughput and gain beside the paper's readings, and our model to 100,000 workers."""

from terngrad_experiments import model_results, model_tables, svg
from terngrad_experiments.page import escape, html_figures, html_list, html_table

LOW = 0.5
TICKS = [1, 10, 100, 1000, 10000, 100000]


def throughput_plot(experiment, cluster, model):
    """Lines of the fitted model, hollow markers of the chart."""
    series = []
    for index, net in enumerate(experiment.model.nets):
        for offset, gradients in enumerate(("ternary", "fp32")):
            name, style = f"{net.name}, {gradients}", 2 * index + offset
            fitted = model_tables.bars_of(model, net.name, gradients)
            chart = experiment.model.reading(cluster.name, net.name, gradients).images_per_second
            if fitted:
                series.append(svg.Series(name, list(zip(experiment.model.gpus, fitted)), style=style))
            series.append(svg.Series(name, list(zip(experiment.model.gpus, chart)), marker="hollow", line=False, style=style))
    return svg.Plot(f"({cluster.name}) {cluster.gpu}, {cluster.network}: lines model, markers chart", "GPUs", "images per second",
                    series, x_log=True, y_log=True, x_ticks=list(experiment.model.gpus))


def gain_plot(experiment, cluster, model):
    series = []
    for index, net in enumerate(experiment.model.nets):
        def ratio(of, net=net):
            ternary, fp32 = of("ternary", net), of("fp32", net)
            return [(gpus, a / b) for gpus, a, b in zip(experiment.model.gpus, ternary, fp32)] if ternary and fp32 else []
        fitted = ratio(lambda gradients, net: model_tables.bars_of(model, net.name, gradients))
        chart = ratio(lambda gradients, net: experiment.model.reading(cluster.name, net.name, gradients).images_per_second)
        if fitted:
            series.append(svg.Series(net.name, fitted, style=index))
        series.append(svg.Series(net.name, chart, marker="hollow", line=False, style=index))
    return svg.Plot(f"({cluster.name}) ternary over fp32: lines model, markers chart", "GPUs", "times as many images/s", series,
                    x_log=True, x_ticks=list(experiment.model.gpus))


def scaling_plot(cluster, model, net, styles):
    """Gain over fp32 up to 100,000 workers, each codec and downlink with its fastest exchange. Gains below LOW are cut off.

    @param styles  by names of ways, the same in all plots"""
    baseline = model_tables.baseline_of(net)
    series = []
    for way in net["ways"]:
        gains = [images / of for images, of in zip(way["images_per_second"], baseline)]
        name = model_tables.way_name(way)
        series.append(svg.Series(name, list(zip(model["workers"], gains)), style=styles[name]))
    high = max(gain for one in series for _, gain in one.points)
    # Above the lines there is room for the text of the shade.
    return svg.Plot(f"({cluster.name}) our model, {net['name']}", "workers", "times as many images/s as fp32", series, x_log=True,
                    x_ticks=TICKS, y_range=(LOW, high + 0.15 * (high - LOW)), height=320,
                    shade_from=(model["cluster"]["extrapolated_above"], "extrapolated"))


def reading_text(model):
    """How well the chart's bars are known."""
    errors = " and ".join(f"{cluster.error:g} in ({cluster.name})" for cluster in model.clusters)
    inset = ", ".join(dict.fromkeys(f"{cluster.inset_error:g}" for cluster in model.clusters))
    return f"Bars were read to {inset} images/s up to {model.inset_gpus} GPUs, beyond to {errors}. Rms is of ln(model / bar)."


def short_bars_text(model):
    """Which bars are too short to be read well."""
    short = [(one, [str(gpus) for gpus, weight in zip(model.gpus, one.weights) if weight < 1]) for one in model.readings]
    return " ".join(f"Too short to be read well: the bars of {one.net}, {one.gradients}, on {' and '.join(gpus)} GPUs of "
                    f"({one.cluster})." for one, gpus in short if gpus)


def groups(experiment, results):
    """[(title, plots, caption)], each for a drawing of two columns."""
    models = [(cluster, model_results.model_of(results, experiment, cluster)) for cluster in experiment.model.clusters]
    found = [("Images per second", [throughput_plot(experiment, *each) for each in models], reading_text(experiment.model)),
             ("What ternary gradients gain, bytes as the chart counts them", [gain_plot(experiment, *each) for each in models],
              short_bars_text(experiment.model))]
    names = dict.fromkeys(net["name"] for _, model in models if model for net in model["nets"])
    ways = dict.fromkeys(model_tables.way_name(way) for _, model in models if model
                         for net in model["nets"] for way in net["ways"])
    styles = {name: style for style, name in enumerate(ways)}
    plots = [scaling_plot(cluster, model, net, styles) for name in names for cluster, model in models if model
             for net in model["nets"] if net["name"] == name and model_tables.baseline_of(net) is not None]
    if plots:
        found.append(("Our model to 100,000 workers", plots,
                      f"Each codec with its fastest exchange; gains below {LOW:g} are cut off. Shaded: beyond four times the workers that the model's inputs were observed with."))
    return found


def drawing(experiment, results):
    return svg.stacked_svg([plots for _, plots, _ in groups(experiment, results)], 2)


def section(experiment, results):
    """What a page has of the experiment below its heading."""
    parts = [f"<h3>{escape(title)}</h3>{html_figures([svg.to_svg(plot) for plot in plots], caption)}"
             for title, plots, caption in groups(experiment, results)]
    for table in model_tables.sections(experiment, results):
        content = html_table(table.header, table.rows)
        parts.append(f"<details><summary>{escape(table.title)}</summary>{content}</details>" if table.is_detail
                     else f"<h3>{escape(table.title)}</h3>{content}")
    return "\n".join([*parts, html_list(model_tables.notes(experiment, results))])
