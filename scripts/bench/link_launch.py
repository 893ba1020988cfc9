"""Launches of commands on hosts of scripts/hosts/slow_link.sh, for the scripts that measure on slow links: with a time limit,
repeated if other machines stole too much processor time, and saved in files, so that an interrupted script can resume.

The result of a launch is a dictionary, with `error` if it failed, `skipped` if it cannot be measured here, otherwise with
`stolen_percent`.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77
PROC_STAT = pathlib.Path("/proc/stat")
MAX_LAUNCHES = 3  # launches of a command while too much time is stolen
PAUSE_SECONDS = 20  # pause between them
SAMPLE_SECONDS = 1  # duration of `busy_percent`
UNITS = {"kbit": 1e-3, "mbit": 1, "gbit": 1e3}


def refuse(text):
    """Exits with code 2 (wrong usage)."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    raise SystemExit(2)


def rate_word(word):
    """Checks an argument that is a rate of slow_link.sh."""
    if word != "none" and not (word[-4:] in UNITS and word[:-4].isdecimal() and int(word[:-4]) > 0):
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected a number with kbit, mbit or gbit, or none")
    return word


def mbit_of(rate):
    """A rate in Mbit/s; infinity for none."""
    return float("inf") if rate == "none" else float(rate[:-4]) * UNITS[rate[-4:]]


def run(command, limit):
    """(exit code, end of the output); exit code None: timeout after `limit` seconds. The command then gets SIGTERM, on which
    slow_link.sh removes its hosts."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit)
            return process.returncode, said
        except BaseException as error:
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return None, said
            raise


def reason_in(said):
    """The line of an output that describes the failure: a program's own error, else the last line."""
    lines = said.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if ": error: " in line), lines[-1])


def error_of(code, said, limit):
    """The error of a launch, from the result of `run`; None if it succeeded. Exits if slow_link.sh lacks a requirement, since all
    launches would fail."""
    if code is None:
        return f"not done after {limit} s"
    if code == 2 and reason_in(said).startswith("slow_link.sh: needs "):
        refuse(reason_in(said))
    return f"exit code {code}: {reason_in(said)}" if code != 0 else None


def processor_times():
    """(stolen by other machines, idle, total) time of all processors since boot, in one unit."""
    fields = [int(field) for field in PROC_STAT.read_text(encoding="utf-8").splitlines()[0].split()[1:9]]
    return fields[7], fields[3] + fields[4], sum(fields)


class ProcessorClock:
    """Processor time since construction, in per cent of the total."""

    def __init__(self):
        self.begin = processor_times()

    def passed(self):
        return [now - then for now, then in zip(processor_times(), self.begin)]

    def stolen_percent(self):
        """Per cent stolen by other virtual machines."""
        stolen, _, everything = self.passed()
        return 100 * stolen / max(everything, 1)

    def busy_percent(self):
        """Per cent in which processors were not idle."""
        _, idle, everything = self.passed()
        return 100 * (everything - idle) / max(everything, 1)


def busy_percent():
    """Current load of the processors, sampled over SAMPLE_SECONDS."""
    clock = ProcessorClock()
    time.sleep(SAMPLE_SECONDS)
    return clock.busy_percent()


class Launch:
    """A command on `hosts` hosts at a link rate, with a temporary folder for its files.
    
    Subclasses have `command` (run by each host), `about` (fields of every result, also of a failure) and `read` (returns the
    measurements from the files)."""

    may_skip = False  # True if the command may exit with SKIPPED, with the reason in its result file

    def __init__(self, options, key, rate, hosts):
        self.options, self.key, self.rate, self.hosts = options, key, rate, hosts
        self.scratch = options.out / "scratch" / key
        self.link_options = []  # additional options of slow_link.sh

    def result_file(self):
        """File for the command's measurements."""
        return str(self.scratch / "result.json")

    def line(self):
        """The whole command line."""
        return [str(SCRIPTS / "hosts/slow_link.sh"), "--iperf", "--counters", str(self.scratch / "counters.json"),
                *self.link_options, self.rate, str(self.hosts), "--", *self.command()]

    def shown(self):
        """The command line for tables, without local folders."""
        command = shlex.join(self.line())
        programs = getattr(self.options, "programs", None)
        for path, short in ((self.scratch, "FILES/"), (programs, ""), (SCRIPTS.parent, "")):
            command = command.replace(f"{path}/", short) if path else command
        return command

    def read_json(self, name):
        return json.loads((self.scratch / name).read_text(encoding="utf-8"))

    def once(self):
        """Launches once. @returns the measurements, or the reason of the failure"""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        result = {**self.about(), "command": self.shown()}
        clock = ProcessorClock()
        code, said = run(self.line(), self.options.limit)
        stolen_percent = clock.stolen_percent()
        if self.may_skip and code == SKIPPED:
            result["skipped"] = self.read_json("result.json")["skipped"]
        elif error := error_of(code, said, self.options.limit):
            result["error"] = error
        else:
            counters = self.read_json("counters.json")
            result |= {**self.read(), "iperf3_mbit_per_s": counters["iperf3_mbit_per_s"], "seconds": counters["seconds"],
                       "interface_sent_bytes": [host["sent_bytes"] for host in counters["hosts"]],
                       "stolen_percent": stolen_percent}
        shutil.rmtree(self.scratch)
        return result

    def measure(self):
        """Launches until the stolen time is low enough."""
        return with_min_stolen(self.once(), self.once, self.options.max_stolen)


def add_options(parser, what, limit, has_programs=True):
    """Adds the options common to scripts that measure launches. @param what  word for a launch. @param has_programs  True if it
    runs built commands"""
    if has_programs:
        parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/release/bin"),
                            help="folder of the built commands (default: build/release/bin)")
    parser.add_argument("--max_stolen", type=float, default=3, metavar="PERCENT",
                        help=f"processor time that other machines may take from a {what} (default 3)")
    parser.add_argument("--limit", type=int, default=limit, help=f"seconds that a {what} may take (default {limit})")
    parser.add_argument("--dry_run", action="store_true", help="print the commands of what is not there, and run nothing")


def check_options(parser, options, numbers, programs=()):
    """Checks ranges, and makes folders absolute. @param numbers  names of options that must be at least 1. @param programs
    required programs"""
    for name in (*numbers, "limit"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if not 0 <= options.max_stolen <= 100:
        parser.error("--max_stolen: must be from 0 to 100")
    for name in programs:
        if not os.access(options.programs / name, os.X_OK):
            parser.error(f"--programs: '{options.programs}' has no program {name}")
    if programs:
        options.programs = options.programs.resolve()
    options.out = options.out.resolve()


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def lost_too_much(result, max_stolen):
    return result.get("stolen_percent", 0) > max_stolen


def with_min_stolen(first, launch, max_stolen):
    """The result with the least stolen time among `first` and further launches, which are made while all exceed `max_stolen`, up
    to MAX_LAUNCHES in total."""
    best = first
    for _ in range(MAX_LAUNCHES - 1):
        if not lost_too_much(best, max_stolen):
            break
        time.sleep(PAUSE_SECONDS)
        again = launch()
        if "stolen_percent" in again and again["stolen_percent"] < best["stolen_percent"]:
            best = again
    return best


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {"processor": models[0] if models else platform.machine(), "processors": os.cpu_count(), "kernel": platform.release()}


def version_of(program):
    """The first line of a program's --version."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


class SavedResults:
    """Results of launches by key, in files OUT/rows/KEY.json, for one build and equal settings (OUT/settings.json)."""

    def __init__(self, out, settings, differs, is_read_only):
        """Reads results of earlier runs. Rejects results with other settings; `differs` is the text for that error."""
        self.folder = out / "rows"
        file = out / "settings.json"
        if file.exists() and json.loads(file.read_text(encoding="utf-8")) != settings:
            refuse(f"--out: '{out}' has rows of {differs}: {file}")
        if not is_read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        self.results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(self.folder.glob("*.json"))}

    def is_done(self, key, max_stolen):
        """True if there is a result that need not be measured again."""
        known = self.results.get(key)
        return known is not None and "error" not in known and not lost_too_much(known, max_stolen)

    def save(self, key, result):
        """Adds a result, unless a known one has less stolen time. @returns the result that counts"""
        known = self.results.get(key)
        if known is None or result.get("stolen_percent", 100) <= known.get("stolen_percent", 100):
            self.results[key] = result
        partial = self.folder / f"{key}.part"
        partial.write_text(json.dumps(self.results[key], indent=1) + "\n", encoding="utf-8")
        partial.rename(self.folder / f"{key}.json")
        return self.results[key]


def measure_all(launches, kept, write, outcome):
    """Measures and saves missing results; calls `write` with all results after each, and prints `outcome` of it. With --dry_run
    prints commands only. @returns the exit code"""
    failed = False
    for launch in launches:
        if kept.is_done(launch.key, launch.options.max_stolen):
            continue
        if launch.options.dry_run:
            print(shlex.join(launch.line()))
            continue
        start = time.monotonic()
        result = kept.save(launch.key, launch.measure())
        write(kept.results)
        failed = failed or "error" in result
        print(f"{launch.key}: {outcome(result)} [{time.monotonic() - start:.0f} s]", flush=True)
    return 1 if failed else 0
