"""Cells without own runs that use runs of other cells: figures 2 and 4 use those of tables, claims use both."""


def sources(cell):
    """[(full name without scale, scale or None for every scale)] of the runs that represent a cell: its own at every scale, or
    those of the cells that it uses, at every scale unless their name has one."""
    if not cell.runs_of:
        return [(cell.base_name, None)]
    return [(base, scale or None) for base, _, scale in (name.partition("~") for name in cell.runs_of)]


def names_at(cell, scale):
    """Full names without scale of the runs that represent a cell at a scale."""
    return [base for base, fixed in sources(cell) if fixed in (None, scale)]


def names_of(experiments):
    """Names without scale of all runs that the experiments' tables and figures use: keys of a dict, in order of the recipes."""
    return dict.fromkeys(base for experiment in experiments for cell in experiment.all_cells()
                         for base, _ in [*sources(cell), (cell.base_name, None)])


def results_for(experiments, results):
    """The results that the experiments' tables and figures use, of their own cells and of cells that these name."""
    names, own = names_of(experiments), {experiment.name for experiment in experiments}
    return [result for result in results if result["cell"] in names or result["cell"].partition("/")[0] in own]
