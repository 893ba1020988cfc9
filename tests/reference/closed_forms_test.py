#!/usr/bin/env python3
"""Tests the quantization errors of the reference codecs: closed forms, Gaussian figures, unbiasedness.

omega: E|Q(g) - g|^2 = omega |g|^2 of an unbiased Q. delta: |C(g) - g|^2 = (1 - delta) |g|^2.
"""

import math
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import codecs, rounding, specs  # noqa: E402

COUNT = 65_536
LARGE_COUNT = 2**20  # for codecs without draws


def decoded(text, gradient, **arguments):
    return codecs.exchange(codecs.parse(text).codec, [gradient], **arguments).decoded[0].astype(np.float64)


def error(text, gradient, **arguments):
    """|Q(g) - g|^2 / |g|^2"""
    return testing.square(decoded(text, gradient, **arguments) - gradient) / testing.square(gradient)


def zeros(text, gradient):
    return float((decoded(text, gradient) == 0).mean())


def variances(text, gradient):
    """Variance of each element under stochastic rounding, by the codec's formula."""
    codec = codecs.parse(text).codec
    wide = np.abs(gradient.astype(np.float64))
    each = codec.runs.spread(codec.measure(gradient), codecs.Cut.whole(gradient.shape)).astype(np.float64)
    s = each[0]
    if isinstance(codec, specs.Qsgd):
        t = wide / s * codec.top
        return (s / codec.top) ** 2 * (t % 1) * (1 - t % 1)
    if isinstance(codec, specs.Natural):
        smallest = -6 if codec.bits == 4 else -126
        y = wide / s
        exponents = np.floor(np.log2(np.maximum(y, 2.0**-140)))
        low = np.where(exponents >= smallest, np.exp2(exponents), 0)
        gap = np.where(exponents >= smallest, low, 2.0**smallest)
        return s**2 * (y - low) * np.maximum(low + gap - y, 0)
    if codec.is_asymmetric:
        s = np.where(gradient < 0, each[1], each[0])
    return wide * (s - wide)  # ternary without clipping


class Gaussian(unittest.TestCase):
    """Errors on normal deviates, within the sampling error."""

    @classmethod
    def setUpClass(cls):
        cls.large = testing.gaussian(LARGE_COUNT, 1)
        cls.gradient = cls.large[:COUNT]

    def test_omega(self):
        for text, omega in (("qsgd:bits=2", 1.595), ("qsgd", 0.0362), ("qsgd:bits=8", 1.1e-4),
                            ("qsgd:bits=2,norm=l2", 17.1), ("qsgd:norm=l2", 1.58), ("qsgd:bits=8,norm=l2", 0.0053),
                            ("natural", 0.0818), ("natural:bits=4,block=512", 0.0810),
                            ("natural:bits=4,norm=l2,block=512", 0.0873), ("nuqsgd", 0.335)):
            self.assertAlmostEqual(variances(text, self.large).sum() / testing.square(self.large) / omega, 1,
                                   delta=0.02, msg=text)
            expected = variances(text, self.gradient).sum() / testing.square(self.gradient)
            # Stochastic codecs: the error agrees with the formula's mean.
            self.assertAlmostEqual(error(text, self.gradient) / expected, 1, delta=0.05, msg=text)

    def test_zeros(self):
        self.assertAlmostEqual(zeros("qsgd", self.gradient), 0.181, delta=0.005)
        self.assertAlmostEqual(zeros("qsgd:norm=l2", self.gradient), 0.753, delta=0.005)
        self.assertAlmostEqual(zeros("ternary:rounding=nearest,clip_factor=1.22", self.gradient), 0.458, delta=0.005)

    def test_errors(self):
        for text, expected in (("ternary:rounding=nearest,clip_factor=1.22", 0.190), ("sign", 1 - 2 / math.pi),
                               ("sign:scale=l2", 2 - 2 * math.sqrt(2 / math.pi)), ("sign:scale=drive", math.pi / 2 - 1),
                               ("onebit", 1 - 2 / math.pi)):
            self.assertAlmostEqual(error(text, self.gradient) / expected, 1, delta=0.02, msg=text)

    def test_clipping(self):
        # rms: 1/32 of the elements exceed 2.154 deviations; clipping removes 0.0073 of the norm.
        s = codecs.parse("qsgd:norm=rms,block=0").codec.measure(self.large)[0]
        self.assertAlmostEqual((np.abs(self.large) > s).mean() * 32, 1, delta=0.02)
        cut = np.maximum(np.abs(self.large) - s, 0)
        self.assertAlmostEqual(testing.square(cut) / testing.square(self.large) / 0.0073, 1, delta=0.03)
        self.assertAlmostEqual(error("qsgd:norm=rms,block=0", self.gradient) / 0.0226, 1, delta=0.04)

    def test_second_moment_of_ternary(self):
        # omega = s A / S2 - 1 is 1.01 of the clipped gradient at c = 2.5.
        s = codecs.parse("ternary:clip_factor=2.5").codec.measure(self.gradient)[0]
        clipped = np.clip(self.gradient.astype(np.float64), -s, s)
        omega = float(s) * np.abs(clipped).sum() / testing.square(self.gradient) - 1
        self.assertAlmostEqual(omega, 1.01, delta=0.03)
        sent = decoded("ternary:clip_factor=2.5", self.gradient)
        self.assertAlmostEqual(testing.square(sent) / (float(s) * np.abs(clipped).sum()), 1, delta=0.02)

    def test_error_of_fp8(self):
        # Nearest with 3 mantissa bits: error at most 2^-4 |g| for |g| >= 2^-6 s, plus roundings of the scaling.
        for text, part in (("fp8", 2.0**-4), ("fp8:rounding=stochastic", 2.0**-3)):
            codec = codecs.parse(text).codec
            s = codec.runs.spread(codec.measure(self.gradient), codecs.Cut.whole(self.gradient.shape))[0]
            wide = np.abs(self.gradient.astype(np.float64))
            off = np.abs(decoded(text, self.gradient) - self.gradient)
            is_normal = wide >= 2.0**-6 * s
            self.assertGreater(is_normal.sum(), COUNT * 0.9)
            self.assertLessEqual((off / wide)[is_normal].max(), part * (1 + 2**-18))
            self.assertLessEqual((off / s)[~is_normal].max(), 2.0**-9 * (part * 8) * (1 + 2**-18))


class Exact(unittest.TestCase):
    """Identities of single tensors."""

    def setUp(self):
        self.gradient = testing.gaussian(6000, 2) * np.exp(testing.gaussian(6000, 3))

    def test_delta_of_sign(self):
        wide = self.gradient.astype(np.float64)
        a, s2 = np.abs(wide).sum(), testing.square(wide)
        self.assertAlmostEqual(error("sign", self.gradient) / (1 - a**2 / (6000 * s2)), 1, delta=1e-6)
        # drive keeps the product with g, <C(g), g> = |g|^2, so the error is |C(g)|^2 - |g|^2 = n (S2 / A)^2 - S2.
        self.assertAlmostEqual(error("sign:scale=drive", self.gradient) / (6000 * s2 / a**2 - 1), 1, delta=1e-6)

    def test_error_of_onebit(self):
        wide = self.gradient.astype(np.float64).reshape(300, 20)
        left = 0.0
        for column in wide.T:
            negative, positive = column[column < 0], column[column >= 0]
            left += testing.square(column) - len(negative) * negative.mean() ** 2 - len(positive) * positive.mean() ** 2
        sent = decoded("onebit", self.gradient.reshape(300, 20)).reshape(300, 20)
        measured = testing.square(sent - wide) / testing.square(wide)
        self.assertAlmostEqual(measured / (left / testing.square(wide)), 1, delta=1e-6)

    def test_second_moment_of_natural(self):
        ratio = variances("natural", self.gradient) / self.gradient.astype(np.float64) ** 2
        self.assertLessEqual(ratio.max(), 1 / 8 + 1e-9)
        self.assertGreater(ratio.max(), 1 / 8 - 1e-4)

    def test_omega_of_l2_is_bounded_as_in_the_paper(self):
        # Lemma 3.1 of Alistarh et al.: min(B / L^2, sqrt(B) / L).
        for bits, top in ((2, 1), (4, 7), (8, 127)):
            for block in (64, 512):
                text = f"qsgd:bits={bits},norm=l2,block={block}"
                omegas = variances(text, self.gradient)
                for begin in range(0, 6000 - block, block):
                    elements = slice(begin, begin + block)
                    omega = omegas[elements].sum() / testing.square(self.gradient[elements])
                    self.assertLessEqual(omega, min(block / top**2, math.sqrt(block) / top))


class Unbiased(unittest.TestCase):
    """Means over many steps, in standard errors: of each element, and of the sum over all."""

    STEPS = 150
    SPECS = ("ternary", "ternary:block=64,sharing=none", "ternary:levels=asymmetric", "qsgd", "qsgd:bits=2,block=128",
             "qsgd:bits=8", "qsgd:norm=pow2", "qsgd:norm=l2,sharing=max", "natural", "natural:bits=4,block=64",
             "natural:bits=4,norm=l2")

    def means(self, text, gradient):
        return sum(decoded(text, gradient, step=step) for step in range(self.STEPS)) / self.STEPS

    def test_every_stochastic_codec(self):
        gradient = testing.gaussian(4096, 5)
        wide = gradient.astype(np.float64)
        for text in self.SPECS:
            deviation = np.sqrt(np.maximum(variances(text, gradient), 0) / self.STEPS)
            # Elements on a level are constant up to the rounding of the scaling.
            is_drawn = deviation > 1e-5 * np.abs(wide)
            off = (self.means(text, gradient) - wide)[is_drawn] / deviation[is_drawn]
            self.assertLess(abs(off.sum()) / math.sqrt(len(off)), 5, text)
            self.assertLess(abs((off * np.sign(wide[is_drawn])).sum()) / math.sqrt(len(off)), 5, text)
            self.assertAlmostEqual((off**2).mean(), 1, delta=0.2, msg=text)

    def test_fp8(self):
        gradient = testing.gaussian(4096, 6)
        draws = np.stack([decoded("fp8:rounding=stochastic", gradient, step=step) for step in range(self.STEPS)])
        deviation = draws.std(axis=0) / math.sqrt(self.STEPS)
        is_drawn = deviation > 1e-3 * np.abs(gradient)
        off = (draws.mean(axis=0) - gradient)[is_drawn] / deviation[is_drawn]
        self.assertLess(abs((off * np.sign(gradient[is_drawn])).sum()) / math.sqrt(len(off)), 5)

    def test_clipped_ones_are_unbiased_below_their_scaler(self):
        gradient = testing.gaussian(4096, 7)
        for text in ("qsgd:norm=rms,block=0", "ternary:clip_factor=1.5"):
            s = float(codecs.parse(text).codec.measure(gradient)[0])
            off = self.means(text, gradient) - np.clip(gradient.astype(np.float64), -s, s)
            self.assertLess(np.abs(off).max(), 6 * s / math.sqrt(self.STEPS) / 2, text)
            self.assertLess(abs((off * np.sign(gradient)).mean()), 5 * s / 2 / math.sqrt(self.STEPS * 4096), text)

    def test_a_planted_bias_is_found(self):
        # Elements of 2^-22 s: half a code is expected in 65,536 x 32 draws. Rounding up at r16 = h gives 32.
        gradient = np.full(COUNT, 2.0**-22, np.float32)
        gradient[0] = 1

        def count():
            return sum(int((decoded("qsgd:bits=2,block=0", gradient, step=step)[1:] != 0).sum()) for step in range(32))

        def biased(fractions, r16, r24):
            return r16 <= np.floor(fractions * np.float32(65536))

        self.assertLess(count(), 8)
        with mock.patch.object(rounding, "rounds_up", biased):
            self.assertGreater(count(), 12)


if __name__ == "__main__":
    unittest.main()
