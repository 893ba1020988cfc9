#!/usr/bin/env python3
"""Tests the reference codecs: hand-made payloads, rounding draw by draw, means, limits."""

import fractions
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import codecs, packing, philox, specs  # noqa: E402

ALL = [(text, codecs.parse(text).codec) for text in testing.SPECS]


def one(text, gradient, **arguments):
    return codecs.exchange(codecs.parse(text).codec, [gradient], **arguments)


def awkward(count, seed):
    """Gradients of many octaves, with zeros of both signs, denormals, and several largest elements."""
    random = np.random.default_rng(seed)
    values = testing.gaussian(count, seed)
    values[::7] *= np.exp2(-random.integers(0, 40, count)[::7]).astype(np.float32)
    values[3::11] = 0.0
    values[4::22] = -0.0
    values[5::50] = testing.bits(0x80000001)[0]
    values[6::60] = np.abs(values).max(initial=0)
    return values


class Golden(unittest.TestCase):
    """Hand-made payloads and decoded values of gradients whose codes do not depend on draws."""

    def check(self, text, gradient, scalers, payload, decoded, **arguments):
        result = one(text, gradient, **arguments)
        message = result.messages[0]
        self.assertEqual((message.scalers.dtype, result.decoded[0].dtype, result.mean.dtype), (np.float32,) * 3)
        self.assertEqual(message.scalers.tolist(), scalers)
        self.assertEqual(message.payload.hex(), payload.replace(" ", ""))
        self.assertEqual(result.decoded[0].tolist(), decoded)
        self.assertEqual(result.mean.tobytes(), result.decoded[0].tobytes())

    def test_floats(self):
        self.check("fp32", testing.floats(1, -2.5), [0], "0000803f 000020c0", [1, -2.5])
        # 1 + 3 x 2^-8 is a tie between 3f81 and 3f82, which is even.
        self.check("bf16", testing.floats(1 + 3 * 2**-8, -2, 0), [0], "823f 00c0 0000 0000", [1 + 2**-6, -2, 0])

    def test_ternary(self):
        # All are 0 or the largest: probability 0 or 1. Fields 01 00 11 01 11: 1 + 3 x 16 + 1 x 64 + 3 x 256 = 0x371.
        gradient = testing.floats(3, 0, -3, 3, -3)
        self.check("ternary", gradient, [3], "71030000", [3, 0, -3, 3, -3])
        # Nearest: non-zero from s / 2. Fields 01 11 00 11 01 00: 1 + 12 + 3 x 64 + 1 x 256 = 0x1cd.
        gradient = testing.floats(4, -2, 1.9999999, -2.5, 3, 0)
        self.check("ternary:rounding=nearest", gradient, [4], "cd010000", [4, -4, 0, -4, 4, 0])
        # Two scalers, s+ and s-. Fields 01 11 01 11 00.
        self.check("ternary:levels=asymmetric", testing.floats(4, -2, 4, -2, 0), [4, 2], "dd000000", [4, -2, 4, -2, 0])
        # Nearest with two scalers: each side has its own threshold, 2 for s = 4 and 1 for s = 2.
        self.check("ternary:levels=asymmetric,rounding=nearest", testing.floats(4, -2, 1.75, -1, 2), [4, 2], "cd010000",
                   [4, -2, 0, -2, 4])

    def test_ternary_clipped(self):
        # Mean 0, mean square 16 / 16 = 1: sigma is 1 and the scaler 2.5; the largest is 2 sqrt(2) = 2.83.
        gradient = np.zeros(16, np.float32)
        gradient[:2] = np.float32(math.sqrt(8)) * testing.floats(1, -1)
        result = one("ternary:clip_factor=2.5", gradient)
        self.assertAlmostEqual(float(result.local[0][0]), 2.5, delta=1e-6)
        self.assertEqual(result.messages[0].payload.hex(), "0d000000")
        # If sigma is 0, the scaler is the largest |g| by the paper's rule and 0 by the original's.
        equal = testing.floats(0.5, 0.5)
        self.check("ternary:clip_factor=2.5", equal, [0.5], "05000000", [0.5, 0.5])
        self.check("ternary:clip_factor=2.5,scaler=original", equal, [0], "00000000", [0, 0])

    def test_qsgd(self):
        # s = 7 / 8, so L / s = 8 and t = 7 7 0 3 1.5 2.5 3.5 0.5; codes 7 -7 0 3 -2 2 4 -0, plus 7: 14 0 7 10 5 9 11 7.
        gradient = testing.floats(0.875, -0.875, 0, 0.375, -0.1875, 0.3125, 0.4375, -0.0625)
        self.check("qsgd:rounding=nearest", gradient, [0.875], "0ea7957b",
                   [0.875, -0.875, 0, 0.375, -0.25, 0.25, 0.5, 0])
        # Values on levels do not depend on draws. 8 bits: s = 127, codes are the numbers plus 127.
        self.check("qsgd:bits=8", testing.floats(127, -127, 0, 5, -1), [127], "fe007f84 7e000000",
                   [127, -127, 0, 5, -1])
        self.check("qsgd:bits=2", testing.floats(2, -2, 0, 2), [2], "4d000000", [2, -2, 0, 2])

    def test_qsgd_norms(self):
        # pow2 of 7: 8; unit 8 / 7. l2 of 3, 4: 5. rms: 1.5 sqrt(25 / 2), above both elements.
        for text, gradient, scaler in (("qsgd:norm=pow2", testing.floats(7, 1), 8),
                                       ("qsgd:norm=pow2", testing.floats(4, 1), 4),
                                       ("qsgd:norm=l2", testing.floats(3, -4), 5),
                                       ("qsgd:norm=rms,clip=1.5", testing.floats(3, -4),
                                        np.float32(1.5 * math.sqrt(12.5)))):
            self.assertEqual(one(text, gradient).local[0].tolist(), [scaler])
        # Values above s have code L: s = 0.5 sqrt(5), and |g| is 3 and 1.
        clipped = one("qsgd:norm=rms,clip=0.5", testing.floats(3, -1, 0.0))
        self.assertEqual(clipped.messages[0].payload.hex()[1], "e")
        self.assertEqual(clipped.decoded[0][0], np.float32(7) * (clipped.local[0][0] / np.float32(7)))

    def test_natural(self):
        # Powers of two are exact. s = 1; exponent fields 127, 126 with a sign, 125, 0, 0, 1.
        gradient = testing.floats(1, -0.5, 0.25, 0.0, -0.0, 2**-126)
        self.check("natural", gradient, [1], "7ffe7d00 00010000", [1, -0.5, 0.25, 0, 0, 2**-126])
        # s = 8, the power of two above 5: 4 / 8 has the field 126, -1 / 8 has 124 and a sign.
        self.assertEqual(one("natural", testing.floats(5, 4, -1)).messages[0].payload[1:3].hex(), "7efc")
        # 4 bits: levels 7, 6 with a sign, 1 for 2^-6, 0.
        self.check("natural:bits=4", testing.floats(3, -1.5, 3 * 2**-6, 0, -0.0), [3], "e7010000",
                   [3, -1.5, 3 * 2**-6, 0, 0])

    def test_sign(self):
        # Step 0, worker 0: zeros at odd positions are negative. Bits 0 1 0 1 0: 0xa. A / n = 6 / 5.
        gradient = testing.floats(1, -2, 0.0, 0.0, 3)
        scaler = float(np.float32(1.2))
        self.check("sign", gradient, [scaler], "0a000000", [scaler, -scaler, scaler, -scaler, scaler])
        self.check("sign", gradient, [scaler], "06000000", [scaler, -scaler, -scaler, scaler, scaler], step=1)
        # -0 is a zero too; l2: sqrt(16 / 4) = 2; drive: 20 / 6.
        self.check("sign:zeros=plus,scale=l2", testing.floats(-0.0, -4, 0, 0), [2], "02000000", [2, -2, 2, 2], step=1)
        self.check("sign:scale=drive", testing.floats(4, -2), [float(np.float32(20 / 6))], "02000000",
                   [float(np.float32(20 / 6)), -float(np.float32(20 / 6))])
        self.check("signsgd", testing.floats(0.125, -7), [1], "02000000", [1, -1])

    def test_onebit(self):
        # Columns (1, 3, -5) and (-2, 4, 0): a- 5 and a+ 2, a- 2 and a+ 2. Bits by rows 0 1 0 0 1 0: 2 + 16.
        gradient = testing.floats(1, -2, 3, 4, -5, 0).reshape(3, 2)
        self.check("onebit", gradient, [5, 2, 2, 2], "12000000", [2, -2, 2, 2, -5, 2])
        # One group for the whole tensor: 7 / 2 and 8 / 4.
        self.check("onebit:group=layer", gradient, [3.5, 2], "12000000", [2, -3.5, 2, 2, -3.5, 2])
        self.check("onebit", gradient.reshape(-1), [3.5, 2], "12000000", [2, -3.5, 2, 2, -3.5, 2])
        # The scaler of an empty side is 0; -0 belongs to the negative side.
        self.check("onebit", testing.floats(2, 4), [0, 3], "00000000", [3, 3])
        self.check("onebit", testing.floats(-2, -0.0), [1, 0], "03000000", [-1, -1])

    def test_fp8(self):
        # s = 1. 1 is exponent 7, mantissa 0: 38. Ties: 1.0625 to 38, 1.1875 to 3a, 2^-10 to 0. 1.875 is 3f, 2 is 40.
        gradient = testing.floats(448, 1, -1.0625, 1.1875, 2**-10, -(2**-10), -1.875, 2)
        self.check("fp8", gradient, [1], "7e38b83a 0000bf40", [448, 1, -1, 1.25, 0, 0, -1.875, 2])
        # Values on the grid do not depend on draws.
        self.check("fp8:rounding=stochastic", testing.floats(448, 1, -0.5, 2**-9), [1], "7e38b001",
                   [448, 1, -0.5, 2**-9])

    def test_blocks(self):
        gradient = np.zeros(130, np.float32)
        gradient[[0, 64, 129]] = [2, -4, 8]
        for text in ("ternary:block=64", "qsgd:block=64", "sign:block=64", "natural:bits=4,block=64"):
            result = one(text, gradient)
            self.assertEqual(len(result.messages[0].scalers), 3)
            expected = [2 / 64, -4 / 64, 4] if "sign" in text else [2, -4, 8]
            self.assertEqual(result.decoded[0][[0, 64, 129]].tolist(), expected)
        # The last block has 2 elements instead of 64; its mean is over these.
        self.assertEqual(one("sign:block=64", gradient).local[0].tolist(), [2 / 64, 4 / 64, 4])


class DrawByDraw(unittest.TestCase):
    """Stochastic rounding of each element, from its exact probability and its 40 drawn bits."""

    SEED, STEP, OFFSET, COUNT = 9, 2**33 + 5, 192, 1000

    def numbers(self, worker, purposes):
        """The draws as 40-bit numbers: 16 bits above 24."""
        r16, r24 = [of(philox.DrawKey(self.SEED, self.STEP, worker, purpose), self.OFFSET, self.COUNT).tolist()
                    for of, purpose in zip((philox.draws16, philox.draws32), purposes)]
        return [high * 2**24 + low // 256 for high, low in zip(r16, r24)]

    def exchanged(self, text):
        gradients = [awkward(self.COUNT, seed) for seed in (1, 2)]
        codec = codecs.parse(text).codec
        result = codecs.exchange(codec, gradients, self.SEED, self.STEP, self.OFFSET)
        for worker, gradient in enumerate(gradients):
            joint = codec.runs.spread(result.messages[worker].scalers, codecs.Cut.whole(gradient.shape))
            codes = codec.unpack(result.messages[worker].payload, self.COUNT)
            yield worker, zip(gradient, joint.T, codes.tolist())

    @staticmethod
    def is_up(number, fraction):
        return number < fractions.Fraction(float(fraction)) * 2**40

    def test_ternary(self):
        for text in ("ternary", "ternary:clip_factor=2,block=64,sharing=none",
                     "ternary:levels=asymmetric,clip_factor=1.5"):
            for worker, elements in self.exchanged(text):
                numbers = self.numbers(worker, (1, 2))
                for number, (g, scalers, code) in zip(numbers, elements):
                    s = scalers[-1] if np.signbit(g) else scalers[0]
                    p = np.abs(g) * (np.float32(1) / s)
                    expected = 0 if g == 0 else abs(g) >= s or self.is_up(number, p)
                    self.assertEqual(code, int(expected) * (-1 if g < 0 else 1))

    def test_qsgd(self):
        for text, top in (("qsgd:block=64", 7), ("qsgd:bits=8,norm=rms", 127), ("qsgd:bits=2,sharing=max", 1),
                          ("qsgd:norm=l2,block=0", 7)):
            for worker, elements in self.exchanged(text):
                numbers = self.numbers(worker, (10, 11))
                for number, (g, (s,), code) in zip(numbers, elements):
                    t = min(np.abs(g) * (np.float32(top) / s), np.float32(top))
                    level = top if abs(g) >= s else int(t) + self.is_up(number, float(t) - int(t))
                    self.assertEqual(code, level * (-1 if g < 0 else 1))

    def test_stratified(self):
        # Two workers: the second has 1 - u, and so have negative elements.
        for text, purposes, top in (("ternary:rounding=stratified", (1, 2), 1),
                                    ("qsgd:rounding=stratified,block=0", (10, 11), 7)):
            shared = self.numbers(0, purposes)
            for worker, elements in self.exchanged(text):
                for number, (g, (s,), code) in zip(shared, elements):
                    flips = (worker == 1) != bool(np.signbit(g))
                    t = min(np.abs(g) * (np.float32(top) / s), np.float32(top))
                    is_up = self.is_up(2**40 - 1 - number if flips else number, float(t) - int(t))
                    self.assertEqual(code, (top if abs(g) >= s else int(t) + is_up) * (-1 if g < 0 else 1))

    def test_qsgd_of_2_bits_is_ternary(self):
        # The same draws for both codecs: ternary's own purposes.
        gradient = awkward(self.COUNT, 3)
        own = specs.Qsgd(bits=2, block=0)
        local = own.measure(gradient)
        joint = own.runs.spread(local, codecs.Cut.whole(gradient.shape))

        class Equal(codecs.Draws):
            def rounds_up(self, fractions_of, first, purposes, *others):
                return super().rounds_up(fractions_of, first, (1, 2), *others)

        arguments = (gradient, joint, joint, Equal(), codecs.Cut.whole(gradient.shape))
        self.assertEqual(own.codes(*arguments).tolist(), specs.Ternary().codes(*arguments).tolist())

    def test_natural(self):
        for text, bits in (("natural", 8), ("natural:bits=4,block=64", 4), ("natural:bits=4,norm=l2", 4)):
            for worker, elements in self.exchanged(text):
                numbers = self.numbers(worker, (10, 11))
                for number, (g, (s,), code) in zip(numbers, elements):
                    y = min(np.abs(g) * (np.float32(1) / s), np.float32(1))
                    exponent, mantissa = divmod(int(np.array([y], np.float32).view(np.uint32)[0]), 2**23)
                    r16, r24 = divmod(number, 2**24)
                    up = r16 < mantissa >> 7 or (r16 == mantissa >> 7 and r24 >> 17 < mantissa & 127)
                    level = exponent + up
                    if bits == 4:
                        level = exponent - 120 + up if exponent > 120 else int(self.is_up(number, 64 * float(y)))
                    self.assertEqual(code, level + (2 ** (bits - 1) if g < 0 and level > 0 else 0))

    def test_fp8(self):
        table = [math.ldexp(m, -9) if e == 0 else math.ldexp(8 + m, e - 10) for e in range(16) for m in range(8)][:127]
        for worker, elements in self.exchanged("fp8:rounding=stochastic"):
            numbers = self.numbers(worker, (10, 11))
            for number, (g, (s,), code) in zip(numbers, elements):
                x = min(float(np.abs(g) * (np.float32(1) / s)), 448.0)
                low = max(i for i in range(127) if table[i] <= x)
                way = fractions.Fraction(x) - fractions.Fraction(table[low])
                up = low < 126 and number < way / fractions.Fraction(table[low + 1] - table[low]) * 2**40
                self.assertEqual(code, low + up + (128 if g < 0 and low + up > 0 else 0))


class Everywhere(unittest.TestCase):
    """Properties of all codecs and options."""

    SHAPES = [(0,), (1,), (2,), (63,), (65,), (300,), (1, 7), (40, 13), (513,), (91, 50)]

    def test_decoding_one_worker_is_the_mean_of_one(self):
        for text, codec in ALL:
            for seed, shape in enumerate(self.SHAPES):
                gradient = awkward(math.prod(shape), seed).reshape(shape)
                result = codecs.exchange(codec, [gradient], step=seed)
                self.assertEqual(result.mean.tobytes(), result.decoded[0].tobytes(), (text, shape))
                self.assertEqual((result.mean.dtype, len(result.mean)), (np.float32, gradient.size))
                self.assertEqual(len(result.messages[0].payload) % 4, 0)
                self.assertEqual(len(result.local[0]) == 0, gradient.size == 0)

    def test_packing_again_gives_the_payload(self):
        for text, codec in ALL:
            result = codecs.exchange(codec, [awkward(520, 1).reshape(40, 13)])
            payload = result.messages[0].payload
            self.assertEqual(codec.pack(codec.unpack(payload, 520)), payload, text)

    def test_cuts_do_not_change_codes(self):
        shape = (91, 100)
        gradients = [awkward(9100, seed).reshape(shape) for seed in (1, 2)]
        for text, codec in ALL:
            if codec.aggregation == "sparse" and codec.scope == "layer":
                continue  # tensors are not cut
            whole = codecs.exchange(codec, gradients, seed=3, draw_offset=64)
            parts = [codecs.exchange(codec, gradients, 3, 0, 64, codecs.Cut(begin, min(4096, 9100 - begin), 100))
                     for begin in range(0, 9100, 4096)]
            for k in range(2):
                self.assertEqual(np.concatenate([part.decoded[k] for part in parts]).tobytes(),
                                 whole.decoded[k].tobytes(), text)
            self.assertEqual(np.concatenate([part.mean for part in parts]).tobytes(), whole.mean.tobytes(), text)

    def test_a_tensor_that_is_not_finite_is_flagged_and_travels_as_zeros(self):
        good = awkward(300, 1).reshape(20, 15)
        for text, codec in ALL:
            for bits in (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345):
                for place in ((0, 0), (7, 4), (19, 14)):
                    bad = good.copy()
                    bad[place] = testing.bits(bits)[0]
                    local = codec.measure(bad)
                    self.assertEqual(set(local.view(np.uint32).tolist()), {0x7FC00000}, text)
                    # In a vote a non-finite tensor votes as zeros do; other codecs count it as 0.
                    result = codecs.exchange(codec, [good, bad])
                    as_zeros = codecs.exchange(codec, [good, np.zeros_like(good)])
                    self.assertEqual(result.messages[1].payload, as_zeros.messages[1].payload, text)
                    self.assertEqual(result.mean.tobytes(), as_zeros.mean.tobytes(), text)
                    if codec.aggregation != "vote":
                        self.assertEqual(np.abs(result.decoded[1]).max(), 0, text)

    def test_zeros_are_zeros(self):
        for text, codec in ALL:
            result = codecs.exchange(codec, [np.zeros((20, 15), np.float32)] * 2, step=1)
            if codec.rotate:  # turning back gives zeros both signs
                self.assertFalse(result.mean.any(), text)
            elif text != "signsgd":
                self.assertEqual(result.mean.tobytes(), bytes(1200), text)

    def test_what_is_too_small_is_zero(self):
        small, least = np.nextafter(np.float32(2.0**-86), np.float32(0)), np.float32(2.0**-86)
        for text, codec in ALL:
            if text in ("fp32", "bf16", "signsgd") or codec.aggregation == "sparse" or text == "eden":
                continue  # the unit of its three levels is above the magnitudes
            self.assertEqual(np.abs(codec.measure(np.full((2, 2), small))).max(), 0, text)
            result = codecs.exchange(codec, [np.full((2, 2), small)] * 2)
            # Turning back gives zeros both signs.
            self.assertEqual(np.abs(result.mean).tobytes() if codec.rotate else result.mean.tobytes(), bytes(16), text)
            if "original" not in text:  # whose sigma is 0
                self.assertGreater(np.abs(codec.measure(np.full((2, 2), least))).max(), 0, text)

    def test_what_is_too_large_is_flagged(self):
        for text, largest in (("ternary", 2.0**126), ("qsgd", 2.0**126), ("qsgd:norm=pow2", 2.0**126),
                              ("natural", 2.0**126), ("sign", 2.0**126), ("onebit", 2.0**126),
                              ("natural:bits=4", 2.0**126), ("eden:levels=2,rotate=64", 2.0**126),
                              ("qsgd:norm=l2", float(np.float32(2.0**126 / math.sqrt(2))))):
            codec = codecs.parse(text).codec
            gradient = np.array([largest, largest], np.float32)
            self.assertFalse(np.isnan(codec.measure(gradient)).any(), text)
            gradient = np.nextafter(gradient, np.float32(math.inf)) * np.float32(1 + 2**-22)
            self.assertTrue(np.isnan(codec.measure(gradient)).all(), text)
        self.assertFalse(np.isnan(codecs.parse("fp8").codec.measure(testing.bits(0x7F7FFFFF))).any())

    def test_workers_steps_seeds_and_offsets_draw_differently(self):
        gradient = awkward(1000, 1)
        for text, codec in ALL:
            base, step, seed, offset = (codecs.exchange(codec, [gradient] * 2, **arguments) for arguments in (
                {}, {"step": 2}, {"seed": 2}, {"draw_offset": 64}))
            payloads = {base.messages[0].payload, base.messages[1].payload, step.messages[0].payload,
                        seed.messages[0].payload, offset.messages[0].payload}
            is_drawn = getattr(codec, "rounding", "") == "stochastic" or codec.wire_id == 5
            # Bits of zeros alternate between workers and steps. randomk selects the same elements on all workers, eden
            # rotates all alike; warm-up stages select more.
            is_shared = codec.wire_id in (9, 12)
            alternates = getattr(codec, "zeros", "") == "alternate" or getattr(codec, "stage_steps", 0) > 0
            expected = 5 if is_drawn else 4 if is_shared else 2 if alternates else 1
            self.assertEqual(len(payloads), expected, text)


class Means(unittest.TestCase):
    def gradients(self, count, num_workers):
        return [awkward(count, 10 + k) for k in range(num_workers)]

    def test_shared_scalers_multiply_sums_of_codes(self):
        for text in ("ternary:clip_factor=2", "ternary:block=64,sharing=mean", "qsgd:sharing=max",
                     "qsgd:bits=8,sharing=max,block=64"):
            codec = codecs.parse(text).codec
            for num_workers in (1, 2, 3, 8):
                result = codecs.exchange(codec, self.gradients(300, num_workers))
                self.assertEqual(len({message.scalers.tobytes() for message in result.messages}), 1)
                levels = codec.lane_levels // 2
                for i in range(300):
                    s = result.messages[0].scalers[i // codec.runs.block if codec.runs.block else 0]
                    total = sum(int(codec.unpack(message.payload, 300)[i]) for message in result.messages)
                    expected = np.float32(s / np.float32(levels * num_workers)) * np.float32(total)
                    self.assertEqual(result.mean[i], expected, text)

    def test_lanes_carry_the_same_sums(self):
        for text in ("ternary", "qsgd:bits=2,sharing=max", "qsgd:sharing=max", "qsgd:bits=8,sharing=max",
                     "sign:reduce=vote"):
            codec = codecs.parse(text).codec
            result = codecs.exchange(codec, self.gradients(300, 5))
            words = np.zeros(1, np.uint64)
            for message in result.messages:
                of_worker = codec.lane_numbers(codec.unpack(message.payload, 300))
                words = words + np.frombuffer(packing.pack_lanes(of_worker, codec.lane_levels, 5), "<u8")
            offset = 5 * (codec.lane_levels // 2)
            total = packing.unpack_lanes(words.tobytes(), 300, codec.lane_levels, 5) - offset
            joint = codec.runs.spread(result.messages[0].scalers, codecs.Cut.whole((300,)))
            self.assertEqual(codec.mean_of_sum(total, joint, 5).tobytes(), result.mean.tobytes(), text)

    def test_unshared_ones_add_what_is_decoded_in_the_tree_of_workers(self):
        for text in ("fp32", "bf16", "qsgd", "natural", "sign", "onebit", "fp8", "ternary:sharing=none",
                     "ternary:levels=asymmetric"):
            result = codecs.exchange(codecs.parse(text).codec, self.gradients(300, 5))
            a, b, c, d, e = result.decoded
            expected = (((a + b) + (c + d)) + e) * (np.float32(1) / np.float32(5))
            self.assertEqual(result.mean.tobytes(), expected.tobytes(), text)

    def test_sharing(self):
        gradients = [testing.floats(1, 0.5), testing.floats(-3, 1), testing.floats(math.nan, 1),
                     testing.floats(-0.5, 0.25)]
        scalers = {sharing: [message.scalers.tolist() for message in
                             codecs.exchange(codecs.parse(f"ternary:sharing={sharing}").codec, gradients).messages]
                   for sharing in ("max", "mean", "none")}
        # A non-finite worker counts as 0, but still as one of four.
        self.assertEqual(scalers, {"max": [[3]] * 4, "mean": [[1.125]] * 4, "none": [[1], [3], [0], [0.5]]})
        asymmetric = codecs.exchange(codecs.parse("ternary:levels=asymmetric").codec, gradients)
        self.assertEqual([message.scalers.tolist() for message in asymmetric.messages], [[1, 3]] * 4)

    def test_scalers_of_a_vote_are_means(self):
        gradients = [testing.floats(1, -3), testing.floats(0.5, -0.5), testing.floats(0, 0)]
        result = codecs.exchange(codecs.parse("sign:reduce=vote,zeros=plus").codec, gradients)
        s = np.float32((2 + 0.5 + 0) / 3)
        self.assertEqual(result.mean.tolist(), [s, -s])
        self.assertEqual(codecs.exchange(codecs.parse("signsgd").codec, gradients).messages[2].scalers.tolist(), [1])

    def test_votes(self):
        gradients = self.gradients(500, 4)
        codec = codecs.parse("sign:reduce=vote,scale=one").codec
        result = codecs.exchange(codec, gradients)
        for i in range(500):
            negatives = sum(int(g[i] < 0) if g[i] != 0 else (k + i) % 2 == 1 for k, g in enumerate(gradients))
            self.assertEqual(result.mean[i], (4 - 2 * negatives > 0) - (4 - 2 * negatives < 0))
        # Without zeros, whose bits depend on the worker, a vote does not depend on the order of workers.
        gradients = [testing.gaussian(500, k) for k in range(5)]
        self.assertEqual(codecs.exchange(codec, gradients).mean.tolist(),
                         codecs.exchange(codec, gradients[::-1]).mean.tolist())
        # Zeros of an even number of workers tie.
        zeros = codecs.exchange(codec, [np.zeros(100, np.float32)] * 4, step=3).mean
        self.assertEqual(np.abs(zeros).max(), 0)
        plus = codecs.exchange(codecs.parse("sign:reduce=vote,scale=one,zeros=plus").codec,
                               [np.zeros(100, np.float32)] * 4).mean
        self.assertEqual(plus.min(), 1)

    def test_shared_scalers_that_differ_are_refused(self):
        codec = codecs.parse("ternary").codec
        messages = [codecs.Message(bytes(4), testing.floats(s)) for s in (1, 2)]
        with self.assertRaisesRegex(packing.MalformedPayload, "shared scalers differ"):
            codec.mean(messages, codecs.Cut(0, 4))

    def test_sums_that_fp32_does_not_hold_are_refused(self):
        codec = codecs.parse("qsgd:bits=8,sharing=max,block=0").codec
        with self.assertRaisesRegex(ValueError, "would not be exact"):
            codec.mean_of_sum(np.zeros(1, np.int64), testing.floats(1).reshape(1, 1), 2**24 // 127 + 1)

    def test_one_scaler_for_the_model(self):
        codec = codecs.parse("ternary:scope=model,clip_factor=1").codec
        tensors = [testing.floats(3, -3), testing.floats(), testing.floats(math.inf), testing.floats(1, 1, -1, -1)]
        local = codec.measure_model(tensors)
        # Mean 0, mean square (18 + 4) / 6.
        scaler = float(np.float32(math.sqrt(22 / 6)))
        self.assertEqual([one.tolist() for one in local[:2]] + [local[3].tolist()], [[scaler], [], [scaler]])
        self.assertTrue(np.isnan(local[2]).all())


class Refused(unittest.TestCase):
    def test_codes_that_no_encoder_writes(self):
        for text, payload in (("qsgd", "0f000000"), ("qsgd:bits=8", "ff000000"), ("qsgd:bits=2", "02000000"),
                              ("natural", "80000000"), ("natural:bits=4", "08000000"), ("fp8", "7f000000"),
                              ("fp8", "80000000"), ("fp8", "ff000000"), ("sign", "02000000"), ("onebit", "02000000"),
                              ("fp32", "00"), ("bf16", "00000100"), ("ternary", "02000000")):
            codec = codecs.parse(text).codec
            with self.assertRaises(packing.MalformedPayload, msg=text):
                codec.decode(codecs.Message(bytes.fromhex(payload), np.ones(codec.runs.scalers_each, np.float32)),
                             codecs.Cut(0, 1))

    def test_numbers_of_scalers(self):
        codec = codecs.parse("qsgd:block=64").codec
        with self.assertRaisesRegex(ValueError, "1 scalers for runs 0 to 2"):
            codec.decode(codecs.Message(bytes(64), testing.floats(1)), codecs.Cut(0, 128))


if __name__ == "__main__":
    unittest.main()
