"""Compares the output of scripts/read_messages.py on messages of a training with the reference decoder.

    tests/python/read_messages_test.py build/ci/bin/terngrad_train
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from reference import codecs, messages, rotation  # noqa: E402
from support import dumped_run  # noqa: E402


class ReadMessages(unittest.TestCase):
    def read(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts/read_messages.py", *map(str, arguments)], capture_output=True, text=True)

    def check(self, spec, *options):
        with tempfile.TemporaryDirectory() as folder:
            run = dumped_run.DumpedRun(TRAIN, folder, 2, 1, "--exchange", "scatter_reduce", "--codec_memory", "none", "--seed", 7,
                                       "--quantize_logits", "--codec", spec, *options)
            result = self.read(f"{folder}/dump", "--npy", f"{folder}/npy", "--seed", 7)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            files = 0
            for path in sorted(pathlib.Path(folder).glob("dump/*.msg")):
                message = messages.read(path.read_bytes())
                self.assertIn(f"{path}\n  {message.kind} of worker {message.worker}, step 0: ", result.stdout)
                for record in message.records:
                    written = pathlib.Path(folder) / "npy" / f"{path.stem}-tensor-{record.segment}-from-{record.first}.npy"
                    if message.kind == "mean" and record.codec not in (messages.FP32, messages.BF16):
                        self.assertFalse(written.exists())
                    if message.kind != "gradient" or not record.count:
                        continue
                    shape = run.shape(record.segment)
                    codec = codecs.parse(spec).codec
                    cut = codecs.Cut(record.first, record.count, codecs.Cut.whole(shape).columns)
                    expected = codec.decode(codecs.Message(record.payload, record.scalers), cut)
                    if codec.rotate:
                        offset = sum(-(-int(numpy.prod(run.shape(i))) // 64) * 64 for i in range(record.segment))
                        expected = rotation.turn_back(expected, codec.rotate, 7, 0, offset + record.first,
                                                      codec.rotates_tails_twice)
                    self.assertEqual(numpy.load(written).tobytes(), expected.tobytes())
                    files += 1
            self.assertGreater(files, 10)
            return result.stdout

    def test_elements_are_those_of_the_reference(self):
        text = self.check("ternary:clip_factor=2.5,scope=block,block=640", "--downlink_codec", "sums")
        self.assertRegex(text, r"tensor 0 conv1/weights \[5, 5, 1, 20\], 500 elements from 0: ternary format 1, 128 bytes, scaler \S+, "
                               r"\d+\.\d\d % zeros: ")
        for spec in "qsgd:rotate=1024", "eden:levels=4", "onebit", "topk:density=0.05", "randomk:density=0.125":
            self.check(spec)

    def test_damage_is_named_and_other_messages_are_read(self):
        import terngrad
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder) / "a.msg", pathlib.Path(folder) / "b.msg"
            data = bytes(terngrad.encode(numpy.ones(20, numpy.float32)))
            good.write_bytes(data)
            bad.write_bytes(data[:-1] + b"\xff")
            result = self.read(bad, good)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
            self.assertRegex(result.stderr, r"read_messages.py: \S+b.msg: .*checksum")
            self.assertIn("tensor 0, 20 elements from 0: ternary format 1, ", result.stdout)
            self.assertIn("has no messages", self.read(ROOT / "docs").stderr)


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
