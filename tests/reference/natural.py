"""Powers of two: natural compression (Horvath et al. 2019), and NUQSGD's levels (Ramezani-Kebrya et al., JMLR 2021)."""

import numpy as np

from . import packing, philox, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs

PURPOSES = (philox.QUANTIZE, philox.QUANTIZE_REFINE)
ONE = 127  # the exponent field of 1
# Exponent field of the level below the smallest 4-bit level: 2^-7.
BELOW_NIBBLES = 120


class Natural(Codec):
    """y = min(fl(|g| fl(1 / s)), 1), rounded stochastically to a neighbouring power of two.

    With 8 bits s is the smallest power of two >= the largest |g|; all exponents of fp32. With 4 bits s is the largest
    |g| or the norm; levels 2^-6 to 1, and 0.
    """

    wire_id = 5
    options = {"bits": (8, (8, 4)), "norm": ("max", ("max", "l2")), "block": (0, None)}

    def __init__(self, **values):
        super().__init__(**values)
        if self.bits == 8 and self.norm != "max":
            raise ValueError("norm=l2: expected bits=4, not bits=8")
        self.runs = Runs(block=self.block)
        self.sign_bit = 1 << self.bits - 1

    def format_id(self):
        return 21 if self.bits == 8 else 22

    def measure(self, gradient):
        measured = statistics.statistics_of(gradient.reshape(-1), self.block)
        largest = measured.max
        if not measured.are_finite():
            return scalers.flagged_as_a_whole(largest, False)
        if self.norm == "l2":
            exact = np.sqrt(measured.sum_squares)
        else:
            exact = rounding.power_of_two_above(largest) if self.bits == 8 else largest.astype(np.float64)
        return scalers.limited(exact, largest, True)

    def codes(self, elements, joint, own, draws, cut):
        """Fields: sign bit, and the number of the level from 1, or 0 for zero."""
        s = joint[0]
        y = np.minimum(np.abs(elements) * scalers.inverse(s), np.float32(1))
        bits = y.view(np.uint32)
        levels = (bits >> np.uint32(23)).astype(np.int64)
        # Below 2^-126 the exponent field is 0, and the mantissa is 2^126 y in units of 2^-23.
        fractions = (bits & np.uint32(0x7FFFFF)).astype(np.float32) * np.float32(2**-23)
        if self.bits == 4:
            levels = levels - BELOW_NIBBLES
            is_below = levels < 1
            fractions = np.where(is_below, y * np.float32(64), fractions)
            levels = np.where(is_below, 0, levels)
        levels = levels + draws.rounds_up(fractions, cut.first, PURPOSES)
        return np.where(rounding.is_negative(elements) & (levels > 0), levels | self.sign_bit, levels)

    def pack(self, codes):
        return packing.pack_fields(codes, self.bits)

    def unpack(self, payload, count):
        fields = packing.unpack_fields(payload, count, self.bits)
        packing.require(not (fields == self.sign_bit).any(), "natural: minus zero")
        return fields

    def values(self, codes, joint):
        levels = codes & (self.sign_bit - 1)
        powers = np.ldexp(np.float32(1), levels - (ONE if self.bits == 8 else ONE - BELOW_NIBBLES)).astype(np.float32)
        magnitudes = np.where(levels > 0, powers, np.float32(0)) * joint[0]
        return np.where(codes >= self.sign_bit, -magnitudes, magnitudes)
