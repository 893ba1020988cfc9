#!/usr/bin/env python3
"""Puts measurements into a cluster file, which `terngrad_advise --cluster` then reads and nothing else.

    scripts/bench/make_cluster_file.py cluster.json -o measured.json --machine "2 hosts, Xeon, 2 cores" \\
        --codecs bench.json --link network=advise.json --profile lenet:32=profile-32.txt --profile lenet:64=profile-64.txt

The first file is a cluster file as well (trainers/commands/cluster_file.h), in which what is measured may be missing: machines,
links that nobody measured, nets with their buckets. What is measured replaces what it says.

--codecs FILE      terngrad_bench --benchmark_filter='^(statistics|ternarize_|encode_|decode_bfloat16|aggregate8_|unpack_lanes)'
                   --benchmark_out=FILE: all codecs whose parts it has, each at the smallest size from 2^20 elements on and at the
                   largest; on --device with --threads
--link NAME=FILE   gpu, host or network: terngrad_advise --json FILE of a launch, whose samples are taken, or
                   terngrad_exchange_bench --predict --json FILE, whose fit is
--profile NET:EXAMPLES=FILE
                   what terngrad_train --profile printed, of a worker alone with that batch (--num_nodes 1 --overlap off); two
                   batches make a line
--machine TEXT     what measured

Files of several commits are refused. Exit codes: 1 for a file that is not what was named, 2 for wrong usage.
"""

import argparse
import json
import pathlib
import re
import sys

MIN_ELEMENTS = 1 << 20
MESSAGES = 8  # that aggregate8_* averages
# Of each codec what encoding one gradient takes, and what decoding takes of one message: benchmarks that add up. Floats travel as
# they are.
CODECS = {
    "fp32": ((), ("aggregate8_fp32",)),
    "bf16": (("encode_bfloat16",), ("decode_bfloat16",)),
    "t2": (("encode_tensor",), ("aggregate8_t2",)),
    "t5": (("statistics", "ternarize_t5"), ("aggregate8_t5",)),
    "tmask": (("statistics", "ternarize_tmask"), ("aggregate8_tmask",)),
    "trans": (("statistics", "ternarize_trans"), ("aggregate8_trans",)),
    "lanes": (("statistics", "ternarize_lanes"), ("unpack_lanes",)),
}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
PART = re.compile(r"^\s+(compute|update)\s+([0-9.]+) ms", re.MULTILINE)


class InputError(Exception):
    """A file that is not what was named, in one line."""


def without_comments(text):
    """JSON without // and /* */, which a text in quotes may have."""
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda found: found.group(1) or " ", text, flags=re.DOTALL)


def read_json(path):
    try:
        return json.loads(without_comments(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: is not JSON: {error}") from None


def seconds_by_size(report, device, threads):
    """{benchmark: {elements: seconds}} of what ran on gradients in fp32 on a device, with `threads` where they are said."""
    found = {}
    for one in report.get("benchmarks", ()):
        name = re.match(r"([a-z0-9_]+)/([a-z]+)/(?!bf16/)[^/]+/n:(\d+)(?:/threads:(\d+))?", one["name"])
        # With repetitions there are means and medians beside them.
        wanted = one.get("run_type") == "iteration" or one.get("aggregate_name") == "median"
        if not name or not wanted or name.group(2) != device or int(name.group(4) or threads) != threads:
            continue
        found.setdefault(name.group(1), {})[int(name.group(3))] = one["real_time"] * SECONDS[one["time_unit"]]
    return found


def divided(name, seconds):
    return seconds / MESSAGES if name.startswith("aggregate8_") else seconds


def time_of(names, times):
    """Points of the sum of benchmarks at two sizes that all have, or at the only one; None if one of them is missing."""
    if not names:
        return {"points": [{"elements": 1, "seconds": 0}], "source": "given"}
    sizes = set.intersection(*({size for size in times.get(name, {}) if size >= MIN_ELEMENTS} for name in names))
    if not sizes:
        return None
    ends = sorted({min(sizes), max(sizes)})
    points = [{"elements": size, "seconds": sum(divided(name, times[name][size]) for name in names)} for size in ends]
    if points[0]["seconds"] > points[-1]["seconds"]:
        raise InputError(f"{' + '.join(names)}: {ends[1]} elements take less time than {ends[0]}; measure again")
    return {"points": points, "source": "measured"}


def codecs_of(report, device, threads):
    """@throws InputError if no codec has all its benchmarks"""
    times = seconds_by_size(report, device, threads)
    codecs = [{"name": name, "encode": time_of(encode, times), "decode": time_of(decode, times)}
              for name, (encode, decode) in CODECS.items()]
    found = [codec for codec in codecs if codec["encode"] and codec["decode"]]
    if not found:
        raise InputError(f"no codec has all its benchmarks on {device} with {threads} threads from {MIN_ELEMENTS} elements on")
    return found


def link_of(path):
    report = read_json(path)
    link = report.get("link") if isinstance(report, dict) else None
    if not link or not link.get("bytes_per_second"):
        raise InputError(f"{path}: has no measured link; run terngrad_advise --json as several processes of a launch")
    if "samples" in link:
        return {"samples": link["samples"]}, report["commit"]
    if report.get("command") == "terngrad_advise":
        raise InputError(f"{path}: its link was given, not measured")
    return {"latency_us": 1e6 * link["latency_seconds"], "gbytes_per_second": 1e-9 * link["bytes_per_second"],
            "source": "measured"}, report["commit"]


def profile_of(path):
    """{"compute", "update": seconds of a step}."""
    try:
        parts = {name: float(number) / 1000 for name, number in PART.findall(path.read_text(encoding="utf-8"))}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if set(parts) != {"compute", "update"}:
        raise InputError(f"{path}: is not what terngrad_train --profile prints")
    return parts


def add_profiles(cluster, profiles):
    """@param profiles  [(net, examples, path)]"""
    for name in dict.fromkeys(name for name, _, _ in profiles):
        net = next((net for net in cluster.get("nets", ()) if net.get("name") == name), None)
        if net is None:
            raise InputError(f"--profile {name}: the cluster file has no such net")
        steps = sorted((examples, profile_of(path)) for own, examples, path in profiles if own == name)
        if len(steps) > 2 or len({examples for examples, _ in steps}) < len(steps):
            raise InputError(f"--profile {name}: at most two, of different batches")
        points = [{"examples": examples, "seconds": parts["compute"]} for examples, parts in steps]
        if points[0]["seconds"] > points[-1]["seconds"]:
            raise InputError(f"--profile {name}: {points[1]['examples']} examples take less time than {points[0]['examples']}")
        elements = sum(bucket["elements"] for bucket in net.get("buckets", ()))
        if elements < 1:
            raise InputError(f"--profile {name}: the net has no buckets")
        update = sum(parts["update"] for _, parts in steps) / len(steps)
        net["compute"] = {"points": points, "source": "measured"}
        net["update"] = {"points": [{"elements": elements, "seconds": update}], "source": "measured"}


def commit_of_bench(path, report):
    found = re.search(r"\(([0-9a-f]{7,40}(?:-dirty)?)\)", str(report.get("context", {}).get("terngrad", "")))
    if not found:
        raise InputError(f"{path}: is no output of terngrad_bench")
    return found.group(1)


def make(options):
    cluster = read_json(options.cluster)
    commits = {}
    if options.codecs:
        report = read_json(options.codecs)
        commits[options.codecs] = commit_of_bench(options.codecs, report)
        cluster["codecs"] = codecs_of(report, options.device, options.threads)
    for name, path in options.link:
        cluster.setdefault("links", {})[name], commits[path] = link_of(path)
    add_profiles(cluster, options.profile)
    if len(set(commits.values())) > 1:
        raise InputError("several commits: " + ", ".join(f"{path} of {commit}" for path, commit in commits.items()))
    commit = next(iter(commits.values()), options.commit)
    if commit is None or (options.commit and options.commit != commit):
        raise InputError(f"--commit {options.commit}: what was measured says {commit}" if commit else
                         "--commit is missing: profiles do not say of which commit they are")
    cluster["calibration"] = {"commit": commit, "machine": options.machine}
    return cluster


def link_argument(text):
    name, _, path = text.partition("=")
    if name not in ("gpu", "host", "network") or not path:
        raise argparse.ArgumentTypeError(f"'{text}': expected gpu=FILE, host=FILE or network=FILE")
    return name, pathlib.Path(path)


def profile_argument(text):
    head, _, path = text.partition("=")
    name, _, examples = head.rpartition(":")
    if not name or not examples.isdigit() or int(examples) < 1 or not path:
        raise argparse.ArgumentTypeError(f"'{text}': expected NET:EXAMPLES=FILE")
    return name, int(examples), pathlib.Path(path)


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected 1 or more")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cluster", type=pathlib.Path, help="cluster file")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--machine", required=True, help="what measured")
    parser.add_argument("--commit", help="of profiles, where nothing else was measured")
    parser.add_argument("--codecs", type=pathlib.Path, help="JSON of terngrad_bench")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of --codecs")
    parser.add_argument("--threads", type=positive, default=1, help="of --codecs on CPUs")
    parser.add_argument("--link", type=link_argument, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--profile", type=profile_argument, action="append", default=[], metavar="NET:EXAMPLES=FILE")
    options = parser.parse_args()
    if not (options.codecs or options.link or options.profile):
        parser.error("nothing is measured: one of --codecs, --link, --profile is needed")
    try:
        options.output.write_text(json.dumps(make(options), indent=2) + "\n", encoding="utf-8")
    except (InputError, OSError) as error:
        print(f"make_cluster_file.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
