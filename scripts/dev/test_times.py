#!/usr/bin/env python3
"""Prints where the time of a test run went: its dearest entries and cases, and the CPU seconds of its programs.

    scripts/dev/test_times.py [--top N] PATH...

A PATH is a file of ctest's (ctest --output-junit FILE), a JSON file of a test program's cases, or a folder, of which all *.xml
and *.json files are read. JSON files are GoogleTest's own (--gtest_output=json:FILE) or those of tests/support/run_shard.py, which
have CPU seconds too. For the run of a preset:

    scripts/dev/test_times.py build/ci/Testing/entries.xml build/ci/Testing/cases

Entries are what ctest starts, cases what a program of GoogleTest runs; both have the seconds that passed, which on a busy machine
are more than those of the CPU. A program of several shards is their sum. Exit status: 0, or 2 for a file that cannot be read.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree


class UnreadableError(Exception):
    pass


def entries_of(path):
    """[(name, seconds)] of a JUnit file, without those that did not run."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except xml.etree.ElementTree.ParseError as error:
        raise UnreadableError(f"{path}: not XML: {error}") from error
    if root.tag not in ("testsuite", "testsuites"):
        raise UnreadableError(f"{path}: <{root.tag}> is no report of tests in JUnit's format")
    return [(case.get("name"), float(case.get("time", 0))) for case in root.iter("testcase") if case.get("status") != "notrun"]


def cases_of(path):
    """The program's name, [(case, seconds)], the seconds of the whole and of its CPUs (None where they were not measured)."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{path}: not JSON: {error}") from error
    if isinstance(report, dict) and "cases" in report and "program" in report:
        cases = [(case["name"], case["seconds"]) for case in report["cases"]]
        return pathlib.PurePath(report["program"]).name, cases, report["seconds"], report["cpu_seconds"]
    if isinstance(report, dict) and "testsuites" in report:
        cases = [(f"{suite['name']}.{case['name']}", seconds_of(case["time"]))
                 for suite in report["testsuites"] for case in suite["testsuite"] if case["status"] == "RUN"]
        # GoogleTest does not say which program it was.
        return re.sub(r"(\.tests)?$|[-_.]\d+$", "", path.stem), cases, seconds_of(report["time"]), None
    raise UnreadableError(f"{path}: neither a report of GoogleTest nor of run_shard.py")


def seconds_of(text):
    return float(text.removesuffix("s"))


def files_of(paths):
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in (".xml", ".json"))
        elif path.is_file():
            yield path
        else:
            raise UnreadableError(f"{path}: there is no such file or folder")


class Times:
    def __init__(self):
        self.entries = []
        self.cases = []  # (program and case, seconds)
        self.seconds = collections.Counter()  # by program
        self.cpu_seconds = {}  # by program; None: some of its files have none

    def read(self, path):
        if path.suffix == ".xml":
            self.entries += entries_of(path)
            return
        program, cases, seconds, cpu_seconds = cases_of(path)
        self.cases += [(f"{program} {name}", took) for name, took in cases]
        self.seconds[program] += seconds
        known = self.cpu_seconds.get(program, 0)
        self.cpu_seconds[program] = None if None in (known, cpu_seconds) else known + cpu_seconds

    def report(self, top):
        if self.entries:
            yield from dearest("entries of ctest", self.entries, top)
        if self.cases:
            yield from dearest("cases", self.cases, top)
            yield f"programs: CPU seconds, seconds ({len(self.seconds)})"
            cost = {program: cpu if cpu is not None else self.seconds[program] for program, cpu in self.cpu_seconds.items()}
            for program in sorted(cost, key=lambda name: (-cost[name], name)):
                cpu = self.cpu_seconds[program]
                yield f"{'?' if cpu is None else f'{cpu:.1f}':>9} {self.seconds[program]:9.1f}  {program}"


def dearest(what, times, top):
    yield f"dearest {what}: seconds ({min(top, len(times))} of {len(times)}, which took {sum(took for _, took in times):.1f})"
    for name, took in sorted(times, key=lambda pair: (-pair[1], pair[0]))[:top]:
        yield f"{took:9.2f}  {name}"


def at_least_one(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=at_least_one, default=20, metavar="N", help="how many are printed (default 20)")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    options = parser.parse_args()
    times = Times()
    try:
        for path in files_of(options.paths):
            times.read(path)
    except UnreadableError as error:
        print(f"test_times.py: error: {error}", file=sys.stderr)
        return 2
    if not times.entries and not times.cases:
        print("test_times.py: error: no test in these files", file=sys.stderr)
        return 2
    print("\n".join(times.report(options.top)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
