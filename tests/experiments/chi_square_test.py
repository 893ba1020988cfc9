#!/usr/bin/env python3
"""Tests terngrad_experiments/chi_square.py against tables and closed forms."""

import itertools
import math
import unittest

import scaffold  # noqa: F401  (puts the package on the path)
from terngrad_experiments import chi_square

# Upper critical values as printed in any table: degrees of freedom, then those of 0.95, 0.05, 0.01 and 0.001.
TABLE = [
    (1, 0.00393, 3.841, 6.635, 10.828),
    (2, 0.103, 5.991, 9.210, 13.816),
    (5, 1.145, 11.070, 15.086, 20.515),
    (10, 3.940, 18.307, 23.209, 29.588),
    (13, 5.892, 22.362, 27.688, 34.528),
    (30, 18.493, 43.773, 50.892, 59.703),
    (100, 77.929, 124.342, 135.807, 149.449),
]


class IncompleteGamma(unittest.TestCase):
    XS = (0.0, 1e-9, 0.3, 1.0, 1.9, 2.1, 7.5, 40.0, 700.0)

    def test_of_one_half_it_is_the_error_function(self):
        for x in self.XS:
            self.assertAlmostEqual(chi_square.incomplete_gamma(0.5, x), math.erfc(math.sqrt(x)), delta=1e-14)

    def test_of_integers_it_is_a_sum_of_poisson(self):
        for a, x in itertools.product((1, 2, 3, 10, 30), self.XS):
            expected = math.fsum(math.exp(k * math.log(x) - x - math.lgamma(k + 1)) for k in range(a)) if x else 1.0
            self.assertAlmostEqual(chi_square.incomplete_gamma(a, x), expected, delta=1e-13)

    def test_recurrence(self):
        for a, x in itertools.product((0.5, 1.5, 6.5, 50.0), (0.1, 1.0, 5.0, 60.0)):
            step = math.exp(a * math.log(x) - x - math.lgamma(a + 1))
            self.assertAlmostEqual(chi_square.incomplete_gamma(a + 1, x), chi_square.incomplete_gamma(a, x) + step, delta=1e-13)

    def test_small_tails_are_exact_in_proportion(self):
        self.assertAlmostEqual(chi_square.incomplete_gamma(1, 200.0) / math.exp(-200), 1, delta=1e-12)

    def test_outside_is_refused(self):
        for a, x in ((0, 1), (-1, 1), (1, -0.1), (math.nan, 1), (1, math.nan), (math.inf, 1)):
            with self.assertRaisesRegex(ValueError, "a must be positive and finite, x at least 0"):
                chi_square.incomplete_gamma(a, x)
        self.assertEqual(chi_square.incomplete_gamma(2, math.inf), 0)


class ChiSquare(unittest.TestCase):
    def test_critical_values_are_those_of_tables(self):
        for freedom, *values in TABLE:
            for p, value in zip((0.95, 0.05, 0.01, 0.001), values):
                self.assertAlmostEqual(chi_square.chi_square_p_value(value, freedom) / p, 1, delta=2e-3)

    def test_ends(self):
        self.assertEqual(chi_square.chi_square_p_value(0, 3), 1)
        self.assertEqual(chi_square.chi_square_p_value(-1e-15, 3), 1)  # a statistic that rounding made negative
        self.assertEqual(chi_square.chi_square_p_value(1e6, 3), 0)

    def test_outside_is_refused(self):
        with self.assertRaisesRegex(ValueError, "degrees of freedom must be positive, not 0"):
            chi_square.chi_square_p_value(1.0, 0)
        with self.assertRaisesRegex(ValueError, "must be a number, not nan"):
            chi_square.chi_square_p_value(math.nan, 1)


if __name__ == "__main__":
    unittest.main()
