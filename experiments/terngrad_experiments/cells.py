"""Contents of a recipe: an experiment, its cells with the options of their runs, variants and curves."""

import dataclasses
import fnmatch
import fractions
import math
import re

from terngrad_experiments.recipe_fields import RecipeError

METRICS = ("top1", "top5")

# Compression options of terngrad_train: a cell and its baseline may differ in them, and variants do not change them in cells
# without compression.
COMPRESSION = re.compile(r"(codec|scaler).*|grad_bits|clip_factor|clip_scope|block_size|ternary_format|size_to_binarize|"
                         r"quantize_logits|exchange|downlink_codec")
# Options of terngrad_train that are lists of steps.
STEP_LISTS = ("eval_at", "learning_rate_boundaries")
SCALE = re.compile(r"1(/[1-9][0-9]*)?")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row or point: the options of its runs. Options and paper values must not be changed."""

    experiment: str
    name: str
    options: dict = dataclasses.field(hash=False)  # options of terngrad_train; empty for a cell without own runs
    seeds: tuple = ()
    paper: dict | None = dataclasses.field(default=None, hash=False)  # {"top1": 86.56, "confidence": "A"}
    baseline: str | None = None   # short name of a cell of the same experiment, at the same scale
    margin: float | None = None   # percentage points within which a gap counts as none
    assumed: tuple = ()           # choices that the paper does not state
    needs: tuple = ()             # missing requirements for running it
    runs_of: tuple = ()           # full names of the cells whose runs it uses
    tensors: tuple = ()           # patterns of a claim's tensors
    command: str | None = None    # command of terngrad_exchange_bench that measures it
    variant: str | None = None
    scale: str = "1"

    @property
    def is_available(self):
        return not self.needs

    @property
    def short_name(self):
        return self.name if self.variant is None else f"{self.name}@{self.variant}"

    @property
    def base_name(self):
        """The full name without its scale."""
        return f"{self.experiment}/{self.short_name}"

    @property
    def full_name(self):
        return self.base_name if self.scale == "1" else f"{self.base_name}~{self.scale}"


@dataclasses.dataclass(frozen=True)
class Variant:
    """Options that replace options of cells on request."""

    name: str
    options: dict = dataclasses.field(hash=False)


@dataclasses.dataclass(frozen=True)
class PaperPoint:
    """A value in a chart of the paper, for one cell if `cell` names it. Without x it holds for the whole axis, with minimum low
    and maximum high."""

    y: float
    confidence: str
    x: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    cell: str | None = None


@dataclasses.dataclass(frozen=True)
class Curve:
    """A line for each cell over steps, one line through all of them over an option, that of one cell across the whole axis of
    an option that it does not depend on, or a mark for each over bytes. Curves of one panel share axes."""

    name: str
    x: str           # "step", "value" (of a histogram), "bytes" (of a worker and step) or an option such as num_nodes
    y: str           # top1, top5, test_top1, train_loss, zeros/TENSOR or histogram/TENSOR
    cells: tuple     # patterns of short names
    panel: str
    paper: tuple = ()
    title: str = ""           # title of the panel
    whole_axis: bool = False


@dataclasses.dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    kind: str
    source: str = ""
    metric: str = ""              # "top1" or "top5", on the test set, averaged weights, last step; "" for a model
    seeds: tuple = ()
    test_examples: int = 0
    margin: float | None = None
    reading_error: float | None = None  # error of paper values read off a chart
    cells: tuple = ()
    variants: tuple = ()
    curves: tuple = ()
    assumed: tuple = ()
    model: object = None          # a model_recipe.Model, for kind model

    def variant_cells(self):
        """Every cell with every variant that changes it."""
        return tuple(found for variant in self.variants for cell in self.cells
                     if (found := with_variant(self, cell, variant)) is not None)

    def all_cells(self):
        return (*self.cells, *self.variant_cells())

    def cells_of(self, curve):
        return tuple(cell for cell in self.all_cells()
                     if any(fnmatch.fnmatchcase(cell.short_name, pattern) for pattern in curve.cells))

    def paper_points(self, curve):
        """The points that the curve lists; for a curve over an option also the paper values of its cells."""
        if curve.y not in METRICS:
            return curve.paper
        of_cells = (PaperPoint(cell.paper[curve.y], cell.paper["confidence"], None if curve.whole_axis else cell.options[curve.x],
                               self.reading_error, cell=cell.name)
                    for cell in self.cells_of(curve) if cell.paper and curve.y in cell.paper)
        return (*curve.paper, *of_cells)


def is_compression(option):
    return COMPRESSION.fullmatch(option) is not None


def moves_momentum(options, baseline):
    """True if DGC's memory has the momentum of the baseline's optimizer, with equal factor: the two then differ in compression
    only."""
    memory = str(options.get("codec_memory", options.get("codec", "")))
    name, _, keys = memory.partition(":")
    if name != "dgc" or options.get("optimizer") != "gd" or baseline.get("optimizer") != "momentum":
        return False
    given = dict(item.split("=", 1) for item in keys.split(",") if "=" in item) if "codec_memory" in options else {}
    return float(given.get("momentum", 0.9)) == baseline.get("momentum", 0.9)


def is_adam_of_directions(options, baseline):
    """True if the cell uses onebit_adam or zero_one_adam, which are Adam in steps with fp32, and its baseline Adam."""
    return baseline.get("optimizer") == "adam" and options.get("optimizer") in ("onebit_adam", "zero_one_adam")


def compresses(options):
    """True if any tensor may be sent in another format than fp32."""
    codec = options.get("codec", "auto")
    by_bits = options.get("grad_bits", 32) != 32
    return bool(options.get("codec_for")) or codec not in ("auto", "fp32") or (codec == "auto" and by_bits)


def depends_on_workers(options):
    """The option that makes a step's mean depend on how the batch is divided among workers; None if only the order of sums does,
    as for fp32 gradients. Does not consider layers that use the whole batch (batch norm)."""
    reasons = {"compression": compresses(options), "downlink_codec": options.get("downlink_codec", "fp32") != "fp32",
               "strategy": options.get("strategy") == "async", "reduce": options.get("reduce", "average") != "average",
               "clip_by_global_norm": options.get("clip_by_global_norm", 0) != 0}
    return next((name for name, is_so in reasons.items() if is_so), None)


def options_with(cell, variant):
    """The cell's options with a variant's, None if that changes nothing. A cell without compression does not take a variant's
    compression options, which terngrad_train would reject."""
    takes_all = compresses(cell.options)
    taken = {name: value for name, value in variant.options.items() if takes_all or not is_compression(name)}
    options = {**cell.options, **taken}
    return None if not cell.options or options == cell.options else options


def with_variant(experiment, cell, variant):
    """`cell` with a variant's options, None if that changes nothing. Its baseline is the baseline's variant, if the variant
    changes the baseline."""
    options = options_with(cell, variant)
    if options is None:
        return None
    baseline = next((each for each in experiment.cells if each.name == cell.baseline), None)
    name = cell.baseline
    if baseline is not None and options_with(baseline, variant) is not None:
        name = f"{name}@{variant.name}"
    return dataclasses.replace(cell, options=options, variant=variant.name, baseline=name)


def divisor_of(scale):
    """N of "1/N". @throws RecipeError for another scale than 1 or 1/N"""
    if not SCALE.fullmatch(str(scale)):
        raise RecipeError(f"scale '{scale}': expected 1/N such as 1/30")
    return int(str(scale).partition("/")[2] or 1)


def _scaled_number(value, divisor):
    """value / divisor, rounded half up, at least 1. 0 stays 0, since it has a special meaning."""
    return max(1, math.floor(fractions.Fraction(value) / divisor + fractions.Fraction(1, 2))) if value else 0


def _scaled_list(name, text, divisor):
    """Comma-separated steps, each scaled, without duplicates for evaluations.

    @throws RecipeError for boundaries that become equal: the learning rate would drop less often"""
    steps = [_scaled_number(int(step), divisor) for step in text.split(",")]
    if name == "learning_rate_boundaries" and len(set(steps)) < len(steps):
        raise RecipeError(f"{name}: '{text}' has boundaries that are one at scale 1/{divisor}")
    return ",".join(map(str, dict.fromkeys(steps)))


def scaled(cell, scale):
    """The cell with a fraction of its steps: max_steps, evaluation steps and decay steps of the learning rate are scaled; batch,
    rate and workers are not. The result has no paper values.

    @param scale  "1/30"; "1" is all
    @throws RecipeError for another text, or a cell that is scaled already"""
    divisor = divisor_of(scale)
    if divisor == 1 or cell.scale == f"1/{divisor}" or not cell.options:
        return cell
    if cell.scale != "1":
        raise RecipeError(f"{cell.full_name}: is scaled already, asked for {scale}")
    changed = {name: _scaled_number(cell.options[name], divisor) for name in ("max_steps", "eval_steps") if name in cell.options}
    changed |= {name: _scaled_list(name, cell.options[name], divisor) for name in STEP_LISTS if name in cell.options}
    if cell.options.get("learning_rate_decay_type") == "exponential" and "num_epochs_per_decay" in cell.options:
        # Other schedules do not use the option, and terngrad_train rejects it there. Epochs need not be integers.
        changed["num_epochs_per_decay"] = cell.options["num_epochs_per_decay"] / divisor
    return dataclasses.replace(cell, options={**cell.options, **changed}, scale=f"1/{divisor}")


def _option_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def command_line(cell, seed, train_dir, data_dir=None):
    """Arguments of terngrad_train, --name=value, options by name; then seed and folders.

    @param data_dir  None for the built-in set
    @throws RecipeError for a cell without runs of its own"""
    if not cell.options:
        raise RecipeError(f"{cell.full_name}: has no runs of its own")
    values = [(name, item) for name, value in sorted(cell.options.items())
              for item in (value if isinstance(value, tuple) else (value,))]
    values += [("seed", seed), ("train_dir", train_dir)] + ([] if data_dir is None else [("data_dir", data_dir)])
    return [f"--{name}={_option_text(value)}" for name, value in values]
