"""Tests that the README's table and figures are what the records say, and how they are made."""

import unittest
import xml.etree.ElementTree

from scaffold import ROOT
from terngrad_experiments import readme


class Readme(unittest.TestCase):
    def test_table_and_figures_are_what_the_records_say(self):
        stale = [str(path.relative_to(ROOT)) for path in readme.update(ROOT, check=True)]
        self.assertEqual(stale, [], "run experiments/terngrad_experiment.py readme")

    def test_only_what_is_between_the_marks_is_replaced(self):
        text = f"a\n{readme.BEGIN}\nold\n{readme.END}\nb\n"
        self.assertEqual(readme.with_table(text, ["new"]), f"a\n{readme.BEGIN}\nnew\n{readme.END}\nb\n")
        with self.assertRaisesRegex(ValueError, "needs one line"):
            readme.with_table("no marks", [])

    def test_a_bar_is_the_fastest_of_its_rows_at_its_rate(self):
        rows = [{"rate": "1gbit", "row": "t2", "steps_per_s": 3}, {"rate": "1gbit", "row": "t5", "steps_per_s": 4},
                {"rate": "none", "row": "t5", "steps_per_s": 9}, {"rate": "1gbit", "row": "fp32", "steps_per_s": 8}]
        self.assertEqual(readme.steps_per_second({"rows": rows}, "1gbit", ["t2", "t5"]), 4)

    def test_accuracies_are_means_over_seeds(self):
        # The second run of seed 1 supersedes the first.
        results = [{"cell": "a/b", "scale": "1", "seed": seed, "status": "done", "final": {"top1": top1}}
                   for seed, top1 in ((1, 0.9), (1, 0.5), (2, 0.6), (3, 0.7))]
        self.assertEqual(readme.accuracy_text(results, "a/b", "1"), "60.00 ± 10.00 %")

    def test_drawings_are_put_side_by_side(self):
        one = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50" width="100"></svg>'
        both = xml.etree.ElementTree.fromstring(readme.beside(one, one, gap=10))
        self.assertEqual(both.get("viewBox"), "0 0 210 50")
        self.assertEqual(both[1].get("x"), "110")


if __name__ == "__main__":
    unittest.main()
