"""The README's table and figures match the records; tests of their generator."""

import unittest

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

    def test_the_front_is_what_no_other_beats_in_both(self):
        points = [("a", 1.0, 90.0, None), ("b", 2.0, 89.0, None), ("c", 3.0, 95.0, None), ("d", 1.0, 80.0, None), ("e", 9.0, 95.0, None)]
        self.assertEqual([name for name, *_ in readme.pareto_front(points)], ["a", "c"])

    def test_figures_have_every_codec_and_the_place_where_compression_loses(self):
        names = {text.get_text() for axes in readme.codecs_drawing(ROOT).figure.axes for text in axes.texts}
        below = next(name for name in names if name.startswith("below the axis: "))
        for name, *_ in readme.codec_points(ROOT):
            self.assertTrue(name in names or f"{name}: " in below, name)
        times = readme.times_to_accuracy(ROOT)
        self.assertEqual(list(times), ["100 Mbit/s", "1 Gbit/s", "no limit"])
        self.assertGreater(times["no limit"]["ternary"], times["no limit"]["fp32"])
        self.assertLess(times["100 Mbit/s"]["ternary"], times["100 Mbit/s"]["fp32"])


if __name__ == "__main__":
    unittest.main()
