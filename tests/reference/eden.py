"""EDEN (Vargaftik et al., ICML 2022): rotated gradients at the nearest levels of a Gaussian's codebook."""

import numpy as np

from . import packing, rotation, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs

# Per number of levels: magnitudes, thresholds in units, and the unit in root mean squares.
CODEBOOKS = {
    2: ([1.0], [], 1.0),
    3: ([0.0, 1.0], [0.5], 1.22400641),
    4: ([0.452780038, 1.51041758], [0.981598794], 1.0),
    8: ([0.24509418, 0.756005287, 1.34390926, 2.15194559], [0.500549734, 1.04995728, 1.74792755], 1.0),
    16: ([0.128395036, 0.388048291, 0.656759143, 0.942340434, 1.25623119, 1.6180464, 2.06901717, 2.73258948],
         [0.258221656, 0.522403717, 0.799549758, 1.09928584, 1.4371388, 1.84353185, 2.40080333], 1.0),
}
FORMATS = {2: 18, 3: 2, 4: 26, 8: 27, 16: 28}
# e3 has 8 codes in three bytes.
E3_CODES = 8


class Eden(Codec):
    """Magnitude k of x: the number of thresholds t with |x| >= fl(t u), u = fl(unit sqrt(S2 / n)). Decodes to S v_k with
    the sign of x. S is fl(S2 / P) (unbiased) or fl(P / V2) (least), P and V2 the sums of fl(|x| v_k) and v_k^2 of a run.
    """

    wire_id = 12
    rotates_tails_twice = True
    options = {"levels": (3, tuple(CODEBOOKS)), "scale": ("unbiased", ("unbiased", "least")),
               "rotate": (4096, rotation.RUNS)}

    def __init__(self, **values):
        super().__init__(**values)
        magnitudes, thresholds, self.unit = CODEBOOKS[self.levels]
        self.magnitudes = np.array(magnitudes, np.float32)
        self.thresholds = np.array(thresholds, np.float32)
        self.runs = Runs(block=self.rotate)
        self.bits = {2: 1, 4: 2, 8: 3, 16: 4}.get(self.levels)

    def format_id(self):
        return FORMATS[self.levels]

    def _units(self, elements):
        measured = statistics.statistics_of(elements, self.rotate)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = rounding.fl(self.unit * np.sqrt(measured.sum_squares / measured.count))
        exact = np.where(exact < rounding.SMALLEST, np.float32(0), exact)
        return measured, scalers.flagged_as_a_whole(exact, measured.are_finite())

    def _nearest(self, elements, units):
        """Number of each element's magnitude. units: of each run of the elements."""
        of_elements = np.repeat(units, self.rotate)[: len(elements)]
        reached = np.abs(elements) >= self.thresholds[:, None] * of_elements
        return reached.sum(axis=0)

    def measure(self, gradient):
        elements = gradient.reshape(-1)
        if len(elements) == 0:
            return np.zeros(0, np.float32)
        measured, units = self._units(elements)
        if scalers.is_flagged(units):
            return units
        levels = self.magnitudes[self._nearest(elements, units)]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # runs of zeros; what is too large
            products = statistics.tree_sums((np.abs(elements) * levels).astype(np.float64), self.rotate)
            squares = statistics.tree_sums(levels.astype(np.float64) ** 2, self.rotate)
            exact = measured.sum_squares / products if self.scale == "unbiased" else products / squares
            found = np.where(np.isinf(products), np.float32(np.inf), rounding.fl(exact))
        return scalers.flagged_as_a_whole(np.where(units > 0, found, np.float32(0)), True)

    def codes(self, elements, joint, own, draws, cut):
        """Fields: the sign above the number of the magnitude; three levels: -1, 0 and 1."""
        if len(elements) == 0:
            return np.zeros(0, np.int64)
        _, units = self._units(elements)
        numbers = self._nearest(elements, units)
        is_scaled = np.repeat(units, self.rotate)[: len(elements)] > 0
        if self.levels == 3:
            return np.where(is_scaled, numbers * np.sign(elements), 0).astype(np.int64)
        is_negative = elements < 0 if self.levels == 2 else rounding.is_negative(elements)
        return np.where(is_scaled, numbers + np.where(is_negative, len(self.magnitudes), 0), 0)

    def pack(self, codes):
        if self.levels == 3:
            return packing.pack_t5(codes)
        if self.levels == 8:
            return packing.pack_string(codes, self.bits, E3_CODES)
        return packing.pack_fields(codes, self.bits)

    def unpack(self, payload, count):
        if self.levels == 3:
            return packing.unpack_t5(payload, count)
        if self.levels == 8:
            return packing.unpack_string(payload, count, self.bits, E3_CODES)
        return packing.unpack_fields(payload, count, self.bits)

    def values(self, codes, joint):
        if self.levels == 3:
            return joint[0] * codes.astype(np.float32)
        count = len(self.magnitudes)
        magnitudes = joint[0] * self.magnitudes[codes % count]
        return np.where(codes >= count, -magnitudes, magnitudes)
