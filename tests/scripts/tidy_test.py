"""Tests of scripts/dev/tidy.py, with programs in place of clang-tidy and clang-scan-deps that only look for words."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/dev/tidy.py"

# Notes which source it is asked for; edits one that says so, as if somebody had meanwhile; finds the word BAD in it and in header.h.
TIDY = r"""#!/usr/bin/env bash
if [[ $1 == --version ]]; then cat "$(dirname "$0")/version"; exit; fi
source=${*: -1}
echo "$(basename "$source")" >>"$(dirname "$0")/asked"
echo "$(basename "$source") $*" >>"$(dirname "$0")/arguments"
if grep -q EDIT "$source"; then echo "int edited();" >"$source"; exit; fi
if grep -q BAD "$source" "$(dirname "$source")/header.h"; then echo "found in $source"; exit 1; fi
"""
# a.cpp includes header.h, b.cpp nothing, a batch both, and c.cpp cannot be followed.
SCAN = r"""#!/usr/bin/env bash
batch=$PWD/build/ci/kernels/unity/terngrad_kernels_0.cpp
if [[ -e $batch ]]; then printf 'u.o: %s %s/kernels/a.cpp %s/kernels/header.h %s/kernels/b.cpp\n' "$batch" "$PWD" "$PWD" "$PWD"; fi
printf 'a.o: \\\n  %s/kernels/a.cpp \\\n  %s/kernels/header.h\nb.o: %s/kernels/b.cpp\n' "$PWD" "$PWD" "$PWD"
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name).resolve()
        self.root = self.folder / "root"
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        for name, text in [("clang-tidy", TIDY), ("clang-scan-deps", SCAN)]:
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        (self.tools / "version").write_text("14")
        self.make_root(self.root)

    def make_root(self, root):
        (root / "kernels").mkdir(parents=True)
        (root / "tests").mkdir()
        (root / "scripts/dev").mkdir(parents=True)
        (root / "build/ci").mkdir(parents=True)
        shutil.copy(SCRIPT, root / "scripts/dev")
        (root / ".clang-tidy").write_text("Checks: all\n")
        (root / "kernels/header.h").write_text("int header();\n")
        for name in ["kernels/a.cpp", "kernels/b.cpp", "kernels/d.cu", "tests/e.cpp"]:
            (root / name).write_text(f"int {pathlib.Path(name).stem}();\n")
        self.write_commands(root, ["kernels/a.cpp", "kernels/b.cpp", "kernels/d.cu", "tests/e.cpp"])

    def write_commands(self, root, files, option="-O1"):
        commands = [
            {"directory": str(root / "build/ci"), "file": str(root / file), "command": f"/usr/bin/ccache g++ -I{root} {option} -c {root / file}"}
            for file in files
        ]
        (root / "build/ci/compile_commands.json").write_text(json.dumps(commands))

    def environment(self):
        return dict(os.environ, PATH=f"{self.tools}:{os.environ['PATH']}", TERNGRAD_TIDY_CACHE=str(self.folder / "cache"))

    def run_on(self, root=None, errors="", options=()):
        """Runs; gives the exit code, what was printed, and the sources that clang-tidy was asked for."""
        root = root or self.root
        (self.tools / "asked").write_text("")
        result = subprocess.run(
            [root / "scripts/dev/tidy.py", *options, root / "build/ci/compile_commands.json"],
            env=self.environment(), capture_output=True, text=True
        )
        self.assertIn(errors, result.stderr)
        self.assertEqual(bool(errors), bool(result.stderr))
        return result.returncode, result.stdout, sorted((self.tools / "asked").read_text().split())

    def test_looks_at_sources_once(self):
        self.assertEqual(self.run_on(), (0, "tidy.py: 2 files, 0 unchanged since they passed, 0 failed\n", ["a.cpp", "b.cpp"]))
        self.assertEqual(self.run_on(), (0, "tidy.py: 2 files, 2 unchanged since they passed, 0 failed\n", []))

    def test_looks_again_at_what_changed(self):
        self.run_on()
        (self.root / "kernels/b.cpp").write_text("int other();\n")
        self.assertEqual(self.run_on()[2], ["b.cpp"])
        (self.root / "kernels/header.h").write_text("int changed();\n")
        self.assertEqual(self.run_on()[2], ["a.cpp"])
        for change in [
            lambda: self.write_commands(self.root, ["kernels/a.cpp", "kernels/b.cpp"], "-O2"),
            lambda: (self.root / ".clang-tidy").write_text("Checks: none\n"),
            lambda: (self.root / "kernels/.clang-tidy").write_text("Checks: some\n"),
            lambda: (self.tools / "version").write_text("15"),
        ]:
            change()
            self.assertEqual(self.run_on()[2], ["a.cpp", "b.cpp"])
        self.assertEqual(self.run_on()[2], [])

    def test_knows_them_in_another_folder(self):
        self.run_on()
        self.make_root(self.folder / "clone")
        shutil.rmtree(self.root)
        self.assertEqual(self.run_on(self.folder / "clone")[2], [])

    def test_findings_are_found_again(self):
        (self.root / "kernels/header.h").write_text("BAD\n")
        for asked in [["a.cpp", "b.cpp"], ["a.cpp", "b.cpp"]]:
            code, output, seen = self.run_on()
            self.assertEqual((code, seen), (1, asked))
            self.assertIn(f"found in {self.root}/kernels/a.cpp\n", output)
            self.assertIn("2 failed kernels/", output)
        (self.root / "kernels/header.h").write_text("int header();\n")
        self.assertEqual(self.run_on()[0], 0)

    def test_sources_that_cannot_be_followed_are_looked_at_every_time(self):
        (self.root / "kernels/c.cpp").write_text("int c();\n")
        self.write_commands(self.root, ["kernels/b.cpp", "kernels/c.cpp"])
        self.assertEqual(self.run_on()[2], ["b.cpp", "c.cpp"])
        self.assertEqual(self.run_on()[2], ["c.cpp"])

    def test_a_source_that_is_edited_meanwhile_has_not_passed(self):
        (self.root / "kernels/b.cpp").write_text("EDIT\n")
        self.run_on()
        (self.root / "kernels/b.cpp").write_text("EDIT\n")
        self.assertEqual(self.run_on()[2], ["b.cpp"])

    def test_a_scanner_that_ends_early_lets_nothing_be_remembered(self):
        (self.tools / "clang-scan-deps").write_text(SCAN + "printf 'c.o: '\n")
        for _ in range(2):
            code, _, asked = self.run_on(errors="ended early")
            self.assertEqual((code, asked), (0, ["a.cpp", "b.cpp"]))

    def test_forgets_old_passes_and_no_other_files(self):
        self.run_on()
        other = self.folder / "cache/notes"
        other.write_text("")
        for file in (self.folder / "cache").iterdir():
            os.utime(file, (0, 0))
        self.write_commands(self.root, ["kernels/b.cpp"])
        self.assertEqual(self.run_on()[2], [])
        self.assertEqual(len(list((self.folder / "cache").iterdir())), 2)
        self.assertTrue(other.exists())

    def write_batch(self):
        (self.root / ".clang-tidy").write_text("HeaderFilterRegex: '(kernels|nets)/.*\\.h$'\n")
        folder = self.root / "build/ci/kernels/unity"
        folder.mkdir(parents=True)
        (folder / "terngrad_kernels_0.cpp").write_text('#include "kernels/a.cpp"\n#include "kernels/b.cpp"\n')
        self.write_commands(self.root, ["build/ci/kernels/unity/terngrad_kernels_0.cpp"])

    def test_sources_that_are_compiled_together_are_looked_at_together_and_alone(self):
        self.write_batch()
        batch = "terngrad_kernels_0.cpp"
        self.assertEqual(self.run_on()[2], [batch])
        self.assertEqual(self.run_on(options=["--all"])[2], ["a.cpp", "b.cpp"])
        (self.root / "kernels/header.h").write_text("int other();\n")
        self.assertEqual(self.run_on(options=["--all"])[2], ["a.cpp", batch])
        arguments = self.arguments()
        self.assertIn("--checks=-clang-analyzer-*,-misc-unused-alias-decls,", arguments[batch])
        self.assertIn("--header-filter=(kernels|nets)/.*\\.(h|cpp)$", arguments[batch])
        self.assertIn("--checks=-*,clang-analyzer-core*,", arguments["a.cpp"])
        self.assertEqual(self.run_on(options=["--all"])[2], [])
        (self.root / "kernels/b.cpp").write_text("int other();\n")
        self.assertEqual(self.run_on(options=["--all"])[2], ["b.cpp", batch])
        (self.root / "kernels/b.cpp").write_text("BAD\n")
        self.assertEqual(self.run_on(options=["--all"])[0], 1)

    def test_a_source_that_is_also_compiled_alone_is_looked_at_for_all(self):
        self.write_batch()
        for order in [1, -1]:
            self.write_commands(self.root, ["build/ci/kernels/unity/terngrad_kernels_0.cpp", "kernels/a.cpp"][::order])
            self.run_on(options=["--all"])
        self.assertNotIn("--checks", self.arguments()["a.cpp"])

    def arguments(self):
        """Of the last call for each source."""
        return dict(line.split(" ", 1) for line in (self.tools / "arguments").read_text().splitlines())

    def test_the_analyzer_runs_with_all_only(self):
        self.run_on()
        self.assertIn("--checks=-clang-analyzer-*", self.arguments()["a.cpp"])
        self.assertEqual(self.run_on(options=["--all"])[2], ["a.cpp", "b.cpp"])
        self.assertNotIn("--checks", self.arguments()["a.cpp"])

    def git(self, *words):
        names = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", *names, *words], cwd=self.root, check=True, capture_output=True)

    def test_since_a_commit_only_what_includes_a_changed_file(self):
        self.git("init")
        self.git("add", "kernels")
        self.git("commit", "-m", "first")
        self.assertEqual(self.run_on(options=["--since", "HEAD"]), (0, "tidy.py: 0 files, 2 as in HEAD, 0 unchanged since they passed, 0 failed\n", []))
        (self.root / "kernels/header.h").write_text("int changed();\n")
        self.assertEqual(self.run_on(options=["--since", "HEAD"])[2], ["a.cpp"])
        self.git("commit", "-am", "second")
        self.assertEqual(self.run_on(options=["--since", "HEAD"])[2], [])
        code, _, _ = self.run_on(options=["--since", "nowhere"], errors="--since nowhere")
        self.assertEqual(code, 1)

    def test_refuses_a_build_without_sources(self):
        self.write_commands(self.root, ["tests/e.cpp"])
        result = subprocess.run([self.root / "scripts/dev/tidy.py", self.root / "build/ci/compile_commands.json"],
                                env=self.environment(), capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no source to look at", result.stderr)


if __name__ == "__main__":
    unittest.main()
