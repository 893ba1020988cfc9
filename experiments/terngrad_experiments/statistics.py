"""Statistics of accuracies of a few seeds: intervals, differences, equivalence, tests on the same images.

Values have any one unit, usually percent; intervals, differences and deviations have the same. Probabilities, levels and the
accuracy of accuracy_deviation() are fractions. Formulas are standard ones, named at each function; distributions are scipy's.

Intervals and p are None if nothing can be estimated: fewer than MIN_VALUES values, or values that are all equal, unless a
deviation pooled over cells (pooling.py) replaces their own. Accuracies are multiples of one image: three may be equal by chance,
which does not mean that the deviation is 0.
"""

import dataclasses
import functools
import math

MIN_VALUES = 3
# Minimum with a deviation pooled over cells.
MIN_POOLED_VALUES = 2
# A relative standard deviation below this is rounding: one image of 50,000 is 2e-5 of an accuracy.
ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Interval:
    low: float
    high: float

    @property
    def half_width(self):
        return (self.high - self.low) / 2

    def contains(self, value):
        return self.low <= value <= self.high


@dataclasses.dataclass(frozen=True)
class Deviation:
    """An estimated standard deviation, and the number of cells it is pooled from."""

    value: float
    degrees_of_freedom: float
    num_cells: int = 1


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparison with a baseline: difference is values minus baseline, p is two-sided for a difference of 0.
    
    counts has the number of pairs, or of both samples. Fields other than counts and difference are None without an estimate.
    """

    counts: tuple
    difference: float
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    interval: Interval | None = None
    p: float | None = None


@dataclasses.dataclass(frozen=True)
class Equivalence:
    """equivalent: shown to be within the margin. Also False without enough data; interval and p are None then."""

    margin: float
    equivalent: bool
    interval: Interval | None = None
    p: float | None = None


@dataclasses.dataclass(frozen=True)
class SignTest:
    num_positive: int
    num_negative: int
    p: float


@dataclasses.dataclass(frozen=True)
class McNemar:
    """Numbers of images that only the first, and only the second, classifies correctly."""

    only_first: int
    only_second: int
    p: float


def t_p_value(t, degrees_of_freedom):
    """P(|T| >= |t|) of Student's t; degrees of freedom may be a fraction."""
    _check_freedom(degrees_of_freedom)
    if math.isnan(t):
        raise ValueError("t must be a number, not nan")
    return float(2 * distributions().t.sf(abs(t), degrees_of_freedom))


def t_cdf(t, degrees_of_freedom):
    """P(T <= t) of Student's t."""
    _check_freedom(degrees_of_freedom)
    if math.isnan(t):
        raise ValueError("t must be a number, not nan")
    return float(distributions().t.cdf(t, degrees_of_freedom))


@functools.lru_cache(maxsize=None)
def t_quantile(p, degrees_of_freedom):
    """The t with t_cdf(t, degrees_of_freedom) = p, 0 < p < 1."""
    _check_freedom(degrees_of_freedom)
    if not 0 < p < 1:
        raise ValueError(f"p of a quantile must be between 0 and 1, not {p}")
    return float(distributions().t.ppf(p, degrees_of_freedom))


def chi_square_p_value(statistic, degrees_of_freedom):
    """P(X >= statistic) of the chi-square distribution."""
    _check_freedom(degrees_of_freedom)
    if math.isnan(statistic):
        raise ValueError("a chi-square statistic must be a number, not nan")
    return float(distributions().chi2.sf(statistic, degrees_of_freedom))


def distributions():
    """scipy.stats, whose import takes a second. @throws ImportError without scipy"""
    import scipy.stats
    return scipy.stats


def _check_freedom(degrees_of_freedom):
    if not degrees_of_freedom > 0:
        raise ValueError(f"degrees of freedom must be positive, not {degrees_of_freedom}")


def mean(values):
    """The arithmetic mean of at least one finite value."""
    if not values:
        raise ValueError("mean of no values; at least 1 is needed")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"values must be finite, not {value}")
    return math.fsum(values) / len(values)


def sample_deviation(values):
    """sqrt(sum of (value - mean)^2 / (n - 1)); None for one value."""
    middle = mean(values)
    if len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def estimate_deviation(values):
    """Sample deviation as a Deviation; None with fewer than MIN_VALUES values or if they are equal up to rounding."""
    if len(values) < MIN_VALUES:
        return None
    deviation = sample_deviation(values)
    return Deviation(deviation, len(values) - 1) if deviation > ROUNDING * max(map(abs, values)) else None


def mean_interval(values, level=0.95, deviation=None):
    """Confidence interval of the mean, mean +- t s / sqrt(n). deviation: a pooled one instead of the values' own, for at least
    MIN_POOLED_VALUES values."""
    return _interval_of(values, level, deviation, 0)


def prediction_interval(values, level=0.95, deviation=None):
    """Prediction interval of a further run, mean +- t s sqrt(1 + 1 / n); deviation as for mean_interval()."""
    return _interval_of(values, level, deviation, 1)


def _interval_of(values, level, deviation, num_runs):
    _check_level(level)
    if len(values) < (MIN_POOLED_VALUES if deviation else MIN_VALUES):
        return None
    deviation = deviation or estimate_deviation(values)
    if deviation is None:
        return None
    error = deviation.value * math.sqrt(num_runs + 1 / len(values))
    return _t_interval(mean(values), error, deviation.degrees_of_freedom, level)


def _t_interval(middle, standard_error, degrees_of_freedom, level):
    half = t_quantile((1 + level) / 2, degrees_of_freedom) * standard_error
    return Interval(middle - half, middle + half)


def _check_level(level):
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, not {level}")


def _compared(counts, difference, standard_error, degrees_of_freedom, level):
    interval = _t_interval(difference, standard_error, degrees_of_freedom, level)
    p = t_p_value(difference / standard_error, degrees_of_freedom)
    return Comparison(counts, difference, standard_error, degrees_of_freedom, interval, p)


def compare_unpaired(values, baseline, level=0.95, deviation=None):
    """Welch's test of two independent samples, with the Welch-Satterthwaite degrees of freedom.

    With a pooled deviation s the standard error is s sqrt(1 / n + 1 / m), its degrees of freedom are those of the pool.
    """
    _check_level(level)
    counts, difference = (len(values), len(baseline)), mean(values) - mean(baseline)
    if min(counts) < MIN_VALUES:
        return Comparison(counts, difference)
    if deviation:
        error = deviation.value * math.sqrt(1 / counts[0] + 1 / counts[1])
        return _compared(counts, difference, error, deviation.degrees_of_freedom, level)
    own = [estimate_deviation(values), estimate_deviation(baseline)]
    parts = [(one.value**2 / (one.degrees_of_freedom + 1), one.degrees_of_freedom) for one in own if one]
    if not parts:
        return Comparison(counts, difference)
    variance = sum(part for part, _ in parts)
    freedom = 1 / sum((part / variance) ** 2 / freedom for part, freedom in parts)
    return _compared(counts, difference, math.sqrt(variance), freedom, level)


def paired_differences(values, baseline):
    """[value - baseline] for pairs of one seed, in the given order."""
    if len(values) != len(baseline):
        raise ValueError(f"pairs need equally many values and baselines, not {len(values)} and {len(baseline)}")
    return [value - other for value, other in zip(values, baseline)]


def compare_paired(values, baseline, level=0.95, deviation=None):
    """Paired t test: values[k] and baseline[k] have the same seed.
    
    deviation: optionally pooled over the differences of several cells.
    """
    _check_level(level)
    differences = paired_differences(values, baseline)
    counts, difference = (len(differences),), mean(differences)
    if len(differences) < MIN_VALUES:
        return Comparison(counts, difference)
    deviation = deviation or estimate_deviation(differences)
    if deviation is None:
        return Comparison(counts, difference)
    error = deviation.value / math.sqrt(len(differences))
    return _compared(counts, difference, error, deviation.degrees_of_freedom, level)


def equivalence(comparison, margin, alpha=0.05):
    """Two one-sided t tests (Schuirmann 1987) of a difference within +-margin.
    
    Equivalent only if the 1 - 2 alpha interval, 90 % by default, is inside; p is the larger of both.
    """
    if not (math.isfinite(margin) and margin > 0):
        raise ValueError(f"margin of equivalence must be positive, not {margin}")
    _check_level(1 - 2 * alpha)
    if comparison.standard_error is None:
        return Equivalence(margin, False)
    difference, error, freedom = comparison.difference, comparison.standard_error, comparison.degrees_of_freedom
    interval = _t_interval(difference, error, freedom, 1 - 2 * alpha)
    p = t_cdf((abs(difference) - margin) / error, freedom)
    return Equivalence(margin, -margin < interval.low and interval.high < margin, interval, p)


def holm(p_values):
    """Holm's step-down corrected p (1979), in the given order: max over smaller ones of (m - rank + 1) p, at most 1.

    None stands for a p that is not known yet. It stays None and counts in m, so the others are upper bounds of their final
    values: a comparison does not become more significant because other cells were not run.
    """
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"p must be from 0 to 1, not {p}")
    corrected, largest = [None] * len(p_values), 0.0
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        corrected[i] = largest
    return corrected


def _fair_coin_p(first, second):
    """Two-sided exact p for these numbers of heads and tails of a fair coin, min(1, 2 P(X <= min)), by sums of integers."""
    for count in (first, second):
        if count < 0 or count != int(count):
            raise ValueError(f"a count must be an integer from 0, not {count}")
    small, num = min(int(first), int(second)), int(first) + int(second)
    ways = total = 1
    for k in range(small):
        ways = ways * (num - k) // (k + 1)
        total += ways
    return min(1.0, 2 * total / 2**num)


def sign_test(differences):
    """The exact two-sided sign test; differences of 0 are ignored."""
    for difference in differences:
        if math.isnan(difference):
            raise ValueError("differences of a sign test must be numbers, not nan")
    positive, negative = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    return SignTest(positive, negative, _fair_coin_p(positive, negative))


def mcnemar(only_first, only_second):
    """McNemar's exact test for the discordant counts: images that only one of two classifies correctly."""
    return McNemar(only_first, only_second, _fair_coin_p(only_first, only_second))


def mcnemar_of_predictions(first, second, labels=None):
    """McNemar's exact test of two runs on the same images in the same order.

    first and second are predicted classes, labels the true ones; without labels first and second are 1 for correct, 0 for wrong.
    """
    lengths = [len(first), len(second)] + ([] if labels is None else [len(labels)])
    if len(set(lengths)) != 1:
        raise ValueError(f"predictions of the same images must be equally many, not {' and '.join(map(str, lengths))}")
    if labels is None:
        for value in (*first, *second):
            if value not in (0, 1):
                raise ValueError(f"predictions without labels must be 0 or 1 (correct), not {value}")
        labels = [1] * len(first)
    right = [(one == label, other == label) for one, other, label in zip(first, second, labels)]
    return mcnemar(sum(bool(one and not other) for one, other in right), sum(bool(other and not one) for one, other in right))


def accuracy_deviation(accuracy, num_examples):
    """Standard deviation of an accuracy due to sampling of the test set, sqrt(a (1 - a) / n); both are fractions."""
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy must be a fraction from 0 to 1, not {accuracy}")
    _check_num_examples(num_examples)
    return math.sqrt(accuracy * (1 - accuracy) / num_examples)


def discordant_deviation(num_discordant, num_examples):
    """Standard deviation of the difference of two equal accuracies on the same images, sqrt(discordant) / n, a fraction."""
    _check_num_examples(num_examples)
    if not 0 <= num_discordant <= num_examples:
        raise ValueError(f"number of discordant images must be from 0 to {num_examples}, not {num_discordant}")
    return math.sqrt(num_discordant) / num_examples


def _check_num_examples(num_examples):
    if not num_examples > 0:
        raise ValueError(f"number of examples must be positive, not {num_examples}")
