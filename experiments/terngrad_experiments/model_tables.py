"""The tables of a recipe of kind `model`: the chart beside the model, what ternary gradients gain, and what is left of it with
the bytes that a downlink takes."""

import csv
import dataclasses
import io
import json

from terngrad_experiments import model_results, table_text
from terngrad_experiments.commits import commit_of
from terngrad_experiments.model_recipe import GRADIENTS

# Workers in the table of our own model, where they are listed.
SHOWN_WORKERS = (8, 64, 512, 4096, 32768, 100000)
DOWNLINKS = {"t2": "2 bits, as the chart", "lanes": "sums of {bits:g} bits", "bf16": "bf16", "fp32": "fp32"}


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    header: tuple
    rows: list
    is_detail: bool = False  # in pages and JSON only


def _computed(experiment, results):
    """[(cluster, recorded model)] of the clusters that are recorded."""
    found = [(cluster, model_results.model_of(results, experiment, cluster)) for cluster in experiment.model.clusters]
    return [(cluster, model) for cluster, model in found if model is not None]


def bars_of(model, net, gradients):
    """Images/s of the fitted model at each bar, None where nothing is recorded."""
    if model is None or model["figure5"] is None:
        return None
    named = (bars["model"] for bars in model["figure5"]["bars"] if (bars["net"], bars["gradients"]) == (net, gradients))
    return next(named, None)


def _images(value):
    return f"{value:,.0f}"


def throughput_section(experiment, cluster, model):
    """The paper's bars of one cluster, and below each row the model's."""
    rows = []
    for net in experiment.model.nets:
        for gradients in GRADIENTS:
            reading = experiment.model.reading(cluster.name, net.name, gradients)
            rows.append((net.name, gradients, "chart", *map(_images, reading.images_per_second)))
            fitted = bars_of(model, net.name, gradients)
            rows.append(("", "", "model", *(map(_images, fitted) if fitted else ("-",) * len(experiment.model.gpus))))
    rms = f", model within {model['figure5']['rms_percent']:.1f} % rms" if model and model["figure5"] else ""
    return Section(f"({cluster.name}) {cluster.title}: images/s{rms}", ("net", "gradients", "", *map(str, experiment.model.gpus)),
                   rows)


def _fitted_gain(model, net, place):
    pair = [bars_of(model, net, gradients) for gradients in ("ternary", "fp32")]
    return pair[0][place] / pair[1][place] if all(pair) else None


def _factor(value):
    return "-" if value is None else f"{value:.2f}"


def _small_factor(value):
    """Of what may be far below 1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def gains_section(experiment, results):
    """Images/s of ternary over those of fp32, on 8 and on all GPUs."""
    model, rows = experiment.model, []
    said = {(one.cluster, one.net, one.gpus): one.value for one in model.speed_ups}
    for cluster in model.clusters:
        recorded = model_results.model_of(results, experiment, cluster)
        for net in model.nets:
            line = [f"({cluster.name})", net.name]
            for gpus in (8, model.gpus[-1]):
                place = model.gpus.index(gpus)
                ternary, fp32 = (model.reading(cluster.name, net.name, kind).images_per_second[place]
                                 for kind in ("ternary", "fp32"))
                text = said.get((cluster.name, net.name, gpus))
                line += [_factor(ternary / fp32), _factor(_fitted_gain(recorded, net.name, place)),
                         "-" if text is None else f"{text:g}"]
            rows.append(tuple(line))
    of = [f"{gpus} GPUs: {what}" for gpus in (8, model.gpus[-1]) for what in ("chart", "model", "text")]
    return Section("Ternary over fp32, times as many images/s", ("cluster", "net", *of), rows)


def downlink_section(experiment, results):
    rows, gpus = [], None
    for cluster, model in _computed(experiment, results):
        if not model["figure5"]:
            continue
        gpus = model["figure5"]["by_downlink"]["gpus"]
        for row in model["figure5"]["by_downlink"]["rows"]:
            gains = [_factor(one[name]) for one in row["speed_ups"] for name in ("over_fp32", "over_bf16")]
            down = DOWNLINKS[row["downlink"]].format(bits=row["downlink_bits"])
            rows.append((f"({cluster.name})", f"{row['uplink_bits']:g} bits", down, *gains))
    of = [f"{net.name} /{name}" for net in experiment.model.nets for name in ("fp32", "bf16")]
    return Section(f"Speed-up by downlink: times as many images/s as fp32 and as bf16 on {gpus} GPUs, by what the downlink takes",
                   ("cluster", "up", "down", *of), rows) if rows else None


def way_name(way):
    """"fp32", "t2, downlink bf16", "t2, all-gather"."""
    if way["codec"] in ("fp32", "bf16"):
        return way["codec"]
    if way["codec"] == "lanes":
        return "t2, downlink sums in lanes"
    return f"{way['codec']}, all-gather" if way["downlink"] is None else f"{way['codec']}, downlink {way['downlink']}"


def baseline_of(net):
    """Images/s of fp32 over the numbers of workers, None where the cluster file has no such codec."""
    return next((way["images_per_second"] for way in net["ways"] if way["codec"] == "fp32"), None)


def scaling_section(experiment, results):
    """Our model: gain over fp32 with the fastest plan of each codec and downlink."""
    computed = _computed(experiment, results)
    if not computed:
        return None
    shown = [workers for workers in SHOWN_WORKERS if all(workers in model["workers"] for _, model in computed)]
    rows = []
    for cluster, model in computed:
        places = [model["workers"].index(workers) for workers in shown]
        trusted = model["cluster"]["extrapolated_above"]
        for net in model["nets"]:
            baseline = baseline_of(net)
            for way in net["ways"]:
                if way["codec"] != "fp32" and baseline is not None:
                    gains = [_small_factor(way["images_per_second"][n] / baseline[n]) + "*" * (model["workers"][n] > trusted)
                             for n in places]
                    rows.append((f"({cluster.name})", net["name"], way_name(way), *gains))
    return Section("Our model: times as many images/s as fp32, each with its fastest exchange, by workers (* extrapolated)",
                   ("cluster", "net", "codec", *(f"{workers:,}" for workers in shown)), rows)


def parts_section(experiment, results):
    rows = []
    for cluster, model in _computed(experiment, results):
        place = model["workers"].index(model["own_size"])
        for net in model["nets"]:
            for way in net["ways"]:
                parts = [f"{1000 * seconds:.1f}" for seconds in way["own_size"]["parts"]]
                sizes = [way["own_size"]["message_bytes"][name] for name in ("up", "down")]
                rows.append((f"({cluster.name})", net["name"], way_name(way), way["exchange"][place], f"{model['own_size']:,}",
                             *parts, f"{1000 * way['step_seconds'][place]:.1f}",
                             *("-" if size is None else f"{size / 1e6:.1f}" for size in sizes),
                             _images(way["images_per_second"][place])))
    return Section("Our model: parts of a step in ms, MB of a worker's message",
                   ("cluster", "net", "codec", "exchange", "workers", "compute", "encode", "exposed exchange", "decode", "update",
                    "step", "MB up", "MB down", "images/s"), rows, is_detail=True) if rows else None


def sections(experiment, results):
    found = [throughput_section(experiment, cluster, model_results.model_of(results, experiment, cluster))
             for cluster in experiment.model.clusters]
    found += [gains_section(experiment, results), downlink_section(experiment, results), scaling_section(experiment, results),
              parts_section(experiment, results)]
    return [section for section in found if section is not None]


def notes(experiment, results):
    lines = []
    computed = _computed(experiment, results)
    if len(computed) < len(experiment.model.clusters):
        lines.append(f"not all is computed: terngrad_experiment run '{experiment.name}/*'")
    for cluster, model in computed:
        trusted = model["cluster"]["extrapolated_above"]
        sources = {source: list(dict.fromkeys(name for net in model["nets"] for name in net["inputs"][source]))
                   for source in model_results.SOURCES}
        known = "; ".join(f"{source}: {', '.join(names)}" for source, names in sources.items() if names)
        lines.append(f"({cluster.name}) extrapolated beyond {trusted:,} workers, four times what its inputs were observed with; "
                     f"{known}")
    commits = dict.fromkeys(commit_of(model_results.result_of(results, experiment, cluster)) for cluster, _ in computed)
    if commits:
        lines.append(f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}")
    return lines + [f"assumed: {text}" for text in experiment.assumed]


def to_text(experiment, results):
    parts = [f"{experiment.name}: {experiment.title}"]
    for section in sections(experiment, results):
        if not section.is_detail:
            parts += ["", section.title, *table_text.aligned([section.header, *section.rows])]
    return "\n".join([*parts, "", *notes(experiment, results)])


def to_markdown(experiment, results):
    lines = []
    for section in sections(experiment, results):
        if not section.is_detail:
            lines += [f"**{section.title}**", "", *table_text.markdown_lines(section.header, section.rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes(experiment, results))])


def to_csv(experiment, results):
    """A line for each bar: what the chart has, and the fitted model, empty where nothing is recorded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cluster", "net", "gradients", "gpus", "chart", "model"])
    for cluster in experiment.model.clusters:
        recorded = model_results.model_of(results, experiment, cluster)
        for net in experiment.model.nets:
            for gradients in GRADIENTS:
                fitted = bars_of(recorded, net.name, gradients) or [None] * len(experiment.model.gpus)
                reading = experiment.model.reading(cluster.name, net.name, gradients)
                for gpus, chart, model in zip(experiment.model.gpus, reading.images_per_second, fitted):
                    writer.writerow([cluster.name, net.name, gradients, gpus, chart, model])
    return text.getvalue().rstrip("\n")


def to_json(experiment, results):
    """Of each cluster the chart's bars and what is recorded, null where nothing is."""
    clusters = [{"name": cluster.name, "title": cluster.title,
                 "chart": [{"net": net.name, "gradients": gradients,
                            "images_per_second": experiment.model.reading(cluster.name, net.name, gradients).images_per_second}
                           for net in experiment.model.nets for gradients in GRADIENTS],
                 "model": model_results.model_of(results, experiment, cluster)} for cluster in experiment.model.clusters]
    return json.dumps({"experiment": experiment.name, "title": experiment.title, "gpus": experiment.model.gpus,
                       "clusters": clusters, "assumed": experiment.assumed}, indent=1, sort_keys=True)


def render(experiment, results, form):
    return {"text": to_text, "markdown": to_markdown, "csv": to_csv, "json": to_json}[form](experiment, results)
