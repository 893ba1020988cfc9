"""Transforms of gradients before compression."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable

import torch

from terngrad import _arguments, _core
from terngrad.torch import _parameters

# Called with (name, parameter, gradient), changes this worker's gradient in place. Both tensors have the parameter's shape, with
# the elements in the order of its memory.
Transform = Callable[[str, torch.Tensor, torch.Tensor], None]


@dataclasses.dataclass(frozen=True)
class WeightDecay:
    """gradient += rate * parameter before compression, as in terngrad_train and the TernGrad authors' code. PyTorch's optimizers
    add weight decay to the mean: set theirs to 0.

    >>> import torch, terngrad.torch
    >>> gradient = torch.zeros(2)
    >>> terngrad.torch.WeightDecay(0.5)("w", torch.ones(2), gradient)
    >>> gradient.tolist()
    [0.5, 0.5]
    """

    rate: float
    names: str = "*"  #: pattern (* and ?) for the names of parameters with weight decay

    def __call__(self, name: str, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if fnmatch.fnmatchcase(name, self.names):
            gradient.add_(parameter, alpha=self.rate)


def checked(transforms: object) -> tuple[Transform, ...]:
    """`transforms` as a tuple. @raises InvalidArgument unless it is a sequence of callables"""
    found = _arguments.items("transforms", transforms)
    for each in found:
        if not callable(each):
            raise _core.InvalidArgument(f"transforms are functions (name, parameter, gradient), got {each!r:.80}")
    return tuple(found)


def apply(transforms: tuple[Transform, ...], parameters: dict[str, torch.nn.Parameter], gradients: dict[str, torch.Tensor]) -> None:
    """Applies all transforms to all gradients, in place. @raises InvalidArgument for a transform that returns something"""
    with torch.no_grad():
        for transform in transforms:
            for name, gradient in gradients.items():
                memory = _parameters.memory_of(parameters[name], parameters[name])
                if transform(name, memory, gradient) is not None:
                    raise _core.InvalidArgument(f"the transform {names_of((transform,))[0]} returned something: it changes the "
                                                "gradient in place and returns nothing")


def names_of(transforms: tuple[Transform, ...]) -> list[str]:
    """Names of the transforms, which ranks compare."""
    return [repr(each) if dataclasses.is_dataclass(each) else getattr(each, "__qualname__", type(each).__qualname__)
            for each in transforms]
