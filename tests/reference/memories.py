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


@dataclasses.dataclass(frozen=True)
class Loco:
    """h = fl(e + g), e' = fl(fl(beta e) + fl((1 - beta) fl(h - d))), kept in 8 bits for blocks of 64 elements: codes of
    fl(s c), s = fl(max|e'| / 127), c = fl(e' / s) to the nearest, ties to even. The state is [e], as fl(s c). The average
    begins anew every `reset` steps; reset 0: never.
    """

    beta: float = 0.8
    reset: int = 1024
    BLOCK = 64
    counts_steps = True

    def compensate(self, state: np.ndarray, gradient: np.ndarray, step: int = 1) -> np.ndarray:
        return self._before(state, step) + gradient

    def _before(self, state: np.ndarray, step: int) -> np.ndarray:
        is_reset = self.reset != 0 and step % self.reset == 0
        return np.zeros_like(state) if is_reset else state

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray, step: int = 1) -> np.ndarray:
        h = self.compensate(state, gradient, step)
        if not _is_finite(h):
            return state
        e = np.float32(self.beta) * self._before(state, step) + np.float32(1 - self.beta) * (h - decoded)
        padded = np.zeros(-(-e.size // self.BLOCK) * self.BLOCK, np.float32)
        padded[: e.size] = e.reshape(-1)
        blocks = padded.reshape(-1, self.BLOCK)
        scales = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
        is_kept = (scales >= np.float32(2.0**-126)) & np.isfinite(scales)
        scales = np.where(is_kept, scales, np.float32(0))
        codes = np.rint(blocks / np.where(is_kept, scales, np.float32(1))) + np.float32(0)  # no negative zeros
        kept = np.where(is_kept, scales * codes, np.float32(0))
        return kept.reshape(-1)[: e.size].reshape(state.shape)


@dataclasses.dataclass(frozen=True)
class Ef21:
    """v' = fl(fl(beta v) + fl((1 - beta) g)), or g with beta 0; h = fl(v' - e), e' = fl(e + d). The state is [e, v]. The
    mean of the workers' e takes the place of that of d.
    """

    beta: float = 0.0
    keeps_mean = True

    def begin(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros((2, *shape), np.float32)

    def average(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        if self.beta == 0:
            return gradient
        return np.float32(self.beta) * state[1] + np.float32(1 - self.beta) * gradient

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.average(state, gradient) - state[0]

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        if not _is_finite(self.compensate(state, gradient)):
            return state
        return np.stack([state[0] + decoded, self.average(state, gradient)])


MEMORIES = {"ef": ErrorFeedback, "momentum": Momentum, "dgc": Dgc, "loco": Loco, "ef21": Ef21}
