"""CUDA streams of the hook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from terngrad import _core


def index_of(device: torch.device) -> int | None:
    """The index of a GPU; None for the CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.current_device() if device.index is None else device.index


def current_stream(device: torch.device) -> int:
    """The GPU's current stream, as a cudaStream_t."""
    return torch.cuda.current_stream(device).cuda_stream


class SideStream:
    """A CUDA stream for the exchange of buckets, beside the stream of the backward pass."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)
        #: cudaStream_t of the stream.
        self.handle: int = self._stream.cuda_stream

    @contextlib.contextmanager
    def after_current(self, overlap: bool) -> Iterator[None]:
        """Work submitted inside runs on this stream, after the work already on the current stream. @param overlap  False: the
        current stream then waits for it"""
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            yield
        if not overlap:
            current.wait_stream(self._stream)

    def future(self) -> torch.futures.Future[torch.Tensor]:
        """A future for tensors on the GPU: `wait` makes the caller's current stream wait for the stream that completes it."""
        return torch.futures.Future(devices=[self.device])

    def require_no_capture(self) -> None:
        """@raises NotSupported while the current stream is captured into a CUDA graph"""
        if torch.cuda.is_current_stream_capturing():
            raise _core.NotSupported("the backward pass is captured into a CUDA graph: steps of the hook, whose draws differ "
                                     "from step to step, cannot be replayed")

