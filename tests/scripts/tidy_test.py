"""Tests of scripts/dev/tidy.py: it reports findings of clang-tidy in a source, a header and a batch, and caches clean files."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts/dev"
GOOD = "inline bool is_empty(const char* text) { return text == nullptr; }\n"
BAD = GOOD.replace("nullptr", "0")  # modernize-use-nullptr


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "root"
        for name, text in {".clang-tidy": "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n"
                                          "HeaderFilterRegex: '(kernels)/.*\\.h$'\n",
                           "kernels/header.h": GOOD, "kernels/a.cpp": '#include "kernels/header.h"\nint a() { return is_empty(nullptr); }\n',
                           "kernels/b.cpp": "int* b() { return nullptr; }\n", "tests/c.cpp": "int* c() { return 0; }\n",
                           "build/ci/kernels/unity/terngrad_kernels_0.cpp": '#include "kernels/a.cpp"\n#include "kernels/b.cpp"\n'}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "scripts/dev").mkdir(parents=True)
        for script in SCRIPTS.glob("tidy*"):
            shutil.copy(script, self.root / "scripts/dev")
        self.compile(["kernels/a.cpp", "kernels/b.cpp", "tests/c.cpp"])

    def compile(self, files):
        commands = [{"directory": str(self.root / "build/ci"), "file": str(self.root / file),
                     "command": f"/usr/bin/c++ -I{self.root} -std=c++20 -o x.o -c {self.root / file}"} for file in files]
        (self.root / "build/ci/compile_commands.json").write_text(json.dumps(commands))

    def run_tidy(self, *options, path=os.environ["PATH"]):
        result = subprocess.run([sys.executable, self.root / "scripts/dev/tidy.py", *options, self.root / "build/ci/compile_commands.json"],
                                capture_output=True, text=True, env={**os.environ, "PATH": path, "CCACHE_DIR": str(self.root / "cache")})
        return result.returncode, result.stdout.splitlines()[-1]

    def test_finds_what_is_wrong_and_remembers_what_passed(self):
        self.assertEqual(self.run_tidy(), (0, "tidy.py: 2 files, 0 failed"))
        # clang-tidy now only prints its version.
        real = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
        tools = self.root / "tools"
        tools.mkdir()
        (tools / "version").write_text(real)
        (tools / "clang-tidy").write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then cat {tools}/version; else exit 1; fi\n')
        (tools / "clang-tidy").chmod(0o755)
        self.assertEqual(self.run_tidy(path=f"{tools}:{os.environ['PATH']}"), (0, "tidy.py: 2 files, 0 failed"))
        (self.root / "kernels/header.h").write_text(BAD)
        for _ in range(2):
            self.assertEqual(self.run_tidy(), (1, "tidy.py: 2 files, 1 failed kernels/a.cpp"))

    def test_batch_is_looked_at_with_its_sources(self):
        self.compile(["build/ci/kernels/unity/terngrad_kernels_0.cpp"])
        self.assertEqual(self.run_tidy(), (0, "tidy.py: 1 files, 0 failed"))
        (self.root / "kernels/b.cpp").write_text("int* b() { return 0; }\n")
        self.assertEqual(self.run_tidy(), (1, "tidy.py: 1 files, 1 failed build/ci/kernels/unity/terngrad_kernels_0.cpp"))
        self.assertEqual(self.run_tidy("--all")[1].split(",")[0], "tidy.py: 3 files")


if __name__ == "__main__":
    if shutil.which("clang-tidy") is None or shutil.which("ccache") is None:
        print("skipped: there is no clang-tidy or no ccache")
        sys.exit(77)
    unittest.main()
