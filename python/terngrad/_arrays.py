"""Tensors by name."""


def by_name(tensors, name="tensor"):
    """`tensors` as a dictionary: one tensor alone is called `name`."""
    return dict(tensors) if hasattr(tensors, "keys") else {name: tensors}


def shapes_of(tensors):
    """The shape of each tensor by name."""
    return {name: tuple(int(size) for size in tensor.shape) for name, tensor in tensors.items()}
