"""Tests of scripts/bench/time_to_accuracy.py on invented trainings and links."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench/time_to_accuracy.py"
MACHINE = {"processor": "one", "processors": 1, "kernel": "6"}


def step_of(name, codec, seconds, system="terngrad", **more):
    return {"rate": "1gbit", "net": "cifar10_alexnet", "row": name, "codec": codec, "system": system, "step_seconds": seconds,
            "steps_per_s": 1 / seconds, **more}


class TimeToAccuracy(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        cells = {"fp32": [[10, 0.4], [20, 0.6]], "ternary": [[10, 0.3], [20, 0.5], [40, 0.7]], "topk-1": [[10, 0.2], [40, 0.5]]}
        lines = [{"cell": f"time-to-accuracy/{cell}", "scale": scale, "status": "done", "curves": {"test_top1": curve}}
                 for cell, curve in cells.items() for scale in ("1", "1/30") if scale == "1" or cell == "fp32"]
        lines[1]["curves"] = {"test_top1": [[1, 0.9]]}  # a run with a part of the steps
        self.write("steps.jsonl", lines)
        self.write("fp16.jsonl", [{"step": 10, "top1_ema": 0.5}, {"step": 20, "top1_ema": 0.61}])
        advice = {"codecs": [{"codec": "t2", "exchange": "all_gather", "step_seconds": 0.5},
                             {"codec": "fp32", "exchange": "vendor", "step_seconds": 1.5}]}
        self.rows = [{"rate": "1gbit", "net": "cifar10_alexnet", "row": "advise", "system": "terngrad", "advice": advice},
                     step_of("fp32", "fp32", 2.0), step_of("vendor-fp32", "fp32", 1.0, "vendor"),
                     step_of("t2", "t2", 0.25, num_steps=10, interface_sent_bytes=[1e6, 2e6]),
                     step_of("topk-1", "topk:density=0.01", 0.25), step_of("ddp-fp16", "fp16", 0.5, "ddp"),
                     step_of("ddp-fp32", "fp32", 9.0, "ddp"), {**step_of("t2", "t2", 0.1), "net": "alexnet"}]

    def write(self, name, lines):
        (self.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run_script(self, *words):
        report = {"rows": self.rows, "machine": MACHINE, "version": "x", "written": "now"}
        (self.folder / "results.json").write_text(json.dumps(report))
        command = [sys.executable, SCRIPT, "--links", self.folder / "results.json", "--steps", self.folder / "steps.jsonl",
                   "--out", self.folder / "out.md", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_steps_between_evaluations_times_seconds_of_a_step(self):
        result = self.run_script("--pytorch", f"ddp-fp16={self.folder / 'fp16.jsonl'}", "--top1", "0.6")
        self.assertEqual(result.returncode, 0, result.stderr)
        (entries,) = json.loads((self.folder / "out.json").read_text())["rates"].values()
        found = {entry["row"]: entry for entry in entries}
        self.assertEqual(list(found), ["fp32", "vendor-fp32", "t2", "topk-1", "ddp-fp16"])  # no steps for ddp-fp32
        self.assertEqual(found["fp32"]["steps"], 20)
        self.assertEqual(found["fp32"]["seconds"], 40)
        self.assertAlmostEqual(found["t2"]["steps"], 30)
        self.assertAlmostEqual(found["t2"]["seconds"], 7.5)
        self.assertAlmostEqual(found["t2"]["forecast_seconds"], 15)
        self.assertAlmostEqual(found["t2"]["interface_bytes"], 6e6)
        self.assertAlmostEqual(found["vendor-fp32"]["forecast_seconds"], 30)
        self.assertAlmostEqual(found["ddp-fp16"]["steps"], 10 + 10 * 10 / 11)
        self.assertIsNone(found["topk-1"]["steps"])
        text = (self.folder / "out.md").read_text()
        self.assertIn("| t2 | ternary | 30 | 250 | 7.5 | 2.67 | 15 | 6 |\n", text)
        self.assertIn("| topk-1 | topk-1 | not reached | 250 | - | - | - | - |\n", text)
        self.assertLess(text.index("| t2 "), text.index("| ddp-fp16"))

    def test_refuses_what_does_not_go_together(self):
        for words, message in [(["--top1", "1"], "--top1: 1.0 is refused"), (["--out", "x.txt"], "--out: x.txt"),
                               (["--pytorch", "fp16"], "'fp16' is refused"), (["--steps", str(self.folder)], str(self.folder))]:
            result = self.run_script(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(message, result.stderr)
        self.rows = self.rows[:1]
        self.assertIn("has no step of cifar10_alexnet whose steps are known", self.run_script().stderr)


if __name__ == "__main__":
    unittest.main()
