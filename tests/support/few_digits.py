"""Small data sets in the format of MNIST for tests that train. Generating the built-in set takes longer than such a test."""

import pathlib
import random
import struct


def write_digits(folder, num_train=160, num_test=40):
    """Writes the four files, with the same noise every time, to an existing folder."""
    numbers = random.Random(1)
    for name, count in (("train", num_train), ("t10k", num_test)):
        pixels = numbers.randbytes(count * 28 * 28)
        labels = bytes(numbers.randrange(10) for _ in range(count))
        pathlib.Path(folder, f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + pixels)
        pathlib.Path(folder, f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)
