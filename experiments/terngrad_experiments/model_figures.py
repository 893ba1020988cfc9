"""Figures of recipes of kind `model`: throughput and gain with the paper's readings, and our model up to 100,000 workers."""

from terngrad_experiments import cluster_model, model_tables, paper_model, plots
from terngrad_experiments.page import escape, html_figures, html_list, html_table

LOW = 0.5
TICKS = [1, 10, 100, 1000, 10000, 100000]


def throughput_plot(experiment, cluster):
    """Fitted model as lines, the paper's chart as hollow markers."""
    series = []
    for index, net in enumerate(experiment.model.nets):
        for offset, gradients in enumerate(("ternary", "fp32")):
            name, style = f"{net.name}, {gradients}", 2 * index + offset
            fitted = paper_model.bars(experiment.model, cluster, net, gradients)
            chart = experiment.model.reading(cluster.name, net.name, gradients).images_per_second
            series.append(plots.Series(name, list(zip(experiment.model.gpus, fitted)), style=style))
            series.append(plots.Series(name, list(zip(experiment.model.gpus, chart)), marker="hollow", line=False, style=style))
    return plots.Plot(f"({cluster.name}) {cluster.gpu}, {cluster.network}: lines model, markers chart", "GPUs", "images per second",
                    series, x_log=True, y_log=True, x_ticks=list(experiment.model.gpus))


def gain_plot(experiment, cluster):
    series = []
    for index, net in enumerate(experiment.model.nets):
        ours, chart = ([(gpus, a / b) for gpus, a, b in zip(experiment.model.gpus, *pair)] for pair in (
            [paper_model.bars(experiment.model, cluster, net, kind) for kind in ("ternary", "fp32")],
            [experiment.model.reading(cluster.name, net.name, kind).images_per_second for kind in ("ternary", "fp32")]))
        series += [plots.Series(net.name, ours, style=index), plots.Series(net.name, chart, marker="hollow", line=False, style=index)]
    return plots.Plot(f"({cluster.name}) ternary over fp32: lines model, markers chart", "GPUs", "times as many images/s", series,
                    x_log=True, x_ticks=list(experiment.model.gpus))


def scaling_plot(recipe, cluster, net, styles):
    """Gain over fp32 up to 100,000 workers, each codec and downlink with its fastest exchange. Gains below LOW are cut off.

    @param styles  by way_name, equal in all plots"""
    listed = cluster_model.listed_workers(cluster)
    gains = model_tables.gains_over_fp32(cluster, net)
    series = [plots.Series(name, list(zip(listed, of_way)), style=styles[name]) for name, of_way in gains.items()]
    high = max(max(of_way) for of_way in gains.values())
    # Leaves room above the lines for the text of the shade.
    return plots.Plot(f"({recipe.name}) our model, {net.name}", "workers", "times as many images/s as fp32", series, x_log=True,
                    x_ticks=TICKS, y_range=(LOW, high + 0.15 * (high - LOW)), height=320,
                    shade_from=(cluster.trusted_workers, "extrapolated"))


def reading_text(model):
    """Text on the reading errors of the chart's bars."""
    errors = " and ".join(f"{cluster.error:g} in ({cluster.name})" for cluster in model.clusters)
    inset = ", ".join(dict.fromkeys(f"{cluster.inset_error:g}" for cluster in model.clusters))
    return f"Bars were read to {inset} images/s up to {model.inset_gpus} GPUs, beyond to {errors}. Rms is of ln(model / bar)."


def short_bars_text(model):
    """Text listing bars that are too short to be read precisely."""
    short = [(one, [str(gpus) for gpus, weight in zip(model.gpus, one.weights) if weight < 1]) for one in model.readings]
    return " ".join(f"Too short to be read well: the bars of {one.net}, {one.gradients}, on {' and '.join(gpus)} GPUs of "
                    f"({one.cluster})." for one, gpus in short if gpus)


def groups(experiment):
    """[(title, plots, caption)], each for a drawing with two columns."""
    clusters = model_tables.clusters_of(experiment)
    names = dict.fromkeys(name for _, cluster in clusters for name in model_tables.gains_over_fp32(cluster, cluster.nets[0]))
    styles = {name: style for style, name in enumerate(names)}
    scaling = [scaling_plot(recipe, cluster, net, styles) for index in range(len(clusters[0][1].nets))
               for recipe, cluster in clusters for net in cluster.nets[index:index + 1]]
    return [("Images per second", [throughput_plot(experiment, each) for each in experiment.model.clusters],
             reading_text(experiment.model)),
            ("What ternary gradients gain, bytes as the chart counts them",
             [gain_plot(experiment, each) for each in experiment.model.clusters], short_bars_text(experiment.model)),
            ("Our model to 100,000 workers", scaling,
             f"Each codec with its fastest exchange; gains below {LOW:g} are cut off. Shaded: beyond four times the workers that the "
             "model's inputs were observed with.")]


def drawing(experiment):
    return plots.drawing([of_group for _, of_group, _ in groups(experiment)], 2)


def section(experiment):
    """HTML of the experiment below its heading."""
    parts = [f"<h3>{escape(title)}</h3>{html_figures([plots.drawing([[plot]], 1) for plot in of_group], caption)}"
             for title, of_group, caption in groups(experiment)]
    for table in model_tables.sections(experiment):
        content = html_table(table.header, table.rows)
        parts.append(f"<details><summary>{escape(table.title)}</summary>{content}</details>" if table.is_detail
                     else f"<h3>{escape(table.title)}</h3>{content}")
    return "\n".join([*parts, html_list(model_tables.notes(experiment))])
