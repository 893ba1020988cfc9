#!/usr/bin/env python3
"""Makes report.json and report.md of what gpu_check.py has left (gpu_results.py says what), and says whether it passed.

Usage: scripts/gpu/gpu_report.py [--require_targets] RESULTS OUT_DIR

RESULTS is the folder, or results.tar.xz. Exit codes: 0 passed, 1 not, 2 wrong usage. With --require_targets a benchmark that
misses its target does not pass.
"""

import collections
import csv
import dataclasses
import json
import pathlib
import re
import statistics
import sys
import tarfile

import gpu_results
from gpu_jobs import NO_TIME, SILENT, TIMED_OUT
from gpu_results import read_json, read_records, read_text

# Machines may deny access to performance counters, or run programs where profilers do not work.
PROFILER_REFUSES = re.compile("ERR_NVGPUCTRPERM.*|Failed to initialize the profiler.*")
SKIPPED = 77  # exit code of a script that cannot run here
# {status of a part: True if it is a failure}.
STATUSES = {"passed": False, "failed": True, "timed out": True, "not run": True, "absent": False,
            "cut off": False}
# A skipped GPU test is a failure unless the reason is missing public data.
LACK_OF_DATA = re.compile(r"no \w+ in \S+$")
# Tolerances for a run that moved to another device compared with one that did not, both in float32: losses of single batches
# (small ones count as LEAST_LOSS), and top-1. A different order of sums changes losses of LeNet on MNIST by up to 1.3 % in
# 100 steps, 2.0 % in 200, and top-1 by 0.0001.
MOVED_LOSS = 0.1
MOVED_TOP1 = 0.01
LEAST_LOSS = 0.05
SANITIZER_FINDING = re.compile(
    r"^=========\s+(Invalid |Uninitialized |Misaligned |Barrier error|Fatal|Internal|.*hazard detected"
    # Excludes messages about programs that failed on their own or were stopped.
    r"|Error: (?!process didn't terminate|Target application|couldn't find))"
)


@dataclasses.dataclass
class Part:
    """A line of parts.jsonl with derived values."""

    kind: str
    name: str
    rc: object
    seconds: float
    limit: float
    text: str
    absent: str = ""
    reason: str = ""
    min_top1: float = 0
    other: str = ""
    status: str = ""
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class Target:
    row: str
    counter: str
    limit: float
    is_least: bool  # True: the limit is a minimum, else a maximum
    text: str

    def is_met(self, value):
        return value >= self.limit if self.is_least else value <= self.limit


TARGETS = (
    Target("encode_tensor/cuda/f32/n:67108864/memory", "of_copy", 0.90, True,
           "encoding 64 Mi elements in memory: at least 90 % of the copy, 8.25 bytes per element"),
    Target("aggregate8_t2/cuda/f32/n:67108864/memory", "of_copy", 0.88, True,
           "summing 8 messages of 64 Mi codes in memory: at least 88 % of the copy, 6 bytes per element"),
    Target("encode_model/cuda/f32/lenet/cache", "median_us", 15, False,
           "encoding LeNet's gradient in the cache: at most 15 us"),
)
STEPS = "train_step/cuda/"
STEP_PARTS = ("examples", "compute", "decay", "encode", "decode", "update")
# The kernel that ends a training step.
LAST_KERNEL = "end_step_kernel"
CACHE_TARGET = "every benchmark in the cache: of_target at most 1 (kernels that only wait + bytes at 1.3 of the copy)"


def last_line(log):
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def judge_tests(part, state, log):
    tests = read_json(state / f"{part.name}.tests.json")
    if tests is None:
        return "failed", f"no results: {last_line(log)}"
    results = tests["results"]
    skipped = [name for name, result in results.items() if result == "skipped"]
    ran = [name for name in results if name not in skipped]
    failed = [name if result == "failed" else f"{name} {result}" for name, result in results.items()
              if result not in ("passed", "skipped")]
    not_run = [name for name in tests["planned"] if name not in results]
    of_cuda = [name for name in ran if "Cuda" in name]
    counts = f"{len(ran)} tests, {len(of_cuda)} of them on the GPU, {len(skipped)} skipped"
    if failed:
        return "failed", f"{counts}; failed: {shortened(failed)}"
    if not_run:
        return "failed", f"{counts}; not run: {shortened(not_run)}"
    reasons = reasons_of_skips(log)
    skipped_of_cuda = [name for name in skipped if "Cuda" in name and not LACK_OF_DATA.match(reasons.get(name, ""))]
    if skipped_of_cuda:
        return "failed", f"{counts}; skipped though there is a GPU: {shortened(skipped_of_cuda)}"
    if not ran:
        return "failed", f"{counts}: nothing was tested"
    return outcome(part, log, counts)


def reasons_of_skips(log):
    """(name, reason) of skipped tests in GoogleTest's output."""
    return {name: reason for reason, name in re.findall(r": Skipped\n(.*)\n+\[  SKIPPED \] (\S+)", log)}


def judge_sanitizer(part, _, log):
    finding = next((line for line in log.splitlines() if SANITIZER_FINDING.search(line)), None)
    summary = next((line for line in reversed(log.splitlines()) if "SUMMARY" in line), "").strip("= ")
    tests = log.count("[       OK ]")
    if part.rc != 0 and "Device not supported" in log:
        return "absent", "compute-sanitizer does not support the device on this machine"
    if part.rc != 0 and finding:
        return "failed", f"{finding.strip('= ')} ({summary or 'no summary'})"
    if part.rc == TIMED_OUT:
        return "cut off", f"after {part.limit:g} s: {tests} tests ran, nothing found"
    if part.rc == 0 and (tests == 0 or not summary):
        return "failed", f"nothing was checked: {last_line(log)}"
    return outcome(part, log, f"{tests} tests, {summary}")


def judge_bench(part, state, log):
    rows = read_rows(state / f"{part.name}.bench.json")
    wrong = [row["name"] for row in rows if row.get("error_occurred")]
    counts = f"{len(rows)} benchmarks"
    if wrong:
        return "failed", f"{counts}; wrong results: {shortened(wrong)}"
    if part.rc == 0 and not rows:
        return "failed", f"no benchmarks ran: {last_line(log)}"
    if part.rc == TIMED_OUT and rows:
        return "cut off", f"after {part.limit:g} s: {counts}, all with right results"
    return outcome(part, log, counts)


def judge_training(part, state, log):
    if part.rc == 2 and "built without CUDA" in last_line(log):
        return "absent", f"trainings on a GPU are not built: {last_line(log)}"
    records = read_records(state / f"{part.name}.run" / "metrics.jsonl")
    train = [record for record in records if record["kind"] == "train"]
    test = [record for record in records if record["kind"] == "test"]
    if part.rc == 0 and not train:
        return "failed", "it left no metrics"
    detail = ""
    if train:
        speed = statistics.median(record["examples_per_second"] for record in train)
        detail = f"step {train[-1]['step']}, loss {train[-1]['loss']}, {speed:.0f} examples/s"
    if test:
        detail += f", top-1 {test[-1]['top1']:.4f}"
    if part.rc == 0 and part.min_top1 and (not test or test[-1]["top1"] < part.min_top1):
        return "failed", f"{detail}, where top-1 of at least {part.min_top1} is expected"
    return outcome(part, log, detail)


def judge_move(part, state, log):
    """Compares a run that continued on another device, line by line, with the one that did not move."""
    if part.rc != 0:
        return outcome(part, log, "")
    resumed = re.search(r"resumed after step (\d+)", log)
    if not resumed:
        return "failed", f"it did not continue from a checkpoint: {last_line(log)}"
    first = int(resumed[1])
    moved, stayed = runs_of(part, state)
    losses, expected = ({record["step"]: record["loss"] for record in records
                         if record["kind"] == "train" and record["step"] > first} for records in (moved, stayed))
    if not losses or losses.keys() != expected.keys():
        return "failed", f"metrics after step {first} are of steps {sorted(losses)}, expected {sorted(expected)}"
    tops = [record["top1"] for record in (*moved, *stayed) if record["kind"] == "test" and record["step"] > first]
    if len(tops) != 2:
        return "failed", f"it left no evaluation after step {first} to compare"
    apart = [abs(losses[step] - expected[step]) / max(expected[step], LEAST_LOSS) for step in losses]
    top1 = abs(tops[0] - tops[1])
    detail = (f"resumed after step {first}; of {len(losses)} losses none is more than {percent(max(apart))} from that of the "
              f"run that stayed, top-1 {top1:.4f} (bounds: {percent(MOVED_LOSS)}, {MOVED_TOP1})")
    # Written so that NaN fails.
    passes = all(value <= MOVED_LOSS for value in apart) and top1 <= MOVED_TOP1
    return "passed" if passes else "failed", detail


def judge_repeat(part, state, log):
    """Compares a run with another one with equal options: last checkpoint and metrics, without times."""
    if part.rc != 0:
        return outcome(part, log, "")
    found = read_json(state / f"{part.name}.difference.json")
    if found is None:
        return "failed", "a run left no checkpoint"
    ends = found["checkpoints"]
    records = [[{key: value for key, value in record.items() if not key.endswith(("_seconds", "_per_second"))}
                for record in run] for run in runs_of(part, state)]
    first = next((one["step"] for one, other in zip(*records) if one != other), None)
    since = f"; metrics differ from step {first} on" if first is not None else ""
    if ends[0] != ends[1] or "different" in found:
        names = [f"{name} ({found_in(tensor)})" for name, tensor in found.get("different", {}).items()]
        return "failed", f"two runs with the same options end with different bits in {ends[0]}: {shortened(names)}{since}"
    if not records[0] or records[0] != records[1]:
        return "failed", f"two runs with the same options have different metrics{since}"
    return "passed", f"two runs end with the same {found['bytes']} bytes of {ends[0]} and {len(records[0])} equal records"


def found_in(tensor):
    return f"{tensor['elements']} of {tensor['of']} from {tensor['first']} on" if "of" in tensor else tensor["error"]


def judge_script(part, _, log):
    refusal = PROFILER_REFUSES.search(log)
    if part.rc == SKIPPED or refusal:
        return "absent", refusal[0] if refusal else last_line(log)
    if "No kernels were profiled" in log:
        return "failed", "no kernels were profiled"
    return outcome(part, log, last_line(log)[:150] if part.rc == 0 else "")


def kernels_of_step(log):
    """(kernel, launches, us) of the last training step in Nsight Compute's CSV of a run, longest first; empty if it has none."""
    rows = [line for line in csv.reader(log.splitlines()) if len(line) > 10]
    column = {name: i for i, name in enumerate(rows[0])} if rows else {}
    launches = [(row[column["Kernel Name"]], float(row[column["Metric Value"]].replace(",", "")) / 1000)
                for row in rows if row != rows[0]]
    ends = [i for i, (kernel, _) in enumerate(launches) if LAST_KERNEL in kernel]
    if len(ends) < 2:
        return []
    of_kernel = collections.defaultdict(list)
    for kernel, us in launches[ends[-2] + 1:ends[-1] + 1]:
        of_kernel[kernel].append(us)
    return sorted(([kernel, len(times), round(sum(times), 2)] for kernel, times in of_kernel.items()), key=lambda row: -row[2])


def judge_profile(part, state, log):
    status, detail = judge_script(part, state, log)
    kernels = kernels_of_step(log)
    if status != "passed":
        return status, detail
    if not kernels:
        return "failed", "no whole step was profiled"
    return "passed", f"a step has {sum(row[1] for row in kernels)} kernels, {sum(row[2] for row in kernels):.1f} us by themselves"


def runs_of(part, state):
    """The metrics of a part's run, and of the run to compare with."""
    return [read_records(state / f"{name}.run" / "metrics.jsonl") for name in (part.name, part.other)]


def outcome(part, log, detail):
    """The status by exit code alone."""
    if part.rc == 0:
        return "passed", detail
    if part.rc in (TIMED_OUT, SILENT):
        return "timed out", f"after {part.limit:g} s; {detail}; last line: {last_line(log)}"
    return "failed", f"exit code {part.rc}; {detail}; last line: {last_line(log)}"


JUDGES = {"tests": judge_tests, "resume": judge_tests, "sanitizer": judge_sanitizer, "bench": judge_bench,
          "training": judge_training, "move": judge_move, "repeat": judge_repeat, "script": judge_script,
          "profile": judge_profile}


def judged(record, state):
    """A part with its status and details."""
    part = Part(**record)
    part.status, part.detail = judge(part, state)
    if (state / f"{part.name}.hang.txt").exists():
        part.detail += f"; {part.name}.hang.txt has what it hung in"
    return dataclasses.asdict(part)


def judge(part, state):
    if part.absent:
        return "absent", part.absent
    if part.reason:
        return "failed", part.reason
    if part.rc == NO_TIME:
        return "not run", "no time was left"
    try:
        return JUDGES[part.kind](part, state, read_text(state / f"{part.name}.log"))
    except Exception as error:
        # Other parts are still reported.
        return "failed", f"exit code {part.rc}; what it left cannot be read: {error!r}"


def shortened(names, most=5):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def read_rows(path):
    """The complete benchmarks of a file, which may be truncated."""
    text = read_text(path)
    found = re.search(r'"benchmarks":\s*\[', text)
    if not found:
        return []
    rows, at, decoder = [], found.end(), json.JSONDecoder()
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \r\n\t,"))
        try:
            row, at = decoder.raw_decode(text, at)
        except ValueError:
            return rows
        row["name"] = re.sub(r"/iterations:.*", "", row["name"])
        rows.append(row)


def bench_rows(parts, state):
    """All rows by name; the first of repeated rows, which is used for its target."""
    rows = {}
    for part in parts:
        if part["kind"] == "bench":
            for row in read_rows(state / f"{part['name']}.bench.json"):
                rows.setdefault(row["name"], row)
    return rows


def judge_targets(rows):
    """(text, True if met or None if not measured, measured value) of every target."""
    results = []
    for target in TARGETS:
        value = rows.get(target.row, {}).get(target.counter)
        met = None if value is None else target.is_met(value)
        results.append({"target": target.text, "benchmark": target.row, "met": met, "measured": value})
    in_cache = {name: row["of_target"] for name, row in rows.items() if "of_target" in row}
    missed = sorted((name for name, value in in_cache.items() if value > 1), key=in_cache.get, reverse=True)
    results.append({
        "target": CACHE_TARGET,
        "benchmark": f"{len(in_cache) - len(missed)} of {len(in_cache)}"
        + (f"; furthest off: {shortened(missed)}" if missed else ""),
        "met": not missed if in_cache else None,
        "measured": max(in_cache.values(), default=None),
    })
    return results


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def percent(value):
    return "" if value is None else f"{100 * value:.1f} %"


def markdown_table(header, lines):
    def escaped(cell):
        return str(cell).replace("|", "\\|")

    rule = ["---" if i == 0 else "--:" for i in range(len(header))]
    return ["| " + " | ".join(map(escaped, line)) + " |" for line in [header, rule, *lines]] + [""]


def steps_table(rows):
    """Table of steps and their parts; empty if none was measured."""
    if not rows:
        return []
    text = ["## Training steps", "", "Medians in us. A step is one of a burst of 64 that the host does not look at. Parts are timed",
            "as graphs of their own, `graph` is all of them in one graph, `no exchange` is it without encode and decode.", ""]
    return text + markdown_table(
        ["step", "steps/s", "step", *STEP_PARTS, "sum of parts", "graph", "no exchange", "longest part"],
        [[row["name"].removeprefix(STEPS), number(row.get("steps_per_s"), 0), number(row.get("step_us"), 1),
          *(number(row.get(f"{part}_us"), 1) for part in STEP_PARTS), number(row.get("sum_us"), 1),
          number(row.get("graph_us"), 1), number(row.get("no_exchange_us"), 1), longest_part(row)] for row in rows])


def longest_part(row):
    """The longest part of a step with its fraction of the sum; for a failed row the reason."""
    if row.get("error_occurred"):
        return row.get("error_message", "failed")
    part = max(STEP_PARTS, key=lambda name: row.get(f"{name}_us", 0))
    return f"{part}, {percent(row[f'{part}_us'] / row['sum_us'])}" if row.get("sum_us") else ""


def markdown(report):
    text = ["# Check on a GPU: " + ("passed" if report["passed"] else "NOT passed"), ""]
    text += [f"- {name}: {value}" for name, value in report["machine"].items()] + ["", "## Parts", ""]
    text += ["| part | status | seconds | |", "| --- | --- | --: | --- |"]
    for part in report["parts"]:
        cells = [part["name"], part["status"], f"{part['seconds']:g}", part["detail"].replace("|", "\\|")]
        text.append("| " + " | ".join(cells) + " |")
    text += ["", "## Targets", "", "| target | met | measured | benchmark |", "| --- | --- | --: | --- |"]
    for target in report["targets"]:
        met = {True: "yes", False: "NO", None: "not measured"}[target["met"]]
        text.append(f"| {target['target']} | {met} | {number(target['measured'], 3)} | {target['benchmark']} |")
    text += [""] + steps_table([row for row in report["benchmarks"] if row["name"].startswith(STEPS)])
    for name, kernels in report["kernels"].items():
        text += [f"## Kernels of a step: {name}", ""]
        text += markdown_table(["kernel", "launches", "us"], [[kernel[:120], *numbers] for kernel, *numbers in kernels])
    text += ["## Benchmarks", "", "Medians. Percent is of a copy from device to device measured in the same rounds.", ""]
    text += markdown_table(
        ["benchmark", "us", "GB/s moved", "copy GB/s", "of copy", "floor us", "of target"],
        [[row["name"], number(row.get("median_us")), number(row.get("moved_GBps"), 1), number(row.get("copy_GBps"), 1),
          percent(row.get("of_copy")), number(row.get("floor_us")), number(row.get("of_target"))]
         if not row.get("error_occurred") else [row["name"], row.get("error_message", "failed"), "", "", "", "", ""]
         for row in report["benchmarks"] if not row["name"].startswith(STEPS)],
    )
    return "\n".join(text)


def make_report(state, require_targets):
    parts = [judged(record, state) for record in gpu_results.read_parts(state)]
    rows = bench_rows(parts, state)
    targets = judge_targets(rows)
    passed = bool(parts) and not any(STATUSES[part["status"]] for part in parts)
    if require_targets and any(target["met"] is not True for target in targets):
        passed = False
    return {
        "machine": read_json(state / "machine.json") or {},
        "passed": passed,
        "parts": parts,
        "targets": targets,
        "benchmarks": list(rows.values()),
        "kernels": {part["name"]: kernels_of_step(read_text(state / f"{part['name']}.log"))
                    for part in parts if part["kind"] == "profile" and part["status"] == "passed"},
    }


def write(state, out, require_targets):
    """Writes report.json and report.md to `out` from the folder `state`. @returns the report"""
    report = make_report(state, require_targets)
    gpu_results.write_json(out / "report.json", report)
    gpu_results.write_text(out / "report.md", markdown(report))
    return report


def summary(report, out):
    """The report with a line for each part and target, and the verdict."""
    lines = [f"{part['name']:18} {part['status']:9} {part['seconds']:5g} s  {part['detail']}" for part in report["parts"]]
    for target in report["targets"]:
        met = {True: "met", False: "missed", None: "not measured"}[target["met"]]
        lines.append(f"target {met}: {target['target']} [{number(target['measured'], 3) or '-'}]")
    return "\n".join([*lines, f"{'passed' if report['passed'] else 'NOT passed'}: {out / 'report.md'}"])


def main(arguments):
    require_targets = arguments[:1] == ["--require_targets"]
    if require_targets:
        arguments = arguments[1:]
    if len(arguments) != 2 or any(argument.startswith("-") for argument in arguments):
        print("gpu_report.py: usage: gpu_report.py [--require_targets] RESULTS OUT_DIR", file=sys.stderr)
        return 2
    results, out = map(pathlib.Path, arguments)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with gpu_results.opened(results) as state:
            report = write(state, out, require_targets)
    except (OSError, tarfile.TarError) as error:
        print(f"gpu_report.py: RESULTS: '{results}' cannot be read: {error}", file=sys.stderr)
        return 2
    print(summary(report, out))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
