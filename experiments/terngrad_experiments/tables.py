"""Tables: what was recorded of an experiment's cells, with what can be said of it, beside the paper's numbers."""

import csv
import dataclasses
import io
import json
import math

from terngrad_experiments import claims, pooling, predictions, recipes, statistics, views
from terngrad_experiments.commits import commit_of


@dataclasses.dataclass(frozen=True)
class Row:
    """One cell at one scale on one kind of device. Accuracies are percentages."""

    cell: str
    scale: str                        # "1" or "1/30"
    backend: str
    seeds: tuple                      # that are done
    values: tuple                     # beside seeds
    steps: int
    full_steps: int
    test_examples: int = 0
    source: str = ""                  # the full name of the runs, of a cell that looks at those of others
    failed: tuple = ()                # seeds
    unfinished: tuple = ()            # (seed, steps, value)
    commits: tuple = ()               # of the runs that are done
    baseline_commits: tuple = ()      # of those that the gap is to
    deviation: object = None          # of the values themselves
    pooled: object = None             # statistics.Deviation that intervals go by, None if by the row's own
    interval: object = None           # 95 % of the mean
    gap: object = None                # statistics.Comparison with the baseline, paired by seed
    gap_p_holm: float | None = None
    equivalence: object = None
    margin: float | None = None
    baseline: str = ""                # full name
    same_images: object = None        # predictions.SameImages of this cell and its baseline
    same_images_problems: tuple = ()  # why there is none, or which seeds are left out
    paper: float | None = None
    paper_confidence: str | None = None
    prediction: object = None         # 95 % of one more run of ours
    test_set_deviation: float | None = None
    has_baseline: bool = False

    @property
    def is_scaled(self):
        return self.scale != "1"

    @property
    def mixes_commits(self):
        """Whether something else than options and seeds may differ between the runs of this row."""
        return len({*self.commits, *self.baseline_commits}) > 1

    @property
    def mean(self):
        return statistics.mean(self.values) if self.values else None

    @property
    def paper_is_inside(self):
        """None where nothing can be said; a scaled run is never set against the paper."""
        if self.is_scaled or self.paper is None or self.prediction is None:
            return None
        return self.prediction.low <= self.paper <= self.prediction.high


@dataclasses.dataclass(frozen=True)
class PooledRows:
    """Rows whose deviations between seeds are taken as one, if they can be: of one scale, kind of device, net and data set."""

    scale: str
    backend: str
    net: str
    dataset: str
    pooling: pooling.Pooling

    @property
    def label(self):
        return f"{self.net}, {'all steps' if self.scale == '1' else '~' + self.scale}{'' if self.backend == 'cpu' else ', GPU'}"


@dataclasses.dataclass(frozen=True)
class Table:
    experiment: object
    rows: tuple
    assumed: tuple
    left_out: object = None           # commits.LeftOut
    poolings: tuple = ()              # PooledRows


def results_of(results, cell, scale, backend):
    """The last result of each seed."""
    chosen = {}
    for result in results:
        if (result["cell"], result["scale"], result.get("backend", "cpu")) == (cell, scale, backend):
            chosen[result["seed"]] = result
    return [chosen[seed] for seed in sorted(chosen)]


def accuracy_of(result, metric):
    final = result.get("final") or {}
    return 100 * final[metric] if metric in final else None


def samples_of(results, metric):
    """{seed: accuracy} of the runs that are done."""
    return {result["seed"]: accuracy_of(result, metric) for result in results if result["status"] == "done"}


def make_row(experiment, cell, scale, backend, results, labels):
    metric = experiment.metric
    own = results_of(results, cell.full_name, scale, backend)
    samples = samples_of(own, metric)
    values = tuple(samples.values())
    done = [result for result in own if result["status"] == "done"]
    row = Row(cell=cell.full_name, scale=scale, backend=backend, seeds=tuple(samples), values=values,
              steps=done[-1]["max_steps"] if done else 0, full_steps=int(cell.options.get("max_steps", 0)),
              test_examples=experiment.test_examples,
              failed=tuple(result["seed"] for result in own if result["status"] == "failed"),
              unfinished=tuple((result["seed"], result["steps"], accuracy_of(result, metric))
                               for result in own if result["status"] == "unfinished"),
              commits=tuple(dict.fromkeys(commit_of(result) for result in done)),
              paper=(cell.paper or {}).get(metric), paper_confidence=(cell.paper or {}).get("confidence"),
              margin=cell.margin or experiment.margin, has_baseline=cell.baseline is not None)
    if not values:
        return row
    deviation = statistics.sample_deviation(values) if len(values) > 1 else None
    test_set = 100 * statistics.accuracy_deviation(row.mean / 100, experiment.test_examples)
    row = dataclasses.replace(row, deviation=deviation, test_set_deviation=test_set)
    return with_gap(row, experiment, cell, scale, backend, results, labels)


def with_intervals(rows):
    """(rows with intervals, poolings). Deviations are pooled over the rows of one kind, if nothing speaks against it. Gaps keep
    those of their own pairs: gaps to one baseline share its runs, and are no independent samples.

    @param rows  (row, the cell of its runs)"""
    kinds = {}
    for index, (row, cell) in enumerate(rows):
        key = row.scale, row.backend, cell.options.get("net", ""), cell.options.get("dataset", "")
        kinds.setdefault(key, []).append(index)
    result, poolings = [row for row, _ in rows], []
    for key, indices in kinds.items():
        one_image = 100 / result[indices[0]].test_examples
        found = pooling.pool([dict(zip(result[i].seeds, result[i].values)) for i in indices], one_image)
        if found.p is not None:
            poolings.append(PooledRows(*key, found))
        for i in indices:
            values, deviation = result[i].values, found.deviation
            if values:
                result[i] = dataclasses.replace(result[i], interval=statistics.mean_interval(values, deviation=deviation),
                                                prediction=statistics.prediction_interval(values, deviation=deviation),
                                                pooled=deviation)
    return result, tuple(poolings)


def with_gap(row, experiment, cell, scale, backend, results, labels):
    if cell.baseline is None:
        return row
    name = f"{experiment.name}/{cell.baseline}"
    runs, baselines = ({result["seed"]: result for result in results_of(results, each, scale, backend)
                        if result["status"] == "done"} for each in (cell.full_name, name))
    common = sorted(set(runs) & set(baselines))
    if not common:
        return row
    gap = statistics.compare_paired(*([accuracy_of(each[seed], experiment.metric) for seed in common]
                                      for each in (runs, baselines)))
    equivalence = statistics.equivalence(gap, row.margin) if row.margin else None
    commits = tuple(dict.fromkeys(commit_of(baselines[seed]) for seed in common))
    same_images, problems = predictions.compare_if_possible(runs, baselines, cell.options.get("dataset"), labels)
    return dataclasses.replace(row, gap=gap, equivalence=equivalence, baseline=name, baseline_commits=commits,
                               same_images=same_images, same_images_problems=problems)


def with_holm(rows):
    """Holm's correction over the gaps of one table."""
    # Gaps that are yet to be measured belong to the family too.
    tested = [index for index, row in enumerate(rows) if row.has_baseline]
    corrected = statistics.holm([rows[index].gap.p if rows[index].gap else None for index in tested])
    rows = list(rows)
    for index, p in zip(tested, corrected):
        rows[index] = dataclasses.replace(rows[index], gap_p_holm=p)
    return rows


def runs_of(experiment, cell, experiments):
    """(experiment, cell, scale or None for every one) of the runs that a cell is shown by: its own, or those that it looks at."""
    if not cell.runs_of:
        return [(experiment, cell, None)]
    found = [(recipes.match(experiments, base)[0], scale) for base, scale in views.sources(cell)]
    return [(experiments[each.experiment], each, scale) for each, scale in found]


def rows_of(experiment, cell, results, labels, experiments):
    """(row, the cell of its runs) for each scale and kind of device that is recorded; one of all steps, or of the scale that is
    looked at, where nothing is."""
    for owner, source, fixed in runs_of(experiment, cell, experiments):
        found = {(result["scale"], result.get("backend", "cpu")) for result in results
                 if result["cell"] == source.full_name and fixed in (None, result["scale"])}
        if cell.variant is None and not any(scale == (fixed or "1") for scale, _ in found):
            found.add((fixed or "1", "cpu"))
        for scale, backend in sorted(found):
            row = make_row(owner, source, scale, backend, results, labels)
            if source is not cell:
                paper = cell.paper or {}
                row = dataclasses.replace(row, cell=cell.full_name, source=source.full_name,
                                          paper=paper.get(owner.metric, row.paper),
                                          paper_confidence=paper.get("confidence", row.paper_confidence))
            yield row, source


def make_table(experiment, results, left_out=None, labels=None, experiments=None):
    """Rows of all cells in order of the recipe, then of variants that were run, then of scaled runs.

    @param left_out     what was left out of the results, for the notes
    @param labels       a labels.Labels, for what predictions say; None to leave that
    @param experiments  all by name, for cells that look at runs of others; without them those have no row"""
    cells = [cell for cell in experiment.all_cells() if cell.options or (cell.runs_of and experiments)]
    rows = [each for cell in cells for each in rows_of(experiment, cell, results, labels, experiments)]
    rows.sort(key=lambda each: each[0].is_scaled)
    num_full = sum(not row.is_scaled for row, _ in rows)
    rows, poolings = with_intervals(rows)
    rows = with_holm(rows[:num_full]) + with_holm(rows[num_full:])
    assumed = tuple(dict.fromkeys(text for cell in experiment.cells for text in cell.assumed))
    return Table(experiment, tuple(rows), assumed, left_out, poolings)


def seeds_text(seeds):
    """1-3 for (1, 2, 3); "-" for none."""
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


# Beside the seeds of a row whose runs, or those of its baseline, are of several commits.
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
    """Which deviation the intervals go by, and why."""
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
    """Without that of the experiment; of a cell that looks at runs of others with theirs."""
    if row.source:
        return f"{row.cell.split('/', 1)[1]} ({row.source}{'' if not row.is_scaled else '~' + row.scale})"
    return row.cell.split("/", 1)[1] + ("" if not row.is_scaled else f"~{row.scale}") + ("" if row.backend == "cpu" else " (GPU)")


def same_images_text(row):
    """Which side the seeds favour on the same test images."""
    signs = row.same_images.signs
    return (f"same test images (McNemar): seeds that favour {name_of(row)} {signs.num_positive}, {row.baseline.split('/', 1)[1]} "
            f"{signs.num_negative}; sign test {p_text(signs.p)}")


SAME_IMAGES_HEADER = ("cell", "baseline", "seed", "only cell correct", "only baseline correct", "McNemar's exact p")


def same_images_rows(table):
    """The counts of discordant images of each pair of runs with predictions."""
    return [(name_of(row), row.baseline.split("/", 1)[1], *map(str, (one.seed, one.only_cell, one.only_baseline)), f"{one.p:.3g}")
            for row in table.rows if row.same_images for one in row.same_images.seeds]


def notes_of(table):
    notes = [pooling_text(rows, rows.label if len(table.poolings) > 1 else "") for rows in table.poolings]
    for num in dict.fromkeys(row.test_examples for row in table.rows):
        deviations = sorted({round(row.test_set_deviation, 2) for row in table.rows
                             if row.test_examples == num and row.test_set_deviation is not None})
        if deviations:
            span = f"{deviations[0]:.2f}" if deviations[0] == deviations[-1] else f"{deviations[0]:.2f} to {deviations[-1]:.2f}"
            notes.append(f"on other images: one standard deviation of an accuracy of {num:,} images is {span} points more")
    notes.extend(same_images_text(row) for row in table.rows if row.same_images)
    problems = dict.fromkeys(problem for row in table.rows for problem in row.same_images_problems)
    notes.extend(f"no test on the same images: {problem}" for problem in problems)
    commits = list(dict.fromkeys(commit for row in table.rows for commit in row.commits))
    if commits:
        notes.append(f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}")
    if any(row.mixes_commits for row in table.rows):
        notes.append(f"{MIXED.strip()} runs of several commits, the baseline's counted; --same_commit leaves all but the newest "
                     "out")
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
    return "\n".join([*result, "", *notes_of(table)])


def markdown_lines(header, rows):
    """A table of texts; a | within one is escaped."""
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (header, ["---"] * len(header), *rows)]


def to_markdown(table):
    lines = [*markdown_lines(HEADER, map(cells_of, table.rows)), "", *(f"- {note}" for note in notes_of(table))]
    rows = same_images_rows(table)
    return "\n".join([*lines, *(["", *markdown_lines(SAME_IMAGES_HEADER, rows)] if rows else [])])


def degrees_of_freedom(row):
    """Of the deviation that the row's intervals go by, None without them."""
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
    """JSON has no infinity: the ratio of a deviation to one of 0 is null."""
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
    """A table of kind claims, as text or markdown."""
    lines = [claims.HEADER, *claims.rows(experiment, results)]
    notes = [] if left_out is None else ["", f"- {left_out}" if form == "markdown" else str(left_out)]
    if form == "markdown":
        return "\n".join([*markdown_lines(lines[0], lines[1:]), *notes])
    return "\n".join([f"{experiment.name}: {experiment.title}", "", *aligned(lines), *notes])


def render(table, form):
    return {"text": to_text, "markdown": to_markdown, "csv": to_csv, "json": to_json}[form](table)
