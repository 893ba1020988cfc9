"""One HTML page of what is recorded: tables, plots, per-layer zeros, bytes, the commands that repeat each row, what failed and what
was assumed. Inline SVG and CSS, no script, nothing from the network; reads in light, dark and print."""

import html
import shlex
import subprocess
import sys
import tempfile

from terngrad_experiments import claims, figures, jobs, model_figures, recipes, table_text, tables, views
from terngrad_experiments.commits import commit_of

MAX_BYTES = 2_000_000


class ReportError(Exception):
    """A page that cannot be made."""

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --row: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --text: #e6e9ec; --soft: #9aa4ae; --line: #3a424a; --row: #1d2226; }
}
body { background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem;
       padding: 1.5rem; }
h1, h2, h3 { line-height: 1.2; } h2 { border-bottom: 1px solid var(--line); margin-top: 3rem; padding-bottom: .3rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--row); } .soft, tr.scaled td { color: var(--soft); }
figure { margin: 1rem 0; } .plots { display: flex; flex-wrap: wrap; gap: 0 1rem; } .plots svg { height: auto; max-width: 100%; }
.plots figure { flex: 1 1 32rem; margin: .5rem 0; } /* two beside each other where there is room */
details { margin: .5rem 0; } pre { background: var(--row); font-size: .8rem; overflow-x: auto; padding: .6rem; }
@media print { body { max-width: none; } .scroll { overflow: visible; } th, td { white-space: normal; } }
"""


def escape(text):
    return html.escape(str(text))


def html_table(header, rows, classes=None):
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = []
    for index, row in enumerate(rows):
        mark = f' class="{classes[index]}"' if classes and classes[index] else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def claims_section(experiment, results):
    rows = claims.rows(experiment, results)
    return html_table(claims.HEADER, rows) if rows else "<p>No run that it looks at is recorded.</p>"


def table_section(experiment, results, labels, experiments):
    if experiment.kind == "claims":
        return claims_section(experiment, results)
    table = tables.make_table(experiment, results, labels=labels, experiments=experiments)
    if not table.rows:
        return "<p>It has no runs.</p>"
    rows = [table_text.cells_of(row) for row in table.rows]
    classes = ["scaled" if row.is_scaled else "" for row in table.rows]
    notes = "".join(f"<li>{escape(note)}</li>" for note in table_text.notes_of(table))
    scaled = ""
    if any(classes):
        scaled = "<p class=soft>Grey rows are scaled runs, which are not comparable with the paper.</p>"
    return html_table(table_text.HEADER, rows, classes) + scaled + f'<ul class="soft">{notes}</ul>' + same_images_section(table)


def same_images_section(table):
    rows = table_text.same_images_rows(table)
    if not rows:
        return ""
    return ("<details><summary>Discordant test images: correct in one of two runs of a seed alone</summary>" +
            html_table(table_text.SAME_IMAGES_HEADER, rows) + "</details>")


def tensor_rows(experiment, results):
    """Mean zeros, clipping and SNR of each tensor over the ternary runs of the experiment."""
    sums = {}
    names = views.names_of([experiment])
    for result in results:
        if result["cell"] not in names or result["status"] == "failed":
            continue
        for tensor, numbers in result.get("tensors", {}).items():
            if numbers.get("zero_fraction") is not None:
                sums.setdefault((result["cell"], tensor), []).append(numbers)
    rows = []
    for (cell, tensor), lines in sums.items():
        if not cell.endswith("ternary") and "@" not in cell:
            continue

        def mean(name, lines=lines):
            values = [line[name] for line in lines if line.get(name) is not None]
            return sum(values) / len(values) if values else None

        def percent(value):
            return "-" if value is None else f"{100 * value:.1f}"
        snr, kept = mean("snr_db"), mean("kept_norm")
        rows.append((cell, tensor, percent(mean("zero_fraction")), percent(mean("clip_fraction")),
                     "-" if kept is None else f"{100 * (1 - kept):.2f}", "-" if snr is None else f"{snr:.2f}"))
    return rows


def bytes_rows(experiment, results):
    rows = {}
    names = views.names_of([experiment])
    for result in results:
        if result["cell"] in names and result.get("bytes"):
            ratio = result["bytes"].get("ratio")
            rows[result["cell"], result["scale"]] = (
                result["cell"], f"{result['bytes']['bytes_per_worker_step']:,.0f}", "-" if ratio is None else f"{ratio:.2f}")
    return list(rows.values())


def command_of(cell):
    dataset = cell.options.get("dataset", "synthetic")
    data = None if dataset == "synthetic" else f"data/{jobs.DATA_FOLDERS.get(dataset, (dataset,))[0]}"
    name = jobs.folder_name(cell.full_name)
    return shlex.join(["terngrad_train", *recipes.command_line(cell, cell.seeds[0] if cell.seeds else 1, f"runs/{name}", data)])


def section(experiment, results, labels, experiments):
    own = views.results_for([experiment], results)
    parts = [f'<h2 id="{escape(experiment.name)}">{escape(experiment.name)}: {escape(experiment.title)}</h2>',
             f'<p class="soft">{escape(experiment.source)}</p>' if experiment.source else ""]
    if experiment.kind == "model":
        return "\n".join([*parts, model_figures.section(experiment, own, html_table, escape)])
    parts.append(table_section(experiment, own, labels, experiments))
    if experiment.kind == "claims":
        return "\n".join(part for part in parts if part)
    drawings = figures.drawings_of(experiment, own)
    if drawings:
        parts.append('<div class="plots">' + "".join(f"<figure>{drawing}</figure>" for drawing in drawings) + "</div>")
    rows = bytes_rows(experiment, own)
    if rows:
        parts.append("<details><summary>Bytes on the wire</summary>" +
                     html_table(("cell", "bytes per worker and step", "ratio to fp32"), rows) + "</details>")
    rows = tensor_rows(experiment, own)
    if rows:
        parts.append("<details><summary>What was sent of each tensor, mean over the runs</summary>" + html_table(
            ("cell", "tensor", "zeros, %", "clipped, %", "length lost to clipping, %", "SNR, dB"), rows) + "</details>")
    runnable = [cell for cell in experiment.cells if "max_steps" in cell.options]
    if runnable:
        commands = "\n".join(command_of(cell) for cell in runnable)
        parts.append(f"<details><summary>Commands of each row</summary><pre>{escape(commands)}</pre></details>")
    failed = [result for result in own if result["status"] == "failed"]
    if failed:
        lines = "".join(f"<li>{escape(result['cell'])} seed {result['seed']}: {escape(result.get('error', ''))}</li>"
                        for result in failed)
        parts.append(f"<h3>Failed</h3><ul>{lines}</ul>")
    return "\n".join(part for part in parts if part)


def where_text(results):
    machines = dict.fromkeys(f"{result['machine'].get('cores')} cores of {result['machine'].get('cpu')}, {result['backend']}"
                             for result in results if result.get("machine"))
    commits = dict.fromkeys(commit_of(result) for result in results)
    seconds = sum(result.get("seconds") or 0 for result in results)
    done = sum(result["status"] == "done" for result in results)
    return (f"{done} runs, {seconds / 3600:.1f} hours where the time is known; on {'; '.join(machines) or 'no machine'}; "
            f"commits {', '.join(commits) or '-'}.")


def make_page(experiments, results, left_out=None, labels=None, all_experiments=None, more=None):
    """@param left_out  what was left out of the results by their commit, None if nothing was asked for
    @param labels    a labels.Labels, for what predictions say; None to leave that
    @param all_experiments  by name, for cells that look at runs of others; without them those have no rows
    @param more      {name: HTML} of sections that are not of recipes
    @throws ReportError for a page above MAX_BYTES"""
    sections = {experiment.name: section(experiment, results, labels, all_experiments) for experiment in experiments}
    sections |= more or {}
    links = " ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in sections)
    body = "\n".join(sections.values())
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>terngrad: the paper's experiments</title><style>{STYLE}</style></head>
<body><h1>terngrad: the paper's experiments</h1>
<p>TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning (Wen et al., NIPS 2017), its tables and figures as
runs of terngrad_train. The paper has one run of each cell; ours are several, whose seeds give equal initial weights, data order and
augmentation to float and ternary. Intervals are 95 % intervals over seeds; gaps are paired by seed.</p>
<p class="soft">{escape(where_text(results))}{escape(f" {left_out}." if left_out else "")}</p><p>{links}</p>
{body}
</body></html>
"""
    if len(page.encode()) > MAX_BYTES:
        raise ReportError(f"the report has {len(page.encode())} bytes, at most {MAX_BYTES}; name fewer recipes")
    return page


def draw(experiment, results, options):
    """`plot`: @returns the exit code, 77 where PNG cannot be made"""
    if experiment.kind == "model":
        return emit_drawing(model_figures.drawing(experiment, results), options)
    drawing = figures.drawing_of(experiment, results)
    if drawing is None:
        print(f"terngrad_experiment: nothing of {experiment.name} is recorded", file=sys.stderr)
        return 1
    return emit_drawing(drawing, options)


def emit_drawing(drawing, options):
    if options.format == "png":
        return write_png(drawing, options.output)
    if options.output is None:
        print(drawing)
    else:
        options.output.write_text(drawing, encoding="utf-8")
    return 0


def write_png(drawing, output):
    with tempfile.NamedTemporaryFile("w", suffix=".svg", encoding="utf-8") as file:
        file.write(drawing)
        file.flush()
        try:
            subprocess.run(["rsvg-convert", "-z", "2", "-o", str(output or "plot.png"), file.name], check=True)
        except OSError:
            print("skipped: no rsvg-convert; install librsvg2-bin for PNG files", file=sys.stderr)
            return 77
    return 0
