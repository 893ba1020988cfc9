"""E4M3 (Micikevicius et al. 2022): 4 bits of exponent, 3 of mantissa, no infinity, 448 the largest.

Magnitudes order as their codes do, so rounding is a search in the table of all of them.
"""

import numpy as np

from . import packing, rounding

LARGEST_CODE = 0x7E  # 448; 0x7f would be NaN
_EXPONENTS, _MANTISSAS = np.divmod(np.arange(LARGEST_CODE + 1), 8)
# Exponent 0 has no hidden bit: multiples of 2^-9.
MAGNITUDES = np.ldexp(np.where(_EXPONENTS == 0, _MANTISSAS, 8 + _MANTISSAS).astype(np.float64),
                      np.where(_EXPONENTS == 0, -9, _EXPONENTS - 10))


def neighbours(magnitudes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The codes at or below, the next ones, and where between them: (x - low) / (high - low), exact in fp32.

    magnitudes: fp32; what is 448 or more is taken as 448, at 0 of the way.
    """
    wide = np.minimum(magnitudes.astype(np.float64), MAGNITUDES[LARGEST_CODE])
    low = np.searchsorted(MAGNITUDES, wide, side="right") - 1
    high = np.minimum(low + 1, LARGEST_CODE)
    width = np.where(high > low, MAGNITUDES[high] - MAGNITUDES[low], 1.0)
    return low, high, rounding.fl((wide - MAGNITUDES[low]) / width)


def nearest(magnitudes: np.ndarray) -> np.ndarray:
    """Codes of magnitudes, rounded to nearest, ties to the even code, saturating."""
    low, high, way = neighbours(magnitudes)
    return np.where((way > 0.5) | ((way == 0.5) & (low % 2 == 1)), high, low)


def with_signs(codes: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Zero has no sign."""
    return codes | np.where(negative & (codes != 0), 0x80, 0)


def values(codes: np.ndarray) -> np.ndarray:
    """In fp32, exact. Refuses both NaN and minus zero."""
    magnitudes = codes & 0x7F
    packing.require((magnitudes <= LARGEST_CODE).all() and not (codes == 0x80).any(), "e4m3: 7f, ff or 80")
    return np.where(codes >= 0x80, -MAGNITUDES[magnitudes], MAGNITUDES[magnitudes]).astype(np.float32)
