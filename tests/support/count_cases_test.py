#!/usr/bin/env python3
"""Tests of count_cases.py, with the report of a real run of ctest."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().with_name("count_cases.py")
# Entries that pass, fail, skip, crash and do not start.
ENTRIES = """
add_test(passes "/bin/true")
add_test(fails "/bin/false")
add_test(skips "/bin/sh" "-c" "exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(crashes "/bin/sh" "-c" "kill -SEGV $$")
add_test(missing "/nowhere/program")
add_test(passing_shard "/bin/true")
add_test(skipping_shard "/bin/sh" "-c" "exit 77")
set_tests_properties(skipping_shard PROPERTIES SKIP_RETURN_CODE 77)
add_test(failing_shard "/bin/false")
add_test(killed_shard "/bin/false")
"""


def shard(*results, program="some_test"):
    cases = [{"name": f"Suite.Case{i}", "result": result, "seconds": 10.0 + i} for i, result in enumerate(results)]
    return json.dumps({"program": program, "cpu_seconds": 1.5, "cases": cases})


class CountCases(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def count(self, entries, *options, shards={}):
        (self.folder / "CTestTestfile.cmake").write_text(entries)
        for name, text in shards.items():
            (self.folder / f"{name}.json").write_text(text)
        junit = self.folder / "junit.xml"
        subprocess.run(["ctest", "--output-junit", junit], cwd=self.folder, capture_output=True)
        result = subprocess.run([sys.executable, SCRIPT, *options, junit, self.folder], capture_output=True, text=True)
        self.status, self.lines = result.returncode, result.stdout.splitlines()
        self.assertEqual(result.stderr, "")

    def test_counts_cases_of_shards_and_other_entries(self):
        shards = {
            "passing_shard": shard("passed", "skipped", "passed"),
            "skipping_shard": shard("skipped", "skipped"),
            "failing_shard": shard("passed", "failed"),
            "killed_shard": shard("passed", program="other_test"),
            "of_an_earlier_run": shard("failed"),
        }
        self.count(ENTRIES, "--dearest", "2", shards=shards)
        self.assertEqual(self.lines[-1], "5 passed, 5 failed, 4 skipped")
        self.assertEqual(self.status, 1)
        failed = [line for line in self.lines if line.startswith("FAILED")]
        expected = ["fails", "crashes", "missing", "failing_shard: Suite.Case1", "killed_shard"]
        self.assertEqual(failed, [f"FAILED: {name}" for name in expected])
        self.assertIn("     4.5 s of processor time: some_test", self.lines)
        self.assertIn("    12.0 s passed: passing_shard: Suite.Case2", self.lines)
        self.assertEqual(sum(" s passed: " in line for line in self.lines), 1)

    def test_what_passes_is_no_failure(self):
        self.count('add_test(passes "/bin/true")')
        self.assertEqual((self.lines[-1], self.status), ("1 passed, 0 failed, 0 skipped", 0))

    def test_nothing_is_counted_as_nothing(self):
        self.count("")
        self.assertEqual((self.lines[-1], self.status), ("0 passed, 0 failed, 0 skipped", 0))


if __name__ == "__main__":
    if not shutil.which("ctest"):
        print("no ctest")
        sys.exit(77)
    unittest.main()
