"""Message for a missing Python package."""

import sys

DEBIAN = {"PIL": "python3-pil", "matplotlib": "python3-matplotlib", "numpy": "python3-numpy", "torch": "python3-torch"}


def hint(error):
    """One line for an ImportError: the missing package, the interpreter, and how to get it."""
    name = (error.name or "").partition(".")[0]
    if name in DEBIAN:
        return f"{error} for {sys.executable} (Debian and Ubuntu: {DEBIAN[name]}, for /usr/bin/python3)"
    if name:
        return f"{error} for {sys.executable} ({sys.executable} -m pip install {name})"
    return f"{error} for {sys.executable}"
