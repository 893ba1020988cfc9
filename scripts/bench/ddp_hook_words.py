"""Names of PyTorch's own communication hooks for DistributedDataParallel, for scripts that also run without PyTorch."""

import argparse

POWERSGD = "powersgd:rank="
POWERSGD_BEGINS = 2  # uncompressed steps before PowerSGD, the minimum that PyTorch accepts


def powersgd_rank(hook):
    """The rank of a PowerSGD hook; None for other hooks."""
    return int(hook[len(POWERSGD):]) if hook.startswith(POWERSGD) else None


def checked(word):
    """Checks an argument. @raises ArgumentTypeError for PowerSGD without a rank"""
    rank = word[len(POWERSGD):]
    if word.startswith("powersgd") and not (word.startswith(POWERSGD) and rank.isdecimal() and int(rank) > 0):
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected powersgd:rank=R with R at least 1")
    return word
