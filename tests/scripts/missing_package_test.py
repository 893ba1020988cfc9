#!/usr/bin/env python3
"""Scripts with optional packages print --help without them; otherwise they name the package, the interpreter and the
installation."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/common"))
import missing_package  # noqa: E402


def run_bare(*command):
    """Runs a script with this interpreter without installed packages."""
    return subprocess.run([sys.executable, "-S", "-E", *map(str, command)], capture_output=True, text=True, check=False)


class MissingPackage(unittest.TestCase):
    SCRIPTS = ["scripts/bench/bench_pytorch.py", "scripts/bench/bench_pytorch_ddp.py", "scripts/bench/bench_pytorch_gpu.py",
               "scripts/bench/ddp_hooks_rank.py", "scripts/dev/check_formats.py", "scripts/dev/check_preprocessing.py", "scripts/dev/compare_pytorch.py", "scripts/plot_run.py", "scripts/read_messages.py",
               "experiments/cifar10_pytorch.py"]

    def test_help_needs_no_package(self):
        for script in self.SCRIPTS:
            with self.subTest(script):
                result = run_bare(ROOT / script, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"usage: {pathlib.Path(script).name}", result.stdout)

    def expect_hint(self, code, package, script, *arguments):
        result = run_bare(ROOT / script, *arguments)
        said = result.stdout + result.stderr
        self.assertEqual(result.returncode, code, said)
        self.assertIn(f"No module named '{package}' for {sys.executable} (", said)
        self.assertIn(f"python3-{package}", said)
        self.assertNotIn("Traceback", said)

    def test_what_is_missing_is_said_with_its_interpreter(self):
        with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
            self.expect_hint(77, "torch", "scripts/bench/bench_pytorch.py")
            self.expect_hint(77, "torch", "scripts/bench/bench_pytorch_gpu.py")
            self.expect_hint(77, "numpy", "scripts/dev/compare_pytorch.py", "--program", file.name)
            self.expect_hint(77, "numpy", "scripts/dev/check_preprocessing.py", "--program", file.name, "--images", ".")
            self.expect_hint(77, "matplotlib", "scripts/plot_run.py", folder)
            self.expect_hint(1, "numpy", "experiments/cifar10_pytorch.py", folder)

    def test_other_packages_come_from_elsewhere(self):
        error = ModuleNotFoundError("No module named 'safetensors.numpy'", name="safetensors.numpy")
        self.assertEqual(missing_package.hint(error), f"No module named 'safetensors.numpy' for {sys.executable} ({sys.executable} "
                                                      "-m pip install safetensors)")
        self.assertEqual(missing_package.hint(ImportError("broken")), f"broken for {sys.executable}")


if __name__ == "__main__":
    unittest.main()
