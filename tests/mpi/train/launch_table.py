"""Launches of several processes that must end with the bits of one process, as combinations of option values.

AXES lists the options that vary and their values, ROWS the launched combinations, and reason_against() explains the
combinations that terngrad_train refuses. Every possible pair of values is in at least one row
(tests/mpi/train/coverage_test.py), and the rows marked `fast` have every value at least once. Combinations of three and
more values are left to the tests of the libraries. `-` means that the axis does not apply to a row.

A row is a run with `processes` processes, on emulated GPUs for `device` cuda. It is compared with a run of one process
that differs only in the axes processes, serving and overlap."""

import itertools

AXES = {
    "device": ["cpu", "cuda"],
    "net": ["lenet", "alexnet"],
    "codec": ["fp32", "bf16", "t2", "t5", "tmask"],  # ternary codecs: the format
    "sharing": ["max", "mean", "none", "-"],
    "scope": ["layer", "block", "model", "-"],
    "exchange": ["all_gather", "scatter_reduce", "integer_sum", "servers", "parameters"],  # the last two: --strategy ps
    "return": ["fp32", "bf16", "sums", "ternary"],
    "processes": ["2", "3", "4"],
    "serving": ["beside", "apart", "-"],  # servers beside the workers of the first process, or in half of the processes
    "workers": ["3", "8"],
    "examples": ["1", "2"],  # per worker and step
    "overlap": ["auto", "on", "off"],
    "buckets": ["default", "small", "each"],  # each: one per tensor
    "transform": ["none", "decay"],
    "floating": ["0", "2"],
    "memory": ["none", "ef", "momentum"],
    "begin": ["new", "resumed"],  # resumed: from a checkpoint of the run with one process
    "isa": ["best", "AVX2"],
    "optimizer": ["momentum", "adam"],
}

ROWS_TEXT = """
tier device net     codec sharing scope exchange       return  processes serving workers examples overlap buckets transform floating memory   begin   isa  optimizer
fast cpu    alexnet t5    max     block parameters     bf16    2         beside  3       2        off     default decay     0        ef       new     AVX2 momentum
fast cpu    alexnet tmask none    layer all_gather     fp32    3         -       3       2        auto    small   decay     0        none     new     AVX2 momentum
fast cpu    alexnet fp32  -       -     servers        bf16    3         apart   3       2        on      small   decay     0        none     new     AVX2 adam
fast cpu    lenet   tmask none    model servers        fp32    3         apart   8       1        auto    default none      2        momentum resumed best adam
fast cpu    lenet   t2    mean    layer scatter_reduce sums    2         -       3       2        on      each    none      2        ef       resumed AVX2 adam
fast cpu    lenet   tmask max     block scatter_reduce sums    4         -       8       2        auto    small   decay     2        momentum resumed best momentum
fast cpu    lenet   t2    none    model parameters     bf16    2         beside  8       2        auto    default none      0        momentum resumed best adam
fast cpu    lenet   t2    mean    block servers        ternary 3         apart   8       1        off     small   none      0        ef       new     best momentum
fast cpu    lenet   bf16  -       -     all_gather     bf16    3         -       8       1        on      each    none      0        momentum resumed best momentum
fast cuda   lenet   t2    mean    layer servers        ternary 4         beside  8       1        on      small   decay     0        none     new     best momentum
fast cuda   lenet   t5    max     block all_gather     bf16    4         -       8       1        off     each    none      2        ef       resumed best adam
fast cuda   lenet   t2    max     model integer_sum    sums    3         -       3       1        off     default decay     2        none     resumed best momentum
full cpu    alexnet t2    mean    model integer_sum    ternary 4         -       8       2        auto    default none      0        momentum new     AVX2 adam
full cpu    alexnet tmask max     block servers        sums    2         apart   3       1        auto    each    decay     0        ef       resumed best momentum
full cpu    alexnet bf16  -       -     scatter_reduce fp32    4         -       8       1        off     each    decay     0        momentum new     AVX2 momentum
full cpu    lenet   t2    max     block integer_sum    fp32    2         -       3       2        on      small   none      0        momentum resumed best momentum
full cpu    lenet   t5    none    model scatter_reduce bf16    2         -       8       2        auto    default none      2        ef       resumed best adam
full cpu    lenet   t5    max     layer servers        sums    3         beside  8       2        off     each    none      2        none     new     best momentum
full cpu    lenet   tmask mean    layer servers        ternary 2         apart   8       1        on      each    none      0        momentum resumed best adam
full cpu    lenet   bf16  -       -     servers        bf16    3         apart   3       2        on      small   decay     0        ef       new     best adam
full cpu    lenet   t2    none    block all_gather     bf16    2         -       3       1        on      each    none      0        none     resumed best adam
full cpu    lenet   tmask mean    model parameters     bf16    3         beside  3       1        auto    default decay     2        none     resumed best adam
full cpu    lenet   t5    mean    block all_gather     fp32    3         -       3       1        on      each    none      0        ef       new     best momentum
full cpu    lenet   fp32  -       -     scatter_reduce bf16    4         -       8       1        off     each    none      0        none     resumed best momentum
full cpu    lenet   t5    max     model all_gather     ternary 3         -       3       1        off     default none      0        ef       new     best adam
full cpu    lenet   fp32  -       -     parameters     fp32    3         beside  8       2        auto    default decay     0        none     new     best adam
full cpu    lenet   t2    max     layer integer_sum    bf16    2         -       8       2        off     each    decay     0        ef       resumed best adam
full cpu    lenet   t5    none    block parameters     fp32    2         apart   3       1        auto    default none      2        none     new     best momentum
full cuda   lenet   bf16  -       -     parameters     fp32    2         beside  8       2        auto    default none      2        none     resumed best adam
full cuda   lenet   t5    mean    block scatter_reduce ternary 3         -       3       1        off     small   none      2        momentum new     best momentum
full cuda   lenet   tmask none    layer parameters     bf16    4         apart   3       1        off     default decay     0        none     new     best adam
full cuda   lenet   fp32  -       -     all_gather     fp32    2         -       8       1        on      default none      0        none     resumed best momentum
"""


def parse_rows(text):
    """[(True if in the fast tier, {axis: value})]"""
    header, *lines = (line.split() for line in text.strip().splitlines())
    return [(words[0] == "fast", dict(zip(header[1:], words[1:], strict=True))) for words in lines]


ROWS = parse_rows(ROWS_TEXT)


def is_ternary(row):
    return row["codec"] not in ("fp32", "bf16")


def num_serving(row):
    """Number of processes that only serve."""
    return int(row["processes"]) // 2 if row["serving"] == "apart" else 0


# Impossible combinations: (axes, condition, reason).
CONSTRAINTS = [
    (("codec", "sharing"), lambda r: is_ternary(r) == (r["sharing"] == "-"), "scalers are of the codec ternary"),
    (("codec", "scope"), lambda r: is_ternary(r) == (r["scope"] == "-"), "scalers are of the codec ternary"),
    (("sharing", "scope"), lambda r: (r["sharing"] == "-") != (r["scope"] == "-"), "both are of scalers"),
    (("exchange", "codec"), lambda r: r["exchange"] == "integer_sum" and r["codec"] != "t2", "sums travel in lanes"),
    (("exchange", "sharing"), lambda r: r["exchange"] == "integer_sum" and r["sharing"] in ("none", "-"),
     "codes add up where scalers are shared"),
    (("exchange", "scope"), lambda r: r["exchange"] == "integer_sum" and r["scope"] == "-", "there are no codes"),
    (("return", "codec"), lambda r: r["return"] in ("sums", "ternary") and not is_ternary(r), "there are no codes"),
    (("return", "scope"), lambda r: r["return"] in ("sums", "ternary") and r["scope"] == "-", "there are no codes"),
    (("return", "sharing"), lambda r: r["return"] in ("sums", "ternary") and r["sharing"] in ("none", "-"),
     "codes add up where scalers are shared"),
    (("return", "exchange"), lambda r: r["return"] in ("sums", "ternary") and r["exchange"] == "parameters",
     "parameters are not codes"),
    (("return", "exchange"), lambda r: r["return"] == "sums" and r["exchange"] == "all_gather", "no mean travels back"),
    (("exchange", "serving"), lambda r: (r["exchange"] in ("servers", "parameters")) == (r["serving"] == "-"),
     "servers serve"),
    (("processes", "serving", "workers"), lambda r: int(r["processes"]) - num_serving(r) > int(r["workers"]),
     "each process that trains needs a worker"),
    (("scope", "buckets"), lambda r: r["scope"] == "model" and r["buckets"] != "default", "a scaler takes all tensors"),
    (("scope", "overlap"), lambda r: r["scope"] == "model" and r["overlap"] == "on", "a scaler takes all tensors"),
    (("exchange", "buckets"), lambda r: r["exchange"] == "parameters" and r["buckets"] != "default",
     "an update cannot be taken back"),
    (("exchange", "overlap"), lambda r: r["exchange"] == "parameters" and r["overlap"] == "on",
     "an update cannot be taken back"),
    (("device", "serving", "overlap"),
     lambda r: r["device"] == "cuda" and r["serving"] == "apart" and r["overlap"] == "on", "the CPU exchanges"),
    (("device", "codec", "overlap"), lambda r: r["device"] == "cuda" and r["codec"] == "tmask" and r["overlap"] == "on",
     "the host waits for sizes"),
    (("device", "isa"), lambda r: r["device"] == "cuda" and r["isa"] != "best", "oneDNN computes on CPUs"),
    (("device", "net"), lambda r: r["device"] == "cuda" and r["net"] == "alexnet", "emulated it takes minutes"),
    (("net", "floating"), lambda r: r["net"] == "alexnet" and r["floating"] != "0", "its epochs are too long for a test"),
    (("codec", "memory"), lambda r: r["codec"] == "fp32" and r["memory"] != "none", "fp32 loses nothing to keep"),
    (("codec", "floating"), lambda r: r["codec"] == "fp32" and r["floating"] != "0", "fp32 is what others pause to"),
]


def reason_against(row):
    """Reason why a row, or a part of one, is refused or takes too long; None: it is accepted."""
    for axes, holds, reason in CONSTRAINTS:
        if all(axis in row for axis in axes) and holds(row):
            return f"{', '.join(f'{axis} {row[axis]}' for axis in axes)}: {reason}"
    return None


def can_be_completed(part):
    """True if some legal row contains this part."""
    if reason_against(part):
        return False
    missing = next((axis for axis in AXES if axis not in part), None)
    return missing is None or any(can_be_completed({**part, missing: value}) for value in AXES[missing])


def pairs_of(row):
    """Pairs of (axis, value) in a row."""
    return set(itertools.combinations(sorted((axis, value) for axis, value in row.items() if value != "-"), 2))


def legal_pairs():
    """Pairs of values of two axes that some legal row contains."""
    pairs = set()
    for first, second in itertools.combinations(AXES, 2):
        for values in itertools.product(AXES[first], AXES[second]):
            part = {first: values[0], second: values[1]}
            if can_be_completed(part):
                pairs |= pairs_of(part)
    return pairs
