"""Uniform levels between -s and s (Alistarh et al., NIPS 2017)."""

import numpy as np

from . import packing, philox, rotation, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs

PURPOSES = (philox.QUANTIZE, philox.QUANTIZE_REFINE)


class Qsgd(Codec):
    """L = 2^(bits - 1) - 1 levels per side; t = min(fl(|g| fl(L / s)), L) is rounded to a level, and to L if |g| >= s.

    s is the largest |g| (max), the smallest power of two >= it (pow2), fl(sqrt(S2)) (l2) or fl(c sqrt(S2 / n)) (rms).
    """

    wire_id = 4
    options = {
        "bits": (4, (2, 4, 8)), "norm": ("max", ("max", "pow2", "l2", "rms")), "block": (512, None),
        "rounding": ("stochastic", ("stochastic", "nearest", "stratified")), "sharing": ("none", ("none", "max")),
        "clip": (2.154, None), "rotate": (0, (0, *rotation.RUNS)),
    }

    def __init__(self, **values):
        super().__init__(**values)
        if "clip" in values and self.norm != "rms":
            raise ValueError(f"clip={self.clip}: expected norm=rms, not norm={self.norm}")
        self.top = 2 ** (self.bits - 1) - 1
        self.lane_levels = 2 * self.top
        self.aggregation = "unshared" if self.sharing == "none" else "shared"
        self.runs = Runs(block=self.block)

    def format_id(self):
        return {2: 1, 4: 16, 8: 17}[self.bits]

    def measure(self, gradient):
        measured = statistics.statistics_of(gradient.reshape(-1), self.block)
        largest = measured.max
        if not measured.are_finite():
            return scalers.flagged_as_a_whole(largest, False)
        exact = {
            "max": lambda: largest.astype(np.float64),
            "pow2": lambda: rounding.power_of_two_above(largest),
            "l2": lambda: np.sqrt(measured.sum_squares),
            "rms": lambda: self.clip * np.sqrt(measured.sum_squares / measured.count),
        }[self.norm]()
        return scalers.limited(exact, largest, True)

    def codes(self, elements, joint, own, draws, cut):
        s = joint[0]
        magnitudes = np.abs(elements)
        t = np.minimum(magnitudes * scalers.inverse(s, self.top), np.float32(self.top))
        if self.rounding == "nearest":
            levels = np.rint(t)
        else:
            below = np.floor(t)
            levels = below + draws.rounds_up(t - below, cut.first, PURPOSES, self.rounding == "stratified",
                                             rounding.is_negative(elements))
        levels = np.where(magnitudes >= s, self.top, levels)
        return np.where(s > 0, np.sign(elements) * levels, 0).astype(np.int64)

    def pack(self, codes):
        return packing.pack_t2(codes) if self.bits == 2 else packing.pack_fields(codes + self.top, self.bits)

    def unpack(self, payload, count):
        if self.bits == 2:
            return packing.unpack_t2(payload, count)
        fields = packing.unpack_fields(payload, count, self.bits)
        packing.require((fields <= 2 * self.top).all(), f"qsgd: a code of {2 * self.top + 1}")
        return fields - self.top

    def values(self, codes, joint):
        return codes.astype(np.float32) * (joint[0] / np.float32(self.top))

    def mean_of_sum(self, total, joint, num_workers):
        if self.top * num_workers >= 2**24:
            raise ValueError(f"{num_workers} workers: sums of codes would not be exact in fp32")
        return total.astype(np.float32) * (joint[0] / np.float32(self.top * num_workers))
