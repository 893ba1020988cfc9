"""One HTML page of all recorded results: tables, plots, per-layer zeros, bytes, the commands that repeat each row, failures and
assumptions. Self-contained: embedded SVG and CSS, no script, nothing from the network; for light, dark and print."""

import pathlib
import shlex
import sys

from terngrad_experiments import claims, figures, jobs, model_figures, recipes, statistics, table_text, tables, views
from terngrad_experiments.cells import compresses
from terngrad_experiments.commits import commit_of
from terngrad_experiments.page import STYLE, escape, html_figures, html_list, html_table

MAX_BYTES = 4_000_000


class ReportError(Exception):
    """The page cannot be generated."""


def claims_section(experiment, results):
    rows = claims.rows(experiment, results)
    shown = html_table(claims.HEADER, rows) if rows else "<p>No run that it looks at is recorded.</p>"
    return shown + html_list(claims.notes(experiment, results))


def table_section(experiment, results, labels, experiments):
    """Rows and notes; parts that need the files of the data sets have the CSS class `labels`."""
    table = tables.make_table(experiment, results, labels=labels, experiments=experiments)
    if not table.rows:
        return "<p>It has no runs.</p>"
    # Rows without runs are one line, below.
    rows = [row for row in table.rows if row.is_scaled or row.is_run]
    shown = ""
    if rows:
        scales = " and ".join(dict.fromkeys(row.scale for row in rows if row.is_scaled))
        scaled = f" Grey rows are runs of {scales} of the steps, which are not comparable with the paper." if scales else ""
        shown = (f'<p class="soft">{escape(table_text.units_of(experiment) + scaled)}</p>' +
                 html_table(table_text.HEADER, [table_text.cells_of(row) for row in rows],
                            ["scaled" if row.is_scaled else "" for row in rows]))
    reading = table_text.reading_notes(table)
    return (shown + html_list(table_text.not_run_notes(table)) +
            (details("Intervals, commits and assumptions", html_list(reading)) if reading else "") + same_images_section(table))


def same_images_section(table):
    notes, rows = table_text.same_images_notes(table), table_text.same_images_rows(table)
    if not notes:
        return ""
    summary = "Discordant test images: correct in one of two runs of a seed alone"
    shown = details(summary, html_table(table_text.SAME_IMAGES_HEADER, rows)) if rows else ""
    return f'<section class="labels">{html_list(notes)}{shown}</section>'


def counted(experiment, results):
    """{(cell, scale, backend): the last result of each seed} of the runs that the experiment's tables and figures use."""
    names = list(views.names_of([experiment]))
    found = {(result["cell"], result["scale"], result.get("backend", "cpu")) for result in results if result["cell"] in names}
    return {key: tables.results_of(results, *key) for key in sorted(found, key=lambda key: (names.index(key[0]), key))}


def shown_name(cell, scale, backend):
    return cell + ("" if scale == "1" else f"~{scale}") + ("" if backend == "cpu" else " (GPU)")


def tensor_rows(experiment, results):
    """Mean zeros, clipping and SNR of each tensor over the runs that compress."""
    rows = []
    for key, runs in counted(experiment, results).items():
        sent = {}
        for run in (run for run in runs if run["status"] != "failed" and compresses(run["options"])):
            for tensor, numbers in run.get("tensors", {}).items():
                if numbers.get("zero_fraction") is not None:
                    sent.setdefault(tensor, []).append(numbers)
        for tensor, lines in sent.items():
            def mean(name, lines=lines):
                values = [line[name] for line in lines if line.get(name) is not None]
                return statistics.mean(values) if values else None

            def percent(value):
                return "-" if value is None else f"{100 * value:.1f}"
            snr, kept = mean("snr_db"), mean("kept_norm")
            rows.append((shown_name(*key), tensor, percent(mean("zero_fraction")), percent(mean("clip_fraction")),
                         "-" if kept is None else f"{100 * (1 - kept):.2f}", "-" if snr is None else f"{snr:.2f}"))
    return rows


def bytes_rows(experiment, results):
    rows = []
    for key, runs in counted(experiment, results).items():
        sent = [run["bytes"] for run in runs if run.get("bytes")]
        if sent:
            ratio = sent[-1].get("ratio")
            rows.append((shown_name(*key), f"{sent[-1]['bytes_per_worker_step']:,.0f}", "-" if ratio is None else f"{ratio:.2f}"))
    return rows


def failed_lines(experiment, results):
    """Lines on failed runs without a later success."""
    return [f"{shown_name(*key)} seed {run['seed']}: {run.get('error', '')}" for key, runs in counted(experiment, results).items()
            for run in runs if run["status"] == "failed"]


def command_of(cell):
    dataset = cell.options.get("dataset", "synthetic")
    data = None if dataset in jobs.BUILT_IN else f"data/{jobs.DATA_FOLDERS.get(dataset, (dataset,))[0]}"
    name = jobs.folder_name(cell.full_name)
    return shlex.join(["terngrad_train", *recipes.command_line(cell, cell.seeds[0] if cell.seeds else 1, f"runs/{name}", data)])


def plots_section(experiment, results):
    drawings = figures.drawings_of(experiment, results)
    if drawings:
        return html_figures(drawings, figures.caption_of(experiment))
    return "<p>No figure yet: no run that it draws is recorded.</p>" if experiment.kind == "figure" else ""


def details(summary, content):
    return f"<details><summary>{summary}</summary>{content}</details>"


def section(experiment, results, labels, experiments):
    own = views.results_for([experiment], results)
    parts = [f'<h2 id="{escape(experiment.name)}">{escape(experiment.name)}: {escape(experiment.title)}</h2>',
             f'<p class="soft">{escape(experiment.source)}</p>' if experiment.source else ""]
    if experiment.kind == "model":
        return "\n".join([*parts, model_figures.section(experiment)])
    if experiment.kind == "claims":
        return "\n".join([*parts, claims_section(experiment, own)])
    parts += [table_section(experiment, own, labels, experiments), plots_section(experiment, own)]
    rows = bytes_rows(experiment, own)
    if rows:
        parts.append(details("Bytes on the wire", html_table(("cell", "bytes per worker and step", "ratio to fp32"), rows)))
    rows = tensor_rows(experiment, own)
    if rows:
        header = ("cell", "tensor", "zeros, %", "clipped, %", "length lost to clipping, %", "SNR, dB")
        parts.append(details("What was sent of each tensor, mean over the runs", html_table(header, rows)))
    runnable = [cell for cell in experiment.cells if "max_steps" in cell.options]
    if runnable:
        commands = "\n".join(command_of(cell) for cell in runnable)
        parts.append(details("Commands of each row", f"<pre>{escape(commands)}</pre>"))
    failed = failed_lines(experiment, own)
    if failed:
        parts.append(f"<h3>Failed</h3>{html_list(failed)}")
    return "\n".join(part for part in parts if part)


def order_of(experiment, results):
    """0 for experiments with runs of all steps, 1 for those with scaled runs alone, 2 for those without runs."""
    scales = {result["scale"] for result in views.results_for([experiment], results)}
    return 0 if "1" in scales or experiment.kind == "model" else 1 if scales else 2


def where_section(results):
    machines = dict.fromkeys(f"{result['machine'].get('cores')} cores of {result['machine'].get('cpu')}, {result['backend']}"
                             for result in results if result.get("machine"))
    commits = dict.fromkeys(commit_of(result) for result in results)
    seconds = sum(result.get("seconds") or 0 for result in results)
    done = sum(result["status"] == "done" for result in results)
    lines = [f"machines: {'; '.join(machines) or 'none'}", f"commits: {', '.join(commits) or 'none'}"]
    return (f'<p class="soft">{done} runs, {seconds / 3600:.1f} hours where the time is known.</p>' +
            details("Machines and commits", html_list(lines)))


def make_page(experiments, results, left_out=None, labels=None, all_experiments=None):
    """@param left_out  a LeftOut: omitted results of other commits; None without --same_commit
    @param labels    a labels.Labels, for comparing predictions; None: no comparison
    @param all_experiments  by name, for cells that use runs of others, which otherwise have no rows
    @throws ReportError for a page above MAX_BYTES"""
    ordered = sorted(experiments, key=lambda experiment: order_of(experiment, results))
    sections = {experiment.name: section(experiment, results, labels, all_experiments) for experiment in ordered}
    links = "\n".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in sections)
    body = "\n".join(sections.values())
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>terngrad: the paper's experiments</title><style>{STYLE}</style></head>
<body><h1>terngrad: the paper's experiments</h1>
<p>TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning (Wen et al., NIPS 2017), its tables and figures as
runs of terngrad_train. The paper has one run of each cell; ours are several, whose seeds give equal initial weights, data order and
augmentation to float and ternary. Intervals are 95 % intervals over seeds; gaps are paired by seed.</p>
{where_section(results)}{f'<p class="soft">{escape(left_out)}.</p>' if left_out else ""}
<nav>{links}</nav>
{body}
</body></html>
"""
    if len(page.encode()) > MAX_BYTES:
        raise ReportError(f"the report has {len(page.encode())} bytes, at most {MAX_BYTES}; name fewer recipes")
    return page


def draw(experiment, results, options):
    """`plot`: @returns the exit code"""
    drawing = model_figures.drawing(experiment) if experiment.kind == "model" else figures.drawing_of(experiment, results)
    if drawing is None:
        print(f"terngrad_experiment: nothing of {experiment.name} is recorded", file=sys.stderr)
        return 1
    if options.output is None and options.format == "svg":
        print(drawing.svg())
    else:
        drawing.save(options.output or pathlib.Path("plot.png"), options.format)
    return 0
