"""Shared by tests of terngrad_train with several processes of one launch.

Arguments of each test file: terngrad_train, the folder of MNIST's files (which may be absent), and the launcher's
command up to the number of ranks. Arguments after `--` are for unittest, such as the name of one test
(Faults.test_...)."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from few_digits import write_digits  # noqa: E402

ERROR = "terngrad_train: error: "
TIMES = re.compile(r"(_seconds|_per_second)$")


@functools.cache
def digits(num_train=160, num_test=40):
    """A folder with this number of digits."""
    folder = tempfile.TemporaryDirectory(prefix="terngrad_mpi_digits_")
    write_digits(folder.name, num_train, num_test)
    return folder


def small(**others):
    """Options of a small run of eight workers; `others` are added or replace them."""
    data = {} if "dataset" in others or "benchmark_mode" in others else {"dataset": "mnist", "data_dir": digits().name}
    values = {"image_size": 16, "batch_size": 16, "num_nodes": 8, "threads": 1, "device": "cpu", **data, **others}
    return [f"--{name}={value}" for name, value in values.items()]


def ternary(**others):
    return small(grad_bits=1, clip_factor=2.5, **others)


class LaunchedTraining(unittest.TestCase):
    """Test case with runs in a temporary folder, each in a subfolder with its name."""

    program = ""
    mnist = ""
    launcher = []

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="terngrad_mpi_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def command(self, ranks, options):
        """Command line for this number of ranks; 0: without a launcher."""
        launch = [] if ranks == 0 else [*self.launcher, str(ranks)]
        return [*launch, self.program, *options]

    def train(self, ranks, name, *options, env=None, timeout=None):
        command = self.command(ranks, [*options, "--train_dir", self.path(name)])
        return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})},
                              timeout=timeout)

    def trained(self, *arguments, **more):
        result = self.train(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def refused(self, ranks, *options, env=None):
        """Expects that the chief alone refuses a run, before any work. @returns the error line"""
        result = self.train(ranks, "refused", *options, env=env)
        errors = [line for line in result.stderr.splitlines() if line.startswith(ERROR)]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertFalse(os.path.exists(self.path("refused")))
        return errors[0]

    def checkpoints(self, name):
        """File names of the checkpoints, oldest first."""
        return sorted(file for file in os.listdir(self.path(name)) if file.startswith("checkpoint-"))

    def checkpoint(self, name):
        """Name and bytes of the last checkpoint."""
        last = self.checkpoints(name)[-1]
        with open(self.path(name, last), "rb") as file:
            return last, file.read()

    def last_step(self, name):
        """The step of the last checkpoint."""
        return int(re.search(r"\d+", self.checkpoints(name)[-1]).group())

    def keep_checkpoint(self, name, step):
        """Removes other checkpoints, as if the run had been killed after saving this step."""
        for file in self.checkpoints(name):
            if f"{step:010}" not in file:
                os.unlink(self.path(name, file))

    def records(self, *name):
        """Records of the run's metrics."""
        with open(self.path(*name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def train_records(self, name):
        return [record for record in self.records(name) if record["kind"] == "train"]

    def metrics(self, name):
        """Records without the times, which differ between equal runs."""
        return [{key: value for key, value in record.items() if not TIMES.search(key)} for record in self.records(name)]

    def assert_same(self, name, other):
        self.assertEqual(self.checkpoint(name), self.checkpoint(other), f"{name} {other}")
        self.assertEqual(self.metrics(name), self.metrics(other), f"{name} {other}")


def main():
    """Runs the tests of the started file."""
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    LaunchedTraining.program, LaunchedTraining.mnist, *LaunchedTraining.launcher = arguments[:end]
    unittest.main(argv=[sys.argv[0], "-v", *arguments[end + 1:]])
