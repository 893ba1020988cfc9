"""The examples in the docstrings of the Python package."""

import doctest
import unittest

import terngrad
from terngrad import _codecs, _communicators, _compare, _exchange, _messages, _plan, _runs

MODULES = (terngrad, _codecs, _communicators, _compare, _exchange, _messages, _plan, _runs)


def load_tests(_loader, tests, _pattern):
    for module in MODULES:
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
