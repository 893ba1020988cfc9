"""The hook that compresses what DistributedDataParallel exchanges."""

# Annotations are no strings here: DDP compares those of a hook with its types.
import atexit
import json
import queue
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import torch
import torch.distributed as dist

from terngrad import _arguments, _core, telemetry
from terngrad._codecs import make_spec
from terngrad._exchange import Exchange, Report
from terngrad._plan import Plan
from terngrad.torch import _device_communicator, _gpu, _parameters, _replicas, _transforms
from terngrad.torch._communicator import exchange_group_of, GroupCommunicator
from terngrad.torch._device_communicator import GroupDeviceCommunicator

# Options of an exchange that are not of a codec.
COMMON_OPTIONS = ("codec", "codec_for", "min_elements", "algorithm", "downlink_codec", "memory", "on_nonfinite", "seed")
# What DDP does with a NaN is the optimizer's affair: it sees one, and so does a GradScaler.
POLICIES = {"propagate": "skip", "raise": "skip", "zero": "zero"}
# Options that are pickled with a state: all but groups and the GradScaler, which bind gives to it.
PICKLED = ("policy", "reduction", "check_replicas", "seed", "warmup_steps", "telemetry_steps", "timeout", "overlap", "finds_unused",
           "transforms", "options", "num_threads")


def exchange_policy(on_nonfinite: str) -> str:
    """What an exchange does under one of POLICIES. @raises InvalidArgument for another"""
    if on_nonfinite not in POLICIES:
        raise _core.InvalidArgument(f"on_nonfinite '{on_nonfinite}' is unknown; accepted: {', '.join(POLICIES)}")
    return POLICIES[on_nonfinite]


def _as_tensors(kept: Any) -> Any:
    """The state of an exchange, with tensors in place of arrays."""
    if isinstance(kept, dict):
        return {key: _as_tensors(value) for key, value in kept.items()}
    return torch.from_numpy(kept) if isinstance(kept, numpy.ndarray) else kept


def _as_arrays(kept: Any) -> Any:
    """The other way round, from any device."""
    if isinstance(kept, Mapping):
        return {key: _as_arrays(value) for key, value in kept.items()}
    return kept.cpu().numpy() if isinstance(kept, torch.Tensor) else kept


class CompressedAllReduceHook:
    """The state of `hook`: which codec each parameter has, what workers keep, and what the last step did.

    A worker is a rank of the group. A step is a backward pass that DDP synchronizes. The mean has the same bits on all
    ranks, and does not depend on DDP's buckets; given equal gradients they are those of `Exchange` and `VirtualWorkers`.

    @param model         the module, wrapped or not: its names decide codecs and draws
    @param codec         a name, preset or spec of docs/codecs.md; further options of the codec as keywords
    @param codec_for     {pattern (* and ?): spec} for parameters by name; the first match counts
    @param min_elements  smaller parameters travel as fp32
    @param process_group   of DDP. On GPUs (NCCL) the exchange uses it too. On CPUs it makes one of its own of the same ranks, so
        all of them construct the state; before PyTorch 2.1, and over MPI, all ranks of the default group have to, as
        torch.distributed.new_group asks for
    @param exchange_group  in place of that one: a group of the same ranks; on CPUs one that nothing else uses
    @param timeout       on CPUs: seconds after which a rank that does not answer has failed; None: PyTorch's default (30 minutes)
    @param memory        what workers keep: none, ef, momentum, dgc (for SGD without momentum), with options as ``ef:decay=0.9``; auto: what the codec or
        preset has by default
    @param find_unused_parameters  whether parameters may be unused on all ranks, as for DDP. With a memory, a parameter whose
        gradient is 0 on all ranks is then left alone: its mean is 0, and what workers keep of it stays. Ranks tell each other
        in 4 bytes a parameter, and a GPU is waited for
    @param grad_scaler   the GradScaler of the training. With a memory it is needed: what workers keep is multiplied as the
        scale changes. So it is for votes without a scaler (``sign:scale=one``, as signsgd and signum have): their mean, -1, 0 or 1
        whatever the loss is multiplied by, is multiplied by the scale, by which the optimizer's step divides it
    @param on_nonfinite  NaN or infinity in any rank: propagate (the bucket becomes NaN on all ranks, nothing is kept of
        the step, as an optimizer or GradScaler expects; on GPUs the step's later buckets too), raise (backward raises; on GPUs
        that of the next step does, and this one propagates), or zero (the tensor)
    @param reduction     mean, or sum: the mean times the number of ranks, for losses that are divided by the examples of all ranks
    @param check_replicas  every how many steps ranks compare checksums of their parameters before the exchange; the backward pass
        raises, naming rank and parameter, where they differ. 0: never. Parameters of a GPU are copied to the CPU for it
    @param transforms    functions (name, parameter, gradient) that change a gradient in place before it is compressed:
        `WeightDecay`
    @param warmup_steps  the first steps, which travel as fp32, and nothing is kept of them
    @param telemetry_steps  every how many steps `telemetry` compares this rank's gradient with what it sent; 0: never
    @param overlap       exchange while the backward pass continues: in a thread of its own, on a GPU on a stream of its own
    @param num_threads   that encode and decode on a CPU
    @raises InvalidArgument for parameters or options that cannot be honoured, by name, and for options or parameters that
        differ between ranks
    """

    def __init__(self, model: torch.nn.Module, codec: str = "ternary", *, codec_for: Mapping[str, str] | None = None,
                 min_elements: int = 1024, process_group: Any = None, exchange_group: Any = None, timeout: float | None = None,
                 algorithm: str = "auto", downlink_codec: str = "fp32", memory: str = "auto",
                 find_unused_parameters: bool = False, grad_scaler: Any = None,
                 on_nonfinite: str = "propagate", reduction: str = "mean", check_replicas: int = 0, seed: int = 1,
                 transforms: Iterable[_transforms.Transform] = (), warmup_steps: int = 0, telemetry_steps: int = 0,
                 overlap: bool = True, num_threads: int = 1, **options: object) -> None:
        if grad_scaler is not None and not hasattr(grad_scaler, "get_scale"):
            raise _core.InvalidArgument(f"grad_scaler has no get_scale: {type(grad_scaler).__name__}")
        self._policy = on_nonfinite
        self._reduction = _parameters.reduction(reduction)
        self._check_replicas = _arguments.integer("check_replicas", check_replicas, 0, 2**40)
        self._seed = _arguments.seed(seed)
        self._warmup_steps = _arguments.integer("warmup_steps", warmup_steps, 0, 2**40)
        self._telemetry_steps = _arguments.integer("telemetry_steps", telemetry_steps, 0, 2**40)
        self._overlap = _arguments.flag("overlap", overlap)
        self._finds_unused = _arguments.flag("find_unused_parameters", find_unused_parameters)
        self._transforms = _transforms.checked(transforms)
        self._timeout = None if timeout is None else _arguments.number("timeout", timeout)
        self._options: dict[str, Any] = {
            "codec": codec, "codec_for": _arguments.mapping("codec_for", codec_for or {}), "min_elements": min_elements, "algorithm": algorithm,
            "downlink_codec": downlink_codec, "memory": memory, "on_nonfinite": exchange_policy(on_nonfinite), "seed": seed, **options}
        self._num_threads = num_threads
        self._grad_scaler = grad_scaler
        self._scale: float | None = None  # that of what workers keep
        #: How many steps are done.
        self.step = 0
        self._connect(model, process_group, exchange_group)

    def _connect(self, model: torch.nn.Module, process_group: Any, exchange_group: Any) -> None:
        self._device = _parameters.device_of(model)
        gpu = _gpu.index_of(self._device)
        groups = (process_group, exchange_group, self._timeout)
        self._communicator: GroupCommunicator | GroupDeviceCommunicator
        if gpu is None:
            self._communicator = GroupCommunicator(exchange_group_of(*groups))
        else:
            self._communicator = GroupDeviceCommunicator(_device_communicator.exchange_group_of(*groups))
        problem = None
        try:
            self._parameters = _parameters.trained_parameters(model)
        except _core.Error as error:
            problem = error
            self._parameters = {}
        layout = _parameters.layout_of(self._parameters)
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._others = {id(parameter): _parameters.plain_name(name) for name, parameter in model.named_parameters()}
        self._require_agreement(problem, {
            "parameters": [[name, list(shape)] for name, shape in layout.shapes.items()], "warmup_steps": self._warmup_steps,
            **self._options, "on_nonfinite": self._policy, "find_unused_parameters": self._finds_unused,
            "reduction": self._reduction, "check_replicas": self._check_replicas,
            "transforms": _transforms.names_of(self._transforms), "codec_for": list(self._options["codec_for"].items()),
            "grad_scaler": "none" if self._grad_scaler is None else "one"})
        common: dict[str, Any] = {"quantize_logits": True, "num_threads": self._num_threads, "communicator": self._communicator}
        # On a GPU exchanges are submitted to a stream; on the CPU they are done by a thread.
        self._side: _gpu.SideStream | None = None
        if gpu is not None:
            self._side = _gpu.SideStream(self._device)
            common.update(device=gpu, stream=self._side.handle)
        self._common = common
        #: Who encodes and decodes.
        self.exchange = Exchange(layout, self._communicator.size, **self._options, **common)
        self._warmup = None
        if self._warmup_steps > 0:
            kept = {name: self._options[name] for name in ("on_nonfinite", "seed")}
            self._warmup = Exchange(layout, self._communicator.size, "fp32", **kept, **common)
        self._require_steps_that_fit(self.exchange)
        self._leaves_out = _parameters.skips_zeros(self.exchange, self._finds_unused)
        self._votes = _parameters.names_of_votes(self.exchange)
        #: What ended the exchange, or None. Every later step fails with it.
        self.error: BaseException | None = None
        self._is_closed = False
        is_ddp = isinstance(model, torch.nn.parallel.DistributedDataParallel)
        self._ddp = weakref.ref(model) if is_ddp else None
        # Buckets of DDP, and those that are exchanged.
        self._num_submitted = 0
        self._num_exchanged = 0
        self._report: Report | None = None
        self._last: Exchange | None = None             # that of the last step, on a GPU
        self._telemetry: dict[str, dict[str, float]] = {}
        self._gradients: dict[str, torch.Tensor] = {}  # of the step, for telemetry
        self._current: Exchange | None = None          # of the step under way
        # Views of the buckets of the last step, and of this one, by their parameters.
        self._views: dict[tuple[int, ...], tuple[int, dict[str, torch.Tensor]]] = {}
        self._used_views: dict[tuple[int, ...], tuple[int, dict[str, torch.Tensor]]] = {}
        self._queue: queue.Queue[Any] | None = None
        if self._overlap and self._side is None:
            self._queue = queue.Queue()
            # The thread holds no state that nobody else holds.
            thread = threading.Thread(target=_run, args=(self._queue, weakref.ref(self)), name="terngrad exchange", daemon=True)
            thread.start()
            _threads[thread] = self._queue
            weakref.finalize(self, self._queue.put, None).atexit = False

    def _require_agreement(self, problem: Exception | None, options: dict[str, Any]) -> None:
        """@raises InvalidArgument, on all ranks, for what differs between them or is wrong on one of them"""
        said = {"problem": str(problem)} if problem is not None else options
        of_ranks = self._communicator.gather_objects(said)
        if problem is not None:
            raise problem
        for rank, theirs in enumerate(of_ranks):
            if "problem" in theirs:
                raise _core.InvalidArgument(f"rank {rank}: {theirs['problem']}")
        for rank, theirs in enumerate(of_ranks):
            for name in {**of_ranks[0], **theirs}:
                values = of_ranks[0].get(name), theirs.get(name)
                if values[0] != values[1]:
                    detail = "the model has other trained parameters" if name == "parameters" else f"{values[1]}, not {values[0]}"
                    raise _core.InvalidArgument(f"{name} of rank {rank} is not that of rank 0: {detail}")

    @property
    def _codec(self) -> str:
        """As it was given, with its options."""
        return make_spec(self._options["codec"],
                         {name: value for name, value in self._options.items() if name not in COMMON_OPTIONS})

    def set_codecs(self, codec: str, *, codec_for: Mapping[str, str] | None = None, **options: object) -> None:
        """Changes the codecs from the next step on; all ranks call this, between steps. What workers keep stays where the memory
        is the same as before, else it begins with zeros.

        @param options  of the codec
        @raises InvalidArgument as the constructor does, for options of the constructor that are no codec's, and during a step
        """
        if self._current is not None or self._num_submitted != self._num_exchanged:
            raise _core.InvalidArgument(f"codecs change between steps: step {self.step} is under way")
        kept = {name: self._options[name] for name in COMMON_OPTIONS if name not in ("codec", "codec_for")}
        common = sorted(options.keys() & kept.keys())
        if common:
            raise _core.InvalidArgument(f"set_codecs changes codecs, {common[0]} is of the constructor")
        changed = {**kept, "codec": codec, "codec_for": _arguments.mapping("codec_for", codec_for or {}), **options}
        self._require_agreement(None, {**changed, "codec_for": list(changed["codec_for"].items())})
        exchange = Exchange(self.exchange.layout, self._communicator.size, **changed, **self._common)
        self._require_steps_that_fit(exchange)
        exchange._take_over(self.exchange)
        self.report()  # of the last step, while that can be asked
        self._options, self.exchange, self._last = changed, exchange, None
        self._leaves_out = _parameters.skips_zeros(exchange, self._finds_unused)
        self._votes = _parameters.names_of_votes(exchange)

    def _require_steps_that_fit(self, exchange: Exchange) -> None:
        if self._warmup_steps > 0 and exchange.memory.startswith("dgc"):
            raise _core.InvalidArgument(f"warmup_steps={self._warmup_steps}: the memory dgc has the momentum, and rests in steps "
                                        "that travel as fp32; accepted with it: 0, or topk's stage_steps")

    def plan(self) -> Plan:
        """How each parameter travels: a list of `TensorPlan`, which prints as a table, with what exempting some would cost."""
        return self.exchange.plan()

    def report(self) -> Report | None:
        """What the last step did, or None before the first. On a GPU this waits for it; there are no times then."""
        return None if self._report is None else self._waited()

    def _waited(self) -> Report:
        assert self._report is not None
        if self._last is not None:
            self._report = self._last.wait()
        return self._report

    def telemetry(self) -> dict[str, dict[str, float]]:
        """Of the last step with telemetry (`telemetry_steps`), for each parameter: `terngrad.telemetry` of this rank's
        gradient and what was sent for it, with the scaler. With a memory what was sent is of the gradient and what was kept"""
        return self._telemetry

    def state_dict(self, gather: bool = False) -> dict[str, Any] | None:
        """This rank's state: step, seed and what its worker keeps, by names of parameters: of texts, numbers and tensors, which
        ``torch.load(weights_only=True)`` reads.

        @param gather  all ranks' in one, for rank 0 to save; None on the others. All ranks call it then
        """
        if not self._is_bound and not gather:
            return dict(self._saved)
        own = {"version": 1, "step": self.step, "num_workers": self._communicator.size, "rank": self._communicator.rank,
               "seed": self._seed, "codec": self._codec, "fingerprint": self.exchange.fingerprint, "scale": self._scale,
               "state": _as_tensors(self.exchange.state_dict())}
        if not gather:
            return own
        group = self._communicator.group
        ranks: list[Any] | None = [None] * self._communicator.size if self._communicator.rank == 0 else None
        dist.gather_object(own, ranks, dst=dist.get_global_rank(group, 0), group=group)
        return None if ranks is None else {"version": 1, "ranks": ranks}

    def load_state_dict(self, state: Mapping[str, Any], reset_residuals: bool = False) -> None:
        """Restores what `state_dict` gave on this rank, or a gathered one. @raises InvalidArgument for that of another rank,
        number of ranks, seed, memory, or other parameters or codecs (fingerprint)

        @param reset_residuals  take the step only: what workers keep begins with zeros. For another number of ranks
        """
        state = _arguments.mapping("the saved state", state)
        if "ranks" in state:
            ranks = _arguments.items("the states of ranks", state["ranks"])
            if not ranks:
                raise _core.InvalidArgument("the saved state is of no rank")
            if not reset_residuals and len(ranks) != self._communicator.size:
                raise _core.InvalidArgument(f"the saved state is of num_workers {len(ranks)}, this is {self._communicator.size}")
            state = _arguments.mapping("the state of a rank", ranks[0 if reset_residuals else self._communicator.rank])
        step = _arguments.integer("the step of the saved state", state.get("step"), 0, 2**40)
        expected = {"version": 1, "seed": self._seed}
        if not reset_residuals:
            expected["num_workers"] = self._communicator.size
        if not reset_residuals and self.exchange.memory != "none":  # else ranks have nothing of their own
            expected["rank"] = self._communicator.rank
        for name, ours in expected.items():
            if state.get(name) != ours:
                hint = "; each rank loads its own, or all what state_dict(gather=True) gave" if name == "rank" else ""
                raise _core.InvalidArgument(f"the saved state is of {name} {state.get(name)}, this is {ours}{hint}")
        if not reset_residuals and state.get("fingerprint") != self.exchange.fingerprint:
            raise _core.InvalidArgument(f"the saved state is of codec {state.get('codec')}, this is {self._codec}, or of other "
                                        "parameters or options (their fingerprint differs)")
        if reset_residuals:
            self.exchange.reset_state()
        else:
            self.exchange.load_state_dict(_as_arrays(state.get("state")))
        scale = 1.0 if reset_residuals or state.get("scale") is None else state["scale"]
        if self._grad_scaler is None and scale != 1.0:
            self.exchange.scale_state(1.0 / scale)
        self._scale = None if self._grad_scaler is None else scale
        self.step = step

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: getattr(self, f"_{name}") for name in PICKLED}, "saved": self.state_dict()}

    @property
    def _is_bound(self) -> bool:
        """False for a pickled or copied state until bind connects it."""
        return "_saved" not in vars(self)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "_saved" in vars(self):
            raise _core.InvalidArgument("the state was pickled or copied: bind connects it with a model and a process group")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._saved = state.pop("saved")
        for name, value in state.items():
            setattr(self, f"_{name}", value)
        self._grad_scaler = None
        self._scale = None
        self.step = self._saved["step"]

    def bind(self, model: torch.nn.Module, process_group: Any = None, exchange_group: Any = None, grad_scaler: Any = None) -> None:
        """Connects a state that was pickled, on all ranks, before it is registered. Groups and grad_scaler as in the
        constructor."""
        if self._is_bound:
            raise _core.InvalidArgument("bind is for a state that was pickled: this one has its group")
        self._grad_scaler = grad_scaler
        self._connect(model, process_group, exchange_group)
        self.load_state_dict(self._saved)
        del self._saved

    def _tensors(self, bucket: dist.GradBucket) -> dict[str, torch.Tensor]:
        """The bucket's memory as tensors by name: an element's place is that of its parameter's memory."""
        buffer = bucket.buffer()
        if buffer.is_sparse:
            raise _core.NotSupported("the gradients are sparse; dense ones are compressed")
        if buffer.device != self._device:
            raise _core.NotSupported(f"the gradients are on {buffer.device}, the parameters were on {self._device} when the state was made")
        parameters = bucket.parameters()
        key = tuple(map(id, parameters))
        address, tensors = self._views.get(key, (0, {}))
        if address != buffer.data_ptr():
            tensors, first = {}, 0
            for parameter in parameters:
                name = self._names.get(id(parameter))
                if name is None:
                    raise _core.InvalidArgument(f"DDP exchanges parameter '{self._others.get(id(parameter), '?')}', which was none of the "
                                                "module's, or was not trained, when the hook was made: freeze or unfreeze before DDP "
                                                "is made, and compress then")
                tensors[name] = buffer.narrow(0, first, parameter.numel()).view(parameter.shape)
                first += parameter.numel()
        # DDP keeps its buckets. Views of those that it has dealt anew are forgotten after the step.
        self._used_views[key] = (buffer.data_ptr(), tensors)
        if bucket.is_last():
            self._views, self._used_views = self._used_views, {}
        return tensors

    def _begin(self) -> Exchange:
        if self._policy == "raise" and self._last is not None:
            before = self._last.wait()  # ranks notice alike
            if before.skipped:
                raise _core.NonFiniteError(before.nonfinite)
        exchange = self._warmup if self._warmup is not None and self.step < self._warmup_steps else self.exchange
        if self._grad_scaler is not None:
            scale = float(self._grad_scaler.get_scale())
            if self._scale is not None and scale != self._scale:
                self.exchange.scale_state(scale / self._scale)
            self._scale = scale
        if self._check_replicas > 0 and self.step % self._check_replicas == 0:
            _replicas.require_equal(self._parameters, self._communicator.gather_objects, self.step)
        exchange.begin(self.step)
        self._gradients = {}
        return exchange

    def _work(self, tensors: dict[str, torch.Tensor], buffer: torch.Tensor, is_last: bool) -> None:
        if self.error is not None:
            raise self.error
        if self._current is None:
            self._current = self._begin()
        exchange = self._current
        if self._transforms:
            _transforms.apply(self._transforms, self._parameters, tensors)
        if self._leaves_out and exchange is self.exchange:
            tensors = self._without_zeros(tensors)
        has_telemetry = self._telemetry_steps > 0 and self.step % self._telemetry_steps == 0
        if has_telemetry:
            self._gradients.update({name: tensor.float().clone() for name, tensor in tensors.items()})
        if tensors:
            mean = tensors
            if buffer.dtype != torch.float32:
                mean = {name: torch.empty(tensor.shape, dtype=torch.float32, device=buffer.device) for name, tensor in tensors.items()}
            report = exchange.part(tensors, mean)
            times = float(self._communicator.size) if self._reduction == "sum" else 1.0
            scale = 1.0 if self._scale is None or exchange is not self.exchange else self._scale
            for name, tensor in tensors.items():
                _parameters.write_mean(tensor, mean[name], times * scale if name in self._votes else times)
            if self._side is not None and self._policy != "zero":
                buffer.masked_fill_(torch.from_dlpack(exchange.skip_flag) != 0, float("nan"))
            if report.nonfinite and self._policy == "propagate":
                buffer.fill_(float("nan"))
            if report.nonfinite and self._policy == "raise":
                raise _core.NonFiniteError(report.nonfinite)
        if is_last:
            self._report = exchange.finish()
            self._last = exchange if self._side is not None else None
            if has_telemetry and not self._waited().skipped:
                self._telemetry = self._compare_with_sent(exchange)
            self._current = None
            self.step += 1

    def _without_zeros(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Those that are not 0 on all ranks."""
        nonzero = _parameters.nonzero_names(tensors)
        flags = torch.tensor([name in nonzero for name in tensors], dtype=torch.int32, device=self._device)
        self._communicator.all_reduce_max(flags.numpy() if self._side is None else flags)
        return {name: tensor for (name, tensor), flag in zip(tensors.items(), flags.tolist()) if flag}

    def _compare_with_sent(self, exchange: Exchange) -> dict[str, dict[str, float]]:
        found = {}
        for name, gradient in self._gradients.items():
            sent, scaler = exchange.decode_local(self._communicator.rank, name)
            found[name] = {**telemetry(gradient.cpu(), sent, scaler), "scaler": scaler}
        self._gradients = {}
        return found

    def _finish(self, future: torch.futures.Future[torch.Tensor], work: tuple[dict[str, torch.Tensor], torch.Tensor, bool]) -> None:
        try:
            self._work(*work)
        except BaseException as error:  # whatever it is, backward has to end with it
            self.error = self.error or error
        self._num_exchanged += 1
        future.set_result(work[1])

    def close(self) -> None:
        """Ends the thread of the exchange; a backward pass after it raises. The process group of its own stays until
        torch.distributed.destroy_process_group()."""
        self._is_closed = True
        if self._queue is not None:
            self._queue.put(None)

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What `hook` does."""
        if self._is_closed:
            raise _core.InvalidArgument("the state was closed: no backward pass may follow")
        ddp = None if self._ddp is None else self._ddp()
        if getattr(ddp, "_divide_by_initial_world_size", True) is False:
            raise _core.NotSupported("Join with divide_by_initial_world_size=False: the mean is over all ranks, those that have ended "
                                     "with zeros")
        work = (self._tensors(bucket), bucket.buffer(), bucket.is_last())

        self._num_submitted += 1

        def result(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            if self.error is not None:
                kind = "" if isinstance(self.error, _core.Error) else f"{type(self.error).__name__}: "
                raise RuntimeError(f"terngrad: {kind}{self.error}")
            return done.value()

        if self._side is not None:
            self._side.require_no_capture()
            future = self._side.future()
            with self._side.after_current(self._overlap):
                self._finish(future, work)
            return future.then(result)
        future = torch.futures.Future()
        if self._queue is None:
            self._finish(future, work)
        else:
            self._queue.put((future, work))
        return future.then(result)


# Of states: each with what it takes its work from.
_threads: "weakref.WeakKeyDictionary[threading.Thread, queue.Queue[Any]]" = weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """A thread must not come back to an interpreter that has ended. One that waits for a lost rank is left alone."""
    for thread, items in list(_threads.items()):
        items.put(None)
        thread.join(timeout=2.0)


def _run(items: "queue.Queue[Any]", reference: "weakref.ref[CompressedAllReduceHook]") -> None:
    """Works off what is submitted. A state that nobody holds has nothing to do: its last item is None."""
    while (item := items.get()) is not None:
        state = reference()
        if state is None:
            return
        state._finish(*item)
        del state, item


def hook(state: CompressedAllReduceHook,
         bucket: dist.GradBucket = None) -> torch.futures.Future[torch.Tensor]:  # FSDP passes one argument
    """The communication hook: ``ddp.register_comm_hook(state, terngrad.torch.hook)``."""
    if not isinstance(state, CompressedAllReduceHook):
        raise _core.InvalidArgument(f"the hook's state is a {type(state).__name__}, expected a CompressedAllReduceHook; what FSDP "
                                    "reduces (set_all_reduce_hook) is not supported: register it with a DistributedDataParallel")
    if not hasattr(bucket, "buffer"):
        raise _core.NotSupported("the hook got a gradient in place of a bucket: optimize_ddp='python_reducer' is not supported")
    return state.submit(bucket)


# Those that `compress` has seen: PyTorch 1.13 does not say which have a hook.
_compressed: "weakref.WeakKeyDictionary[torch.nn.Module, None]" = weakref.WeakKeyDictionary()


def _require_free(ddp: Any) -> None:
    """@raises Error, before anything is made, for what is no DistributedDataParallel or exchanges by a hook already"""
    if isinstance(getattr(ddp, "_orig_mod", None), torch.nn.parallel.DistributedDataParallel):
        raise _core.InvalidArgument("compress takes the DistributedDataParallel that torch.compile was given: compress it, then compile")
    if isinstance(ddp, torch.nn.Module):
        _parameters.refuse_shards(ddp)
    if not isinstance(ddp, torch.nn.parallel.DistributedDataParallel):
        raise _core.InvalidArgument(f"compress takes a DistributedDataParallel, got {type(ddp).__name__}")
    if getattr(ddp, "mixed_precision", None) is not None:
        raise _core.NotSupported("DDP's mixed_precision exchanges by a hook of its own; autocast and parameters in bf16 are supported")
    if any(hasattr(parameter, "_in_backward_optimizers") for parameter in ddp.parameters()):
        raise _core.NotSupported("optimizers in the backward pass exchange by a hook of DDP's own; one that steps after it is supported")
    if getattr(ddp, "skip_all_reduce_unused_params", False):
        raise _core.NotSupported("skip_all_reduce_unused_params leaves out buckets, of which nothing tells the hook; "
                                 "find_unused_parameters without it is supported")
    # A copy of a model has the hook's entry and no hook.
    hooks = [(each, state) for each, state in getattr(ddp, "_comm_hooks", ())
             if not (isinstance(state, CompressedAllReduceHook) and not state._is_bound)]
    if ddp in _compressed or any(each is hook for each, _ in hooks):
        raise _core.InvalidArgument("the model is compressed already: set_codecs of its state changes codecs")
    if hooks:
        raise _core.InvalidArgument(f"the model has the communication hook {hooks[0][0].__qualname__}; DDP takes one")


def compress(ddp: torch.nn.parallel.DistributedDataParallel, codec: str = "ternary", **options: Any) -> CompressedAllReduceHook:
    """Compresses what a DistributedDataParallel model exchanges, from its next backward pass on.

    @param options  of `CompressedAllReduceHook`, and of the codec; find_unused_parameters is DDP's by default
    @returns its state. All ranks call this
    """
    _require_free(ddp)
    if "process_group" in options:
        raise _core.InvalidArgument("process_group is DDP's own; exchange_group takes another one of the same ranks")
    # With a static graph DDP finds them in its first step.
    options = {"find_unused_parameters": bool(ddp.find_unused_parameters or getattr(ddp, "static_graph", False)), **options}
    state = CompressedAllReduceHook(ddp, codec, process_group=ddp.process_group, **options)
    ddp.register_comm_hook(state, hook)
    _compressed[ddp] = None
    return state
