"""Codes -1, 0, +1 times a scaler (Wen et al., NIPS 2017)."""

import numpy as np

from . import packing, philox, rotation, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs

PURPOSES = (philox.TERNARIZE, philox.TERNARIZE_REFINE)
FORMATS = {
    "t2": (1, packing.pack_t2, packing.unpack_t2),
    "t5": (2, packing.pack_t5, packing.unpack_t5),
    "tmask": (3, packing.pack_tmask, packing.unpack_tmask),
    "trans": (5, packing.pack_trans, packing.unpack_trans),
}


def deviations(measured: statistics.Statistics) -> np.ndarray:
    """Population standard deviation of each run, in fp64; 0 where the variance is lost in rounding."""
    with np.errstate(invalid="ignore"):
        mean_squares = measured.sum_squares / measured.count
        means = measured.sum / measured.count
        variances = mean_squares - means * means
        return np.sqrt(np.where((variances < 0) | (variances < 2.0**-40 * mean_squares), 0.0, variances))


class Ternary(Codec):
    """Stochastic, stratified: sign(g) with probability |g| / s. Nearest: sign(g) where 2 |g| >= s. Asymmetric: an s for each sign.

    s is the largest |g|; if c > 0, fl(c sigma) if that is smaller (scaler=paper), or in any case (scaler=original).
    """

    wire_id = 3
    options = {
        "clip_factor": (0.0, None), "scaler": ("paper", ("paper", "original")),
        "sharing": ("max", ("max", "mean", "none")), "clip_scope": ("shared", ("shared", "local")),
        "scope": ("layer", ("layer", "block", "model")), "block": (32768, None),
        "format": ("t2", ("t2", "t5", "tmask", "trans")), "rounding": ("stochastic", ("stochastic", "nearest", "stratified")),
        "levels": ("symmetric", ("symmetric", "asymmetric")),
        "rotate": (0, (0, *rotation.RUNS)),
    }
    lane_levels = 2

    def __init__(self, **values):
        super().__init__(**values)
        if "block" in values and "scope" not in values:
            self.scope = "block"
        if "block" in values and self.scope != "block":
            raise ValueError(f"block={self.block}: expected scope=block, not scope={self.scope}")
        if self.scope == "block" and self.block == 0:
            raise ValueError("block=0: expected a multiple of 64, or scope=layer")
        self.is_asymmetric = self.levels == "asymmetric"
        if self.is_asymmetric and self.sharing == "mean":
            raise ValueError("sharing=mean: expected none or max with levels=asymmetric")
        self.aggregation = "unshared" if self.is_asymmetric or self.sharing == "none" else "shared"
        self.runs = Runs(block=self.block if self.scope == "block" else 0, scalers_each=2 if self.is_asymmetric else 1)

    def format_id(self):
        return FORMATS[self.format][0]

    def measure(self, gradient):
        """Symmetric: s of each run. Asymmetric: s+ and s- of each run. For scope=model see measure_model()."""
        elements = gradient.reshape(-1)
        measured = statistics.statistics_of(elements, self.runs.block)
        maxima = [measured.max]
        if self.is_asymmetric:
            sides = statistics.signed_statistics_of(elements, self.runs.block)
            maxima = [sides.max_positive.view(np.float32), sides.max_negative.view(np.float32)]
        return self._scalers_of(measured, maxima)

    def measure_model(self, gradients: list[np.ndarray]) -> list[np.ndarray]:
        """scope=model: one scaler for all tensors, repeated for each; NaN for non-finite tensors."""
        parts = [statistics.statistics_of(gradient.reshape(-1)) for gradient in gradients]
        measured = statistics.combined(parts)
        joint = self._scalers_of(measured, [measured.max])
        return [np.zeros(0, np.float32) if len(part.count) == 0
                else scalers.flagged_as_a_whole(joint, part.are_finite()) for part in parts]

    def _scalers_of(self, measured, maxima):
        sigma = deviations(measured)
        clipped = rounding.fl(self.clip_factor * sigma)
        each = []
        for largest in maxima:
            scaler = largest
            if self.clip_factor > 0 and self.scaler == "original":
                scaler = clipped
            elif self.clip_factor > 0:
                scaler = np.where((sigma > 0) & (clipped < largest), clipped, largest)
            each.append(np.where(scaler < rounding.SMALLEST, np.float32(0), scaler))
        return scalers.flagged_as_a_whole(np.stack(each, axis=-1).reshape(-1), measured.are_finite())

    def _scaler_of_each(self, elements, each):
        return np.where(rounding.is_negative(elements), each[1], each[0]) if self.is_asymmetric else each[0]

    def codes(self, elements, joint, own, draws, cut):
        s = self._scaler_of_each(elements, joint)
        magnitudes = np.abs(elements)
        if self.clip_scope == "local" and self.clip_factor > 0:
            magnitudes = np.minimum(magnitudes, self._scaler_of_each(elements, own))
        if self.rounding == "nearest":
            with np.errstate(over="ignore"):
                is_one = magnitudes * np.float32(2) >= s
        else:
            is_clipped = magnitudes >= s
            fractions = np.where(is_clipped, np.float32(0), magnitudes) * scalers.inverse(s)
            is_one = is_clipped | draws.rounds_up(fractions, cut.first, PURPOSES, self.rounding == "stratified",
                                                  rounding.is_negative(elements))
        return np.where(is_one & (magnitudes > 0) & (s >= rounding.SMALLEST), np.sign(elements), 0).astype(np.int64)

    def pack(self, codes):
        return FORMATS[self.format][1](codes)

    def unpack(self, payload, count):
        return FORMATS[self.format][2](payload, count)

    def values(self, codes, joint):
        s = np.where(codes < 0, joint[1], joint[0]) if self.is_asymmetric else joint[0]
        return codes.astype(np.float32) * s

    def mean_of_sum(self, total, joint, num_workers):
        return total.astype(np.float32) * (joint[0] / np.float32(num_workers))
