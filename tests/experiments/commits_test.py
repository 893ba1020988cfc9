#!/usr/bin/env python3
"""Tests of choosing results by commit, and of commits in tables, plots and reports."""

import json
import unittest

from scaffold import InFolder, done_run, run_driver
from terngrad_experiments import commits, store



def result(seed, commit, started=None, cell="table1/b128-n2-float", top1=0.86):
    return done_run(cell, seed, top1, commit=commit, started=started,
                    curves={"test_top1": [[100, top1]], "train_loss": [[100, 1.0]]})


class Choice(unittest.TestCase):
    def test_newest_is_the_commit_of_the_run_that_started_last(self):
        runs = [result(1, "aaaa1111", "2026-03-01T00:00:00Z"), result(2, "bbbb2222", "2026-04-01T00:00:00Z"),
                result(3, "cccc3333")]
        for order in (runs, runs[::-1]):
            self.assertEqual(commits.newest(order), "bbbb2222")

    def test_newest_is_the_commit_of_what_was_recorded_last(self):
        early, late = result(1, "aaaa1111", "2026-05-01T00:00:00Z"), result(2, "bbbb2222", "2026-04-01T00:00:00Z")
        early["recorded"], late["recorded"] = "2026-05-02T00:00:00Z", "2026-06-01T00:00:00Z"
        for order in ([early, late], [late, early]):
            self.assertEqual(commits.newest(order), "bbbb2222")
        # Results of earlier versions have no time of recording: the start of the run counts.
        self.assertEqual(commits.newest([late, result(3, "cccc3333", "2026-07-01T00:00:00Z")]), "cccc3333")
        self.assertEqual(commits.newest([late, result(3, "cccc3333")]), "bbbb2222")

    def test_a_dirty_build_is_another_commit(self):
        clean, dirty = result(1, "aaaa1111"), {**result(2, "aaaa1111"), "dirty": True}
        self.assertEqual(commits.newest([clean, dirty]), "aaaa1111-dirty")
        self.assertEqual(commits.of_one([clean, dirty], "aaaa")[0], [clean])
        kept, left_out = commits.of_one([clean, dirty], "aaaa-dirty")
        self.assertEqual((kept, left_out.counts), ([dirty], {"aaaa1111": 1}))
        with self.assertRaisesRegex(commits.CommitError, "no result is of it; there are aaaa1111-dirty"):
            commits.named([dirty], "aaaa")

    def test_without_times_it_is_the_one_recorded_last(self):
        self.assertEqual(commits.newest([result(1, "aaaa1111"), result(2, "bbbb2222")]), "bbbb2222")
        self.assertIsNone(commits.newest([]))

    def test_a_commit_is_named_by_its_start_and_by_more_than_is_recorded(self):
        runs = [result(1, "aaaa1111"), result(2, "aabb2222")]
        self.assertEqual(commits.named(runs, "aaaa"), "aaaa1111")
        self.assertEqual(commits.named(runs, "aabb2222ffff"), "aabb2222")
        with self.assertRaisesRegex(commits.CommitError, "--same_commit aa: is the start of aaaa1111, aabb2222"):
            commits.named(runs, "aa")
        with self.assertRaisesRegex(commits.CommitError, "--same_commit cc: no result is of it; there are aaaa1111, aabb2222"):
            commits.named(runs, "cc")

    def test_what_is_left_out_is_counted_by_commit(self):
        runs = [result(1, "aaaa1111"), result(2, "aaaa1111"), result(1, "bbbb2222"), result(1, "cccc3333")]
        kept, left_out = commits.of_one(runs)
        self.assertEqual(kept, runs[3:])
        self.assertEqual(str(left_out), "same commit: of cccc3333 alone; 3 results left out, of aaaa1111 (2), bbbb2222 (1)")
        self.assertEqual(str(commits.of_one(runs[:2])[1]), "same commit: all results are of aaaa1111")
        self.assertEqual(commits.of_one([])[0], [])


class Commands(InFolder):
    def setUp(self):
        super().setUp()
        for one in (result(1, "aaaa1111", top1=0.86), result(2, "aaaa1111", top1=0.865), result(2, "bbbb2222", top1=0.87),
                    result(1, "cccc3333", cell="fig3/momentum-n8-float")):
            store.append(self.folder / "out" / "results.jsonl", one)

    def run_here(self, *words):
        return run_driver(*words, "--out", self.folder / "out", "--results", self.folder / "none")

    def row(self, *words):
        _, text, _ = self.run_here("table", "table1", "--format", "json", *words)
        found = json.loads(text)
        return found, next(row for row in found["rows"] if row["cell"] == "table1/b128-n2-float")

    def test_rows_that_mix_commits_are_marked(self):
        _, text, _ = self.run_here("table", "table1")
        self.assertRegex(text, r"b128-n2-float +1-2 \*")
        self.assertIn("\n* runs of several commits", text)
        table, row = self.row()
        self.assertEqual((row["values"], row["mixes_commits"], table["same_commit"]), ([86.0, 87.0], True, None))

    def test_a_dirty_build_beside_a_clean_one_is_marked(self):
        for seed, is_dirty in ((1, False), (2, True)):
            store.append(self.folder / "out" / "results.jsonl", {**result(seed, "dddd4444"), "dirty": is_dirty})
        table, row = self.row()
        self.assertEqual((row["commits"], row["mixes_commits"]), (["dddd4444", "dddd4444-dirty"], True))
        self.assertIn("\ncommits dddd4444, dddd4444-dirty\n", self.run_here("table", "table1")[1])
        self.assertEqual(self.row("--same_commit", "dddd-dirty")[1]["seeds"], [2])

    def test_the_newest_is_that_of_the_table(self):
        _, text, _ = self.run_here("table", "table1", "--same_commit")
        self.assertIn("same commit: of bbbb2222 alone; 2 results left out, of aaaa1111 (2)", text)
        self.assertNotIn("*", text)
        table, row = self.row("--same_commit")
        self.assertEqual((row["seeds"], row["mixes_commits"]), ([2], False))
        self.assertEqual(table["same_commit"], {"commit": "bbbb2222", "counts": {"aaaa1111": 2}})

    def test_of_a_given_commit_its_own_results_count(self):
        _, row = self.row("--same_commit", "aaaa")
        self.assertEqual(row["values"], [86.0, 86.5])

    def test_where_the_output_has_no_place_for_it_it_is_said_beside(self):
        said = "terngrad_experiment: same commit: of bbbb2222 alone; 2 results left out, of aaaa1111 (2)\n"
        code, drawing, error = self.run_here("plot", "table1", "--same_commit")
        self.assertEqual((code, error), (0, said))
        self.assertIn("b128-n2-float (1 seed)", drawing)
        self.assertEqual(self.run_here("table", "table1", "--same_commit", "--format", "csv")[2], said)

    def test_a_report_is_of_one_commit_over_all_its_recipes(self):
        page = self.folder / "report.html"
        self.assertEqual(self.run_here("report", "table1", "fig3", "-o", str(page), "--same_commit")[0], 0)
        self.assertIn("same commit: of cccc3333 alone; 3 results left out, of aaaa1111 (2), bbbb2222 (1).", page.read_text())

    def test_a_commit_that_is_not_recorded_is_wrong_usage(self):
        for command in ("table", "plot", "report"):
            code, _, error = self.run_here(command, "table1", "--same_commit", "dddd")
            self.assertEqual(code, 2)
            self.assertEqual(error, "terngrad_experiment: --same_commit dddd: no result is of it; there are aaaa1111, bbbb2222\n")


if __name__ == "__main__":
    unittest.main()
