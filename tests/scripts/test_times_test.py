"""Tests of scripts/dev/test_times.py, on files made here in the formats of ctest, GoogleTest and tests/support/run_shard.py."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/dev/test_times.py"
ENTRIES = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="3" failures="0" disabled="0" skipped="1" hostname="" time="6">
  <testcase name="scripts.cheap" classname="scripts.cheap" time="0.25" status="run"><system-out>a</system-out></testcase>
  <testcase name="mpi.dear" classname="mpi.dear" time="5.5" status="run"/>
  <testcase name="mpi.absent" classname="mpi.absent" time="0" status="notrun"><skipped message=""/></testcase>
</testsuite>
"""


def shard(program, cpu_seconds, **cases):
    return {"program": f"/build/bin/{program}", "filter": "*", "seed": 1, "seconds": 2 * cpu_seconds, "cpu_seconds": cpu_seconds,
            "cases": [{"name": f"Suite.{name}", "result": "passed", "seconds": seconds} for name, seconds in cases.items()]}


def of_googletest(**cases):
    return {"time": "1.5s", "testsuites": [{"name": "Own", "testsuite": [
        {"name": name, "status": "RUN" if time else "NOTRUN", "time": time or "0s"} for name, time in cases.items()]}]}


class TestTimes(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, name, content):
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def run_script(self, *arguments, code=0):
        result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout if code == 0 else result.stderr

    def test_the_dearest_entries_come_first(self):
        printed = self.run_script(self.write("entries.xml", ENTRIES)).splitlines()
        self.assertIn("2 of 2, which took 5.8", printed[0])
        self.assertEqual([line.split() for line in printed[1:]], [["5.50", "mpi.dear"], ["0.25", "scripts.cheap"]])

    def test_shards_of_a_program_add_up(self):
        self.write("cases/kernels_0.json", shard("kernels_test", 1.0, A=0.5, B=0.75))
        self.write("cases/kernels_1.json", shard("kernels_test", 2.5, C=0.1))
        self.write("cases/nets_0.json", shard("nets_test", 4.0, D=0.2))
        printed = self.run_script("--top", "2", self.folder / "cases").splitlines()
        self.assertEqual([line.split() for line in printed[1:3]],
                         [["0.75", "kernels_test", "Suite.B"], ["0.50", "kernels_test", "Suite.A"]])
        self.assertIn("programs: CPU seconds, seconds (2)", printed[3])
        self.assertEqual([line.split() for line in printed[4:]], [["4.0", "8.0", "nets_test"], ["3.5", "7.0", "kernels_test"]])

    def test_googletests_own_reports_have_no_cpu_seconds(self):
        printed = self.run_script(self.write("compress_test-2.json", of_googletest(A="1.25s", B=None))).splitlines()
        self.assertEqual(printed[1].split(), ["1.25", "compress_test", "Own.A"])
        self.assertEqual(printed[-1].split(), ["?", "1.5", "compress_test"])
        self.assertNotIn("Own.B", "\n".join(printed))

    def test_what_cannot_be_read_is_named(self):
        self.assertIn("/nowhere: there is no such file", self.run_script("/nowhere", code=2))
        for name, content, reason in [("a.xml", "<a", "not XML"), ("b.xml", "<html/>", "<html> is no report"),
                                      ("c.json", "{", "not JSON"), ("d.json", "[]", "neither a report")]:
            self.assertIn(f"{name}: {reason}", self.run_script(self.write(name, content), code=2))
        (self.folder / "empty").mkdir()
        self.assertIn("no test in these files", self.run_script(self.folder / "empty", code=2))
        self.assertIn("--top", self.run_script("--top", "0", self.folder, code=2))


if __name__ == "__main__":
    unittest.main()
