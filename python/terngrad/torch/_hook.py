"""The hook that compresses what DistributedDataParallel exchanges."""

import dataclasses
import inspect
import queue
import threading

import torch
import torch.distributed as dist

from terngrad import _core
from terngrad._exchange import Exchange, Report
from terngrad.torch import _parameters
from terngrad.torch._communicator import GroupCommunicator

# What DDP does with a NaN is the optimizer's affair: it sees one, and so does a GradScaler.
POLICIES = {"propagate": "skip", "raise": "skip", "zero": "zero"}


class CompressedAllReduceHook:
    """The state of `hook`: which codec each parameter has, what workers keep, and what the last step did.

    A worker is a rank of the group. A step is a backward pass that DDP synchronizes. The mean has the same bits on all
    ranks, and does not depend on DDP's buckets; given equal gradients they are those of `Exchange` and `VirtualWorkers`.

    @param model         the module, wrapped or not: its names decide codecs and draws
    @param codec         a name, preset or spec of docs/codecs.md; further options of the codec as keywords
    @param codec_for     {pattern (* and ?): spec} for parameters by name; the first match counts
    @param min_elements  smaller parameters travel as fp32
    @param process_group   of DDP. The exchange makes one of its own of the same ranks, so all of them construct the state;
        before PyTorch 2.1 all ranks of the default group have to, as torch.distributed.new_group asks for
    @param exchange_group  in place of that one: a group of the same ranks that nothing else uses
    @param on_nonfinite  NaN or infinity in any rank: propagate (the bucket becomes NaN on all ranks, nothing is kept of
        the step, as an optimizer or GradScaler expects), raise (backward raises), or zero (the tensor)
    @param overlap       exchange in a thread of its own, while the backward pass continues
    @raises InvalidArgument for parameters or options that cannot be honoured, by name
    """

    def __init__(self, model, codec="ternary", *, codec_for=None, min_elements=1024, process_group=None, exchange_group=None,
                 algorithm="auto", downlink_codec="fp32", memory="auto", on_nonfinite="propagate", seed=1, overlap=True, num_threads=1,
                 **options):
        if on_nonfinite not in POLICIES:
            raise _core.InvalidArgument(f"on_nonfinite '{on_nonfinite}' is unknown; accepted: {', '.join(POLICIES)}")
        self._policy = on_nonfinite
        self._seed = seed
        self._parameters = _parameters.trained_parameters(model)
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        backend = dist.get_backend(process_group)
        if backend not in ("gloo", "mpi"):
            raise _core.InvalidArgument(f"the process group is of backend {backend}; accepted: gloo, mpi")
        self._communicator = GroupCommunicator(exchange_group or make_group(process_group, backend))
        self.exchange = Exchange(
            _parameters.layout_of(self._parameters), self._communicator.size, codec, codec_for=codec_for,
            min_elements=min_elements, quantize_logits=True, algorithm=algorithm, downlink_codec=downlink_codec,
            memory=memory, on_nonfinite=POLICIES[on_nonfinite], seed=seed, num_threads=num_threads,
            communicator=self._communicator, **options)
        #: How many steps are done.
        self.step = 0
        #: What ended the exchange, or None. Every later step fails with it.
        self.error = None
        self._report = None
        self._is_begun = False
        self._queue = None
        if overlap:
            self._queue = queue.Queue()
            threading.Thread(target=self._run, name="terngrad exchange", daemon=True).start()

    def plan(self):
        """How each parameter travels: a list of dictionaries with name, shape, elements, codec and bits_per_element."""
        return self.exchange.plan()

    def report(self):
        """What the last step did: a Report, or None before the first."""
        return self._report

    def state_dict(self):
        """This rank's state: step, seed and what its worker keeps, by names of parameters."""
        return {"version": 1, "step": self.step, "num_workers": self._communicator.size, "rank": self._communicator.rank,
                "seed": self._seed, "fingerprint": self.exchange.fingerprint, "state": self.exchange.state_dict()}

    def load_state_dict(self, state):
        """Restores what `state_dict` gave on this rank. @raises InvalidArgument for that of another rank, number of ranks,
        seed, memory, or other parameters or codecs (fingerprint)"""
        for name, ours in (("version", 1), ("num_workers", self._communicator.size), ("rank", self._communicator.rank),
                           ("seed", self._seed), ("fingerprint", self.exchange.fingerprint)):
            if state.get(name) != ours:
                raise _core.InvalidArgument(f"the saved state is of {name} {state.get(name)}, this is {ours}")
        self.exchange.load_state_dict(state["state"])
        self.step = int(state["step"])

    def _tensors(self, bucket):
        """The bucket's memory as tensors by name: an element's place is that of its parameter's memory."""
        buffer = bucket.buffer()
        if buffer.device.type != "cpu":
            raise _core.NotSupported(f"the gradients are on {buffer.device}; gradients on the CPU are compressed")
        tensors, first = {}, 0
        for parameter in bucket.parameters():
            name = self._names.get(id(parameter))
            if name is None:
                raise _core.InvalidArgument("DDP exchanges a parameter that is none of the module's which the hook was made for")
            tensors[name] = buffer.narrow(0, first, parameter.numel()).view(parameter.shape)
            first += parameter.numel()
        return tensors

    def _work(self, bucket_tensors, buffer, is_last):
        if self.error is not None:
            raise self.error
        if not self._is_begun:
            self.exchange.begin(self.step)
            self._is_begun = True
        if buffer.dtype == torch.float32:
            report = self.exchange.part(bucket_tensors, bucket_tensors)
        else:
            mean = {name: torch.empty(tensor.shape) for name, tensor in bucket_tensors.items()}
            report = self.exchange.part(bucket_tensors, mean)
            for name, tensor in bucket_tensors.items():
                tensor.copy_(mean[name])  # rounded once
        if report.nonfinite and self._policy == "propagate":
            buffer.fill_(float("nan"))
        if report.nonfinite and self._policy == "raise":
            raise _core.NonFiniteError(report.nonfinite)
        if is_last:
            self._report = dataclasses.replace(self.exchange.finish(), mean_tensors={})
            self._is_begun = False
            self.step += 1

    def _finish(self, future, work):
        try:
            self._work(*work)
        except BaseException as error:  # whatever it is, backward has to end with it
            self.error = self.error or error
        future.set_result(work[1])

    def _run(self):
        while (item := self._queue.get()) is not None:
            self._finish(*item)

    def close(self):
        """Ends the thread of the exchange. No backward pass may follow."""
        if self._queue is not None:
            self._queue.put(None)

    def submit(self, bucket):
        """What `hook` does."""
        future = torch.futures.Future()
        work = (self._tensors(bucket), bucket.buffer(), bucket.is_last())

        def result(done):
            if self.error is not None:
                raise RuntimeError(f"terngrad: {self.error}")
            return done.value()

        if self._queue is None:
            self._finish(future, work)
        else:
            self._queue.put((future, work))
        return future.then(result)


def make_group(group, backend):
    """Another group of the same ranks."""
    if group is None or group is dist.group.WORLD:
        return dist.new_group(backend=backend)
    ranks = [dist.get_global_rank(group, rank) for rank in range(dist.get_world_size(group))]
    if "use_local_synchronization" in inspect.signature(dist.new_group).parameters:
        return dist.new_group(ranks, backend=backend, use_local_synchronization=True)
    return dist.new_group(ranks, backend=backend)


def hook(state, bucket):
    """The communication hook: ``ddp.register_comm_hook(state, terngrad.torch.hook)``."""
    if not hasattr(bucket, "buffer"):
        raise _core.NotSupported("the hook got a gradient in place of a bucket: optimize_ddp='python_reducer' is not supported")
    return state.submit(bucket)


def compress(ddp, codec="ternary", **options):
    """Compresses what a DistributedDataParallel model exchanges, from its next backward pass on.

    @param options  of `CompressedAllReduceHook`, and of the codec
    @returns its state. All ranks call this
    """
    state = CompressedAllReduceHook(ddp.module, codec, process_group=ddp.process_group, **options)
    ddp.register_comm_hook(state, hook)
    return state
