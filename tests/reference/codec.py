"""Base class of all codecs."""

import dataclasses

import numpy as np

from . import packing, scalers, worker_tree
from .cut import Cut, Runs
from .rounding import Draws


@dataclasses.dataclass(frozen=True)
class Message:
    """One worker's message of a tensor, or of a slice of it."""

    payload: bytes
    scalers: np.ndarray  # fp32


class Codec:
    """A codec with its options. Gradients are whole fp32 tensors; a Cut selects the elements to encode.

    measure -> share -> encode -> decode, mean. Codes are integers. For aggregation `shared` and `vote` the mean depends
    only on the sum of the workers' codes, which travels in lanes with lane_levels levels per worker.
    """

    wire_id = 0
    options: dict = {}  # name: (default, choices or None)
    aggregation = "unshared"  # floats, unshared, shared, vote, sparse, rounds
    sharing = "none"
    lane_levels = 0
    default_memory = "none"
    is_exact = False  # decoding gives the gradient
    is_amplified = False  # decoded values are scaled up for the elements left out
    rotate = 0  # length of the runs that are rotated before measuring; 0: no rotation
    rotates_tails_twice = False
    runs = Runs()

    def __init__(self, **values):
        """values: options by name, converted and checked by specs.py; missing options get their defaults."""
        for name, (default, _) in self.options.items():
            setattr(self, name, values.get(name, default))

    def format_id(self) -> int:
        """Format number of the payload, as in records."""
        raise NotImplementedError

    def measure(self, gradient: np.ndarray) -> np.ndarray:
        """The worker's local scalers, fp32; all NaN if the tensor is not finite; empty if it has no elements."""
        raise NotImplementedError

    def share(self, local: list[np.ndarray]) -> list[np.ndarray]:
        """The scalers that each worker encodes with, from the local scalers of all workers."""
        return scalers.shared(local, self.sharing)

    def encode(self, gradient: np.ndarray, joint: np.ndarray, local: np.ndarray, draws: Draws,
               cut: Cut | None = None) -> Message:
        """joint: the worker's scalers of share(); local: those of measure(). Both for the whole tensor."""
        cut = cut or Cut.whole(gradient.shape)
        elements = gradient.reshape(-1)[cut.first : cut.end]
        if scalers.is_flagged(local):
            elements = np.zeros_like(elements)
        own = self.runs.scalers_of(scalers.without_flags(local), cut)
        of_cut = self.runs.scalers_of(joint, cut)
        codes = self.codes(elements, self.runs.spread(of_cut, cut), self.runs.spread(own, cut), draws, cut)
        return Message(self.pack(codes), of_cut)

    def codes(self, elements: np.ndarray, joint: np.ndarray, own: np.ndarray, draws: Draws, cut: Cut) -> np.ndarray:
        """Codes of the elements, which are finite. joint, own: their scalers, [scalers per run, count]."""
        raise NotImplementedError

    def pack(self, codes: np.ndarray) -> bytes:
        raise NotImplementedError

    def unpack(self, payload: bytes, count: int) -> np.ndarray:
        """Raises packing.MalformedPayload for bytes that no encoder writes."""
        raise NotImplementedError

    def values(self, codes: np.ndarray, joint: np.ndarray) -> np.ndarray:
        """Decoded values, fp32. joint: the scalers of each element, as for codes()."""
        raise NotImplementedError

    def decode(self, message: Message, cut: Cut) -> np.ndarray:
        """Decoded values, fp32 [cut.count]; equal to the mean of this worker alone."""
        return self.values(self.unpack(message.payload, cut.count), self.runs.spread(message.scalers, cut))

    def mean(self, messages: list[Message], cut: Cut) -> np.ndarray:
        """Mean over all workers' messages, fp32 [cut.count]."""
        if self.aggregation not in ("shared", "vote"):
            return worker_tree.tree_mean([self.decode(message, cut) for message in messages])
        joint = messages[0].scalers
        for message in messages[1:]:
            packing.require(message.scalers.tobytes() == joint.tobytes(), "shared scalers differ")
        total = sum(self.unpack(message.payload, cut.count) for message in messages)
        return self.mean_of_sum(total, self.runs.spread(joint, cut), len(messages))

    def mean_of_sum(self, total: np.ndarray, joint: np.ndarray, num_workers: int) -> np.ndarray:
        """Mean from the sum of all workers' codes; `shared` and `vote` only."""
        raise NotImplementedError

    def lane_numbers(self, codes: np.ndarray) -> np.ndarray:
        """A worker's codes as numbers from 0 to lane_levels."""
        return codes + self.lane_levels // 2
