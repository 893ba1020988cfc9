"""Tests of scripts/gpu/pack_images.py."""

import lzma
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    sys.exit(77)

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu/pack_images.py"


def batch(seed, count=7):
    """Random images: some smooth, some noise, some black and white."""
    random = np.random.default_rng(seed)
    records = random.integers(0, 256, (count, 3073), dtype=np.uint8)
    ramp = np.add.outer(np.arange(32), 3 * np.arange(32)).astype(np.uint8)
    records[0, 1:] = np.tile(ramp.ravel(), 3)
    records[1, 1:] = 255 * random.integers(0, 2, 3072)
    records[2, 1:] = 0
    return records.tobytes()


class PackImages(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "in").mkdir()

    def run_script(self, *arguments, code=0):
        result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def test_unpacks_the_bytes_that_were_packed(self):
        batches = {f"data_batch_{i}": batch(i) for i in (1, 2)}
        (self.folder / "in" / "data_batch_1.bin").write_bytes(batches["data_batch_1"])
        with lzma.open(self.folder / "in" / "data_batch_2.bin.xz", "wb") as file:
            file.write(batches["data_batch_2"])
        (self.folder / "in" / "batches.meta.txt").write_text("airplane\n")
        self.run_script("pack", self.folder / "in", self.folder / "packed")
        self.assertEqual(sorted(path.name for path in (self.folder / "packed").iterdir()), ["data_batch_1.cifar", "data_batch_2.cifar"])
        self.run_script("unpack", self.folder / "packed", self.folder / "out")
        self.assertEqual({path.stem: path.read_bytes() for path in (self.folder / "out").iterdir()}, batches)

    def test_damaged_files_are_refused_by_name(self):
        (self.folder / "in" / "test_batch.bin").write_bytes(batch(3))
        self.run_script("pack", self.folder / "in", self.folder / "packed")
        packed = self.folder / "packed" / "test_batch.cifar"
        whole = packed.read_bytes()
        for damaged in (whole[:10], whole[:-1], whole[:300] + bytes([whole[300] ^ 1]) + whole[301:]):
            packed.write_bytes(damaged)
            self.assertIn("test_batch.cifar: ", self.run_script("unpack", self.folder / "packed", self.folder / "out", code=1))
            self.assertFalse((self.folder / "out" / "test_batch.bin").exists())
        (self.folder / "in" / "test_batch.bin").write_bytes(batch(3)[:-1])
        self.assertIn("no whole images", self.run_script("pack", self.folder / "in", self.folder / "packed", code=1))

    def test_refuses_wrong_usage(self):
        self.assertIn("has no files *_batch*.bin", self.run_script("pack", self.folder, self.folder / "out", code=2))
        self.assertIn("usage", self.run_script("unzip", self.folder, self.folder, code=2))


if __name__ == "__main__":
    unittest.main()
