"""mypy accepts the Python package, and its stub matches the extension. Skipped without mypy."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
try:
    import mypy  # noqa: F401
except ImportError:
    print("types_test.py: skipped: there is no mypy (scripts/install_deps.sh --python)")
    sys.exit(77)

USE = """import numpy
import terngrad

gradient = numpy.zeros(10, numpy.float32)
message: terngrad.Message = terngrad.Codec("ternary", clip_factor=2.5).encode(gradient, step=1)
exchange = terngrad.Exchange(terngrad.Layout({"w": (10,)}), 2, "qsgd", bits=4)
report: terngrad.Report = exchange.exchange([{"w": gradient}, {"w": gradient}], step=0)
"""


def run_mypy(*arguments):
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", "/dev/null",
                           *arguments], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


class Types(unittest.TestCase):
    def test_the_package_is_typed(self):
        code, text = run_mypy("python/terngrad")
        self.assertEqual(code, 0, text)

    def test_the_stub_is_that_of_the_extension(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/dev/python_stub.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_users_learn_of_their_mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, error in ((USE, ""), (USE + 'exchange.begin("1")\n', "arg-type"), (USE + "message.size\n", "attr-defined")):
                path = pathlib.Path(folder) / "use.py"
                path.write_text(text)
                code, found = run_mypy(path)
                self.assertEqual((code == 0, error in found), (not error, True), found)


if __name__ == "__main__":
    unittest.main()
