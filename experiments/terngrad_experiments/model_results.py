"""What terngrad_advise predicts of the clusters of a recipe of kind `model`: computed once, recorded as a line of results.jsonl.

A cluster has the name of a cell, fig5/a. Its line has the fields that every line has, status "computed", and under "model" what
terngrad_advise --cluster --json says, with a list over the numbers of workers in place of an object for each of them.
"""

import fnmatch
import hashlib
import json
import pathlib
import tempfile

from terngrad_experiments import commits, programs, store
from terngrad_experiments.recipe_fields import RecipeError

FOLDER = "clusters"
RUN_OPTIONS = ("seeds", "scale", "jobs", "jobs_per_gpu", "threads", "device")
SOURCES = ("measured", "given", "assumed")
# Of a step, in ms where they are shown.
PARTS = ("compute_seconds", "encode_seconds", "exposed_exchange_seconds", "decode_seconds", "update_seconds")


def matching(experiments, pattern):
    """[(experiment, cluster)] of the models that a pattern names; "fig5" is "fig5/*". Scales and variants name none."""
    pattern = pattern if "/" in pattern else f"{pattern}/*"
    return [(experiment, cluster) for experiment in experiments.values() if experiment.model is not None
            for cluster in experiment.model.clusters if fnmatch.fnmatchcase(f"{experiment.name}/{cluster.name}", pattern)]


def split(experiments, patterns):
    """(what the patterns name of models, each once; the patterns that may name cells too)."""
    found, others = {}, []
    for pattern in patterns:
        own = matching(experiments, pattern)
        found |= {(experiment.name, cluster.name): (experiment, cluster) for experiment, cluster in own}
        if not own or any(fnmatch.fnmatchcase(cell.base_name, pattern) or experiment.name == pattern
                          for experiment in experiments.values() for cell in experiment.cells):
            others.append(pattern)
    return list(found.values()), others


def named_alone(experiments, patterns):
    """What `split` finds of those patterns that can name no cell."""
    return split(experiments, [pattern for pattern in patterns if not split(experiments, [pattern])[1]])[0]


def options_of_runs(options):
    """The names of those given that only runs have."""
    return [name for name in RUN_OPTIONS if getattr(options, name) is not None]


def cluster_path(recipes, cluster):
    """@param recipes  folder of the recipes. @throws RecipeError if the file is not there"""
    path = pathlib.Path(recipes).parent / FOLDER / cluster.file
    if not path.is_file():
        raise RecipeError(f"cluster {cluster.name}: 'file': {path} is not there")
    return path


def arguments(recipes, cluster):
    return ["--cluster", str(cluster_path(recipes, cluster))]


def _input_names(steps):
    """{source: names}, each name once."""
    return {source: list(dict.fromkeys(name for step in steps for name in step["inputs"][source])) for source in SOURCES}


def _own_size(advice):
    """The largest listed number of workers that the cluster has."""
    return max(workers for workers in advice["workers"] if workers <= advice["cluster"]["num_workers"])


def _ways(advice, net):
    """The steps of a net by codec and downlink, each with lists over the numbers of workers."""
    ways = {}
    for step in net["steps"]:
        way = ways.setdefault((step["codec"], step["downlink"]), {
            "codec": step["codec"], "downlink": step["downlink"], "exchange": [], "images_per_second": [], "step_seconds": []})
        for name in ("exchange", "images_per_second", "step_seconds"):
            way[name].append(step[name])
        if step["workers"] == _own_size(advice):
            way["own_size"] = {"message_bytes": step["message_bytes"],
                               "parts": [step["parts"]["straggler_factor"] * step["parts"][PARTS[0]],
                                         *(step["parts"][name] for name in PARTS[1:])]}
    return list(ways.values())


def compact(advice):
    """What is recorded of the JSON of terngrad_advise --cluster. @throws KeyError for other JSON"""
    nets = [{"name": net["name"], "num_elements": net["num_elements"], "plain_elements": net["plain_elements"],
             "examples_per_worker": net["examples_per_worker"], "inputs": _input_names(net["steps"]), "ways": _ways(advice, net)}
            for net in advice["nets"]]
    return {"cluster": advice["cluster"], "calibration": advice["calibration"], "workers": advice["workers"],
            "own_size": _own_size(advice), "nets": nets, "figure5": advice["figure5"]}


def make_result(experiment, cluster, advice, content):
    """@param advice   JSON of terngrad_advise
    @param content  bytes of the cluster file"""
    commit = advice["commit"]
    return {"schema": store.SCHEMA, "cell": f"{experiment.name}/{cluster.name}", "scale": "1", "seed": 0,
            "status": commits.COMPUTED, "options": {"cluster": cluster.file},
            "identity": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "commit": commit.removesuffix("-dirty"), "dirty": commit.endswith("-dirty"), "version": advice["version"],
            "backend": "cpu", "model": compact(advice)}


def compute(experiment, cluster, recipes, known):
    """Runs terngrad_advise. @param known  programs.Programs
    @throws ProgramError, also for output that is not what it writes"""
    path = cluster_path(recipes, cluster)
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "advice.json"
        known.output("terngrad_advise", "--cluster", str(path), "--json", str(output))
        try:
            advice = json.loads(output.read_text(encoding="utf-8"))
            return make_result(experiment, cluster, advice, path.read_bytes())
        except (OSError, ValueError, KeyError) as error:
            raise programs.ProgramError(f"terngrad_advise --cluster {path}: did not write what is read here: {error!r}") from None


def run(chosen, options, say=print):
    """Computes and records what `split` found. @returns the exit code
    @throws RecipeError for an option of runs"""
    for name in options_of_runs(options):
        experiment, cluster = chosen[0]
        raise RecipeError(f"--{name}: {experiment.name}/{cluster.name} is computed, it has no runs")
    known = programs.Programs(options.programs)
    into = options.out / "results.jsonl"
    for experiment, cluster in chosen:
        if options.dry_run:
            say(" ".join(["terngrad_advise", *arguments(options.recipes, cluster)]))
            continue
        store.append(into, compute(experiment, cluster, options.recipes, known))
        say(f"{experiment.name}/{cluster.name}: computed, recorded in {into}")
    return 0


def list_lines(chosen, results):
    """A line for each cluster, as `list` has them of cells."""
    lines = []
    for experiment, cluster in chosen:
        state = "computed" if model_of(results, experiment, cluster) else "-"
        lines.append(f"{f'{experiment.name}/{cluster.name}':44} {'-':>5} {'-':>8} {'seconds':>11}  {state}")
    return lines


def status_lines(chosen, results):
    """A line for each cluster, as `status` has them of runs."""
    return [f"{f'{experiment.name}/{cluster.name}':52} {'computed' if model_of(results, experiment, cluster) else 'not computed'}"
            for experiment, cluster in chosen]


def result_of(results, experiment, cluster):
    """The last line of a cluster for the numbers of GPUs that the recipe has, None without one."""
    own = [result for result in results if result["cell"] == f"{experiment.name}/{cluster.name}" and "model" in result
           and (not result["model"]["figure5"] or result["model"]["figure5"]["gpus"] == list(experiment.model.gpus))]
    return own[-1] if own else None


def model_of(results, experiment, cluster):
    result = result_of(results, experiment, cluster)
    return result and result["model"]
