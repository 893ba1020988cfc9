"""Import of runs that were started by hand, if their options match a cell."""

import sys

from terngrad_experiments import recipes, results, run_folder, store

# Names in a run's identity for options of terngrad_train, where they differ.
IDENTITY_NAMES = {"num_nodes": "num_workers"}
# Options that do not affect bits, or are checked separately.
NOT_COMPARED = {"seed", "max_steps", "eval_steps", "eval_at", "telemetry_steps", "save_iter", "log_steps", "grad_bits", "codec"}
CODECS = {"1": "ternary", "16": "bf16", "32": "fp32"}
# Default values in a run's identity, which apply to options that a cell does not set. Names are the identity's.
DEFAULTS = {
    "block_size": 32768, "clip_by_global_norm": 0, "clip_factor": 0, "clip_scope": "shared", "codec_for": "",
    "codec_memory": "none", "compress_from": 0, "dropout_keep_prob": 0.5, "ema_decay": 0.9999, "exchange": "any but vendor", "floating_grad_epoch": 0,
    "learning_rate_decay_factor": 0.1, "momentum": 0.9, "nan_to_zero": "false", "num_epochs_per_decay": 20,
    "on_nonfinite": "stop", "pull": "any", "quantize_logits": "false", "reduce": "average", "downlink_codec": "fp32",
    "scaler": "paper", "scaler_scope": "layer", "scaler_sharing": "max", "size_to_binarize": 1, "strategy": "synchronous",
    "ternary_format": "t2"}
# Options of ternary by the keys of its spec, as which a run's identity has them.
TERNARY_OPTIONS = {"clip_factor": "clip_factor", "scaler": "scaler", "sharing": "scaler_sharing", "clip_scope": "clip_scope",
                   "scope": "scaler_scope", "block": "block_size", "format": "ternary_format"}
# Keys of ternary without an option.
TERNARY_KEYS = {"rounding": "stochastic", "levels": "symmetric"}
# Options that are keys of a codec's spec or memory, with their values if a spec is given.
BESIDE_SPEC = {"block_size": 32768, "clip_factor": 0, "clip_scope": "shared", "codec_memory": "auto", "scaler": "paper",
               "scaler_scope": "layer", "scaler_sharing": "max", "ternary_format": "t2"}


def same_value(expected, found):
    """Compares values of different notation: 0.0002 equals 2e-4, true equals True."""
    expected = {True: "true", False: "false"}.get(expected, expected) if isinstance(expected, bool) else expected
    try:
        return float(expected) == float(found)
    except (TypeError, ValueError):
        return str(expected) == str(found)


def codec_differences(cell, identity, given):
    """Differences in the codec options. A cell's spec or preset is compared with the text passed to the run."""
    spec = cell.options.get("codec")
    if spec is None:
        codec = CODECS.get(str(cell.options.get("grad_bits", 32)))
        if identity.get("codec") != codec:
            return [f"codec {identity.get('codec')} in place of {codec}"]
        keys = ternary_keys(identity)
        return [f"codec with {key}={keys[key]} in place of {expected}" for key, expected in TERNARY_KEYS.items()
                if keys.get(key, expected) != expected]
    if given.get("codec") != spec:
        return [f"codec {given.get('codec') or identity.get('codec')} in place of {spec}"]
    return [f"--{name} {given[name]} beside --codec {spec}" for name, expected in BESIDE_SPEC.items()
            if name not in cell.options and name in given and not same_value(expected, given[name])]


def ternary_keys(identity):
    """{key: value} of the spec in a run's identity, if its codec is ternary."""
    name, _, keys = identity.get("codec_spec", "").partition(":")
    return dict(key.split("=", 1) for key in keys.split(",")) if name == "ternary" and keys else {}


def compared_values(identity):
    """{option: value} of a run's identity, which has the options of ternary as keys of a spec."""
    return {TERNARY_OPTIONS[key]: value for key, value in ternary_keys(identity).items() if key in TERNARY_OPTIONS} | identity


def differences(cell, config):
    """Differences between a cell and a run's config.json, as texts. Options that the cell does not set must have defaults."""
    found = codec_differences(cell, config["identity"], config.get("options") or {})
    identity = compared_values(config["identity"])
    for name, expected in cell.options.items():
        if name in NOT_COMPARED:
            continue
        key = IDENTITY_NAMES.get(name, name)
        if key in identity and not same_value(expected, identity[key]):
            found.append(f"--{name} {identity[key]} in place of {expected}")
    names = {key: name for name, key in IDENTITY_NAMES.items()}
    for key, expected in DEFAULTS.items():
        name = names.get(key, key)
        if "codec" in cell.options and key in BESIDE_SPEC:
            continue
        if name not in cell.options and key in identity and not same_value(expected, identity[key]):
            found.append(f"--{name} {identity[key]} in place of the default {expected}")
    return found


def scale_of(cell, max_steps):
    """The scale "1" or "1/N" of a run with `max_steps` steps; None if it matches no scale."""
    full = int(cell.options["max_steps"])
    if max_steps < 1:
        return None
    divisor = max(1, round(full / max_steps))
    scale = "1" if divisor == 1 else f"1/{divisor}"
    return scale if int(recipes.scaled(cell, scale).options["max_steps"]) == max_steps else None


def find_cell(experiments, config):
    """(the scaled cell that matches a run's options or None, the reason if None)."""
    identity = config["identity"]
    closest = None
    for experiment in experiments.values():
        for cell in [*experiment.cells, *experiment.variant_cells()]:
            if "max_steps" not in cell.options:
                continue
            scale = scale_of(cell, int(identity["max_steps"]))
            own = recipes.scaled(cell, scale or "1")
            wrong = differences(own, config) + ([] if scale else [f"--max_steps {identity['max_steps']}"])
            if not wrong:
                return own, ""
            distance = any(text.startswith("codec") for text in wrong), len(wrong)
            if closest is None or distance < closest[0]:
                closest = distance, f"closest is {cell.full_name}: {', '.join(wrong)}"
    return None, closest[1] if closest else "there are no cells"


def import_runs(experiments, folders, into, allow_unfinished=False):
    """@returns the exit code: 1 if a folder matches no cell, or is unfinished without allow_unfinished"""
    code = 0
    for folder in folders:
        try:
            config = run_folder.read_config(folder)
            identity = config.get("identity") or {}
            if "max_steps" not in identity:
                raise run_folder.RunFolderError(f"{folder}: its config.json has no identity; it is of an earlier version")
            cell, why = find_cell(experiments, config)
            if cell is None:
                raise run_folder.RunFolderError(f"{folder}: is of no cell; {why}")
            result = results.make_result(folder, cell.base_name, cell.scale, int(identity["seed"]), dict(cell.options),
                                         allow_unfinished=allow_unfinished)
        except (run_folder.RunFolderError, results.UnfinishedRun) as error:
            print(f"terngrad_experiment: {error}", file=sys.stderr)
            code = 1
            continue
        store.append(into, result)
        print(f"{folder}: {cell.full_name} seed {result['seed']}, {result['status']}")
    return code
