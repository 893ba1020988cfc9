#!/usr/bin/env python3
"""Tests scripts/bench/bench_powersgd.py: our powersgd approximates like PyTorch's. Exits 77 (skipped) without PyTorch,
Gloo or the package terngrad."""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench/bench_powersgd.py"

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "powersgd.json"
    command = [sys.executable, SCRIPT, "--errors_only", "--steps", "12", "--rank", "3", "--threads", "1", "--out", out]
    done = subprocess.run(command, text=True, capture_output=True, timeout=250, check=False)
    print(done.stdout, done.stderr)
    if done.returncode != 0:
        sys.exit(done.returncode)
    result = json.loads(out.read_text(encoding="utf-8"))
for row in result["errors"]:
    assert abs(row["ours"] - row["pytorch"]) < 1e-3, row
    assert 0.999 < row["ours"] / row["best"] < 1.005, row
assert len(result["errors"]) == 3 and result["alexnet"] is None
