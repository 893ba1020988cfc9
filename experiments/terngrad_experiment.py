#!/usr/bin/env python3
"""Runs, keeps and compares the paper's tables and figures; `terngrad_experiment.py --help` says how."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Recipes and modules are beside this file in a checkout, and in share/terngrad if installed.
HOME = HERE if (HERE / "terngrad_experiments").is_dir() else HERE.parent / "share" / "terngrad"
sys.path.insert(0, str(HOME))

from terngrad_experiments import cli  # noqa: E402  (the path comes first)

if __name__ == "__main__":
    sys.exit(cli.main(__file__, HOME))
