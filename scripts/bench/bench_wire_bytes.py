#!/usr/bin/env python3
"""Puts the bytes that terngrad_train reports beside those that network interfaces count.

    sudo scripts/bench/bench_wire_bytes.py --programs build/release/bin --out bench-wire-bytes

Trains LeNet for --steps steps with N workers, --workers_per_host on each host (scripts/hosts/slow_link.sh: network namespaces
of this machine), for each N of --workers, and each codec and exchange of --rows; those of groups, by default where hosts have
several workers, make a group of each host's. --out gets results.json, with the machine and the
commit, and results.md. What interfaces count besides are headers of packets, acknowledgements, the start of the launch, and
what ranks tell each other of a step. Exit codes: 1 if a run failed, 2 for wrong usage.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
ROWS = {  # options of terngrad_train, number of separate server hosts
    "fp32": (["--grad_bits", "32"], 0),
    "bf16": (["--grad_bits", "16"], 0),
    "t2": (["--grad_bits", "1"], 0),
    "t5": (["--grad_bits", "1", "--ternary_format", "t5"], 0),
    "t2-all_gather": (["--grad_bits", "1", "--exchange", "all_gather"], 0),
    "t2-scatter_reduce": (["--grad_bits", "1", "--exchange", "scatter_reduce"], 0),
    "t2-integer_sum": (["--grad_bits", "1", "--exchange", "integer_sum"], 0),
    "vendor-fp32": (["--exchange", "vendor"], 0),
    "vendor-bf16": (["--exchange", "vendor", "--codec", "bf16"], 0),
    "fp32-groups": (["--grad_bits", "32", "--workers_per_group", "{workers_per_host}"], 0),
    "t2-groups": (["--grad_bits", "1", "--workers_per_group", "{workers_per_host}"], 0),
    "ps-t2": (["--grad_bits", "1", "--strategy", "ps"], 0),
    "ps-t2-server": (["--grad_bits", "1", "--strategy", "ps", "--num_servers", "1"], 1),
}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def has_groups(name):
    return name.endswith("-groups")


def options_of(options, name):
    return [option.format(workers_per_host=options.workers_per_host) for option in ROWS[name][0]]


def command_of(options, workers, name, folder):
    servers = ROWS[name][1]
    of_row = options_of(options, name)
    return [str(SCRIPTS / "hosts/slow_link.sh"), "--ranks_per_host", str(options.workers_per_host), "--counters",
            str(folder / "counters.json"), "none", str(workers // options.workers_per_host + servers), "--",
            str(options.programs / "terngrad_train"), "--num_nodes", str(workers), *of_row, "--max_steps", str(options.steps),
            "--log_steps", str(options.steps), "--eval_steps", "0", "--telemetry_steps", "0", "--tensorboard=false",
            "--save_iter", str(options.steps), "--device", "cpu", "--threads", "1", "--train_dir", str(folder / "run")]


def busiest(nodes):
    """The (sent, received) pair with the largest number."""
    return max(nodes, key=max)


def reported(line):
    """(sent, received) bytes of the busiest node per step, from a line of metrics.jsonl."""
    nodes = [tuple(sum(line["wire_bytes_per_worker"][way].values()) for way in ("sent", "received"))]
    if "wire_bytes_per_server" in line:
        nodes.append(tuple(line["wire_bytes_per_server"][way] for way in ("sent", "received")))
    return busiest(nodes)


def counted(counters, steps):
    """The same from interface counters, averaged over all steps."""
    return busiest([(host["sent_bytes"] / steps, host["received_bytes"] / steps) for host in counters["hosts"]])


def shown_in(said):
    """The bytes and the ratio of the last progress line."""
    found = re.findall(r"((?:worker|server|group) sent .*?/step)(?: ([0-9.]+)x fp32)?", said)
    return found[-1] if found else ("", "")


def measure(options, workers, name):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        command = command_of(options, workers, name, folder)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **AS_ROOT})
        if done.returncode != 0:
            raise SystemExit(f"bench_wire_bytes.py: {' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        lines = (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        line = [line for line in map(json.loads, lines) if line["kind"] == "train"][-1]
        sent, received = reported(line)
        counters = json.loads((folder / "counters.json").read_text(encoding="utf-8"))
        sent_counted, received_counted = counted(counters, options.steps)
        shown, ratio = shown_in(done.stderr)
        return {"row": name, "workers": workers, "options": options_of(options, name), "reported": {"sent": sent, "received": received},
                "counted": {"sent": sent_counted, "received": received_counted}, "ratio": line["wire_ratio"],
                "progress": shown, "progress_ratio": ratio, "hosts": counters["hosts"]}


def to_markdown(report):
    """A table with a row's MB per step of the busiest node, reported and counted, and their quotient; the reported ratio, and the
    counted bytes of row fp32 over those of this row."""
    lines = ["| N | row | sent, reported | counted | received, reported | counted | counted / reported | ratio | ratio by counters |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in sorted(report["rows"], key=lambda row: row["workers"]):
        baseline = next((other for other in report["rows"] if other["row"] == "fp32" and other["workers"] == row["workers"]),
                        None)
        of_fp32 = max(baseline["counted"].values()) / max(row["counted"].values()) if baseline else None
        numbers = [row[of][way] * 1e-6 for way in ("sent", "received") for of in ("reported", "counted")]
        factor = max(row["counted"].values()) / max(row["reported"].values())
        lines.append(f"| {row['workers']} | {row['row']} | " + " | ".join(f"{number:.3f}" for number in numbers) +
                     f" | {factor:.3f} | {row['ratio']:.2f} | {'-' if of_fp32 is None else f'{of_fp32:.2f}'} |")
    return "\n".join(lines) + "\n"


def version_of(options):
    done = subprocess.run([str(options.programs / "terngrad_train"), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of terngrad_train")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--workers_per_host", type=int, default=1, help="each in a process of its own")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), help="default: those without servers, if hosts have several workers")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if options.steps < 1 or min(options.workers) < 2:
        parser.error("--steps must be at least 1, and --workers at least 2")
    per_host = options.workers_per_host
    if per_host < 1 or any(workers % per_host != 0 or workers == per_host for workers in options.workers):
        parser.error(f"--workers_per_host {per_host}: must divide --workers, for two hosts or more")
    if options.rows is None:
        options.rows = [row for row in ROWS if (not has_groups(row) if per_host == 1 else ROWS[row][1] == 0)]
    if per_host == 1 and any(map(has_groups, options.rows)):
        parser.error("--rows: groups need --workers_per_host 2 or more")
    if per_host > 1 and any(ROWS[row][1] > 0 for row in options.rows):
        parser.error("--rows: servers of their own need --workers_per_host 1")
    options.programs = options.programs.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    report = {"command": "bench_wire_bytes.py", "version": version_of(options), "steps": options.steps,
              "machine": {"processors": os.cpu_count(), "kernel": platform.release()}, "rows": []}
    for workers in options.workers:
        for name in options.rows:
            row = measure(options, workers, name)
            print(f"{workers} workers, {name}: {row['progress']}, ratio {row['progress_ratio']}", file=sys.stderr)
            report["rows"].append(row)
    (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "results.md").write_text(to_markdown(report), encoding="utf-8")


if __name__ == "__main__":
    main()
