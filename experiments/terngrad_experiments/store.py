"""Results: one JSON line a run in append-only files, written once, under a lock.

A later line for the same cell, scale, seed, commit, dirty or not, and kind of device supersedes an earlier one; no line is ever
edited. A last line without its newline was torn by a crash: readers leave it out, and the next writer cuts it off.
"""

import datetime
import fcntl
import json
import math
import os
import pathlib

from terngrad_experiments import record_shape
from terngrad_experiments.commits import commit_of, time_of

SCHEMA = 1


class StoreError(Exception):
    """A results file that cannot be used."""


def round_floats(value, digits=7):
    """`value` with every float rounded to significant digits, so that lines are short and equal on every machine. NaN and
    infinity, which JSON does not have, become None."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: round_floats(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_floats(item, digits) for item in value]
    return value


def to_line(result):
    return json.dumps(round_floats(result), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def key_of(result):
    """What a later line must share with an earlier one to supersede it."""
    return result["cell"], result["scale"], result["seed"], commit_of(result), result.get("backend", "cpu")


def now():
    """UTC, "2026-01-31T12:00:00Z"."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(path, result):
    """Adds a result and returns when it is on the medium. Safe beside other writers. Its line says when it was recorded; a result
    that says so already, being recorded again with something added, keeps its time.

    @throws StoreError for what is no result (record_shape)"""
    problem = record_shape.problem_of(result)
    if problem is not None:
        raise StoreError(f"a result is not recorded: {problem}")
    result = {"recorded": now(), **result}
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = end_of_whole_lines(file)
        file.truncate(end)
        file.write(to_line(result).encode())
        file.flush()
        os.fsync(file.fileno())
    if end == 0:
        sync_folder(path.parent)  # of a new file the name, too, has to be on the medium


def sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def whole_lines(path):
    """(number, bytes) of the lines of a file; a torn last one, which may end within a character, is left out."""
    return list(enumerate(pathlib.Path(path).read_bytes().split(b"\n")[:-1], 1))


def end_of_whole_lines(file):
    """The length of a file without a torn last line."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        begin = max(0, end - 4096)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _refuse_constant(text):
    raise ValueError(f"{text} is no number of JSON")


def read(path):
    """All results of a file, in order, superseded ones left out. A file that is not there has none.

    @throws StoreError that names the file and the line of what is no result"""
    path = pathlib.Path(path)
    if not path.exists():
        return []
    latest = {}
    for number, line in whole_lines(path):
        try:
            result = json.loads(line, parse_constant=_refuse_constant)
        except ValueError as error:  # also for bytes that are no text
            raise StoreError(f"{path}:{number}: not JSON: {error}") from None
        if isinstance(result, dict) and result.get("schema", SCHEMA) != SCHEMA:
            raise StoreError(f"{path}:{number}: schema {result['schema']}, this program reads {SCHEMA}")
        problem = record_shape.problem_of(result)
        if problem is not None:
            raise StoreError(f"{path}:{number}: {problem}")
        latest.pop(key_of(result), None)
        latest[key_of(result)] = result
    return list(latest.values())


def read_all(paths):
    """The results of several files in the order in which they were recorded, of equal times in that of the files; of equal keys
    the last. Predictions, which results name from the folder of their file, are named from here."""
    found = []
    for path in paths:
        for result in read(path):
            if "predictions" in result:
                result["predictions"] = str(pathlib.Path(path).parent / result["predictions"])
            found.append(result)
    latest = {}
    for result in sorted(found, key=time_of):
        latest.pop(key_of(result), None)
        latest[key_of(result)] = result
    return list(latest.values())


def thin(points, limit=200):
    """At most `limit` of a curve's points, evenly spread by index, the first and the last among them."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(i * step)] for i in range(limit)]
