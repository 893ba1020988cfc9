"""The parameters of a module as a Layout, and their memory."""

from __future__ import annotations

import torch

from terngrad import _core
from terngrad._exchange import Exchange, Layout

# Prefixes that DistributedDataParallel and torch.compile put before names.
PREFIXES = ("module.", "_orig_mod.")
TYPES = (torch.float32, torch.float16, torch.bfloat16)
DEVICES = ("cpu", "cuda")
REDUCTIONS = ("mean", "sum")


def plain_name(name: str) -> str:
    """A parameter's name without the prefixes of wrappers: equal before and after wrapping."""
    while name.startswith(PREFIXES):
        name = name.split(".", 1)[1]
    return name


def trained_parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """{plain name: parameter} of the parameters that require a gradient and that DDP does not ignore, in order. @raises
    InvalidArgument naming a parameter or module that cannot be compressed; NotSupported as `refuse_shards`"""
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
    """@raises NotSupported for a module with sharded parameters (FSDP, FSDP2, DTensor); InvalidArgument for lazy ones"""
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
    """The device of the first parameter that requires a gradient; the CPU if there is none."""
    return next((parameter.device for parameter in module.parameters() if parameter.requires_grad), torch.device("cpu"))


def layout_of(parameters: dict[str, torch.nn.Parameter]) -> Layout:
    return Layout({name: tuple(parameter.shape) for name, parameter in parameters.items()})


def memory_order(parameter: torch.Tensor) -> list[int]:
    """The axes, outermost first, in the memory layout of the parameter's gradient: DDP and autograd use the parameter's own, or
    row-major if its memory has gaps."""
    order = sorted(range(parameter.dim()), key=lambda axis: -parameter.stride(axis))
    return order if parameter.permute(order).is_contiguous() else list(range(parameter.dim()))


def memory_of(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor, which has the parameter's shape, in memory order of the parameter's gradient, as a contiguous
    tensor of that shape: a view if the tensor has that layout, else a copy."""
    return tensor.detach().permute(memory_order(parameter)).contiguous().view(tensor.shape)


def from_memory(memory: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Inverse of `memory_of`: a view with the memory layout of the parameter's gradient."""
    order = memory_order(parameter)
    back = sorted(range(len(order)), key=order.__getitem__)
    return memory.view([memory.shape[axis] for axis in order]).permute(back)


def reduction(name: object) -> str:
    """`name`, which must be mean or sum. @raises InvalidArgument"""
    if name not in REDUCTIONS:
        raise _core.InvalidArgument(f"reduction {name!r:.80} is refused; accepted: {', '.join(REDUCTIONS)}")
    return str(name)


def write_mean(target: torch.Tensor, mean: torch.Tensor, factor: float) -> None:
    """target = factor * mean, with the mean first clamped to the range of a 16-bit target: stochastic rounding may exceed it,
    although the true mean cannot. Overwrites `mean`, which may be `target`."""
    if target.dtype != torch.float32:
        largest = torch.finfo(target.dtype).max
        mean.clamp_(-largest, largest)
    if factor != 1:
        mean.mul_(factor)
    if mean is not target:
        target.copy_(mean)


def skips_zeros(exchange: Exchange, find_unused_parameters: bool) -> bool:
    """True if the exchange must leave out tensors that are 0 on all workers, because they may be unused on all. DDP does not
    write the mean of such a parameter and does not tell the hook which they are, so a residual that was sent would be lost.
    False for codecs with scalers over all tensors, which need all of them."""
    return find_unused_parameters and exchange.memory != "none" and all(tensor.per_tensor for tensor in exchange.plan())


def names_of_votes(exchange: Exchange) -> frozenset[str]:
    """The names of tensors whose mean is a vote (-1, 0 or 1, ``scale=one``), independent of the scale of the gradients."""
    return frozenset(tensor.name for tensor in exchange.plan() if "scale=one" in tensor.codec)


def nonzero_names(tensors: dict[str, torch.Tensor]) -> set[str]:
    """The names of tensors with a nonzero element. Tests first elements first: most are nonzero, so little memory is read."""
    filled = {name: tensor.reshape(-1) for name, tensor in tensors.items() if tensor.numel() > 0}
    if not filled:
        return set()
    begins = (torch.stack([flat[0] for flat in filled.values()]) != 0).tolist()
    return {name for (name, flat), begins_so in zip(filled.items(), begins) if begins_so or bool(flat.any())}
