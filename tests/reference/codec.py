"""What all codecs have in common."""

import dataclasses

import numpy as np

from . import packing, scalers, worker_tree
from .cut import Cut, Runs
from .rounding import Draws


@dataclasses.dataclass(frozen=True)
class Message:
    """What a worker sends of a tensor, or of a slice of it."""

    payload: bytes
    scalers: np.ndarray  # fp32


class Codec:
    """A codec with its options. Gradients are whole tensors, fp32; a cut says which elements are encoded.

    measure -> share -> encode -> decode, mean. Codes are integers; where the class is `shared` or `vote` the mean
    depends on their sum over workers alone, which travels in lanes of lane_levels levels per worker.
    """

    wire_id = 0
    options: dict = {}  # name: (default, choices or None)
    aggregation = "unshared"  # floats, unshared, shared, vote, sparse, rounds
    sharing = "none"
    lane_levels = 0
    default_memory = "none"
    is_exact = False  # what is decoded is the gradient
    is_amplified = False  # what is decoded is scaled up for what was left out
    rotate = 0  # elements of runs that are rotated before they are measured and encoded; 0: none
    runs = Runs()

    def __init__(self, **values):
        """values: options by name, converted and checked by specs.py; the others have their defaults."""
        for name, (default, _) in self.options.items():
            setattr(self, name, values.get(name, default))

    def format_id(self) -> int:
        """Of the payload, as records have it."""
        raise NotImplementedError

    def measure(self, gradient: np.ndarray) -> np.ndarray:
        """The worker's local scalers, fp32; all NaN if the tensor is not finite; none if it has no elements."""
        raise NotImplementedError

    def share(self, local: list[np.ndarray]) -> list[np.ndarray]:
        """From all workers' local scalers those that each of them encodes with."""
        return scalers.shared(local, self.sharing)

    def encode(self, gradient: np.ndarray, joint: np.ndarray, local: np.ndarray, draws: Draws,
               cut: Cut | None = None) -> Message:
        """joint: the worker's scalers of share(); local: those of measure(). Both of the whole tensor."""
        cut = cut or Cut.whole(gradient.shape)
        elements = gradient.reshape(-1)[cut.first : cut.end]
        if scalers.is_flagged(local):
            elements = np.zeros_like(elements)
        own = self.runs.scalers_of(scalers.without_flags(local), cut)
        of_cut = self.runs.scalers_of(joint, cut)
        codes = self.codes(elements, self.runs.spread(of_cut, cut), self.runs.spread(own, cut), draws, cut)
        return Message(self.pack(codes), of_cut)

    def codes(self, elements: np.ndarray, joint: np.ndarray, own: np.ndarray, draws: Draws, cut: Cut) -> np.ndarray:
        """The code of each element. joint, own: its scalers, [scalers per run, count]; all elements are finite."""
        raise NotImplementedError

    def pack(self, codes: np.ndarray) -> bytes:
        raise NotImplementedError

    def unpack(self, payload: bytes, count: int) -> np.ndarray:
        """Refuses what no encoder writes (packing.MalformedPayload)."""
        raise NotImplementedError

    def values(self, codes: np.ndarray, joint: np.ndarray) -> np.ndarray:
        """What codes stand for, in fp32. joint: the scalers of each element, as for codes()."""
        raise NotImplementedError

    def decode(self, message: Message, cut: Cut) -> np.ndarray:
        """fp32 [cut.count], which is also the mean of this worker alone."""
        return self.values(self.unpack(message.payload, cut.count), self.runs.spread(message.scalers, cut))

    def mean(self, messages: list[Message], cut: Cut) -> np.ndarray:
        """Of all workers' messages, fp32 [cut.count]."""
        if self.aggregation not in ("shared", "vote"):
            return worker_tree.tree_mean([self.decode(message, cut) for message in messages])
        joint = messages[0].scalers
        for message in messages[1:]:
            packing.require(message.scalers.tobytes() == joint.tobytes(), "shared scalers differ")
        total = sum(self.unpack(message.payload, cut.count) for message in messages)
        return self.mean_of_sum(total, self.runs.spread(joint, cut), len(messages))

    def mean_of_sum(self, total: np.ndarray, joint: np.ndarray, num_workers: int) -> np.ndarray:
        """From the sum of all workers' codes; `shared` and `vote` only."""
        raise NotImplementedError

    def lane_numbers(self, codes: np.ndarray) -> np.ndarray:
        """A worker's codes as numbers from 0 to lane_levels."""
        return codes + self.lane_levels // 2
