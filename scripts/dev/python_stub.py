#!/usr/bin/env python3
"""Writes the types of the extension of the Python package, python/terngrad/_core.pyi, from the built extension.

    PYTHONPATH=build/ci/python ~/.cache/terngrad/python-venv/bin/python scripts/dev/python_stub.py [--check]

nanobind's own generator does it; what mypy --strict refuses is made explicit here: bare list, dict and tuple, and exceptions, which
say that they belong to the package that imports them from there. With --check nothing is written: exits 1 if the file is of
another extension, 77 (skipped) if there is no nanobind.
"""

import argparse
import pathlib
import re
import sys

STUB = pathlib.Path(__file__).resolve().parents[2] / "python/terngrad/_core.pyi"
SKIPPED = 77


def exception_classes(module):
    """Class declarations of the module's exceptions, base classes first."""
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Exception)]
    found.sort(key=lambda value: (len(value.__mro__), value.__name__))
    return "\n".join(f"class {value.__name__}({', '.join(base.__name__ for base in value.__bases__)}): ...\n" for value in found)


def make_stub():
    try:
        from nanobind.stubgen import StubGen
    except ImportError:
        print("python_stub.py: skipped: there is no nanobind (scripts/install_deps.sh --python)")
        sys.exit(SKIPPED)
    from terngrad import _core

    generator = StubGen(_core)
    generator.put(_core)
    text = generator.get()
    text = re.sub(r"from terngrad import \(.*?\)\n", f"from typing import Any\n\n{exception_classes(_core)}", text, flags=re.S)
    for bare, full in (("list", "list[Any]"), ("dict", "dict[str, Any]"), ("tuple", "tuple[Any, ...]")):
        text = re.sub(rf"(?<=[ :>]) ?\b{bare}\b(?=[,)\s:])", lambda match: match.group().replace(bare, full), text)
    text = re.sub(r"version: str = '.*?'", "version: str", text)
    return "# Written by scripts/dev/python_stub.py.\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments = parser.parse_args()
    text = make_stub()
    if not arguments.check:
        STUB.write_text(text, encoding="utf-8")
    elif STUB.read_text(encoding="utf-8") != text:
        print(f"python_stub.py: {STUB.name} is not what the extension has; write it anew with scripts/dev/python_stub.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
