"""What a worker keeps from step to step: a stage before the codec, in fp32.

compensate() gives h from the state and the gradient; the codec encodes h; commit() gives the new state once the step is
settled. A tensor that is not finite keeps its state.
"""

import dataclasses

import numpy as np


def _is_finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


@dataclasses.dataclass(frozen=True)
class ErrorFeedback:
    """h = fl(fl(beta e) + g), e = fl(h - d), where d is the own message, decoded."""

    beta: float = 1.0

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.float32(self.beta) * state + gradient

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        h = self.compensate(state, gradient)
        return h - decoded if _is_finite(h) else state


@dataclasses.dataclass(frozen=True)
class Momentum:
    """h = fl(fl(beta u) + fl((1 - beta) g)), u = h. Both factors are rounded to fp32 from fp64."""

    beta: float = 0.9

    def compensate(self, state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.float32(self.beta) * state + np.float32(1 - self.beta) * gradient

    def commit(self, state: np.ndarray, gradient: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        h = self.compensate(state, gradient)
        return h if _is_finite(h) else state


MEMORIES = {"ef": ErrorFeedback, "momentum": Momentum}
