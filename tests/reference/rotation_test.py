#!/usr/bin/env python3
"""Tests the rotation of the reference (rotation.py): hand-made signs, norms, inverses and tails."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import codecs, philox, rotation  # noqa: E402

LENGTHS = [1, 2, 63, 64, 65, 191, 1000, 4096, 4097, 9000]


def gaussian(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal(count).astype(np.float32)


def error_of(text: str, gradient: np.ndarray) -> float:
    decoded = codecs.exchange(codecs.parse(text).codec, [gradient]).decoded[0].astype(np.float64)
    return np.sum((decoded - gradient) ** 2) / np.sum(gradient.astype(np.float64) ** 2)


class Rotation(unittest.TestCase):
    def test_signs_are_the_bits_of_blocks_low_ones_first(self):
        block = philox.DrawKey(5, 9, 0, 12).blocks(1, 1)[0]
        signs = rotation.signs(300, 5, 9, 64)
        for d in (128, 129, 159, 160, 255):
            bit = int(block[(d - 128) // 32]) >> (d % 32) & 1
            self.assertEqual(signs[d - 64], 1 - 2 * bit, d)

    def test_runs_cover_all_and_end_in_descending_powers_of_two(self):
        self.assertEqual(rotation.runs(64 + 32 + 4 + 1, 64), [(0, 64), (64, 96), (96, 100), (100, 101)])
        self.assertEqual(rotation.runs(0, 64), [])

    def test_hadamard_is_the_matrix(self):
        matrix = np.array([[1]])
        while len(matrix) < 64:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
            x = gaussian(len(matrix))
            expected = matrix @ x.astype(np.float64) / np.sqrt(len(matrix))
            np.testing.assert_allclose(rotation.hadamard(x), expected, rtol=0, atol=2e-6)

    def test_norms_stay_and_turning_back_is_the_inverse(self):
        for run in rotation.RUNS:
            for count in LENGTHS:
                for twice in (False, True):
                    x = gaussian(count)
                    y = rotation.rotate(x, run, 1, 2, 192, twice)
                    norms = np.linalg.norm(y.astype(np.float64)) / np.linalg.norm(x.astype(np.float64))
                    self.assertAlmostEqual(norms, 1, 5)
                    np.testing.assert_allclose(rotation.turn_back(y, run, 1, 2, 192, twice), x, rtol=0, atol=1e-5)

    def test_a_second_transform_reaches_the_end_of_a_tail(self):
        self.assertEqual([rotation.mixed(tail) for tail in (0, 1, 2, 3, 7, 8, 10, 4095)], [0, 0, 0, 2, 4, 0, 8, 2048])
        x = np.zeros(64 + 11, np.float32)
        x[-1] = 1
        for twice, reached in ((False, 1), (True, 8)):
            self.assertEqual(np.count_nonzero(rotation.rotate(x, 64, 1, 2, 0, twice)), reached)

    def test_a_unit_vector_is_spread_evenly(self):
        x = np.zeros(2048, np.float32)
        x[1500] = 1
        y = rotation.rotate(x, 1024, 1, 2, 0, tails_twice=False)
        self.assertTrue((y[:1024] == 0).all())
        self.assertTrue((np.abs(y[1024:]) == np.float32(1 / 32)).all())

    def test_thc_has_the_error_of_a_clipped_gaussian(self):
        plain = gaussian(2**17)
        self.assertAlmostEqual(error_of("thc", plain), 0.0226, delta=0.001)
        # Rotation spreads one outlier per run, so that no element saturates.
        spiky = plain.copy()
        spiky[::1024] *= 300
        self.assertLess(error_of("thc", spiky), 0.0226)
        self.assertGreater(error_of("thc:rotate=0", spiky), 0.3)

    def test_votes_are_refused(self):
        with self.assertRaises(ValueError):
            codecs.parse("sign:reduce=vote,rotate=64")
        with self.assertRaises(ValueError):
            codecs.parse("qsgd:rotate=100")


if __name__ == "__main__":
    unittest.main()
