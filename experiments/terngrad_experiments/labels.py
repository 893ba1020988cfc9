"""True classes of a data set's test images, read from its files."""

import gzip
import lzma
import pathlib
import struct

from terngrad_experiments import jobs

# File suffixes in the order in which the commands try them.
OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}
IDX_LABELS = 0x801
# A label and 32 x 32 pixels with three colours.
CIFAR10_RECORD = 1 + 32 * 32 * 3


class LabelsError(Exception):
    """Files of labels that are missing or damaged."""


def read_file(folder, name):
    """The bytes of a file, unpacked. @throws LabelsError"""
    for suffix, opener in OPENERS.items():
        path = pathlib.Path(folder) / f"{name}{suffix}"
        if path.exists():
            try:
                with opener(path, "rb") as file:
                    return file.read()
            except (OSError, EOFError, lzma.LZMAError) as error:
                raise LabelsError(f"{path}: {error}") from None
    raise LabelsError(f"{folder}: no {name}")


def mnist(folder):
    name = "t10k-labels-idx1-ubyte"
    content = read_file(folder, name)
    if len(content) < 8 or struct.unpack(">ii", content[:8]) != (IDX_LABELS, len(content) - 8):
        raise LabelsError(f"{folder}: {name} is no file of labels in IDX format, or cut off")
    return content[8:]


def cifar10(folder):
    inner = pathlib.Path(folder) / "cifar-10-batches-bin"
    content = read_file(inner if inner.is_dir() else folder, "test_batch.bin")
    if not content or len(content) % CIFAR10_RECORD:
        raise LabelsError(f"{folder}: test_batch.bin has {len(content)} bytes, which are no records of {CIFAR10_RECORD}")
    return content[::CIFAR10_RECORD]


READERS = {"mnist": mnist, "cifar10": cifar10}


class Labels:
    """Labels of the data sets below a folder, each read once."""

    def __init__(self, data):
        self.data = data
        self.known = {}

    def of(self, dataset):
        """One byte per test image; None for data sets whose labels this module cannot read.

        @throws LabelsError"""
        if dataset not in READERS:
            return None
        if dataset not in self.known:
            try:
                self.known[dataset] = READERS[dataset](jobs.data_folder(self.data, dataset))
            except jobs.DataMissing as error:
                raise LabelsError(str(error)) from None
        return self.known[dataset]
