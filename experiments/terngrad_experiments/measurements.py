"""Cells with a command of terngrad_exchange_bench in place of training: runs it and records the bytes that it counts."""

import json
import os
import pathlib
import shlex
import subprocess
import tempfile

from terngrad_experiments import store
from terngrad_experiments.commits import DIRTY
from terngrad_experiments.programs import ProgramError

BENCH = "terngrad_exchange_bench"
TIMEOUT_SECONDS = 1800


# Open MPI's mpirun then runs as root, and more processes than processors.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def words_of(cell, programs, json_path):
    """The command's words, with the program's path."""
    words = [programs.path(BENCH) if word == BENCH else word for word in shlex.split(cell.command)]
    return [*words, "--repetitions", "1", "--json", str(json_path)]


def measure(cell, programs):
    """Runs the command of a cell. @returns the result for the store
    @throws ProgramError if it fails"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        try:
            done = subprocess.run(words_of(cell, programs, path), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=TIMEOUT_SECONDS, env={**os.environ, **ENVIRONMENT})
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProgramError(f"{cell.command}: {error}") from None
        if done.returncode != 0:
            raise ProgramError(f"{cell.command}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        measured = json.loads(path.read_text(encoding="utf-8"))
    (exchange,) = measured["results"]
    commit = measured["commit"]
    return {"schema": store.SCHEMA, "cell": cell.base_name, "scale": "1", "seed": 1, "status": "measured", "options": {},
            "identity": None, "commit": commit.removesuffix(DIRTY), "dirty": commit.endswith(DIRTY),
            "version": measured["version"], "backend": "cpu", "command": cell.command,
            "ratios": {"uplink": 4 * measured["num_elements"] / exchange["slowest"]["sent_bytes"],
                       "downlink": 4 * measured["num_elements"] / exchange["slowest"]["received_bytes"]}}
