"""Tests of scripts/gpu/check_package.py without a GPU: on the CPU, and with faked ranks."""

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
                                timeout=250)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(self.out.read_text())
        for part in ("virtual", "hook"):
            self.assertEqual(set(report[part].values()), {"equal"}, part)
            self.assertIn("terngrad_ef of float16", report[part])
        self.assertEqual(set(report["step_ms"]), {"accumulate", "virtual", *check_package.HOOKS})
        for times in report["step_ms"].values():
            self.assertGreater(times["step"], 0)
            self.assertGreaterEqual(times["step"], times["host"])

    def run_here(self, code, hook=None, **replaced):
        """Runs one case with ranks that note the findings of `hook`. @returns the output and the report"""
        def run_ranks(options, found):
            for part, values in (hook or {}).items():
                for name, value in values.items():
                    found.note(part, name, value)

        times = {"run_ranks": run_ranks, "time_slices": lambda device, options, codec: self.TIMES, "HOOKS": {"ternary": {}},
                 "cases": lambda device: [("ternary", check_package.torch.float32)]}
        with mock.patch.multiple(check_package, **{**times, **replaced}), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(check_package.main(["--device", "cpu", *SMALL, "--out", str(self.out)]), code)
        return said.getvalue(), json.loads(self.out.read_text())

    TIMES = {"step": 2.0, "host": 1.0}
    RIGHT = {"hook": {"ternary of float32": "equal"}, "step_ms": {"ternary": TIMES}}

    def test_other_bits_and_what_is_missing_are_failures(self):
        said, report = self.run_here(0, self.RIGHT)
        self.assertIn("virtual: 1 of 1 passed; hook: 1 of 1 passed; step_ms: 3 of 3 passed\n", said)
        said, report = self.run_here(1, {**self.RIGHT, "hook": {"ternary of float32": "differs: conv in step 0"}})
        self.assertIn("hook: ternary of float32: differs: conv in step 0\n", said)
        said, report = self.run_here(1)
        self.assertIn("hook: ternary of float32: has not run\n", said)
        numbers = itertools.count()
        said, report = self.run_here(1, self.RIGHT, digests_of=lambda module: {"conv": next(numbers)})
        self.assertEqual(report["virtual"]["ternary of float32"], "differs: conv in step 0, conv in step 1, conv in step 2")

    def test_an_error_costs_one_case(self):
        error = mock.Mock(side_effect=check_package.terngrad.NotSupported("no kernel"))
        said, report = self.run_here(1, self.RIGHT, run_virtual=error)
        self.assertEqual(report["virtual"], {"ternary of float32": "NotSupported: no kernel"})
        self.assertEqual(report["step_ms"], dict.fromkeys(("accumulate", "virtual", "ternary"), self.TIMES))
        said, report = self.run_here(1, self.RIGHT, time_slices=error, run_ranks=error)
        self.assertIn("the ranks ended early: no kernel\n", said)
        self.assertEqual(report["virtual"], {"ternary of float32": "equal"})

    def test_the_control_is_an_exchange_that_does_not_wait(self):
        for seen, result in (("differs: conv in step 1", "equal"), ("equal", "an exchange that does not wait is not seen: equal")):
            with mock.patch.object(check_package, "compared", lambda *arguments, seen=seen: seen):
                self.assertEqual(check_package.run_control(None, None, "ternary", None), result)

    def test_gradients_are_late(self):
        torch = check_package.torch
        torch.distributed.init_process_group("gloo", init_method=f"file://{self.out}", rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        with mock.patch.object(torch.cuda, "_sleep", create=True) as sleep:
            found = check_package.run_hook(torch.device("cpu"), "ternary", torch.float32, True)
        self.assertEqual(sleep.call_count, check_package.STEPS * len(check_package.SHAPES))
        self.assertEqual(found, check_package.run_virtual("cpu", "ternary", torch.float32, 1))

    def test_without_a_gpu_nothing_is_checked(self):
        if check_package.torch.cuda.is_available():
            self.skipTest("there is a GPU")
        for arguments, code, word in (([], 77, "skipped"), (["--device", "cuda"], 1, "failed")):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(check_package.main(arguments), code)
            self.assertEqual(said.getvalue(), f"check_package.py: {word}: PyTorch finds no GPU\n")


if __name__ == "__main__":
    unittest.main()
