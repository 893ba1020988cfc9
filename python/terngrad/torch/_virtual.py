"""Workers of data-parallel training emulated in one process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from terngrad import _arguments, _core
from terngrad._exchange import Exchange, Report
from terngrad._plan import Plan
from terngrad.torch import _gpu, _parameters, _transforms
from terngrad.torch._hook import exchange_policy


@dataclasses.dataclass(frozen=True)
class ComparedMean:
    """Result of another codec on the last step's gradients."""

    sent_bytes: int   #: sum over all workers
    snr_db: float     #: 10 log10(|mean|^2 / |codec's mean - mean|^2) over all parameters; NaN for a step with NaN


class VirtualWorkers:
    """Emulates N data-parallel workers in one process, with the messages that N processes would exchange.

    The mean is bit-identical to that of DistributedDataParallel with N processes and `compress`, if the model's arithmetic
    is deterministic. Buffers (batch norm) behave as in DDP: every worker starts a step with worker 0's, and worker 0's are
    kept. Gradients of parameters that no worker used stay unchanged, as in DDP. On a GPU all work runs on the stream that was
    current at construction.

        virtual = terngrad.torch.VirtualWorkers(model, num_workers=8, codec="ternary", clip_factor=2.5)
        for x, y in loader:
            loss = virtual.backward(lambda xk, yk: criterion(model(xk), yk), x, y)   # p.grad is the mean
            optimizer.step()

    @param model    the module, whose parameters all workers share
    @param compare  specs of other codecs to evaluate on every step's gradients without applying them: `compared`
    @param on_nonfinite  on NaN or infinity in any worker: propagate (all gradients become NaN, the memory stays unchanged),
        raise (NonFiniteError), or zero (the tensor counts as zeros in that worker)
    @param find_unused_parameters  as for DDP: with a memory, tensors that are 0 in all workers count as unused, as in the hook
    @param reduction  mean, or sum: the mean times num_workers
    @param transforms  functions (name, parameter, gradient) that change a worker's gradient in place before it is compressed
    @param options  of `terngrad.Exchange`, and of the codec
    """

    def __init__(self, model: torch.nn.Module, num_workers: int, codec: str = "ternary", *, min_elements: int = 1024,
                 compare: Iterable[str] = (), on_nonfinite: str = "propagate", find_unused_parameters: bool = False,
                 reduction: str = "mean", transforms: Iterable[_transforms.Transform] = (), seed: int = 1, **options: Any) -> None:
        self._model = model
        self._parameters = _parameters.trained_parameters(model)
        self.num_workers = num_workers
        layout = _parameters.layout_of(self._parameters)
        self._policy = on_nonfinite
        self._times = num_workers if _parameters.reduction(reduction) == "sum" else 1
        policy = exchange_policy(on_nonfinite)
        self._transforms = _transforms.checked(transforms)
        self._finds_unused = _arguments.flag("find_unused_parameters", find_unused_parameters)
        self._device = _parameters.device_of(model)
        gpu = _gpu.index_of(self._device)
        self._stream = 0 if gpu is None else _gpu.current_stream(self._device)
        place: dict[str, Any] = {} if gpu is None else {"device": gpu, "stream": self._stream}
        common: dict[str, Any] = {"min_elements": min_elements, "quantize_logits": True, "seed": seed, "on_nonfinite": policy, **place}
        self.exchange = Exchange(layout, num_workers, codec, **common, **options)
        self._others = {spec: Exchange(layout, num_workers, spec, **common) for spec in compare}
        self._exact = Exchange(layout, num_workers, "fp32", seed=seed, on_nonfinite=policy, **place) if self._others else None
        self._compared: dict[str, ComparedMean] = {}
        #: Number of finished steps.
        self.step = 0
        self._report: Report | None = None

    def plan(self) -> Plan:
        """Codec and message size of each parameter: a list of `TensorPlan`, which prints as a table."""
        return self.exchange.plan()

    def report(self) -> Report | None:
        """Report of the last step, with bytes as N processes would send them; None before the first step."""
        return self._report

    def compared(self) -> dict[str, ComparedMean]:
        """Result of each codec of `compare` on the last step's gradients. Codecs with a memory have their own."""
        return self._compared

    def backward(self, loss_of: Callable[..., torch.Tensor], *batch: torch.Tensor) -> torch.Tensor:
        """One step: computes every worker's gradient on its slice of the batch and assigns their mean to ``.grad`` of the
        parameters, replacing old gradients. Parameters that no worker used keep theirs.

        @param loss_of  called with a worker's slices of the tensors of `batch`; returns its loss
        @param batch    tensors [examples, ...], with a multiple of num_workers examples
        @returns the mean of the losses
        @raises NonFiniteError with on_nonfinite="raise"; NotSupported if the forward pass adds or reshapes buffers
        """
        if self.exchange.device is not None and _gpu.current_stream(self._device) != self._stream:
            raise _core.InvalidArgument("another CUDA stream is current than when these VirtualWorkers were made")
        slices = [self._slices(tensor) for tensor in batch]
        buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        before = {name: parameter.grad for name, parameter in self._parameters.items()}
        kept: dict[str, torch.Tensor] = {}
        gradients, losses = [], []
        used: set[str] = set()
        for worker in range(self.num_workers):
            self._set_buffers(buffers)
            for parameter in self._parameters.values():
                parameter.grad = None
            loss = loss_of(*(each[worker] for each in slices))
            loss.backward()
            losses.append(loss.detach())
            used.update(name for name, parameter in self._parameters.items() if parameter.grad is not None)
            gradients.append({name: _parameters.memory_of(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad,
                                                          parameter)
                              for name, parameter in self._parameters.items()})
            _transforms.apply(self._transforms, self._parameters, gradients[-1])
            if worker == 0:
                kept = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        self._set_buffers(kept)
        mean, self._report = self._exchange(self.exchange, gradients, used)
        if self._report.skipped and self._policy == "raise":
            raise _core.NonFiniteError(self._report.nonfinite)
        if self._report.skipped:
            mean = {name: torch.full_like(tensor, math.nan) for name, tensor in mean.items()}
        if self._exact is not None:
            self._compare(gradients, used)
        self.step += 1
        for name, parameter in self._parameters.items():
            if name not in used:
                parameter.grad = before[name]
                continue
            gradient = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device)
            _parameters.write_mean(gradient, mean[name], self._times)
            parameter.grad = _parameters.from_memory(gradient, parameter)
        return torch.stack(losses).mean()

    def _exchange(self, exchange: Exchange, gradients: list[dict[str, torch.Tensor]],
                  used: set[str]) -> tuple[dict[str, torch.Tensor], Report]:
        mean = {name: torch.zeros(tensor.shape, dtype=torch.float32, device=self._device) for name, tensor in gradients[0].items()}
        if _parameters.skips_zeros(exchange, self._finds_unused):
            used = set().union(*map(_parameters.nonzero_names, gradients))
        elif not _parameters.skips_zeros(exchange, True):
            used = set(mean)
        names = [name for name in mean if name in used]
        exchange.begin(self.step)
        if names:
            exchange.part([{name: tensors[name] for name in names} for tensors in gradients], mean)
        report = exchange.finish()
        return mean, report if exchange.device is None else exchange.wait()

    def _compare(self, gradients: list[dict[str, torch.Tensor]], used: set[str]) -> None:
        assert self._exact is not None
        exact, _ = self._exchange(self._exact, gradients, used)
        power = sum(float(tensor.double().square().sum()) for tensor in exact.values())
        for spec, exchange in self._others.items():
            mean, report = self._exchange(exchange, gradients, used)
            noise = sum(float((mean[name].double() - tensor).square().sum()) for name, tensor in exact.items())
            if report.skipped or not math.isfinite(power + noise):
                snr = math.nan
            else:
                snr = math.inf if noise == 0 else 10 * math.log10(power / noise) if power > 0 else -math.inf
            self._compared[spec] = ComparedMean(report.sent_bytes, snr)

    def _set_buffers(self, values: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, buffer in self._model.named_buffers():
                if name not in values or values[name].shape != buffer.shape:
                    raise _core.NotSupported(f"buffer '{name}' of shape {list(buffer.shape)} came or changed its shape in the forward "
                                             "pass: every worker begins with the same buffers")
                buffer.copy_(values[name])

    def _slices(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            raise _core.InvalidArgument(f"a batch is of tensors with an example in each row, got {type(tensor).__name__}")
        if len(tensor) % self.num_workers != 0:
            raise _core.InvalidArgument(f"a batch of {len(tensor)} examples is no multiple of {self.num_workers} workers")
        return tensor.chunk(self.num_workers)
