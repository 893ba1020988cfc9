#!/usr/bin/env python3
"""Tests the calculations of scripts/bench/bench_wire_bytes.py on given metrics and counters, without running anything."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/bench"))

import bench_wire_bytes  # noqa: E402


def row(name, workers, reported, counted):
    return {"row": name, "workers": workers, "reported": dict(zip(("sent", "received"), reported)),
            "counted": dict(zip(("sent", "received"), counted)), "ratio": 7.5}


class BenchWireBytes(unittest.TestCase):
    def test_reported_bytes_are_the_busiest_nodes(self):
        line = {"wire_bytes_per_worker": {"sent": {"scalers": 1.0, "gradient": 20.0}, "received": {"scalers": 1.0, "mean": 4.0}}}
        self.assertEqual(bench_wire_bytes.reported(line), (21, 5))
        line["wire_bytes_per_server"] = {"sent": 7.0, "received": 80.0}
        self.assertEqual(bench_wire_bytes.reported(line), (7, 80))

    def test_counted_bytes_are_the_busiest_hosts_in_a_step(self):
        hosts = [{"sent_bytes": 100, "received_bytes": 300}, {"sent_bytes": 400, "received_bytes": 200}]
        self.assertEqual(bench_wire_bytes.counted({"hosts": hosts}, 20), (20, 10))

    def test_what_was_shown_is_of_the_last_line(self):
        said = ("step 10/20 worker sent 9 B received 9 B/step 9.0x fp32, 4.5x bf16 eta 3s\n"
                "step 20/20 1 examples/s worker sent 2.34 MB received 2.30 MB/step 3.8x fp32, 1.9x bf16 eta 0s\nrun directory: x\n")
        self.assertEqual(bench_wire_bytes.shown_in(said), ("worker sent 2.34 MB received 2.30 MB/step", "3.8"))
        self.assertEqual(bench_wire_bytes.shown_in("x"), ("", ""))

    def test_the_table_has_factors_and_ratios(self):
        rows = [row("fp32", 4, (8e6, 8e6), (8.4e6, 8.2e6)), row("t2", 4, (1e6, 1e6), (1.04e6, 1.05e6)),
                row("t2", 2, (1e6, 1e6), (1e6, 1e6))]
        lines = bench_wire_bytes.to_markdown({"rows": rows}).splitlines()
        self.assertEqual(lines[2], "| 2 | t2 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 | 7.50 | - |")
        self.assertEqual(lines[3], "| 4 | fp32 | 8.000 | 8.400 | 8.000 | 8.200 | 1.050 | 7.50 | 1.00 |")
        self.assertEqual(lines[4], "| 4 | t2 | 1.000 | 1.040 | 1.000 | 1.050 | 1.050 | 7.50 | 8.00 |")


if __name__ == "__main__":
    unittest.main()
