"""The parameters of a module as a Layout."""

import torch

from terngrad import _core
from terngrad._exchange import Layout

# What wrappers put before names: DistributedDataParallel, torch.compile.
PREFIXES = ("module.", "_orig_mod.")
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def plain_name(name):
    """A parameter's name without those of wrappers: the same before and after wrapping."""
    while name.startswith(PREFIXES):
        name = name.split(".", 1)[1]
    return name


def trained_parameters(module):
    """{plain name: parameter} of those that require a gradient, in order. @raises InvalidArgument for what cannot be
    compressed, by name"""
    parameters = {plain_name(name): parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not parameters:
        raise _core.InvalidArgument("the module has no parameter that requires a gradient")
    for name, parameter in parameters.items():
        if parameter.dtype not in TYPES:
            raise _core.InvalidArgument(f"parameter '{name}' is {parameter.dtype}; accepted: float32, float16, bfloat16")
        if parameter.device.type != "cpu":
            raise _core.InvalidArgument(f"parameter '{name}' is on {parameter.device}; gradients on the CPU are compressed")
    return parameters


def layout_of(parameters):
    return Layout({name: tuple(parameter.shape) for name, parameter in parameters.items()})
