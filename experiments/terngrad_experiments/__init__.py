"""The driver of terngrad_experiment: recipes, runs, results, tables, plots and reports of the paper's experiments."""

import sys

if sys.version_info < (3, 11):
    sys.exit("terngrad_experiment: needs Python 3.11 or later")
