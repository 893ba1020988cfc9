"""Tests of scripts/gpu/long_runs.sh with a fake trainer: splitting into parts, and runs that continue on another machine."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
SCRIPT = TESTS.parent / "scripts/gpu/long_runs.sh"
sys.path.append(str(TESTS / "experiments"))
from runner_test import RECIPE  # noqa: E402


class LongRuns(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="terngrad_long_runs_")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        bundle = self.folder / "terngrad-bundle"
        (bundle / "bin").mkdir(parents=True)
        (bundle / "MANIFEST").touch()
        shutil.copy(TESTS.parent / "scripts/gpu/bundle_run.sh", bundle / "run")
        shutil.copy(TESTS / "experiments" / "stand_in_trainer.py", bundle / "bin" / "terngrad_train")
        (bundle / "noise").write_bytes(os.urandom(3 << 20))  # large enough for several parts
        with tarfile.open(self.folder / "bundle.tar.xz", "w:xz") as archive:
            archive.add(bundle, bundle.name)
        (self.folder / "recipes").mkdir()
        (self.folder / "recipes" / "small.toml").write_text(RECIPE)
        (self.folder / "recipes" / "presets.toml").write_text("[presets]\n")

    def call(self, machine, *words, code=0, seconds="0"):
        """Runs the script as on `machine`, which is a temporary folder."""
        (self.folder / machine).mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(self.folder / machine), "STAND_IN_SECONDS": seconds, "CUDA_VISIBLE_DEVICES": "0"}
        result = subprocess.run([SCRIPT, *map(str, words)], capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def loan(self, machine, seconds, limit, code, *files):
        """Copies files to a machine in two calls, starts runs there, and returns the folder of their results."""
        parts = self.folder / f"parts-{machine}"
        self.call("here", "cut", 2, parts, self.folder / "bundle.tar.xz", *files)
        second = self.folder / f"second-{machine}"
        second.mkdir()
        for path in sorted(parts.iterdir())[1:]:
            path.rename(second / path.name)
        self.assertGreaterEqual(len(list(second.iterdir())), 1)
        for folder in (parts, second):
            self.call(machine, "keep", folder)
        out = self.folder / f"out-{machine}"
        self.call(machine, "run", out, limit, "small/*", "--recipes", self.folder / "recipes", "--jobs_per_gpu", 4, seconds=seconds,
                  code=code)
        return out

    def test_runs_that_were_stopped_continue_elsewhere(self):
        out = self.loan("first", "0.5", 5, 124)
        self.assertFalse((out / "results.jsonl").exists())
        runs = self.folder / "joined"
        runs.mkdir()
        parts = sorted(out.glob("runs-*"))
        subprocess.run(["tar", "-C", runs, "-x"], input=b"".join(path.read_bytes() for path in parts), check=True)
        states = {path.parent: int(path.read_text()) for path in (runs / "runs").rglob("state")}
        self.assertEqual(len(states), 4)
        self.assertTrue(all(0 < step < 20 for step in states.values()), states)
        out = self.loan("second", "0", 60, 0, runs / "runs")
        self.assertEqual((out / "driver.log").read_text().count(": resumed on GPU 0"), 4)
        self.assertEqual(len((out / "results.jsonl").read_text().splitlines()), 4)

    def test_refuses_wrong_usage(self):
        for words, reason in {
            (): "'' is refused; accepted: cut, keep, run",
            ("cut", "0", "parts", "file"): "MIB: '0' is refused",
            ("cut", "1", self.folder / "parts", "nowhere"): "there is no 'nowhere'",
            ("cut", "1", self.folder, SCRIPT): "is not empty",
            ("keep", "/nowhere"): "there is no folder '/nowhere'",
            ("run", "out", "soon", "table1/*"): "SECONDS: 'soon' is refused",
            ("run", "out", "60", "table1/*"): "has no parts",
        }.items():
            self.assertIn(reason, self.call("here", *words, code=2))


if __name__ == "__main__":
    unittest.main()
