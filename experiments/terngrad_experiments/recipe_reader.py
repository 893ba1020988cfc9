"""Reads and validates a recipe, one TOML file for a table or figure."""

import dataclasses
import fnmatch
import pathlib
import re
import tomllib

from terngrad_experiments import cells as cell_module
from terngrad_experiments import model_recipe
from terngrad_experiments import recipe_fields as fields
from terngrad_experiments.cells import METRICS, STEP_LISTS, Cell, Curve, Experiment, PaperPoint, Variant
from terngrad_experiments.recipe_fields import Fields, RecipeError

# Order in which experiments are listed, and searched for the cell of an imported run.
KINDS = ("table", "figure", "model", "claims")
# Quantities of claims in the paper's text, each a value or [low, high]. top1_gap: first of `runs_of` minus second, in
# percentage points. Ratios are bits of fp32 over bits sent.
CLAIMS = ("norm_change_percent", "angle_degrees", "zero_percent", "top1_gap", "uplink_ratio", "downlink_ratio")
# Options that the paper itself changes with ternary gradients.
REGULARIZATION = ("dropout_keep_prob", "weight_decay")
# Options set by the driver, so that a recipe does not depend on seed, folders and machine.
OF_DRIVER = ("seed", "train_dir", "data_dir", "resume", "threads", "device", "config", "help", "version")
# Aliases of options are rejected, because they would hide differences between cells.
ALIASES = {"dataset_name": "dataset"}
NEEDED_OPTIONS = ("dataset", "batch_size", "max_steps")


def _option_value(value):
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            raise ValueError("expected a list of texts")
        return tuple(value)
    return value if isinstance(value, (bool, str)) else fields.number(value)


def _read_options(table, place):
    read = Fields(table, place)
    for name in table:
        if name in OF_DRIVER:
            read.fail(name, "is no option of a recipe, the driver gives it")
        if name in ALIASES:
            read.fail(name, f"is another name of {ALIASES[name]}; write that")
    return {name: read.take(name, _option_value) for name in table}


def _check_options(read, options):
    for name in NEEDED_OPTIONS:
        if name not in options:
            read.fail(name, "is missing in [options] and in the cell's options")
    for name in ("batch_size", "max_steps", "num_nodes"):
        value = options.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            read.fail(name, f"expected an integer of at least 1, found {fields.shown(value)}")
    for name in ("eval_steps", "num_epochs_per_decay"):
        if isinstance(options.get(name, 1), (bool, str, tuple)):
            read.fail(name, f"expected a number, found {fields.shown(options[name])}")
    for name in STEP_LISTS:
        value = options.get(name, "0")
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]+(,[0-9]+)*", value):
            shown = fields.shown(value)
            read.fail(name, f"expected a text of steps separated by commas, found {shown}; ranges could not be scaled")
    if options["batch_size"] % options.get("num_nodes", 1) != 0:
        read.fail("batch_size", f"{options['batch_size']} does not divide over num_nodes {options['num_nodes']}")
    if options.get("learning_rate_decay_type") == "exponential" and "num_epochs_per_decay" not in options:
        read.fail("num_epochs_per_decay", "is missing; without it an exponential schedule could not be scaled")


def _claimed(value):
    """Kind: a number or [low, high]."""
    if isinstance(value, list):
        low, high = map(fields.number, value) if len(value) == 2 else (1, 0)
        if low > high:
            raise ValueError("expected a number or [low, high]")
        return low, high
    return fields.number(value)


def _percent(value):
    if not 0 < fields.number(value) <= 100:
        raise ValueError("expected percent, above 0 and at most 100")
    return value


def _read_paper(table, place, kind):
    read = Fields(table, place)
    values = {name: read.take(name, _percent, None) for name in METRICS}
    if kind == "claims":
        values |= {name: read.take(name, _claimed, None) for name in CLAIMS}
    paper = {name: value for name, value in values.items() if value is not None}
    paper["confidence"] = read.take("confidence", fields.one_of(fields.CONFIDENCES))
    read.finish()
    if len(paper) == 1:
        read.fail("confidence", "is of no value")
    return paper


def _read_needs(read):
    available = read.take("available", fields.boolean, None)
    needs = read.take("needs", fields.list_of(fields.text), ())
    if available is True and needs:
        read.fail("available", "is true, and 'needs' says what is missing")
    if available is False and not needs:
        read.fail("needs", "is missing; it says why the cells are not available")
    return needs


def _read_cell(table, place, head, common):
    read = Fields(table, place)
    name = read.take("name", fields.name)
    own = _read_options(read.take_table("options"), f"{place}: 'options'")
    runs_of = read.take("runs_of", fields.list_of(fields.text), ())
    command = read.take("command", fields.text, None)
    has_paper, paper = "paper" in table, read.take_table("paper")
    cell = Cell(head.name, name, {} if runs_of or command else {**common, **own}, head.seeds,
                _read_paper(paper, f"{place}: 'paper'", head.kind) if has_paper else None,
                read.take("baseline", fields.name, None), read.take("margin", fields.positive, head.margin),
                (*head.assumed, *read.take("assumed", fields.list_of(fields.text), ())), (*head.needs, *_read_needs(read)),
                runs_of, read.take("tensors", fields.list_of(fields.text), ()), command)
    read.finish()
    if (runs_of or command) and (own or cell.baseline or (runs_of and command)):
        read.fail("runs_of" if runs_of else "command", "excludes 'options', 'baseline' and each other")
    if not (runs_of or command):
        _check_options(read, cell.options)
        if not cell.seeds:
            raise RecipeError(f"{head.place}: 'seeds': is missing; cell '{name}' has runs")
    if has_paper and head.kind in ("table", "figure") and head.metric not in paper:
        read.fail("paper", f"has no {head.metric}, the experiment's metric")
    return cell


def _check_unique(place, key, items):
    names = [item.name for item in items]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"{place}: {key} '{name}': 'name': is there twice")


def _check_baseline(place, experiment, cell):
    """@throws RecipeError if the baseline is missing or differs in more than compression, dropout and decay. The number of
    workers may differ, at the same total batch, if the baseline's training does not depend on it, and the optimizer if the
    workers' memory has its momentum, or if both are Adam and the cell's sends directions."""
    if cell.baseline is None:
        return
    place = f"{place}: cell '{cell.short_name}': 'baseline'"
    baselines = [each for each in experiment.all_cells() if each.short_name == cell.baseline and each.options]
    if not baselines or cell.baseline == cell.short_name:
        raise RecipeError(f"{place}: there is no other cell '{cell.baseline}' with runs")
    theirs = baselines[0].options
    reason = cell_module.depends_on_workers(theirs)
    if cell.options.get("num_nodes", 1) != theirs.get("num_nodes", 1) and reason is not None:
        raise RecipeError(f"{place}: '{cell.baseline}' differs in num_nodes; only a baseline may whose mean of gradients does "
                          f"not depend on it, as by its {reason} this one's does")
    same = {"num_nodes"}
    if cell_module.moves_momentum(cell.options, theirs):
        same |= {"optimizer", "momentum"}
    if cell_module.is_adam_of_directions(cell.options, theirs):
        same |= {"optimizer", "compress_from", "variance_update_scaler"}
    for name in sorted({*cell.options, *theirs} - same):
        if cell.options.get(name) != theirs.get(name) and not cell_module.is_compression(name) and name not in REGULARIZATION:
            raise RecipeError(f"{place}: '{cell.baseline}' differs in {name}; only options of compression, "
                              f"{' and '.join(REGULARIZATION)} may")


def _read_point(table, place, cells):
    read = Fields(table, place)
    number = fields.number
    point = PaperPoint(read.take("y", number), read.take("confidence", fields.one_of(fields.CONFIDENCES)),
                       read.take("x", number, None), read.take("error", fields.positive, None), read.take("low", number, None),
                       read.take("high", number, None), read.take("cell", fields.one_of(cells), None))
    read.finish()
    return point


def _curve_y(value):
    kind, _, tensor = str(value).partition("/")
    if value not in (*METRICS, "test_top1", "train_loss") and not (kind in ("zeros", "histogram") and tensor):
        raise ValueError(f"accepted: {', '.join(METRICS)}, test_top1, train_loss, zeros/TENSOR, histogram/TENSOR")
    return value


def _patterns(value):
    return fields.list_of(fields.text)([value] if isinstance(value, str) else value)


def _read_curve(table, place, experiment):
    read = Fields(table, place)
    name = read.take("name", fields.name)
    curve = Curve(name, read.take("x", fields.name), read.take("y", _curve_y), read.take("cells", _patterns),
                  read.take("panel", fields.name, name), title=read.take("title", fields.text, ""),
                  whole_axis=read.take("whole_axis", fields.boolean, False))
    cells = experiment.cells_of(curve)
    for pattern in curve.cells:
        if not any(fnmatch.fnmatchcase(cell.short_name, pattern) for cell in cells):
            read.fail("cells", f"'{pattern}' matches no cell")
    points = tuple(_read_point(point, f"{place}: paper {index}", [cell.short_name for cell in cells])
                   for index, point in enumerate(read.take_tables("paper"), 1))
    read.finish()
    is_over_option = curve.x not in ("step", "value")
    if is_over_option != (curve.y in METRICS):
        read.fail("x", f"does not go with y = '{curve.y}'")
    for cell in cells:
        if is_over_option and curve.x not in (*cell.options, "bytes"):
            read.fail("x", f"is no option of cell '{cell.short_name}'")
    if curve.x == "bytes" and (points or curve.whole_axis):
        read.fail("x", "bytes are those of our runs: the curve has neither paper values nor whole_axis")
    if curve.whole_axis and (not is_over_option or len(cells) != 1):
        read.fail("whole_axis", f"is for one cell over an option; there are {len(cells)} over {curve.x}")
    return dataclasses.replace(curve, paper=points)


@dataclasses.dataclass(frozen=True)
class _Head:
    """The [experiment] table."""

    place: str
    name: str
    title: str
    kind: str
    source: str
    metric: str
    seeds: tuple
    test_examples: int
    margin: float | None
    reading_error: float | None
    assumed: tuple
    needs: tuple


def _read_head(table, file):
    place = f"{file}: [experiment]"
    read = Fields(table, place)
    name, title = read.take("name", fields.name), read.take("title", fields.text)
    kind = read.take("kind", fields.one_of(KINDS), "table")
    # Models have no runs.
    has_runs = kind != "model"
    head = _Head(place, name, title, kind, read.take("source", fields.text, ""),
                 read.take("metric", fields.one_of(METRICS)) if has_runs else "",
                 read.take("seeds", fields.list_of(fields.integer(0)), ()) if has_runs else (),
                 read.take("test_examples", fields.integer(1)) if has_runs else 0,
                 read.take("margin", fields.positive, None) if has_runs else None,
                 read.take("reading_error", fields.positive, None), read.take("assumed", fields.list_of(fields.text), ()),
                 _read_needs(read))
    read.finish()
    return head


def _named(table, index):
    """A table of an array in messages: its name, or its index if it has none."""
    return f"'{table['name']}'" if isinstance(table.get("name"), str) else index


def _read_cells(read, head, file):
    common = _read_options(read.take_table("options"), f"{file}: [options]")
    cells = tuple(_read_cell(table, f"{file}: cell {_named(table, index)}", head, common)
                  for index, table in enumerate(read.take_tables("cell"), 1))
    if not cells:
        raise RecipeError(f"{file}: 'cell': there is none")
    _check_unique(file, "cell", cells)
    return cells


def _read_variants(read, cells, file):
    variants = []
    for index, table in enumerate(read.take_tables("variant"), 1):
        place = f"{file}: variant {_named(table, index)}"
        own = Fields(table, place)
        variant = Variant(own.take("name", fields.name), _read_options(own.take_table("options"), f"{place}: 'options'"))
        own.finish()
        if all(cell_module.options_with(cell, variant) is None for cell in cells):
            own.fail("options", "changes no cell")
        variants.append(variant)
    _check_unique(file, "variant", variants)
    return tuple(variants)


def _read_experiment(data, file):
    read = Fields(data, file)
    head = _read_head(read.take_table("experiment"), file)
    names = ("name", "title", "kind", "source", "metric", "seeds", "test_examples", "margin", "reading_error", "assumed")
    experiment = Experiment(**{name: getattr(head, name) for name in names})
    if head.kind == "model":
        experiment = dataclasses.replace(experiment, model=model_recipe.read_model(read))
    else:
        cells = _read_cells(read, head, file)
        experiment = dataclasses.replace(experiment, cells=cells, variants=_read_variants(read, cells, file))
        curves = read.take_tables("curve") if head.kind in ("figure", "table") else []
        curves = tuple(_read_curve(table, f"{file}: curve {_named(table, index)}", experiment)
                       for index, table in enumerate(curves, 1))
        _check_unique(file, "curve", curves)
        if len({curve.x == "bytes" for curve in curves}) > 1:
            raise RecipeError(f"{file}: 'curve': those over bytes and others are recipes of their own")
        if head.kind == "table" and any(curve.x != "bytes" for curve in curves):
            raise RecipeError(f"{file}: 'curve': those of a table are over bytes; others need kind = 'figure'")
        if len({curve.x == "value" for curve in curves}) > 1:
            raise RecipeError(f"{file}: 'curve': histograms (x = 'value') and other curves are recipes of their own")
        experiment = dataclasses.replace(experiment, curves=curves)
    read.finish()
    for cell in experiment.all_cells():
        _check_baseline(file, experiment, cell)
    return experiment


def read_toml(path):
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path.name}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path.name}: is not TOML: {error}") from None


def load(path):
    """Reads the experiment of one file. @throws RecipeError"""
    path = pathlib.Path(path)
    return _read_experiment(read_toml(path), path.name)
