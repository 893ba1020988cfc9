"""Checksums that verify that all ranks have the same parameters."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch

from terngrad import _core


def checksum(parameter: torch.Tensor) -> int:
    """CRC-32 of the parameter's elements."""
    memory = parameter.detach().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(memory.cpu().numpy())


def require_equal(parameters: dict[str, torch.nn.Parameter], gather: Callable[[Any], list[Any]], step: int) -> None:
    """Compares checksums of the parameters between ranks. @param gather  all-gather of a value, in order of ranks
    @raises InvalidArgument, on all ranks, naming the first rank and parameter that differ from rank 0"""
    of_ranks = gather([checksum(parameter) for parameter in parameters.values()])
    for rank, sums in enumerate(of_ranks):
        differing = [name for name, ours, theirs in zip(parameters, of_ranks[0], sums) if ours != theirs]
        if differing:
            more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
            raise _core.InvalidArgument(f"replicas differ before step {step}: parameter '{differing[0]}'{more} of rank {rank} is not "
                                        "that of rank 0")
