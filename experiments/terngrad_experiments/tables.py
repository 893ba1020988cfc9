"""Rows of tables: recorded results of an experiment's cells with their statistics. table_text.py formats them."""

import dataclasses

from terngrad_experiments import pooling, predictions, recipes, statistics, store, views
from terngrad_experiments.cells import compresses
from terngrad_experiments.commits import commit_of


@dataclasses.dataclass(frozen=True)
class Row:
    """One cell at one scale on one device kind. Accuracies are percentages."""

    cell: str
    scale: str                        # "1" or "1/30"
    backend: str
    seeds: tuple                      # finished seeds
    values: tuple                     # parallel to seeds
    steps: int
    full_steps: int
    test_examples: int = 0
    source: str = ""                  # full name of the runs, for a cell that uses runs of others
    failed: tuple = ()                # failed seeds
    unfinished: tuple = ()            # (seed, steps, value)
    needs: tuple = ()                 # missing requirements for running it
    compresses: bool = False
    commits: tuple = ()               # commits of the finished runs
    other_options: tuple = ()         # names of options in which the runs differ from the current recipe
    baseline_commits: tuple = ()      # commits of the baseline's runs
    deviation: object = None          # deviation of the values
    pooled: object = None             # statistics.Deviation that intervals use, None for the row's own
    interval: object = None           # 95 % interval of the mean
    gap: object = None                # statistics.Comparison with the baseline, paired by seed
    gap_p_holm: float | None = None
    equivalence: object = None
    margin: float | None = None
    baseline: str = ""                # full name of the baseline
    same_images: object = None        # predictions.SameImages of this cell and its baseline
    same_images_problems: tuple = ()  # reasons why it is missing or lacks seeds
    paper: float | None = None
    paper_confidence: str | None = None
    prediction: object = None         # 95 % prediction interval of a further run
    test_set_deviation: float | None = None
    has_baseline: bool = False

    @property
    def is_scaled(self):
        return self.scale != "1"

    @property
    def is_run(self):
        return bool(self.values or self.failed or self.unfinished)

    @property
    def mixes_commits(self):
        """True if the runs of this row may differ in more than options and seeds."""
        return len({*self.commits, *self.baseline_commits}) > 1

    @property
    def mean(self):
        return statistics.mean(self.values) if self.values else None

    @property
    def paper_is_inside(self):
        """True if the paper's value is in the prediction interval; None if unknown, and for scaled runs."""
        if self.is_scaled or self.paper is None or self.prediction is None:
            return None
        return self.prediction.low <= self.paper <= self.prediction.high


@dataclasses.dataclass(frozen=True)
class PooledRows:
    """Rows of one scale, device kind, net and data set, whose deviations between seeds are pooled if possible."""

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


def last_of_seeds(results):
    """The last result of each seed, by seed."""
    chosen = {result["seed"]: result for result in results}
    return [chosen[seed] for seed in sorted(chosen)]


def results_of(results, cell, scale, backend):
    """The last result of each seed of a cell."""
    return last_of_seeds(result for result in results
                         if (result["cell"], result["scale"], result.get("backend", "cpu")) == (cell, scale, backend))


def accuracy_of(result, metric):
    final = result.get("final") or {}
    return 100 * final[metric] if metric in final else None


def samples_of(results, metric):
    """{seed: accuracy} of the finished runs."""
    return {result["seed"]: accuracy_of(result, metric) for result in results if result["status"] == "done"}


def other_options(cell, runs):
    """Names of options in which recorded runs differ from the scaled cell."""
    own = store.round_floats(cell.options)
    return tuple(sorted({name for run in runs if run["options"] for name in {*own, *run["options"]}
                         if own.get(name) != run["options"].get(name)}))


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
              other_options=other_options(recipes.scaled(cell, scale), done),
              needs=cell.needs, compresses=compresses(cell.options), paper=(cell.paper or {}).get(metric),
              paper_confidence=(cell.paper or {}).get("confidence"), margin=cell.margin or experiment.margin,
              has_baseline=cell.baseline is not None)
    if not values:
        return row
    deviation = statistics.sample_deviation(values) if len(values) > 1 else None
    test_set = 100 * statistics.accuracy_deviation(row.mean / 100, experiment.test_examples)
    row = dataclasses.replace(row, deviation=deviation, test_set_deviation=test_set)
    return with_gap(row, experiment, cell, scale, backend, results, labels)


def with_intervals(rows):
    """(rows with intervals, poolings). Deviations are pooled over the rows of one kind, if the test allows it. Gaps use the
    deviation of their own pairs, because gaps to one baseline share its runs and are not independent samples.
    
    @param rows  list of (row, the cell of its runs)"""
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
    # Gaps that are not measured yet belong to the family, too.
    tested = [index for index, row in enumerate(rows) if row.has_baseline]
    corrected = statistics.holm([rows[index].gap.p if rows[index].gap else None for index in tested])
    rows = list(rows)
    for index, p in zip(tested, corrected):
        rows[index] = dataclasses.replace(rows[index], gap_p_holm=p)
    return rows


def runs_of(experiment, cell, experiments):
    """(experiment, cell, scale or None for all scales) of the runs that represent a cell: its own, or those that it uses."""
    if not cell.runs_of:
        return [(experiment, cell, None)]
    found = [(recipes.match(experiments, base)[0], scale) for base, scale in views.sources(cell)]
    return [(experiments[each.experiment], each, scale) for each, scale in found]


def rows_of(experiment, cell, results, labels, experiments):
    """(row, the cell of its runs) for each recorded scale and device kind. Cells that are not variants also have a row for all
    steps, or the scale that they use, without results."""
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

    @param left_out     a LeftOut, for the notes
    @param labels       a labels.Labels, for comparing predictions; None: no comparison
    @param experiments  all experiments by name, for cells that use runs of others, which otherwise have no row"""
    cells = [cell for cell in experiment.all_cells() if cell.options or (cell.runs_of and experiments)]
    rows = [each for cell in cells for each in rows_of(experiment, cell, results, labels, experiments)]
    rows.sort(key=lambda each: each[0].is_scaled)
    num_full = sum(not row.is_scaled for row, _ in rows)
    rows, poolings = with_intervals(rows)
    rows = with_holm(rows[:num_full]) + with_holm(rows[num_full:])
    assumed = tuple(dict.fromkeys(text for cell in experiment.cells for text in cell.assumed))
    return Table(experiment, tuple(rows), assumed, left_out, poolings)
