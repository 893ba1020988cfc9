#!/usr/bin/env python3
"""Checks the files of a run with the packages that others read them with: tensorboard and safetensors.

    scripts/dev/check_formats.py --train build/release/bin/terngrad_train --eval build/release/bin/terngrad_eval

Trains a small run, continues with it from an older checkpoint, evaluates it, and compares what the packages read with
metrics.jsonl: every scalar of every step (also that nothing of the time before the resume is left), histograms with the
tensors in the checkpoint, with histograms.jsonl and with the telemetry. Prints a line for each check and exits 1 if one fails, 77 (skipped) if a
package is missing (scripts/install_deps.sh --formats).
"""

import argparse
import json
import logging
import math
import pathlib
import subprocess
import sys
import tempfile


SKIPPED = 77
LAST_STEP = 40
RESUMED_FROM = 20
OPTIONS = ["--batch_size", "16", "--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2.5", "--log_steps", "5",
           "--telemetry_steps", "10", "--histogram_steps", "10", "--eval_steps", "20", "--save_iter", "20",
           "--keep_checkpoints", "0", "--max_steps", str(LAST_STEP)]


def report(name, problems):
    """Prints one line and the first problems. @returns True without problems"""
    print(f"{name:60} {'ok' if not problems else f'{len(problems)} WRONG'}")
    for problem in problems[:5]:
        print(f"    {problem}")
    return not problems


def numbers(tag, value):
    """(tag, number) of a metrics value; None for nonfinite numbers. Texts are skipped."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from numbers(f"{tag}/{key}", member)
    elif value is None or isinstance(value, (int, float)):
        yield tag, value


def scalars_of_metrics(path):
    """{tag: [(step, value)]} of a metrics file."""
    scalars = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        pairs = []
        if line["kind"] == "tensors":
            for tensor, quantities in line["tensors"].items():
                for quantity, value in quantities.items():
                    pairs += numbers(f"{quantity}/{tensor}", value)
        else:
            for key, value in line.items():
                if key not in ("step", "kind"):
                    pairs += numbers(f"{line['kind']}/{key}", value)
        for tag, value in pairs:
            scalars.setdefault(tag, []).append((line["step"], value))
    return scalars


def sparsities_of(path):
    """{"sparsity/LAYER": [(step, fraction of zeros)]} of the activations in histograms.jsonl."""
    scalars = {}
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        if line["kind"] == "activation":
            scalars.setdefault(f"sparsity/{line['tensor']}", []).append((line["step"], line["zero_fraction"]))
    return scalars


def open_events(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    accumulator.Reload()
    return accumulator


def check_scalars(folder):
    """Checks that the scalars are exactly the numbers of metrics.jsonl and the sparsities of histograms.jsonl, each once."""
    expected = scalars_of_metrics(folder / "metrics.jsonl") | sparsities_of(folder / "histograms.jsonl")
    events = open_events(folder)
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    problems = [f"tag {tag} is in one file only" for tag in sorted(expected.keys() ^ found.keys())]
    count = 0
    for tag in expected.keys() & found.keys():
        count += len(expected[tag])
        if [step for step, _ in expected[tag]] != [step for step, _ in found[tag]]:
            problems.append(f"{tag}: steps {[s for s, _ in found[tag]]}, metrics {[s for s, _ in expected[tag]]}")
            continue
        for (step, ours), (_, theirs) in zip(expected[tag], found[tag]):
            same = not math.isfinite(theirs) if ours is None else numpy.float32(ours) == numpy.float32(theirs)
            if not same:
                problems.append(f"{tag} step {step}: {theirs}, metrics {ours}")
    return report(f"{folder.name}: {count} scalars in {len(expected)} tags", problems)


def check_buckets(run):
    """Checks that histograms are consistent and at the requested steps."""
    events = open_events(run)
    problems = []
    tags = events.Tags()["histograms"]
    for tag in tags:
        histograms = events.Histograms(tag)
        if [h.step for h in histograms] != list(range(10, LAST_STEP + 1, 10)):
            problems.append(f"{tag}: steps {[h.step for h in histograms]}")
        for h in (event.histogram_value for event in histograms):
            if sum(h.bucket) != h.num or list(h.bucket_limit) != sorted(h.bucket_limit) or h.max >= h.bucket_limit[-1]:
                problems.append(f"{tag}: {h}")
    if not tags:
        problems.append("there are no histograms")
    return report(f"{run.name}: buckets of {len(tags)} histograms", problems)


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def check_parameters(run):
    """Compares histograms of parameters with histograms computed from checkpoint tensors."""
    events = open_events(run)
    problems = []
    count = 0
    for step in (RESUMED_FROM, LAST_STEP):
        with safe_open(run / f"checkpoint-{step:010}.safetensors", framework="numpy") as checkpoint:
            if checkpoint.metadata()["step"] != str(step):
                problems.append(f"checkpoint of step {step} says {checkpoint.metadata()['step']}")
            names = [name for name in checkpoint.keys() if name.startswith("parameters/")]
            for name in names:
                values = checkpoint.get_tensor(name).astype(numpy.float64).ravel()
                (h,) = [e.histogram_value for e in events.Histograms(name) if e.step == step]
                places = numpy.searchsorted(numpy.array(h.bucket_limit), values, side="right")
                counts = numpy.bincount(places, minlength=len(h.bucket_limit))
                same = (list(counts) == list(h.bucket) and h.min == values.min() and h.max == values.max()
                        and close(h.sum, values.sum()) and close(h.sum_squares, (values * values).sum()))
                if not same:
                    problems.append(f"{name} step {step}")
                count += 1
            if {name.split("/", 1)[1] for name in names} != {
                tag.split("/", 1)[1] for tag in events.Tags()["histograms"] if tag.startswith("parameters/")
            }:
                problems.append(f"checkpoint of step {step}: tensors {names}")
    return report(f"{run.name}: {count} tensors of checkpoints against histograms", problems)


def check_lines(run):
    """Checks that lines of histograms.jsonl are the event files' histograms with merged buckets."""
    events = open_events(run)
    problems = []
    found = {(tag, event.step): event.histogram_value
             for tag in events.Tags()["histograms"] for event in events.Histograms(tag)}
    lines = {(f"{line['kind']}/{line['tensor']}", line["step"]): line
             for line in map(json.loads, (run / "histograms.jsonl").read_text().splitlines())}
    problems += [f"{place} is in one file only" for place in sorted(found.keys() ^ lines.keys())]
    for place in found.keys() & lines.keys():
        theirs, line = found[place], lines[place]
        same = all(close(getattr(theirs, name), line[name]) for name in ("num", "min", "max", "sum", "sum_squares"))
        counts = dict.fromkeys(line["limits"], 0)
        for limit, count in zip(theirs.bucket_limit, theirs.bucket):
            # Limits in the file have 5 digits.
            counts[next(each for each in line["limits"] if each >= limit - 1e-4 * abs(limit))] += count
        if not same or list(counts.values()) != line["counts"]:
            problems.append(f"{place}: {line}")
    return report(f"{run.name}: {len(lines)} lines of histograms.jsonl against histograms", problems)


def check_telemetry(run):
    """Compares histograms of gradients with the telemetry of the same steps."""
    events = open_events(run)
    problems = []
    count = 0
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["kind"] != "tensors":
            continue
        for tensor, told in line["tensors"].items():
            gradient, clipped, sent = (
                next(e.histogram_value for e in events.Histograms(f"{leg}/{tensor}") if e.step == line["step"])
                for leg in ("gradient", "clipped", "sent")
            )
            limits = list(sent.bucket_limit)
            zeros = sent.bucket[limits.index(1e-12)] if 1e-12 in limits else 0
            agreements = {
                "max_abs": close(max(-gradient.min, gradient.max), told["max_abs"]),
                "norm": close(math.sqrt(gradient.sum_squares), told["norm"]),
                "kept_norm": told["norm"] == 0 or close(math.sqrt(clipped.sum_squares / gradient.sum_squares), told["kept_norm"]),
                # Tiny numbers in tensors sent as fp32 share a bucket with zeros.
                "zero_fraction": told["scaler"] == 0 or close(zeros / sent.num, told["zero_fraction"]),
                "scaler": told["scaler"] == 0 or close(max(-sent.min, sent.max), told["scaler"]),
            }
            problems += [f"{tensor} step {line['step']}: {name}" for name, agrees in agreements.items() if not agrees]
            count += 1
    return report(f"{run.name}: {count} records of telemetry against histograms", problems)


def run_quietly(command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited {result.returncode}:\n{result.stdout}")


def check(options, folder):
    run = folder / "run"
    train = [options.train.resolve(), *OPTIONS, "--train_dir", run]
    run_quietly(train)
    results = [check_scalars(run)]
    (run / f"checkpoint-{LAST_STEP:010}.safetensors").unlink()
    run_quietly([*train, "--resume"])
    num_files = len(list(run.glob("events.out.tfevents.*")))
    results.append(report("a resumed run has a second event file", [] if num_files == 2 else [f"{num_files} files"]))
    results += [check_scalars(run), check_buckets(run), check_parameters(run), check_lines(run), check_telemetry(run)]
    run_quietly([options.eval.resolve(), "--checkpoint_dir", run, "--eval_dir", folder / "eval"])
    results.append(check_scalars(folder / "eval"))
    return all(results)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, type=pathlib.Path, help="the built terngrad_train")
    parser.add_argument("--eval", required=True, type=pathlib.Path, help="the built terngrad_eval")
    return parser.parse_args()


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        return 0 if check(options, pathlib.Path(folder)) else 1


if __name__ == "__main__":
    arguments = parse()
    try:
        import numpy
        from safetensors import safe_open

        # Suppresses tensorboard's message that TensorFlow is missing, which is not needed.
        logging.disable(logging.WARNING)
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as missing:
        print(f"skipped: {missing} (scripts/install_deps.sh --formats)")
        sys.exit(SKIPPED)
    sys.exit(main(arguments))
