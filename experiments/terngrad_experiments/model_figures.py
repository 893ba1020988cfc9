"""The figure of a recipe of kind `model`: throughput and gain beside the paper's readings, and our model to 100,000 workers."""

from terngrad_experiments import model_results, model_tables, svg

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


def scaling_plot(cluster, model, net):
    """Gain over fp32 up to 100,000 workers, each codec and downlink with its fastest exchange. Gains below LOW are cut off."""
    baseline = model_tables.baseline_of(net)
    series = []
    for way in net["ways"]:
        gains = [images / of for images, of in zip(way["images_per_second"], baseline)]
        series.append(svg.Series(model_tables.way_name(way), list(zip(model["workers"], gains))))
    high = max(gain for one in series for _, gain in one.points)
    # Above the lines there is room for the text of the shade.
    return svg.Plot(f"({cluster.name}) our model, {net['name']}", "workers", "times as many images/s as fp32", series, x_log=True,
                    x_ticks=TICKS, y_range=(LOW, high + 0.15 * (high - LOW)), height=320,
                    shade_from=(model["cluster"]["extrapolated_above"], "extrapolated"))


def groups(experiment, results):
    """[(caption, plots)], each for a drawing of two columns."""
    models = [(cluster, model_results.model_of(results, experiment, cluster)) for cluster in experiment.model.clusters]
    found = [("Images per second", [throughput_plot(experiment, *each) for each in models]),
             ("What ternary gradients gain, bytes as the chart counts them", [gain_plot(experiment, *each) for each in models])]
    names = dict.fromkeys(net["name"] for _, model in models if model for net in model["nets"])
    plots = [scaling_plot(cluster, model, net) for name in names for cluster, model in models if model
             for net in model["nets"] if net["name"] == name and model_tables.baseline_of(net) is not None]
    if plots:
        found.append(("Our model to 100,000 workers", plots))
    return found


def drawing(experiment, results):
    return svg.stacked_svg([plots for _, plots in groups(experiment, results)], 2)


def section(experiment, results, html_table, escape):
    """What a page has of the experiment below its heading.

    @param html_table  of report, as well as escape"""
    parts = []
    for caption, plots in groups(experiment, results):
        parts.append(f"<h3>{escape(caption)}</h3><figure>{svg.grid_svg(plots, 2)}</figure>")
    for table in model_tables.sections(experiment, results):
        content = html_table(table.header, table.rows)
        parts.append(f"<details><summary>{escape(table.title)}</summary>{content}</details>" if table.is_detail
                     else f"<h3>{escape(table.title)}</h3>{content}")
    notes = "".join(f"<li>{escape(note)}</li>" for note in model_tables.notes(experiment, results))
    return "\n".join([*parts, f'<ul class="soft">{notes}</ul>'])
