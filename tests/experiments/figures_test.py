#!/usr/bin/env python3
"""Tests of drawing an experiment: curves over steps and over an option, on invented results."""

import math
import unittest

from recipe_folder import FOLDER
from scaffold import done_run
from terngrad_experiments import figures, plots, recipes


def seeds_of(cell, *values, **others):
    return [done_run(cell, seed, value, **others) for seed, value in enumerate(values, 1)]


def over_steps(cell, seed, *values, tensor="fc3/weights", **others):
    curve = [[10 * step, value] for step, value in enumerate(values, 1)]
    return done_run(cell, seed, values[-1], curves={"test_top1": curve, "train_loss": curve},
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
        self.assertEqual(ours.style % len(plots.COLORS), paper.style % len(plots.COLORS))
        self.assertNotEqual(ours.style % len(plots.LINES), paper.style % len(plots.LINES))

    def test_ternary_has_a_point_for_each_number_of_workers(self):
        series = self.series(seeds_of("fig3/momentum-n2-ternary", 0.99, 0.992) + seeds_of("fig3/momentum-n64-ternary", 0.98))
        ours, paper = series["ours, ternary"], series["paper, ternary"]
        self.assertEqual([x for x, y in ours.points if not math.isnan(y)], [2, 64])
        for found, expected in zip(ours.band[0], (2, 99.0, 99.2)):  # range of two seeds
            self.assertAlmostEqual(found, expected)
        self.assertEqual((paper.marker, paper.line, paper.error), ("hollow", False, 0.01))
        self.assertEqual(len(paper.points), 6)
        # Bars without a line from 2 to 64 workers, because the numbers in between were not run.
        self.assertTrue(ours.bars)
        self.assertEqual([x for x, *_ in ours.band], [2, 64])
        self.assertEqual([x for x, _ in ours.points], [2, 4, 8, 16, 32, 64])

    def test_ticks_are_the_numbers_of_workers(self):
        plot = figures.plots_of(self.experiment, [])[0]
        self.assertEqual(plot.x_ticks, [2, 4, 8, 16, 32, 64])
        self.assertEqual((plot.title, plot.x_label, plot.y_label),
                         ("LeNet on MNIST, momentum SGD", "workers N", "top-1 accuracy, %"))
        self.assertEqual([one.name for one in plot.series], ["paper, ternary", "paper, float"])

    def test_scaled_runs_and_variants_are_no_part_of_it(self):
        results = seeds_of("fig3/momentum-n8-float", 0.5, scale="1/30") + seeds_of("fig3/momentum-n8-ternary@noclip", 0.5)
        self.assertEqual([name for name in self.series(results) if name.startswith("ours")], [])

    def test_gpus_are_a_sample_of_their_own(self):
        results = seeds_of("fig3/momentum-n8-ternary", 0.99) + seeds_of("fig3/momentum-n8-ternary", 0.98, backend="gpu")
        series = self.series(results)
        self.assertAlmostEqual(series["ours, ternary"].points[2][1], 99)
        self.assertAlmostEqual(series["ours, ternary on GPU"].points[2][1], 98)


class OverBytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.experiment = recipes.load_all(FOLDER)["codecs"]

    @staticmethod
    def runs(cell, sent, *accuracies):
        return [dict(run, bytes={"bytes_per_worker_step": each}) for run, each in zip(seeds_of(cell, *accuracies), sent)]

    def test_a_cell_is_a_mark_at_its_bytes_in_the_colour_of_its_curve(self):
        results = (self.runs("codecs/qsgd-4", (4e6, 4.2e6), 0.99, 0.992) + self.runs("codecs/qsgd-8", (6e6,), 0.993)
                   + self.runs("codecs/topk-1", (1e5,), 0.98) + seeds_of("codecs/sign", 0.98))  # without bytes
        plot, = figures.plots_of(self.experiment, results)
        series = {one.name: one for one in plot.series}
        self.assertEqual(set(series), {"qsgd-4 (2 seeds)", "qsgd-8 (1 seed)", "topk-1 (1 seed)"})
        (x, y), = series["qsgd-4 (2 seeds)"].points
        self.assertAlmostEqual(x, 4.1)
        self.assertAlmostEqual(y, 99.1)
        colors = {name: one.style % len(plots.COLORS) for name, one in series.items()}
        self.assertEqual(colors["qsgd-4 (2 seeds)"], colors["qsgd-8 (1 seed)"])
        self.assertNotEqual(colors["qsgd-4 (2 seeds)"], colors["topk-1 (1 seed)"])
        self.assertEqual(len({one.style for one in series.values()}), 3)
        self.assertTrue(plot.x_log)
        self.assertTrue(plot.title.endswith("over bytes"), plot.title)
        self.assertIn("busier direction", figures.caption_of(self.experiment))

    def test_seeds_that_all_have_are_in_the_title(self):
        plot, = figures.plots_of(self.experiment, self.runs("codecs/qsgd-4", (4e6,), 0.99) + self.runs("codecs/fp8", (5e6,), 0.99))
        self.assertEqual({one.name for one in plot.series}, {"qsgd-4", "fp8"})
        self.assertTrue(plot.title.endswith("over bytes, 1 seed"), plot.title)

    def test_every_cell_that_is_near_fp32_is_in_it(self):
        shown = {cell.short_name for curve in self.experiment.curves for cell in self.experiment.cells_of(curve)}
        left_out = {cell.short_name for cell in self.experiment.all_cells() if cell.base_name == cell.full_name} - shown
        self.assertEqual({name for name in left_out if not name.startswith("sign")}, set())


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

    def test_a_band_is_from_the_smallest_to_the_largest_seed(self):
        points, band = figures.band_of([[[1, 2.0], [2, 4.0]], [[1, 4.0], [2, 8.0], [3, 1.0]]])
        self.assertEqual(points, [(1, 3.0), (2, 6.0)])
        self.assertEqual(band, [(1, 2.0, 4.0), (2, 4.0, 8.0)])

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

    def test_unfinished_runs_are_drawn_only_where_none_is_done_and_are_called_so(self):
        unfinished = over_steps("table1/b128-n2-float", 2, 0.25, status="unfinished")
        failed = {**over_steps("table1/b128-n2-float", 3, 0.25), "status": "failed"}
        for results, name, y in (([over_steps("table1/b128-n2-float", 1, 0.75), unfinished], "b128-n2-float (1 seed)", 75.0),
                                 ([unfinished, failed], "b128-n2-float (1 seed, unfinished)", 25.0)):
            (one,) = self.plots("table1", results)["test accuracy"].series
            self.assertEqual((one.name, one.points), (name, [(10, y)]))
        self.assertEqual(self.plots("table1", [failed]), {})

    def test_nothing_recorded_draws_nothing(self):
        self.assertEqual(figures.plots_of(self.experiments["table1"], []), [])
        self.assertIsNone(figures.drawing_of(self.experiments["table1"], []))

    def test_curves_of_cells_that_look_at_others_are_those_of_the_others(self):
        results = [over_steps(f"table2/n4-{kind}", 1, 0.5, 0.57, tensor="fc6/weights") for kind in ("float", "ternary")]
        plots = self.plots("fig4", results)
        self.assertEqual(list(plots), [f"AlexNet on ImageNet, 4 workers: {what}"
                                       for what in ("top-1 of the test set", "training loss", "zeros sent of fc6's weights")])
        names = [one.name for one in plots["AlexNet on ImageNet, 4 workers: top-1 of the test set"].series]
        self.assertEqual(names, ["alexnet-n4-float (1 seed)", "alexnet-n4-ternary (1 seed)", "paper, alexnet-n4-float",
                                 "paper, alexnet-n4-ternary"])

    def test_the_papers_points_have_the_look_of_our_cell(self):
        results = [over_steps(f"table2/n4-{kind}", 1, 0.5, 0.75, tensor="fc6/weights") for kind in ("float", "ternary")]
        shown = self.plots("fig4", results)
        loss = {one.name: one for one in shown["AlexNet on ImageNet, 4 workers: training loss"].series}
        paper, ours = loss["paper, alexnet-n4-ternary"], loss["alexnet-n4-ternary (1 seed)"]
        self.assertEqual((paper.points, paper.marker, paper.line), ([(185000, 1.2)], "hollow", False))
        self.assertEqual(paper.style, ours.style)
        zeros = shown["AlexNet on ImageNet, 4 workers: zeros sent of fc6's weights"].series
        self.assertEqual([one.name for one in zeros], ["alexnet-n4-ternary (1 seed)", "paper, alexnet-n4-ternary, all steps"])
        self.assertEqual(zeros[0].points, [(10, 50.0), (20, 75.0)])
        self.assertEqual((zeros[1].points, zeros[1].band, zeros[1].across), ([(0, 71.6)], [(0, 67.9, 73.5)], True))
        self.assertEqual(zeros[0].style, ours.style)
        self.assertEqual(zeros[1].style % len(plots.COLORS), ours.style)

    def test_the_papers_points_are_of_all_steps(self):
        results = [over_steps("table2/n4-ternary", 1, 0.5, 0.57, scale="1/10", tensor="fc6/weights")]
        for plot in self.plots("fig4", results).values():
            self.assertTrue(plot.title.endswith(", 1/10 of the steps"))
            self.assertEqual([one.name for one in plot.series], ["alexnet-n4-ternary (1 seed)"])


class Histograms(unittest.TestCase):
    """Figure 2, from runs with a thirtieth of the steps."""

    @classmethod
    def setUpClass(cls):
        cls.experiment = recipes.load_all(FOLDER)["fig2"]

    def result(self, seed, scale="1/30"):
        steps = [{"step": 100, "limit": 0.5} | {kind: [0.01] * 63 for kind in ("gradient", "clipped", "sent", "mean")}]
        return done_run("table1/b128-n2-ternary", seed, 0.8, scale,
                        histograms={tensor: steps for tensor in ("conv2/weights", "fc3/weights")})

    def test_they_are_of_the_first_seed_that_has_them_at_the_scale_of_the_recipe(self):
        without = done_run("table1/b128-n2-ternary", 1, 0.8, "1/30")
        rows = figures.histograms_of(self.experiment, [without, self.result(3), self.result(2), self.result(1, scale="1")])
        self.assertEqual([row.title for row in rows],
                         ["CifarNet, a convolution: conv2/weights of table1/b128-n2-ternary~1/30, seed 2",
                          "CifarNet, a fully connected layer: fc3/weights of table1/b128-n2-ternary~1/30, seed 2"])
        self.assertEqual(rows[0].steps[0]["step"], 100)

    def test_of_an_unfinished_run_that_is_said(self):
        unfinished = {**self.result(1), "status": "unfinished"}
        self.assertIn("seed 2", figures.histograms_of(self.experiment, [unfinished, self.result(2)])[0].title)
        self.assertTrue(figures.histograms_of(self.experiment, [unfinished])[0].title.endswith("seed 1, unfinished"))

    def test_they_are_one_drawing(self):
        drawing = figures.drawing_of(self.experiment, [self.result(1)])
        self.assertEqual([each.svg() for each in figures.drawings_of(self.experiment, [self.result(1)])], [drawing.svg()])
        self.assertIn("mean of the workers", drawing.svg())

    def test_runs_without_them_draw_nothing(self):
        self.assertIsNone(figures.drawing_of(self.experiment, [done_run("table1/b128-n2-ternary", 1, 0.8, "1/30")]))


if __name__ == "__main__":
    unittest.main()
