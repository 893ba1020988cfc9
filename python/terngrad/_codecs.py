"""Codecs: the list of them, and encoding and decoding of one worker's gradients as messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import numpy.typing

from terngrad import _arguments, _core
from terngrad._arguments import Array
from terngrad._messages import Message, inspect

Floats = numpy.typing.NDArray[numpy.float32]


@dataclasses.dataclass(frozen=True)
class CodecKey:
    """An option of a codec: ``name=value`` in its spec."""

    name: str
    default: str
    accepted: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class CodecInfo:
    """Properties of a codec with default options."""

    name: str
    summary: str
    source: str                          #: publications
    keys: tuple[CodecKey, ...]
    bits_per_element: tuple[float, ...]  #: fixed-size payloads, for the possible options; ascending
    unbiased: bool                       #: E[decoded] = gradient
    summable: bool                       #: workers' codes can be summed as integers
    sums_as_float: bool                  #: workers' decoded elements can be summed in float32
    runs_on_gpus: bool


def codecs() -> dict[str, CodecInfo]:
    """All codecs by name, as ``terngrad_train --list_codecs`` prints them.

    >>> import terngrad
    >>> sorted(terngrad.codecs())
    ['bf16', 'eden', 'fp32', 'fp8', 'natural', 'onebit', 'powersgd', 'qsgd', 'randomk', 'sign', 'ternary', 'topk']
    >>> [key.name for key in terngrad.codecs()["fp8"].keys][:2]
    ['block', 'rounding']
    """
    result = {}
    for entry in _core.list_codecs():
        result[entry["name"]] = CodecInfo(
            name=entry["name"], summary=entry["summary"], source=entry["source"],
            keys=tuple(CodecKey(**key) for key in entry["keys"]), bits_per_element=tuple(entry["bits_per_element"]),
            unbiased=entry["unbiased"]["by_default"], summable=entry["summable"]["by_default"],
            sums_as_float=entry["sums_as_float"], runs_on_gpus=entry["runs_on_gpus"])
    return result


def presets() -> dict[str, dict[str, str]]:
    """Presets: names for a codec with options and a memory, as ``{name: {"spec", "memory", "summary"}}``.

    >>> import terngrad
    >>> terngrad.presets()["efsignsgd"]["memory"]
    'ef'
    """
    return {entry.pop("name"): entry for entry in _core.list_presets()}


def make_spec(codec: object, options: Mapping[str, object]) -> str:
    """The spec NAME:KEY=VALUE,... of a codec name or spec with `options` appended.

    >>> make_spec("ternary", {"clip_factor": 2.5})
    'ternary:clip_factor=2.5'
    """
    spec = _arguments.text("codec", codec)
    if not options:
        return spec
    words = {True: "true", False: "false"}
    text = ",".join(f"{key}={words[value] if isinstance(value, bool) else value}" for key, value in options.items())
    return f"{spec}{',' if ':' in spec else ':'}{text}"


class Codec:
    """A codec with its options, for one worker of `num_workers`.

    `codec` is a name, a preset or a spec (``docs/codecs.md``); further codec options may follow as keywords. All tensors
    are encoded with it, whatever their size. A preset's memory (error feedback, momentum) is ignored: only `Exchange` has one.
    Encoding and decoding are deterministic; a `Codec` may be used by several threads.

    >>> import numpy, terngrad
    >>> codec = terngrad.Codec("ternary", clip_factor=2.5)
    >>> codec.spec
    'ternary:clip_factor=2.5,scaler=paper,sharing=max,clip_scope=shared,scope=layer,format=t2,rounding=stochastic,levels=symmetric'
    >>> gradient = numpy.linspace(-1, 1, 1000, dtype=numpy.float32)
    >>> message = codec.encode(gradient, seed=1, step=7)
    >>> message.nbytes < gradient.nbytes / 10
    True
    >>> sorted(set(numpy.abs(codec.decode(message)).tolist()))[0]
    0.0
    """

    def __init__(self, codec: str = "ternary", *, num_workers: int = 1, **options: object) -> None:
        self._given = make_spec(codec, options)
        self.num_workers = _arguments.integer("num_workers", num_workers, 1, 2**24)
        self.spec: str = _core.canonical_spec(self._given)
        self._plans: dict[tuple[Any, ...], _core.Plan] = {}
        facts = self._plan({"tensor": (64,)}).tensors()[0]
        self.name = self.spec.split(":")[0]
        #: Bits of the codes, without scalers and headers.
        self.bits_per_element: float = facts["bits_per_element"]
        self.fixed_size: bool = facts["fixed_size"]
        self.unbiased: bool = facts["unbiased"]
        self.summable: bool = facts["summable"]
        self.wants_error_feedback: bool = facts["wants_error_feedback"]
        #: True if workers need each other's scalers before they encode: see `measure`.
        self.shares_scalers: bool = facts["shares_scalers"]

    def __repr__(self) -> str:
        return f"Codec({self._given!r}, num_workers={self.num_workers})"

    def __getstate__(self) -> dict[str, object]:
        return {"codec": self._given, "num_workers": self.num_workers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _plan(self, shapes: Mapping[str, tuple[int, ...]]) -> _core.Plan:
        key = tuple(shapes.items())
        plan = self._plans.get(key)  # another thread may clear the cache
        if plan is None:
            if len(self._plans) > 64:
                self._plans.clear()
            plan = self._plans[key] = _core.Plan.make(
                names=list(shapes), shapes=[list(shape) for shape in shapes.values()], logits=[False] * len(shapes),
                codec=self._given, codec_for=[], min_elements=0, quantize_logits=True, num_workers=self.num_workers)
        return plan

    def measure(self, tensors: Array | Mapping[str, Array], *, step: int = 0, worker: int = 0, seed: int = 1,
                on_nonfinite: str = "stop") -> list[float]:
        """This worker's own scalers, which the other workers pass to `encode`.

        @param on_nonfinite  as for `encode`; with zero the scalers of a tensor that holds NaN or infinity are NaN
        @returns scalers in the order of the tensors and their blocks
        """
        return self._measured(_arguments.by_name(tensors), seed, step, worker, on_nonfinite).scalers()

    def _measured(self, tensors: dict[str, Array], seed: int, step: int, worker: int, on_nonfinite: str) -> _core.Encoder:
        encoder = _core.Encoder(self._plan(_arguments.shapes_of(tensors)),
                                _arguments.integer("worker", worker, 0, self.num_workers - 1), _arguments.seed(seed),
                                list(tensors.values()))
        encoder.measure(list(tensors.values()), _arguments.step(step))
        if on_nonfinite not in ("stop", "zero"):
            raise _core.InvalidArgument(f"on_nonfinite '{on_nonfinite}' is unknown; accepted: stop, zero")
        nonfinite = encoder.nonfinite()
        if nonfinite and on_nonfinite == "stop":
            raise _core.NonFiniteError(f"tensor '{nonfinite[0]}' holds NaN or infinity, or is too large for the codec")
        return encoder

    def encode(self, tensors: Array | Mapping[str, Array], *, seed: int = 1, step: int = 0, worker: int = 0, run_id: int = 0,
               scalers: Mapping[int, Sequence[float]] | None = None, on_nonfinite: str = "stop") -> Message:
        """Encodes a worker's gradient, one tensor or {name: tensor}, as a Message.

        Deterministic: draws depend on seed, step, worker and an element's position only, so equal arguments give equal bytes.

        @param scalers  for codecs that share scalers (``sharing=max``): results of `measure` on every other worker, by
            worker number: ``{1: [...], 2: [...]}``
        @param on_nonfinite  stop: NonFiniteError for a tensor that holds NaN or infinity; zero: it is sent as zeros
        @raises InvalidArgument for tensors that are not contiguous or not float32, float16 or bfloat16
        """
        tensors_by_name = _arguments.by_name(tensors)
        values = list(tensors_by_name.values())
        encoder = self._measured(tensors_by_name, seed, step, worker, on_nonfinite)
        others = set(range(self.num_workers)) - {worker}
        if scalers is not None and not (self.shares_scalers and hasattr(scalers, "keys")):
            raise _core.InvalidArgument("scalers are {worker: codec.measure(...)}, of a codec whose workers share them")
        if self.shares_scalers and others and set(scalers or {}) != others:
            raise _core.InvalidArgument(
                f"codec {self.name} of {self.num_workers} workers needs the scalers of all others, {sorted(others)}: "
                f"pass scalers={{worker: codec.measure(...)}}, or make the codec with num_workers=1 or sharing='none'")
        for other, values_of_other in (scalers or {}).items():
            values_of_other = _arguments.items(f"the scalers of worker {other}", values_of_other)
            if on_nonfinite == "stop" and any(value != value for value in values_of_other):
                raise _core.NonFiniteError(f"the gradient of worker {other} holds NaN or infinity, as its scalers say")
            try:
                encoder.set_scalers(other, values_of_other)
            except TypeError:
                raise _core.InvalidArgument(f"the scalers of worker {other} are no numbers: {values_of_other!r:.80}") from None
        data = encoder.encode(values, step, _arguments.run_id(run_id))
        return Message(data, _arguments.shapes_of(tensors_by_name), not hasattr(tensors, "keys"), worker, step, run_id,
                       self._given, self.num_workers, seed)

    def decode(self, message: Message, out: Any = None) -> Any:
        """Decodes a message to a float32 numpy array, or {name: array}. For received bytes see `Message.of`.

        @param out  contiguous float32 arrays to write to instead of new ones
        @raises CommunicationError for a message that is damaged, or of another codec, layout or step
        """
        _require_message(message)
        targets = targets_for(message, out)
        worker = _core.decode(self._plan(message.shapes), message.data, message.seed, message.step, message.run_id,
                              [_arguments.take(targets, name, "out") for name in message.shapes])
        if worker != message.worker:
            raise _core.CommunicationError(f"the message is worker {worker}'s, not worker {message.worker}'s")
        return out if out is not None else targets["tensor"] if message.is_single else targets

    def decode_record(self, data: Any, index: int, shapes: Mapping[str, Sequence[int]], *, seed: int = 1) -> Floats:
        """Decodes one record (slice of a tensor) of a message of any kind, for example from ``terngrad_train --dump_messages``.

        >>> import numpy, terngrad
        >>> message = terngrad.encode(numpy.array([2, 0, -2], numpy.float32), "ternary")
        >>> terngrad.Codec("ternary").decode_record(message, 0, {"tensor": (3,)}).tolist()
        [2.0, 0.0, -2.0]

        @param data    the message or its bytes
        @param index   index of the record in `terngrad.inspect(data).records`
        @param shapes  {name: shape} of all tensors of the sender's layout, in order
        @param seed    the sender's seed; only used by codecs with rotation
        @returns float32 [record.count]
        @raises CommunicationError for a damaged message or a record that does not fit the shapes; NotSupported for records that
            hold sums or votes of several workers, or scalers only
        """
        data = _arguments.data("data", data)
        records = inspect(data).records
        index = _arguments.integer("index", index, 0, len(records) - 1)
        named = {name: _arguments.shape(name, shape) for name, shape in _arguments.by_name(shapes).items()}
        out = numpy.empty(records[index].count, numpy.float32)
        _core.decode_record(self._plan(named), data, index, _arguments.seed(seed), out)
        return out

    def aggregate(self, messages: Sequence[Message], out: Any = None) -> Any:
        """The mean of all workers' decoded messages, bit-identical to that of an exchange.

        @param messages  one message from each of the `num_workers` workers, in any order, all of one step and run
        @param out       as for `decode`
        @raises CommunicationError as `decode`, for two messages of one worker, and for workers that should share scalers but
            encoded with different ones; NonFiniteError if the mean overflows float32
        """
        messages = _arguments.items("messages", messages)
        for message in messages:
            _require_message(message)
        if not messages:
            raise _core.InvalidArgument("aggregate takes the messages of all workers, got none")
        first = messages[0]
        for message in messages:
            if ((message.shapes, message.seed, message.step, message.run_id) !=
                    (first.shapes, first.seed, first.step, first.run_id)):
                raise _core.InvalidArgument(f"the messages of workers {first.worker} and {message.worker} are of different "
                                            "tensors, seeds, steps or runs")
        targets = targets_for(first, out)
        _core.aggregate(self._plan(first.shapes), [message.data for message in messages], first.seed, first.step,
                        first.run_id, [_arguments.take(targets, name, "out") for name in first.shapes])
        return out if out is not None else targets["tensor"] if first.is_single else targets


def targets_for(message: Message, out: Any) -> dict[str, Any]:
    """Output arrays for the tensors of a message, by name: `out`, or new ones."""
    if out is None:
        return {name: numpy.empty(shape, numpy.float32) for name, shape in message.shapes.items()}
    return {"tensor": out} if message.is_single else _arguments.by_name(out)


def encode(tensors: Array | Mapping[str, Array], codec: str = "ternary", *, num_workers: int = 1, seed: int = 1, step: int = 0,
           worker: int = 0, run_id: int = 0, scalers: Mapping[int, Sequence[float]] | None = None,
           on_nonfinite: str = "stop", **options: object) -> Message:
    """Encodes a gradient as a Message: `Codec.encode` in one call. Programs that encode often should keep a `Codec`.

    >>> import numpy, terngrad
    >>> message = terngrad.encode(numpy.ones(1000, numpy.float32), "qsgd", bits=4)
    >>> message.codec, message.nbytes
    ('qsgd:bits=4', 620)
    """
    return Codec(codec, num_workers=num_workers, **options).encode(
        tensors, seed=seed, step=step, worker=worker, run_id=run_id, scalers=scalers, on_nonfinite=on_nonfinite)


def _require_message(message: object) -> None:
    if not isinstance(message, Message):
        raise _core.InvalidArgument(f"expected a Message, got {message!r:.80}; Message.of(data, shapes) makes one of bytes")


def codec_of(message: Message) -> Codec:
    """The codec that encoded a message. @raises InvalidArgument for `Message.of` bytes, which do not contain its options"""
    _require_message(message)
    if not message.codec:
        raise _core.InvalidArgument("a message that came as bytes does not say its codec's options; use Codec(...).decode or "
                                    ".aggregate")
    return Codec(message.codec, num_workers=message.num_workers)


def decode(message: Message, out: Any = None) -> Any:
    """Decodes a message with the codec that encoded it (`Codec.decode`).

    >>> import numpy, terngrad
    >>> terngrad.decode(terngrad.encode(numpy.array([1, -3], numpy.float32), "fp32")).tolist()
    [1.0, -3.0]
    """
    return codec_of(message).decode(message, out)


def aggregate(messages: Sequence[Message], out: Any = None) -> Any:
    """The mean of all workers' messages, by the codec that encoded them (`Codec.aggregate`).

    >>> import numpy, terngrad
    >>> sent = [terngrad.encode(numpy.full(3, value, numpy.float32), "fp32", num_workers=2, worker=worker)
    ...         for worker, value in enumerate((1, 2))]
    >>> terngrad.aggregate(sent).tolist()
    [1.5, 1.5, 1.5]
    """
    messages = _arguments.items("messages", messages)
    if not messages:
        raise _core.InvalidArgument("aggregate takes the messages of all workers, got none")
    return codec_of(messages[0]).aggregate(messages, out)
