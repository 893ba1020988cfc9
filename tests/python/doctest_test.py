"""The examples in the docstrings of the Python package."""

import doctest
import unittest

import terngrad
from terngrad import _codecs, _communicators, _exchange


def load_tests(_loader, tests, _pattern):
    for module in (terngrad, _codecs, _communicators, _exchange):
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
