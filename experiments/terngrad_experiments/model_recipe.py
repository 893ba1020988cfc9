"""Recipes of kind `model`, which have no runs: clusters, nets, and readings of a chart."""

import dataclasses

from terngrad_experiments import recipe_fields as fields
from terngrad_experiments.recipe_fields import Fields

GRADIENTS = ("fp32", "ternary")


@dataclasses.dataclass(frozen=True)
class Net:
    """A net; sizes are in elements. The last layer is sent as fp32."""

    name: str
    parameters: int
    last_layer: int
    batch: int           # images per GPU and step that fit the chart
    batch_stated: int    # images per GPU and step that the paper is reported to state


@dataclasses.dataclass(frozen=True)
class Fit:
    """Constants of the model, fitted to the readings of one cluster. Link rates are per direction."""

    step_seconds: dict = dataclasses.field(hash=False)  # {net: seconds of a step on one GPU}
    gpu_gbytes_per_second: float
    host_gbytes_per_second: float
    network_gbits_per_second: float
    latency_us: float
    ternarize_gelements_per_second: float
    network_factor: str  # number of times the message crosses the network of i machines: one of FACTORS
    rms_percent: float   # 100 sqrt(sum of w ln(model / bar)^2 / number of bars) with weights w
    confidence: str


FACTORS = ("min(log2 i, 2)", "2 (i-1)/i")


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str
    title: str
    file: str            # in experiments/clusters
    machines: int
    gpus_per_machine: int
    gpu: str
    network: str
    interconnect: str
    confidence: str
    inset_error: float   # error in images/s of readings up to `inset_gpus`
    error: float         # error in images/s of the others
    fit: Fit


@dataclasses.dataclass(frozen=True)
class Reading:
    """The bars of one net with one kind of gradients, one for each of Model.gpus."""

    cluster: str
    net: str
    gradients: str
    images_per_second: tuple
    weights: tuple       # weights in the fit; below 1 for bars too short to be read precisely
    confidence: str


@dataclasses.dataclass(frozen=True)
class SpeedUp:
    """Ratio of images/s with ternary and with fp32 gradients, as stated in the paper's text."""

    cluster: str
    net: str
    gpus: int
    value: float
    confidence: str


@dataclasses.dataclass(frozen=True)
class Model:
    gpus: tuple
    inset_gpus: int
    nets: tuple
    clusters: tuple
    readings: tuple
    speed_ups: tuple

    def reading(self, cluster, net, gradients):
        """@throws KeyError if there is none"""
        for one in self.readings:
            if (one.cluster, one.net, one.gradients) == (cluster, net, gradients):
                return one
        raise KeyError((cluster, net, gradients))

    def reading_error(self, cluster, gpus):
        """Reading error of a bar, in images/s (half the width of its interval)."""
        one = next(each for each in self.clusters if each.name == cluster)
        return one.inset_error if gpus <= self.inset_gpus else one.error


def _numbers(count):
    def check(value):
        if not isinstance(value, list) or len(value) != count:
            raise ValueError(f"expected {count} numbers, one for each of 'gpus'")
        return tuple(map(fields.positive, value))
    return check


def _confidence(table):
    return table.take("confidence", fields.one_of(fields.CONFIDENCES))


def _read_net(table, place):
    read = Fields(table, place)
    count = fields.integer(1)
    net = Net(read.take("name", fields.name), read.take("parameters", count), read.take("last_layer", count),
              read.take("batch", count), read.take("batch_stated", count))
    read.finish()
    if net.last_layer >= net.parameters:
        read.fail("last_layer", f"has {net.last_layer} of the net's {net.parameters} parameters")
    return net


def _read_fit(table, place, nets):
    read = Fields(table, place)
    seconds = Fields(read.take_table("step_seconds"), f"{place}: 'step_seconds'")
    step_seconds = {net.name: seconds.take(net.name, fields.positive) for net in nets}
    seconds.finish()
    fit = Fit(step_seconds, read.take("gpu_gbytes_per_second", fields.positive),
              read.take("host_gbytes_per_second", fields.positive), read.take("network_gbits_per_second", fields.positive),
              read.take("latency_us", fields.number), read.take("ternarize_gelements_per_second", fields.positive),
              read.take("network_factor", fields.one_of(FACTORS)), read.take("rms_percent", fields.positive), _confidence(read))
    read.finish()
    return fit


def _read_cluster(table, place, nets):
    read = Fields(table, place)
    cluster = Cluster(read.take("name", fields.name), read.take("title", fields.text), read.take("file", fields.text),
                      read.take("machines", fields.integer(1)), read.take("gpus_per_machine", fields.integer(1)),
                      read.take("gpu", fields.text),
                      read.take("network", fields.text), read.take("interconnect", fields.text), _confidence(read),
                      read.take("inset_error", fields.positive), read.take("error", fields.positive),
                      _read_fit(read.take_table("fit"), f"{place}: 'fit'", nets))
    read.finish()
    return cluster


def _read_reading(table, place, names, count):
    read = Fields(table, place)
    ones = (1,) * count
    reading = Reading(read.take("cluster", fields.one_of(names["cluster"])), read.take("net", fields.one_of(names["net"])),
                      read.take("gradients", fields.one_of(GRADIENTS)), read.take("images_per_second", _numbers(count)),
                      read.take("weights", _numbers(count), ones), _confidence(read))
    read.finish()
    return reading


def _read_speed_up(table, place, names, gpus):
    read = Fields(table, place)
    speed_up = SpeedUp(read.take("cluster", fields.one_of(names["cluster"])), read.take("net", fields.one_of(names["net"])),
                       read.take("gpus", fields.one_of(gpus)), read.take("value", fields.positive), _confidence(read))
    read.finish()
    return speed_up


def _each(read, key, function, *more):
    return tuple(function(table, f"{read.place}: {key} {table.get('name', index)}", *more)
                 for index, table in enumerate(read.take_tables(key), 1))


def _check_unique(read, key, values):
    twice = [value for index, value in enumerate(values) if value in values[:index]]
    if twice:
        read.fail(key, f"{twice[0] if isinstance(twice[0], str) else ', '.join(twice[0])} is there twice")


def read_model(read):
    """The [model], [[net]], [[cluster]], [[reading]] and [[speed_up]] of a recipe.

    @param read  Fields of the whole file
    @throws RecipeError also for a cluster and net without a reading of each kind"""
    head = Fields(read.take_table("model"), f"{read.place}: [model]")
    gpus = head.take("gpus", fields.list_of(fields.integer(1)))
    inset_gpus = head.take("inset_gpus", fields.integer(1))
    head.finish()
    nets = _each(read, "net", _read_net)
    clusters = _each(read, "cluster", _read_cluster, nets)
    names = {"net": [net.name for net in nets], "cluster": [cluster.name for cluster in clusters]}
    for key, values in names.items():
        _check_unique(read, key, values)
    readings = _each(read, "reading", _read_reading, names, len(gpus))
    have = [(one.cluster, one.net, one.gradients) for one in readings]
    _check_unique(read, "reading", have)
    for wanted in ((cluster, net, kind) for cluster in names["cluster"] for net in names["net"] for kind in GRADIENTS):
        if wanted not in have:
            read.fail("reading", f"there is none of {', '.join(wanted)}")
    return Model(gpus, inset_gpus, nets, clusters, readings, _each(read, "speed_up", _read_speed_up, names, gpus))
