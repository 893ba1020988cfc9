"""Tests of the statements about the paper's claims, on invented results."""

import os
import pathlib
import tempfile
import unittest
import unittest.mock

from scaffold import done_run
from terngrad_experiments import cells, claims, measurements, programs, report, store

# mpirun for one process, which requires the settings for two processes as root.
STAND_IN_MPIRUN = """#!/bin/sh
[ "$1 $2 $OMPI_ALLOW_RUN_AS_ROOT $OMPI_MCA_rmaps_base_oversubscribe" = "-np 2 1 1" ] || exit 9
shift 2
exec "$@"
"""
STAND_IN_BENCH = """#!/bin/sh
if [ -n "$STAND_IN_FAILS" ]; then echo "told to fail" >&2; exit 3; fi
while [ $# -gt 1 ]; do shift; done
echo '{"commit": "abc-dirty", "version": "0.1.0", "num_elements": 1000,' >"$1"
echo ' "results": [{"slowest": {"sent_bytes": 500.0, "received_bytes": 1000.0}}]}' >>"$1"
"""


def result(cell, seed, top1=0.5, scale="1", **tensors):
    return done_run(cell, seed, top1, scale, tensors=tensors)


def experiment(*own):
    return cells.Experiment("text-claims", "Claims", "claims", "Wen et al.", cells=own)


class Claims(unittest.TestCase):
    def test_clipping_is_a_mean_over_tensors_and_runs(self):
        cell = cells.Cell("text-claims", "text-clip", {}, runs_of=("table1/a",), tensors=("*/weights",),
                          paper={"norm_change_percent": [1.0, 1.5], "confidence": "A"})
        runs = [result("table1/a", 1, **{"x/weights": {"kept_norm": 0.99}, "x/biases": {"kept_norm": 0.5}}),
                result("table1/a", 2, **{"x/weights": {"kept_norm": 0.98}})]
        (found,) = claims.findings(experiment(cell), runs)
        self.assertEqual(found.ours, "1.5 % (1.0 to 2.0); Gaussian 1.13 %")
        self.assertEqual((found.paper, found.of), ("1 to 1.5 %", "table1/a, 2 seeds"))

    def test_the_angle_of_clipping_is_in_degrees(self):
        cell = cells.Cell("text-claims", "text-clip", {}, runs_of=("table1/a",), tensors=("*/weights",),
                          paper={"norm_change_percent": [1.0, 1.5], "angle_degrees": [2.0, 3.0], "confidence": "A"})
        runs = [result("table1/a", 1, **{"x/weights": {"kept_norm": 0.99, "clip_angle_degrees": 2.5},
                                         "y/weights": {"kept_norm": 0.99, "clip_angle_degrees": 3.5}})]
        length, angle = claims.findings(experiment(cell), runs)
        self.assertEqual(length.what, "length lost by clipping")
        self.assertEqual((angle.ours, angle.paper), ("3.0 degrees (2.5 to 3.5); Gaussian 2.75 degrees", "2 to 3 degrees"))

    def test_what_is_not_measured_yet_and_what_is_assumed_is_said(self):
        cell = cells.Cell("text-claims", "text-sparsity", {}, runs_of=("table1/a",), tensors=("fc",), assumed=("another net",))
        self.assertEqual(claims.notes(experiment(cell), []),
                         ["not measured yet: text-sparsity, of table1/a", "assumed: another net"])
        runs = [result("table1/a", 1, fc={"zero_fraction": 0.7})]
        self.assertEqual(claims.notes(experiment(cell), runs), ["assumed: another net"])
        self.assertIn("<li>assumed: another net</li>", report.make_page([experiment(cell)], runs))

    def test_full_runs_come_before_parts(self):
        cell = cells.Cell("text-claims", "text-sparsity", {}, runs_of=("table1/a",), tensors=("fc",))
        runs = [result("table1/a", 1, scale="1/30", fc={"zero_fraction": 0.7}), result("table1/a", 1, scale="1/2", fc={"zero_fraction": 0.8})]
        self.assertIn("table1/a~1/2", claims.findings(experiment(cell), runs)[0].of)
        runs.append(result("table1/a", 1, fc={"zero_fraction": 0.9}))
        (found,) = claims.findings(experiment(cell), runs)
        self.assertEqual(found.ours, "90.0 %; Gaussian 68.2 %")

    def test_runs_on_gpus_are_no_part_of_those_on_cpus(self):
        cell = cells.Cell("text-claims", "text-sparsity", {}, runs_of=("table1/a",), tensors=("fc",))
        on_gpu = {**result("table1/a", 2, fc={"zero_fraction": 0.9}), "backend": "gpu"}
        (found,) = claims.findings(experiment(cell), [result("table1/a", 1, fc={"zero_fraction": 0.7}), on_gpu])
        self.assertEqual((found.ours, found.of), ("70.0 %; Gaussian 68.2 %", "table1/a, 1 seed"))
        self.assertEqual(claims.findings(experiment(cell), [on_gpu])[0].of, "table1/a, 1 seed on GPU")

    def test_a_gap_is_of_the_seeds_that_both_have_and_of_one_scale(self):
        cell = cells.Cell("text-claims", "text-noclip", {}, runs_of=("table1/noclip", "table1/a"),
                          paper={"top1_gap": -2.98, "confidence": "D"})
        runs = [result("table1/noclip", 1, 0.80), result("table1/noclip", 2, 0.81), result("table1/a", 1, 0.83)]
        (found,) = claims.findings(experiment(cell), runs)
        self.assertEqual((found.ours, found.paper), ("-3.00 points", "-2.98 points"))
        self.assertEqual(claims.findings(experiment(cell), [result("table1/noclip", 1, scale="1/30"), result("table1/a", 1)]), [])

    def test_lanes_have_whole_bits(self):
        cell = cells.Cell("text-claims", "text-bits-down-n8", {}, paper={"downlink_ratio": 7.83, "confidence": "D"})
        # 17 values need 5 bits; a word of 64 bits holds 12 of them.
        self.assertEqual(claims.findings(experiment(cell), [])[0].ours, f"{32 * 12 / 64:.2f}x in lanes of whole bits")

    def test_bytes_that_the_bench_counted_stand_beside_computed_ones(self):
        command = "mpirun -np 2 terngrad_exchange_bench --codec t2"
        cell = cells.Cell("text-claims", "text-bits-2bit", {}, paper={"uplink_ratio": 16, "confidence": "B"}, command=command)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, script in (("terngrad_exchange_bench", STAND_IN_BENCH), ("mpirun", STAND_IN_MPIRUN)):
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        self.enterContext(unittest.mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}))
        measured = measurements.measure(cell, programs.Programs(folder))
        self.assertEqual((measured["commit"], measured["dirty"]), ("abc", True))
        store.append(folder / "results.jsonl", measured)
        (found,) = claims.findings(experiment(cell), store.read(folder / "results.jsonl"))
        self.assertEqual((found.ours, found.of), ("8.00x measured; 16x at 2 bits", command))
        os.environ["STAND_IN_FAILS"] = "1"
        with self.assertRaisesRegex(programs.ProgramError, "exit code 3: told to fail"):
            measurements.measure(cell, programs.Programs(folder))

    def test_what_is_not_recorded_says_nothing(self):
        cell = cells.Cell("text-claims", "text-clip", {}, runs_of=("table1/a",), tensors=("*",))
        self.assertEqual(claims.findings(experiment(cell), []), [])
        self.assertIn("No run that it looks at", report.make_page([experiment(cell)], []))


if __name__ == "__main__":
    unittest.main()
