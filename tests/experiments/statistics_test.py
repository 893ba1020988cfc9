#!/usr/bin/env python3
"""Tests terngrad_experiments/statistics.py against tables, closed forms, exact sums, simulations and recorded examples."""

import dataclasses
import fractions
import itertools
import math
import random
import unittest

import scaffold  # noqa: F401  (puts the package on the path)
from terngrad_experiments import statistics

# Student's t from printed tables: degrees of freedom, quantiles 0.95, 0.975 and 0.995.
T_TABLE = [
    (1, 6.3138, 12.7062, 63.6567),
    (2, 2.9200, 4.3027, 9.9248),
    (4, 2.1318, 2.7764, 4.6041),
    (8, 1.8595, 2.3060, 3.3554),
    (30, 1.6973, 2.0423, 2.7500),
]
# experiments/results: top-1 in percent, seeds 1 to 3.
MNIST_FLOAT = [99.27, 99.35, 99.29]
MNIST_TERNARY = [99.23, 99.26, 99.20]
CIFAR_FLOAT = [76.78, 76.70, 76.92]
CIFAR_TERNARY = [73.54, 73.63, 73.86]


def shaped(num, middle=0.0, deviation=1.0):
    """`num` values with exactly this mean and standard deviation."""
    values = [float(k) for k in range(num)]
    scale = deviation / statistics.sample_deviation(values)
    return [middle + scale * (value - (num - 1) / 2) for value in values]


def draw(generator, num, middle=0.0, deviation=1.0):
    return [generator.gauss(middle, deviation) for _ in range(num)]


def binomial_tails(first, second):
    """Two-sided sign test: 2 P(X <= min) for a fair coin, at most 1, in exact fractions."""
    num = first + second
    below = sum(fractions.Fraction(math.comb(num, k), 2**num) for k in range(min(first, second) + 1))
    return float(min(fractions.Fraction(1), 2 * below))


class StudentT(unittest.TestCase):
    def test_quantiles_are_those_of_tables(self):
        for freedom, *expected in T_TABLE:
            for p, quantile in zip((0.95, 0.975, 0.995), expected):
                self.assertEqual(f"{statistics.t_quantile(p, freedom):.4f}", f"{quantile:.4f}", (freedom, p))
                self.assertEqual(statistics.t_quantile(1 - p, freedom), -statistics.t_quantile(1 - (1 - p), freedom))

    def test_many_degrees_of_freedom_are_normal(self):
        self.assertAlmostEqual(statistics.t_quantile(0.975, 1e6), 1.959964, delta=1e-5)

    def test_cdf_in_closed_form(self):
        for t in (-1e9, -40.0, -2.0, -0.5, -1e-9, 0.0, 1e-9, 0.7, 1.0, 1.5, 12.7, 1e9):
            self.assertAlmostEqual(statistics.t_cdf(t, 1), 0.5 + math.atan(t) / math.pi, delta=1e-13)
            self.assertAlmostEqual(statistics.t_cdf(t, 2), 0.5 + t / (2 * math.sqrt(2 + t * t)), delta=1e-13)
            self.assertAlmostEqual(statistics.t_cdf(t, 3) + statistics.t_cdf(-t, 3), 1, delta=1e-15)

    def test_quantile_is_the_inverse_of_cdf(self):
        for p, freedom in itertools.product((1e-12, 1e-9, 0.025, 0.4, 0.5, 0.51, 0.8, 0.9999), (0.7, 1, 2.5, 17, 200)):
            self.assertAlmostEqual(statistics.t_cdf(statistics.t_quantile(p, freedom), freedom) / p, 1, delta=1e-8)

    def test_p_value_is_two_sided(self):
        self.assertEqual(statistics.t_p_value(0, 5), 1)
        self.assertAlmostEqual(statistics.t_p_value(-4.302653, 2), 0.05, delta=1e-7)
        self.assertEqual(statistics.t_p_value(1e200, 3), 0)

    def test_outside_is_refused(self):
        for p in (0, 1, -0.1, 1.5, math.nan):
            with self.assertRaisesRegex(ValueError, "p of a quantile must be between 0 and 1"):
                statistics.t_quantile(p, 3)
        for freedom in (0, -1, math.nan):
            with self.assertRaisesRegex(ValueError, "degrees of freedom must be positive"):
                statistics.t_cdf(1.0, freedom)
        with self.assertRaisesRegex(ValueError, "t must be a number"):
            statistics.t_cdf(math.nan, 3)


class ChiSquare(unittest.TestCase):
    def test_quantiles_are_those_of_tables(self):
        for freedom, p, value in ((1, 0.05, 3.8415), (2, 0.05, 5.9915), (9, 0.05, 16.919), (10, 0.01, 23.209)):
            self.assertAlmostEqual(statistics.chi_square_p_value(value, freedom), p, delta=1e-5)
        self.assertEqual(statistics.chi_square_p_value(-1.0, 3), 1)
        for arguments in ((1.0, 0), (math.nan, 2)):
            with self.assertRaises(ValueError):
                statistics.chi_square_p_value(*arguments)


class MeanAndDeviation(unittest.TestCase):
    def test_by_hand(self):
        values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
        self.assertEqual(statistics.mean(values), 5)
        self.assertAlmostEqual(statistics.sample_deviation(values), math.sqrt(32 / 7), delta=1e-15)
        self.assertEqual(statistics.mean((1.5,)), 1.5)
        self.assertIsNone(statistics.sample_deviation((1.5,)))

    def test_a_large_offset_costs_no_digits(self):
        self.assertEqual(statistics.sample_deviation([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]), math.sqrt(30))

    def test_nothing_and_what_is_not_finite_are_refused(self):
        with self.assertRaisesRegex(ValueError, "mean of no values; at least 1 is needed"):
            statistics.mean([])
        for value in (math.nan, math.inf):
            with self.assertRaisesRegex(ValueError, f"values must be finite, not {value}"):
                statistics.mean_interval([1.0, value, 2.0])


class HalfWidths(unittest.TestCase):
    """Half widths for 3, 5 and 10 seeds, in standard deviations."""

    def test_table(self):
        rows = [(3, "2.48", "2.27", "4.97"), (5, "1.24", "1.46", "3.04"), (10, "0.72", "0.94", "2.37")]
        for num, of_mean, of_welch, of_prediction in rows:
            values, zeros = shaped(num), [0.0] * num
            self.assertEqual(f"{statistics.mean_interval(values).half_width:.2f}", of_mean)
            self.assertEqual(f"{statistics.compare_unpaired(values, shaped(num, 9.0)).interval.half_width:.2f}", of_welch)
            self.assertEqual(f"{statistics.compare_paired(values, zeros).interval.half_width:.2f}", of_mean)
            self.assertEqual(f"{statistics.prediction_interval(values).half_width:.2f}", of_prediction)

    def test_smallest_p_of_a_sign_test(self):
        for num, expected in [(3, "0.25"), (5, "0.06"), (10, "0.002")]:
            p = statistics.sign_test([0.1] * num).p
            self.assertEqual(f"{p:.{len(expected) - 2}f}", expected)

    def test_fewer_than_3_values_have_no_interval(self):
        for values in ([], [1.0], [1.0, 2.0]):
            self.assertIsNone(statistics.mean_interval(values))
            self.assertIsNone(statistics.prediction_interval(values))
            if len(values) < 2:
                self.assertIsNone(statistics.mean_interval(values, deviation=statistics.Deviation(1.0, 12, 6)))
        for comparison in [statistics.compare_paired([1.0, 2.0], [3.0, 5.0]),
                           statistics.compare_unpaired([1.0, 2.0], [3.0, 4.0, 5.0])]:
            self.assertEqual(comparison.difference, -2.5)
            self.assertEqual((comparison.interval, comparison.p, comparison.standard_error), (None, None, None))
            self.assertEqual(statistics.equivalence(comparison, 100.0), statistics.Equivalence(100.0, False))

    def test_two_values_have_one_with_a_pooled_deviation(self):
        pooled = statistics.Deviation(3.0, 4, 3)
        of_mean, of_run = (of([1.0, 2.0], deviation=pooled).half_width
                           for of in (statistics.mean_interval, statistics.prediction_interval))
        self.assertAlmostEqual(of_mean, 2.7764 * 3 / math.sqrt(2), delta=1e-3)
        self.assertAlmostEqual(of_run, 2.7764 * 3 * math.sqrt(1.5), delta=1e-3)

    def test_equal_values_say_nothing_of_the_deviation(self):
        self.assertIsNone(statistics.mean_interval([99.2] * 3))
        values, baseline = [76.78, 9.26, 0.07], [76.82, 9.30, 0.11]  # differences of -0.04 up to rounding
        self.assertGreater(statistics.sample_deviation(statistics.paired_differences(values, baseline)), 0)
        paired = statistics.compare_paired(values, baseline)
        self.assertAlmostEqual(paired.difference, -0.04)
        self.assertEqual((paired.counts, paired.interval, paired.p), ((3,), None, None))
        self.assertIsNone(statistics.compare_unpaired([1.0] * 3, [2.0] * 4).p)

    def test_level(self):
        self.assertAlmostEqual(statistics.mean_interval(shaped(3), 0.9).half_width, 2.9200 / math.sqrt(3), delta=1e-4)
        for level in (0, 1, 95, math.nan):
            with self.assertRaisesRegex(ValueError, "level must be between 0 and 1"):
                statistics.mean_interval(shaped(3), level)

    def test_results_are_frozen(self):
        interval = statistics.Interval(1.0, 2.0)
        self.assertEqual([interval.contains(x) for x in (0.9, 1.0, 1.5, 2.0, 2.1)], [False, True, True, True, False])
        with self.assertRaises(dataclasses.FrozenInstanceError):
            interval.low = 0.0


class Recorded(unittest.TestCase):
    """The recorded runs of experiments/results and their published statistics."""

    def test_deviations(self):
        for values, expected in [(MNIST_FLOAT, "0.04"), (MNIST_TERNARY, "0.03"), (CIFAR_FLOAT, "0.11"), (CIFAR_TERNARY, "0.17"),
                                 (statistics.paired_differences(MNIST_TERNARY, MNIST_FLOAT), "0.03"),
                                 (statistics.paired_differences(CIFAR_TERNARY, CIFAR_FLOAT), "0.10")]:
            self.assertEqual(f"{statistics.sample_deviation(values):.2f}", expected)

    def test_mnist_is_just_visible(self):
        gap = statistics.compare_paired(MNIST_TERNARY, MNIST_FLOAT)
        self.assertEqual(f"{gap.difference:.3f} +- {gap.interval.half_width:.3f}", "-0.073 +- 0.072")
        self.assertEqual(f"{gap.p:.3f}", "0.048")
        self.assertEqual((gap.counts, gap.degrees_of_freedom), ((3,), 2))

    def test_mnist_as_one_of_12_is_not_significant(self):
        corrected = statistics.holm([None] * 5 + [statistics.compare_paired(MNIST_TERNARY, MNIST_FLOAT).p] + [None] * 6)
        self.assertEqual(f"{corrected[5]:.2f}", "0.58")

    def test_mnist_is_within_the_papers_own_loss(self):
        gap = statistics.compare_paired(MNIST_TERNARY, MNIST_FLOAT)
        self.assertTrue(statistics.equivalence(gap, 0.22).equivalent)
        self.assertFalse(statistics.equivalence(gap, 0.11).equivalent)

    def test_cifar(self):
        gap = statistics.compare_paired(CIFAR_TERNARY, CIFAR_FLOAT)
        self.assertEqual(f"{gap.difference:.2f} +- {gap.interval.half_width:.2f}", "-3.12 +- 0.25")
        self.assertEqual(f"{gap.interval.low:.2f}..{gap.interval.high:.2f}", "-3.37..-2.87")
        self.assertFalse(statistics.equivalence(gap, 0.92).equivalent)


class Unpaired(unittest.TestCase):
    def test_welch_by_hand(self):
        # Means 3 and 6, variances of the means 2.5 / 5 and 4 / 3: t = -3 / sqrt(11 / 6); degrees of freedom (11/6)^2 /
        # (1/16 + 8/9).
        comparison = statistics.compare_unpaired([1.0, 2.0, 3.0, 4.0, 5.0], [4.0, 6.0, 8.0])
        self.assertEqual((comparison.counts, comparison.difference), ((5, 3), -3))
        self.assertAlmostEqual(comparison.standard_error, math.sqrt(11 / 6), delta=1e-14)
        self.assertAlmostEqual(comparison.degrees_of_freedom, (11 / 6) ** 2 / (1 / 16 + 8 / 9), delta=1e-13)
        half = statistics.t_quantile(0.975, comparison.degrees_of_freedom) * math.sqrt(11 / 6)
        self.assertAlmostEqual(comparison.interval.half_width, half, delta=1e-13)
        p = 2 * statistics.t_cdf(-3 / math.sqrt(11 / 6), comparison.degrees_of_freedom)
        self.assertAlmostEqual(comparison.p, p, delta=1e-14)

    def test_one_of_equal_values_leaves_the_others_degrees_of_freedom(self):
        comparison = statistics.compare_unpaired(shaped(4, 1.0), [0.0] * 3)
        self.assertAlmostEqual(comparison.degrees_of_freedom, 3, delta=1e-12)
        self.assertAlmostEqual(comparison.standard_error, 0.5, delta=1e-12)

    def test_pooled(self):
        pooled = statistics.Deviation(2.0, 12, 6)
        comparison = statistics.compare_unpaired(shaped(4, 1.0), shaped(4, 0.0), deviation=pooled)
        self.assertAlmostEqual(comparison.standard_error, 2 * math.sqrt(0.5), delta=1e-14)
        self.assertEqual(comparison.degrees_of_freedom, 12)


class Paired(unittest.TestCase):
    def test_p_and_interval_agree(self):
        for middle in (4.30, 4.31):
            comparison = statistics.compare_paired(shaped(3, middle, math.sqrt(3)), [0.0] * 3)
            self.assertEqual(comparison.p < 0.05, not comparison.interval.contains(0))
            self.assertEqual(comparison.p < 0.05, middle == 4.31)

    def test_pooled(self):
        pooled = statistics.Deviation(3.0, 8, 4)
        comparison = statistics.compare_paired(shaped(3, 1.0), [0.0] * 3, deviation=pooled)
        self.assertAlmostEqual(comparison.interval.half_width, 2.3060 * math.sqrt(3), delta=1e-3)

    def test_what_is_no_pair_is_refused(self):
        with self.assertRaisesRegex(ValueError, "pairs need equally many values and baselines, not 2 and 3"):
            statistics.compare_paired([1.0, 2.0], [1.0, 2.0, 3.0])
        with self.assertRaisesRegex(ValueError, "at least 1 is needed"):
            statistics.compare_paired([], [])


class Equivalent(unittest.TestCase):
    def of(self, difference, margin, **more):
        comparison = statistics.compare_paired(shaped(5, difference), [0.0] * 5)
        return statistics.equivalence(comparison, margin, **more)

    def test_only_if_the_90_percent_interval_lies_inside(self):
        half = 2.1318 / math.sqrt(5)
        for difference, sign in itertools.product((0.0, 0.3), (1, -1)):
            inside, outside = (self.of(sign * difference, difference + half + more) for more in (1e-3, -1e-3))
            self.assertTrue(inside.equivalent)
            self.assertFalse(outside.equivalent)
            self.assertAlmostEqual(inside.interval.half_width, half, delta=1e-4)
            self.assertLess(inside.p, 0.05)
            self.assertGreater(outside.p, 0.05)

    def test_p_is_that_of_the_nearer_bound(self):
        self.assertAlmostEqual(self.of(0.4, 1.0).p, statistics.t_cdf(-0.6 * math.sqrt(5), 4), delta=1e-13)
        self.assertAlmostEqual(self.of(-1.0, 1.0).p, 0.5, delta=1e-13)

    def test_alpha(self):
        strict = self.of(0.0, 1.0, alpha=0.025)
        self.assertAlmostEqual(strict.interval.half_width, 2.7764 / math.sqrt(5), delta=1e-4)
        self.assertFalse(strict.equivalent)
        self.assertTrue(self.of(0.0, 1.0).equivalent)

    def test_no_margin_is_refused(self):
        for margin in (0, -1.0, math.nan, math.inf):
            with self.assertRaisesRegex(ValueError, "margin of equivalence must be positive"):
                self.of(0.0, margin)


class Simulated(unittest.TestCase):
    def setUp(self):
        self.generator = random.Random(2017)

    def assert_misses(self, missed, expected=0.05, delta=0.01):
        self.assertAlmostEqual(sum(missed) / len(missed), expected, delta=delta)

    def test_intervals_miss_the_mean_5_percent_of_the_time(self):
        for num in (3, 5, 10):
            samples = [draw(self.generator, num, 86.5, 0.2) for _ in range(10_000)]
            self.assert_misses([not statistics.mean_interval(sample).contains(86.5) for sample in samples])
            self.assert_misses([not statistics.prediction_interval(sample).contains(self.generator.gauss(86.5, 0.2))
                                for sample in samples])

    def test_paired_intervals_miss_no_difference_5_percent_of_the_time(self):
        missed = []
        for _ in range(5000):
            seeds = draw(self.generator, 3, 76.8, 0.3)
            values, baseline = ([seed + self.generator.gauss(0, 0.1) for seed in seeds] for _ in range(2))
            comparison = statistics.compare_paired(values, baseline)
            missed.append(not comparison.interval.contains(0))
            self.assertEqual(missed[-1], comparison.p < 0.05)
        self.assert_misses(missed)

    def test_welch_intervals_miss_no_difference_5_percent_of_the_time(self):
        comparisons = [statistics.compare_unpaired(draw(self.generator, 10), draw(self.generator, 10, 0.0, 3.0))
                       for _ in range(4000)]
        self.assert_misses([not comparison.interval.contains(0) for comparison in comparisons])

    def test_the_gap_of_scaled_cifar_is_found_by_3_seeds(self):
        for _ in range(200):
            baseline = draw(self.generator, 3, 76.80, 0.11)
            values = [value + self.generator.gauss(-3.12, 0.10) for value in baseline]
            gap = statistics.compare_paired(values, baseline)
            self.assertLess(gap.p, 0.05)
            self.assertFalse(statistics.equivalence(gap, 0.92).equivalent)

    def test_a_difference_of_the_margin_is_called_equivalent_5_percent_of_the_time(self):
        called = [statistics.equivalence(statistics.compare_paired(draw(self.generator, 5, 2.0), [0.0] * 5), 2.0).equivalent
                  for _ in range(5000)]
        self.assert_misses(called)


class Holm(unittest.TestCase):
    def test_textbook(self):
        for found, expected in zip(statistics.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]):
            self.assertAlmostEqual(found, expected, delta=1e-15)

    def test_one_and_none(self):
        self.assertEqual(statistics.holm([0.04]), [0.04])
        self.assertEqual(statistics.holm([]), [])
        self.assertEqual(statistics.holm([0.9, 0.8]), [1.0, 1.0])

    def test_ties_are_corrected_equally(self):
        self.assertEqual(len(set(statistics.holm([0.02, 0.02, 0.02]))), 1)

    def test_what_is_not_known_counts_in_their_number(self):
        first, missing, second = statistics.holm([0.01, None, 0.02])
        self.assertIsNone(missing)
        self.assertAlmostEqual(first, 0.03, delta=1e-15)
        self.assertAlmostEqual(second, 0.04, delta=1e-15)

    def test_what_is_not_known_cannot_make_the_others_larger(self):
        generator = random.Random(3)
        for _ in range(300):
            p_values = [generator.random() ** 3 for _ in range(6)]
            partly = [p if generator.random() < 0.5 else None for p in p_values]
            for bound, final in zip(statistics.holm(partly), statistics.holm(p_values)):
                self.assertTrue(bound is None or bound >= final)

    def test_what_is_no_p_is_refused(self):
        for p in (-0.1, 1.1, math.nan):
            with self.assertRaisesRegex(ValueError, "p must be from 0 to 1"):
                statistics.holm([0.5, p])


class Signs(unittest.TestCase):
    def test_against_exact_sums(self):
        for first, second in itertools.product(range(12), range(12)):
            self.assertEqual(statistics.mcnemar(first, second).p, binomial_tails(first, second))
            self.assertEqual(statistics.sign_test([1] * first + [-1] * second + [0]).p, binomial_tails(first, second))
        for first, second in [(350, 450), (450, 350), (400, 400), (2000, 2100), (0, 1000)]:
            self.assertEqual(statistics.mcnemar(first, second).p, binomial_tails(first, second))

    def test_against_all_outcomes(self):
        for num in range(1, 9):
            outcomes = [sum(signs) for signs in itertools.product((1, -1), repeat=num)]
            for positive in range(num + 1):
                seen = abs(2 * positive - num)
                expected = sum(abs(outcome) >= seen for outcome in outcomes) / len(outcomes)
                self.assertAlmostEqual(statistics.mcnemar(positive, num - positive).p, expected, delta=1e-15)

    def test_differences_of_0_are_left_out(self):
        found = statistics.sign_test([0.1, -0.2, 0.0, 0.3, -0.0, 0.4])
        self.assertEqual((found.num_positive, found.num_negative, found.p), (3, 1, 0.625))
        self.assertEqual(statistics.sign_test([]), statistics.SignTest(0, 0, 1.0))

    def test_predictions(self):
        labels = [3, 1, 4, 1, 5, 9]
        first, second = [3, 1, 4, 1, 5, 0], [3, 1, 0, 0, 6, 9]
        found = statistics.mcnemar_of_predictions(first, second, labels)
        self.assertEqual(found, statistics.McNemar(3, 1, 0.625))
        right = [[one == label for one, label in zip(run, labels)] for run in (first, second)]
        self.assertEqual(statistics.mcnemar_of_predictions(*right), found)

    def test_two_wrong_classes_are_no_discordant_image(self):
        self.assertEqual(statistics.mcnemar_of_predictions([1, 2], [2, 2], [3, 2]), statistics.McNemar(0, 0, 1.0))

    def test_what_cannot_be_counted_is_refused(self):
        with self.assertRaisesRegex(ValueError, "equally many, not 2 and 3"):
            statistics.mcnemar_of_predictions([0, 1], [0, 1, 1])
        with self.assertRaisesRegex(ValueError, "equally many, not 2 and 2 and 1"):
            statistics.mcnemar_of_predictions([0, 1], [0, 1], [1])
        with self.assertRaisesRegex(ValueError, "without labels must be 0 or 1 .correct., not 7"):
            statistics.mcnemar_of_predictions([0, 7], [0, 1])
        for count in (-1, 1.5):
            with self.assertRaisesRegex(ValueError, f"a count must be an integer from 0, not {count}"):
                statistics.mcnemar(count, 3)
        with self.assertRaisesRegex(ValueError, "must be numbers, not nan"):
            statistics.sign_test([1.0, math.nan])


class TestSet(unittest.TestCase):
    def test_deviations_of_accuracies(self):
        for accuracy, num, points in [(0.993, 10_000, "0.08"), (0.866, 10_000, "0.34"), (0.768, 10_000, "0.42"),
                                      (0.57, 50_000, "0.22")]:
            self.assertEqual(f"{100 * statistics.accuracy_deviation(accuracy, num):.2f}", points)
        self.assertAlmostEqual(100 * statistics.accuracy_deviation(0.88, 50_000), 0.14, delta=0.006)

    def test_the_same_images_twice(self):
        self.assertEqual(f"{100 * statistics.discordant_deviation(800, 10_000):.2f}", "0.28")
        self.assertEqual(f"{100 * math.sqrt(2) * statistics.accuracy_deviation(0.866, 10_000):.2f}", "0.48")

    def test_outside_is_refused(self):
        with self.assertRaisesRegex(ValueError, "accuracy must be a fraction from 0 to 1, not 86.6"):
            statistics.accuracy_deviation(86.6, 10_000)
        for num in (0, -5):
            with self.assertRaisesRegex(ValueError, f"number of examples must be positive, not {num}"):
                statistics.accuracy_deviation(0.5, num)
        with self.assertRaisesRegex(ValueError, "from 0 to 10, not 11"):
            statistics.discordant_deviation(11, 10)


if __name__ == "__main__":
    unittest.main()
