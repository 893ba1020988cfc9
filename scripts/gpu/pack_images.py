#!/usr/bin/env python3
"""Packs the binary batches of CIFAR-10 without loss, to four fifths of what xz makes of them, and unpacks them.

Usage: scripts/gpu/pack_images.py pack IN_DIR OUT_DIR     *_batch*.bin, or .bin.xz or .bin.gz, each into a .cifar file
       scripts/gpu/pack_images.py unpack IN_DIR OUT_DIR   each .cifar file into a .bin file of the same bytes

Needs NumPy. A pixel is predicted from those to the left and above by the median edge detector of JPEG-LS (Weinberger,
Seroussi, Sapiro, IEEE Transactions on Image Processing 2000), red and blue as differences from green, and what is left goes
through LZMA. A .cifar file begins with six numbers of 32 bits, little-endian: how many images it has; how many bytes the
compressed labels, green, red and blue have, which follow; and the CRC-32 of the unpacked file.

Exit codes: 0 done, 1 a file is damaged or missing, 2 wrong usage.
"""

import gzip
import lzma
import multiprocessing
import pathlib
import struct
import sys
import zlib

import numpy as np

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
HEADER = struct.Struct("<6I")  # number of images, bytes of four parts, CRC-32
OPENERS = {".bin": open, ".xz": lzma.open, ".gz": gzip.open}


class DamagedFile(Exception):
    """A damaged or unexpected file."""


def predicted(plane, y, x):
    """Prediction of pixel (y, x) from previous pixels, for all images. @param plane  [images, SIDE, SIDE]"""
    if y == 0:
        return plane[:, 0, x - 1] if x else np.zeros(len(plane), plane.dtype)
    if x == 0:
        return plane[:, y - 1, 0]
    left, above, corner = plane[:, y, x - 1], plane[:, y - 1, x], plane[:, y - 1, x - 1]
    high, low = np.maximum(left, above), np.minimum(left, above)
    return np.where(corner >= high, low, np.where(corner <= low, high, left + above - corner))


def pack(source, target):
    with OPENERS[source.suffix](source, "rb") as file:
        raw = file.read()
    if not raw or len(raw) % RECORD != 0:
        raise DamagedFile(f"{source}: {len(raw)} bytes are no whole images of {RECORD}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)
    red, green, blue = records[:, 1:].reshape(-1, 3, SIDE, SIDE).astype(np.int16).transpose(1, 0, 2, 3)
    parts = [records[:, 0].tobytes()]
    for plane in (green, red - green, blue - green):
        rest = np.empty(plane.shape, np.uint8)
        for y in range(SIDE):
            for x in range(SIDE):
                rest[:, y, x] = (plane[:, y, x] - predicted(plane, y, x)) & 255
        parts.append(rest.tobytes())
    packed = [lzma.compress(part, lzma.FORMAT_RAW, filters=FILTERS) for part in parts]
    target.write_bytes(HEADER.pack(len(records), *map(len, packed), zlib.crc32(raw)) + b"".join(packed))


def unpack(source, target):
    data = source.read_bytes()
    if len(data) < HEADER.size:
        raise DamagedFile(f"{source}: {len(data)} bytes are less than a header")
    count, *sizes, checksum = HEADER.unpack_from(data)
    if len(data) != HEADER.size + sum(sizes):
        raise DamagedFile(f"{source}: {len(data)} bytes, expected {HEADER.size + sum(sizes)}")
    at, parts = HEADER.size, []
    try:
        for size in sizes:
            parts.append(np.frombuffer(lzma.decompress(data[at:at + size], lzma.FORMAT_RAW, filters=FILTERS), np.uint8))
            at += size
        records = np.empty((count, RECORD), np.uint8)
        records[:, 0] = parts[0]
        pixels = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
        green = restored(parts[1], count, None)
        pixels[:, 1] = green.transpose(2, 0, 1)
        for part, channel in zip(parts[2:], (0, 2)):
            pixels[:, channel] = (restored(part, count, green) + green).transpose(2, 0, 1)
    except (lzma.LZMAError, ValueError) as error:
        raise DamagedFile(f"{source}: {error}") from None
    raw = records.tobytes()
    if zlib.crc32(raw) != checksum:
        raise DamagedFile(f"{source}: its checksum is wrong")
    target.write_bytes(raw)


def restored(part, count, green):
    """A plane [SIDE, SIDE, images], as difference from green if that is given. Images come last, so that a pixel of all images is
    contiguous."""
    rest = np.ascontiguousarray(part.reshape(count, SIDE, SIDE).transpose(1, 2, 0)).astype(np.int16)
    plane = np.zeros((SIDE, SIDE, count), np.int16)
    images_first = plane.transpose(2, 0, 1)
    for y in range(SIDE):
        for x in range(SIDE):
            value = predicted(images_first, y, x) + rest[y, x]
            plane[y, x] = value & 255 if green is None else ((value + green[y, x]) & 255) - green[y, x]
    return plane


def run(job):
    """@returns the error, or None"""
    function, source, target = job
    try:
        function(source, target)
    except (DamagedFile, OSError, EOFError, lzma.LZMAError) as error:
        return str(error)
    return None


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("pack", "unpack"):
        print("pack_images.py: usage: pack_images.py pack|unpack IN_DIR OUT_DIR", file=sys.stderr)
        return 2
    verb, source, target = arguments[0], *map(pathlib.Path, arguments[1:])
    patterns = ["*_batch*.bin", "*_batch*.bin.xz", "*_batch*.bin.gz"] if verb == "pack" else ["*.cifar"]
    files = sorted(path for pattern in patterns for path in source.glob(pattern))
    if not files:
        print(f"pack_images.py: '{source}' has no files {', '.join(patterns)}", file=sys.stderr)
        return 2
    target.mkdir(parents=True, exist_ok=True)
    ending = ".cifar" if verb == "pack" else ".bin"
    jobs = [({"pack": pack, "unpack": unpack}[verb], path, target / (path.name.split(".")[0] + ending)) for path in files]
    with multiprocessing.Pool(min(len(jobs), multiprocessing.cpu_count())) as pool:
        errors = [error for error in pool.map(run, jobs, chunksize=1) if error]
    for error in errors:
        print(f"pack_images.py: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
