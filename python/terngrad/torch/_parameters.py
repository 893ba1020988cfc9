"""The parameters of a module as a Layout, and their memory."""

from __future__ import annotations

import torch

from terngrad import _core
from terngrad._exchange import Exchange, Layout

# What wrappers put before names: DistributedDataParallel, torch.compile.
PREFIXES = ("module.", "_orig_mod.")
TYPES = (torch.float32, torch.float16, torch.bfloat16)
DEVICES = ("cpu", "cuda")
REDUCTIONS = ("mean", "sum")


def plain_name(name: str) -> str:
    """A parameter's name without those of wrappers: the same before and after wrapping."""
    while name.startswith(PREFIXES):
        name = name.split(".", 1)[1]
    return name


def trained_parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """{plain name: parameter} of those that require a gradient and that DDP does not leave out, in order. @raises InvalidArgument
    for what cannot be compressed, by name"""
    refuse_shards(module)
    left_out = {plain_name(name) for attribute in ("parameters_to_ignore", "_ddp_params_and_buffers_to_ignore")
                for name in getattr(module, attribute, ())}
    parameters: dict[str, torch.nn.Parameter] = {}
    for name, parameter in module.named_parameters():
        if plain_name(name) in left_out:
            continue
        if parameter.requires_grad and parameters.setdefault(plain_name(name), parameter) is not parameter:
            raise _core.InvalidArgument(f"two parameters are called '{plain_name(name)}' without the prefixes of wrappers "
                                        f"({', '.join(PREFIXES)})")
    for name, part in module.named_modules():
        if getattr(part, "sparse", False) is True and isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise _core.InvalidArgument(f"module '{plain_name(name)}' has sparse gradients; dense ones are compressed")
    if not parameters:
        raise _core.InvalidArgument("the module has no parameter that requires a gradient")
    device = device_of(module)
    for name, parameter in parameters.items():
        if parameter.dtype not in TYPES:
            raise _core.InvalidArgument(f"parameter '{name}' is {parameter.dtype}; accepted: float32, float16, bfloat16")
        if parameter.device != device:
            raise _core.InvalidArgument(f"parameter '{name}' is on {parameter.device}, others are on {device}")
    if device.type not in DEVICES:
        raise _core.InvalidArgument(f"the parameters are on {device}; accepted: {', '.join(DEVICES)}")
    return parameters


def refuse_shards(module: torch.nn.Module) -> None:
    """@raises NotSupported for a module whose parameters are shards (FSDP, FSDP2, DTensor), or not there yet (lazy ones)"""
    hint = "is not supported; DistributedDataParallel is"
    for part in module.modules():
        if type(part).__name__ == "FullyShardedDataParallel":
            raise _core.NotSupported(f"the module is sharded by FullyShardedDataParallel, which {hint}")
    for name, parameter in module.named_parameters():
        if hasattr(parameter, "to_local"):
            raise _core.NotSupported(f"parameter '{plain_name(name)}' is a {type(parameter).__name__}, as fully_shard (FSDP2) and "
                                     f"tensor parallelism make them, which {hint}")
        if torch.nn.parameter.is_lazy(parameter):
            raise _core.InvalidArgument(f"parameter '{plain_name(name)}' has no shape yet: run the module once before")


def device_of(module: torch.nn.Module) -> torch.device:
    """That of the first trained parameter."""
    return next((parameter.device for parameter in module.parameters() if parameter.requires_grad), torch.device("cpu"))


def layout_of(parameters: dict[str, torch.nn.Parameter]) -> Layout:
    return Layout({name: tuple(parameter.shape) for name, parameter in parameters.items()})


def memory_order(parameter: torch.Tensor) -> list[int]:
    """The axes in the order in which DDP and autograd lay out the parameter's gradient: as the parameter is, or row-major where
    there are gaps in its memory."""
    order = sorted(range(parameter.dim()), key=lambda axis: -parameter.stride(axis))
    return order if parameter.permute(order).is_contiguous() else list(range(parameter.dim()))


def memory_of(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor of a parameter's shape in the order of the parameter's gradient, in that shape: a view where the
    tensor is laid out so, else a copy."""
    return tensor.detach().permute(memory_order(parameter)).contiguous().view(tensor.shape)


def from_memory(memory: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The other way round: a view that is laid out as the parameter's gradient."""
    order = memory_order(parameter)
    back = sorted(range(len(order)), key=order.__getitem__)
    return memory.view([memory.shape[axis] for axis in order]).permute(back)


def reduction(name: object) -> str:
    """@raises InvalidArgument for another than mean and sum"""
    if name not in REDUCTIONS:
        raise _core.InvalidArgument(f"reduction {name!r:.80} is refused; accepted: {', '.join(REDUCTIONS)}")
    return str(name)


def write_mean(target: torch.Tensor, mean: torch.Tensor, factor: float) -> None:
    """Writes a mean, which may be `target` itself or is changed, times `factor`. What exceeds the largest number of a 16-bit
    type, as codes may that are rounded up, becomes that number first: no mean of its numbers is larger."""
    if target.dtype != torch.float32:
        largest = torch.finfo(target.dtype).max
        mean.clamp_(-largest, largest)
    if factor != 1:
        mean.mul_(factor)
    if mean is not target:
        target.copy_(mean)


def skips_zeros(exchange: Exchange, find_unused_parameters: bool) -> bool:
    """Whether an exchange leaves out what is 0 in all workers, which may be unused in all: DDP leaves the gradient of such a
    parameter as it is and does not say which that is, so what was sent for it in a step would be lost. A codec whose scalers
    are of all tensors needs all of them."""
    return find_unused_parameters and exchange.memory != "none" and all(tensor.per_tensor for tensor in exchange.plan())


def names_of_votes(exchange: Exchange) -> frozenset[str]:
    """The names of tensors whose mean is -1, 0 or 1, in whatever unit the gradients are."""
    return frozenset(tensor.name for tensor in exchange.plan() if "scale=one" in tensor.codec)


def nonzero_names(tensors: dict[str, torch.Tensor]) -> set[str]:
    """The names of tensors with an element that is not 0. Most gradients begin with one, so little of them is read."""
    filled = {name: tensor.reshape(-1) for name, tensor in tensors.items() if tensor.numel() > 0}
    if not filled:
        return set()
    begins = (torch.stack([flat[0] for flat in filled.values()]) != 0).tolist()
    return {name for (name, flat), begins_so in zip(filled.items(), begins) if begins_so or bool(flat.any())}
