#!/usr/bin/env python3
"""Tests of what is drawn of an experiment: curves over steps and over an option, on results made up here."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "experiments")]

from recipe_folder import FOLDER  # noqa: E402  (the path comes first)
from terngrad_experiments import figures, recipes, svg  # noqa: E402


def result(cell, seed, top1, scale="1", backend="cpu", **others):
    return {"cell": cell, "scale": scale, "seed": seed, "status": "done", "commit": "abc", "backend": backend, "steps": 100,
            "max_steps": 100, "final": {"top1": top1}, "tensors": {}, "curves": {}, **others}


def seeds_of(cell, *values, **others):
    return [result(cell, seed, value, **others) for seed, value in enumerate(values, 1)]


def over_steps(cell, seed, *values, tensor="fc3/weights", **others):
    curve = [[10 * step, value] for step, value in enumerate(values, 1)]
    return result(cell, seed, values[-1], curves={"test_top1": curve, "train_loss": curve},
                  tensors={tensor: {"zeros": curve}}, **others)


class OverWorkers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.experiment = recipes.load_all(FOLDER)["fig3"]

    def series(self, results, panel=0):
        return {one.name: one for one in figures.plots_of(self.experiment, results)[panel].series}

    def test_the_float_line_goes_across_with_its_interval(self):
        series = self.series(seeds_of("fig3/momentum-n8-float", 0.9927, 0.9935, 0.9929))
        ours = series["ours, float"]
        self.assertTrue(ours.across)
        self.assertAlmostEqual(ours.points[0][1], 99.3033, delta=1e-4)
        (_, low, high), = ours.band
        self.assertAlmostEqual(high - low, 2 * 4.3027 * 0.041633 / 3**0.5, delta=1e-3)

    def test_the_papers_line_goes_across_in_the_colour_of_ours_and_another_dash(self):
        series = self.series(seeds_of("fig3/vanilla-n8-float", 0.99), panel=1)
        ours, paper = series["ours, float"], series["paper, float"]
        self.assertTrue(paper.across)
        self.assertEqual((paper.points, paper.band), ([(0, 99.25)], [(0, 99.24, 99.26)]))
        self.assertEqual(ours.style % len(svg.COLORS), paper.style % len(svg.COLORS))
        self.assertNotEqual(ours.style % len(svg.DASHES), paper.style % len(svg.DASHES))

    def test_ternary_has_a_point_for_each_number_of_workers(self):
        series = self.series(seeds_of("fig3/momentum-n2-ternary", 0.99, 0.992) + seeds_of("fig3/momentum-n64-ternary", 0.98))
        ours, paper = series["ours, ternary"], series["paper, ternary"]
        self.assertEqual([x for x, _ in ours.points], [2, 64])
        for found, expected in zip(ours.band[0], (2, 99.0, 99.2)):  # of two seeds their range
            self.assertAlmostEqual(found, expected)
        self.assertEqual((paper.marker, paper.line, paper.error), ("hollow", False, 0.01))
        self.assertEqual(len(paper.points), 6)

    def test_ticks_are_the_numbers_of_workers(self):
        plot = figures.plots_of(self.experiment, [])[0]
        self.assertEqual(plot.x_ticks, [2, 4, 8, 16, 32, 64])
        self.assertEqual((plot.title, plot.x_label, plot.y_label), ("LeNet on MNIST, momentum SGD", "workers N", "top-1 accuracy, %"))
        self.assertEqual([one.name for one in plot.series], ["paper, ternary", "paper, float"])

    def test_scaled_runs_and_variants_are_no_part_of_it(self):
        results = seeds_of("fig3/momentum-n8-float", 0.5, scale="1/30") + seeds_of("fig3/momentum-n8-ternary@noclip", 0.5)
        self.assertEqual([name for name in self.series(results) if name.startswith("ours")], [])

    def test_gpus_are_a_sample_of_their_own(self):
        results = seeds_of("fig3/momentum-n8-ternary", 0.99) + seeds_of("fig3/momentum-n8-ternary", 0.98, backend="gpu")
        series = self.series(results)
        self.assertAlmostEqual(series["ours, ternary"].points[0][1], 99)
        self.assertAlmostEqual(series["ours, ternary on GPU"].points[0][1], 98)


class OverSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.experiments = recipes.load_all(FOLDER)

    def plots(self, name, results):
        return {plot.title: plot for plot in figures.plots_of(self.experiments[name], results)}

    def test_a_recipe_without_curves_has_accuracy_and_loss_for_each_scale(self):
        results = [over_steps("table1/b128-n2-float", 1, 0.5, 0.6), over_steps("table1/b128-n2-float", 1, 0.4, 0.5, scale="1/30")]
        plots = self.plots("table1", results)
        self.assertEqual(list(plots), ["test accuracy", "test accuracy, 1/30 of the steps", "training loss",
                                       "training loss, 1/30 of the steps"])
        self.assertEqual(plots["test accuracy"].series[0].points, [(10, 50.0), (20, 60.0)])
        self.assertEqual(plots["training loss"].series[0].points, [(10, 0.5), (20, 0.6)])

    def test_a_line_is_the_mean_of_seeds_in_a_band(self):
        results = [over_steps("table1/b128-n2-float", seed, value, value) for seed, value in ((1, 0.25), (2, 0.75))]
        (one,) = self.plots("table1", results)["test accuracy"].series
        self.assertEqual((one.name, one.points, one.band),
                         ("b128-n2-float (2 seeds)", [(10, 50.0), (20, 50.0)], [(10, 25.0, 75.0), (20, 25.0, 75.0)]))

    def test_of_a_seed_the_last_result_is_drawn_and_gpus_apart(self):
        results = [over_steps("table1/b128-n2-float", 1, 0.25), {**over_steps("table1/b128-n2-float", 1, 0.75), "commit": "def"},
                   over_steps("table1/b128-n2-float", 1, 0.5, backend="gpu")]
        series = self.plots("table1", results)["test accuracy"].series
        self.assertEqual([(one.name, one.points) for one in series],
                         [("b128-n2-float (1 seed)", [(10, 75.0)]), ("b128-n2-float on GPU (1 seed)", [(10, 50.0)])])

    def test_nothing_recorded_draws_nothing(self):
        self.assertEqual(figures.plots_of(self.experiments["table1"], []), [])


if __name__ == "__main__":
    unittest.main()
