"""Axes of plots: ranges, ticks at round values, their labels, and the mapping of values to pixels."""

import math
from dataclasses import dataclass

# Pixels beyond which a position is cut off: coordinates of renderers are 32 bit floats.
FAR = 20000
# Values from here on count as not finite, for padded ranges of them would overflow.
HUGE = 1e250


@dataclass
class Axis:
    """Maps values from low to high to pixels from start to end; ticks are values, labels their texts."""
    low: float
    high: float
    log: bool
    ticks: list
    labels: list
    start: float = 0.0
    end: float = 1.0

    def __call__(self, value):
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return min(max(self.start + (value - low) / (high - low) * (self.end - self.start), -FAR), FAR)

    def has(self, value):
        return self.low <= value <= self.high


# Maps pixels to themselves.
PIXELS = Axis(-FAR, FAR, False, [], [], -FAR, FAR)


def nice_ticks(low, high, most=6):
    """At most `most` multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    exponent = math.floor(math.log10((high - low) / most))
    for step in (float(f"{factor}e{exponent}") for factor in (1, 2, 5, 10, 20, 50)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [float(f"{n * step:.12g}") for n in range(first, last + 1)]
    return [low, high]


def log_ticks(low, high, most=6):
    """Powers of ten within [low, high], every k-th if there are many; 1, 2, 5 between them where those are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    within = [value for k in range(first, last + 1) for value in (float(f"{f}e{k}") for f in (1, 2, 5))
              if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    decades = [float(f"1e{k}") for k in range(first, last + 1) if float(f"1e{k}") in within]
    if len(within) < 3:
        return nice_ticks(low, high, most)
    return within if len(within) <= most or len(decades) < 2 else decades[::math.ceil(len(decades) / most)]


def plain(value):
    """A value in up to 10 digits, in thousands or, if very large or small, as 1.5e-5."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return f"{value + 0.0:,.10g}"
    mantissa, exponent = f"{value:.6e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def tick_labels(ticks, even=True):
    """Labels of ticks; of evenly spaced ones all with the decimals that the step needs."""
    if even and len(ticks) > 1 and max(abs(ticks[0]), abs(ticks[-1])) < 1e7:
        decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
        if decimals <= 4:
            return [f"{tick + 0.0:,.{decimals}f}" for tick in ticks]
    return [plain(tick) for tick in ticks]


def _padded(values, log):
    """Range of an axis: all values and 4 % on each side; around a single value a range in proportion to it."""
    if not values:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = (math.log10(v) if log else v for v in (min(values), max(values)))
    single = high - low <= max(1e-9 * max(abs(low), abs(high)), 1 / HUGE)
    pad = (0.3 if log else 0.05 * abs(low) or 0.5) if single else 0.04 * (high - low)
    return (10 ** (low - pad), 10 ** (high + pad)) if log else (low - pad, high + pad)


def axis_of(values, log, most, given=None, ticks=None):
    """Axis of the given range or over values, of none over the ticks, with about `most` ticks, at least 3, or those given."""
    low, high = given or _padded(list(values) + list(ticks or ()) * (not values), log)
    if ticks is not None:
        ticks = [tick for tick in sorted(ticks) if low <= tick <= high]
        return Axis(low, high, log, ticks, tick_labels(ticks, even=False))
    ticks = (log_ticks if log else nice_ticks)(low, high, max(3, int(most)))
    return Axis(low, high, log, ticks, tick_labels(ticks, even=not log))
