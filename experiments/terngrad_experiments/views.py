"""Cells without runs of their own, which look at runs of other cells: figures 2 and 4 at those of tables, claims at both."""


def sources(cell):
    """[(full name without scale, scale or None)] of the runs that a cell is shown by: its own at every scale, or those of the
    cells that it looks at, at every scale where their name has none."""
    if not cell.runs_of:
        return [(cell.base_name, None)]
    return [(base, scale or None) for base, _, scale in (name.partition("~") for name in cell.runs_of)]


def names_at(cell, scale):
    """Full names without scale of the runs that a cell is shown by at a scale."""
    return [base for base, fixed in sources(cell) if fixed in (None, scale)]


def names_of(experiments):
    """Of all runs that tables and figures of the experiments look at, without scale: keys of a dict, in order of the recipes."""
    return dict.fromkeys(base for experiment in experiments for cell in experiment.all_cells()
                         for base, _ in [*sources(cell), (cell.base_name, None)])


def results_for(experiments, results):
    """Those that tables and figures of the experiments look at: of cells of the experiments, and of others that these name."""
    names, own = names_of(experiments), {experiment.name for experiment in experiments}
    return [result for result in results if result["cell"] in names or result["cell"].partition("/")[0] in own]
