"""Arguments: checked here, so that what is refused is named."""

import operator

from terngrad import _core


def integer(name, value, low, high):
    """`value` as an int from low to high. @raises InvalidArgument"""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise _core.InvalidArgument(f"{name} must be an integer, got {value!r}") from None
    if not low <= number <= high:
        raise _core.InvalidArgument(f"{name} must be from {low} to {high}, got {number}")
    return number


def step(value):
    return integer("step", value, 0, 2**40 - 1)


def seed(value):
    return integer("seed", value, 0, 2**64 - 1)


def run_id(value):
    return integer("run_id", value, 0, 2**64 - 1)


def text(name, value):
    if not isinstance(value, str):
        raise _core.InvalidArgument(f"{name} must be text, got {value!r}")
    return value


def shape_of(name, tensor):
    """The shape of anything that has one, or the buffer protocol. @raises InvalidArgument"""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        try:
            shape = memoryview(tensor).shape
        except TypeError:
            raise _core.InvalidArgument(f"tensor '{name}' is of type {type(tensor).__name__}; accepted: arrays with __dlpack__ "
                                        "or the buffer protocol (numpy, PyTorch, JAX, ...)") from None
    return tuple(integer(f"a size of tensor '{name}'", size, 0, 2**62) for size in shape)


def by_name(tensors, name="tensor"):
    """`tensors` as a dictionary: one tensor alone is called `name`. @raises InvalidArgument for names that are no text"""
    if not hasattr(tensors, "keys"):
        return {name: tensors}
    return {text("a tensor's name", each): tensor for each, tensor in tensors.items()}


def shapes_of(tensors):
    """The shape of each tensor by name."""
    return {name: shape_of(name, tensor) for name, tensor in tensors.items()}


def take(tensors, name, what):
    """tensors[name]. @raises InvalidArgument if there is none"""
    if name not in tensors:
        raise _core.InvalidArgument(f"{what} has no tensor '{name}'")
    return tensors[name]
