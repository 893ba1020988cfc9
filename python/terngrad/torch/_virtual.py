"""Workers of data-parallel training emulated in one process."""

import torch

from terngrad import _core
from terngrad._exchange import Exchange
from terngrad.torch import _parameters


class VirtualWorkers:
    """N workers on one machine, through the messages that N processes would exchange.

    The mean has the bits that DistributedDataParallel has with N processes and `compress`, where the model's arithmetic
    is deterministic. Buffers (batch norm) are as DDP has them: every worker begins with worker 0's, and worker 0's stay.

        virtual = terngrad.torch.VirtualWorkers(model, num_workers=8, codec="ternary", clip_factor=2.5)
        for x, y in loader:
            loss = virtual.backward(lambda xk, yk: criterion(model(xk), yk), x, y)   # p.grad is the mean
            optimizer.step()

    @param model    its parameters are those of all workers
    @param options  of `terngrad.Exchange`, and of the codec
    """

    def __init__(self, model, num_workers, codec="ternary", *, min_elements=1024, **options):
        self._model = model
        self._parameters = _parameters.trained_parameters(model)
        self.num_workers = num_workers
        self.exchange = Exchange(_parameters.layout_of(self._parameters), num_workers, codec, min_elements=min_elements,
                                 quantize_logits=True, **options)
        #: How many steps are done.
        self.step = 0
        self._report = None

    def report(self):
        """What the last step did: a Report, with bytes as N processes would send them; None before the first."""
        return self._report

    def backward(self, loss_of, *batch):
        """One step: every worker's gradient of its slice of the batch, and their mean in ``.grad`` of the parameters.

        @param loss_of  called with a worker's slices of the tensors of `batch`; gives its loss
        @param batch    tensors, each with a multiple of num_workers examples
        @returns the mean of the losses
        """
        slices = [self._slices(tensor) for tensor in batch]
        buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        kept, gradients, losses = {}, [], []
        for worker in range(self.num_workers):
            with torch.no_grad():
                for name, buffer in self._model.named_buffers():
                    buffer.copy_(buffers[name])
            for parameter in self._parameters.values():
                parameter.grad = None
            loss = loss_of(*(each[worker] for each in slices))
            loss.backward()
            losses.append(loss.detach())
            gradients.append({name: parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
                              for name, parameter in self._parameters.items()})
            if worker == 0:
                kept = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        with torch.no_grad():
            for name, buffer in self._model.named_buffers():
                buffer.copy_(kept[name])
        gradients = [{name: memory_of(tensor) for name, tensor in tensors.items()} for tensors in gradients]
        mean = {name: torch.empty(tensor.shape) for name, tensor in gradients[0].items()}
        self._report = self.exchange.exchange(gradients, mean, step=self.step)
        self.step += 1
        for name, parameter in self._parameters.items():
            gradient = torch.empty_like(parameter, memory_format=torch.preserve_format)
            memory_of(gradient).copy_(mean[name])
            parameter.grad = gradient
        return torch.stack(losses).mean()

    def _slices(self, tensor):
        if len(tensor) % self.num_workers != 0:
            raise _core.InvalidArgument(f"a batch of {len(tensor)} examples is no multiple of {self.num_workers} workers")
        return tensor.chunk(self.num_workers)


def memory_of(tensor):
    """The tensor's elements in the order of its memory, in its shape: a view of what is dense."""
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    plain = tensor.permute(order)
    if not plain.is_contiguous():
        raise _core.InvalidArgument(f"a gradient of shape {list(tensor.shape)} has gaps in its memory")
    return plain.reshape(-1).view(tensor.shape)
