"""An independent implementation of the codecs, in numpy alone, for the tests.

Written from docs/wire-format.md and the formulas that each module repeats, not from the code: what both give bit for
bit is right twice. Each module has one concept; codecs.py is where to begin. Plain arrays, no state but that of
memories, whole tensors of one worker at a time. fp32 operations are rounded to fp32 one by one, in the order in which
the formulas are written; what is said to be in fp64 is.
"""
