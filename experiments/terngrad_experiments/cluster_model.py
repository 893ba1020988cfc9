"""Predicts training steps on a cluster described by a file. For N workers with a GPU each a step takes

    T = S C + E + X + D + U      S = 1 + v e(N)

    C computing, E encoding, D decoding, U updating, X the exchange as far as the backward pass does not hide it, S the wait for the
    slowest worker: v is the deviation of a worker's C over its mean, e(N) the expected maximum of N standard normal numbers

An exchange between m participants over links of latency a and bandwidth B, of messages of `up` and `down` bytes, takes

    ring               2 (m - 1) a + (m - 1) / m (up + down) / B
    halving_doubling   2 log2(m) a + (m - 1) / m (up + down) / B
    tree               2 log2(m) a + (up + down) / B
    all_gather         (m - 1) (a + up / B)                        no downlink
    servers            2 a + max(m / servers, 1) (up + down) / B

Floats and integer lanes are summed in transit: by ring, halving-doubling or tree (Thakur et al., 2005), either flat (rings and trees
cross a machine's link once; with halving-doubling its workers share the link) or within each machine first (two_levels). Ternary
codes cannot be summed: the processes, one per machine, send the messages of all their g workers by all-gather, or to servers, one
per machine, which send one mean back. Traffic between GPUs and network also takes 2 a + bytes / B of the host link.
`bisection_factor` is the fraction of B available to halving-doubling, all-gather and servers, whose messages cross the bisection of
the network. Ternary codecs first share scalers: a tree of 4 bytes per tensor. Buckets are exchanged sequentially during the backward
pass. Other congestion is not modelled.
"""

import dataclasses
import functools
import json
import math
import pathlib
import re
import textwrap

from terngrad_experiments import recipe_fields as fields
from terngrad_experiments.recipe_fields import Fields, RecipeError

SOURCES = ("measured", "given", "assumed")
TRUSTED_FACTOR = 4  # results beyond this factor times the measured workers count as extrapolated
MAX_WORKERS = 100_000
BITS = {"fp32": 32, "bf16": 16, "t2": 2, "t5": 1.6, "tmask": None, "trans": None, "lanes": None}
NONZERO_FRACTION = 0.318  # nonzero codes of a Gaussian gradient clipped at 2.5 standard deviations
TRANS_OVERHEAD_BITS = 0.03
IN_TRANSIT = ("ring", "halving_doubling", "tree")


@dataclasses.dataclass(frozen=True)
class Link:
    latency: float = 0.0  # seconds
    bytes_per_second: float = math.inf
    source: str = "assumed"

    def seconds(self, messages, size):
        return messages * self.latency + size / self.bytes_per_second


@dataclasses.dataclass(frozen=True)
class Work:
    """Seconds as a linear function of the amount of work."""

    fixed: float
    per_unit: float
    source: str

    def seconds(self, units):
        return max(0.0, self.fixed + self.per_unit * units)


@dataclasses.dataclass(frozen=True)
class Number:
    value: float
    source: str = "assumed"


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Tensors that are exchanged together."""

    elements: int
    plain_elements: int    # elements in tensors that a ternary codec sends as fp32
    tensors: int           # number of tensors with a scaler
    ready_fraction: float  # fraction of the backward pass after which it is ready


@dataclasses.dataclass(frozen=True)
class Net:
    name: str
    examples: float  # per worker
    compute: Work    # as a function of examples
    update: Work     # as a function of elements
    backward: Number
    buckets: tuple

    @property
    def elements(self):
        return sum(bucket.elements for bucket in self.buckets)

    @property
    def plain_elements(self):
        return sum(bucket.plain_elements for bucket in self.buckets)


@dataclasses.dataclass(frozen=True)
class Codec:
    name: str
    encode: Work  # as a function of elements
    decode: Work


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str
    machines: int
    gpus: int              # per machine
    measured_workers: int  # maximum number of workers in the measurements
    gpu: Link              # between the GPUs of a machine
    host: Link             # between GPUs and network
    network: Link          # between a machine and all others
    bisection: Number
    deviation: Number      # v
    calibration: str
    nets: tuple
    codecs: tuple

    @property
    def workers(self):
        return self.machines * self.gpus

    @property
    def trusted_workers(self):
        return TRUSTED_FACTOR * self.measured_workers


@dataclasses.dataclass(frozen=True)
class Plan:
    exchange: str
    downlink: str = ""  # empty for all_gather
    two_levels: bool = False

    @property
    def name(self):
        return f"two_levels/{self.exchange}" if self.two_levels else self.exchange


@dataclasses.dataclass(frozen=True)
class Step:
    """A prediction: seconds, and bytes of a worker's message."""

    codec: str
    plan: Plan
    workers: int
    parts: dict  # compute (with the wait), encode, exposed, decode, update
    up: float
    down: float
    images_per_second: float
    inputs: dict  # {name: source}

    @property
    def seconds(self):
        return sum(self.parts.values())

    @property
    def way(self):
        """Description such as "t2 by servers, down bf16"."""
        text = f"{self.codec} by {self.plan.name}"
        return f"{text}, down {self.plan.downlink}" if self.plan.downlink and self.plan.exchange not in IN_TRANSIT else text


# The file: JSON with comments (// and /* */). A source is measured, given or assumed; a measured number needs a calibration.

def _source(read):
    return read.take("source", fields.one_of(SOURCES))


def _not_negative(value):
    if fields.number(value) < 0:
        raise ValueError("expected a number of at least 0")
    return value


def _fraction(value):
    if fields.positive(value) > 1:
        raise ValueError("expected at most 1")
    return value


def _points(read, key, units):
    """Reads a list of points as [(units, seconds)]."""
    points = []
    for index, table in enumerate(read.take_tables(key)):
        point = Fields(table, f"{read.place}: {key}[{index}]")
        points.append((point.take(units, fields.positive), point.take("seconds", _not_negative)))
        if units == "bytes":
            point.take("spread", lambda value: value, None)
        point.finish()
    return points


def fitted_link(samples):
    """Fits seconds = latency + bytes / bandwidth by least squares weighted by 1 / seconds, as compress/cost/link_model.h."""
    weights = [1 / seconds for _, seconds in samples]
    w, wb, wbb, wt, wbt = (sum(weight * size**i * seconds**j for weight, (size, seconds) in zip(weights, samples))
                           for i, j in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1)))
    slope = (w * wbt - wb * wt) / (w * wbb - wb * wb)
    if slope <= 0:
        return Link(wt / w, math.inf, "measured")
    latency = (wt - slope * wb) / w
    return Link(latency, 1 / slope, "measured") if latency >= 0 else Link(0.0, wbb / wbt, "measured")


def _read_link(table, place):
    read = Fields(table, place)
    samples = _points(read, "samples", "bytes")
    if samples:
        if len({size for size, _ in samples}) < 2 or not all(seconds for _, seconds in samples):
            read.fail("samples", "expected two sizes or more, and seconds above 0")
        link = fitted_link(samples)
    else:
        rates = [scale * rate for key, scale in (("gbytes_per_second", 1e9), ("gbits_per_second", 1e9 / 8))
                 if (rate := read.take(key, fields.positive, None)) is not None]
        if len(rates) != 1:
            read.fail(None, "expected samples, or one of gbytes_per_second and gbits_per_second")
        link = Link(1e-6 * read.take("latency_us", _not_negative), rates[0], _source(read))
    read.finish()
    return link


def _read_work(read, key, units):
    work = Fields(read.take_table(key), f"{read.place}: {key}")
    points = _points(work, "points", units)
    grows = all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(points, points[1:]))
    if len(points) not in (1, 2) or not grows:
        work.fail("points", f"expected one point, or two of growing {units} and no fewer seconds")
    (first_units, first), (last_units, last) = points[0], points[-1]
    slope = first / first_units if len(points) == 1 else (last - first) / (last_units - first_units)
    made = Work(0.0 if len(points) == 1 else first - slope * first_units, slope, _source(work))
    work.finish()
    return made


def _read_number(read, key, kind, default):
    table = read.take_table(key)
    if not table:
        return Number(default)
    number = Fields(table, f"{read.place}: {key}")
    made = Number(number.take("value", kind), _source(number))
    number.finish()
    return made


def _read_bucket(table, place):
    read = Fields(table, place)
    elements = read.take("elements", fields.integer(1))
    bucket = Bucket(elements, read.take("plain_elements", fields.integer(0)), read.take("tensors", fields.integer(0)),
                    read.take("ready_fraction", _fraction))
    if bucket.plain_elements > elements:
        read.fail("plain_elements", f"are more than the {elements} elements")
    read.finish()
    return bucket


def _read_net(table, place):
    read = Fields(table, place)
    buckets = tuple(_read_bucket(each, f"{place}: buckets[{index}]") for index, each in enumerate(read.take_tables("buckets")))
    if not buckets:
        read.fail("buckets", "expected one or more")
    net = Net(read.take("name", fields.text), read.take("examples_per_worker", fields.positive), _read_work(read, "compute", "examples"),
              _read_work(read, "update", "elements"), _read_number(read, "backward_fraction", _fraction, 2 / 3), buckets)
    read.finish()
    return net


def _read_codec(table, place):
    read = Fields(table, place)
    codec = Codec(read.take("name", fields.one_of(tuple(BITS))), _read_work(read, "encode", "elements"),
                  _read_work(read, "decode", "elements"))
    read.finish()
    return codec


def _read_all(read, key, function):
    items = tuple(function(table, f"{read.place}: {key}[{index}]") for index, table in enumerate(read.take_tables(key)))
    if not items or len({item.name for item in items}) < len(items):
        read.fail(key, "expected one or more, each of its own name")
    return items


def _unique(pairs):
    keys = [key for key, _ in pairs]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise ValueError(f"the key '{twice[0]}' is there twice")
    return dict(pairs)


@functools.cache
def read_cluster(path):
    """Reads a Cluster from a file. @throws RecipeError naming the file and the key"""
    path = pathlib.Path(path)
    try:
        text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or " ", path.read_text("utf-8"), flags=re.DOTALL)
        table = json.loads(text, object_pairs_hook=_unique)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is not JSON: {error}") from None
    read = Fields(table, str(path))
    read.take("schema", fields.one_of((1,)))
    machines, gpus = (read.take(key, fields.integer(1)) for key in ("machines", "gpus_per_machine"))
    links = Fields(read.take_table("links"), f"{path}: links")
    found = {}
    for key, is_needed in (("gpu", gpus > 1), ("host", gpus > 1 and machines > 1), ("network", machines > 1)):
        table = links.take_table(key)
        if is_needed and not table:
            links.fail(key, "is missing")
        found[key] = _read_link(table, f"{path}: links.{key}") if table else Link()
    links.finish()
    calibration = read.take_table("calibration")
    if calibration:
        of = Fields(calibration, f"{path}: calibration")
        calibration = f"{of.take('commit', fields.text)} on {of.take('machine', fields.text)}"
        of.finish()
    elif '"measured"' in text or '"samples"' in text:
        read.fail("calibration", "is missing, which says what measured its measured numbers")
    cluster = Cluster(read.take("name", fields.text), machines, gpus, read.take("measured_workers", fields.integer(1)), **found,
                      bisection=_read_number(read, "bisection_factor", _fraction, 1.0),
                      deviation=_read_number(read, "straggler_deviation", _not_negative, 0.0), calibration=calibration or "",
                      nets=_read_all(read, "nets", _read_net), codecs=_read_all(read, "codecs", _read_codec))
    read.finish()
    return cluster


# The model.

def bits_per_element(codec, workers):
    """Bits per element of a codec: for entropy-coded formats at NONZERO_FRACTION; lanes hold sums of `workers` codes."""
    p = NONZERO_FRACTION
    if codec == "tmask":
        return 1 + p
    if codec == "trans":
        return -p * math.log2(p) - (1 - p) * math.log2(1 - p) + p + TRANS_OVERHEAD_BITS
    if codec == "lanes":
        return 64 / (64 // (2 * workers).bit_length())
    return BITS[codec]


@functools.cache
def expected_max_of_normals(count):
    """Integral of 1 - F(x)^N over x > 0, minus that of F(x)^N over x < 0, by Simpson's rule over [0, 12]."""
    def integrand(x):
        tail = math.erfc(x / math.sqrt(2)) / 2
        return -math.expm1(count * math.log1p(-tail)) - tail**count
    steps = 4096
    inner = sum((2 if i % 2 == 0 else 4) * integrand(12 * i / steps) for i in range(1, steps))
    return (integrand(0.0) + inner + integrand(12.0)) * 12 / steps / 3


def exchange_seconds(exchange, participants, link, up, down, servers=1):
    """Seconds by the table above; 0 for one participant."""
    m = participants
    if m == 1:
        return 0.0
    messages, size = {"ring": (2 * (m - 1), (m - 1) / m * (up + down)), "halving_doubling": (2 * math.log2(m), (m - 1) / m * (up + down)),
                      "tree": (2 * math.log2(m), up + down), "all_gather": (m - 1, (m - 1) * up),
                      "servers": (2, max(m / servers, 1) * (up + down))}[exchange]
    return link.seconds(messages, size)


def suitable_plans(cluster, codec, workers):
    """The plans that a trainer can run with a codec."""
    if codec in ("fp32", "bf16", "lanes"):
        levels = (False, True) if cluster.gpus > 1 and workers > cluster.gpus else (False,)
        return [Plan(exchange, codec, two) for exchange in IN_TRANSIT for two in levels]
    return [Plan("all_gather"), *(Plan("servers", downlink) for downlink in ("fp32", "bf16", codec))]


class _Exchange:
    """One plan for N workers."""

    def __init__(self, cluster, codec, plan, workers):
        self.cluster, self.codec, self.plan, self.workers = cluster, codec, plan, workers
        self.gpus = min(workers, cluster.gpus)
        self.machines = workers // self.gpus
        if self.gpus * self.machines != workers:
            raise ValueError(f"{workers} workers are neither in one machine of {cluster.gpus} GPUs nor all of several")
        self.is_coded = plan.exchange not in IN_TRANSIT
        self.participants = workers if self.machines == 1 or not (plan.two_levels or self.is_coded) else self.machines

    def bytes_of(self, bucket):
        """(up, down) bytes of a bucket."""
        plain_bits = 16 if self.codec == "bf16" else 32
        def size(codec):
            bits = bits_per_element(codec, self.workers)
            return ((bucket.elements - bucket.plain_elements) * bits + bucket.plain_elements * plain_bits) / 8
        return size(self.codec), size(self.plan.downlink) if self.plan.downlink else 0.0

    def scaler_seconds(self, bucket):
        if self.codec in ("fp32", "bf16") or bucket.tensors == 0:
            return 0.0
        size = 4 * bucket.tensors
        if self.machines == 1:
            return exchange_seconds("tree", self.workers, self.cluster.gpu, size, size)
        inside = exchange_seconds("tree", self.gpus, self.cluster.gpu, size, size) if self.plan.two_levels else 0.0
        return inside + self.cluster.host.seconds(2, size) + exchange_seconds("tree", self.participants, self.cluster.network, size, size)

    def seconds(self, bucket):
        (up, down), plan, cluster = self.bytes_of(bucket), self.plan, self.cluster
        if self.machines == 1:
            return self.scaler_seconds(bucket) + exchange_seconds(plan.exchange, self.workers, cluster.gpu, up, down, self.workers)
        inside = exchange_seconds("ring", self.gpus, cluster.gpu, up, down) if plan.two_levels else 0.0
        shared = self.gpus if self.plan.exchange == "halving_doubling" and not plan.two_levels else 1
        if self.is_coded:
            up *= self.gpus
        arriving = (self.participants - 1) * up if plan.exchange == "all_gather" else down
        network = cluster.network
        if self.crosses_middle():
            network = dataclasses.replace(network, bytes_per_second=network.bytes_per_second * cluster.bisection.value / shared)
        return (self.scaler_seconds(bucket) + inside + cluster.host.seconds(2, shared * (up + arriving) / 2) +
                exchange_seconds(plan.exchange, self.participants, network, up, down, self.machines))

    def crosses_middle(self):
        return self.plan.exchange not in ("ring", "tree")

    def decoded_messages(self):
        if self.plan.exchange == "all_gather":
            return self.workers
        servers = self.machines if self.machines > 1 else self.workers
        return self.workers / servers + 1 if self.plan.exchange == "servers" else 1

    def inputs(self, net, codec):
        cluster, alone, far = self.cluster, self.workers == 1, self.machines > 1
        used = [("compute", net.compute.source, True), ("update", net.update.source, True),
                (f"encode {codec.name}", codec.encode.source, True), (f"decode {codec.name}", codec.decode.source, True),
                ("backward fraction", net.backward.source, any(bucket.ready_fraction < 1 for bucket in net.buckets)),
                ("straggler deviation", cluster.deviation.source, not alone),
                ("gpu link", cluster.gpu.source, not alone and (not far or (self.plan.two_levels and self.gpus > 1))),
                ("host link", cluster.host.source, far), ("network link", cluster.network.source, far),
                ("bisection factor", cluster.bisection.source, far and self.crosses_middle()),
                ("non-zero fraction", "assumed", {codec.name, self.plan.downlink} & {"tmask", "trans"})]
        return {name: source for name, source, is_used in used if is_used}


def predict(cluster, net, codec, plan, workers):
    """Predicts a Step. @throws ValueError for workers on several machines that are not all full"""
    exchange = _Exchange(cluster, codec.name, plan, workers)
    v = cluster.deviation.value
    compute = net.compute.seconds(net.examples) * (1 + v * expected_max_of_normals(workers) if v else 1)
    free = 0.0
    for bucket in net.buckets:
        ready = compute - compute * net.backward.value * (1 - bucket.ready_fraction)
        free = max(free, ready) + exchange.seconds(bucket)
    sizes = [exchange.bytes_of(bucket) for bucket in net.buckets]
    parts = {"compute": compute, "encode": codec.encode.seconds(net.elements), "exposed": max(0.0, free - compute),
             "decode": codec.decode.seconds(net.elements * exchange.decoded_messages()), "update": net.update.seconds(net.elements)}
    return Step(codec.name, plan, workers, parts, sum(up for up, _ in sizes), sum(down for _, down in sizes),
                net.examples * workers / sum(parts.values()), exchange.inputs(net, codec))


def listed_workers(cluster):
    """1, 2, 4, ... and MAX_WORKERS; beyond one machine rounded down to whole machines."""
    powers = [2**i for i in range(MAX_WORKERS.bit_length()) if 2**i < MAX_WORKERS] + [MAX_WORKERS]
    return sorted({n if n <= cluster.gpus else n - n % cluster.gpus for n in powers})


@functools.cache
def steps_of(cluster, net, workers):
    """The step of the fastest plan for each codec and downlink."""
    steps = []
    for codec in cluster.codecs:
        plans = suitable_plans(cluster, codec.name, workers)
        for downlink in dict.fromkeys(plan.downlink for plan in plans):
            steps.append(min((predict(cluster, net, codec, plan, workers) for plan in plans if plan.downlink == downlink),
                             key=lambda step: step.seconds))
    return tuple(steps)


def best_of(steps, codec):
    """The fastest step of a codec; None if the file has no such codec."""
    return min((step for step in steps if step.codec == codec), key=lambda step: step.seconds, default=None)


def own_size(cluster):
    """The largest listed number of workers that the cluster has."""
    return max(n for n in listed_workers(cluster) if n <= cluster.workers)


# Text.

def _counted(number, thing):
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _wrapped(text):
    return textwrap.fill(text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def short(number):
    return f"{number:.{0 if number >= 1e4 else 1 if number >= 100 else 2 if number >= 1 else 3}f}"


def inputs_text(steps):
    """Sources of the inputs, such as "measured: compute; assumed: update, host link"."""
    groups = []
    for source in SOURCES:
        names = dict.fromkeys(name for step in steps for name, of in step.inputs.items() if of == source)
        if names:
            groups.append(f"{source}: {', '.join(names)}")
    return "; ".join(groups)


def _head(cluster):
    links = [f"{name} {scale * link.bytes_per_second:.3g} {unit}, {1e6 * link.latency:.3g} us ({link.source})"
             for name, link, scale, unit in (("gpu", cluster.gpu, 1e-9, "GB/s"), ("host", cluster.host, 1e-9, "GB/s"),
                                             ("network", cluster.network, 8e-9, "Gbit/s")) if math.isfinite(link.bytes_per_second)]
    measured = f"; measured by commit {cluster.calibration}" if cluster.calibration else ""
    return [_wrapped(f"{cluster.name}: {_counted(cluster.machines, 'machine')} of {_counted(cluster.gpus, 'GPU')}, "
                     f"{_counted(cluster.workers, 'worker')}{measured}"), _wrapped(f"links: {'; '.join(links) or 'none'}"),
            _wrapped(f"inputs were observed with {_counted(cluster.measured_workers, 'worker')}; * marks steps extrapolated to more than "
                     f"{cluster.trusted_workers:,}")]


def _worker_lines(cluster, net):
    first, *others = [codec.name for codec in cluster.codecs]
    yield f"images/s of all workers with {first}, times as many with other codecs, and the fastest plan"
    yield f"{'workers':>8}  {first:>11}{''.join(f'{name:>7}' for name in others)}   fastest"
    for workers in listed_workers(cluster):
        steps = steps_of(cluster, net, workers)
        base = best_of(steps, first).images_per_second
        factors = "".join(f"{best_of(steps, name).images_per_second / base:>7.2f}" for name in others)
        mark = "*" if workers > cluster.trusted_workers else " "
        yield f"{workers:>8,}{mark} {base:>11,.0f}{factors}   {min(steps, key=lambda step: step.seconds).way}"


def _part_lines(cluster, net):
    workers = own_size(cluster)
    steps = steps_of(cluster, net, workers)
    yield f"parts of a step of {_counted(workers, 'worker')} in ms, MB of a worker's message, speed-up over fp32 and bf16"
    row = "{:<5} {:<5} {:<16} {:>2}{:>8}{:>7}{:>8}{:>7}{:>7}{:>8}{:>6}{:>6}{:>6}{:>6}"
    yield row.format("up", "down", "exchange", "lv", "compute", "encode", "exposed", "decode", "update", "step", "MB up", "down", "/fp32",
                     "/bf16")
    for step in steps:
        factors = [f"{base.seconds / step.seconds:.2f}" if (base := best_of(steps, name)) else "-" for name in ("fp32", "bf16")]
        yield row.format(step.codec, step.plan.downlink or "-", step.plan.exchange, 2 if step.plan.two_levels else 1,
                         *(short(1e3 * part) for part in step.parts.values()), short(1e3 * step.seconds), short(1e-6 * step.up),
                         short(1e-6 * step.down) if step.plan.downlink else "-", *factors)


def to_text(cluster):
    """All tables, at most 100 characters wide."""
    lines = _head(cluster)
    shown = None
    for net in cluster.nets:
        lines += ["", f"{net.name}: {net.elements:,} elements, {net.plain_elements:,} of them always as floats; {net.examples:g} examples "
                      f"a worker"]
        inputs = inputs_text([step for workers in listed_workers(cluster) for step in steps_of(cluster, net, workers)])
        if inputs != shown:
            lines.append(_wrapped(f"inputs {inputs}"))
        shown = inputs
        lines += [*_worker_lines(cluster, net), *_part_lines(cluster, net)]
    return "\n".join(lines)


def to_json(cluster):
    """All steps as objects with bytes and seconds."""
    steps = [{"net": net.name, **dataclasses.asdict(step), "plan": step.plan.name, "downlink": step.plan.downlink or None,
              "seconds": step.seconds, "extrapolated": workers > cluster.trusted_workers}
             for net in cluster.nets for workers in listed_workers(cluster) for step in steps_of(cluster, net, workers)]
    return json.dumps({"cluster": cluster.name, "workers": cluster.workers, "steps": steps}, indent=1)
