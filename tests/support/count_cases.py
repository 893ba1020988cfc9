#!/usr/bin/env python3
"""Counts the cases of a run of ctest: those inside of shards, and one for each other entry.

Usage: count_cases.py [--dearest N] JUNIT FOLDER

JUNIT is what ctest wrote for --output-junit, FOLDER holds what run_shard.py wrote as <entry>.json. Prints the processor time of
each program that ran in shards, the N (20) dearest cases, the failed cases, and at last, alone on its line

    N passed, N failed, N skipped

An entry that could not be started, or failed without a failed case, is one failed case. Exit status: 1 if a case failed, else 0.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import sys
import xml.etree.ElementTree


@dataclasses.dataclass
class Case:
    name: str
    result: str  # passed, failed or skipped
    seconds: float


def result_of(entry):
    status = entry.get("status")
    skipped = entry.find("skipped")
    if status == "run":
        return "passed"
    # Entries that did not run for other reasons, such as a missing program, have failed.
    if status == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return "skipped"
    return "failed"


def cases_of(entry, shards):
    """Cases of an entry: those of its shard if it has results, else the entry itself."""
    name, result = entry.get("name"), result_of(entry)
    whole = Case(name, result, float(entry.get("time") or 0))
    if name not in shards:
        return [whole]
    cases = [Case(f"{name}: {c['name']}", c["result"], c["seconds"]) for c in shards[name]["cases"]]
    if result == "failed" and not any(case.result == "failed" for case in cases):
        cases.append(whole)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dearest", type=int, default=20, metavar="N")
    parser.add_argument("junit", type=pathlib.Path, metavar="JUNIT")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    entries = xml.etree.ElementTree.parse(arguments.junit).getroot().findall("testcase")
    files = {entry.get("name"): arguments.folder / f"{entry.get('name')}.json" for entry in entries}
    shards = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}

    seconds = collections.Counter()
    for shard in shards.values():
        seconds[shard["program"]] += shard["cpu_seconds"]
    for program, total in seconds.most_common():
        print(f"{total:8.1f} s of processor time: {program}")
    cases = [case for entry in entries for case in cases_of(entry, shards)]
    for case in sorted(cases, key=lambda case: -case.seconds)[: arguments.dearest]:
        print(f"{case.seconds:8.1f} s {case.result}: {case.name}")
    for case in cases:
        if case.result == "failed":
            print(f"FAILED: {case.name}")
    count = collections.Counter(case.result for case in cases)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
