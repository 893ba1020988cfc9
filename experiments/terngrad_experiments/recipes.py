"""Recipes of a folder, and selection of cells by patterns.

A recipe is one TOML file for a table or figure (recipe_reader.py). Names of cells are experiment/cell[@variant][~1/N], where
~1/N is a run of an N-th of the steps. Accuracies and zeros of the paper are percentages.
"""

import fnmatch
import pathlib

from terngrad_experiments import recipe_fields as fields
from terngrad_experiments.cells import (Cell, Curve, Experiment, PaperPoint, Variant, command_line, compresses, divisor_of,
                                        is_compression, scaled)
from terngrad_experiments.recipe_fields import Fields, RecipeError
from terngrad_experiments.recipe_reader import KINDS, load, read_toml

__all__ = ["Cell", "Curve", "Experiment", "PaperPoint", "RecipeError", "Variant", "command_line", "compresses",
           "is_compression", "load", "load_all", "load_presets", "match", "scaled"]

PRESETS_FILE = "presets.toml"


def _split(pattern):
    """(experiment, cell, variant or None, scale) of a pattern."""
    base, has_scale, scale = pattern.partition("~")
    base, has_variant, variant = base.partition("@")
    experiment, _, cell = base.partition("/")
    if not experiment or (has_variant and not variant) or (has_scale and not scale):
        raise RecipeError(f"pattern '{pattern}': expected experiment/cell[@variant][~1/N], with * and ?")
    return experiment, cell or "*", variant if has_variant else None, scale if has_scale else "1"


def _matching(experiments, experiment, cell, variant):
    for each in experiments.values():
        if fnmatch.fnmatchcase(each.name, experiment):
            for found in each.cells if variant is None else each.variant_cells():
                is_wanted = variant is None or fnmatch.fnmatchcase(found.variant, variant)
                if is_wanted and fnmatch.fnmatchcase(found.name, cell):
                    yield found


def match(experiments, pattern):
    """Cells by a glob over names such as "table1/b128-n2-ternary"; "table1" means "table1/*". "@variant", itself a glob, selects
    variants; "~1/30" scales the cells. A cell that uses runs of others is replaced by these, unless it has missing requirements.

    @param experiments  as load_all returns
    @returns a list without repetitions, empty if nothing matches
    @throws RecipeError for a malformed pattern or scale"""
    experiment, cell, variant, scale = _split(pattern)
    found = {}
    for each in _matching(experiments, experiment, cell, variant):
        runs = [each]
        if each.runs_of and each.is_available:
            runs = [run for name in each.runs_of for run in match(experiments, name)]
        for run in runs:
            run = scaled(run, scale)
            found.setdefault(run.full_name, run)
    divisor_of(scale)  # rejects an invalid scale even if nothing matches
    return list(found.values())


def _is_cell_with_runs(experiments, name):
    """True if `name` is the full name of a cell with runs rather than a pattern."""
    try:
        *parts, scale = _split(name)
        return [scaled(cell, scale).full_name for cell in _matching(experiments, *parts) if cell.options] == [name]
    except RecipeError:
        return False


def _check_runs_of(experiments, files):
    for experiment in experiments.values():
        for cell in experiment.cells:
            for name in cell.runs_of:
                if not _is_cell_with_runs(experiments, name):
                    raise RecipeError(f"{files[experiment.name]}: cell '{cell.name}': 'runs_of': "
                                      f"'{name}' is no cell with runs")


def load_all(folder):
    """{name: Experiment} of all recipes of a folder, tables first. @throws RecipeError"""
    experiments, files = {}, {}
    for path in sorted(pathlib.Path(folder).glob("*.toml")):
        if path.name == PRESETS_FILE:
            continue
        experiment = load(path)
        if experiment.name in files:
            raise RecipeError(f"{path.name}: [experiment]: 'name': {files[experiment.name]} has '{experiment.name}' too")
        experiments[experiment.name] = experiment
        files[experiment.name] = path.name
    if not experiments:
        raise RecipeError(f"{folder}: there are no recipes (*.toml)")
    experiments = dict(sorted(experiments.items(), key=lambda item: (KINDS.index(item[1].kind), item[0])))
    _check_runs_of(experiments, files)
    return experiments


def load_presets(folder):
    """{name: patterns} of the folder's presets.toml; empty without that file. @throws RecipeError"""
    path = pathlib.Path(folder) / PRESETS_FILE
    if not path.exists():
        return {}
    read = Fields(read_toml(path), path.name)
    presets = read.take_table("presets")
    read.finish()
    own = Fields(presets, f"{path.name}: [presets]")
    result = {name: own.take(name, fields.list_of(fields.text)) for name in presets}
    for name, patterns in result.items():
        for pattern in patterns:
            try:
                divisor_of(_split(pattern)[3])
            except RecipeError as error:
                own.fail(name, error)
    return result
