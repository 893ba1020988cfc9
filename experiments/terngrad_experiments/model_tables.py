"""Tables of recipes of kind `model`: the chart compared with the model, the gain of ternary gradients, and the gain that
remains with the bytes of a real downlink."""

import csv
import dataclasses
import io
import json
import pathlib

from terngrad_experiments import cluster_model, paper_model, table_text
from terngrad_experiments.model_recipe import GRADIENTS

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "clusters"
BAR = ("cluster", "net", "gradients", "gpus", "chart", "model")

# Numbers of workers in the table of our own model.
SHOWN_WORKERS = (8, 64, 512, 4096, 32768, 100000)


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    header: tuple
    rows: list
    is_detail: bool = False  # shown in pages and JSON only


def _images(value):
    return f"{value:,.0f}"


def clusters_of(experiment):
    """[(the recipe's cluster, that of its file)]"""
    return [(cluster, cluster_model.read_cluster(FOLDER / cluster.file)) for cluster in experiment.model.clusters]


def throughput_section(experiment, cluster):
    """The paper's bars for one cluster, and below each row the model's values."""
    rows = []
    for net in experiment.model.nets:
        for gradients in GRADIENTS:
            reading = experiment.model.reading(cluster.name, net.name, gradients)
            rows.append((net.name, gradients, "chart", *map(_images, reading.images_per_second)))
            rows.append(("", "", "model", *map(_images, paper_model.bars(experiment.model, cluster, net, gradients))))
    rms = paper_model.rms_percent(experiment.model, cluster)
    return Section(f"({cluster.name}) {cluster.title}: images/s, model within {rms:.1f} % rms",
                   ("net", "gradients", "", *map(str, experiment.model.gpus)), rows)


def _small_factor(value):
    """Formats a factor that may be far below 1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def gains_section(experiment):
    """Ratio of images/s with ternary and with fp32, on 8 and on all GPUs."""
    model, rows = experiment.model, []
    said = {(one.cluster, one.net, one.gpus): one.value for one in model.speed_ups}
    for cluster in model.clusters:
        for net in model.nets:
            line = [f"({cluster.name})", net.name]
            for gpus in (8, model.gpus[-1]):
                place = model.gpus.index(gpus)
                ternary, fp32 = (model.reading(cluster.name, net.name, kind).images_per_second[place]
                                 for kind in ("ternary", "fp32"))
                of_model, base = (paper_model.bars(model, cluster, net, kind)[place] for kind in ("ternary", "fp32"))
                text = said.get((cluster.name, net.name, gpus))
                line += [f"{ternary / fp32:.2f}", f"{of_model / base:.2f}", "-" if text is None else f"{text:g}"]
            rows.append(tuple(line))
    of = [f"{gpus} GPUs: {what}" for gpus in (8, model.gpus[-1]) for what in ("chart", "model", "text")]
    return Section("Ternary over fp32, times as many images/s", ("cluster", "net", *of), rows)


def downlink_section(experiment):
    gpus, rows = experiment.model.gpus[-1], []
    for cluster in experiment.model.clusters:
        for name, bits in paper_model.downlinks(gpus).items():
            gains = [paper_model.step_seconds(cluster, net, paper_model.CODECS[base], gpus) /
                     paper_model.step_seconds(cluster, net, bits, gpus) for net in experiment.model.nets for base in ("fp32", "bf16")]
            rows.append((f"({cluster.name})", "2 bits", name, *(f"{gain:.2f}" for gain in gains)))
    of = [f"{net.name} /{name}" for net in experiment.model.nets for name in ("fp32", "bf16")]
    return Section(f"Speed-up by downlink: times as many images/s as fp32 and as bf16 on {gpus} GPUs, by what the downlink takes",
                   ("cluster", "up", "down", *of), rows)


def way_name(step):
    """Name of codec and downlink: "fp32", "t2, downlink bf16", "t2, all-gather"."""
    if step.codec in ("fp32", "bf16"):
        return step.codec
    if step.codec == "lanes":
        return "t2, downlink sums in lanes"
    return f"{step.codec}, downlink {step.plan.downlink}" if step.plan.downlink else f"{step.codec}, all-gather"


def gains_over_fp32(cluster, net):
    """{way_name: speed-up over fp32 for each of listed_workers}, each with its fastest exchange."""
    gains = {}
    for workers in cluster_model.listed_workers(cluster):
        steps = cluster_model.steps_of(cluster, net, workers)
        base = cluster_model.best_of(steps, "fp32")
        for step in steps:
            gains.setdefault(way_name(step), []).append(base.seconds / step.seconds)
    return gains


def scaling_section(experiment):
    """Our model: gain over fp32 with the fastest plan of each codec and downlink."""
    rows = []
    for recipe, cluster in clusters_of(experiment):
        listed = cluster_model.listed_workers(cluster)
        for net in cluster.nets:
            for name, gains in gains_over_fp32(cluster, net).items():
                if name != "fp32":
                    shown = [_small_factor(gains[listed.index(n)]) + "*" * (n > cluster.trusted_workers) for n in SHOWN_WORKERS]
                    rows.append((f"({recipe.name})", net.name, name, *shown))
    return Section("Our model: times as many images/s as fp32, each with its fastest exchange, by workers (* extrapolated)",
                   ("cluster", "net", "codec", *(f"{workers:,}" for workers in SHOWN_WORKERS)), rows)


def parts_section(experiment):
    rows = []
    for recipe, cluster in clusters_of(experiment):
        workers = cluster_model.own_size(cluster)
        for net in cluster.nets:
            for step in cluster_model.steps_of(cluster, net, workers):
                rows.append((f"({recipe.name})", net.name, way_name(step), step.plan.name, f"{workers:,}",
                             *(f"{1e3 * part:.1f}" for part in step.parts.values()), f"{1e3 * step.seconds:.1f}", f"{step.up / 1e6:.1f}",
                             f"{step.down / 1e6:.1f}" if step.plan.downlink else "-", _images(step.images_per_second)))
    return Section("Our model: parts of a step in ms, MB of a worker's message",
                   ("cluster", "net", "codec", "exchange", "workers", "compute", "encode", "exposed exchange", "decode", "update",
                    "step", "MB up", "MB down", "images/s"), rows, is_detail=True)


def sections(experiment):
    return [*(throughput_section(experiment, cluster) for cluster in experiment.model.clusters), gains_section(experiment),
            downlink_section(experiment), scaling_section(experiment), parts_section(experiment)]


def notes(experiment):
    lines = []
    for recipe, cluster in clusters_of(experiment):
        steps = [step for net in cluster.nets for n in cluster_model.listed_workers(cluster) for step in cluster_model.steps_of(cluster, net, n)]
        lines.append(f"({recipe.name}) extrapolated beyond {cluster.trusted_workers:,} workers, {cluster_model.TRUSTED_FACTOR} times what its "
                     f"inputs were observed with; {cluster_model.inputs_text(steps)}")
    return lines + [f"assumed: {text}" for text in experiment.assumed]


def to_text(experiment):
    parts = [f"{experiment.name}: {experiment.title}"]
    for section in sections(experiment):
        if not section.is_detail:
            parts += ["", section.title, *table_text.aligned([section.header, *section.rows])]
    return "\n".join([*parts, "", *notes(experiment)])


def to_markdown(experiment):
    lines = []
    for section in sections(experiment):
        if not section.is_detail:
            lines += [f"**{section.title}**", "", *table_text.markdown_lines(section.header, section.rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes(experiment))])


def _rows(experiment):
    """(cluster, net, gradients, GPUs, chart, model) of each bar."""
    for cluster in experiment.model.clusters:
        for net in experiment.model.nets:
            for gradients in GRADIENTS:
                chart = experiment.model.reading(cluster.name, net.name, gradients).images_per_second
                ours = paper_model.bars(experiment.model, cluster, net, gradients)
                yield from ((cluster.name, net.name, gradients, *each) for each in zip(experiment.model.gpus, chart, ours))


def to_csv(experiment):
    """A line for each bar: chart and fitted model."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(BAR)
    writer.writerows(_rows(experiment))
    return text.getvalue().rstrip("\n")


def to_json(experiment):
    """The bars, and every section as a table."""
    tables = [{"title": each.title, "header": each.header, "rows": each.rows} for each in sections(experiment)]
    return json.dumps({"experiment": experiment.name, "title": experiment.title, "bars": [dict(zip(BAR, row)) for row in _rows(experiment)],
                       "tables": tables, "assumed": experiment.assumed}, indent=1)


def render(experiment, form):
    return {"text": to_text, "markdown": to_markdown, "csv": to_csv, "json": to_json}[form](experiment)
