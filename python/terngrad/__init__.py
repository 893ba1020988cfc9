"""Gradient compression: codecs, messages and exchanges of the terngrad library.

    >>> import numpy, terngrad
    >>> gradient = numpy.random.default_rng(1).standard_normal(100_000).astype(numpy.float32)
    >>> message = terngrad.Codec("ternary", clip_factor=2.5).encode(gradient)
    >>> round(gradient.nbytes / message.nbytes, 1)
    15.9

Tensors are any objects with ``__dlpack__`` or the buffer protocol (numpy, PyTorch, JAX): float32, float16 or bfloat16, on the
CPU, contiguous. Inputs are not copied; results are numpy arrays.
"""

from __future__ import annotations

import atexit
import dataclasses
from typing import Any

import numpy
import numpy.typing

from terngrad import _arguments, _core
from terngrad._arguments import Array
from terngrad._core import (CommunicationError, DataError, DeviceError, Error, InvalidArgument, NonFiniteError,
                            NotSupported)
from terngrad._codecs import Codec, CodecInfo, CodecKey, aggregate, codecs, decode, encode, presets
from terngrad._communicators import Communicator, DeviceCommunicator
from terngrad._compare import Comparison, Row, compare
from terngrad._exchange import Exchange, Layout, Report
from terngrad._messages import Message, MessageInfo, RecordInfo, inspect
from terngrad._plan import Plan, TensorPlan
from terngrad._runs import Run, read_run

# A thread must not return from the library into a finalized interpreter: exit waits up to 10 s for calls in progress.
atexit.register(_core.wait_for_calls, 10.0)

__version__: str = _core.version.split()[0]


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics of a tensor or of a block of it. Sums are accumulated in float64, in a fixed order."""

    count: int
    mean: float
    std: float
    max_abs: float
    l1: float
    l2: float
    finite: bool


def statistics(tensor: Array, block: int = 0) -> Any:
    """`Statistics` of a tensor; with `block` > 0 a list, one entry per block of `block` consecutive elements.

    >>> import numpy, terngrad
    >>> terngrad.statistics(numpy.array([3, -4], numpy.float32)).l2
    5.0
    """
    found = [Statistics(**each) for each in _core.statistics(tensor, _arguments.integer("block", block, 0, 2**62))]
    return found if block else found[0]


def ternarize(tensor: Array, *, clip_factor: float = 0.0, scaler: float | None = None, seed: int = 1, step: int = 0,
              worker: int = 0, draw_offset: int = 0) -> tuple[numpy.typing.NDArray[numpy.int8], float]:
    """Codes in {-1, 0, +1} and their scaler s: E[s * code] = gradient where |gradient| <= s (Wen et al., NIPS 2017).

    s = max|g|, with clip_factor c > 0 min(max|g|, c standard deviations), or the given `scaler`; if s < 2^-86 all codes are 0.
    Deterministic: draws depend on seed, step, worker and draw_offset + position only. With `TensorPlan.draw_offset` they
    are those of an exchange. Returns (codes, s); codes are int8 with the tensor's shape.

    >>> import numpy, terngrad
    >>> codes, scaler = terngrad.ternarize(numpy.array([2, 0, -2], numpy.float32))
    >>> codes.tolist(), scaler
    ([1, 0, -1], 2.0)
    """
    codes, scaler = _core.ternarize(
        tensor, _arguments.number("clip_factor", clip_factor), None if scaler is None else _arguments.number("scaler", scaler),
        _arguments.seed(seed), _arguments.step(step), _arguments.integer("worker", worker, 0, 2**24),
        _arguments.integer("draw_offset", draw_offset, 0, 2**62))
    return codes.reshape(_arguments.shape_of("tensor", tensor)), scaler


def telemetry(gradient: Array, sent: Array, scaler: float = 0.0) -> dict[str, float]:
    """Compression error of a tensor: a dictionary of norms, fractions of zero and clipped elements, and snr_db.

    >>> import numpy, terngrad
    >>> found = terngrad.telemetry(numpy.array([1, 3], numpy.float32), numpy.array([0, 3], numpy.float32))
    >>> found["zero_fraction"], found["error_norm"]
    (0.5, 1.0)
    """
    return _core.telemetry(gradient, sent, _arguments.number("scaler", scaler))


__all__ = [
    "Codec", "CodecInfo", "CodecKey", "CommunicationError", "Communicator", "Comparison", "DataError",
    "DeviceCommunicator", "DeviceError", "Error", "Exchange", "InvalidArgument", "Layout", "Message", "MessageInfo", "NonFiniteError", "NotSupported", "Plan", "RecordInfo",
    "Report", "Row", "Run", "Statistics", "TensorPlan", "aggregate", "codecs", "compare", "decode", "encode", "inspect", "presets",
    "read_run", "statistics", "telemetry", "ternarize"]
