#!/usr/bin/env python3
"""Tests the sums of the reference (statistics.py, worker_tree.py) against plain loops in the same orders."""

import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import statistics, worker_tree  # noqa: E402


def sum_by_the_document(values):
    """The four rules of docs/wire-format.md, element by element."""
    slots = [0.0] * 256
    for chunk in range(-(-len(values) // 4096)):
        rows = [[0.0] * 16 for _ in range(8)]
        for i, value in enumerate(values[4096 * chunk : 4096 * (chunk + 1)]):
            rows[i // 512][i % 16] += value
        lanes = [((a + b) + (c + d)) + ((e + f) + (g + h)) for a, b, c, d, e, f, g, h in zip(*rows)]
        for half in (8, 4, 2, 1):
            lanes = [lanes[j] + lanes[j + half] for j in range(half)]
        slots[chunk % 256] += lanes[0]
    for half in (128, 64, 32, 16, 8, 4, 2, 1):
        slots = [slots[j] + slots[j + half] for j in range(half)]
    return slots[0]


def column_sum_by_the_document(values):
    slots = [0.0] * 256
    for number, begin in enumerate(range(0, len(values), 64)):
        block = 0.0
        for value in values[begin : begin + 64]:
            block += value
        slots[number % 256] += block
    for half in (128, 64, 32, 16, 8, 4, 2, 1):
        slots = [slots[j] + slots[j + half] for j in range(half)]
    return slots[0]


def spread(count, seed):
    """Numbers over 60 octaves, whose sum depends on the order."""
    random = np.random.default_rng(seed)
    return random.standard_normal(count) * np.exp2(random.integers(-30, 30, count))


class Tree(unittest.TestCase):
    def test_a_run(self):
        for count in (1, 2, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097, 9000, 50_000):
            values = spread(count, count)
            self.assertEqual(statistics.tree_sums(values).tolist(), [sum_by_the_document(values.tolist())], count)

    def test_many_chunks_share_slots(self):
        # 300 chunks: slots 0 to 43 have two each.
        values = np.zeros(300 * 4096)
        values[::4096] = spread(300, 1)
        chunks = values[::4096].tolist()
        slots = [chunks[j] + (chunks[j + 256] if j + 256 < 300 else 0.0) for j in range(256)]
        while len(slots) > 1:
            slots = [a + b for a, b in zip(slots[: len(slots) // 2], slots[len(slots) // 2 :])]
        self.assertEqual(statistics.tree_sums(values).tolist(), slots)

    def test_blocks(self):
        values = spread(10_000, 3)
        for block in (64, 128, 512, 576, 640, 4096, 4160, 8192, 16_384):
            expected = [sum_by_the_document(values[i : i + block].tolist()) for i in range(0, len(values), block)]
            self.assertEqual(statistics.tree_sums(values, block).tolist(), expected, block)

    def test_columns(self):
        for rows, columns in ((1, 1), (1, 5), (3, 2), (63, 3), (65, 3), (1000, 7), (20_000, 2)):
            values = spread(rows * columns, rows).reshape(rows, columns)
            expected = [column_sum_by_the_document(column.tolist()) for column in values.T]
            self.assertEqual(statistics.column_sums(values).tolist(), expected, (rows, columns))

    def test_order_matters_here(self):
        values = spread(9000, 4)
        self.assertNotEqual(statistics.tree_sums(values)[0], float(values.sum()))
        self.assertNotEqual(statistics.tree_sums(values)[0], statistics.column_sums(values.reshape(-1, 1))[0])
        self.assertAlmostEqual(statistics.tree_sums(values)[0] / math.fsum(values), 1, delta=1e-9)


class Measured(unittest.TestCase):
    def test_statistics(self):
        measured = statistics.statistics_of(testing.floats(1, -3, 0.5, 0, *[0] * 60, -7), 64)
        self.assertEqual([values.tolist() for values in (measured.count, measured.sum, measured.sum_squares,
                                                         measured.sum_magnitudes, measured.max)],
                         [[64, 1], [-1.5, -7], [10.25, 49], [4.5, 7], [3, 7]])
        self.assertTrue(measured.are_finite())
        # Squares of fp32 numbers are exact in fp64.
        self.assertEqual(statistics.statistics_of(testing.floats(3e38, 1e-45)).sum_squares[0],
                         float(np.float32(3e38)) ** 2)

    def test_sides(self):
        # The sign bit decides: -0 is negative.
        sides = statistics.signed_statistics_of(testing.floats(1, -3, 0.0, -0.0, -2, 4))
        self.assertEqual([values.tolist() for values in vars(sides).values()][:4], [[3], [3], [5], [5]])
        self.assertEqual((sides.max_positive.view(np.float32).tolist(), sides.max_negative.view(np.float32).tolist()),
                         ([4], [3]))
        matrix = testing.floats(1, -2, 3, 4, -5, 0)
        sides = statistics.signed_column_statistics_of(matrix, 2)
        self.assertEqual([values.tolist() for values in vars(sides).values()][:4], [[2, 2], [1, 1], [4, 4], [5, 2]])

    def test_not_finite(self):
        for value in (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF):
            gradient = np.concatenate([testing.floats(1, 2), testing.bits(value)])
            self.assertFalse(statistics.statistics_of(gradient).are_finite())
            self.assertFalse(statistics.signed_statistics_of(gradient).are_finite())

    def test_no_elements(self):
        none = testing.floats()
        self.assertEqual(len(statistics.statistics_of(none).sum), 0)
        self.assertEqual(len(statistics.signed_statistics_of(none).sum_positive), 0)

    def test_several_tensors_as_one(self):
        nan = testing.bits(0x7FC00000)
        parts = [statistics.statistics_of(part)
                 for part in (testing.floats(1, -2), testing.floats(), nan, testing.floats(0.5))]
        joint = statistics.combined(parts)
        self.assertEqual([values.tolist() for values in (joint.count, joint.sum, joint.sum_squares,
                                                         joint.sum_magnitudes, joint.max)],
                         [[3], [-0.5], [5.25], [3.5], [2]])


class Workers(unittest.TestCase):
    def test_the_tree_splits_at_powers_of_two(self):
        a, b, c, d, e, f, g = (testing.gaussian(1000, seed) for seed in range(7))
        for values, expected in (([a], a), ([a, b], a + b), ([a, b, c], (a + b) + c), ([a, b, c, d], (a + b) + (c + d)),
                                 ([a, b, c, d, e], ((a + b) + (c + d)) + e),
                                 ([a, b, c, d, e, f, g], ((a + b) + (c + d)) + ((e + f) + g))):
            self.assertEqual(worker_tree.tree_sum(values).tobytes(), expected.tobytes())
            mean = expected * (np.float32(1) / np.float32(len(values)))
            self.assertEqual(worker_tree.tree_mean(values).tobytes(), mean.tobytes())
        self.assertNotEqual((((a + b) + c) + d).tobytes(), worker_tree.tree_sum([a, b, c, d]).tobytes())


if __name__ == "__main__":
    unittest.main()
