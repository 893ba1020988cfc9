"""Reads the folder of a terngrad_train run: config.json and metrics.jsonl."""

import hashlib
import json
import pathlib

from terngrad_experiments import store


class RunFolderError(Exception):
    """A run folder with missing or damaged files."""


def read_config(folder):
    """Reads config.json. @throws RunFolderError if it is missing or damaged"""
    path = pathlib.Path(folder) / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RunFolderError(f"{path}: not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("history"), list) or not config["history"]:
        raise RunFolderError(f"{path}: is no object with the starts of a run, 'history'")
    return config


def identity_hash(identity):
    """Hash of a run's identity, the part of config.json that determines its bits."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_metrics(folder):
    """The records of metrics.jsonl, without an incomplete last line of a killed run."""
    path = pathlib.Path(folder) / "metrics.jsonl"
    if not path.exists():
        return []
    lines = []
    for _, line in store.whole_lines(path):
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue  # an incomplete line, after which the trainer resumed
    return lines


def steps_done(metrics):
    return max((line.get("step", 0) for line in metrics), default=0)


def curves_of(metrics):
    """Training loss and test accuracy over steps, thinned."""
    train = [line for line in metrics if line.get("kind") == "train"]
    test = [line for line in metrics if line.get("kind") == "test"]
    curves = {"train_loss": [[line["step"], line["loss"]] for line in train],
              "test_top1": [[line["step"], line["top1"]] for line in test]}
    return {name: store.thin(points) for name, points in curves.items() if points}


def tensors_of(metrics):
    """Means over the run of each tensor's telemetry, over the lines that have the number, and the curve of its zeros.

    zero_fraction: elements sent as 0; clip_fraction: |g| > s; kept_norm: |clip(g)| / |g|; clip_angle_degrees: between g and clip(g);
    snr_db: 10 log10(|g|^2 / |g - sent|^2)."""
    found = {}
    for line in metrics:
        if line.get("kind") != "tensors":
            continue
        for tensor, numbers in tensor_lines(line):
            entry = found.setdefault(tensor, {"zeros": []})
            for name in ("zero_fraction", "clip_fraction", "kept_norm", "snr_db", "clip_angle_degrees"):
                if isinstance(numbers.get(name), (int, float)):
                    entry.setdefault(name, []).append(numbers[name])
            if isinstance(numbers.get("zero_fraction"), (int, float)):
                entry["zeros"].append([line["step"], numbers["zero_fraction"]])
    result = {}
    for tensor, entry in found.items():
        zeros = entry.pop("zeros")
        result[tensor] = {name: sum(values) / len(values) for name, values in entry.items()}
        result[tensor]["zeros"] = store.thin(zeros, 50)
    return result


def tensor_lines(line):
    """(tensor, numbers) of a telemetry line, which has one tensor or a table of tensors."""
    tensors = line.get("tensors")
    if isinstance(tensors, dict):
        yield from tensors.items()
    elif "tensor" in line:
        yield line["tensor"], line


def wire_of(metrics):
    """Bytes per worker and step in the busier direction, and the ratio, from the last line that has them."""
    for line in reversed(metrics):
        per_worker = line.get("wire_bytes_per_worker")
        if isinstance(per_worker, dict):
            sent = sum(per_worker["sent"].values())
            received = sum(per_worker["received"].values())
            return {"bytes_per_worker_step": max(sent, received), "ratio": line.get("wire_ratio")}
    return None
