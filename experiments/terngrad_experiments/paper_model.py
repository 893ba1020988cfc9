"""The model fitted to the bars of figure 5. On g = i j GPUs, j of each of i machines, a step takes

    T = T1 + E + 2 (j - 1) / j b / Cg + [i > 1] (b / Ch + f(i) b / Cn + 2 (i - 1) a)      images per second = K g / T

    T1  a step of one GPU             Cg  bandwidth between the GPUs of a machine          b  bytes of a message, the mean of both
    E   ternarizing, 0 of floats      Ch  between a GPU and its machine's network card        directions
    K   examples of a GPU             Cn  of the network, a its latency                    f  how often it crosses the network

The paper gives none of these but K; they are the `fit` of the recipe. AlexNet's bars need 256 examples for each GPU, while 128 are
reported to be stated: its images per second depend on that, ratios of them do not.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Bits:
    """Bits per element of a message."""

    up: float
    down: float
    last_layer: float = 32
    ternarizes: bool = False


CODECS = {"fp32": Bits(32, 32), "bf16": Bits(16, 16, 16), "ternary": Bits(2, 2, ternarizes=True)}  # ternary as in the figure


def step_seconds(cluster, net, bits, gpus):
    """T. @throws ValueError for GPUs that are neither in one machine nor all GPUs of several"""
    fit, j = cluster.fit, min(gpus, cluster.gpus_per_machine)
    i = gpus // j
    if i * j != gpus:
        raise ValueError(f"{gpus} GPUs are neither in one machine nor all of several")
    size = (net.parameters - net.last_layer) * (bits.up + bits.down) / 16 + net.last_layer * bits.last_layer / 8
    seconds = fit.step_seconds[net.name] + 2 * (j - 1) / j * size / (fit.gpu_gbytes_per_second * 1e9)
    if bits.ternarizes:
        seconds += net.parameters / (fit.ternarize_gelements_per_second * 1e9)
    if i > 1:
        factor = min(math.log2(i), 2) if fit.network_factor == "min(log2 i, 2)" else 2 * (i - 1) / i
        seconds += size / (fit.host_gbytes_per_second * 1e9) + factor * size / (fit.network_gbits_per_second * 1e9 / 8)
        seconds += 2 * (i - 1) * fit.latency_us * 1e-6
    return seconds


def bars(model, cluster, net, gradients):
    """Images per second for each of the figure's numbers of GPUs."""
    return [net.batch * gpus / step_seconds(cluster, net, CODECS[gradients], gpus) for gpus in model.gpus]


def rms_percent(model, cluster):
    """100 sqrt(sum of w ln(model / bar)^2 / bars), with the readings' weights w."""
    terms = [weight * math.log(ours / bar) ** 2 for net in model.nets for gradients in ("fp32", "ternary")
             for reading in [model.reading(cluster.name, net.name, gradients)]
             for ours, bar, weight in zip(bars(model, cluster, net, gradients), reading.images_per_second, reading.weights)]
    return 100 * math.sqrt(sum(terms) / len(terms))


def downlinks(gpus):
    """{name: Bits}: an uplink of 2 bits, with the real bits of a downlink."""
    lanes = (2 * gpus).bit_length()
    return {"2 bits, as the chart": CODECS["ternary"], f"sums of {lanes} bits": Bits(2, lanes, ternarizes=True),
            "bf16": Bits(2, 16, ternarizes=True), "fp32": Bits(2, 32, ternarizes=True)}
