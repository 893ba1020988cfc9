"""One bit per element: sign (Bernstein et al., ICML 2018; Karimireddy et al., ICML 2019) and onebit (Seide et al.,
Interspeech 2014)."""

import numpy as np

from . import packing, rotation, rounding, scalers, statistics
from .codec import Codec
from .cut import Runs


class Sign(Codec):
    """One sign bit per element (1: negative) and a scaler s for each run; decodes to s or -s. A vote's mean is s times
    the majority's sign.

    Zeros: sign by the parity of step + worker + position (zeros=alternate), or positive (zeros=plus). s is fl(A / n)
    (l1), fl(sqrt(S2 / n)) (l2), fl(S2 / A) (drive), or 1 (one, votes only). If s is 0, all bits are 0; a vote sends the
    bits of zeros. A vote's s is the mean over all workers; with scale=one it is 1 unless no worker's tensor is finite.
    """

    wire_id = 6
    options = {
        "reduce": ("mean", ("mean", "vote")), "scale": ("l1", ("l1", "l2", "drive", "one")),
        "zeros": ("alternate", ("alternate", "plus")), "block": (0, None),
        "rotate": (0, (0, *rotation.RUNS)),
    }

    def __init__(self, **values):
        super().__init__(**values)
        self.is_vote = self.reduce == "vote"
        scales = ("one", "l1") if self.is_vote else ("l1", "l2", "drive")
        if self.scale not in scales:
            raise ValueError(f"scale={self.scale}: expected one of {', '.join(scales)} with reduce={self.reduce}")
        if self.scale == "one" and self.block:
            raise ValueError(f"block={self.block}: scale=one has one scaler")
        if self.is_vote and self.rotate:
            raise ValueError(f"rotate={self.rotate}: expected 0 with reduce=vote")
        self.aggregation = "vote" if self.is_vote else "unshared"
        self.sharing = ("max" if self.scale == "one" else "mean") if self.is_vote else "none"
        self.lane_levels = 1 if self.is_vote else 0
        self.runs = Runs(block=self.block)

    def format_id(self):
        return 18

    def measure(self, gradient):
        measured = statistics.statistics_of(gradient.reshape(-1), self.block)
        if self.scale == "one" or not measured.are_finite():
            return scalers.flagged_as_a_whole(np.ones(len(measured.count), np.float32), measured.are_finite())
        with np.errstate(invalid="ignore"):  # 0 / 0 if all elements are zero
            exact = {
                "l1": lambda: measured.sum_magnitudes / measured.count,
                "l2": lambda: np.sqrt(measured.sum_squares / measured.count),
                "drive": lambda: measured.sum_squares / measured.sum_magnitudes,
            }[self.scale]()
        return scalers.limited(exact, measured.max, True)

    def codes(self, elements, joint, own, draws, cut):
        zeros = (draws.step + draws.worker + cut.positions) % 2 == 1 if self.zeros == "alternate" else False
        of_silent = zeros if self.is_vote else False
        return np.where(joint[0] > 0, np.where(elements == 0, zeros, elements < 0), of_silent).astype(np.int64)

    def pack(self, codes):
        return packing.pack_fields(codes, 1)

    def unpack(self, payload, count):
        return packing.unpack_fields(payload, count, 1)

    def values(self, codes, joint):
        return np.where(codes == 1, -joint[0], joint[0])

    def mean_of_sum(self, total, joint, num_workers):
        """total: number of negative votes."""
        return np.sign(num_workers - 2 * total).astype(np.float32) * joint[0]

    def lane_numbers(self, codes):
        return codes


class Onebit(Codec):
    """The sign bit, and two scalers for each group: the mean |g| of its negatives, a-, and of the others, a+.

    Groups are columns (elements with equal position modulo the last dimension), the whole tensor, or blocks. The sign
    bit decides the side and is sent. Scalers travel as a-, a+, a-, a+, ...; if both are 0, all bits are 0.
    """

    wire_id = 7
    options = {"group": ("column", ("column", "layer", "block")), "block": (512, None)}
    default_memory = "ef"

    def __init__(self, **values):
        super().__init__(**values)
        if "block" in values and self.group != "block":
            raise ValueError(f"block={self.block}: expected group=block, not group={self.group}")
        if self.group == "block" and self.block == 0:
            raise ValueError("block=0: expected a multiple of 64, or group=layer")
        self.runs = Runs(block=self.block if self.group == "block" else 0, by_column=self.group == "column",
                         scalers_each=2)

    def format_id(self):
        return 18

    def measure(self, gradient):
        elements = gradient.reshape(-1)
        if self.group == "column" and gradient.ndim > 1 and gradient.size > 0:
            sides = statistics.signed_column_statistics_of(elements, gradient.shape[-1])
        else:
            sides = statistics.signed_statistics_of(elements, self.runs.block)
        exact = [total / np.maximum(count, 1) for total, count in
                 [(sides.sum_negative, sides.num_negative), (sides.sum_positive, sides.num_positive)]]
        maxima = np.stack([sides.max_negative, sides.max_positive], axis=-1).reshape(-1).view(np.float32)
        return scalers.limited(np.stack(exact, axis=-1).reshape(-1), maxima, sides.are_finite())

    def codes(self, elements, joint, own, draws, cut):
        return (rounding.is_negative(elements) & (joint > 0).any(axis=0)).astype(np.int64)

    def pack(self, codes):
        return packing.pack_fields(codes, 1)

    def unpack(self, payload, count):
        return packing.unpack_fields(payload, count, 1)

    def values(self, codes, joint):
        return np.where(codes == 1, -joint[0], joint[1])
