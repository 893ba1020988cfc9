"""Runs the preset `smoke` with the built commands, end to end: runs, table, plot, report and import.

smoke_test.py BUILD_BIN
"""

import subprocess
import sys
import unittest

from scaffold import ROOT, InFolder
from terngrad_experiments import histograms, importing, predictions, programs, run_folder, store


class Smoke(InFolder):
    def experiment(self, *words):
        result = subprocess.run([sys.executable, ROOT / "experiments" / "terngrad_experiment.py", "--programs", PROGRAMS, "--out",
                                 self.folder / "out", "--results", self.folder / "none", *words], capture_output=True, text=True,
                                timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_the_preset_smoke_runs_and_is_shown(self):
        self.assertIn("are sound", self.experiment("check"))
        self.experiment("run", "smoke", "--seeds", "1")
        results = store.read(self.folder / "out" / "results.jsonl")
        self.assertEqual(sorted((line["cell"], line["seed"]) for line in results),
                         [("smoke/n2-float", 1), ("smoke/n2-ternary", 1)])
        ternary = next(line for line in results if line["cell"] == "smoke/n2-ternary")
        self.assertGreater(ternary["bytes"]["ratio"], 10)
        self.assertEqual(ternary["steps"], 60)
        # Measurements for the paper's claims, under the names of metrics.jsonl.
        clipped = ternary["tensors"]["conv2/weights"]
        self.assertTrue(0 < clipped["clip_angle_degrees"] < 30 and 0.8 < clipped["kept_norm"] < 1, clipped)
        # Figure 2: the mean of two workers' ternary codes has five values.
        for tensor in ("conv2/weights", "fc3/weights"):
            kinds = ternary["histograms"][tensor][-1]
            filled = {kind: [fraction for fraction in kinds[kind] if fraction > 0] for kind in histograms.KINDS}
            self.assertEqual((len(filled["sent"]), len(filled["mean"])), (3, 5), tensor)
            self.assertGreater(len(filled["gradient"]), 20, tensor)
            for kind in ("clipped", "sent", "mean"):
                self.assertAlmostEqual(sum(filled[kind]), 1, 2, f"{tensor} {kind}")
        if "predictions" in programs.Programs(PROGRAMS).options("terngrad_eval"):
            predicted = predictions.read_npy(self.folder / "out" / ternary["predictions"])
            self.assertEqual((len(predicted), set(predicted) <= set(range(10))), (10000, True))
        self.assertIn("n2-ternary", self.experiment("table", "smoke"))
        self.assertIn("<svg", self.experiment("plot", "smoke"))
        self.experiment("report", "smoke", "-o", self.folder / "report.html")
        self.assertIn("smoke", (self.folder / "report.html").read_text())
        # The import's defaults are those of the command.
        config = run_folder.read_config(self.folder / "out" / "runs/smoke/n2-float/seed-1")
        identity = config["options"] | importing.compared_values(config["identity"])
        for name, value in importing.DEFAULTS.items():
            self.assertTrue(importing.same_value(value, identity[name]), f"{name}: {value}, the command has {identity[name]}")
        # The import finds a run's cell by its options alone.
        text = self.experiment("import", self.folder / "out" / "runs/smoke/n2-ternary/seed-1", "--into", self.folder / "again.jsonl")
        self.assertIn("smoke/n2-ternary seed 1, done", text)
        (again,) = store.read(self.folder / "again.jsonl")
        original = next(line for line in results if (line["cell"], line["seed"]) == ("smoke/n2-ternary", 1))
        # Only the driver evaluates and records the time.
        changing = {"seconds": 0, "predictions": None, "predictions_sha256": None, "recorded": None}
        self.assertEqual(*(line | changing for line in (original, again)))


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
