"""randomk: one random element of each group of q, the same on all workers (Stich et al., NeurIPS 2018)."""

import dataclasses

import numpy as np

from . import packing, philox, rounding
from .codec import Message
from .floats import Fp32


@dataclasses.dataclass
class Drawn:
    """Values sent for some elements: one for each group that they touch; 0 if the drawn element is not among them."""

    selection: int
    values: np.ndarray
    first: int
    count: int


class RandomK(Fp32):
    wire_id = 9
    is_exact = False
    options = {"density": (0.01, None), "scale": ("1", ("1", "q")), "values": ("fp32", ("fp32", "bf16"))}
    aggregation = "sparse"
    scope = "block"  # tensors may be cut at any chunk

    def __init__(self, **values):
        super().__init__(**values)
        self.group = round(1 / self.density) if self.density else 0
        if not 0 < self.density <= 1 or abs(1 / self.density - self.group) > 1e-9 * self.group:
            raise ValueError(f"density={self.density}: expected one over an integer")
        self.is_amplified = self.scale == "q" and self.group > 1
        self.default_memory = "none" if self.scale == "q" else "ef"

    def format_id(self):
        return 25

    def measure(self, gradient):
        with np.errstate(over="ignore"):
            return super().measure(self.sent(gradient.reshape(-1)))

    def sent(self, values):
        """Values as transmitted: scaled and rounded."""
        scaled = np.float32(self.group) * values if self.scale == "q" else values
        if self.values == "fp32" or np.isnan(scaled).any():
            return scaled
        return (rounding.bfloat16_bits(scaled).astype(np.uint32) << np.uint32(16)).view(np.float32)

    def groups(self, first: int, count: int) -> range:
        """Groups that these elements touch."""
        return range(first // self.group, -(-(first + count) // self.group) if count else first // self.group)

    def places(self, selection: int, groups: range) -> np.ndarray:
        """Index of the drawn element of each group."""
        draws = philox.draws32(philox.DrawKey(selection, 0, 0, philox.SELECT), groups.start, len(groups))
        return np.array([group * self.group + (int(draw) * self.group >> 32) for group, draw in zip(groups, draws)],
                        np.int64)

    def codes(self, elements, joint, own, draws, cut):
        key = philox.DrawKey(draws.seed, draws.step, 0, philox.SELECT)
        low, high = key.blocks(draws.offset // 4, 1)[0][:2].tolist()
        selection = low | high << 32
        groups = self.groups(cut.first, cut.count)
        within = self.places(selection, groups) - cut.first
        is_inside = (0 <= within) & (within < cut.count)
        values = np.zeros(len(groups), np.float32)
        values[is_inside] = self.sent(elements[within[is_inside]])
        return Drawn(selection, values, cut.first, cut.count)

    def pack(self, codes):
        if codes.count == 0:
            return b""
        head = codes.selection.to_bytes(8, "little")
        if self.values == "fp32":
            return head + codes.values.astype("<f4").tobytes()
        return head + packing.filled(rounding.bfloat16_bits(codes.values).astype("<u2").tobytes())

    def unpack(self, payload, count, first=0):
        if count == 0:
            packing.require(not payload, "something of no elements")
            return Drawn(0, np.zeros(0, np.float32), first, 0)
        groups = self.groups(first, count)
        packing.require(len(payload) >= 8, f"{len(payload)} bytes, expected at least 8")
        selection = int.from_bytes(payload[:8], "little")
        if self.values == "fp32":
            packing.require(len(payload) == 8 + 4 * len(groups), f"{len(payload)} bytes for {len(groups)} groups")
            values = np.frombuffer(payload[8:], "<f4").astype(np.float32)
        else:
            halves = np.frombuffer(packing.unfilled(payload[8:], 2 * len(groups)), "<u2").astype(np.uint32)
            values = (halves << np.uint32(16)).view(np.float32)
        places = self.places(selection, groups)
        is_inside = (first <= places) & (places < first + count)
        packing.require(not values[~is_inside].view(np.uint32).any(), "values of elements that are not in the slice")
        return Drawn(selection, values, first, count)

    def values_of(self, codes: Drawn) -> np.ndarray:
        elements = np.zeros(codes.count, np.float32)
        within = self.places(codes.selection, self.groups(codes.first, codes.count)) - codes.first
        is_inside = (0 <= within) & (within < codes.count)
        elements[within[is_inside]] = codes.values[is_inside]
        return elements

    def decode(self, message: Message, cut):
        return self.values_of(self.unpack(message.payload, cut.count, cut.first))
