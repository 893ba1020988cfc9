"""Converts a run's folder to the line that the store keeps."""

from terngrad_experiments import histograms, run_folder, store
from terngrad_experiments.cells import compresses
from terngrad_experiments.commits import DIRTY

# Numbers kept from a test line of metrics.jsonl.
FINAL = ("top1", "top5", "loss", "weights")


class UnfinishedRun(Exception):
    """A run that has not reached its last step."""


def machine_of(start):
    machine = start.get("machine", {})
    return {"cpu": machine.get("cpu_model"), "cores": machine.get("usable_cores"), "device": start.get("device")}


def final_of(metrics, max_steps):
    """The evaluation after the last step.

    @throws UnfinishedRun if there is none"""
    tests = [line for line in metrics if line.get("kind") == "test" and line["step"] == max_steps]
    if not tests:
        raise UnfinishedRun(f"no evaluation after step {max_steps}; the run has {run_folder.steps_done(metrics)}")
    return {name: tests[-1][name] for name in FINAL if name in tests[-1]}


def make_result(folder, cell, scale, seed, options, seconds=None, raw=None, allow_unfinished=False, known=()):
    """The result of the run in `folder`.

    @param cell     full name, "table1/b128-n2-ternary"
    @param options  the cell's options, without seed and folders
    @param seconds  duration of the run, None if unknown
    @param raw      evaluation of the raw weights, if any
    @param known    earlier results; if this run is done among them, the last one is returned and only config.json is read
    @throws RunFolderError, UnfinishedRun"""
    config = run_folder.read_config(folder)
    identity = config.get("identity")
    if not isinstance(identity, dict):
        raise run_folder.RunFolderError(f"{folder}: its config.json has no identity; it is of an earlier version")
    last = config["history"][-1]
    commit = last.get("commit", "unknown")
    head = {"schema": store.SCHEMA, "cell": cell, "scale": scale, "seed": seed, "options": options,
            "identity": run_folder.identity_hash(identity), "commit": commit.removesuffix(DIRTY), "dirty": commit.endswith(DIRTY),
            "version": last.get("version"), "machine": machine_of(last),
            "backend": "cpu" if last.get("device", "cpu") == "cpu" else "gpu", "started": last.get("time")}
    same = [line for line in known if store.key_of(line) == store.key_of(head)
            and (line["status"], line["identity"]) == ("done", head["identity"])]
    if same:
        return same[-1]
    metrics = run_folder.read_metrics(folder)
    max_steps = int(identity["max_steps"])
    status, final = "done", None
    try:
        final = final_of(metrics, max_steps)
    except UnfinishedRun:
        if not allow_unfinished:
            raise
        status = "unfinished"
        tests = [line for line in metrics if line.get("kind") == "test"]
        if tests:
            final = {name: tests[-1][name] for name in FINAL if name in tests[-1]} | {"step": tests[-1]["step"]}
    if final is not None and raw is not None:
        final["raw_top1"] = raw
    result = head | {"status": status, "steps": min(run_folder.steps_done(metrics), max_steps), "max_steps": max_steps,
                     "final": final, "curves": run_folder.curves_of(metrics), "tensors": run_folder.tensors_of(metrics)}
    wire = run_folder.wire_of(metrics)
    if wire is not None:
        result["bytes"] = wire
    # No figure needs histograms of float gradients, so lines stay short without them.
    if compresses(options) and (kept := histograms.histograms_of(folder)):
        result["histograms"] = kept
    if seconds is not None:
        result["seconds"] = seconds
    return result


def failed_result(cell, scale, seed, options, commit, message, backend):
    """Result of a run that failed twice, shown as failed, not missing. @param commit  build commit, with -dirty if it is"""
    return {"schema": store.SCHEMA, "cell": cell, "scale": scale, "seed": seed, "status": "failed", "options": options,
            "identity": None, "commit": commit.removesuffix(DIRTY), "dirty": commit.endswith(DIRTY), "backend": backend,
            "error": message}
