#!/usr/bin/env python3
"""Tests the draws of the reference (philox.py) and the probabilities of rounding up (rounding.py)."""

import fractions
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import philox, rounding  # noqa: E402

# Known answers of Random123: counter, key, output of philox4x32-10.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
# Fractions of all magnitudes: halves, thirds, 24 set bits, below one 16-bit draw, below 2^-40.
FRACTIONS = testing.floats(0, 0.5, 1 / 3, 2 / 3, 1 - 2**-24, 1 - 2**-16, 2**-16, 1.5 * 2**-16, 3 * 2**-18, 2**-20,
                           0.7 * 2**-25, 2**-40, 1.25 * 2**-40, 2**-41, 2**-100, 2**-149)


def words(text):
    return [int(word, 16) for word in text.split()]


def count_up(rule, fraction):
    """Number of the 2^40 pairs of draws that round up. Tries all 16-bit draws, and the 24-bit draws for ties only."""
    r16 = np.arange(2**16, dtype=np.uint32)
    fraction = np.asarray(fraction, np.float32)
    lowest = rule(fraction, r16, np.zeros_like(r16))
    highest = rule(fraction, r16, np.full_like(r16, 2**24 - 1))
    # Rounding up is monotonic in r24: where both ends agree, all draws agree.
    total = 2**24 * int((lowest & highest).sum())
    some = np.arange(2**18, dtype=np.uint32)
    for tie in np.flatnonzero(lowest != highest).astype(np.uint32):
        for begin in range(0, 2**24, len(some)):
            total += int(rule(fraction, tie, some + np.uint32(begin)).sum())
    return total


class Philox(unittest.TestCase):
    def test_known_answers(self):
        for counter, key, output in KNOWN_ANSWERS:
            self.assertEqual(philox.philox4x32_10(np.array(words(counter)), tuple(words(key))).tolist(), words(output))
        counters = np.array([words(counter) for counter, _, _ in KNOWN_ANSWERS])
        self.assertEqual(philox.philox4x32_10(counters, (0, 0))[0].tolist(), words(KNOWN_ANSWERS[0][2]))

    def test_fields_of_the_counter(self):
        key = philox.DrawKey(seed=0x0123456789ABCDEF, step=0xAB01234567, worker=0xFEDCBA98, purpose=5)
        # Word 3: the block's bits 32-47, the step's 32-39, the purpose.
        counter = np.array([0x89ABCDEF, 0xFEDCBA98, 0x01234567, 0x05AB7654])
        expected = philox.philox4x32_10(counter, (0x89ABCDEF, 0x01234567))
        self.assertEqual(key.blocks(0x765489ABCDEF, 1)[0].tolist(), expected.tolist())
        # Block numbers above 2^32 carry into word 3.
        self.assertEqual(key.blocks(2**32 - 1, 2)[1].tolist(), key.blocks(2**32, 1)[0].tolist())

    def test_outside_of_the_counter_is_refused(self):
        for key, first in ((philox.DrawKey(1, 2**40, 0, 1), 0), (philox.DrawKey(1, 0, 2**32, 1), 0),
                           (philox.DrawKey(1, 0, 0, 1), 2**48)):
            with self.assertRaisesRegex(ValueError, "outside of the counter"):
                key.blocks(first, 1)

    def test_places_of_draws_in_blocks(self):
        key = philox.DrawKey(seed=1, step=2, worker=3, purpose=10)
        a, b, c, d = key.blocks(7, 1)[0].tolist()
        halves = [half for word in (a, b, c, d) for half in (word % 2**16, word // 2**16)]
        self.assertEqual(philox.draws16(key, 56, 8).tolist(), halves)
        self.assertEqual(philox.draws32(key, 28, 4).tolist(), [a, b, c, d])
        for first, count in ((0, 0), (0, 1), (3, 2), (7, 9), (5, 100)):
            self.assertEqual(philox.draws16(key, first, count).tolist(),
                             philox.draws16(key, 0, 200)[first : first + count].tolist())
            self.assertEqual(philox.draws32(key, first, count).tolist(),
                             philox.draws32(key, 0, 200)[first : first + count].tolist())


class RoundingUp(unittest.TestCase):
    def test_pairs_that_round_up_are_counted_exactly(self):
        for fraction in FRACTIONS:
            exact = fractions.Fraction(float(fraction)) * 2**40
            self.assertEqual(count_up(rounding.rounds_up, fraction), math.ceil(exact), fraction)

    def test_a_planted_bias_is_found(self):
        def biased(fraction, r16, r24):
            t = fraction * np.float32(65536)
            h = np.floor(t)
            return (r16 <= h) | ((r16 == h) & (r24 < (t - h) * np.float32(2**24)))

        for fraction in FRACTIONS[1::3]:
            self.assertNotEqual(count_up(biased, fraction), math.ceil(fractions.Fraction(float(fraction)) * 2**40),
                                fraction)

    def test_it_is_the_order_of_numbers_of_40_bits(self):
        random = np.random.default_rng(1)
        some = random.random(1000, np.float32)
        some[::3] *= np.float32(2**-15)
        some[1::3] = np.float32(1) - some[1::3] * np.float32(2**-12)
        r16, r24 = random.integers(0, 2**16, 1000, np.uint32), random.integers(0, 2**24, 1000, np.uint32)
        r16[::2] = np.floor(some[::2] * np.float32(65536))  # ties, decided by the 24 bits
        expected = [int(high) * 2**24 + int(low) < fractions.Fraction(float(one)) * 2**40
                    for one, high, low in zip(some, r16, r24)]
        self.assertEqual(rounding.rounds_up(some, r16, r24).tolist(), expected)
        self.assertIn(True, expected[::2])
        self.assertIn(False, expected[::2])

    def test_draws_of_a_tensor(self):
        # An element's draw depends on its position and the tensor's offset, not on the slice.
        some = np.random.default_rng(2).random(300, np.float32)
        draws = rounding.Draws(seed=5, step=6, worker=7, offset=128)
        whole = draws.rounds_up(some, 0, (10, 11))
        self.assertEqual(draws.rounds_up(some[100:], 100, (10, 11)).tolist(), whole[100:].tolist())
        self.assertEqual(rounding.Draws(5, 6, 7, 192).rounds_up(some[100:], 36, (10, 11)).tolist(),
                         whole[100:].tolist())
        r16 = philox.draws16(philox.DrawKey(5, 6, 7, 10), 128, 300)
        r24 = philox.draws32(philox.DrawKey(5, 6, 7, 11), 128, 300) // 256
        self.assertEqual(whole.tolist(), rounding.rounds_up(some, r16, r24).tolist())


class Fp32(unittest.TestCase):
    def test_bfloat16(self):
        # Ties to even, down and up; values above the range become infinite.
        values = testing.bits(0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0xBF818000, 0x7F7FFFFF, 0x00008000,
                              0x00018000, 0x80000000)
        self.assertEqual([f"{half:04x}" for half in rounding.bfloat16_bits(values)],
                         ["3f80", "3f80", "3f82", "3f81", "bf82", "7f80", "0000", "0002", "8000"])

    def test_powers_of_two(self):
        values = testing.floats(0, 1, 1.5, 2, 2.0000002, 3, 2**-149, 3 * 2.0**-149, 2**126)
        self.assertEqual(rounding.power_of_two_above(values).tolist(), [0, 1, 2, 2, 4, 4, 2**-149, 2**-147, 2**126])

    def test_rounding_once(self):
        # Ties to even. Rounding twice (first to 25 bits) would give another result.
        self.assertEqual(rounding.fl([1 + 2**-24, 1 + 3 * 2**-24, 1 + 2**-24 + 2**-50, 1e39]).tolist(),
                         [1, 1 + 2**-22, 1 + 2**-23, math.inf])


if __name__ == "__main__":
    unittest.main()
