"""8-bit floats, E4M3 (Micikevicius et al. 2022), scaled so that the largest |g| of a block becomes 448."""

import numpy as np

from . import e4m3, packing, philox, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs

PURPOSES = (philox.QUANTIZE, philox.QUANTIZE_REFINE)


class Fp8(Codec):
    """s = fl(M / 448). The code is g fl(1 / s) in E4M3, saturating, rounded to nearest even or stochastically."""

    wire_id = 10
    options = {"block": (128, None), "rounding": ("nearest", ("nearest", "stochastic"))}

    def __init__(self, **values):
        super().__init__(**values)
        self.runs = Runs(block=self.block)

    def format_id(self):
        return 23

    def measure(self, gradient):
        measured = statistics.statistics_of(gradient.reshape(-1), self.block)
        largest = measured.max
        return scalers.limited(largest.astype(np.float64) / 448, largest, measured.are_finite())

    def codes(self, elements, joint, own, draws, cut):
        scaled = np.abs(elements) * scalers.inverse(joint[0])
        if self.rounding == "nearest":
            magnitudes = e4m3.nearest(scaled)
        else:
            low, high, way = e4m3.neighbours(scaled)
            magnitudes = np.where(draws.rounds_up(way, cut.first, PURPOSES), high, low)
        return e4m3.with_signs(magnitudes, rounding.is_negative(elements))

    def pack(self, codes):
        return packing.pack_fields(codes, 8)

    def unpack(self, payload, count):
        fields = packing.unpack_fields(payload, count, 8)
        e4m3.values(fields)  # raises MalformedPayload
        return fields

    def values(self, codes, joint):
        return e4m3.values(codes) * joint[0]
