"""fp32 and bf16. Their scaler is 0, or NaN if the tensor is not finite."""

import numpy as np

from . import packing, rounding, scalers
from .codec import Codec


class Fp32(Codec):
    """4 bytes per element."""

    wire_id = 1
    is_exact = True
    aggregation = "floats"

    def format_id(self):
        return 0

    def measure(self, gradient):
        return scalers.flagged_as_a_whole(np.zeros(min(gradient.size, 1), np.float32),
                                          bool(np.isfinite(gradient).all()))

    def codes(self, elements, joint, own, draws, cut):
        return elements

    def pack(self, codes):
        return codes.astype("<f4").tobytes()

    def unpack(self, payload, count):
        packing.require(len(payload) == 4 * count, f"{len(payload)} bytes for {count} elements")
        return np.frombuffer(payload, "<f4").astype(np.float32)

    def values(self, codes, joint):
        return codes


class Bf16(Fp32):
    """2 bytes per element: the upper half of fp32, rounded to nearest, ties to even; padded to 4 bytes."""

    wire_id = 2
    is_exact = False

    def pack(self, codes):
        return packing.filled(rounding.bfloat16_bits(codes).astype("<u2").tobytes())

    def unpack(self, payload, count):
        upper = np.frombuffer(packing.unfilled(payload, 2 * count), "<u2").astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32)
