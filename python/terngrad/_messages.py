"""Messages: one worker's encoded gradient, and inspection of headers and records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from terngrad import _arguments, _core

#: Kinds of messages by their number in docs/wire-format.md.
KINDS = {1: "scalers", 2: "gradient", 3: "mean", 4: "pull", 5: "push", 6: "state", 7: "parameters", 8: "stop", 9: "leave",
         10: "partial sum"}


@dataclasses.dataclass(frozen=True)
class RecordInfo:
    """A slice of a tensor in a message."""

    tensor: int                  #: index of the tensor in the layout
    codec: str                   #: empty if this version does not know the codec's number
    format: int                  #: format of the codes, numbered per codec
    first: int                   #: index of the slice's first element in the tensor
    count: int                   #: number of elements
    scalers: tuple[float, ...]
    code_bytes: int


@dataclasses.dataclass(frozen=True)
class MessageInfo:
    """Header and records of a message."""

    kind: str
    worker: int                  #: the sender, for gradients; other kinds: docs/wire-format.md
    step: int
    run_id: int
    fingerprint: int             #: hash of layout and codecs, in an exchange also of its options
    num_elements: int
    nbytes: int
    records: tuple[RecordInfo, ...]


def inspect(data: Any) -> MessageInfo:
    """Parses header and records of a message without its layout or codec, and checks lengths and checksums.

    >>> import numpy, terngrad
    >>> message = terngrad.encode(numpy.array([2, 0, -2], numpy.float32), "ternary", step=7)
    >>> info = terngrad.inspect(message)
    >>> info.kind, info.step, info.records[0].codec, info.records[0].scalers
    ('gradient', 7, 'ternary', (2.0,))

    @param data  a Message, or its bytes
    @raises CommunicationError for data that are not a message or are damaged
    """
    found = _core.inspect(_arguments.data("data", data))
    records = tuple(RecordInfo(**record) for record in found.pop("records"))
    kind = found.pop("kind")
    return MessageInfo(kind=KINDS.get(kind, f"unknown kind {kind}"), records=records, **found)


@dataclasses.dataclass(frozen=True)
class Message:
    """One worker's encoded gradient, with the shapes and numbers that decoding needs.

    ``bytes(message)`` is the message of ``docs/wire-format.md`` (kind 2), with header, scalers, codes and checksums.
    """

    data: bytes = dataclasses.field(repr=False)
    shapes: dict[str, tuple[int, ...]] = dataclasses.field(repr=False, compare=False)  #: tensor shapes by name
    is_single: bool = dataclasses.field(repr=False, default=False)
    worker: int = 0
    step: int = 0
    run_id: int = 0
    codec: str = dataclasses.field(default="", compare=False)    #: spec passed to encode; empty if made from bytes
    num_workers: int = dataclasses.field(default=1, compare=False)
    seed: int = dataclasses.field(default=1, compare=False)      #: seed of the draws; decoding needs it for rotation

    @classmethod
    def of(cls, data: Any, shapes: Mapping[str, Sequence[int]] | Sequence[int], run_id: int = 0,
           seed: int = 1) -> Message:
        """A Message from received bytes. @param shapes  the sender's {name: shape}, or one shape for a single tensor
        @param seed  the sender's seed; only used by codecs with rotation
        @raises CommunicationError for data that are not a gradient message, are damaged, or do not fit the shapes"""
        data = _arguments.data("data", data)
        info = inspect(data)
        if info.kind != "gradient":
            raise _core.CommunicationError(f"a message of kind {info.kind} came, expected one of a gradient")
        named = {name: _arguments.shape(name, shape) for name, shape in _arguments.by_name(shapes).items()}
        count = sum(math.prod(shape) for shape in named.values())
        if count != info.num_elements:
            raise _core.CommunicationError(f"the message is of {info.num_elements} elements, the shapes have {count}")
        return cls(data, named, not hasattr(shapes, "keys"), info.worker, info.step, run_id,
                   seed=_arguments.seed(seed))

    def __bytes__(self) -> bytes:
        return self.data

    @property
    def nbytes(self) -> int:
        return len(self.data)
