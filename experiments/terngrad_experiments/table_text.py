"""Tables as text, markdown, CSV and JSON, with the paper's numbers."""

import csv
import dataclasses
import io
import json
import math

from terngrad_experiments import claims, statistics


def seeds_text(seeds):
    """Formats seeds: 1-3 for (1, 2, 3); "-" for none."""
    seeds = sorted(seeds)
    if not seeds:
        return "-"
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds))


def mean_text(row):
    if not row.values:
        if row.failed:
            return f"FAILED (seed {seeds_text(row.failed)})"
        if row.unfinished:
            seed, steps, value = row.unfinished[-1]
            shown = "-" if value is None else f"{value:.2f}"
            return f"unfinished: {shown} at {steps:,} steps (seed {seed})"
        return "not run"
    if row.deviation is None:
        return f"{row.mean:.2f}"
    return f"{row.mean:.2f} +- {row.deviation:.2f}"


def interval_text(interval, count):
    if interval is None:
        return f"n = {count}" if 0 < count < statistics.MIN_VALUES else "-"
    return f"{interval.low:.2f}..{interval.high:.2f}"


def p_text(p):
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def gap_text(row):
    if row.gap is None:
        return "-"
    text = f"{row.gap.difference:+.2f}"
    if row.gap.interval is not None:
        text += f" ({row.gap.interval.low:+.2f}..{row.gap.interval.high:+.2f})"
    if row.gap.p is not None:
        text += f" {p_text(row.gap.p)}"
        if row.gap_p_holm is not None and row.gap_p_holm != row.gap.p:
            text += f", Holm {p_text(row.gap_p_holm)}"
    return text


def equivalence_text(row):
    if row.equivalence is None or row.equivalence.interval is None:
        return "-"
    return f"within {row.margin:g}" if row.equivalence.equivalent else f"not shown within {row.margin:g}"


def paper_text(row):
    if row.paper is None:
        return "-"
    return f"full run: {row.paper:.2f}" if row.is_scaled else f"{row.paper:.2f}"


def inside_text(row):
    if row.is_scaled:
        return f"{row.steps:,} of {row.full_steps:,} steps"
    if row.paper_is_inside is None:
        return "-"
    return f"{'yes' if row.paper_is_inside else 'no'} ({row.prediction.low:.2f}..{row.prediction.high:.2f})"


# Mark for rows whose runs, or their baseline's, have several commits.
MIXED = " *"
HEADER = ("cell", "seeds", "ours, mean +- sd", "95 % of mean", "gap to float, paired", "equivalent", "paper", "ours - paper",
          "paper inside our 95 % prediction")


def cells_of(row):
    difference = "-"
    if row.values and row.paper is not None and not row.is_scaled:
        difference = f"{row.mean - row.paper:+.2f}"
    seeds = seeds_text(row.seeds) + (MIXED if row.mixes_commits else "")
    return (name_of(row), seeds, mean_text(row), interval_text(row.interval, len(row.values)), gap_text(row),
            equivalence_text(row), paper_text(row), difference, inside_text(row))


def aligned(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]


def pooling_text(rows, label=""):
    """Text on the deviation that intervals use, with the reason."""
    found = rows.pooling
    ratio = "without bound, for one has equal seeds" if found.ratio == math.inf else f"{found.ratio:.1f}"
    tested = f"Bartlett's test of equal deviations {p_text(found.p)}, the largest over the smallest {ratio}"
    place = f" ({label})" if label else ""
    if found.deviation is None:
        return f"95 % of mean and prediction{place}: each by its own deviation; {found.num_cells} cells, {tested}"
    return (f"95 % of mean and prediction{place}: by one deviation of {found.deviation.value:.2f} points, pooled over "
            f"{found.num_cells} cells, {found.deviation.degrees_of_freedom:.1f} degrees of freedom; {tested}; gaps by their own "
            "pairs")


def name_of(row):
    """Name of a row without the experiment; with the source for cells that use runs of others."""
    scale, gpu = "" if not row.is_scaled else f"~{row.scale}", "" if row.backend == "cpu" else " (GPU)"
    name = row.cell.split("/", 1)[1]
    return (f"{name} ({row.source}{scale})" if row.source else name + scale) + gpu


def same_images_text(row):
    """Text on the seeds that favour each side on the same test images."""
    signs = row.same_images.signs
    return (f"same test images (McNemar): seeds that favour {name_of(row)} {signs.num_positive}, {row.baseline.split('/', 1)[1]} "
            f"{signs.num_negative}; sign test {p_text(signs.p)}")


SAME_IMAGES_HEADER = ("cell", "baseline", "seed", "only cell correct", "only baseline correct", "McNemar's exact p")


def same_images_rows(table):
    """Numbers of discordant images for each pair of runs with predictions."""
    return [(name_of(row), row.baseline.split("/", 1)[1], *map(str, (one.seed, one.only_cell, one.only_baseline)), f"{one.p:.3g}")
            for row in table.rows if row.same_images for one in row.same_images.seeds]


def same_images_notes(table):
    """Notes on the comparison of predictions, or on its absence."""
    problems = dict.fromkeys(problem for row in table.rows for problem in row.same_images_problems)
    return [*(same_images_text(row) for row in table.rows if row.same_images),
            *(f"no test on the same images: {problem}" for problem in problems)]


def not_run_notes(table):
    """Notes on rows of all steps without results, with reasons."""
    names = {}
    for row in table.rows:
        if not (row.is_scaled or row.is_run):
            names.setdefault(row.needs, []).append(name_of(row))
    return [f"not run: {', '.join(own)}: {'needs' if len(own) == 1 else 'need'} {', '.join(needs)}" if needs else
            f"not run yet: {', '.join(own)}; terngrad_experiment run {table.experiment.name}" for needs, own in names.items()]


def units_of(experiment):
    return (f"{experiment.metric.replace('top', 'Top-')} accuracy in % of {experiment.test_examples:,} test images, by the averaged "
            "weights after the last step; sd is the standard deviation between seeds; gaps and differences are in percentage "
            "points.")


def no_gap_notes(table):
    """Notes on rows with compression that have no gap although the table has gaps."""
    names = [name_of(row) for row in table.rows if row.compresses and not row.has_baseline and row.values]
    if not names or not any(row.has_baseline for row in table.rows):
        return []
    return [f"no gap: {', '.join(names)}, without a float cell that differs in compression, dropout and decay alone"]


def interval_notes(table):
    """Notes on the deviation that intervals use."""
    if table.poolings:
        return [pooling_text(rows, rows.label if len(table.poolings) > 1 else "") for rows in table.poolings]
    has_intervals = any(row.interval for row in table.rows)
    return ["95 % of mean and prediction: by the deviation of the row's own seeds"] if has_intervals else []


def notes_of(table):
    return [*not_run_notes(table), *reading_notes(table)]


def reading_notes(table):
    """Intervals, commits and assumptions: how the rows that have runs are to be read."""
    notes = [*interval_notes(table), *no_gap_notes(table)]
    for num in dict.fromkeys(row.test_examples for row in table.rows):
        deviations = sorted({round(row.test_set_deviation, 2) for row in table.rows
                             if row.test_examples == num and row.test_set_deviation is not None})
        if deviations:
            span = f"{deviations[0]:.2f}" if deviations[0] == deviations[-1] else f"{deviations[0]:.2f} to {deviations[-1]:.2f}"
            notes.append(f"on other images: one standard deviation of an accuracy of {num:,} images is {span} points more")
    commits = list(dict.fromkeys(commit for row in table.rows for commit in row.commits))
    if commits:
        notes.append(f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}")
    if any(row.mixes_commits for row in table.rows):
        notes.append(f"{MIXED.strip()} runs of several commits, the baseline's counted; --same_commit leaves all but the newest "
                     "out")
    notes.extend(f"{name_of(row)}: its runs were recorded with other options than the recipe's in {', '.join(row.other_options)}"
                 for row in table.rows if row.other_options)
    if table.left_out is not None:
        notes.append(str(table.left_out))
    notes.extend(f"assumed: {text}" for text in table.assumed)
    return notes


def to_text(table):
    experiment = table.experiment
    full = [row for row in table.rows if not row.is_scaled]
    scaled = [row for row in table.rows if row.is_scaled]
    lines = aligned([HEADER, *map(cells_of, full), *map(cells_of, scaled)])
    result = [f"{experiment.name}: {experiment.title}, {experiment.metric} %, {experiment.test_examples:,} test images", "",
              *lines[:1 + len(full)]]
    if scaled:
        result += ["SCALED, not comparable with the paper:", *lines[1 + len(full):]]
    return "\n".join([*result, "", *notes_of(table), *same_images_notes(table)])


def markdown_lines(header, rows):
    """A markdown table of texts, with | escaped."""
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (header, ["---"] * len(header), *rows)]


def to_markdown(table):
    notes = [*notes_of(table), *same_images_notes(table)]
    lines = [*markdown_lines(HEADER, map(cells_of, table.rows)), "", *(f"- {note}" for note in notes)]
    rows = same_images_rows(table)
    return "\n".join([*lines, *(["", *markdown_lines(SAME_IMAGES_HEADER, rows)] if rows else [])])


def degrees_of_freedom(row):
    """Degrees of freedom of the deviation that the row's intervals use, None without intervals."""
    if row.interval is None:
        return None
    return row.pooled.degrees_of_freedom if row.pooled else len(row.values) - 1


def to_csv(table):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", "scale", "backend", "seeds", "mean", "deviation", "low", "high", "gap", "gap_low", "gap_high", "gap_p",
                     "gap_p_holm", "paper", "source", "pooled_deviation", "degrees_of_freedom", "mixes_commits",
                     "seeds_that_favour_cell", "seeds_that_favour_baseline", "sign_test_p"])
    for row in table.rows:
        interval = row.interval
        gap = row.gap
        gap_interval = gap.interval if gap else None
        signs = row.same_images.signs if row.same_images else None
        writer.writerow([row.cell, row.scale, row.backend, " ".join(map(str, row.seeds)), row.mean, row.deviation,
                         interval and interval.low, interval and interval.high, gap and gap.difference,
                         gap_interval and gap_interval.low, gap_interval and gap_interval.high, gap and gap.p, row.gap_p_holm,
                         row.paper, row.source, row.pooled and row.pooled.value, degrees_of_freedom(row), row.mixes_commits,
                         signs and signs.num_positive, signs and signs.num_negative, signs and signs.p])
    return text.getvalue().rstrip("\n")


def without_infinity(value):
    """Replaces infinity, which JSON lacks, by None (ratio of a deviation to one of 0)."""
    if isinstance(value, dict):
        return {key: without_infinity(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


def to_json(table):
    rows = [{**dataclasses.asdict(row), "mean": row.mean, "paper_is_inside": row.paper_is_inside,
             "mixes_commits": row.mixes_commits} for row in table.rows]
    left_out = None if table.left_out is None else dataclasses.asdict(table.left_out)
    return json.dumps({"experiment": table.experiment.name, "title": table.experiment.title, "metric": table.experiment.metric,
                       "rows": rows, "poolings": [without_infinity(dataclasses.asdict(one)) for one in table.poolings],
                       "assumed": list(table.assumed), "same_commit": left_out}, indent=1, sort_keys=True)


def render_claims(experiment, results, form, left_out=None):
    """Formats a table of kind claims as text or markdown."""
    lines = [claims.HEADER, *claims.rows(experiment, results)]
    notes = [*claims.notes(experiment, results), *([] if left_out is None else [str(left_out)])]
    if form == "markdown":
        return "\n".join([*markdown_lines(lines[0], lines[1:]), "", *(f"- {note}" for note in notes)])
    return "\n".join([f"{experiment.name}: {experiment.title}", "", *aligned(lines), "", *notes])


def render(table, form):
    return {"text": to_text, "markdown": to_markdown, "csv": to_csv, "json": to_json}[form](table)
