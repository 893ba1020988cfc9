#!/usr/bin/env python3
"""Says how long a training takes to an accuracy over slow links: steps to it, times what a step takes on each link.

    scripts/bench/time_to_accuracy.py --links bench-slow-link/results.json --top1 0.60 --out time-to-accuracy.md

The bits of a training do not depend on the link, so that the two are measured apart:

  steps      of the recipe time-to-accuracy (terngrad_experiment run time-to-accuracy), between two evaluations by a straight
             line; of PyTorch by experiments/cifar10_pytorch.py as two processes, from the files of --pytorch
  the step   of scripts/bench/bench_slow_link.py --nets cifar10_alexnet, whose optimizer is momentum for every row but DGC's:
             an update of Adam costs 1 ms more
  forecast   the same steps times what terngrad_advise said of a step beforehand

A host's bytes are those that its interface counted. Exit code: 2 for wrong usage or files that do not go together.
"""

import argparse
import json
import pathlib
import sys

import slow_link_report

ROOT = pathlib.Path(__file__).resolve().parents[2]
NET = "cifar10_alexnet"
CELLS = {  # rows of bench_slow_link.py and the recipe's cells with the same bits
    "fp32": ["fp32", "fp32-momentum"],
    "vendor-fp32": ["fp32"],
    "bf16": ["bf16"],
    "t2": ["ternary"],
    "t5": ["ternary"],
    "trans": ["ternary"],
    "qsgd-4": ["qsgd-4"],
    "topk-1": ["topk-1"],
    "dgc-0.1": ["dgc-0.1"],
    "powersgd-4": ["powersgd-4"],
}


def refuse(text):
    print(f"time_to_accuracy.py: {text}", file=sys.stderr)
    raise SystemExit(2)


def steps_to(curve, target):
    """The first step with this accuracy, by a straight line between evaluations.
    @param curve  (step, accuracy), ascending
    @returns None if it is never reached"""
    before = (0, 0.0)
    for step, accuracy in curve:
        if accuracy >= target:
            part = (target - before[1]) / (accuracy - before[1])
            return before[0] + part * (step - before[0])
        before = (step, accuracy)
    return None


def read_lines(path):
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        refuse(f"{path}: {error}")


def curves_of_cells(path):
    """{cell: curve} of the recipe's runs of all steps, from the last recorded seed."""
    curves = {}
    for line in read_lines(path):
        if line["scale"] == "1" and line.get("status", "done") == "done":
            curves[line["cell"].partition("/")[2]] = line["curves"]["test_top1"]
    return curves


def curve_of_pytorch(path):
    return [(line["step"], line["top1_ema"]) for line in read_lines(path)]


def forecast_seconds(row, advice):
    """Step duration predicted by terngrad_advise, None if it did not predict it."""
    if advice is None:
        return None
    said = {(entry["codec"], entry["exchange"] == "vendor"): entry["step_seconds"] for entry in advice["codecs"]}
    return None if row["system"] == "ddp" else said.get((row["codec"], row["system"] == "vendor"))


def entries_of(rows, curves, target):
    """A dictionary for each training measured on a link."""
    advice = slow_link_report.advice_of(rows)
    entries = []
    for row in slow_link_report.measured(rows, "step_seconds"):
        for cell in CELLS.get(row["row"], [row["row"]]):
            if cell not in curves:
                continue
            steps = steps_to(curves[cell], target)
            entry = {"row": row["row"], "training": cell, "step_seconds": row["step_seconds"], "steps": steps}
            said = forecast_seconds(row, advice)
            if steps is not None:
                entry["seconds"] = steps * row["step_seconds"]
                entry["forecast_seconds"] = None if said is None else steps * said
                if "num_steps" in row and "interface_sent_bytes" in row:
                    entry["interface_bytes"] = steps * max(row["interface_sent_bytes"]) / row["num_steps"]
            entries.append(entry)
    return entries


def table(entries):
    baseline = min((entry["seconds"] for entry in entries if entry["training"] == "fp32" and "seconds" in entry), default=None)
    number = slow_link_report.number
    lines = [["row", "training", "steps", "ms a step", "seconds", "speed-up over fp32", "forecast, s", "MB by the interface"]]
    lines.append(["---"] * len(lines[0]))
    for entry in sorted(entries, key=lambda entry: entry.get("seconds", float("inf"))):
        if entry["steps"] is None:
            lines.append([entry["row"], entry["training"], "not reached", number(1e3 * entry["step_seconds"]), *4 * ["-"]])
            continue
        forecast, sent = entry["forecast_seconds"], entry.get("interface_bytes")
        lines.append([entry["row"], entry["training"], f"{entry['steps']:.0f}", number(1e3 * entry["step_seconds"]),
                      number(entry["seconds"]), number(slow_link_report.ratio(baseline, entry["seconds"])), number(forecast),
                      number(None if sent is None else 1e-6 * sent)])
    return [f"| {' | '.join(line)} |" for line in lines]


def to_markdown(report, by_rate, target):
    machine = report["machine"]
    lines = [f"# Time to {100 * target:g} % top-1 over slow links", "",
             f"CifarNet on CIFAR-10, 2 hosts with one thread each, 128 examples in a step; {machine['processor']}, "
             f"{machine['processors']} processors; {report['version']}; {report['written']}. Averaged weights, one seed. The "
             "fastest fp32 row with Adam is the baseline of speed-ups.", ""]
    for rate, entries in by_rate.items():
        lines += [f"## {slow_link_report.NAMES.get(rate, rate)}", "", *table(entries), ""]
    return "\n".join(lines).rstrip() + "\n"


def pytorch_word(word):
    row, separator, path = word.partition("=")
    if not separator or not row.startswith("ddp-"):
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected ROW=FILE with a row such as ddp-fp16")
    return row, pathlib.Path(path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=pathlib.Path, required=True, help="results.json of bench_slow_link.py")
    parser.add_argument("--steps", type=pathlib.Path, default=ROOT / "experiments/results/time-to-accuracy.jsonl",
                        help="recorded runs of the recipe (default: the repository's)")
    parser.add_argument("--pytorch", type=pytorch_word, nargs="+", default=[], metavar="ROW=FILE",
                        help="output of cifar10_pytorch.py that has a row's steps, such as ddp-fp16=fp16.jsonl")
    parser.add_argument("--top1", type=float, default=0.60, help="the accuracy (default 0.60)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="table to write; numbers to the same name with .json")
    options = parser.parse_args()
    if not 0 < options.top1 < 1:
        parser.error(f"--top1: {options.top1} is refused, expected more than 0 and less than 1")
    if options.out.suffix != ".md":
        parser.error(f"--out: {options.out} is no name that ends in .md")
    return options


def main(options):
    curves = curves_of_cells(options.steps)
    curves.update((row, curve_of_pytorch(path)) for row, path in options.pytorch)
    try:
        report = json.loads(options.links.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        refuse(f"{options.links}: {error}")
    by_rate = {}
    for row in report["rows"]:
        if row["net"] == NET:
            by_rate.setdefault(row["rate"], []).append(row)
    by_rate = {rate: entries_of(rows, curves, options.top1) for rate, rows in by_rate.items()}
    if not any(by_rate.values()):
        refuse(f"{options.links}: has no step of {NET} whose steps are known")
    options.out.write_text(to_markdown(report, by_rate, options.top1), encoding="utf-8")
    numbers = {"top1": options.top1, "net": NET, "version": report["version"], "machine": report["machine"], "rates": by_rate}
    options.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(parse()))
