#!/usr/bin/env python3
"""Tests of scripts/bench/link_launch.py, without hosts."""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/bench"))

import link_launch  # noqa: E402


class Words(unittest.TestCase):
    def test_rates_are_those_of_slow_link(self):
        self.assertEqual([link_launch.mbit_of(link_launch.rate_word(word)) for word in ("500kbit", "100mbit", "10gbit", "none")],
                         [0.5, 100, 10000, float("inf")])
        for word in ("", "fast", "0mbit", "1.5gbit", "10", "gbit"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=word):
                link_launch.rate_word(word)

    def test_an_error_is_the_programs_own_or_its_last_line(self):
        self.assertIsNone(link_launch.error_of(0, "all is well", 5))
        self.assertEqual(link_launch.error_of(None, "", 5), "not done after 5 s")
        self.assertEqual(link_launch.error_of(3, "", 5), "exit code 3: it said nothing")
        self.assertEqual(link_launch.error_of(3, "one\ntwo\n", 5), "exit code 3: two")
        self.assertEqual(link_launch.error_of(2, "x: error: why\nend\n", 5), "exit code 2: x: error: why")

    def test_what_slow_link_lacks_ends_the_script(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            link_launch.error_of(2, "slow_link.sh: needs root, to make networks\n", 5)
        self.assertEqual(end.exception.code, 2)
        self.assertIn("slow_link.sh: needs root", said.getvalue())


class Run(unittest.TestCase):
    def test_a_command_has_a_code_and_an_output(self):
        self.assertEqual(link_launch.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 30), (3, "out\nerr\n"))

    def test_a_command_that_takes_too_long_may_clean_up(self):
        script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('cleaned'), sys.exit(0)))\n" \
                 "print('ready', flush=True)\ntime.sleep(60)\n"
        self.assertEqual(link_launch.run([sys.executable, "-c", script], 3), (None, "ready\ncleaned\n"))


class InAFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def kept(self, settings, is_read_only=False):
        return link_launch.SavedResults(self.folder / "out", settings, "another build", is_read_only)

    def test_processor_time_is_counted_from_the_start(self):
        stat = self.folder / "stat"
        #                   user nice system idle iowait irq softirq steal
        stat.write_text("cpu 1 1 1 100 1 1 1 10 5 5\ncpu0 0\n")
        with mock.patch.object(link_launch, "PROC_STAT", stat), mock.patch.object(link_launch, "SAMPLE_SECONDS", 0):
            clock = link_launch.ProcessorClock()
            self.assertEqual((clock.stolen_percent(), clock.busy_percent(), link_launch.busy_percent()), (0, 0, 0))
            stat.write_text("cpu 31 1 1 150 11 1 1 20 9 9\ncpu0 0\n")
            self.assertEqual((clock.stolen_percent(), clock.busy_percent()), (10, 40))

    def test_results_are_kept_and_found_again(self):
        kept = self.kept({"a": 1})
        self.assertFalse(kept.is_done("one", 3))
        self.assertEqual(kept.save("one", {"stolen_percent": 2, "n": 1}), {"stolen_percent": 2, "n": 1})
        again = self.kept({"a": 1})
        self.assertTrue(again.is_done("one", 3))
        self.assertFalse(again.is_done("one", 1))
        self.assertEqual([path.name for path in (self.folder / "out/rows").iterdir()], ["one.json"])

    def test_the_result_that_lost_less_time_counts(self):
        kept = self.kept({})
        kept.save("one", {"error": "why"})
        self.assertFalse(kept.is_done("one", 100))
        for result, stolen_percent in (({"stolen_percent": 8}, 8), ({"stolen_percent": 9}, 8), ({"error": "why"}, 8),
                                       ({"stolen_percent": 5}, 5)):
            self.assertEqual(kept.save("one", result), {"stolen_percent": stolen_percent})

    def test_results_of_other_settings_are_refused(self):
        self.kept({"a": 1})
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            self.kept({"a": 2})
        self.assertEqual(end.exception.code, 2)
        self.assertIn("has rows of another build", said.getvalue())

    def test_reading_writes_nothing(self):
        self.assertEqual(self.kept({}, is_read_only=True).results, {})
        self.assertFalse((self.folder / "out").exists())


class LaunchedAgain(unittest.TestCase):
    def launched(self, *percents):
        """Best result and number of launches if launches lose these percentages of time; None: a failed launch."""
        results = [{"error": "why"} if percent is None else {"stolen_percent": percent} for percent in percents]
        rest = iter(results[1:])
        with mock.patch.object(link_launch, "PAUSE_SECONDS", 0):
            best = link_launch.with_min_stolen(results[0], lambda: next(rest), 3)
        return best, len(results) - len(list(rest))

    def test_launches_end_with_one_that_lost_little(self):
        self.assertEqual(self.launched(3, 1), ({"stolen_percent": 3}, 1))
        self.assertEqual(self.launched(9, 1, 0), ({"stolen_percent": 1}, 2))

    def test_there_are_three_at_most(self):
        self.assertEqual(self.launched(9, 7, 8, 0), ({"stolen_percent": 7}, 3))

    def test_a_failure_does_not_replace_a_result(self):
        self.assertEqual(self.launched(None, 0), ({"error": "why"}, 1))
        self.assertEqual(self.launched(9, None, 10), ({"stolen_percent": 9}, 3))


if __name__ == "__main__":
    unittest.main()
