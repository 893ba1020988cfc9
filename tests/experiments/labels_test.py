#!/usr/bin/env python3
"""Tests of reading the labels of test images from the data sets' files."""

import gzip
import struct
import unittest

from scaffold import InFolder
from terngrad_experiments import labels

IDX = struct.pack(">ii", 0x801, 4) + bytes([7, 2, 1, 0])
RECORDS = b"".join(bytes([label]) + bytes([9]) * 3072 for label in (3, 8, 8, 0))


class Files(InFolder):
    def setUp(self):
        super().setUp()
        self.data = self.folder

    def write(self, name, content):
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def of(self, dataset):
        return labels.Labels(self.data).of(dataset)

    def refused(self, dataset, words):
        with self.assertRaisesRegex(labels.LabelsError, words):
            self.of(dataset)

    def test_mnist(self):
        self.write("mnist/t10k-labels-idx1-ubyte", IDX)
        self.assertEqual(list(self.of("mnist")), [7, 2, 1, 0])

    def test_compressed(self):
        self.write("mnist/t10k-labels-idx1-ubyte.gz", gzip.compress(IDX))
        self.assertEqual(list(self.of("mnist")), [7, 2, 1, 0])

    def test_cifar10_with_and_without_its_folder(self):
        path = self.write("cifar10/cifar-10-batches-bin/test_batch.bin", RECORDS)
        self.assertEqual(list(self.of("cifar10")), [3, 8, 8, 0])
        path.rename(self.data / "cifar10" / "test_batch.bin")
        path.parent.rmdir()
        self.assertEqual(list(self.of("cifar10")), [3, 8, 8, 0])

    def test_they_are_read_once(self):
        path = self.write("mnist/t10k-labels-idx1-ubyte", IDX)
        known = labels.Labels(self.data)
        first = known.of("mnist")
        path.unlink()
        self.assertIs(known.of("mnist"), first)

    def test_other_data_sets_have_none_here(self):
        self.assertIsNone(self.of("synthetic"))
        self.assertIsNone(self.of("imagenet"))

    def test_what_is_missing_or_damaged_is_named(self):
        self.refused("mnist", "has no folder mnist; scripts/download_data.sh mnist gets it")
        path = self.write("mnist/t10k-labels-idx1-ubyte", IDX[:-1])
        self.refused("mnist", "t10k-labels-idx1-ubyte is no file of labels in IDX format, or cut off")
        path.unlink()
        self.refused("mnist", "no t10k-labels-idx1-ubyte")
        self.write("mnist/t10k-labels-idx1-ubyte.gz", gzip.compress(IDX)[:-9])
        self.refused("mnist", r"t10k-labels-idx1-ubyte\.gz: ")
        self.write("cifar10/test_batch.bin", RECORDS[:-1])
        self.refused("cifar10", "has 12291 bytes, which are no records of 3073")


if __name__ == "__main__":
    unittest.main()
