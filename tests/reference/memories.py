"""Codec memories: per-worker state before the codec, in fp32.

compensate() computes h from the state and the gradient; the codec encodes h; commit() computes the new state after the
step. A non-finite tensor keeps its state.
"""

import dataclasses

import numpy as np


def _is_finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


@dataclasses.dataclass(frozen=True)
class ErrorFeedback:
    """h = fl(fl(beta e) + g), e = fl(h - d), where d is the worker's own decoded message."""

    beta: float = 1.0

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.float32(self.beta) * state + gradient

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        h = self.compensate(state, gradient)
        return h - decoded if _is_finite(h) else state


@dataclasses.dataclass(frozen=True)
class Momentum:
    """h = fl(fl(beta u) + fl((1 - beta) g)), u = h. Both factors are rounded from fp64 to fp32."""

    beta: float = 0.9

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.float32(self.beta) * state + np.float32(1 - self.beta) * gradient

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        h = self.compensate(state, gradient)
        return h if _is_finite(h) else state


@dataclasses.dataclass(frozen=True)
class Dgc:
    """u' = fl(fl(m u) + g), h = fl(v + u'), v = fl(h - d), u = 0 where d is not 0, else u'. The state is [v, u].

    nesterov: h = fl(v + fl(fl(m u') + g)). is_exact (lossless codecs): h without v, and no masking.
    """

    momentum: float = 0.9
    nesterov: bool = False
    is_exact: bool = False

    def begin(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros((2, *shape), np.float32)

    def velocity(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return np.float32(self.momentum) * state[1] + gradient

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            velocity = self.velocity(state, gradient)
            if self.nesterov:
                velocity = np.float32(self.momentum) * velocity + gradient
            return velocity if self.is_exact else state[0] + velocity

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        h = self.compensate(state, gradient)
        if not _is_finite(h):
            return state
        velocity = self.velocity(state, gradient)
        if self.is_exact:
            return np.stack([state[0], velocity])
        return np.stack([h - decoded, np.where(decoded != 0, np.float32(0), velocity)])


MEMORIES = {"ef": ErrorFeedback, "momentum": Momentum, "dgc": Dgc}
