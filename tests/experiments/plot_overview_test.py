#!/usr/bin/env python3
"""Tests experiments/plot_overview.py. Exits 77 (skipped) if there is no matplotlib."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "experiments/plot_overview.py"
spec = importlib.util.spec_from_file_location("plot_overview", SCRIPT)
plot_overview = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plot_overview)


class PlotOverview(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_accuracies_are_those_of_tests(self):
        path = self.folder / "metrics.jsonl"
        records = [{"step": 5, "kind": "train", "loss": 1}, {"step": 5, "kind": "test", "top1": 0.25}]
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        self.assertEqual(plot_overview.accuracies(path), {5: 25.0})

    def test_a_bar_is_the_fastest_of_its_rows_at_its_rate(self):
        rows = [{"rate": "1gbit", "row": "t2", "steps_per_s": 3}, {"rate": "1gbit", "row": "t5", "steps_per_s": 4},
                {"rate": "none", "row": "t5", "steps_per_s": 9}, {"rate": "1gbit", "row": "fp32", "steps_per_s": 8}]
        self.assertEqual(plot_overview.steps_per_second(rows, "1gbit", ["t2", "t5"]), 4)

    def test_recorded_results_are_drawn(self):
        figure = self.folder / "overview.png"
        subprocess.run([sys.executable, SCRIPT, "-o", figure], check=True)
        self.assertEqual(figure.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main()
