"""The exchange model beside what exchanges took: rows of scripts/bench/validate_model.py, their errors, and what is accepted.

A row is one exchange: a layout, the hosts, the rate of their links, an algorithm and a codec, with the seconds that were measured
and predicted. Its error is predicted / measured - 1. The model is accepted if TYPICAL_FRACTION of the rows have an error of at
most TYPICAL_ERROR, no row has one beyond MAX_ERROR, and of every two codecs of one exchange whose measured times differ by more
than TELLS_APART the faster one is predicted to be faster.

The prediction takes the link as the hosts of the row measured it. `predicted_by_two_seconds` takes it as two hosts did.
"""

import dataclasses
import itertools
import json
import pathlib

from terngrad_experiments import store

SCHEMA = 1
KIND = "model-validation"
FILE = f"{KIND}.jsonl"
RECORD = pathlib.Path("models") / FILE  # in the folder of recorded results, whose own *.jsonl are runs
TYPICAL_ERROR, TYPICAL_FRACTION, MAX_ERROR, TELLS_APART = 0.15, 0.9, 0.3, 0.1
LINK = ("layout", "hosts", "rate")
KEY = (*LINK, "exchange", "codec")
REQUIRED = (*KEY, "measured_seconds", "predicted_seconds", "measured", "predicted", "link", "iperf3_mbit_per_s", "stolen_percent",
            "busy_before_percent", "machine", "commit")


def key_of(row):
    return tuple(row[name] for name in KEY)


def read(path):
    """The rows of a file, in order; of equal ones the last. A file that is not there has none.

    @throws StoreError that names the file and the line of what is no row"""
    path = pathlib.Path(path)
    rows = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise store.StoreError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict) or row.get("kind") != KIND or row.get("schema") != SCHEMA:
            raise store.StoreError(f"{path}:{number}: not of kind {KIND}, schema {SCHEMA}")
        missing = [name for name in REQUIRED if name not in row]
        if missing:
            raise store.StoreError(f"{path}:{number}: lacks {', '.join(missing)}")
        rows.pop(key_of(row), None)
        rows[key_of(row)] = row
    return list(rows.values())


def error_of(row, prediction="predicted_seconds"):
    """predicted / measured - 1; None without that prediction."""
    return row[prediction] / row["measured_seconds"] - 1 if row.get(prediction) is not None else None


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of rows that have a prediction, at least one. Pairs are two codecs of one exchange whose measured times differ."""

    num_rows: int
    num_typical: int      # with an error of at most TYPICAL_ERROR
    worst: dict           # row
    worst_error: float
    num_pairs: int
    wrong_pairs: tuple    # (faster, slower) rows as measured, predicted to be the other way round or equal

    def is_accepted(self):
        typical = self.num_typical >= TYPICAL_FRACTION * self.num_rows
        return typical and abs(self.worst_error) <= MAX_ERROR and not self.wrong_pairs


def pairs_of(rows):
    """Every (faster, slower) two codecs of one exchange whose measured times differ by more than TELLS_APART."""
    pairs = []
    for one, other in itertools.combinations(rows, 2):
        faster, slower = sorted((one, other), key=lambda row: row["measured_seconds"])
        differ = slower["measured_seconds"] > (1 + TELLS_APART) * faster["measured_seconds"]
        if differ and key_of(one)[:-1] == key_of(other)[:-1]:
            pairs.append((faster, slower))
    return pairs


def summarize(rows, prediction="predicted_seconds"):
    """The Summary of the rows that have that prediction; None if there are none."""
    rows = [row for row in rows if row.get(prediction) is not None]
    if not rows:
        return None
    errors = [error_of(row, prediction) for row in rows]
    worst = max(range(len(rows)), key=lambda index: abs(errors[index]))
    pairs = pairs_of(rows)
    wrong = tuple(pair for pair in pairs if pair[0][prediction] >= pair[1][prediction])
    return Summary(len(rows), sum(abs(error) <= TYPICAL_ERROR for error in errors), rows[worst], errors[worst], len(pairs), wrong)


def percent(value):
    """An error as signed per cent, "-" of None."""
    return "-" if value is None else f"{100 * value:+.1f} %"


def whole(fraction):
    """A fraction as per cent."""
    return f"{100 * fraction:.0f} %"


def name_of(row):
    return f"{row['codec']}, {row['exchange']}, {row['hosts']} hosts, {row['rate']}, {row['layout']}"


def summary_lines(rows):
    """What is accepted and why, in sentences."""
    summary = summarize(rows)
    if summary is None:
        return ["No row was measured."]
    lines = [
        f"{'Accepted' if summary.is_accepted() else 'Not accepted'} (asked for: {whole(TYPICAL_FRACTION)} of the rows within "
        f"{whole(TYPICAL_ERROR)}, none beyond {whole(MAX_ERROR)}, every ranking right).",
        f"{summary.num_typical} of {summary.num_rows} rows ({whole(summary.num_typical / summary.num_rows)}) are within "
        f"{whole(TYPICAL_ERROR)}.",
        f"Worst row: {name_of(summary.worst)}: {percent(summary.worst_error)}.",
        f"Two codecs whose measured times differ by more than {whole(TELLS_APART)} are ranked right in "
        f"{summary.num_pairs - len(summary.wrong_pairs)} of {summary.num_pairs} cases.",
    ]
    lines += [f"Ranked wrong: {faster['codec']} is faster than {slower['codec']}; {name_of(faster).partition(', ')[2]}."
              for faster, slower in summary.wrong_pairs]
    by_two = summarize([row for row in rows if row["hosts"] != 2], "predicted_by_two_seconds")
    if by_two is not None:
        lines.append(f"With the link as two hosts measured it, {by_two.num_typical} of {by_two.num_rows} rows of more hosts are "
                     f"within {whole(TYPICAL_ERROR)}; worst: {name_of(by_two.worst)}: {percent(by_two.worst_error)}.")
    return lines


def _milliseconds(seconds):
    return "-" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def _part(row, *names):
    """Of measured and predicted milliseconds, the sum of the parts that there are."""
    return " / ".join(_milliseconds(sum(row[of].get(name, 0) for name in names)) for of in ("measured", "predicted"))


HEADER = ("layout", "hosts", "rate", "exchange", "codec", "measured, ms", "predicted, ms", "error", "error, link of 2 hosts",
          "encode, ms", "wire, ms", "decode, ms")


def cells_of(row):
    """Cells under HEADER; parts are measured / predicted, measuring a part of encode."""
    return (row["layout"], str(row["hosts"]), row["rate"], row["exchange"], row["codec"], _milliseconds(row["measured_seconds"]),
            _milliseconds(row["predicted_seconds"]), percent(error_of(row)), percent(error_of(row, "predicted_by_two_seconds")),
            _part(row, "measure_seconds", "encode_seconds"), _part(row, "wire_seconds"), _part(row, "decode_seconds"))


LINK_HEADER = ("layout", "hosts", "rate", "latency, us", "fitted, Mbit/s", "iperf3, Mbit/s", "stolen", "busy before",
               f"rows within {whole(TYPICAL_ERROR)}")


def link_cells(rows):
    """Cells under LINK_HEADER, one line for each launch."""
    launches = {}
    for row in rows:
        launches.setdefault(tuple(row[name] for name in LINK), []).append(row)
    lines = []
    for own in launches.values():
        row, typical = own[0], sum(abs(error_of(each)) <= TYPICAL_ERROR for each in own)
        bandwidth = row["link"]["bytes_per_second"]
        fitted = "unlimited" if bandwidth is None else f"{8e-6 * bandwidth:.4g}"
        lines.append((row["layout"], str(row["hosts"]), row["rate"], f"{1e6 * row['link']['latency_seconds']:.0f}", fitted,
                      f"{row['iperf3_mbit_per_s']:.4g}", f"{row['stolen_percent']:.1f} %", f"{row['busy_before_percent']:.0f} %",
                      f"{typical} of {len(own)}"))
    return lines
