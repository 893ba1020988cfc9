"""Exchanges: the mean of all workers' gradients, computed from encoded messages."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

from terngrad import _arguments, _codecs, _core
from terngrad._arguments import Array
from terngrad._codecs import Floats
from terngrad._communicators import Communicator, DeviceCommunicator
from terngrad._plan import Plan, TensorPlan


@dataclasses.dataclass(frozen=True)
class Report:
    """Bytes, times and status of an exchange. Bytes are those of serialized messages over the links of this process's workers,
    counting each worker as a process of its own."""

    sent_bytes: int
    received_bytes: int
    scalers: tuple[int, int]    #: (sent, received) bytes of shared scalers
    gradient: tuple[int, int]   #: (sent, received) bytes of encoded gradients (uplink)
    mean: tuple[int, int]       #: (sent, received) bytes of the mean (downlink)
    measure_seconds: float
    encode_seconds: float
    wire_seconds: float
    decode_seconds: float
    skipped: bool            #: the caller must drop the step: a gradient or the mean was not finite
    nonfinite: str           #: tensor and worker that were not finite, or empty
    mean_tensors: dict[str, Any] = dataclasses.field(repr=False, default_factory=dict)  #: the mean by name


class Layout:
    """Names, shapes and order of a gradient's tensors, equal on all workers.

    >>> import terngrad
    >>> layout = terngrad.Layout({"fc/weights": (100, 10), "fc/biases": (10,)})
    >>> layout.num_elements
    1010
    """

    def __init__(self, shapes: Mapping[str, Iterable[int]], logits: Iterable[str] = ()) -> None:
        """@param shapes  {name: shape}, in order. @param logits  names of the last layer's tensors, which are sent as fp32
        unless the exchange has quantize_logits"""
        self.shapes = {_arguments.text("a tensor's name", name):
                       _arguments.shape(name, shape) for name, shape in _arguments.mapping("shapes", shapes).items()}
        self.logits = tuple(_arguments.items("logits", logits))
        unknown = set(self.logits) - set(self.shapes)
        if unknown:
            raise _core.InvalidArgument(f"logits names tensors that there are not: {', '.join(sorted(unknown))}")

    @classmethod
    def of(cls, tensors: Any) -> Layout:
        """The layout of tensors by name, or of the parameters of a PyTorch module that require a gradient."""
        if hasattr(tensors, "named_parameters"):
            tensors = {name: parameter for name, parameter in tensors.named_parameters() if parameter.requires_grad}
        return cls(_arguments.shapes_of(_arguments.by_name(tensors)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    @property
    def num_elements(self) -> int:
        total = 0
        for shape in self.shapes.values():
            count = 1
            for size in shape:
                count *= size
            total += count
        return total


def _is_memory(given: object, expected: str) -> bool:
    """True if two specs name the same memory, as "ef" and "ef:decay=1" do."""
    try:
        return isinstance(given, str) and bool(_core.canonical_memory(given) == _core.canonical_memory(expected))
    except _core.InvalidArgument:
        return False


class Exchange:
    """The mean of `num_workers` workers' gradients through encoded messages, bit-identical to ``terngrad_train``.

    All workers are in this process, unless a `Communicator` connects it with others: then each rank has a contiguous range of
    workers. Deterministic: results are bit-identical on every rank, for any number of ranks and threads. One call at a time.

    >>> import numpy, terngrad
    >>> gradients = [{"w": numpy.full((4, 3), value, numpy.float32)} for value in (1, 2, 6)]
    >>> exchange = terngrad.Exchange(terngrad.Layout.of(gradients[0]), 3, codec="fp32")
    >>> report = exchange.exchange(gradients, step=0)
    >>> float(report.mean_tensors["w"][0, 0])
    3.0
    """

    def __init__(self, layout: Layout, num_workers: int, codec: str = "ternary", *, codec_for: Mapping[str, str] | None = None,
                 min_elements: int = 1, quantize_logits: bool = False, algorithm: str = "auto", downlink_codec: str = "fp32",
                 on_nonfinite: str = "stop", memory: str = "auto", seed: int = 1, run_id: int = 0, num_threads: int = 1,
                 communicator: Communicator | DeviceCommunicator | None = None, device: int | None = None, stream: int = 0,
                 **options: object) -> None:
        """
        @param codec         a name, preset or spec; further codec options as keywords
        @param codec_for     {pattern (* and ?): spec} by tensor name; the first match applies
        @param min_elements  smaller tensors are sent as fp32
        @param algorithm     auto, all_gather, scatter_reduce or integer_sum
        @param downlink_codec  codec of the mean: fp32, bf16, sums, ternary or sparse
        @param on_nonfinite  on NaN or infinity: stop (NonFiniteError), skip (the step) or zero (send the tensor as zeros)
        @param memory        none, ef (error feedback), momentum, dgc, loco (error feedback in 8 bits) or ef21 (differences to an
            estimate of the gradient), with options as in ``ef:decay=0.9``; auto: default of the codec or preset
        @param device        index of a GPU: gradients and mean lie in its memory, `communicator` is a DeviceCommunicator.
            begin, part and finish only submit work; their Reports have bytes only, `wait` returns the complete one
        @param stream        that GPU's cudaStream_t as an integer, which must outlive the exchange; 0: the default stream
        @raises InvalidArgument, naming the option, for values that are invalid or cannot be combined
        """
        num_workers = _arguments.integer("num_workers", num_workers, 1, 2**24)
        self.layout = layout
        self._plan = _core.Plan.make(
            names=list(layout.names), shapes=[list(shape) for shape in layout.shapes.values()],
            logits=[name in layout.logits for name in layout.names], codec=_codecs.make_spec(codec, options),
            codec_for=[(_arguments.text("a pattern of codec_for", pattern), _arguments.text("a codec of codec_for", spec))
                       for pattern, spec in _arguments.mapping("codec_for", codec_for or {}).items()],
            min_elements=_arguments.integer("min_elements", min_elements, 0, 2**62), quantize_logits=quantize_logits,
            num_workers=num_workers)
        self.num_workers = num_workers
        #: Hash of layout and codecs: equal on all ranks; states can be loaded only where it is equal.
        self.fingerprint: int = self._plan.fingerprint
        self.memory: str = self._plan.memory if memory == "auto" else _arguments.text("memory", memory)
        num_threads, run_id = _arguments.integer("num_threads", num_threads, 1, 4096), _arguments.run_id(run_id)
        if not isinstance(communicator, (Communicator, DeviceCommunicator, type(None))):
            raise _core.InvalidArgument(f"communicator must be derived from Communicator or DeviceCommunicator, got {communicator!r:.80}")
        #: Index of the GPU, or None.
        self.device = device
        if device is None and stream != 0:
            raise _core.InvalidArgument("stream is of a GPU: device says of which")
        for option, value, default in (("num_threads", num_threads, 1), ("run_id", run_id, 0)):
            if device is not None and value != default:
                raise _core.InvalidArgument(f"{option} is of exchanges on the CPU, it does nothing on device {device}")
        self._core: Any = _core.Exchange(
            self._plan, _arguments.text("algorithm", algorithm), _arguments.text("downlink_codec", downlink_codec),
            _arguments.text("on_nonfinite", on_nonfinite), self.memory, _arguments.seed(seed), run_id, num_threads, communicator,
            device if device is None else _arguments.integer("device", device, 0, 1023), stream)
        self._numbers = {name: number for number, name in enumerate(layout.names)}

    @property
    def local_workers(self) -> range:
        """The global numbers of this process's workers."""
        first = self._core.first_local_worker
        return range(first, first + self._core.num_local_workers)

    def plan(self) -> Plan:
        """Codec and message size of each tensor: a list of `TensorPlan`, which prints as a table."""
        kept: collections.Counter[str] = collections.Counter()
        for name, worker, shape in self._states():  # a velocity of dgc is an array of its own
            if worker == self._core.first_local_worker:
                kept[name if name in self.layout.names else name.removesuffix("/velocity")] += 4 * math.prod(shape)
        return Plan(TensorPlan(**tensor, nbytes_kept=kept[tensor["name"]]) for tensor in self._plan.tensors())

    def exchange(self, gradients: Mapping[str, Array] | Sequence[Mapping[str, Array]], out: Mapping[str, Array] | None = None, *,
                 step: int) -> Report:
        """Exchanges one step: all tensors of all local workers. On a GPU it waits for the result.

        @param gradients  one {name: tensor} per local worker; with one local worker also the dictionary itself
        @param out        {name: contiguous float32 array} for the mean instead of new arrays; may be the gradients of
            a local worker. Unspecified if the step is skipped or fails
        @param step       keys the draws, and counts steps for codecs and memories that change with them
        @returns a Report with `mean_tensors`, which is empty if the step is skipped
        """
        self.begin(step)
        part = self.part(gradients, out)
        missing = [name for name in self.layout.names if name not in part.mean_tensors]
        if missing:
            raise _core.InvalidArgument(f"the gradients have no tensor '{missing[0]}'; begin, part and finish exchange some")
        report = self.finish()
        if self.device is not None:
            report = self.wait()
        return report if report.skipped else dataclasses.replace(report, mean_tensors=part.mean_tensors)

    def begin(self, step: int) -> None:
        """Begins a step, also after one that failed or was not finished. @param step  as for `exchange`"""
        self._core.begin(_arguments.step(step))

    def part(self, gradients: Mapping[str, Array] | Sequence[Mapping[str, Array]],
             out: Mapping[str, Array] | None = None) -> Report:
        """Exchanges the tensors that `gradients` names. All ranks exchange the same parts in the same order. After an
        exception the step is over: call `begin` again. @returns a Report of the part with its mean. Unless on_nonfinite is
        "zero", the mean is unspecified if `nonfinite` is not empty"""
        workers: list[Any] = [gradients] if hasattr(gradients, "keys") else _arguments.items("gradients", gradients)
        if not workers or not all(hasattr(tensors, "keys") for tensors in workers):
            raise _core.InvalidArgument("gradients are a list of {name: tensor}, one for each local worker")
        for name in workers[0].keys() - self._numbers.keys():
            _arguments.take(self._numbers, name, "the layout")
        names = sorted(workers[0], key=self._numbers.__getitem__)
        for tensors in workers[1:]:
            if tensors.keys() != workers[0].keys():
                raise _core.InvalidArgument("workers have different tensors: "
                                            f"{', '.join(sorted(set(tensors) ^ set(names)))}")
        if out is None and self.device is not None:
            raise _core.InvalidArgument("an exchange on a GPU needs out: arrays in its memory for the mean")
        if out is None:
            mean = {name: numpy.empty(self.layout.shapes[name], numpy.float32) for name in names}
        else:
            out = _arguments.mapping("out", out)
            mean = {name: _arguments.take(out, name, "out") for name in names}
        report = self._core.exchange([self._numbers[name] for name in names],
                                     [[tensors[name] for name in names] for tensors in workers], list(mean.values()))
        return Report(**report, mean_tensors=mean)

    def finish(self) -> Report:
        """Ends the step and updates the memory of the exchanged tensors. @returns a Report of all parts.
        @raises NonFiniteError with on_nonfinite="stop" if a tensor was not finite"""
        return Report(**self._core.finish())

    def wait(self) -> Report:
        """Waits for the work submitted to the GPU. @returns the last step's Report, with `skipped` and `nonfinite`. @raises
        NonFiniteError with on_nonfinite="stop" if a tensor of any step was not finite; InvalidArgument on the CPU"""
        if self.device is None:
            raise _core.InvalidArgument("wait is for exchanges on a GPU: on the CPU finish has waited")
        return Report(**self._core.report())

    @property
    def skip_flag(self) -> Any:
        """GPU only: int32 [1] in its memory with ``__dlpack__``, valid in stream order: nonzero once a part of the step was not
        finite and the step is to be dropped. Later steps overwrite it."""
        if self.device is None:
            raise _core.InvalidArgument("skip_flag is of exchanges on a GPU: on the CPU the Report says what is skipped")
        return self._core.skip

    def reset_state(self) -> None:
        """Zeros the memory of this process's workers and the state shared by all ranks. Call it on all ranks."""
        for index, (_, _, shape) in enumerate(self._states()):
            self._core.copy_state(index, numpy.zeros(shape, numpy.float32), True)

    def scale_state(self, factor: float) -> None:
        """Multiplies the memory of this process's workers by `factor`, for a change of the loss scale."""
        for index, (_, worker, shape) in enumerate(self._states()):
            if worker < 0 and not self._keeps_mean():
                continue  # PowerSGD factors: directions, which do not scale with the loss
            array: Floats = numpy.empty(shape, numpy.float32)
            self._core.copy_state(index, array, False)
            # In 8 bits the last word of a block is its scale, and the others hold the bits of codes.
            values = array[:, -1] if self.memory.startswith("loco") else array
            values *= numpy.float32(factor)
            self._core.copy_state(index, array, True)

    def _keeps_mean(self) -> bool:
        """True if the shared state is the mean of the workers' estimates, which belongs to their memory."""
        return self.memory.startswith("ef21")

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the arrays in each worker's memory: tensor names, with "/velocity" appended for velocities."""
        return tuple(dict.fromkeys(name for name, worker, _ in self._states() if worker >= 0))

    def _states(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """(name, worker, shape) of each state array; worker -1: shared, equal on all ranks."""
        return [(name, worker, tuple(shape)) for name, worker, shape in self._core.states()]

    def _take_over(self, other: Exchange) -> None:
        """Copies the other exchange's memory if both have the same kind and arrays, and shared state of equal shapes."""
        ours, theirs = self.state_dict(), other.state_dict()
        def kept(exchange: Exchange) -> tuple[object, ...]:
            return exchange.memory, [state for state in exchange._states() if state[1] >= 0]
        is_same = kept(self) == kept(other)
        for key in set(ours) - {"memory", "shared"} if is_same else ():
            ours[key] = theirs[key]
        for name, array in ours.get("shared", {}).items() if is_same or not self._keeps_mean() else ():
            found = theirs.get("shared", {}).get(name)
            if found is not None and found.shape == array.shape:
                ours["shared"][name] = found
        self.load_state_dict(ours)

    def decode_local(self, worker: int, name: str) -> tuple[Floats, float]:
        """Decodes a tensor of a local worker's message of the last finished step: (array, largest scaler)."""
        number: int = _arguments.take(self._numbers, name, "the layout")
        worker = _arguments.integer("worker", worker, self.local_workers.start, self.local_workers.stop - 1)
        sent: Floats = numpy.empty(self.layout.shapes[name], numpy.float32)
        scaler: float = self._core.decode_local(worker - self._core.first_local_worker, number, sent)
        return sent, scaler

    def state_dict(self) -> dict[Any, Any]:
        """The memory of this process's workers, {"memory": spec, worker: {name: array}}, and the state shared by all ranks,
        "shared": {name: array}: with PowerSGD its factors, with memory ef21 the mean of the workers' estimates. Arrays of the
        memory loco hold the bits of codes, not numbers."""
        result: dict[Any, Any] = {"memory": self.memory}
        for index, (name, worker, shape) in enumerate(self._states()):
            array: Floats = numpy.empty(shape, numpy.float32)
            self._core.copy_state(index, array, False)
            result.setdefault("shared" if worker < 0 else worker, {})[name] = array
        return result

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Restores a `state_dict`, which may also hold other workers. @raises InvalidArgument naming the array that is missing
        or has another memory or shape; nothing is restored then"""
        state = _arguments.mapping("the state", state)
        memory = state.get("memory")
        if not _is_memory(memory, self.memory):
            raise _core.InvalidArgument(f"the state is of memory {memory}, this is {self.memory}")
        arrays: list[Floats] = []
        states = self._states()
        names: dict[Any, list[str]] = {}
        for name, worker, _ in states:
            names.setdefault("shared" if worker < 0 else worker, []).append(name)
        for key, own in names.items():
            whose = "all ranks" if key == "shared" else f"worker {key}"
            if key not in state or set(_arguments.mapping(f"the state of {whose}", state[key])) != set(own):
                raise _core.InvalidArgument(f"the state of {whose} is missing, or of other tensors than {', '.join(own)}")
        for name, worker, shape in states:
            whose = "all ranks" if worker < 0 else f"worker {worker}"
            array = numpy.asarray(state["shared" if worker < 0 else worker][name])
            if array.shape != shape or array.dtype != numpy.float32:
                raise _core.InvalidArgument(f"the state of {whose}, tensor '{name}', is {array.dtype} of shape {array.shape}, "
                                            f"expected float32 of {shape}")
            arrays.append(numpy.ascontiguousarray(array).reshape(array.shape))
        for index, array in enumerate(arrays):
            self._core.copy_state(index, array, True)
