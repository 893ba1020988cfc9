"""Tests of scripts/gpu/check_package.py where there is no GPU: on the CPU, and by ranks that are made up."""

import contextlib
import io
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu" / "check_package.py"
sys.path.append(str(SCRIPT.parent))
import check_package  # noqa: E402

if check_package.torch is None:
    print(f"check_package_test.py: skipped: {check_package.WHY_NO_TORCH}")
    sys.exit(77)
SMALL = ["--width", "4", "--batch_size", "8", "--steps", "1", "--warmup", "1", "--repetitions", "1"]


class CheckPackage(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "found.json"

    def test_checks_the_cpu_against_itself(self):
        result = subprocess.run([sys.executable, SCRIPT, "--device", "cpu", *SMALL, "--out", self.out], capture_output=True, text=True,
                                timeout=200)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(self.out.read_text())
        for part in ("virtual", "hook"):
            self.assertEqual(set(report[part].values()), {"equal"}, part)
            self.assertIn("terngrad_ef of float16", report[part])
        self.assertEqual(set(report["step_ms"]), {"accumulate", "virtual", *check_package.HOOKS})
        self.assertGreater(min(report["step_ms"].values()), 0)

    def run_here(self, hook, code, times=None):
        """Runs with ranks that found this of a codec."""
        found = {"bits": {"ternary of float32": hook}, "times": times or {}}
        with mock.patch.object(check_package, "run_ranks", lambda options: found), \
             mock.patch.object(check_package, "cases", lambda device: [("ternary", check_package.torch.float32)]), \
             contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(check_package.main(["--device", "cpu", *SMALL]), code)
        return said.getvalue()

    def test_other_bits_are_a_failure(self):
        self.assertIn("hook: ternary of float32: differs: conv in step 0\n", self.run_here("differs: conv in step 0", 1))
        self.assertIn("0 of 1 codecs have the CPU's bits, 0 fail", self.run_here("not supported: no kernel", 0))
        numbers = itertools.count()
        with mock.patch.object(check_package, "digests_of", lambda module: {"conv": next(numbers)}):
            self.assertIn("virtual: ternary of float32: differs: conv in step 0, conv in step 1", self.run_here("equal", 1))

    def test_what_a_device_refuses_is_told_from_what_it_breaks(self):
        for error, words in ((check_package.terngrad.NotSupported("no kernel"), "not supported: no kernel"),
                             (ValueError("odd"), "ValueError: odd")):
            self.assertIn(words, check_package.compared([], mock.Mock(side_effect=error)))

    def test_without_a_gpu_nothing_is_checked(self):
        if check_package.torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(check_package.main([]), 77)
        self.assertEqual(said.getvalue(), "check_package.py: skipped: PyTorch finds no GPU\n")


if __name__ == "__main__":
    unittest.main()
