"""Shared by tests of experiments: the package on the path, temporary folders, the command line, and invented results."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "experiments"))

from terngrad_experiments import cells, cli  # noqa: E402  (the path comes first)

try:
    import matplotlib  # noqa: F401
    import scipy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (scripts/install_deps.sh --plot)")
    sys.exit(77)

DRIVER = ROOT / "experiments" / "terngrad_experiment.py"
# A table of two cells.
FLOAT = cells.Cell("table1", "float", {"net": "lenet", "dataset": "synthetic", "num_nodes": 2, "batch_size": 8, "max_steps": 300,
                                       "grad_bits": 32}, (1, 2, 3), {"top1": 86.56, "confidence": "A"})
TERNARY = cells.Cell("table1", "ternary", {**FLOAT.options, "grad_bits": 1, "clip_factor": 2.5}, (1, 2, 3),
                     {"top1": 85.64, "confidence": "A"}, baseline="float", assumed=("clip_factor: not stated",))
EXPERIMENT = cells.Experiment("table1", "CifarNet <on> CIFAR-10", "table", "Wen et al.", "top1", (1, 2, 3), 10000, margin=0.92,
                              cells=(FLOAT, TERNARY))


def run_driver(*words):
    """Runs terngrad_experiment in this process. @returns (exit code, stdout, stderr)"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(str(DRIVER), DRIVER.parent, list(map(str, words)))
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


def done_run(cell, seed, top1, scale="1", **others):
    """The store's line of a finished run."""
    return {"schema": 1, "cell": cell, "scale": scale, "seed": seed, "status": "done", "options": {}, "identity": "sha256:0",
            "commit": "abc", "backend": "cpu", "steps": 300, "max_steps": 300, "final": {"top1": top1}, "curves": {},
            "tensors": {}, **others}


def result(cell, seed, top1, scale="1", **others):
    """The store's line of a finished run with a machine and a curve."""
    curves = {"test_top1": [[100, top1 - 0.1], [300, top1]]}
    return done_run(cell, seed, top1, scale, **{"machine": {"cpu": "a <cpu>", "cores": 2}, "curves": curves, **others})


def full_results():
    """Three seeds for both cells of EXPERIMENT."""
    return [result("table1/float", seed, top1) for seed, top1 in ((1, 0.8641), (2, 0.8624), (3, 0.8658))] + \
           [result("table1/ternary", seed, top1) for seed, top1 in ((1, 0.8570), (2, 0.8549), (3, 0.8591))]


class InFolder(unittest.TestCase):
    """A test case with its own temporary `folder`."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
