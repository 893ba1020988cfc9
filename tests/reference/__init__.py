"""Independent numpy implementation of the codecs, for the tests.

Written from docs/wire-format.md and the formulas in each module, not from the C++ code; tests require bit-identical
results. One concept per module; start with codecs.py. Functions take whole tensors of one worker as plain arrays; only
memories have state. Each fp32 operation is rounded to fp32, in the order of the formula; fp64 is used only where
stated.
"""
