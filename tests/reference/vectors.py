"""Test vectors as text: gradients by a formula, and the results of the reference.

A vector is a sequence of lines from `spec` to `end`, each a key and values, separated by single spaces; lines that
begin with # are comments. Integers are decimal, fp32 numbers are the 8 hexadecimal digits of their bits, payloads are
hexadecimal bytes (- if empty).
    spec TEXT              codec and options
    memory NAME BETA       none 0, or a memory with its decay; states begin as zeros
    workers N
    shape EXTENT ...       shape of the tensor, n elements
    seed S, step T         of the draws and of the gradient; first step
    steps COUNT            runs steps T to T + COUNT - 1; the lines below are for the last one
    offset D               the tensor's draw offset
    exponents E ...        of the workers' gradients
    cut FIRST COUNT        the encoded elements
    set WORKER I BITS      overrides gradient element I of the worker; may be repeated
    wire CODEC FORMAT      numbers of the wire format
    local K SCALER ...     local scalers of worker K; this line and the next three: one per worker
    scalers K SCALER ...   scalers sent with its codes
    payload K BYTES
    decoded K HASH X ...   fp32 values: hash of all, and the first 8
    lanes BYTES            if codes are summed: sum of all workers' lanes
    mean HASH X ...
    estimate HASH X ...    mean of the workers' estimates, the result of a step with the memory ef21
    state K HASH X ...     memory state after the commit, without an average of gradients
    end

HASH is the 64-bit FNV-1a (docs/wire-format.md) of the values, 4 bytes each, in 16 hexadecimal digits.

Element i of the gradient of worker k in step t: E is the worker's exponent, r is draw32 number i of {S, t, k, purpose
9}, m = floor(r / 256) - 2^23. The element, exact in fp32, is

    i mod 8   0, 1, 2, 3    m 2^(E - 23)                     uniform
              4             m 2^(E - 23 - r mod 32)          over 32 octaves
              5             floor(m / 2^19) 2^(E - 4)        levels and ties; sometimes -2^E, the largest
              6             0, negative if r is odd
              7             m 2^-149                         denormal
"""

import dataclasses
import math

import numpy as np

from . import codecs, packing, philox

NUM_SHOWN = 8
EXPONENTS = (0, -1, 1, 0, -2)  # per worker, added to the case's exponent


@dataclasses.dataclass(frozen=True)
class Case:
    """Parameters of a vector; the fields are the keys above."""

    spec: str
    workers: int = 2
    shape: tuple[int, ...] = (300,)
    seed: int = 1
    step: int = 0
    steps: int = 1
    offset: int = 0
    exponent: int = -3  # first worker's exponent; those of the others are near
    cut: tuple[int, int] | None = None
    memory: str | None = None  # None: the spec's memory
    beta: float = 1.0
    set: tuple[tuple[int, int, int], ...] = ()


def exponent_of(case: Case, worker: int) -> int:
    return case.exponent + EXPONENTS[worker]


def gradient_of(case: Case, step: int, worker: int) -> np.ndarray:
    """fp32, of the case's shape."""
    count = math.prod(case.shape)
    r = philox.draws32(philox.DrawKey(case.seed, step, worker, philox.SYNTHETIC_DATA), 0, count).astype(np.int64)
    m = r // 256 - 2**23
    e = exponent_of(case, worker)
    by_class = [np.ldexp(m.astype(np.float64), e - 23)] * 4 + [
        np.ldexp(m.astype(np.float64), e - 23 - r % 32), np.ldexp((m // 2**19).astype(np.float64), e - 4),
        np.where(r % 2 == 1, -0.0, 0.0), np.ldexp(m.astype(np.float64), -149)]
    values = np.choose(np.arange(count) % 8, by_class).astype(np.float32)
    for of_worker, index, bits in case.set:
        if of_worker == worker:
            values.view(np.uint32)[index] = bits
    return values.reshape(case.shape)


def fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def vector_lines(case: Case) -> list[str]:
    """Lines of the case's vector."""
    spec = codecs.parse(case.spec)
    spec.memory = case.memory or spec.memory
    codec = spec.codec
    whole = codecs.Cut.whole(case.shape)
    cut = codecs.Cut(*case.cut, whole.columns) if case.cut else whole
    parameters = {} if spec.memory == "none" else {"beta": case.beta}
    workers = codecs.Workers(spec, case.shape, case.workers, case.seed, case.offset, **parameters)
    for step in range(case.step, case.step + case.steps):
        result = workers.step([gradient_of(case, step, k) for k in range(case.workers)], step, cut)
    lines = [f"spec {case.spec}", f"memory {spec.memory} {case.beta if parameters else 0:g}", f"workers {case.workers}",
             f"shape {' '.join(map(str, case.shape))}", f"seed {case.seed}", f"step {case.step}", f"steps {case.steps}",
             f"offset {case.offset}", f"exponents {' '.join(str(exponent_of(case, k)) for k in range(case.workers))}",
             f"cut {cut.first} {cut.count}"]
    lines += [f"set {worker} {index} {bits:08x}" for worker, index, bits in case.set]
    lines += [f"wire {codec.wire_id} {codec.format_id()}"]
    lines += [f"local {k} {_digits(local)}" for k, local in enumerate(result.local)]
    lines += [f"scalers {k} {_digits(message.scalers)}" for k, message in enumerate(result.messages)]
    lines += [f"payload {k} {message.payload.hex() or '-'}" for k, message in enumerate(result.messages)]
    lines += [f"decoded {k} {_digest(decoded)}" for k, decoded in enumerate(result.decoded)]
    if codec.aggregation in ("shared", "vote"):
        numbers = sum(codec.lane_numbers(codec.unpack(message.payload, cut.count)) for message in result.messages)
        lines += [f"lanes {packing.pack_lanes(numbers, codec.lane_levels, case.workers).hex() or '-'}"]
    lines += [f"mean {_digest(result.mean)}"]
    if spec.memory == "ef21":
        lines += [f"estimate {_digest(workers.estimate)}"]
    if workers.memory:
        is_pair = hasattr(workers.memory, "begin")
        lines += [f"state {k} {_digest((state[0] if is_pair else state).reshape(-1))}" for k, state in enumerate(workers.states)]
    return [line.rstrip() for line in lines] + ["end"]


def _digits(values: np.ndarray) -> str:
    return " ".join(f"{bits:08x}" for bits in values.astype(np.float32).view(np.uint32).tolist())


def _digest(values: np.ndarray) -> str:
    if values.dtype != np.float32:
        raise TypeError(f"values are {values.dtype}, not fp32")
    return f"{fnv1a(values.astype('<f4').tobytes()):016x} {_digits(values[:NUM_SHOWN])}"
