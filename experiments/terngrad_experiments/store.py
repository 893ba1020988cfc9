"""Results: one JSON line per run in append-only files, written under a lock.

A later line with equal cell, scale, seed, commit, dirty flag and device kind supersedes an earlier one; lines are never edited.
A last line without newline is incomplete after a crash: readers ignore it, and the next writer cuts it off.
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
    """An unusable results file."""


def round_floats(value, digits=7):
    """`value` with every float rounded to significant digits, so that lines are short and equal on every machine. NaN and
    infinity, which JSON lacks, become None."""
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
    """Key of a result: a later line with the same key supersedes an earlier one."""
    return result["cell"], result["scale"], result["seed"], commit_of(result), result.get("backend", "cpu")


def now():
    """Current UTC time as "2026-01-31T12:00:00Z"."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(path, result):
    """Appends a result and returns when it is on disk. Safe with concurrent writers. Adds the time of recording; a result that is
    recorded again with additions keeps its time.
    
    @throws StoreError for an invalid result (record_shape)"""
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
        sync_folder(path.parent)  # makes the name of a new file durable


def sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def whole_lines(path):
    """(number, bytes) of the complete lines of a file; an incomplete last line may end within a character."""
    return list(enumerate(pathlib.Path(path).read_bytes().split(b"\n")[:-1], 1))


def end_of_whole_lines(file):
    """The length of a file without an incomplete last line."""
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
    """All results of a file, in order, without superseded ones. Empty if the file does not exist.
    
    @throws StoreError naming file and line of an invalid result"""
    path = pathlib.Path(path)
    if not path.exists():
        return []
    latest = {}
    for number, line in whole_lines(path):
        try:
            result = json.loads(line, parse_constant=_refuse_constant)
        except ValueError as error:  # also for invalid UTF-8
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
    """The results of several files in order of recording, at equal times in order of files; of equal keys only the last. Paths of
    predictions, which are relative to the folder of their file, are joined with it."""
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
    """At most `limit` of a curve's points, evenly spaced by index, with the first and the last."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(i * step)] for i in range(limit)]
