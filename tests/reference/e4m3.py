"""E4M3 (Micikevicius et al. 2022): 4 exponent bits, 3 mantissa bits, no infinity, maximum 448.

Codes without sign are ordered as their values, so rounding searches a table of all magnitudes.
"""

import numpy as np

from . import packing, rounding

LARGEST_CODE = 0x7E  # 448; 0x7f is NaN
_EXPONENTS, _MANTISSAS = np.divmod(np.arange(LARGEST_CODE + 1), 8)
# Exponent 0 has no hidden bit: multiples of 2^-9.
MAGNITUDES = np.ldexp(np.where(_EXPONENTS == 0, _MANTISSAS, 8 + _MANTISSAS).astype(np.float64),
                      np.where(_EXPONENTS == 0, -9, _EXPONENTS - 10))


def neighbours(magnitudes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes at or below the magnitudes, the next codes, and the position between them: (x - low) / (high - low), exact
    in fp32.

    magnitudes: fp32; values above 448 count as 448, at position 0.
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
    """Sets the sign bits; zero has no sign."""
    return codes | np.where(negative & (codes != 0), 0x80, 0)


def values(codes: np.ndarray) -> np.ndarray:
    """Values of codes, exact in fp32. Refuses NaN and minus zero."""
    magnitudes = codes & 0x7F
    packing.require((magnitudes <= LARGEST_CODE).all() and not (codes == 0x80).any(), "e4m3: 7f, ff or 80")
    return np.where(codes >= 0x80, -MAGNITUDES[magnitudes], MAGNITUDES[magnitudes]).astype(np.float32)
