"""Codecs by spec, and exchanges of one tensor between N workers.

    result = exchange(parse("qsgd:bits=4").codec, gradients, seed=1, step=0)
    result.messages[0].payload, result.decoded[0], result.mean
"""

import dataclasses
import math

import numpy as np

from . import rotation
from .codec import Codec, Message
from .cut import Cut
from .rounding import Draws
from .specs import Spec, memory_of, parse

__all__ = ["Codec", "Cut", "Draws", "Exchanged", "Message", "Spec", "Workers", "exchange", "memory_of", "parse"]


@dataclasses.dataclass
class Exchanged:
    """Results of one step for one tensor; lists are indexed by worker."""

    local: list[np.ndarray]
    joint: list[np.ndarray]
    messages: list[Message]
    decoded: list[np.ndarray]
    mean: np.ndarray


def exchange(codec: Codec, gradients: list[np.ndarray], seed: int = 1, step: int = 0, draw_offset: int = 0,
             cut: Cut | None = None) -> Exchanged:
    """Encodes and averages all workers' gradients of a tensor (fp32, of its shape); a cut restricts the elements."""
    cut = cut or Cut.whole(gradients[0].shape)
    key = (seed, step, draw_offset)
    if codec.rotate:
        gradients = [rotation.rotate(gradient, codec.rotate, *key, codec.rotates_tails_twice) for gradient in gradients]
    local = [codec.measure(gradient) for gradient in gradients]
    joint = codec.share(local)
    messages = [codec.encode(gradient, joint[k], local[k], Draws(seed, step, k, draw_offset, len(gradients)), cut)
                for k, gradient in enumerate(gradients)]
    decoded = [codec.decode(message, cut) for message in messages]
    mean = codec.mean(messages, cut)
    if codec.rotate:
        *decoded, mean = [rotation.turn_back(values, codec.rotate, seed, step, draw_offset + cut.first, codec.rotates_tails_twice)
                          for values in [*decoded, mean]]
    return Exchanged(local, joint, messages, decoded, mean)


class Workers:
    """N workers with their memories, for one tensor; states start at zero."""

    def __init__(self, spec: Spec, shape: tuple[int, ...], num_workers: int, seed: int = 1, draw_offset: int = 0,
                 **parameters):
        """parameters: those of the memory, such as beta."""
        self.spec = spec
        self.memory = memory_of(spec.memory, spec.codec, **parameters)
        self.seed, self.draw_offset = seed, draw_offset
        begin = getattr(self.memory, "begin", lambda shape: np.zeros(shape, np.float32))
        self.states = [begin(shape) for _ in range(num_workers)]
        self.estimate = np.zeros(math.prod(shape), np.float32)  # mean of the workers' estimates in ef21

    def step(self, gradients: list[np.ndarray], step: int, cut: Cut | None = None) -> Exchanged:
        """Runs one step and commits the memories. With a memory the whole tensor must travel."""
        if self.memory and cut and cut.count < gradients[0].size:
            raise ValueError(f"memory {self.spec.memory}: {cut.count} elements are not the whole tensor")
        sent = gradients
        of_step = (step,) if getattr(self.memory, "counts_steps", False) else ()
        if self.memory:
            sent = [self.memory.compensate(state, gradient, *of_step)
                    for state, gradient in zip(self.states, gradients, strict=True)]
        result = exchange(self.spec.codec, sent, self.seed, step, self.draw_offset, cut)
        if self.memory:
            self.states = [self.memory.commit(state, gradient, decoded.reshape(gradient.shape), *of_step)
                           for state, gradient, decoded in zip(self.states, gradients, result.decoded)]
        if getattr(self.memory, "keeps_mean", False):
            self.estimate = self.estimate + result.mean
        return result
