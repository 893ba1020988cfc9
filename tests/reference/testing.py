"""Helpers for tests of the reference. Importing it skips the test (exit code 77) if numpy is missing."""

import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Every codec, with every value of each key.
SPECS = ["fp32", "bf16", "ternary", "ternary:format=t5,clip_factor=2.5",
         "ternary:format=tmask,clip_factor=1.5,clip_scope=local", "ternary:format=trans,clip_factor=2.5",
         "ternary:scaler=original,clip_factor=2.5,sharing=mean", "ternary:sharing=none,block=64",
         "ternary:scope=block,block=640", "ternary:rounding=nearest,clip_factor=1.22", "ternary:levels=asymmetric",
         "ternary:levels=asymmetric,sharing=none,clip_factor=1.5,block=128",
         "ternary:levels=asymmetric,rounding=nearest,scaler=original,clip_factor=1", "qsgd", "qsgd:bits=2",
         "qsgd:bits=8,norm=pow2,block=128", "qsgd:norm=l2", "qsgd:norm=rms",
         "qsgd:norm=rms,clip=1.5,sharing=max,bits=8", "qsgd:rounding=nearest,sharing=max,block=0",
         "qsgd:bits=2,sharing=max,block=64", "int8", "natural", "natural:block=64", "natural:bits=4",
         "natural:bits=4,norm=l2,block=128", "nuqsgd", "sign", "sign:scale=l2,zeros=plus", "sign:scale=drive,block=64",
         "sign:reduce=vote", "sign:reduce=vote,block=128", "signsgd", "onebit", "onebit:group=layer",
         "onebit:group=block", "onebit:group=block,block=64", "topk", "topk:density=0.1,values=bf16",
         "topk:scope=block,block=256,density=0.05", "topk:density=0.001,stage_steps=2", "randomk", "randomk:density=0.125",
         "randomk:density=0.1,scale=q,values=bf16", "fp8", "fp8:block=0", "fp8:rounding=stochastic",
         "eden", "eden:levels=2", "eden:levels=4,scale=least", "eden:levels=8,rotate=128", "eden:levels=16,rotate=64"]


def gaussian(count: int, seed: int) -> np.ndarray:
    """Normal deviates in fp32, from numpy's generator: independent of the draws under test."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def bits(*values: int) -> np.ndarray:
    """fp32 numbers from their bits."""
    return np.array(values, np.uint32).view(np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def square(values: np.ndarray) -> float:
    """|values|^2 in fp64."""
    return float((values.astype(np.float64) ** 2).sum())
