"""Schema of recorded results, against which every line is checked when it is read, so that other modules can rely on it."""

import math


# Kinds of histograms: worker 0's gradient, the clipped one and the sent one, and the mean over workers.
KINDS = ("gradient", "clipped", "sent", "mean")
# Odd, so that zero is at the centre of a bucket.
NUM_BUCKETS = 63


class Shape:
    """`words`: the problem with a value itself, None if valid. `problem`: the same with its place, including nested values."""

    or_none = False

    def problem(self, value, place=""):
        if value is None and self.or_none:
            return None
        words = self.words(value)
        if words is not None:
            return f"{place}: {words}" if place else words
        found = (shape.problem(item, f"{place}{name}".removeprefix(".")) for name, shape, item in self.parts(value))
        return next((each for each in found if each is not None), None)

    def parts(self, value):
        """(place, shape, item) of the values nested in `value`."""
        return ()


class Number(Shape):
    """A finite number. @param smallest  minimum"""

    def __init__(self, kind=float, or_none=False, smallest=-math.inf):
        self.kind, self.or_none, self.smallest = kind, or_none, smallest

    def words(self, value):
        types = (int,) if self.kind is int else (int, float)
        if isinstance(value, types) and not isinstance(value, bool) and abs(value) < 2**63 and value >= self.smallest:
            return None
        bound = f" of at least {self.smallest:g}" if math.isfinite(self.smallest) else ""
        return f"{value!r:.40} is no {'integer' if self.kind is int else 'number'}{bound}"


class Text(Shape):
    def __init__(self, *accepted, or_none=False):
        self.accepted, self.or_none = accepted, or_none

    def words(self, value):
        if isinstance(value, str) and (not self.accepted or value in self.accepted):
            return None
        return f"{value!r:.40} is no text" + (f" of {', '.join(self.accepted)}" if self.accepted else "")


class Flag(Shape):
    def words(self, value):
        return None if isinstance(value, bool) else f"{value!r:.40} is not true or false"


class Scalar(Shape):
    """The value of an option."""

    or_none = True

    def words(self, value):
        is_one = isinstance(value, (str, bool)) or Number().words(value) is None
        return None if is_one else f"{value!r:.40} is no text, number or flag"


class ListOf(Shape):
    def __init__(self, item, length=None):
        self.item, self.length = item, length

    def words(self, value):
        is_one = isinstance(value, list) and self.length in (None, len(value))
        return None if is_one else f"{value!r:.40} is no list" + ("" if self.length is None else f" of {self.length}")

    def parts(self, value):
        return ((f"[{index}]", self.item, item) for index, item in enumerate(value))


class MapOf(Shape):
    """An object with arbitrary names."""

    def __init__(self, item):
        self.item = item

    def words(self, value):
        return None if isinstance(value, dict) else f"{value!r:.40} is no object"

    def parts(self, value):
        return ((f".{name}", self.item, item) for name, item in value.items())


class Fields(Shape):
    """An object with known names; others are ignored, as later versions may write them."""

    def __init__(self, required, optional=None, or_none=False):
        self.required, self.known, self.or_none = required, {**(optional or {}), **required}, or_none

    def words(self, value):
        if not isinstance(value, dict):
            return f"{value!r:.40} is no object"
        missing = [name for name in self.required if name not in value]
        return f"lacks {', '.join(missing)}" if missing else None

    def parts(self, value):
        return ((f".{name}", self.known[name], item) for name, item in value.items() if name in self.known)


COUNT = Number(int, smallest=0)
CURVE = ListOf(ListOf(Number(or_none=True), length=2))
FRACTIONS = ListOf(Number(), length=NUM_BUCKETS)
RECORD = Fields({"schema": COUNT, "cell": Text(), "scale": Text(), "seed": COUNT,
                 "status": Text("done", "unfinished", "failed", "measured"), "options": MapOf(Scalar()),
                 "identity": Text(or_none=True), "commit": Text()},
                {"dirty": Flag(), "backend": Text("cpu", "gpu"), "recorded": Text(), "started": Text(or_none=True),
                 "version": Text(or_none=True), "error": Text(), "predictions": Text(), "predictions_sha256": Text(),
                 "seconds": Number(smallest=0),
                 "machine": Fields({}, {"cpu": Text(or_none=True), "cores": Number(int, or_none=True), "device": Text(or_none=True)}),
                 "command": Text(), "ratios": Fields({"uplink": Number(smallest=0), "downlink": Number(smallest=0)}),
                 "bytes": Fields({"bytes_per_worker_step": Number(smallest=0), "ratio": Number(or_none=True, smallest=0)})})
FINAL = Fields({}, {"top1": Number(or_none=True), "top5": Number(or_none=True), "loss": Number(or_none=True),
                    "raw_top1": Number(or_none=True), "weights": Text(), "step": COUNT}, or_none=True)
TENSOR = Fields({"zeros": CURVE}, {name: Number(or_none=True) for name in
                                   ("zero_fraction", "clip_fraction", "kept_norm", "snr_db", "clip_angle_degrees")})
RUN = Fields({"steps": COUNT, "max_steps": COUNT, "final": FINAL, "curves": MapOf(CURVE), "tensors": MapOf(TENSOR)},
             {"histograms": MapOf(ListOf(Fields({"step": COUNT, "limit": Number()}, {kind: FRACTIONS for kind in KINDS})))})


def problem_of(result):
    """The problem with a result, in words; None for a valid one."""
    problem = RECORD.problem(result)
    if problem is None and result["status"] in ("done", "unfinished"):
        problem = RUN.problem(result)
    return problem
