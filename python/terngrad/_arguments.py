"""Argument checks, whose errors name the argument and the accepted values."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from terngrad import _core

#: Any object with ``__dlpack__`` or the buffer protocol: numpy arrays, PyTorch tensors, ...
Array = Any


def integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int from low to high. @raises InvalidArgument"""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # sizes of PyTorch's nested tensors raise other exception types
        raise _core.InvalidArgument(f"{name} must be an integer, got {value!r}") from None
    if not low <= number <= high:
        raise _core.InvalidArgument(f"{name} must be from {low} to {high}, got {number}")
    return number


def number(name: str, value: object) -> float:
    """`value` as a float. @raises InvalidArgument"""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except Exception:
        raise _core.InvalidArgument(f"{name} must be a number, got {value!r:.80}") from None


def flag(name: str, value: object) -> bool:
    """`value`, which must be a bool. @raises InvalidArgument"""
    if not isinstance(value, bool):
        raise _core.InvalidArgument(f"{name} must be True or False, got {value!r:.80}")
    return value


def items(name: str, values: object) -> list[Any]:
    """The elements of `values` as a list. @raises InvalidArgument"""
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError
        return list(values)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise _core.InvalidArgument(f"{name} must be a sequence, got {values!r:.80}") from None


def mapping(name: str, value: Any) -> dict[Any, Any]:
    """`value`, a dictionary or another mapping with `keys`, as a dictionary. @raises InvalidArgument"""
    if not hasattr(value, "keys"):
        raise _core.InvalidArgument(f"{name} must be a dictionary, got {value!r:.80}")
    return dict(value)


def data(name: str, value: Any) -> bytes:
    """A message, or anything with the buffer protocol, as bytes. @raises InvalidArgument"""
    try:
        return bytes(value if hasattr(value, "__bytes__") else memoryview(value))
    except TypeError:
        raise _core.InvalidArgument(f"{name} must be a Message or bytes, got {value!r:.80}") from None


def step(value: object) -> int:
    return integer("step", value, 0, 2**40 - 1)


def seed(value: object) -> int:
    return integer("seed", value, 0, 2**64 - 1)


def run_id(value: object) -> int:
    return integer("run_id", value, 0, 2**64 - 1)


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _core.InvalidArgument(f"{name} must be text, got {value!r}")
    return value


def shape(name: str, sizes: Iterable[object]) -> tuple[int, ...]:
    """`sizes` as the shape of a tensor. @raises InvalidArgument"""
    return tuple(integer(f"a size of tensor '{name}'", size, 0, 2**62) for size in items(f"the shape of tensor '{name}'", sizes))


def shape_of(name: str, tensor: Array) -> tuple[int, ...]:
    """The shape of an object with a `shape` attribute or the buffer protocol. @raises InvalidArgument"""
    try:
        sizes: Any = getattr(tensor, "shape", None)
    except RuntimeError as error:  # raised by PyTorch for uninitialized (lazy) parameters and nested tensors
        raise _core.InvalidArgument(f"tensor '{name}' has no shape: {error}") from None
    if sizes is None:
        try:
            sizes = memoryview(tensor).shape
        except TypeError:
            raise _core.InvalidArgument(f"tensor '{name}' is of type {type(tensor).__name__}; accepted: arrays with __dlpack__ "
                                        "or the buffer protocol (numpy, PyTorch, JAX, ...)") from None
    return shape(name, sizes)


def by_name(tensors: Any, name: str = "tensor") -> dict[str, Any]:
    """`tensors` as a dictionary; a single tensor gets the key `name`. @raises InvalidArgument for keys that are not strings"""
    if not hasattr(tensors, "keys"):
        return {name: tensors}
    return {text("a tensor's name", each): tensor for each, tensor in tensors.items()}


def shapes_of(tensors: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor by name."""
    return {name: shape_of(name, tensor) for name, tensor in tensors.items()}


def take(tensors: Mapping[str, Any], name: str, what: str) -> Any:
    """tensors[name]. @raises InvalidArgument if it is missing; `what` names the container in the message"""
    if name not in tensors:
        raise _core.InvalidArgument(f"{what} has no tensor '{name}'")
    return tensors[name]
