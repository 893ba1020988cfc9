#!/usr/bin/env python3
"""Puts what the exchange model predicts beside what exchanges take, between hosts joined by slow links.

    sudo scripts/bench/validate_model.py --programs build/release/bin --out validate-model

For each number of --hosts, rate of --rates and layout of --layouts there is one launch of terngrad_exchange_bench --predict, on
hosts of scripts/hosts/slow_link.sh with one thread each, with all of --codecs and --exchanges: it fits the link, measures the
codecs by themselves, predicts from both, and times exchanges, whose median of --repetitions counts. Logits are compressed too.
iperf3 runs just before. Hosts are network namespaces of this machine, so run it where nothing else runs: how busy the processors
were before a launch is in the results, and the part of their time that other virtual machines took away meanwhile (stolen). A
launch that lost more than --max_stolen is made again, 20 s later, three times in all, and the one that lost the least counts.

--out gets rows/HOSTS.RATE.LAYOUT.json, one for each launch, results.json and results.md with all of them and whether the model is
accepted (experiments/terngrad_experiments/validation.py), model-validation.jsonl, a line for each row, in the form that
experiments/results/models keeps, and model-validation.svg. A launch that is there is not made again, but failed ones are, and
those that lost more than --max_stolen: after Ctrl-C the same command continues. Results of another build or other settings are
refused. Exit codes: 1 if a launch failed, 2 for wrong usage; not for what the model predicts wrong. --dry_run prints commands.
"""

import argparse
import json
import pathlib
import shutil
import sys

import link_launch

sys.path.append(str(link_launch.SCRIPTS.parent / "experiments"))
from terngrad_experiments import store, svg, validation, validation_figure  # noqa: E402

PROGRAM = "terngrad_exchange_bench"
CODECS = ["fp32", "bf16", "t2", "t5"]
EXCHANGES = ["all_gather", "scatter_reduce"]
LAYOUTS = ["lenet", "cifar10_alexnet", "alexnet", "vgg_a"]


class Exchanges(link_launch.Launch):
    """All exchanges of a layout between some hosts at one rate."""

    def __init__(self, options, hosts, rate, layout):
        super().__init__(options, f"{hosts}.{rate}.{layout}", rate, hosts)
        self.layout = layout

    def command(self):
        options = self.options
        words = [str(options.programs / PROGRAM), "--layout", self.layout]
        for codec in options.codecs:
            words += ["--codec", codec]
        for exchange in options.exchanges:
            words += ["--exchange", exchange]
        words += ["--quantize_logits"] if options.codecs != ["fp32"] else []
        return [*words, "--threads", "1", "--repetitions", str(options.repetitions), "--predict", "--json", self.result_file()]

    def about(self):
        return {"hosts": self.hosts, "rate": self.rate, "layout": self.layout, "started": link_launch.now(),
                "busy_before_percent": link_launch.busy_percent()}

    def read(self):
        return {"bench": self.read_json("result.json")}


def launches_of(options):
    return [Exchanges(options, hosts, rate, layout)
            for layout in options.layouts for hosts in options.hosts for rate in options.rates]


def link_seconds(link, predicted):
    """rounds latency + V / bandwidth, of compress/cost/exchange_cost.h."""
    bandwidth = link["bytes_per_second"]  # None: unlimited
    return predicted["rounds"] * link["latency_seconds"] + (0 if bandwidth is None else predicted["wire_bytes"] / bandwidth)


def rows_of(launch, link_of_two):
    """The rows of one launch's results. @param link_of_two  as two hosts fitted it, None if they did not"""
    bench = launch["bench"]
    rows = []
    for result in bench["results"]:
        predicted, exchange = result["predicted"], result["exchange"]
        row = {"hosts": launch["hosts"], "rate": launch["rate"], "layout": launch["layout"], "codec": result["codec"],
               "exchange": exchange, "repetitions": bench["repetitions"], "measured_seconds": result["slowest"]["total_seconds"],
               "predicted_seconds": predicted["total_seconds"], "measured": result["slowest"], "predicted": predicted,
               "samples_seconds": [times["total_seconds"] for times in result["samples"]], "link": bench["link"],
               "iperf3_mbit_per_s": launch["iperf3_mbit_per_s"], "stolen_percent": launch["stolen_percent"],
               "busy_before_percent": launch["busy_before_percent"], "started": launch["started"],
               "commit": bench["commit"].removesuffix("-dirty"), "dirty": bench["commit"].endswith("-dirty"),
               "version": bench["version"]}
        row["error"] = validation.error_of(row)
        if link_of_two is not None:
            own, of_two = (link_seconds(link, predicted) for link in (bench["link"], link_of_two))
            row["predicted_by_two_seconds"] = predicted["total_seconds"] - own + of_two
        rows.append(row)
    return rows


def all_rows(results):
    """Rows of all launches that succeeded, in the order of their tables, whatever was run when."""
    done = sorted((launch for launch in results.values() if "error" not in launch),
                  key=lambda launch: (launch["layout"], launch["hosts"], link_launch.mbit_of(launch["rate"])))
    links = {(launch["rate"], launch["layout"]): launch["bench"]["link"] for launch in done if launch["hosts"] == 2}
    return [row for launch in done for row in rows_of(launch, links.get((launch["rate"], launch["layout"])))]


def settings_of(options):
    """What launches of one result have in common."""
    return {"version": link_launch.version_of(options.programs / PROGRAM), "codecs": options.codecs,
            "exchanges": options.exchanges, "repetitions": options.repetitions, "machine": link_launch.machine()}


def markdown_table(header, rows):
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows)]


def to_markdown(report, results):
    machine = report["machine"]
    lines = [
        "# The exchange model beside what exchanges took",
        "",
        f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel']}; {report['version']}; "
        f"{report['written']}. Medians of {report['repetitions']}, the slowest host's.",
        "",
        *(f"- {line}" for line in report["summary"]),
        "",
        "Error is predicted / measured - 1; parts are measured / predicted, encode with measuring. Hosts share this machine's "
        "processors.",
        "",
        *markdown_table(validation.HEADER, map(validation.cells_of, report["rows"])),
        "",
        "## Links",
        "",
        "As terngrad_exchange_bench fitted them. `stolen` is processor time that other virtual machines took during the launch; "
        "`busy before` is what ran on this one just before.",
        "",
        *markdown_table(validation.LINK_HEADER, validation.link_cells(report["rows"])),
        "",
    ]
    if report["failed"]:
        lines += ["## Failed", "", *(f"- {key}: {error}" for key, error in report["failed"].items()), ""]
    lines += ["## Commands", "", "```", *(launch["command"] for launch in results.values()), "```"]
    return "\n".join(lines) + "\n"


def record_of(rows, machine):
    """The lines of the record that experiments/results/models keeps."""
    same = {"schema": validation.SCHEMA, "kind": validation.KIND,
            "machine": {"cpu": machine["processor"], "cores": machine["processors"], "kernel": machine["kernel"]}}
    return "".join(store.to_line(same | row) for row in rows)


def write_results(options, results):
    rows, settings = all_rows(results), settings_of(options)
    report = {
        "command": "validate_model.py",
        **settings,
        "written": link_launch.now(),
        "summary": validation.summary_lines(rows),
        "rows": rows,
        "failed": {key: launch["error"] for key, launch in results.items() if "error" in launch},
    }
    (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "results.md").write_text(to_markdown(report, results), encoding="utf-8")
    (options.out / validation.FILE).write_text(record_of(rows, settings["machine"]), encoding="utf-8")
    if rows:
        drawing = svg.to_svg(validation_figure.plot_of(rows))
        (options.out / f"{validation.KIND}.svg").write_text(drawing, encoding="utf-8")
    return report


def outcome(launch):
    """One launch in a few words."""
    if "error" in launch:
        return f"error: {launch['error']}"
    errors = [validation.error_of(row) for row in rows_of(launch, None)]
    return f"{len(errors)} rows, errors from {validation.percent(min(errors))} to {validation.percent(max(errors))}"


def hosts_number(word):
    if not word.isdecimal() or not 2 <= int(word) <= 64:
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected 2 to 64")
    return int(word)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", nargs="+", type=hosts_number, default=[2, 4, 8], help="numbers of hosts (default: 2 4 8)")
    parser.add_argument("--rates", nargs="+", type=link_launch.rate_word, default=["100mbit", "1gbit", "10gbit"],
                        help="default: 100mbit 1gbit 10gbit")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["cifar10_alexnet"], help="default: cifar10_alexnet")
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS, help=f"default: {' '.join(CODECS)}")
    parser.add_argument("--exchanges", nargs="+", choices=EXCHANGES, default=EXCHANGES, help=f"default: {' '.join(EXCHANGES)}")
    parser.add_argument("--repetitions", type=int, default=5, help="exchanges whose median counts (default 5)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("validate-model"), help="default: validate-model")
    link_launch.add_options(parser, "launch", limit=600)
    options = parser.parse_args()
    link_launch.check_options(parser, options, ("repetitions",), (PROGRAM,))
    for name in ("hosts", "rates", "layouts", "codecs", "exchanges"):
        values = getattr(options, name)
        if len(set(values)) < len(values):
            parser.error(f"--{name}: {' '.join(map(str, values))} has one twice")
    options.codecs = sorted(options.codecs, key=CODECS.index)
    options.exchanges = sorted(options.exchanges, key=EXCHANGES.index)
    return options


def main(options):
    differs = "another build or machine, other --codecs, --exchanges or --repetitions"
    kept = link_launch.Kept(options.out, settings_of(options), differs, options.dry_run)
    code = link_launch.measure_all(launches_of(options), kept, lambda results: write_results(options, results), outcome)
    if not options.dry_run:
        report = write_results(options, kept.results)
        shutil.rmtree(options.out / "scratch", ignore_errors=True)
        print(*report["summary"], f"written: {options.out}/results.md", sep="\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except KeyboardInterrupt:
        sys.exit(130)
