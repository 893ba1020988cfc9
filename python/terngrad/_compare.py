"""Comparison of codecs on one gradient."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable

import numpy

from terngrad import _arguments, _core
from terngrad._arguments import Array
from terngrad._codecs import Codec, Floats
from terngrad._messages import Message


@dataclasses.dataclass(frozen=True)
class Row:
    """Measurements of a codec on a gradient g, with decoded messages d; means are over all draws."""

    codec: str                #: spec as passed to `compare`
    bits_per_element: float   #: whole messages, with header, scalers and checksums
    snr_db: float             #: 10 log10(|g|^2 / mean of |d - g|^2); infinity if lossless
    cosine: float             #: mean of g . d / (|g| |d|); NaN if g or any d is zero
    zero_fraction: float      #: mean fraction of zeros in d
    bias: float               #: |mean of d - g| / |g|
    bias_if_unbiased: float   #: expected `bias` of an unbiased codec for this number of draws: |d - g| / |g| / sqrt(draws)
    mean_snr_db: float        #: SNR of the mean over num_workers workers that all have g, for one step
    encode_seconds: float     #: minimum over draws, one thread
    decode_seconds: float


class Comparison(list[Row]):
    """List with a `Row` for each codec; `str` formats it as a table."""

    def __str__(self) -> str:
        cells = [("codec", "bits", "SNR dB", "cosine", "zeros", "bias", "if unbiased", "SNR of mean", "encode ms", "decode ms")]
        cells += [(row.codec, f"{row.bits_per_element:.3g}", f"{row.snr_db:.2f}", f"{row.cosine:.4f}",
                   f"{row.zero_fraction:.3f}", f"{row.bias:.3g}", f"{row.bias_if_unbiased:.3g}", f"{row.mean_snr_db:.2f}",
                   f"{1e3 * row.encode_seconds:.3g}", f"{1e3 * row.decode_seconds:.3g}") for row in self]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        return "\n".join("  ".join(cell.rjust(width) if column else cell.ljust(width)
                                   for column, (cell, width) in enumerate(zip(row, widths))) for row in cells)


def compare(tensor: Array, codecs: Iterable[str] = ("ternary", "ternary:clip_factor=2.5", "qsgd:bits=4", "sign", "bf16"), *,
            num_workers: int = 8, draws: int = 16, seed: int = 1) -> Comparison:
    """Compares codecs on a gradient: bits, signal-to-noise ratio, bias, time. Deterministic except for times.

    >>> import numpy, terngrad
    >>> gradient = numpy.random.default_rng(1).standard_normal(10_000).astype(numpy.float32)
    >>> rows = terngrad.compare(gradient, ["ternary:clip_factor=2.5", "bf16"], draws=4)
    >>> [(row.codec, round(row.bits_per_element, 1)) for row in rows]
    [('ternary:clip_factor=2.5', 2.1), ('bf16', 16.1)]

    @param tensor       the gradient of one tensor
    @param codecs       names, presets (their memory is ignored) or specs
    @param num_workers  number of workers that codecs are configured for, and in `mean_snr_db`
    @param draws        number of messages per codec, each with another step
    @raises NonFiniteError for a gradient that holds NaN or infinity
    """
    num_workers = _arguments.integer("num_workers", num_workers, 1, 2**16)
    draws = _arguments.integer("draws", draws, 1, 2**20)
    if hasattr(tensor, "keys"):
        raise _core.InvalidArgument("compare takes one tensor, got several by name")
    # An fp32 round trip widens float16 and bfloat16 as the library does.
    gradient: Floats = Codec("fp32").decode(Codec("fp32").encode(tensor))
    return Comparison(_row(gradient, spec, num_workers, draws, seed) for spec in _arguments.items("codecs", codecs))


def _row(gradient: Floats, spec: str, num_workers: int, draws: int, seed: int) -> Row:
    codec = Codec(spec, num_workers=num_workers)

    def scalers_of(step: int) -> list[float]:
        """Scalers of every worker, as all have the same gradient. With rotation they depend on the step."""
        return codec.measure(gradient, seed=seed, step=step) if codec.shares_scalers else []

    def send(step: int, worker: int, scalers: list[float]) -> Message:
        others = {other: scalers for other in range(num_workers) if other != worker}
        return codec.encode(gradient, seed=seed, step=step, worker=worker, scalers=others if codec.shares_scalers else None)

    g = gradient.astype(numpy.float64).ravel()
    power = float(g @ g)
    total = numpy.zeros_like(g)
    noise = 0.0
    cosines, zeros, bits = [], 0.0, 0.0
    encode_seconds = decode_seconds = math.inf
    for step in range(draws):
        scalers = scalers_of(step)
        begin = time.perf_counter()
        message = send(step, 0, scalers)
        encoded = time.perf_counter()
        sent = codec.decode(message)
        decode_seconds = min(decode_seconds, time.perf_counter() - encoded)
        encode_seconds = min(encode_seconds, encoded - begin)
        d = sent.astype(numpy.float64).ravel()
        total += d
        noise += float((d - g) @ (d - g)) / draws
        size = math.sqrt(float(d @ d) * power)
        cosines.append(float(g @ d) / size if size > 0 else math.nan)
        zeros += float(numpy.mean(d == 0)) / draws if d.size else 0.0
        bits += 8 * message.nbytes / max(d.size, 1) / draws
    error = total / draws - g
    mean = codec.aggregate([send(0, worker, scalers_of(0)) for worker in range(num_workers)]).astype(numpy.float64).ravel()
    return Row(codec=spec, bits_per_element=bits, snr_db=_decibels(power, noise), cosine=float(numpy.mean(cosines)),
               zero_fraction=zeros, bias=_ratio(float(error @ error), power), bias_if_unbiased=_ratio(noise / draws, power),
               mean_snr_db=_decibels(power, float((mean - g) @ (mean - g))), encode_seconds=encode_seconds,
               decode_seconds=decode_seconds)


def _ratio(square: float, power: float) -> float:
    return math.sqrt(square / power) if power > 0 else math.nan


def _decibels(power: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power > 0 else -math.inf
