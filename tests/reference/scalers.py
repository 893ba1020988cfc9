"""Limits of scalers, the flag of non-finite tensors, and how workers share scalers."""

import numpy as np

from . import rounding


def limited(scalers: np.ndarray, maxima: np.ndarray, are_finite: bool) -> np.ndarray:
    """Local scalers, fp32 [scalers], rounded once from fp64; 0 where the largest |g| is below 2^-86.

    If any element of the tensor is not finite, or a scaler exceeds 2^126, all its scalers become the canonical NaN.
    """
    rounded = np.where(maxima < rounding.SMALLEST, np.float32(0), rounding.fl(scalers))
    return flagged_as_a_whole(rounded, are_finite)


def flagged_as_a_whole(scalers: np.ndarray, are_finite: bool) -> np.ndarray:
    if are_finite and not (scalers > rounding.LARGEST).any() and not np.isnan(scalers).any():
        return scalers
    return np.full(len(scalers), rounding.CANONICAL_NAN)


def is_flagged(local: np.ndarray) -> bool:
    """True if the local scalers mark the tensor as non-finite; it is sent as zeros."""
    return bool(np.isnan(local).any())


def told(local: np.ndarray, shares: bool) -> np.ndarray:
    """Scalers that a worker sends before encoding: those that are shared, else a flag of 0 or NaN."""
    if shares or len(local) == 0:
        return local
    return np.array([rounding.CANONICAL_NAN if is_flagged(local) else 0], np.float32)


def without_flags(local: np.ndarray) -> np.ndarray:
    return np.zeros_like(local) if is_flagged(local) else local


def shared(locals_of_workers: list[np.ndarray], sharing: str) -> list[np.ndarray]:
    """The scalers that each worker encodes with. sharing: none, max, or mean: fl(sum / N), in fp64 in order of workers."""
    own = [without_flags(local) for local in locals_of_workers]
    if sharing == "none":
        return own
    if sharing == "max":
        joint = np.max(own, axis=0)
    else:
        total = np.zeros(len(own[0]))
        for local in own:
            total = total + local.astype(np.float64)
        joint = rounding.fl(total / len(own))
    return [joint] * len(own)


def inverse(values: np.ndarray, numerator: int = 1) -> np.ndarray:
    """fl(numerator / s), and 0 where s is 0."""
    is_zero = values == 0
    return np.where(is_zero, np.float32(0), np.float32(numerator) / np.where(is_zero, np.float32(1), values))
