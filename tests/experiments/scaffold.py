"""What tests of experiments share: the package on the path, a folder of their own, the command line, and results made up."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "experiments"))

from terngrad_experiments import cli  # noqa: E402  (the path comes first)

DRIVER = ROOT / "experiments" / "terngrad_experiment.py"


def run_driver(*words):
    """(exit code, standard output, standard error) of terngrad_experiment in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(str(DRIVER), DRIVER.parent, list(map(str, words)))
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


def done_run(cell, seed, top1, scale="1", **others):
    """The line of a run that is done."""
    return {"schema": 1, "cell": cell, "scale": scale, "seed": seed, "status": "done", "options": {}, "identity": "sha256:0",
            "commit": "abc", "backend": "cpu", "steps": 300, "max_steps": 300, "final": {"top1": top1}, "curves": {},
            "tensors": {}, **others}


class InFolder(unittest.TestCase):
    """Tests that have `folder` for themselves."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
