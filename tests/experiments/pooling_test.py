#!/usr/bin/env python3
"""Tests terngrad_experiments/pooling.py against published examples, closed forms and simulations."""

import math
import random
import unittest

import scaffold  # noqa: F401  (puts the package on the path)
from terngrad_experiments import pooling, statistics

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.7, data set GEAR.DAT: diameters of gears, ten of each of ten batches.
# Bartlett's test there: T = 20.78580 with 9 degrees of freedom, above the critical value of 5 %, 16.91898.
GEARS = """1.006 0.996 0.998 1.000 0.992 0.993 1.002 0.999 0.994 1.000
0.998 1.006 1.000 1.002 0.997 0.998 0.996 1.000 1.006 0.988
0.991 0.987 0.997 0.999 0.995 0.994 1.000 0.999 0.996 0.996
1.005 1.002 0.994 1.000 0.995 0.994 0.998 0.996 1.002 0.996
0.998 0.998 0.982 0.990 1.002 0.984 0.996 0.993 0.980 0.996
1.009 1.013 1.009 0.997 0.988 1.002 0.995 0.998 0.981 0.996
0.990 1.004 0.996 1.001 0.998 1.000 1.018 1.010 0.996 1.002
0.998 1.000 1.006 1.000 1.002 0.996 0.998 0.996 1.002 1.006
1.002 0.998 0.996 0.995 0.996 1.004 1.004 0.998 0.999 0.991
0.991 0.995 0.984 0.994 0.997 0.997 0.991 0.998 1.004 0.997"""
# experiments/results: top-1 in percent, seeds 1 to 3.
MNIST_FLOAT = [99.27, 99.35, 99.29]
MNIST_TERNARY = [99.23, 99.26, 99.20]


def cell(values, first_seed=1):
    return dict(enumerate(values, first_seed))


def shaped(num, middle=0.0, deviation=1.0, first_seed=1):
    """A cell of `num` seeds with exactly this mean and standard deviation."""
    values = [float(k) for k in range(num)]
    scale = deviation / statistics.sample_deviation(values)
    return cell([middle + scale * (value - (num - 1) / 2) for value in values], first_seed)


class Bartlett(unittest.TestCase):
    def test_published_example(self):
        batches = [[float(value) for value in line.split()] for line in GEARS.split("\n")]
        p = pooling.bartlett([statistics.sample_deviation(batch) ** 2 for batch in batches], [9] * 10)
        self.assertAlmostEqual(p, pooling.chi_square_p_value(20.78580, 9), delta=1e-6)
        self.assertAlmostEqual(p, 0.0136, delta=5e-5)

    def test_equal_variances_and_zeros(self):
        self.assertAlmostEqual(pooling.bartlett([2.0, 2.0, 2.0], [2, 3, 4]), 1, delta=1e-12)
        self.assertEqual(pooling.bartlett([0.0, 0.0], [2, 2]), 1)
        self.assertEqual(pooling.bartlett([0.0, 1.0], [2, 2]), 0)

    def test_the_unit_does_not_matter(self):
        ps = [pooling.bartlett([unit * v for v in (1.0, 3.0, 20.0)], [2, 2, 4]) for unit in (1, 1e-6, 1e8)]
        self.assertAlmostEqual(ps[0], ps[1], delta=1e-12)
        self.assertAlmostEqual(ps[0], ps[2], delta=1e-12)

    def test_one_sample_is_refused(self):
        with self.assertRaisesRegex(ValueError, "needs two variances or more and their degrees of freedom, not 1 and 1"):
            pooling.bartlett([1.0], [2])
        with self.assertRaisesRegex(ValueError, "not 2 and 1"):
            pooling.bartlett([1.0, 2.0], [2])


class Freedom(unittest.TestCase):
    def test_of_independent_seeds_they_add_up(self):
        self.assertEqual(pooling.effective_freedom([shaped(3), shaped(4, first_seed=10)]), 2 + 3)

    def test_of_cells_that_differ_by_a_constant_they_are_those_of_one(self):
        values = [0.1, 0.5, 0.3, 0.2]
        cells = [cell([value + shift for value in values]) for shift in (0, 10, 20)]
        self.assertAlmostEqual(pooling.effective_freedom(cells), 3, delta=1e-9)

    def test_by_hand(self):
        # Deviations from the cells' means: (-1, 0, 1) and (0, -1, 1). Means of seeds -0.5, -0.5, 1: M = 2 * 1.5 / 2 =
        # 1.5; residuals (-0.5, 0.5, 0) and (0.5, -0.5, 0): R = 1 / 2. Degrees of freedom: 4 * (1.5 + 0.5)^2 / (2 *
        # (1.5^2 + 0.5^2)) = 3.2.
        self.assertAlmostEqual(pooling.effective_freedom([cell([1, 2, 3]), cell([11, 10, 12])]), 3.2, delta=1e-12)

    def test_seeds_that_not_all_have_count_in_proportion(self):
        cells = [cell([1, 2, 3, 7]), cell([11, 10, 12])]
        self.assertAlmostEqual(pooling.effective_freedom(cells), 5 * 3.2 / 4, delta=1e-12)

    def test_never_more_than_they_add_up_to_nor_less_than_one_has(self):
        generator = random.Random(5)
        for _ in range(200):
            cells = [cell([generator.gauss(0, 1) for _ in range(4)]) for _ in range(5)]
            self.assertTrue(3 - 1e-9 <= pooling.effective_freedom(cells) <= 15 + 1e-9)


class Pool(unittest.TestCase):
    def test_weights_are_degrees_of_freedom(self):
        found = pooling.pool([shaped(3, 5.0, 1.0, 1), shaped(5, 80.0, 2.0, 11), {1: 1.0}])
        self.assertAlmostEqual(found.deviation.value, math.sqrt((2 * 1 + 4 * 4) / 6), delta=1e-12)
        self.assertEqual((found.num_cells, found.deviation.degrees_of_freedom, found.deviation.num_cells), (2, 6, 2))
        self.assertAlmostEqual(found.ratio, 2, delta=1e-12)
        self.assertTrue(0.1 < found.p < 1)

    def test_ratios_that_chance_explains_do_not_keep_from_it(self):
        cells = [shaped(3, 0.0, deviation, 10 * k) for k, deviation in enumerate((0.01, 0.05, 0.04, 0.03, 0.06, 0.05, 0.08))]
        found = pooling.pool(cells)
        self.assertGreater(found.ratio, 4)
        self.assertIsNotNone(found.deviation)

    def test_deviations_that_differ_are_not_pooled(self):
        found = pooling.pool([shaped(5, 0.0, deviation, 10 * k) for k, deviation in enumerate((0.04, 0.05, 0.04, 0.6))])
        self.assertIsNone(found.deviation)
        self.assertLess(found.p, 0.01)
        self.assertAlmostEqual(found.ratio, 15, delta=1e-9)

    def test_fewer_than_two_cells_of_two_seeds(self):
        for cells in ([], [shaped(3)], [shaped(3), {1: 2.0}]):
            found = pooling.pool(cells)
            self.assertEqual((found.deviation, found.ratio, found.p), (None, None, None))

    def test_equal_values_count_as_rounded(self):
        cells = [cell([99.2] * 3), *(shaped(3, 99.0, 0.04, 10 * k) for k in range(1, 6))]
        self.assertIsNone(pooling.pool(cells).deviation)
        found = pooling.pool(cells, resolution=0.01)
        self.assertAlmostEqual(found.deviation.value, 0.04 * math.sqrt(5 / 6), delta=1e-12)
        self.assertEqual(found.ratio, math.inf)

    def test_nothing_but_equal_values_says_nothing(self):
        found = pooling.pool([cell([2.0] * 3), cell([1.1] * 3)], resolution=0.01)
        self.assertEqual((found.deviation, found.ratio, found.p), (None, 1.0, 1.0))

    def test_recorded_mnist_is_pooled_and_its_interval_narrower(self):
        found = pooling.pool([cell(MNIST_FLOAT), cell(MNIST_TERNARY)], 0.01)
        self.assertTrue(2 <= found.deviation.degrees_of_freedom <= 4)
        own, pooled = (statistics.mean_interval(MNIST_FLOAT, deviation=one).half_width for one in (None, found.deviation))
        self.assertLess(pooled, own)


class Simulated(unittest.TestCase):
    """Accuracies as in the table of figure 3: 14 cells of 3 seeds, deviation 0.04, in multiples of one image of 10,000."""

    def setUp(self):
        self.generator = random.Random(2017)

    def table(self, num_cells=14, num_seeds=3, together=0.0):
        """@param together  correlation between runs with the same seed"""
        of_seed = [self.generator.gauss(0, 1) for _ in range(num_seeds)]
        return [cell([round(99 + 0.04 * (math.sqrt(together) * one + math.sqrt(1 - together) * self.generator.gauss(0, 1)), 2)
                      for one in of_seed]) for _ in range(num_cells)]

    def missed(self, **more):
        """(fraction of pooled tables whose interval misses the mean, fraction of tables that are not pooled)"""
        found = [(table, pooling.pool(table, 0.01)) for table in (self.table(**more) for _ in range(1500))]
        intervals = [statistics.mean_interval(list(table[0].values()), deviation=one.deviation)
                     for table, one in found if one.deviation]
        return sum(not interval.contains(99) for interval in intervals) / len(intervals), 1 - len(intervals) / len(found)

    def test_equal_deviations_are_pooled_99_times_of_100_and_intervals_miss_5_percent(self):
        missed, refused = self.missed()
        self.assertLess(refused, 0.015)
        self.assertAlmostEqual(missed, 0.05, delta=0.015)

    def test_a_ratio_above_4_says_nothing_with_three_seeds(self):
        above = sum(pooling.pool(self.table(), 0.01).ratio > 4 for _ in range(300)) / 300
        self.assertGreater(above, 0.8)

    def test_runs_that_rise_and_fall_together_miss_somewhat_more(self):
        """In 6000 tables 7 % of the intervals miss, not 5 %; for correlations from 0 to 1, 4 to 8 %. With the sum of
        the degrees of freedom, 10 %. The bound leaves three standard errors of 1500 tables."""
        missed, _ = self.missed(together=0.7)
        self.assertGreater(missed, 0.05)
        self.assertLess(missed, 0.09)

    def test_a_deviation_ten_times_as_large_is_found(self):
        refused = 0
        for _ in range(300):
            table = self.table(num_seeds=5)
            table[3] = cell([self.generator.gauss(99, 0.4) for _ in range(5)])
            refused += pooling.pool(table, 0.01).deviation is None
        self.assertGreater(refused / 300, 0.95)

    def test_a_gap_is_found_with_the_power_that_is_promised(self):
        # In standard deviations, unpaired with one common deviation: 3.0, 2.0 and 1.3 are found in 4 of 5 cases.
        for num, gap in [(3, 3.0), (5, 2.0), (10, 1.3)]:
            found = []
            for _ in range(2000):
                baseline, values = ([self.generator.gauss(middle, 1) for _ in range(num)] for middle in (0, gap))
                deviation = pooling.pool([cell(baseline), cell(values, 100)], level=0).deviation
                found.append(statistics.compare_unpaired(values, baseline, deviation=deviation).p < 0.05)
            self.assertAlmostEqual(sum(found) / len(found), 0.8, delta=0.04)


if __name__ == "__main__":
    unittest.main()
