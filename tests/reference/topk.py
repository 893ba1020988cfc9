"""topk: the elements of largest magnitude of a tensor or block, with their indices (Aji and Heafield, EMNLP 2017)."""

import dataclasses
import math

import numpy as np

from . import packing, rounding
from .floats import Fp32

GROUP = 128  # places per field width


@dataclasses.dataclass(frozen=True)
class Sparse:
    """places: indices, ascending; values: fp32; count: number of elements of the slice."""

    places: np.ndarray
    values: np.ndarray
    count: int


def bit_string(numbers, width: int) -> int:
    """The numbers as one integer, `width` bits each, low bits first."""
    return sum(int(number) << (width * i) for i, number in enumerate(numbers))


def pack_words(numbers, width: int) -> bytes:
    return bit_string(numbers, width).to_bytes(4 * -(-len(numbers) * width // 32), "little")


def unpack_words(payload: bytes, begin: int, count: int, width: int) -> tuple[list[int], int]:
    """`count` numbers from byte `begin`, and the end offset."""
    end = begin + 4 * -(-count * width // 32)
    packing.require(end <= len(payload), f"{len(payload)} bytes, expected at least {end}")
    whole = int.from_bytes(payload[begin:end], "little")
    packing.require(whole >> (count * width) == 0, "bits behind the last number are not zero")
    return [whole >> (width * i) & ((1 << width) - 1) for i in range(count)], end


class TopK(Fp32):
    wire_id = 8
    is_exact = False
    options = {"density": (0.01, None), "scope": ("layer", ("layer", "block")),
               "block": (4096, None), "values": ("fp32", ("fp32", "bf16")), "stage_steps": (0, None)}
    aggregation = "sparse"
    default_memory = "ef"

    def __init__(self, **values):
        super().__init__(**values)
        if not 0 < self.density <= 1:
            raise ValueError(f"density={self.density}: expected more than 0 and at most 1")
        if not (256 <= self.block <= 65536 and self.block & (self.block - 1) == 0):
            raise ValueError(f"block={self.block}: expected a power of two from 256 to 65536")
        if "block" in values and self.scope != "block":
            raise ValueError("block: expected scope=block")
        if self.stage_steps and self.scope == "block":
            raise ValueError("stage_steps: expected scope=layer")

    def densities(self) -> list[float]:
        """Densities of the warm-up stages, then the final density."""
        stages = []
        while self.stage_steps and 0.25 ** (len(stages) + 1) > self.density:
            stages.append(0.25 ** (len(stages) + 1))
        return [*stages, self.density]

    def density_at(self, step: int) -> float:
        densities = self.densities()
        return densities[min(step // self.stage_steps, len(densities) - 1)] if self.stage_steps else self.density

    def format_id(self):
        return 19 if self.scope == "layer" else 20

    def measure(self, gradient):
        # Values that overflow in bf16 are non-finite on the wire.
        with np.errstate(over="ignore"):
            return super().measure(self.sent(gradient.reshape(-1)) if self.values == "bf16" else gradient)

    def sent(self, values):
        """Values as transmitted: rounded to bf16 if configured."""
        if self.values == "fp32":
            return values
        return rounding.to_bfloat16(values)

    def runs_of(self, count: int) -> list[tuple[int, int]]:
        """First element and number of elements of each run."""
        size = self.block if self.scope == "block" else max(count, 1)
        return [(first, min(size, count - first)) for first in range(0, count, size)]

    def kept(self, count: int, density: float | None = None) -> int:
        density = self.density if density is None else density
        return min(count, max(1, math.ceil(count * density))) if count else 0

    def codes(self, elements, joint, own, draws, cut):
        places = []
        for first, count in self.runs_of(len(elements)):
            magnitudes = elements[first : first + count].view(np.uint32) & np.uint32(0x7FFFFFFF)
            order = np.argsort(-magnitudes.astype(np.int64), kind="stable")
            places.append(first + np.sort(order[: self.kept(count, self.density_at(draws.step))]))
        places = np.concatenate(places) if places else np.zeros(0, np.int64)
        return Sparse(places, self.sent(elements[places]), len(elements))

    def pack(self, codes):
        head = self.pack_runs(codes.places) if self.scope == "layer" else \
            pack_words(codes.places % self.block, self.block.bit_length() - 1)
        if self.values == "fp32":
            return head + codes.values.astype("<f4").tobytes()
        return head + packing.filled(rounding.bfloat16_bits(codes.values).astype("<u2").tobytes())

    @staticmethod
    def pack_runs(places):
        groups, gaps, widths = b"", b"", 0
        for begin in range(0, len(places), GROUP):
            of_group = places[begin : begin + GROUP]
            steps = [0] + [int(gap) - 1 for gap in np.diff(of_group)]
            width = max(steps).bit_length()
            groups += int(of_group[0]).to_bytes(4, "little") + (64 * widths + width).to_bytes(4, "little")
            gaps += pack_words(steps, width)
            widths += width
        return len(places).to_bytes(4, "little") + bytes(4) + groups + gaps

    def unpack(self, payload, count):
        kept = sum(self.kept(size) for _, size in self.runs_of(count))
        if self.stage_steps and int.from_bytes(payload[:4], "little") in [self.kept(count, d) for d in self.densities()]:
            kept = int.from_bytes(payload[:4], "little")
        places, end = self.unpack_runs(payload, kept) if self.scope == "layer" else self.unpack_local(payload, count)
        packing.require(all(a < b for a, b in zip(places, places[1:])), "places do not ascend")
        packing.require(not places or places[-1] < count, "places beyond the slice")
        if self.values == "fp32":
            packing.require(len(payload) == end + 4 * kept, f"{len(payload)} bytes, expected {end + 4 * kept}")
            values = np.frombuffer(payload[end:], "<f4").astype(np.float32)
        else:
            halves = np.frombuffer(packing.unfilled(payload[end:], 2 * kept), "<u2").astype(np.uint32)
            values = (halves << np.uint32(16)).view(np.float32)
        return Sparse(np.array(places, np.int64), values, count)

    @staticmethod
    def unpack_runs(payload, kept):
        groups = -(-kept // GROUP)
        end = 8 + 8 * groups
        packing.require(len(payload) >= end, f"{len(payload)} bytes, expected at least {end}")
        packing.require(payload[:8] == kept.to_bytes(8, "little"), "another number of places")
        places, widths = [], 0
        for group in range(groups):
            first, packed = np.frombuffer(payload, "<u4", 2, 8 + 8 * group).tolist()
            width = packed % 64
            packing.require(packed // 64 == widths and width <= 32, "widths contradict each other")
            gaps, end = unpack_words(payload, end, min(GROUP, kept - group * GROUP), width)
            packing.require(gaps[0] == 0 and max(gaps).bit_length() == width, "gaps that no encoder writes")
            places += [first + i + sum(gaps[: i + 1]) for i in range(len(gaps))]
            widths += width
        return places, end

    def unpack_local(self, payload, count):
        runs = self.runs_of(count)
        numbers, end = unpack_words(payload, 0, sum(self.kept(size) for _, size in runs), self.block.bit_length() - 1)
        places = []
        for first, size in runs:
            places += [first + place for place in numbers[len(places) : len(places) + self.kept(size)]]
        return places, end

    def values_of(self, codes):
        out = np.zeros(codes.count, np.float32)
        out[codes.places] += codes.values
        return out

    def decode(self, message, cut):
        return self.values_of(self.unpack(message.payload, cut.count))

    def mean(self, messages, cut):
        total = np.zeros(cut.count, np.float32)
        for message in messages:
            total += self.decode(message, cut)
        return total * (np.float32(1) / np.float32(len(messages)))


def pack_nonzeros(values: np.ndarray) -> bytes:
    """Encodes the elements of a mean other than +0, in the format of runs. values: fp32"""
    places = np.flatnonzero(values.view(np.uint32))
    return TopK.pack_runs(places) + values[places].astype("<f4").tobytes()
