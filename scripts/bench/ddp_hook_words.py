"""Names of PyTorch's own ways in which gradients of DistributedDataParallel travel, for scripts that also run without PyTorch."""

import argparse

POWERSGD = "powersgd:rank="
POWERSGD_BEGINS = 2  # steps before it, the fewest that PyTorch accepts


def powersgd_rank(hook):
    """Of PowerSGD; None for another hook."""
    return int(hook[len(POWERSGD):]) if hook.startswith(POWERSGD) else None


def checked(word):
    """An argument; @raises ArgumentTypeError if it is PowerSGD without a rank"""
    rank = word[len(POWERSGD):]
    if word.startswith("powersgd") and not (word.startswith(POWERSGD) and rank.isdecimal() and int(rank) > 0):
        raise argparse.ArgumentTypeError(f"'{word}' is refused, expected powersgd:rank=R with R at least 1")
    return word
