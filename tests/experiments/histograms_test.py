#!/usr/bin/env python3
"""Tests of the histograms kept from histograms.jsonl, and of their figure."""

import json
import math
import pathlib
import random
import re
import tempfile
import unittest

from scaffold import InFolder
from terngrad_experiments import histogram_figure, histograms, results, store

MIDDLE = histograms.NUM_BUCKETS // 2


def power_limits():
    positive = [1e-12]
    while positive[-1] < 10:
        positive.append(positive[-1] * 1.1)
    return [-limit for limit in reversed(positive)] + [0.0] + positive


def line(step, kind, tensor, values):
    """A line as the trainer writes it: buckets by powers of 1.1, without empty ones at the ends."""
    limits = power_limits()
    counts = [0] * len(limits)
    for value in values:
        counts[next(i for i, limit in enumerate(limits) if value < limit)] += 1
    used = [i for i, count in enumerate(counts) if count]
    cut = slice(used[0], used[-1] + 1)
    return {"step": step, "kind": kind, "tensor": tensor, "min": min(values), "max": max(values), "num": len(values),
            "nonfinite": 0, "sum": sum(values), "sum_squares": sum(value * value for value in values),
            "limits": [float(f"{limit:.5g}") for limit in limits[cut]], "counts": counts[cut]}


def gradient_lines(step, tensor, num, generator, scale=1.0):
    gradient = [generator.gauss(0, 0.01 * scale) for _ in range(num)]
    scaler = 0.025 * scale
    clipped = [min(max(value, -scaler), scaler) for value in gradient]
    sent = [math.copysign(scaler, value) if generator.random() < abs(value) / scaler else 0.0 for value in clipped]
    mean = [(value + generator.choice(sent)) / 2 for value in sent]
    values = {"parameters": gradient, "gradient": gradient, "clipped": clipped, "sent": sent, "mean": mean}
    return [line(step, kind, tensor, values[kind]) for kind in values]


class Kept(InFolder):
    def setUp(self):
        super().setUp()
        self.generator = random.Random(1)

    def write(self, lines, torn=""):
        (self.folder / "histograms.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines) + torn)

    def test_a_run_without_has_none(self):
        self.assertEqual(histograms.histograms_of(self.folder), {})
        self.write([])
        self.assertEqual(histograms.histograms_of(self.folder), {})

    def test_the_largest_convolution_and_the_largest_of_the_others_are_kept(self):
        sizes = {"conv1/weights": 5, "conv2/weights": 9, "conv2/biases": 3, "fc3/weights": 20, "logits/weights": 8}
        self.assertEqual(histograms.chosen_tensors(sizes), ["conv2/weights", "fc3/weights"])
        self.assertEqual(histograms.chosen_tensors({"fc/weights": 3, "out/weights": 2}), ["fc/weights"])

    def test_steps_are_spread_evenly_and_a_line_stays_short(self):
        lines = [one for step in range(100, 1101, 100) for tensor, num in (("conv1/weights", 20), ("conv2/weights", 300),
                                                                           ("fc3/weights", 400))
                 for one in gradient_lines(step, tensor, num, self.generator)]
        self.write(lines, torn='{"step":1200,"ki')
        kept = histograms.histograms_of(self.folder)
        self.assertEqual(list(kept), ["conv2/weights", "fc3/weights"])
        self.assertEqual([one["step"] for one in kept["fc3/weights"]], [100, 300, 500, 700, 900, 1100])
        for one in kept["fc3/weights"]:
            self.assertEqual(set(one), {"step", "limit", *histograms.KINDS})
            for kind in ("clipped", "sent", "mean"):
                self.assertAlmostEqual(sum(one[kind]), 1, delta=1e-3)
        self.assertLess(len(store.to_line(kept)), 30_000)

    def test_values_lie_where_they_are(self):
        self.write(gradient_lines(100, "fc3/weights", 20_000, self.generator))
        (one,) = histograms.histograms_of(self.folder)["fc3/weights"]
        self.assertEqual(one["limit"], 0.025)
        # Three values, 68.2 % of them 0, as for any Gaussian clipped at 2.5 standard deviations.
        self.assertEqual([index for index, value in enumerate(one["sent"]) if value], [0, MIDDLE, histograms.NUM_BUCKETS - 1])
        self.assertAlmostEqual(one["sent"][MIDDLE], 0.682, delta=0.015)
        # The mean of two workers has five values.
        self.assertEqual(sum(value > 0 for value in one["mean"]), 5)
        # 1.24 % of the gradient are clipped, which moves them to the end buckets.
        self.assertAlmostEqual(1 - sum(one["gradient"]), 0.0124, delta=0.004)
        self.assertGreater(one["clipped"][0], 3 * one["clipped"][1])
        width = 2 * 0.025 / histograms.NUM_BUCKETS
        density = width / (0.01 * math.sqrt(2 * math.pi))
        for index in (MIDDLE - 15, MIDDLE - 3, MIDDLE + 3, MIDDLE + 15):
            expected = density * math.exp(-0.5 * ((index - MIDDLE) * width / 0.01) ** 2)
            self.assertAlmostEqual(one["gradient"][index] / expected, 1, delta=0.2)

    def test_counts_are_spread_evenly_over_their_bucket(self):
        fractions = histograms.rebinned([(-1.0, 1.0, 63)], 1.0, 63)
        for fraction in fractions:
            self.assertAlmostEqual(fraction, 1 / 63, delta=1e-5)
        half = histograms.rebinned([(0.5, 1.5, 2)], 1.0, 2)
        self.assertAlmostEqual(sum(half), 0.5, delta=1e-3)
        self.assertEqual(half[-1], half[-2])
        self.assertEqual(sum(histograms.rebinned([(2.0, 2.0, 1)], 1.0, 1)), 0)

    def test_what_is_not_finite_or_all_zeros_is_left_out(self):
        zeros = [line(100, kind, "fc3/weights", [0.0, 0.0]) for kind in histograms.KINDS]
        nothing = {**zeros[0], "num": 0, "nonfinite": 2, "limits": [], "counts": [], "min": 0, "max": 0}
        self.write(zeros)
        self.assertEqual(histograms.histograms_of(self.folder), {})
        self.write([nothing])
        self.assertEqual(histograms.histograms_of(self.folder), {})
        self.write([*gradient_lines(100, "fc3/weights", 50, self.generator), {**nothing, "kind": "mean", "step": 100}])
        self.assertNotIn("mean", histograms.histograms_of(self.folder)["fc3/weights"][0])

    def test_results_of_runs_that_compress_have_them(self):
        self.write(gradient_lines(100, "fc3/weights", 50, self.generator))
        (self.folder / "config.json").write_text(json.dumps({"identity": {"max_steps": "1"}, "history": [{"commit": "abc"}]}))
        (self.folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "kind": "test", "top1": 0.5}) + "\n")
        ternary, other = (results.make_result(self.folder, "table1/a", "1", 1, {"grad_bits": bits}) for bits in (1, 32))
        self.assertEqual(ternary["histograms"], histograms.histograms_of(self.folder))
        self.assertNotIn("histograms", other)

    def test_buckets_without_width_keep_their_counts(self):
        def filled(low, high, limit=1.0):
            return {index: value for index, value in enumerate(histograms.rebinned([(low, high, 2)], limit, 2)) if value}
        last = histograms.NUM_BUCKETS - 1
        self.assertEqual(filled(0.5, 0.5 + 1e-16), filled(0.5, 0.5))
        self.assertEqual(filled(1e-17, 1.1e-17), {MIDDLE: 1.0})  # same bucket up to rounding
        self.assertEqual(filled(-1.0, -1.00001), {0: 1.0})       # limits have five digits
        self.assertEqual(filled(1.00001, 1.0), {last: 1.0})
        self.assertEqual(filled(2.0, 1.5), {})
        self.assertEqual(filled(0.0, 5e-324, 5e-324).keys() - {*range(MIDDLE, last + 1)}, set())

    def test_without_a_message_the_gradient_sets_the_range(self):
        self.write([line(100, "gradient", "fc3/weights", [-2.0, 1.0])])
        self.assertEqual(histograms.histograms_of(self.folder)["fc3/weights"][0]["limit"], 2.0)


class Figure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        generator = random.Random(2)
        with tempfile.TemporaryDirectory() as folder:
            lines = [one for step, scale in ((100, 2.0), (200, 1.0), (300, 0.5))
                     for one in gradient_lines(step, "fc3/weights", 2000, generator, scale)]
            (pathlib.Path(folder) / "histograms.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
            (cls.steps,) = histograms.histograms_of(folder).values()

    def drawn(self, *titles, steps=None):
        return histogram_figure.drawing([histogram_figure.Row(title, tuple(steps or self.steps)) for title in titles])

    def test_each_kind_has_a_column_and_each_step_a_ridge_on_one_axis(self):
        figure = self.drawn("a & b").figure
        self.assertEqual([axes.get_title() for axes in figure.axes][1:], ["clipped", "sent", "mean of the workers"])
        self.assertEqual([label.get_text() for label in figure.axes[0].get_yticklabels()], ["300", "200", "100"])
        for axes in figure.axes:
            ridges = [patch for patch in axes.patches if patch.get_edgecolor()[3] > 0 and patch.get_linewidth() < 1]
            widths = [edges[-1] - edges[0] for edges in (patch.get_data().edges for patch in ridges)]
            self.assertEqual([round(width / widths[0], 2) for width in widths], [1, 0.5, 0.25])
            self.assertAlmostEqual(widths[0], axes.get_xlim()[1] - axes.get_xlim()[0])

    def test_what_lies_beyond_the_axis_is_said(self):
        self.assertRegex(self.drawn("a").figure.axes[0].get_title(), r"^original \(up to 1\.\d % beyond\)$")

    def test_a_kind_that_was_not_recorded_is_named(self):
        steps = [{key: value for key, value in step.items() if key != "mean"} for step in self.steps]
        texts = [[text.get_text() for text in axes.texts] for axes in self.drawn("a", steps=steps).figure.axes]
        self.assertEqual(texts, [[], [], [], ["not recorded"]])

    def test_rows_lie_below_each_other(self):
        self.assertEqual(len(self.drawn("first", "second").figure.subfigs), 2)

    def test_it_is_described_in_words_and_the_same_every_time(self):
        drawing = self.drawn("a")
        self.assertRegex(drawing.text, r"^a: 3 steps from 100 to 300, values up to 0\.05 first and 0\.0125 last; 6\d % and "
                                       r"6\d % of what is sent around 0\.$")
        self.assertEqual(drawing.svg(), self.drawn("a").svg())

    def test_nothing_is_refused(self):
        for rows in ([], [histogram_figure.Row("a", ())]):
            with self.assertRaisesRegex(ValueError, "at least one row with one step"):
                histogram_figure.drawing(rows)


if __name__ == "__main__":
    unittest.main()
