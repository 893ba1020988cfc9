#!/usr/bin/env python3
"""Runs one shard of a GoogleTest program's cases in one process, and what goes wrong there case by case.

Usage: run_shard.py --results FILE [--filter FILTER] [--shards N --index I] [--shard_seconds S] [--case_seconds S]
                    [--total_seconds S] PROGRAM [ARGUMENT...]

Shard I of N (from 0) are the cases that GoogleTest gives a process with GTEST_TOTAL_SHARDS=N and GTEST_SHARD_INDEX=I. If the
environment has TERNGRAD_TEST_SEED (1 to 99999), they run in an order drawn from it, else in order of declaration.

A case that fails in the shard runs again in its own process, and so does each case that a crash, an early exit or the
time limit kept from running. A case that fails in the shard and passes alone depends on other cases or on luck: it counts as
failed. A case that was only kept from running counts as what it does alone.

FILE gets the results as JSON: program, filter, seed, seconds and cpu_seconds (user and system) of the whole, and for each case its
name, result (passed, failed, skipped), seconds.

Exit status: 0 all passed (some may have skipped), 77 all skipped, 1 a case failed or there is none, 2 wrong arguments.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED_STATUS = 77
# Printed by GoogleTest when a case starts and ends. A case may leave an unfinished line before.
START = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] (\S+?)(?:, where [^\n]*)? \((\d+) ms\)")
RESULTS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


@dataclasses.dataclass
class Case:
    name: str
    result: str  # passed, failed or skipped
    seconds: float
    output: str = ""


@dataclasses.dataclass
class Outcome:
    """How a process of the program ended."""

    status: int  # exit status, negative for a signal
    is_late: bool
    is_complete: bool  # GoogleTest wrote its report
    output: str
    cases: dict  # cases that ended, by name
    started: str | None  # name of the case that did not end

    def ending(self):
        if self.is_late:
            return "ran out of time"
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"exited with status {self.status}" + ("" if self.is_complete else " before the end of its cases")


def cases_of_output(output):
    """Cases that ended, and the name of the case that did not, from the program's output."""
    cases, started, begin = {}, None, 0
    for line in re.finditer(f"{START.pattern}|{END.pattern}", output):
        if line[1]:
            started, begin = line[1], line.start()
        elif line[3] == started:
            result = RESULTS[line[2].strip()]
            cases[started] = Case(started, result, int(line[4]) / 1000, output[begin : line.end()])
            started = None
    return cases, started


def cases_of_report(report, printed):
    """Cases of GoogleTest's JSON report, with their output."""
    cases = {}
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            if case["status"] != "RUN":
                continue
            name = f"{suite['name']}.{case['name']}"
            skipped_or_passed = "skipped" if case["result"] == "SKIPPED" else "passed"
            result = "failed" if case.get("failures") else skipped_or_passed
            output = printed[name].output if name in printed else ""
            cases[name] = Case(name, result, float(case["time"].rstrip("s")), output)
    return cases


def take_signals_again():
    """Restores the default signal handlers: nohup and background shells ignore signals that tests send to themselves."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def stop_at_term(signum, frame):
    sys.exit(f"run_shard.py: stopped by {signal.Signals(signum).name}")


class Program:
    def __init__(self, command):
        self.command = command
        # GTEST_ variables of the caller must not change the shard.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}

    def run(self, seconds, *options, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            report, log = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "log")
            with log.open("wb") as stream:
                # A session of its own, so that its child processes can be killed with it.
                process = subprocess.Popen(
                    [*self.command, f"--gtest_output=json:{report}", "--gtest_color=no", *options],
                    env={**self.environment, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=take_signals_again,
                )
                is_late = False
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    is_late = True
                finally:
                    if process.returncode is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
            output = log.read_text(errors="replace")
            cases, started = cases_of_output(output)
            if report.exists() and not is_late:
                return Outcome(process.returncode, False, True, output, cases_of_report(json.loads(report.read_text()), cases), None)
            return Outcome(process.returncode, is_late, False, output, cases, started)

    def list_cases(self, filter_, seconds):
        """Names of the cases that the filter selects, in the order in which GoogleTest assigns them to shards."""
        result = subprocess.run(
            [*self.command, "--gtest_list_tests", f"--gtest_filter={filter_}"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        if result.returncode != 0:
            sys.exit(f"run_shard.py: {self.command[0]} --gtest_list_tests failed: {result.stdout}{result.stderr}")
        names, suite = [], ""
        for line in result.stdout.splitlines():
            name = line.split("#")[0].rstrip()
            if name.startswith("  "):
                names.append(suite + name.strip())
            elif name.endswith("."):
                suite = name
        return [name for name in names if not re.search(r"(^|[./])DISABLED_", name)]


class Shard:
    def __init__(self, arguments):
        self.arguments = arguments
        self.program = Program([arguments.program, *arguments.arguments])
        self.deadline = time.monotonic() + arguments.total_seconds
        self.cases = {}

    def run(self):
        a = self.arguments
        shards = {"GTEST_TOTAL_SHARDS": str(a.shards), "GTEST_SHARD_INDEX": str(a.index)}
        order = ["--gtest_shuffle", f"--gtest_random_seed={a.seed}"] if a.seed else []
        outcome = self.program.run(a.shard_seconds, f"--gtest_filter={a.filter}", *order, environment=shards)
        self.cases = dict(outcome.cases)
        failed = [case for case in outcome.cases.values() if case.result == "failed"]
        if outcome.is_complete and (outcome.status == 0) == (not failed):
            for case in failed:
                self.judge_again(case.name, "failed", case.output)
        else:
            self.run_after_a_bad_end(outcome)
        if not self.cases:
            self.report(f"shard {a.index} of {a.shards} of {a.program} has no case of the filter '{a.filter}'", outcome.output)

    def run_after_a_bad_end(self, outcome):
        """Handles a crash, an early exit, a timeout, or a failure after the last case (for example of a sanitizer)."""
        a = self.arguments
        names = self.program.list_cases(a.filter, a.case_seconds)[a.index :: a.shards]
        where = f"in {outcome.started}" if outcome.started else "outside of its cases"
        tail = outcome.output[-20000:]
        print(f"run_shard.py: {a.program} {outcome.ending()} {where}; what did not pass runs case by case")
        if not outcome.started:
            print(tail)
        ran_all = all(name in outcome.cases for name in names)
        for name in names:
            if name == outcome.started:
                self.judge_again(name, outcome.ending(), tail)
            elif name in outcome.cases and outcome.cases[name].result == "failed":
                self.judge_again(name, "failed", outcome.cases[name].output)
            elif name not in outcome.cases or ran_all:
                # The case did not run, or all cases ran and this one may have made the process fail.
                self.judge_alone(name)
        if not any(case.result == "failed" for case in self.cases.values()):
            # All cases pass alone, but the shard failed.
            self.cases["(shard)"] = Case("(shard)", "failed", 0)
            self.report(f"the shard {outcome.ending()} {where}, each case passed alone", "")

    def run_alone(self, name):
        seconds = min(self.arguments.case_seconds, self.deadline - time.monotonic())
        if seconds <= 0:
            return Case(name, "failed", 0, "no time was left to run it alone"), "was not run"
        begin = time.monotonic()
        outcome = self.program.run(seconds, f"--gtest_filter={name}")
        case = outcome.cases.get(name) or Case(name, "failed", time.monotonic() - begin)
        if outcome.status != 0 or not outcome.is_complete:
            case.result = "failed"
        case.output = outcome.output[-20000:]
        return case, outcome.ending() if case.result == "failed" else case.result

    def judge_alone(self, name):
        case, ending = self.run_alone(name)
        self.cases[name] = case
        if case.result == "failed":
            self.report(f"{name} {ending} alone, it had not failed in its shard", case.output)

    def judge_again(self, name, how, output_in_shard):
        """Reruns a case that failed in its shard. It remains failed in any case."""
        case, ending = self.run_alone(name)
        if case.result == "failed":
            self.report(f"{name} {how} in its shard, {ending} alone", case.output)
        else:
            self.report(f"{name} {how} in its shard, {ending} alone: it depends on other cases or on luck", output_in_shard)
        self.cases[name] = Case(name, "failed", case.seconds)

    def report(self, what, output):
        print(f"run_shard.py: FAILED: {what}\n{output.rstrip()}\n", flush=True)

    def write_results(self, begin):
        a = self.arguments
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        results = {
            "program": pathlib.Path(a.program).name,
            "filter": a.filter,
            "seed": a.seed,
            "seconds": round(time.monotonic() - begin, 3),
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
            "cases": [{"name": c.name, "result": c.result, "seconds": c.seconds} for c in self.cases.values()],
        }
        a.results.parent.mkdir(parents=True, exist_ok=True)
        a.results.write_text(json.dumps(results, indent=1) + "\n")

    def exit_status(self):
        results = [case.result for case in self.cases.values()]
        a = self.arguments
        counts = ", ".join(f"{results.count(result)} {result}" for result in ("passed", "failed", "skipped"))
        order = f"order of seed {a.seed} (TERNGRAD_TEST_SEED)" if a.seed else "order of declaration"
        print(f"run_shard.py: shard {a.index} of {a.shards}, {order}: {counts}")
        if not results or "failed" in results:
            select = f"--gtest_filter='{a.filter}'" + (f" --gtest_shuffle --gtest_random_seed={a.seed}" if a.seed else "")
            print(
                f"run_shard.py: the shard again: GTEST_TOTAL_SHARDS={a.shards} GTEST_SHARD_INDEX={a.index} {a.program} {select}"
                f"\nrun_shard.py: one case: {a.program} --gtest_filter=NAME"
            )
            return 1
        return SKIPPED_STATUS if set(results) == {"skipped"} else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--shard_seconds", type=float, default=900)
    parser.add_argument("--case_seconds", type=float, default=300)
    parser.add_argument("--total_seconds", type=float, default=1700)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not 0 <= arguments.index < arguments.shards:
        parser.error(f"--index: {arguments.index} is refused, expected 0 to {arguments.shards - 1}")
    seed = os.environ.get("TERNGRAD_TEST_SEED", "")
    if seed and not re.fullmatch(r"[1-9][0-9]{0,4}", seed):
        parser.error(f"TERNGRAD_TEST_SEED: '{seed}' is refused, expected 1 to 99999")
    arguments.seed = int(seed or 0)
    return arguments


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, stop_at_term)
    arguments.results.unlink(missing_ok=True)
    begin = time.monotonic()
    shard = Shard(arguments)
    shard.run()
    shard.write_results(begin)
    return shard.exit_status()


if __name__ == "__main__":
    sys.exit(main())
