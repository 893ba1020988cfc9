#!/usr/bin/env python3
"""Tests the packed formats of the reference (packing.py, e4m3.py): hand-made bytes, round trips, malformed payloads."""

import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import e4m3, packing  # noqa: E402

LENGTHS = [*range(70), 127, 128, 129, 4095, 4096, 4097, 8192, 12_289]
TERNARY = [(packing.pack_t2, packing.unpack_t2), (packing.pack_t5, packing.unpack_t5),
           (packing.pack_tmask, packing.unpack_tmask), (packing.pack_trans, packing.unpack_trans)]


class Golden(unittest.TestCase):
    def test_t2(self):
        # 01 11 00 01 11 from low bits: 1 + 3 x 4 + 0 + 1 x 64 + 3 x 256 = 0x34d.
        self.assertEqual(packing.pack_t2(np.array([1, -1, 0, 1, -1])).hex(), "4d030000")

    def test_t5(self):
        # Digits 2 0 1 2 0: 2 + 0 + 9 + 54 + 0 = 0x41; then 1 and four missing ones: 1 x 1 = 1.
        self.assertEqual(packing.pack_t5(np.array([1, -1, 0, 1, -1, 0])).hex(), "41010000")

    def test_tmask(self):
        # One chunk: its signs begin at 0 and end at 1. Mask 11011 = 0x1b. Signs + - + -: 1010 from high bits, 0x0a.
        self.assertEqual(packing.pack_tmask(np.array([1, -1, 0, 1, -1])).hex(),
                         "00000000" "01000000" "1b000000" "0a000000")

    def test_tmask_of_two_chunks(self):
        # Chunk 0 has nine non-zeros, so two bytes of signs; chunk 1 has one, negative. 129 words of mask.
        codes = np.zeros(4100, np.int64)
        codes[:9] = [-1, 1, 1, 1, 1, 1, 1, 1, -1]
        codes[4097] = -1
        payload = packing.pack_tmask(codes)
        self.assertEqual(payload[:12].hex(), "00000000" "02000000" "03000000")
        self.assertEqual(payload[12:16].hex(), "ff010000")
        self.assertEqual(payload[16 : 12 + 512], bytes(508))
        self.assertEqual(payload[12 + 512 :].hex(), "02000000" "01010100")

    def test_trans(self):
        # One chunk of three units of 2 bytes: L = 0 and a zero, mask 11011, signs 1010, filled up.
        self.assertEqual(packing.pack_trans(np.array([1, -1, 0, 1, -1])).hex(), "00000000" "02000000" "0000" "1b0a")

    def test_coded_masks(self):
        # All codes 0: level 63; byte 0 has frequency 4096 minus the others and start 0. States below f 2^19 emit no
        # word.
        frequencies = packing.mask_frequencies(63)
        self.assertEqual(frequencies.sum(), 4096)
        self.assertEqual([int(frequencies[byte]) for byte in (1, 128, 3, 255)], [57, 57, 1, 1])
        x = [2**15, 2**15]
        for place in reversed(range(9)):  # nine bytes: five update the even state
            f = int(frequencies[0])
            x[place % 2] = x[place % 2] // f * 4096 + x[place % 2] % f
        self.assertEqual(packing.code_mask(np.zeros(72, np.uint8)), bytes([63, 0]) + np.array(x, "<u4").tobytes())
        # Eight raw bytes are not longer than two states.
        self.assertEqual(packing.code_mask(np.zeros(64, np.uint8)), bytes(10))

    def test_trans_of_two_chunks(self):
        # Chunk 0 has one non-zero: ten bytes of level and states, perhaps words, one byte of signs. Chunk 1 is raw.
        codes = np.zeros(4100, np.int64)
        codes[7], codes[4097] = -1, -1
        payload = packing.pack_trans(codes)
        first = int.from_bytes(payload[4:8], "little")
        self.assertEqual((payload[:4], int.from_bytes(payload[8:12], "little")), (bytes(4), first + 2))
        self.assertEqual(payload[12 + 2 * first - 2 : 12 + 2 * first].hex(), "0100")
        self.assertEqual(payload[12 + 2 * first :][:4].hex(), "0000" "0201")

    def test_fields(self):
        # q4, L = 7: 14 0 7 10 6 as nibbles from low ones.
        self.assertEqual(packing.pack_fields(np.array([14, 0, 7, 10, 6]), 4).hex(), "0ea70600")
        self.assertEqual(packing.pack_fields(np.array([254, 0, 127, 130, 126]), 8).hex(), "fe007f82" "7e000000")
        # Bits 1 0 0 1 1 0 1: 1 + 8 + 16 + 64 = 0x59. The 33rd begins a word.
        self.assertEqual(packing.pack_fields(np.array([1, 0, 0, 1, 1, 0, 1]), 1).hex(), "59000000")
        self.assertEqual(packing.pack_fields(np.array([0] * 32 + [1]), 1).hex(), "00000000" "01000000")

    def test_lanes(self):
        # Two levels a worker, two workers: 3 bits. 4 0 2 3: 4 + 0 + 2 x 64 + 3 x 512 = 0x684.
        self.assertEqual(packing.pack_lanes(np.array([4, 0, 2, 3]), 2, 2).hex(), "8406000000000000")
        # 21 lanes of 3 bits per word, the highest bit stays free; the 22nd lane starts a new word.
        self.assertEqual(packing.pack_lanes(np.array([4] * 22), 2, 2).hex(), "2449922449922449" "0400000000000000")
        # Votes of three workers: 2 bits.
        self.assertEqual(packing.pack_lanes(np.array([3, 0, 1, 2]), 1, 3).hex(), "9300000000000000")
        levels_and_workers = [(2, 1), (2, 2), (2, 8), (14, 3), (254, 8), (1, 1), (1, 3), (1, 4)]
        self.assertEqual([packing.lane_bits(*each) for each in levels_and_workers], [2, 3, 5, 6, 11, 1, 2, 3])

    def test_lanes_add_as_integers(self):
        random = np.random.default_rng(1)
        for levels, workers in ((2, 1), (2, 3), (2, 8), (14, 5), (254, 8), (1, 7)):
            numbers = random.integers(0, levels + 1, (workers, 300))
            numbers[:, :2] = [0, levels]  # the smallest and the largest sum
            total = sum(np.frombuffer(packing.pack_lanes(one, levels, workers), "<u8") for one in numbers)
            self.assertEqual(packing.unpack_lanes(total.tobytes(), 300, levels, workers).tolist(),
                             numbers.sum(axis=0).tolist())


class RoundTrips(unittest.TestCase):
    def test_ternary(self):
        random = np.random.default_rng(2)
        for length in LENGTHS:
            for codes in (random.integers(-1, 2, length), np.zeros(length, np.int64), np.full(length, -1)):
                for pack, unpack in TERNARY:
                    payload = pack(codes)
                    self.assertEqual(len(payload) % 4, 0)
                    self.assertEqual(unpack(payload, length).tolist(), codes.tolist())

    def test_lengths(self):
        for length in LENGTHS:
            codes = np.ones(length, np.int64)
            self.assertEqual(len(packing.pack_t2(codes)), 4 * math.ceil(length / 16))
            self.assertEqual(len(packing.pack_t5(codes)), 4 * math.ceil(math.ceil(length / 5) / 4))
            signs = sum(math.ceil(min(4096, length - begin) / 8) for begin in range(0, length, 4096))
            self.assertEqual(len(packing.pack_tmask(codes)),
                             4 * (math.ceil(length / 4096) + 1) + 4 * math.ceil(length / 32) + 4 * math.ceil(signs / 4))
            for width in (1, 4, 8):
                self.assertEqual(len(packing.pack_fields(codes, width)), 4 * math.ceil(length * width / 32))

    def test_fields(self):
        random = np.random.default_rng(3)
        for width, word in ((1, 32), (2, 32), (4, 32), (8, 32), (3, 64), (5, 64), (11, 64)):
            for length in LENGTHS:
                fields = random.integers(0, 2**width, length)
                payload = packing.pack_fields(fields, width, word)
                self.assertEqual(packing.unpack_fields(payload, length, width, word).tolist(), fields.tolist())


class Refused(unittest.TestCase):
    def assert_refused(self, unpack, payload, *arguments):
        with self.assertRaises(packing.MalformedPayload):
            unpack(bytes.fromhex(payload), *arguments)

    def test_ternary(self):
        for unpack, payload, count in (
                (packing.unpack_t2, "02000000", 1), (packing.unpack_t2, "04000000", 1),
                (packing.unpack_t2, "0000000000000000", 16), (packing.unpack_t5, "f3000000", 5),
                (packing.unpack_t5, "04000000", 1), (packing.unpack_t5, "01000001", 5),
                (packing.unpack_tmask, "0000000001000000" "01000000" "02000000", 1),  # a second sign
                (packing.unpack_tmask, "0000000002000000" "01000000" "00000000", 1),  # a second byte of signs
                (packing.unpack_tmask, "0000000001000000" "03000000" "00000000", 1),  # a second non-zero
                (packing.unpack_tmask, "0100000001000000" "01000000" "00000000", 1),  # signs that begin later
                (packing.unpack_tmask, "0000000001000000" "01000000" "00000001", 1),
                (packing.unpack_tmask, "00000000", 1),
                (packing.unpack_trans, "0000000002000000" "0000" "0102", 1),  # a second sign
                (packing.unpack_trans, "0000000002000000" "0000" "0300", 1),  # a second non-zero
                (packing.unpack_trans, "0100000002000000" "0000" "0100", 1),  # a record that begins later
                (packing.unpack_trans, "0000000003000000" "0000" "0100" "0000" "0000", 1),  # a longer record
                (packing.unpack_trans, "0000000002000000" "0001" "0100", 1),
                (packing.unpack_trans, "0000000002000000" "0b00" "0100", 1),
                (packing.unpack_trans, "0000000001000000" "0000" "0000", 1),
                (packing.unpack_trans, "00000000", 1)):
            self.assert_refused(unpack, payload, count)

    def test_fields(self):
        self.assert_refused(packing.unpack_fields, "00100000", 3, 4)
        self.assert_refused(packing.unpack_fields, "0000000000000000", 8, 4)
        self.assert_refused(packing.unpack_fields, "000000", 6, 4)
        # 63 bits are lanes; the last bit must be 0.
        self.assert_refused(packing.unpack_lanes, "0000000000000080", 21, 2, 2)
        self.assert_refused(packing.unpack_lanes, "0500000000000000", 1, 2, 2)


class E4m3(unittest.TestCase):
    """Definition: exponent bits e, mantissa bits m; m 2^-9 if e is 0, else (1 + m / 8) 2^(e - 7)."""

    VALUES = [math.ldexp(code % 8, -9) if code < 8 else math.ldexp(1 + code % 8 / 8, code // 8 - 7)
              for code in range(127)]

    def test_all_codes(self):
        codes = np.array([code for code in range(256) if code not in (0x7F, 0x80, 0xFF)])
        expected = [-self.VALUES[code - 128] if code >= 128 else self.VALUES[code] for code in codes.tolist()]
        self.assertEqual(e4m3.values(codes).tolist(), expected)
        magnitudes = np.array(self.VALUES, np.float32)
        self.assertEqual(e4m3.nearest(magnitudes).tolist(), list(range(127)))
        low, _, way = e4m3.neighbours(magnitudes)
        self.assertEqual((low.tolist(), way.tolist()), (list(range(127)), [0] * 127))
        for code in (0x7F, 0x80, 0xFF):
            with self.assertRaises(packing.MalformedPayload):
                e4m3.values(np.array([code]))

    def test_all_ties_go_to_even_and_their_neighbours_to_the_nearest(self):
        for low in range(126):
            tie = np.float32((self.VALUES[low] + self.VALUES[low + 1]) / 2)  # five bits: exact
            around = np.array([np.nextafter(tie, np.float32(0)), tie, np.nextafter(tie, np.float32(1000))])
            self.assertEqual(e4m3.nearest(around).tolist(), [low, low + low % 2, low + 1])
            self.assertEqual(e4m3.neighbours(np.array([tie]))[2].tolist(), [0.5])

    def test_saturation(self):
        self.assertEqual(e4m3.nearest(testing.floats(448, 463.9, 464, 465, 1e30)).tolist(), [0x7E] * 5)
        low, _, way = e4m3.neighbours(testing.floats(448.00003, 1e30))
        self.assertEqual((low.tolist(), way.tolist()), ([0x7E] * 2, [0, 0]))

    def test_upper_halves_of_fp32(self):
        # All positive bf16 values at once, compared with rounding to multiples of 2^(exponent - 3), at least 2^-9.
        halves = (np.arange(0x7F80, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        exponents = np.maximum(np.floor(np.log2(np.maximum(halves, 2.0**-126))), -6)
        spacing = np.exp2(exponents - 3)
        expected = np.minimum(np.rint(halves / spacing) * spacing, 448)
        self.assertEqual(e4m3.values(e4m3.nearest(halves.astype(np.float32))).tolist(), expected.tolist())

    def test_ways_between_neighbours_are_exact(self):
        random = np.random.default_rng(4)
        some = (random.random(2000, np.float32) * np.exp2(random.integers(-20, 9, 2000))).astype(np.float32)
        some = np.minimum(some, np.float32(448))
        low, high, way = e4m3.neighbours(some)
        lows, highs = (np.array(self.VALUES)[codes] for codes in (low, high))
        self.assertEqual((lows + way.astype(np.float64) * (highs - lows)).astype(np.float32).tolist(), some.tolist())

    def test_zero_has_no_sign(self):
        self.assertEqual(e4m3.with_signs(np.array([0, 0, 1]), np.array([True, False, True])).tolist(), [0, 0, 0x81])


if __name__ == "__main__":
    unittest.main()
