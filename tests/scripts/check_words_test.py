#!/usr/bin/env python3
"""Tests scripts/dev/check_words.py on lines made up, and on the project's own."""

import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/dev/check_words.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_words  # noqa: E402


def terms(line):
    return [term for pattern, term in check_words.PATTERNS if pattern.search(line)]


class CheckWords(unittest.TestCase):
    def test_private_words_have_terms(self):
        # Put together, so that this file has none of them.
        for line, term in (("the great" + "est of all", "max, largest"), ("it goes" + " on", "continue"),
                           ("kNo" + "Look", "skip_flag, next_sync_step, kNoSyncStep"), ("num_" + "shares", "shard"),
                           ("all but" + " for one", "except for")):
            self.assertEqual(terms(line), [term], line)

    def test_the_terms_themselves_are_fine(self):
        for line in ("the largest at least once", "num_shards", "processes share a GPU", "it continues", "max_mean"):
            self.assertEqual(terms(line), [], line)

    def test_the_project_keeps_them(self):
        result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
