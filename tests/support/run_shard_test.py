#!/usr/bin/env python3
"""Tests of run_shard.py with the program of shard_cases.cpp. Usage: run_shard_test.py PROGRAM"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().with_name("run_shard.py")
PROGRAM = ""
NUM_CASES = 8


class RunShard(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.results_file = pathlib.Path(holder.name) / "made" / "results.json"

    def run_shard(self, wrong, *options, **environment):
        """Runs the script; SHARD_CASES=wrong. Keeps status, what it printed, and its results by case."""
        inherited = {name: value for name, value in os.environ.items() if name != "TERNGRAD_TEST_SEED"}
        process = subprocess.run(
            [sys.executable, SCRIPT, "--results", self.results_file, *options, PROGRAM],
            env={**inherited, "SHARD_CASES": wrong, **environment},
            capture_output=True,
            text=True,
        )
        self.status, self.output, self.errors = process.returncode, process.stdout, process.stderr
        self.results = json.loads(self.results_file.read_text()) if self.results_file.exists() else None
        self.cases = {case["name"]: case["result"] for case in self.results["cases"]} if self.results else {}

    def failed(self):
        return sorted(name for name, result in self.cases.items() if result == "failed")

    def test_passes_and_writes_what_ran(self):
        self.run_shard("skip")
        self.assertEqual(self.status, 0, self.output + self.errors)
        self.assertEqual(len(self.cases), NUM_CASES)
        self.assertEqual(self.cases["First.SkipsIfAsked"], "skipped")
        self.assertEqual(self.cases["Some/Parameters.FailIfAsked/1"], "passed")
        self.assertGreater(self.results["cpu_seconds"], 0)
        self.assertIn("7 passed, 0 failed, 1 skipped", self.output)

    def test_cases_take_signals_that_the_caller_ignores(self):
        ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
        self.addCleanup(lambda: [signal.signal(*pair) for pair in zip(ignored, before)])
        self.run_shard("")
        self.assertEqual(self.status, 0, self.output)

    def test_a_shard_of_which_all_skips_is_skipped(self):
        self.run_shard("skip", "--filter", "First.SkipsIfAsked")
        self.assertEqual(self.status, 77)

    def test_shards_are_disjoint_and_all_of_them_are_everything(self):
        seen = []
        for index in range(3):
            self.run_shard("", "--shards", "3", "--index", str(index))
            self.assertEqual(self.status, 0)
            seen += self.cases
        self.assertEqual(len(seen), NUM_CASES)
        self.assertEqual(len(set(seen)), NUM_CASES)

    def test_a_shard_without_a_case_fails(self):
        self.run_shard("", "--filter", "Misspelt.*")
        self.assertEqual(self.status, 1)
        self.assertIn("no case of the filter 'Misspelt.*'", self.output)

    def test_each_failure_is_named_with_its_output(self):
        self.run_shard("fail,fail_parameter")
        self.assertEqual(self.status, 1)
        self.assertEqual(self.failed(), ["First.FailsIfAsked", "Some/Parameters.FailIfAsked/1"])
        self.assertIn("FAILED: First.FailsIfAsked failed in its shard, exited with status 1 alone", self.output)
        self.assertIn("the reason", self.output)

    def test_what_passes_alone_remains_failed(self):
        self.run_shard("depend")
        self.assertEqual(self.status, 1)
        self.assertEqual(self.failed(), ["Second.DependsOnOthersIfAsked"])
        self.assertIn("failed in its shard, passed alone", self.output)
        self.assertIn("not the first to run", self.output)

    def test_a_crash_hides_no_other_case(self):
        for wrong, ending in [("crash", "was killed by SIGABRT"), ("exit", "exited with status 0 before the end")]:
            with self.subTest(wrong):
                self.run_shard(f"{wrong},fail,fail_parameter,skip")
                self.assertEqual(self.status, 1)
                self.assertEqual(len(self.cases), NUM_CASES)
                self.assertEqual(
                    self.failed(), ["First.FailsIfAsked", "Second.CrashesIfAsked", "Some/Parameters.FailIfAsked/1"]
                )
                self.assertEqual(self.cases["First.SkipsIfAsked"], "skipped")
                self.assertIn(f"Second.CrashesIfAsked {ending}", self.output)

    def test_a_crash_that_depends_on_other_cases_remains_a_failure(self):
        self.run_shard("crash_after_others")
        self.assertEqual(self.status, 1)
        self.assertEqual(self.failed(), ["Second.CrashesIfAsked"])
        self.assertIn("was killed by SIGABRT in its shard, passed alone", self.output)

    def test_a_crash_is_followed_within_its_own_shard_only(self):
        index = next(i for i in range(3) if self.has_in_shard("Second.CrashesIfAsked", i))
        expected = sorted(self.cases)
        self.run_shard("crash", "--shards", "3", "--index", str(index))
        self.assertEqual(sorted(self.cases), expected)

    def has_in_shard(self, name, index):
        self.run_shard("", "--shards", "3", "--index", str(index))
        return name in self.cases

    def test_limits_of_time(self):
        self.run_shard("hang", "--shard_seconds", "1", "--case_seconds", "0.5")
        self.assertEqual(self.status, 1)
        self.assertEqual(self.failed(), ["Second.CrashesIfAsked"])
        self.assertEqual(len(self.cases), NUM_CASES)
        self.assertIn("ran out of time in its shard, ran out of time alone", self.output)
        self.run_shard("hang", "--filter", "Second.Crash*", "--shard_seconds", "0.2", "--total_seconds", "0.1")
        self.assertIn("was not run alone", self.output)
        self.assertEqual(self.status, 1)

    def test_a_process_that_fails_after_its_cases_is_looked_at_case_by_case(self):
        self.run_shard("leak")
        self.assertEqual(self.status, 1)
        self.assertEqual(self.failed(), ["Third.FailsTheProcessIfAsked"])
        self.assertIn("exited with status 23", self.output)

    def test_the_order_is_drawn_from_the_seed_and_told(self):
        self.run_shard("fail")
        declared = list(self.cases)
        self.assertIn("order of declaration", self.output)
        self.run_shard("fail", TERNGRAD_TEST_SEED="11")
        self.assertEqual(self.results["seed"], 11)
        self.assertIn("order of seed 11 (TERNGRAD_TEST_SEED)", self.output)
        self.assertIn("--gtest_shuffle --gtest_random_seed=11", self.output)
        shuffled = list(self.cases)
        self.assertNotEqual(shuffled, declared)
        self.assertEqual(sorted(shuffled), sorted(declared))
        self.run_shard("fail", TERNGRAD_TEST_SEED="11")
        self.assertEqual(list(self.cases), shuffled)

    def test_wrong_arguments_are_refused(self):
        for seed in ["0", "100000", "x"]:
            self.run_shard("", TERNGRAD_TEST_SEED=seed)
            self.assertEqual(self.status, 2)
            self.assertIn(f"TERNGRAD_TEST_SEED: '{seed}' is refused", self.errors)
        self.run_shard("", "--shards", "2", "--index", "2")
        self.assertEqual(self.status, 2)
        self.assertIn("--index: 2 is refused, expected 0 to 1", self.errors)

    def test_settings_of_googletest_are_the_scripts_own(self):
        self.run_shard("", GTEST_FILTER="First.*", GTEST_TOTAL_SHARDS="2", GTEST_SHARD_INDEX="1")
        self.assertEqual(len(self.cases), NUM_CASES)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
