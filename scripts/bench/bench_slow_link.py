#!/usr/bin/env python3
"""Measures what compression gives between two hosts joined by slow links, beside PyTorch and the MPI library.

    sudo scripts/bench/bench_slow_link.py --programs build/release/bin --out bench-slow-link

For each rate of --rates and each net of --nets, between two hosts of scripts/hosts/slow_link.sh with one thread each:

  advise            what terngrad_advise recommends, before anything else is run
  fp32 bf16 t2 t5   terngrad_train, exchanges overlapping the backward pass; NAME-no-overlap: after it
  trans ... powersgd-4  the same, with the codecs of SPECS
  vendor-...        terngrad_train with the MPI library's all-reduce of fp32, bf16, fp16
  ddp-...           PyTorch's DistributedDataParallel over Gloo (scripts/bench/bench_pytorch_ddp.py), as far as Gloo adds the type,
                    and with PyTorch's own PowerSGD

alexnet, that of ImageNet with 61 million parameters, has two workers of 8 examples on each host; its steps take seconds, so
--steps 5 --seconds 1 are enough, and it has no rows of ddp. alexnet_layout are its parameters without a net: its rows are
exchanges of terngrad_exchange_bench, nothing overlaps, and a step is an exchange; of ddp it is forward, backward and update of
nothing but parameters. Logits are compressed too. DGC's momentum is its memory's: its optimizer is gd. Every row is its own
launch, with iperf3's rate just before it and the bytes that the interfaces counted.

On a virtual machine others may take processor time away, from one row and not the next. A row that lost more of it than
--max_stolen is launched again, 20 s later, three times in all, and the launch that lost the least counts.

--out gets rows/RATE.NET.ROW.json, one for each, results.json with all of them, the machine and the commit, and results.md.
A row that is there is not measured again, but failed ones are, and those that lost more than --max_stolen: after Ctrl-C the
same command continues. Rows of another commit or other settings are refused. Exit codes: 1 if a row failed, 2 for wrong usage.
--dry_run prints commands.
"""

import argparse
import fnmatch
import json
import math
import pathlib
import shutil
import sys

import link_launch
import slow_link_report

RATES = ["100mbit", "1gbit", "none"]
HOSTS = 2
TRAINED = {  # options of terngrad_train, examples per step on both hosts, workers on both
    "cifar10_alexnet": (["--dataset", "cifar10"], 128, HOSTS),
    "lenet": ([], 64, HOSTS),
    "alexnet": (["--dataset", "imagenet"], 32, 2 * HOSTS),
}
LAYOUTS = {"alexnet_layout": "alexnet"}  # names of --layout
IN_PYTORCH = ["cifar10_alexnet", "lenet", *LAYOUTS]
CODECS = ["fp32", "bf16", "t2", "t5"]
SPECS = {  # codec specs of rows whose names differ from the spec
    "trans": "ternary:clip_factor=2.5,format=trans",
    "qsgd-4": "qsgd:bits=4",
    "topk-1": "topk:density=0.01",
    "dgc-0.1": "dgc",
    "powersgd-4": "powersgd:rank=4",
}
VENDOR = ["fp32", "bf16", "fp16"]
DDP = ["fp32", "fp16", "bf16", "powersgd-4"]


def codec_options(codec):
    """Options of terngrad_train for a codec."""
    if codec in ("t2", "t5"):
        return ["--grad_bits", "1", "--clip_factor", "2.5", "--ternary_format", codec, "--quantize_logits"]
    if codec in SPECS.values():
        return ["--codec", codec, "--quantize_logits", *(["--optimizer", "gd"] if codec == SPECS["dgc-0.1"] else [])]
    return {"fp32": ["--grad_bits", "32"], "bf16": ["--grad_bits", "16", "--quantize_logits"]}[codec]


class Row(link_launch.Launch):
    """One launch: a name, a command, and reading of its result."""

    may_skip = True

    def __init__(self, options, rate, net, name):
        super().__init__(options, f"{rate}.{net}.{name}", rate, HOSTS)
        self.net, self.name = net, name
        codec = name.replace("-no-overlap", "").removeprefix("vendor-").removeprefix("ddp-")
        self.codec = SPECS.get(codec, codec)
        self.system = "vendor" if name.startswith("vendor-") else "ddp" if name.startswith("ddp-") else "terngrad"
        self.link_options = ["--no-mpi"] if self.system == "ddp" else []
        self.steps = options.steps  # measured training steps

    def repetitions(self):
        """Measured exchanges of a layout, and warm-up exchanges; each takes half a minute on the slowest links."""
        return (2, 0) if link_launch.mbit_of(self.rate) < 500 else (5, 1)

    def program(self, name):
        return str(self.options.programs / name)

    def command(self):
        if self.name == "advise":
            if self.net in LAYOUTS:
                what = ["--layout", LAYOUTS[self.net]]
            else:
                data, batch, workers = TRAINED[self.net]
                what = [*data, "--net", self.net, "--batch_size", str(batch), "--num_nodes", str(workers)]
            codecs = [word for codec in ("t2", "t5", *SPECS.values()) for word in ("--codec", codec)]
            return [self.program("terngrad_advise"), *what, *codecs, "--quantize_logits", "--threads", "1", "--json",
                    self.result_file()]
        if self.system == "ddp":
            return self.ddp_command()
        return self.exchange_command() if self.net in LAYOUTS else self.train_command()

    def exchange_command(self):
        counted, warm_up = self.repetitions()
        command = [self.program("terngrad_exchange_bench"), "--layout", LAYOUTS[self.net], "--codec", self.codec, "--exchange",
                   "vendor" if self.system == "vendor" else "auto", "--threads", "1", "--repetitions", str(counted), "--warm_up",
                   str(warm_up), "--json", self.result_file()]
        return command + (["--quantize_logits"] if self.system == "terngrad" and self.codec != "fp32" else [])

    def train_command(self):
        data, batch, workers = TRAINED[self.net]
        steps = 2 * self.steps
        if self.system == "vendor":
            how = ["--exchange", "vendor", "--codec", self.codec]
        else:
            how = [*codec_options(self.codec), "--overlap", "off" if self.name.endswith("-no-overlap") else "on"]
        return [self.program("terngrad_train"), *data, "--net", self.net, "--benchmark_mode", *how, "--num_nodes", str(workers),
                "--batch_size", str(batch), "--threads", "1", "--max_steps", str(steps), "--log_steps", str(steps // 2),
                "--telemetry_steps", "0", "--histogram_steps", "0", "--tensorboard=false", "--train_dir",
                str(self.scratch / "run")]

    def ddp_command(self):
        command = [self.options.python, str(link_launch.SCRIPTS / "bench/bench_pytorch_ddp.py"), "--hooks", self.codec,
                   "--threads", "1", "--out", self.result_file()]
        if self.net in LAYOUTS:
            counted, warm_up = self.repetitions()
            if self.codec in SPECS.values():
                warm_up = 3  # PyTorch's PowerSGD begins after two steps
            return command + ["--net", self.net, "--steps", "1", "--repetitions", str(counted), "--warmup",
                              str(warm_up)]
        batch = TRAINED[self.net][1] // HOSTS
        return command + ["--net", self.net, "--batch", str(batch), "--steps", str(self.steps), "--repetitions", "1",
                          "--warmup", str(self.steps)]

    def takes_longer(self, result):
        """True if the measured steps took less time than --seconds: increases the number of steps accordingly."""
        if self.net in LAYOUTS or "step_seconds" not in result:
            return False
        enough = math.ceil(self.options.seconds / result["step_seconds"])
        if enough <= self.steps:
            return False
        self.steps = enough
        return True

    def about(self):
        return {"rate": self.rate, "net": self.net, "row": self.name, "system": self.system, "codec": self.codec}

    def read(self):
        """The measurements, from the files that the command wrote."""
        if self.name == "advise":
            return {"advice": self.read_json("result.json")}
        if self.system == "ddp":
            return self.read_ddp()
        return self.read_exchange() if self.net in LAYOUTS else self.read_train()

    def once(self):
        result = super().once()
        return super().once() if self.takes_longer(result) else result

    def read_ddp(self):
        (result,) = self.read_json("result.json")["results"]
        if "skipped" in result:
            return {"skipped": result["skipped"]}
        found = {name: result[name] for name in ("steps_per_s", "examples_per_s", "step_seconds") if name in result}
        return found if self.net in LAYOUTS else {**found, "num_steps": 2 * self.steps}

    def read_exchange(self):
        (result,) = self.read_json("result.json")["results"]
        slowest = result["slowest"]
        return {
            "steps_per_s": 1 / slowest["total_seconds"],
            "step_seconds": slowest["total_seconds"],
            "wire_seconds": slowest["wire_seconds"],
            "exchange": result["exchange"],
            "sent_bytes": slowest["sent_bytes"],
            "payload_mbit_per_s": slowest["bits_per_second"] * 1e-6,
            "num_exchanges": sum(self.repetitions()),
        }

    def read_train(self):
        """Measurements of the second half of the steps."""
        lines = (self.scratch / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        last = [line for line in map(json.loads, lines) if line["kind"] == "train"][-1]
        steps_per_s = last["examples_per_second"] / TRAINED[self.net][1]
        return {
            "steps_per_s": steps_per_s,
            "examples_per_s": last["examples_per_second"],
            "step_seconds": 1 / steps_per_s,
            "wire_seconds": last["wire_seconds"],
            "exposed_seconds": last["exposed_seconds"],
            "sent_bytes": sum(last["wire_bytes_per_worker"]["sent"].values()),
            "num_steps": 2 * self.steps,  # includes warm-up steps
        }


def row_names(net):
    """Names of a net's rows in the order in which they run, beginning with advise."""
    ours = CODECS if net in LAYOUTS else [name for codec in CODECS for name in (codec, f"{codec}-no-overlap")]
    ddp = DDP if net in IN_PYTORCH else []
    return ["advise", *ours, *SPECS, *(f"vendor-{codec}" for codec in VENDOR), *(f"ddp-{codec}" for codec in ddp)]


def rows_of(options):
    rows = [Row(options, rate, net, name) for rate in options.rates for net in options.nets for name in row_names(net)]
    return [row for row in rows if any(fnmatch.fnmatch(row.name, pattern) for pattern in options.rows)]


def settings_of(options):
    """Settings common to all rows of a result."""
    version = link_launch.version_of(options.programs / "terngrad_train")
    return {"version": version, "steps": options.steps, "seconds": options.seconds}


def write_results(options, rows):
    """Writes the results with rows in the order of the tables, independent of when they ran."""
    order = [f"{rate}.{net}.{name}" for rate in RATES for net in [*TRAINED, *LAYOUTS] for name in row_names(net)]
    known = sorted(rows, key=lambda key: order.index(key) if key in order else len(order))
    report = {
        "command": "bench_slow_link.py",
        **settings_of(options),
        "machine": link_launch.machine(),
        "written": link_launch.now(),
        "rows": [rows[key] for key in known],
    }
    (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "results.md").write_text(slow_link_report.to_markdown(report), encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", nargs="+", type=link_launch.rate_word, default=RATES, help=f"default: {' '.join(RATES)}")
    parser.add_argument("--nets", nargs="+", default=["cifar10_alexnet", "alexnet_layout"], choices=[*TRAINED, *LAYOUTS],
                        help="default: cifar10_alexnet alexnet_layout")
    parser.add_argument("--rows", nargs="+", default=["*"], metavar="PATTERN", help="rows to measure (default: '*')")
    parser.add_argument("--python", default=sys.executable, help="Python that has PyTorch (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-slow-link"), help="default: bench-slow-link")
    parser.add_argument("--steps", type=int, default=20,
                        help="training steps that count at least, after as many others (default 20)")
    parser.add_argument("--seconds", type=int, default=5,
                        help="seconds that they take at least: a row whose steps are faster is launched again (default 5)")
    link_launch.add_options(parser, "row", limit=300)
    options = parser.parse_args()
    link_launch.check_options(parser, options, ("steps", "seconds"),
                              ("terngrad_train", "terngrad_advise", "terngrad_exchange_bench"))
    if not rows_of(options):
        parser.error(f"--rows: none of {' '.join(row_names(options.nets[0]))} is called {' '.join(options.rows)}")
    return options


def main(options):
    kept = link_launch.SavedResults(options.out, settings_of(options), "another build, other --steps or --seconds", options.dry_run)
    code = link_launch.measure_all(rows_of(options), kept, lambda rows: write_results(options, rows), slow_link_report.outcome)
    if not options.dry_run:
        write_results(options, kept.results)
        shutil.rmtree(options.out / "scratch", ignore_errors=True)
        print(f"written: {options.out}/results.md")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except KeyboardInterrupt:
        sys.exit(130)
