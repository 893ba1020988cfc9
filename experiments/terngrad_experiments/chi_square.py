"""The chi-square distribution, through the incomplete gamma function, so that no library is needed."""

import math

MAX_TERMS = 100_000


def incomplete_gamma(a, x):
    """The regularized upper incomplete gamma function Q(a, x), for a > 0 and x >= 0 (DLMF 8.2.4), to about 1e-13 for a up to 100.

    @throws ValueError outside"""
    if not (a > 0 and x >= 0 and math.isfinite(a)):
        raise ValueError(f"incomplete_gamma({a}, {x}): a must be positive and finite, x at least 0")
    if x == 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    # The series converges fast below a, the continued fraction above.
    return 1 - front * _lower_series(a, x) if x < a + 1 else front * _upper_fraction(a, x)


def _lower_series(a, x):
    """P(a, x) without its factor: the sum of x^n / (a (a + 1) ... (a + n)), DLMF 8.11.4."""
    term = total = 1 / a
    for n in range(1, MAX_TERMS):
        term *= x / (a + n)
        total += term
        if term < total * 1e-16:
            return total
    raise ArithmeticError(f"incomplete_gamma({a}, {x}): no convergence in {MAX_TERMS} terms")


def _upper_fraction(a, x):
    """Q(a, x) without its factor: 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), DLMF 8.9.2, by the modified Lentz method."""
    tiny = 1e-300
    b = x + 1 - a
    ratio, inverse = 1 / tiny, 1 / (b or tiny)
    value = inverse
    for n in range(1, MAX_TERMS):
        term = -n * (n - a)
        b += 2
        inverse = 1 / ((term * inverse + b) or tiny)
        ratio = (b + term / ratio) or tiny
        value *= ratio * inverse
        if abs(ratio * inverse - 1) < 1e-15:
            return value
    raise ArithmeticError(f"incomplete_gamma({a}, {x}): no convergence in {MAX_TERMS} terms")


def chi_square_p_value(statistic, degrees_of_freedom):
    """P(X >= statistic) of the chi-square distribution (Abramowitz and Stegun 26.4.19)."""
    if not degrees_of_freedom > 0:
        raise ValueError(f"degrees of freedom must be positive, not {degrees_of_freedom}")
    if math.isnan(statistic):
        raise ValueError("a chi-square statistic must be a number, not nan")
    return incomplete_gamma(degrees_of_freedom / 2, max(statistic, 0.0) / 2)
