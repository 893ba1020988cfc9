#!/usr/bin/env python3
"""Tests scripts/bench/bench_codecs.py on gradients of one tensor. Argument: the folder of terngrad_codec. Exits 77 (skipped)
without numpy."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench"
sys.path.insert(0, str(SCRIPTS))

try:
    import numpy
except ImportError:
    print("skipped: no numpy")
    sys.exit(77)

import bench_codecs  # noqa: E402

PROGRAMS = None


class BenchCodecs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        draws = numpy.random.default_rng(1)
        (self.folder / "recorded/cifarnet").mkdir(parents=True)
        for step in (1, 2):
            gradients = {f"worker-{worker:04}/weights": draws.standard_normal((64, 512), dtype=numpy.float32)
                         for worker in range(4)}
            bench_codecs.write_safetensors(self.folder / f"recorded/cifarnet/step-{step}.safetensors", gradients)

    def table(self, *arguments):
        command = [sys.executable, SCRIPTS / "bench_codecs.py", "--programs", PROGRAMS, "--nets", "cifarnet",
                   "--recorded", self.folder / "recorded", "--out", self.folder / "out", *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)

    def test_rows_are_measured_and_in_order_of_bits(self):
        theirs = self.folder / "theirs.json"
        row = {"message_bits_per_element": 1.5, "vnmse": 0.3, "mean_vnmse": 0.1}
        theirs.write_text(json.dumps({"codec": "theirs", "nets": {"cifarnet": row}}))
        result = self.table("--others", theirs)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split(" | ") for line in (self.folder / "out/README.md").read_text().splitlines() if line.startswith("| ")]
        rows = {line[0].removeprefix("| "): line[1:] for line in lines[2:]}
        self.assertEqual(rows["theirs (by its authors)"], ["1.5", "0.3000, 0.1000", "-", "-", "- |"])
        error, of_mean = map(float, rows["`eden`"][1].split(", "))
        self.assertAlmostEqual(error, 0.2349, delta=0.01)  # of Gaussian elements, as published
        self.assertAlmostEqual(of_mean, error, delta=0.02)  # of independent gradients
        self.assertEqual(rows["`terngrad_ef`"][2], "4")
        self.assertNotIn("`signsgd`", rows)
        bits = [float(row[0].split(" ")[0]) for row in rows.values()]
        self.assertEqual(bits, sorted(bits))
        measured = json.loads((self.folder / "out/cifarnet.json").read_text())
        self.assertEqual(len(measured["codecs"]) + 1, len(rows))

    def test_what_cannot_be_is_refused(self):
        (self.folder / "none.json").write_text('{"codec": "theirs", "nets": {}}')
        for words, said in ((["--nets", "vgg"], "accepted: cifarnet"), (["--steps", "4"], "a multiple of 3"),
                            (["--steps", "3"], "--recorded already"), (["--nets", "resnet-20"], "there is no"),
                            (["--programs", self.folder], "there is no"),
                            (["--others", self.folder / "none.json"], "has no net"), (["--out", self.folder], "exists"),
                            (["--speed_of", "transformer"], "not among --nets")):
            result = self.table(*words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
