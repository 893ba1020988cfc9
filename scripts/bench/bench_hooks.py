#!/usr/bin/env python3
"""Measures ways in which the gradients of PyTorch's DistributedDataParallel travel between two hosts joined by slow links.

    sudo PYTHONPATH=build/release/python scripts/bench/bench_hooks.py --mbit 100 1000 --out bench-hooks

Trains ResNet-18 for CIFAR-10 (examples/ddp_cifar10.py, 11.2 million parameters) over Gloo on two hosts of
scripts/hosts/slow_link.sh, one process with one thread each, on data in memory. --hooks are the rows:

  none                    DDP as it is, in fp32
  fp16, powersgd:rank=R   PyTorch's own hooks; PowerSGD in a single bucket, as it needs over Gloo
  ternary:clip_factor=2.5 or any other codec of ours by name, preset or spec (docs/codecs.md)

Every row is a launch of its own (scripts/bench/ddp_hooks_rank.py), with iperf3's rate just before it. There are --rounds of
all rows, one after the other, so that what drifts on the machine is seen in all rows alike: the table has the median of each round,
and of the steps of all rounds. Bytes are those that the kernel counts at a host's interface from the first step that counts to the
last, for the host that sends most, beside those that our exchange reports. The Python part of a hook is measured in launches of its
own without a limit of the rate.

On a virtual machine others may take processor time away. A launch that lost more of it than --max_stolen is made again, 20 s
later, three times in all, and the one that lost the least counts; how busy the machine was just before is in the results too.

--out gets rows/RATE.HOOK.ROUND.json, results.json and results.md, --json a copy of results.json. A launch that is there is not
made again, but failed ones are: after Ctrl-C the same command continues. Results of another commit, other versions or settings are
refused. Exit codes: 1 if a launch failed, 2 for wrong usage. --dry_run prints commands.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

import link_launch

HOSTS = 2
HOOKS = ["none", "fp16", "powersgd:rank=4", "ternary:clip_factor=2.5", "qsgd:bits=4", "efsignsgd"]
PYTORCH = ("none", "fp16", "powersgd")  # names before a colon
RANK_SCRIPT = "bench/ddp_hooks_rank.py"


def is_ours(hook):
    return hook.partition(":")[0] not in PYTORCH


def rank_command(options):
    """Command line common to all launches."""
    return [options.python, str(link_launch.SCRIPTS / RANK_SCRIPT), "--steps", str(options.steps), "--warmup", str(options.warmup),
            "--batch_size", str(options.batch_size), "--width", str(options.width), "--threads", "1"]


class Row(link_launch.Launch):
    """A row in one round: ddp_hooks_rank.py on both hosts."""

    def __init__(self, options, rate, hook, number):
        super().__init__(options, f"{rate}.{hook}.{number}", rate, HOSTS)
        self.hook = hook
        self.said = {"round": number}
        self.link_options = ["--no-mpi"]

    def command(self):
        return [*rank_command(self.options), "--hook", self.hook, "--timeout", str(self.options.limit), "--out", self.result_file()]

    def about(self):
        return {"rate": self.rate, "hook": self.hook, "started": link_launch.now(),
                "busy_before_percent": link_launch.busy_percent(), **self.said}

    def read(self):
        result = self.read_json("result.json")
        return {**result, "step_seconds": statistics.median(result["seconds_of_steps"])}


class PythonPart(Row):
    """Measures the Python time per bucket."""

    def __init__(self, options, hook):
        super().__init__(options, "none", hook, "python_part")
        self.said = {"python_part": True}

    def command(self):
        return [*super().command(), "--python_part"]

    def read(self):
        return self.read_json("result.json")


def launches_of(options):
    """All launches, in the order in which they run."""
    rows = [Row(options, rate, hook, number) for rate in options.mbit for number in range(1, options.rounds + 1)
            for hook in options.hooks]
    return rows + [PythonPart(options, hook) for hook in options.hooks if is_ours(hook)]


def settings_of(options):
    """Settings common to all launches of a result. Exits if the measuring process rejects its options or lacks a package."""
    hooks = [word for hook in options.hooks for word in ("--hook", hook)]
    done = subprocess.run([*rank_command(options), *hooks, "--version"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        link_launch.refuse(link_launch.reason_in(done.stdout + done.stderr))
    commit = subprocess.run(["git", "-C", str(link_launch.SCRIPTS), "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False)
    return {"version": done.stdout.strip(), "commit": commit.stdout.strip() or None, "steps": options.steps,
            "warmup": options.warmup, "batch_size": options.batch_size, "width": options.width}


def summary_of(rate, hook, launches, python_part):
    """A row of the tables, from all its rounds. @param python_part  result of its PythonPart launch, None without one"""
    sent = [max(launch["interface_sent_bytes_per_step"]) for launch in launches]
    seconds = [second for launch in launches for second in launch["seconds_of_steps"]]
    row = {"rate": rate, "hook": hook, "rounds": [launch["step_seconds"] for launch in launches],
           "step_seconds": statistics.median(seconds), "steps_per_s": 1 / statistics.median(seconds),
           "interface_sent_bytes": statistics.median(sent), "reported_sent_bytes": launches[-1].get("reported_sent_bytes"),
           "iperf3_mbit_per_s": statistics.median(launch["iperf3_mbit_per_s"] for launch in launches),
           "stolen_percent": max(launch["stolen_percent"] for launch in launches),
           "busy_before_percent": max(launch["busy_before_percent"] for launch in launches)}
    if python_part is not None:
        row |= {name: python_part[name] for name in ("buckets", "hook_seconds_per_bucket", "communicator_seconds_per_bucket")}
    return row


def summaries_of(results):
    """Rows of all successful launches, in order of their first launch."""
    done = [launch for launch in results.values() if "step_seconds" in launch]
    python_parts = {launch["hook"]: launch for launch in results.values() if "hook_seconds_per_bucket" in launch}
    groups = {}
    for launch in sorted(done, key=lambda launch: (link_launch.mbit_of(launch["rate"]), launch["started"])):
        groups.setdefault((launch["rate"], launch["hook"]), []).append(launch)
    return [summary_of(*key, sorted(launches, key=lambda launch: launch["round"]), python_parts.get(key[1]))
            for key, launches in groups.items()]


def number(value, factor=1.0, digits=3):
    return "-" if value is None else f"{value * factor:.{digits}g}" if value * factor < 1000 else f"{value * factor:.0f}"


HEADERS = ["hook", "step, s", "rounds, s", "steps/s", "to none", "MB at the interface", "MB reported", "interface / reported",
           "Python, ms a bucket: hook", "communicator", "iperf3, Mbit/s", "busy before", "stolen"]


def cells(row, of_none):
    """Cells of a table row. @param of_none  the row of DDP in fp32 at this rate, None if missing"""
    reported = row["reported_sent_bytes"]
    return [
        row["hook"],
        number(row["step_seconds"]),
        ", ".join(map(number, row["rounds"])),
        number(row["steps_per_s"]),
        number(None if of_none is None else row["steps_per_s"] / of_none["steps_per_s"]),
        number(row["interface_sent_bytes"], 1e-6),
        number(reported, 1e-6),
        "-" if reported is None else f"{row['interface_sent_bytes'] / reported:.3f}",
        number(row.get("hook_seconds_per_bucket"), 1e3, 2),
        number(row.get("communicator_seconds_per_bucket"), 1e3, 2),
        number(row["iperf3_mbit_per_s"]),
        f"{row['busy_before_percent']:.0f} %",
        f"{row['stolen_percent']:.1f} %",
    ]


def table(rows):
    of_none = next((row for row in rows if row["hook"] == "none"), None)
    lines = [HEADERS, ["---"] * len(HEADERS), *(cells(row, of_none) for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def to_markdown(report):
    machine = report["machine"]
    lines = [
        "# Hooks of DistributedDataParallel between two hosts joined by slow links",
        "",
        f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel']}; {report['version']}; commit "
        f"{report['commit']}; {report['written']}. ResNet-18 with {report['width']} channels in the stem, {report['batch_size']} "
        f"examples a process, {report['steps']} steps after {report['warmup']} others in each round.",
        "",
    ]
    rates = {}
    for row in report["rows"]:
        rates.setdefault(row["rate"], []).append(row)
    for rate, rows in rates.items():
        lines += [f"## {rate}", "", *table(rows), ""]
    if report["failed"]:
        lines += ["## Failed", "", *(f"- {key}: {error}" for key, error in report["failed"].items()), ""]
    lines += ["## Commands", "", "```", *(launch["command"] for launch in report["launches"]), "```"]
    return "\n".join(lines) + "\n"


def write_results(options, settings, results):
    report = {
        "command": "bench_hooks.py",
        **settings,
        "machine": link_launch.machine(),
        "written": link_launch.now(),
        "rows": summaries_of(results),
        "failed": {key: launch["error"] for key, launch in results.items() if "error" in launch},
        "launches": sorted(results.values(), key=lambda launch: launch["started"]),
    }
    text = json.dumps(report, indent=1) + "\n"
    (options.out / "results.json").write_text(text, encoding="utf-8")
    (options.out / "results.md").write_text(to_markdown(report), encoding="utf-8")
    if options.json:
        options.json.write_text(text, encoding="utf-8")
    return report


def outcome(result):
    """Short text on the result of a launch."""
    if "error" in result:
        return f"error: {result['error']}"
    if "step_seconds" in result:
        return f"{number(result['step_seconds'])} s a step"
    return f"{number(result['hook_seconds_per_bucket'], 1e3)} ms of the hook's Python a bucket"


def rate_of(word):
    """Converts an argument in Mbit/s to a rate of slow_link.sh."""
    if word == "none":
        return word
    try:
        return link_launch.rate_word(f"{word}mbit")
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected whole Mbit/s, or none") from None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbit", nargs="+", type=rate_of, default=["100mbit", "1000mbit"], metavar="RATE",
                        help="of the links in Mbit/s; none: as fast as the machine is (default: 100 1000)")
    parser.add_argument("--hooks", nargs="+", default=HOOKS, metavar="HOOK", help=f"default: {' '.join(HOOKS)}")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each row (default 3)")
    parser.add_argument("--steps", type=int, default=10, help="steps of a launch that count (default 10)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them (default 3, the fewest)")
    parser.add_argument("--batch_size", type=int, default=8, help="examples of a process in a step (default 8)")
    parser.add_argument("--width", type=int, default=64, help="channels of the stem: 64 (default) is ResNet-18")
    parser.add_argument("--python", default=sys.executable, help="Python that has PyTorch and terngrad (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-hooks"), help="default: bench-hooks")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for a copy of results.json")
    link_launch.add_options(parser, "launch", limit=600, has_programs=False)
    options = parser.parse_args()
    link_launch.check_options(parser, options, ("rounds", "steps", "warmup", "batch_size", "width"))
    for name in ("mbit", "hooks"):
        values = getattr(options, name)
        if len(set(values)) < len(values):
            parser.error(f"--{name}: {' '.join(values)} has one twice")
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: '{options.json}' is in no folder")
    return options


def main(options):
    settings = settings_of(options)
    differs = "another commit, other versions, --steps, --warmup, --batch_size or --width"
    kept = link_launch.SavedResults(options.out, settings, differs, options.dry_run)
    code = link_launch.measure_all(launches_of(options), kept, lambda results: write_results(options, settings, results), outcome)
    if not options.dry_run:
        report = write_results(options, settings, kept.results)
        shutil.rmtree(options.out / "scratch", ignore_errors=True)
        print(to_markdown(report).partition("## Commands")[0] + f"written: {options.out}/results.md")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except KeyboardInterrupt:
        sys.exit(130)
