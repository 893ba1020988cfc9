"""Codecs: which there are, and one worker's gradients as messages."""

import dataclasses

import numpy

from terngrad import _arguments, _core


@dataclasses.dataclass(frozen=True)
class CodecKey:
    """An option of a codec: ``name=value`` in its spec."""

    name: str
    default: str
    accepted: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class CodecInfo:
    """A codec of the library, with its defaults."""

    name: str
    summary: str
    source: str                 #: the publications that it is from
    keys: tuple                 #: of CodecKey
    bits_per_element: tuple     #: of payloads of a fixed size, for the words of its keys; ascending
    unbiased: bool              #: E[decoded] = gradient
    summable: bool              #: codes of workers add up as integers
    sums_as_float: bool         #: elements of workers add up in float32
    runs_on_gpus: bool


def codecs():
    """All codecs by name, as ``terngrad_train --list_codecs`` prints them.

    >>> import terngrad
    >>> sorted(terngrad.codecs())
    ['bf16', 'fp32', 'fp8', 'natural', 'onebit', 'qsgd', 'sign', 'ternary']
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


def presets():
    """Names for a codec with several options at once: ``{name: {"spec", "memory", "summary"}}``.

    >>> import terngrad
    >>> terngrad.presets()["efsignsgd"]["memory"]
    'ef'
    """
    return {entry.pop("name"): entry for entry in _core.list_presets()}


def make_spec(codec, options):
    """The spec NAME:KEY=VALUE,... of a codec (or of a spec) with further options.

    >>> make_spec("ternary", {"clip_factor": 2.5})
    'ternary:clip_factor=2.5'
    """
    if not options:
        return codec
    words = {True: "true", False: "false"}
    text = ",".join(f"{key}={words[value] if isinstance(value, bool) else value}" for key, value in options.items())
    return f"{codec}{',' if ':' in codec else ':'}{text}"


@dataclasses.dataclass(frozen=True)
class Message:
    """One worker's gradient, encoded: what travels, and what its reader has to know.

    ``bytes(message)`` is the message of ``docs/wire-format.md`` (kind 2), with header, scalers, codes and checksums.
    """

    data: bytes = dataclasses.field(repr=False)
    shapes: dict = dataclasses.field(repr=False, compare=False)  #: of the tensors by name
    is_single: bool = dataclasses.field(repr=False, default=False)
    worker: int = 0
    step: int = 0
    run_id: int = 0

    @classmethod
    def of(cls, data, shapes, run_id=0):
        """What came as bytes. @param shapes  {name: shape}, as its sender has them; one shape for a single tensor
        @raises CommunicationError for what is no message"""
        label = _core.label(bytes(data))
        is_single = not hasattr(shapes, "keys")
        shapes = _arguments.by_name(shapes)
        shapes = {name: tuple(_arguments.integer(f"a size of tensor '{name}'", size, 0, 2**62) for size in shape)
                  for name, shape in shapes.items()}
        return cls(bytes(data), shapes, is_single, label["worker"], label["step"], run_id)

    def __bytes__(self):
        return self.data

    @property
    def nbytes(self):
        return len(self.data)


class Codec:
    """A codec with its options, for one worker of `num_workers`.

    `codec` is a name, a preset or a spec of ``docs/codecs.md``; options of the codec may follow as keywords. All tensors
    are encoded with it, whatever their size.

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

    def __init__(self, codec="ternary", *, num_workers=1, **options):
        self._given = make_spec(_arguments.text("codec", codec), options)
        self.num_workers = _arguments.integer("num_workers", num_workers, 1, 2**24)
        self.spec = _core.canonical_spec(self._given)
        self._plans = {}
        facts = self._plan({"tensor": (64,)}).tensors()[0]
        self.name = self.spec.split(":")[0]
        self.bits_per_element = facts["bits_per_element"]
        self.fixed_size = facts["fixed_size"]
        self.unbiased = facts["unbiased"]
        self.summable = facts["summable"]
        self._shares_scalers = facts["shares_scalers"]

    def __repr__(self):
        return f"Codec({self._given!r}, num_workers={self.num_workers})"

    def _plan(self, shapes):
        key = tuple(shapes.items())
        if key not in self._plans:
            if len(self._plans) > 64:
                self._plans.clear()
            self._plans[key] = _core.Plan.make(
                names=list(shapes), shapes=[list(shape) for shape in shapes.values()], logits=[False] * len(shapes),
                codec=self._given, codec_for=[], min_elements=0, quantize_logits=True, num_workers=self.num_workers)
        return self._plans[key]

    def measure(self, tensors, *, step=0, worker=0, seed=1):
        """The scalers that this worker would encode with by itself: what the others need (see `encode`).

        @returns a list of float, in the order of the tensors and their blocks
        """
        return self._measured(_arguments.by_name(tensors), seed, step, worker, "stop").scalers()

    def _measured(self, tensors, seed, step, worker, on_nonfinite):
        encoder = _core.Encoder(self._plan(_arguments.shapes_of(tensors)),
                                _arguments.integer("worker", worker, 0, self.num_workers - 1), _arguments.seed(seed))
        encoder.measure(list(tensors.values()), _arguments.step(step))
        if on_nonfinite not in ("stop", "zero"):
            raise _core.InvalidArgument(f"on_nonfinite '{on_nonfinite}' is unknown; accepted: stop, zero")
        nonfinite = encoder.nonfinite()
        if nonfinite and on_nonfinite == "stop":
            raise _core.NonFiniteError(f"tensor '{nonfinite[0]}' holds NaN or infinity, or is too large for the codec")
        return encoder

    def encode(self, tensors, *, seed=1, step=0, worker=0, run_id=0, scalers=None, on_nonfinite="stop"):
        """A worker's gradient, one tensor or several by name, as a Message.

        Draws depend on seed, step, worker and an element's position alone, so equal arguments give equal bytes.

        @param scalers  where workers share scalers (``sharing=max``): what `measure` gave on each other worker, by
            number: ``{1: [...], 2: [...]}``. Needed for all of them if there is more than one worker
        @param on_nonfinite  stop: NonFiniteError for a tensor that holds NaN or infinity; zero: it is sent as zeros
        @raises InvalidArgument for tensors that are no float32, float16 or bfloat16, or not contiguous
        """
        tensors_by_name = _arguments.by_name(tensors)
        values = list(tensors_by_name.values())
        encoder = self._measured(tensors_by_name, seed, step, worker, on_nonfinite)
        others = set(range(self.num_workers)) - {worker}
        if scalers is not None and not (self._shares_scalers and hasattr(scalers, "keys")):
            raise _core.InvalidArgument("scalers are {worker: codec.measure(...)}, of a codec whose workers share them")
        if self._shares_scalers and others and set(scalers or {}) != others:
            raise _core.InvalidArgument(
                f"codec {self.name} of {self.num_workers} workers needs the scalers of all others, {sorted(others)}: "
                f"pass scalers={{worker: codec.measure(...)}}, or make the codec with num_workers=1 or sharing='none'")
        for other, values_of_other in (scalers or {}).items():
            encoder.set_scalers(other, values_of_other)
        data = encoder.encode(values, step, _arguments.run_id(run_id))
        return Message(data, _arguments.shapes_of(tensors_by_name), not hasattr(tensors, "keys"), worker, step, run_id)

    def decode(self, message, out=None):
        """What a message says: an array of numpy, or one for each tensor by name. What came as bytes: `Message.of`.

        @param out  arrays in place of new ones, contiguous float32
        @raises CommunicationError for a message that is damaged, or of another codec, layout or step
        """
        plan = self._plan(message.shapes)
        if out is None:
            targets = {name: numpy.empty(shape, numpy.float32) for name, shape in message.shapes.items()}
        else:
            targets = {"tensor": out} if message.is_single else _arguments.by_name(out)
        worker = _core.decode(plan, message.data, message.step, message.run_id,
                              [_arguments.take(targets, name, "out") for name in message.shapes])
        if worker != message.worker:
            raise _core.CommunicationError(f"the message is worker {worker}'s, not worker {message.worker}'s")
        if out is not None:
            return out
        return targets["tensor"] if message.is_single else targets
