"""The communication hook for DistributedDataParallel (DDP) that exchanges compressed gradients."""

# No `from __future__ import annotations` here: DDP compares a hook's annotations with types, not strings.
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

# Options of an exchange that are not codec options.
COMMON_OPTIONS = ("codec", "codec_for", "min_elements", "algorithm", "downlink_codec", "memory", "on_nonfinite", "seed")
# on_nonfinite of the hook: the policy of its exchange. propagate NaN as plain DDP does, so that GradScaler detects it.
POLICIES = {"propagate": "skip", "raise": "skip", "zero": "zero"}
# Options that are pickled with a state: all except groups and the GradScaler, which `bind` sets.
PICKLED = ("policy", "reduction", "check_replicas", "seed", "warmup_steps", "telemetry_steps", "timeout", "overlap", "finds_unused",
           "transforms", "options", "num_threads")


def exchange_policy(on_nonfinite: str) -> str:
    """on_nonfinite of the exchange for one of POLICIES. @raises InvalidArgument for an unknown policy"""
    if on_nonfinite not in POLICIES:
        raise _core.InvalidArgument(f"on_nonfinite '{on_nonfinite}' is unknown; accepted: {', '.join(POLICIES)}")
    return POLICIES[on_nonfinite]


def _as_tensors(kept: Any) -> Any:
    """An exchange's state_dict with numpy arrays replaced by tensors."""
    if isinstance(kept, dict):
        return {key: _as_tensors(value) for key, value in kept.items()}
    return torch.from_numpy(kept) if isinstance(kept, numpy.ndarray) else kept


def _as_arrays(kept: Any) -> Any:
    """Inverse of `_as_tensors`; tensors may be on any device."""
    if isinstance(kept, Mapping):
        return {key: _as_arrays(value) for key, value in kept.items()}
    return kept.cpu().numpy() if isinstance(kept, torch.Tensor) else kept


class CompressedAllReduceHook:
    """State of `hook`: codec of each parameter, memory of this rank's worker, and report of the last step.

    A worker is a rank of the group; a step is a backward pass that DDP synchronizes. The mean is bit-identical on all ranks and
    does not depend on DDP's buckets; for equal gradients it is that of `Exchange` and `VirtualWorkers`. Collective: all ranks
    construct the state with equal arguments.

    @param model         the module, wrapped or not; parameter names decide codecs and draws
    @param codec         a name, preset or spec of docs/codecs.md; further codec options as keywords
    @param codec_for     {pattern (* and ?): spec} by parameter name; the first match applies
    @param min_elements  smaller parameters are sent as fp32
    @param process_group   DDP's group. On GPUs (NCCL) the exchange uses it too. On CPUs the exchange creates its own group of the
        same ranks with torch.distributed.new_group; before PyTorch 2.1, and over MPI, all ranks of the default group must then
        construct the state
    @param exchange_group  group of the same ranks for the exchange instead; on CPUs nothing else may use it
    @param timeout       CPUs: seconds until a rank that does not answer counts as failed; None: PyTorch's default (30 minutes)
    @param memory        none, ef (error feedback), momentum, dgc (for SGD without momentum), loco (error feedback in 8 bits) or ef21
        (differences to an estimate of the gradient), with options (``ef:decay=0.9``); auto: default of the codec or preset
    @param find_unused_parameters  as for DDP: True if parameters may be unused on all ranks. With a memory, parameters with zero
        gradients on all ranks are then skipped: their mean is 0 and their memory stays unchanged. Costs an all-reduce of 4 bytes
        per parameter, and on a GPU a wait for it
    @param grad_scaler   the training's GradScaler, if it uses one. Required then with a memory, which is rescaled when the loss
        scale changes, and for votes without scaler (``sign:scale=one``: signsgd, signum), whose mean (-1, 0 or 1) does not depend
        on the loss scale: it is multiplied by the scale, which the optimizer step divides out
    @param on_nonfinite  on NaN or infinity in any rank: propagate (the bucket, on GPUs also the step's later ones, becomes NaN on
        all ranks, as an optimizer or GradScaler expects; the memory stays unchanged), raise (backward raises; on GPUs this step
        propagates and the next one raises), or zero (the tensor counts as zeros)
    @param reduction     mean, or sum: the mean times the number of ranks, for losses divided by the number of all ranks' examples
    @param check_replicas  interval in steps at which ranks compare checksums of their parameters before the exchange; backward
        raises, naming rank and parameter, if they differ. 0: never. Parameters on a GPU are copied to the CPU for it
    @param transforms    functions (name, parameter, gradient) that change a gradient in place before it is compressed:
        `WeightDecay`
    @param warmup_steps  number of initial steps that are sent as fp32, without memory
    @param telemetry_steps  interval in steps of `telemetry`; 0: never
    @param overlap       exchange during the backward pass: in a separate thread, on a GPU on a separate stream
    @param num_threads   threads that encode and decode on a CPU
    @raises InvalidArgument naming parameters or options that are invalid or differ between ranks
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
        self._scale: float | None = None  # loss scale of the memory
        #: Number of finished steps.
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
        # On a GPU exchanges are submitted to a side stream; on the CPU a thread runs them.
        self._side: _gpu.SideStream | None = None
        if gpu is not None:
            self._side = _gpu.SideStream(self._device)
            common.update(device=gpu, stream=self._side.handle)
        self._common = common
        #: The `Exchange` that encodes and decodes.
        self.exchange = Exchange(layout, self._communicator.size, **self._options, **common)
        self._warmup = None
        if self._warmup_steps > 0:
            kept = {name: self._options[name] for name in ("on_nonfinite", "seed")}
            self._warmup = Exchange(layout, self._communicator.size, "fp32", **kept, **common)
        self._require_steps_that_fit(self.exchange)
        self._leaves_out = _parameters.skips_zeros(self.exchange, self._finds_unused)
        self._votes = _parameters.names_of_votes(self.exchange)
        #: The error that ended the exchange, or None. Every later step raises it.
        self.error: BaseException | None = None
        self._is_closed = False
        is_ddp = isinstance(model, torch.nn.parallel.DistributedDataParallel)
        self._ddp = weakref.ref(model) if is_ddp else None
        # Numbers of DDP buckets.
        self._num_submitted = 0
        self._num_exchanged = 0
        self._report: Report | None = None
        self._last: Exchange | None = None             # exchange of the last step, on a GPU
        self._telemetry: dict[str, dict[str, float]] = {}
        self._gradients: dict[str, torch.Tensor] = {}  # copies of this step's gradients, for telemetry
        self._current: Exchange | None = None          # exchange of the step in progress
        # Parameter ids of a bucket: (address, views by name). For buckets of the last step, and of this one.
        self._views: dict[tuple[int, ...], tuple[int, dict[str, torch.Tensor]]] = {}
        self._used_views: dict[tuple[int, ...], tuple[int, dict[str, torch.Tensor]]] = {}
        self._queue: queue.Queue[Any] | None = None
        if self._overlap and self._side is None:
            self._queue = queue.Queue()
            # The thread has only a weak reference, so that it does not keep the state alive.
            thread = threading.Thread(target=_run, args=(self._queue, weakref.ref(self)), name="terngrad exchange", daemon=True)
            thread.start()
            _threads[thread] = self._queue
            weakref.finalize(self, self._queue.put, None).atexit = False

    def _require_agreement(self, problem: Exception | None, options: dict[str, Any]) -> None:
        """@raises InvalidArgument on all ranks if options differ between ranks or any rank has a `problem`"""
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
        """The codec with its options, as passed to the constructor or `set_codecs`."""
        return make_spec(self._options["codec"],
                         {name: value for name, value in self._options.items() if name not in COMMON_OPTIONS})

    def set_codecs(self, codec: str, *, codec_for: Mapping[str, str] | None = None, **options: object) -> None:
        """Changes the codecs from the next step on. Collective: all ranks call it, between steps. The workers' memory is kept if
        the new codecs have the same kind of memory, else it starts with zeros.

        @param options  codec options
        @raises InvalidArgument as the constructor, for constructor options that are not codec options, and during a step
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
        self.report()  # fetch the last step's report before its exchange is replaced
        self._options, self.exchange, self._last = changed, exchange, None
        self._leaves_out = _parameters.skips_zeros(exchange, self._finds_unused)
        self._votes = _parameters.names_of_votes(exchange)

    def _require_steps_that_fit(self, exchange: Exchange) -> None:
        if self._warmup_steps > 0 and exchange.memory.startswith("dgc"):
            raise _core.InvalidArgument(f"warmup_steps={self._warmup_steps}: the memory dgc has the momentum, and rests in steps "
                                        "that travel as fp32; accepted with it: 0, or topk's stage_steps")

    def plan(self) -> Plan:
        """Codec and message size of each parameter: a list of `TensorPlan`, which prints as a table."""
        return self.exchange.plan()

    def report(self) -> Report | None:
        """Report of the last step, or None before the first. On a GPU this waits for the step, and times are missing."""
        return None if self._report is None else self._waited()

    def _waited(self) -> Report:
        assert self._report is not None
        if self._last is not None:
            self._report = self._last.wait()
        return self._report

    def telemetry(self) -> dict[str, dict[str, float]]:
        """Telemetry of the last step that had it (`telemetry_steps`), by parameter: `terngrad.telemetry` of this rank's gradient
        and its decoded message, and the scaler. With a memory, the message encodes what that makes of the gradient"""
        return self._telemetry

    def state_dict(self, gather: bool = False) -> dict[str, Any] | None:
        """This rank's state: step, seed and its worker's memory by parameter name. Strings, numbers and tensors only, so that
        ``torch.load(weights_only=True)`` reads it.

        @param gather  True: collects all ranks' states on rank 0 and returns None on the others; all ranks must call it
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
        """Restores this rank's `state_dict`, or a gathered one. @raises InvalidArgument for a state with another rank, number of
        ranks, seed, memory, or other parameters or codecs (fingerprint)

        @param reset_residuals  restore the step only and zero the memory, which allows another number of ranks
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
        if not reset_residuals and self.exchange.memory != "none":  # without memory the states of all ranks are equal
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
        """Connects an unpickled or copied state with a model and groups, before it is registered. Collective: all ranks call it.
        Parameters as in the constructor. @raises InvalidArgument for a state that is connected"""
        if self._is_bound:
            raise _core.InvalidArgument("bind is for a state that was pickled: this one has its group")
        self._grad_scaler = grad_scaler
        self._connect(model, process_group, exchange_group)
        self.load_state_dict(self._saved)
        del self._saved

    def _tensors(self, bucket: dist.GradBucket) -> dict[str, torch.Tensor]:
        """The bucket as {name: view of its memory}, with the elements in memory order of the parameter."""
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
        # DDP reuses its buckets. Views of buckets that it has rebuilt are dropped after the step.
        self._used_views[key] = (buffer.data_ptr(), tensors)
        if bucket.is_last():
            self._views, self._used_views = self._used_views, {}
        return tensors

    def _begin(self) -> Exchange:
        if self._policy == "raise" and self._last is not None:
            before = self._last.wait()  # equal on all ranks
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
        """The tensors that are nonzero on at least one rank. Collective."""
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
        except BaseException as error:  # any error must end the backward pass
            self.error = self.error or error
        self._num_exchanged += 1
        future.set_result(work[1])

    def close(self) -> None:
        """Ends the exchange thread; later backward passes raise. The exchange's own process group exists until
        torch.distributed.destroy_process_group()."""
        self._is_closed = True
        if self._queue is not None:
            self._queue.put(None)

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Submits a bucket to the exchange. @returns a future of the bucket's buffer, which then holds the mean"""
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


# Exchange threads with their work queues.
_threads: "weakref.WeakKeyDictionary[threading.Thread, queue.Queue[Any]]" = weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """Ends exchange threads, which must not return to a finalized interpreter. Gives up on one that waits for a lost rank."""
    for thread, items in list(_threads.items()):
        items.put(None)
        thread.join(timeout=2.0)


def _run(items: "queue.Queue[Any]", reference: "weakref.ref[CompressedAllReduceHook]") -> None:
    """Main loop of an exchange thread. Ends at an item None, which is queued when the state is closed or destroyed."""
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


# Models passed to `compress`: PyTorch 1.13 does not record which models have a hook.
_compressed: "weakref.WeakKeyDictionary[torch.nn.Module, None]" = weakref.WeakKeyDictionary()


def _require_free(ddp: Any) -> None:
    """@raises Error unless `ddp` is a DistributedDataParallel without another hook or option that the hook cannot support"""
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
    # A copied model lists the hook's unbound state, but has no hook registered.
    hooks = [(each, state) for each, state in getattr(ddp, "_comm_hooks", ())
             if not (isinstance(state, CompressedAllReduceHook) and not state._is_bound)]
    if ddp in _compressed or any(each is hook for each, _ in hooks):
        raise _core.InvalidArgument("the model is compressed already: set_codecs of its state changes codecs")
    if hooks:
        raise _core.InvalidArgument(f"the model has the communication hook {hooks[0][0].__qualname__}; DDP takes one")


def compress(ddp: torch.nn.parallel.DistributedDataParallel, codec: str = "ternary", **options: Any) -> CompressedAllReduceHook:
    """Compresses the gradient exchange of a DistributedDataParallel model, from its next backward pass on. Collective: all ranks
    call it.

    @param options  options of `CompressedAllReduceHook` and of the codec; find_unused_parameters defaults to DDP's setting
    @returns the state of the hook
    """
    _require_free(ddp)
    if "process_group" in options:
        raise _core.InvalidArgument("process_group is DDP's own; exchange_group takes another one of the same ranks")
    # With a static graph DDP detects unused parameters in its first step.
    options = {"find_unused_parameters": bool(ddp.find_unused_parameters or getattr(ddp, "static_graph", False)), **options}
    state = CompressedAllReduceHook(ddp, codec, process_group=ddp.process_group, **options)
    ddp.register_comm_hook(state, hook)
    _compressed[ddp] = None
    return state
