"""Tests of scripts/bench/bench_pytorch_gpu.py on the CPU, and of its messages when something is missing."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench/bench_pytorch_gpu.py"


class BenchPytorchGpu(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_script(self, *arguments, code, torch=None):
        """Runs the script and returns its report, or stderr for code 2. `torch`, if given, replaces PyTorch's source."""
        paths = []
        if torch is not None:
            (self.folder / "torch").mkdir(exist_ok=True)
            (self.folder / "torch" / "__init__.py").write_text(torch)
            paths = [str(self.folder)]
        out = self.folder / "report.json"
        result = subprocess.run([sys.executable, SCRIPT, "--out", out, *arguments], capture_output=True, text=True,
                                env={"PYTHONPATH": ":".join(paths), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
                                timeout=280)
        self.assertEqual(result.returncode, code, result.stderr)
        if code == 2:
            return result.stderr
        self.assertEqual(out.read_text(), result.stdout)
        return json.loads(result.stdout)

    def test_says_that_there_is_no_pytorch(self):
        report = self.run_script(code=77, torch="raise ImportError('it is not there')\n")
        self.assertEqual(report, {"skipped": f"no PyTorch: it is not there for {sys.executable}"})

    def test_says_that_there_is_no_gpu(self):
        (self.folder / "torch" / "nn").mkdir(parents=True)
        (self.folder / "torch" / "nn" / "__init__.py").write_text("Module = object\n")
        (self.folder / "torch" / "nn" / "functional.py").write_text("def __getattr__(name):\n  return None\n")
        report = self.run_script(code=77, torch=(
            "__version__ = '9.9'\nfrom . import nn\nclass cuda:\n  is_available = staticmethod(lambda: False)\n"))
        self.assertEqual(report, {"skipped": "PyTorch 9.9 sees no GPU"})

    def test_refuses_wrong_usage(self):
        self.assertIn("--steps: must be at least 1", self.run_script("--steps", "0", code=2))
        self.assertIn("--net", self.run_script("--net", "resnet", code=2))

    def test_measures_on_the_cpu(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no PyTorch")
        # Mode eager only, because compiling takes minutes.
        words = ["--device", "cpu", "--net", "lenet", "--batch", "8", "--steps", "3", "--warmup", "1", "--repetitions", "2"]
        result = subprocess.run([sys.executable, SCRIPT, *words, "--mode", "eager"], capture_output=True, text=True, timeout=280)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["mode"], report["math"], len(report["all_steps_per_s"])), ("eager", "tf32", 2))
        self.assertAlmostEqual(report["examples_per_s"], 8 * report["steps_per_s"])
        self.assertLess(report["last_loss"], report["first_loss"])


if __name__ == "__main__":
    unittest.main()
