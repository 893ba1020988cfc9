"""Parses codec specs `NAME:key=value,...` and presets."""

import dataclasses
import math

from .codec import Codec
from .eden import Eden
from .floats import Bf16, Fp32
from .fp8 import Fp8
from .low_rank import PowerSgd
from .memories import MEMORIES
from .natural import Natural
from .qsgd import Qsgd
from .randomk import RandomK
from .signs import Onebit, Sign
from .ternary import Ternary
from .topk import TopK

CODECS = {"fp32": Fp32, "bf16": Bf16, "ternary": Ternary, "qsgd": Qsgd, "natural": Natural, "sign": Sign,
          "onebit": Onebit, "topk": TopK, "randomk": RandomK, "powersgd": PowerSgd, "fp8": Fp8, "eden": Eden}
# Presets: a spec, and a memory, or None for the codec's default.
PRESETS = {
    "signsgd": ("sign:reduce=vote,scale=one", None),
    "signum": ("sign:reduce=vote,scale=one", "momentum"),
    "efsignsgd": ("sign", "ef"),
    "terngrad_ef": ("ternary:rounding=nearest,clip_factor=1.22", "ef"),
    "nuqsgd": ("natural:bits=4,norm=l2,block=8192", None),
    "thc": ("qsgd:bits=4,norm=rms,clip=2.154,sharing=max,rotate=1024", "ef"),
    "dgc": ("topk:density=0.001", "dgc"),
    "int8": ("qsgd:bits=8,rounding=nearest,block=128", None),
}
BLOCK_UNIT = 64


@dataclasses.dataclass
class Spec:
    """A codec and the name of its memory: none, ef, momentum, dgc, loco or ef21."""

    codec: Codec
    memory: str


def parse(text: str) -> Spec:
    """Explicit keys override those of a preset. Raises ValueError."""
    name, options = _split(text)
    memory = None
    if name in PRESETS:
        spec, memory = PRESETS[name]
        name, of_preset = _split(spec)
        options = of_preset | options
    if name not in CODECS:
        raise ValueError(f"codec {name}: expected one of {', '.join([*CODECS, *PRESETS])}")
    kind = CODECS[name]
    for key in options:
        if key not in kind.options:
            raise ValueError(f"{name}: key {key}: expected one of {', '.join(kind.options) or 'none'}")
    codec = kind(**{key: _value(key, value, *kind.options[key]) for key, value in options.items()})
    return Spec(codec, memory or codec.default_memory)


def memory_of(name: str, codec: Codec, **parameters):
    """The memory of that name, None for none. Raises ValueError if the codec does not support it."""
    if name == "none":
        return None
    if name not in MEMORIES:
        raise ValueError(f"memory {name}: expected one of none, {', '.join(MEMORIES)}")
    if name in ("ef", "loco", "ef21") and codec.aggregation == "vote":
        raise ValueError(f"memory {name}: a vote is no sum")
    if name in ("ef", "dgc", "loco", "ef21") and codec.is_amplified:
        raise ValueError(f"memory {name}: what is scaled up leaves ever more out")
    if name == "dgc" and codec.aggregation != "sparse" and not codec.is_exact:
        raise ValueError("memory dgc: every element is sent, so every velocity would be masked")
    if name == "dgc":
        parameters["is_exact"] = codec.is_exact
    return MEMORIES[name](**parameters)


def _split(text: str) -> tuple[str, dict[str, str]]:
    name, colon, rest = text.partition(":")
    options = {}
    for item in rest.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not (key and equals and value) or key in options:
            raise ValueError(f"{text}: '{item}': expected key=value, each key once")
        options[key] = value
    return name, options


def _value(key: str, text: str, default, choices):
    """Converts the text to the type of the default."""
    try:
        value = type(default)(text)
    except ValueError:
        value = None
    if choices:
        if value not in choices:
            raise ValueError(f"{key}={text}: expected one of {', '.join(map(str, choices))}")
    elif value is None or not math.isfinite(value) or value < 0:
        raise ValueError(f"{key}={text}: expected a number of at least 0")
    elif key == "block" and value % BLOCK_UNIT:
        raise ValueError(f"{key}={text}: expected a multiple of {BLOCK_UNIT}")
    elif key == "clip" and value == 0:
        raise ValueError(f"{key}={text}: expected more than 0")
    return value
