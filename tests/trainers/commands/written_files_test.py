"""Options that name an output file never replace anything but regular files: a pipe is refused by name, and stays.

Arguments: the folder of the programs."""

import pathlib
import stat
import struct
import subprocess
import sys
import os
import tempfile
import unittest

BIN = pathlib.Path()
SMALL = ["--grad_bits", "1", "--num_nodes", "2", "--batch_size", "8", "--image_size", "16", "--max_steps", "1", "--save_iter", "1",
         "--tensorboard=false", "--device", "cpu"]


class WrittenFiles(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_program(self, program, *words):
        return subprocess.run([BIN / program, *map(str, words)], capture_output=True, text=True, timeout=120)

    def refuses(self, path, program, *words):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        result = self.run_program(program, *words)
        self.assertIn(result.returncode, (1, 2), result.stderr)
        self.assertIn(f"cannot write '{path}': not a regular file", result.stderr)
        self.assertTrue(stat.S_ISFIFO(path.stat().st_mode))
        self.assertEqual([other for other in path.parent.iterdir() if other.name.startswith(f".{path.name}")], [])
        path.unlink()

    def made(self, program, *words):
        result = self.run_program(program, *words)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_gradients(self):
        gradient, message = self.folder / "gradient.npy", self.folder / "gradient.tgrd"
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5000,), }".ljust(117) + "\n"
        gradient.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                             struct.pack("<5000f", *range(5000)))
        self.refuses(message, "terngrad_codec", "encode", gradient, message, "--codec", "ternary")
        self.made("terngrad_codec", "encode", gradient, message, "--codec", "ternary")
        for name in ("out.npy", "out.safetensors"):
            self.refuses(self.folder / name, "terngrad_codec", "decode", message, self.folder / name)
        self.refuses(self.folder / "out.json", "terngrad_codec", "inspect", gradient, "--json", self.folder / "out.json")

    def test_runs(self):
        run = self.folder / "run"
        self.made("terngrad_train", *SMALL, "--train_dir", run)
        path = self.folder / "predictions.npy"
        self.refuses(path, "terngrad_eval", "--checkpoint_dir", run, "--predictions", path)

    def test_advice(self):
        path = self.folder / "advice.json"
        self.refuses(path, "terngrad_advise", "--num_nodes", "2", "--compute_ms", "0", "--bandwidth_mbit", "100", "--json", path)
        if (BIN / "terngrad_exchange_bench").exists():
            self.refuses(path, "terngrad_exchange_bench", "--num_nodes", "2", "--json", path)

    def test_records(self):
        images, records = self.folder / "images", self.folder / "records"
        for subset in ("train", "test"):
            for name in ("first", "second"):
                (images / subset / name).mkdir(parents=True)
                (images / subset / name / "image.png").write_bytes(PNG)
        self.made("terngrad_records", "build", "--input", images, "--from", "folder", "--train_shards", "1", "--test_shards", "1",
                  "--out", records)
        path = self.folder / "shown.png"
        self.refuses(path, "terngrad_records", "show", records, "--image", path)
        index = next(records.glob("*train*index*"))
        self.refuses(index, "terngrad_records", "index", records)


PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe"
                    "0def46b80000000049454e44ae426082")

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("written_files_test.py: usage: written_files_test.py BIN")
    BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()
