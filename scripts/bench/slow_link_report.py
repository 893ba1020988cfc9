"""Tables of bench_slow_link.py's results: the fastest codec on each link, and the predictions of terngrad_advise.

A baseline is the fastest row of its codec among ours and vendor's. A codec *pays* if its steps are at least 5 % faster than
those of fp32's baseline, *loses* if they are slower, and is *even* between: terngrad_advise recommends by the same margin.
"""

MARGIN = 1.05
SYSTEMS = ("terngrad", "vendor")  # systems that terngrad_advise compares
NAMES = {"none": "Unlimited"}
FLOATS = ("fp32", "bf16", "fp16")  # float codecs; others are also compared with bf16


def measured(rows, number):
    return [row for row in rows if number in row]


def baseline(rows, codec, number="steps_per_s", best=max):
    """The best `number` among our and vendor's rows of a codec, None without rows."""
    values = [row[number] for row in measured(rows, number) if row["codec"] == codec and row["system"] in SYSTEMS]
    return best(values, default=None)


def ratio(value, other):
    return value / other if value is not None and other is not None else None


def word_for(factor):
    """Verdict for a speed-up over fp32."""
    return "-" if factor is None else "pays" if factor >= MARGIN else "loses" if factor < 1 else "even"


def verdict(row, rows):
    """Verdict on a row with compression, by its steps; "-" for other rows."""
    if row["codec"] == "fp32" or row["system"] not in SYSTEMS or "steps_per_s" not in row:
        return "-"
    word = word_for(ratio(row["steps_per_s"], baseline(rows, "fp32")))
    against_bf16 = ratio(row["steps_per_s"], baseline(rows, "bf16"))
    is_compressed = row["codec"] not in FLOATS
    return f"{word}, loses to bf16" if is_compressed and against_bf16 is not None and against_bf16 < 1 else word


def advice_of(rows):
    return next((row["advice"] for row in rows if "advice" in row), None)


def is_recommended(row, advice):
    is_vendor = advice["recommended_exchange"] == "vendor"
    return row["codec"] == advice["recommended"] and row["system"] == ("vendor" if is_vendor else "terngrad")


def advised(row, advice):
    """The prediction of terngrad_advise for a row's exchange, in the words of `verdict`."""
    if advice is None or row["codec"] == "fp32" or row["system"] not in SYSTEMS:
        return "-"
    seconds = {(entry["codec"], entry["exchange"] == "vendor"): entry["step_seconds"] for entry in advice["codecs"]}

    def fastest(codec):
        return min(seconds[codec, is_vendor] for is_vendor in (False, True) if (codec, is_vendor) in seconds)

    own = seconds.get((row["codec"], row["system"] == "vendor"))
    if own is None:
        return "-"
    word = word_for(fastest("fp32") / own)
    if row["codec"] not in FLOATS and own > fastest("bf16"):
        word += ", loses to bf16"
    return f"{word} (recommended)" if is_recommended(row, advice) else word


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}g}" if value < 1000 else f"{value:.0f}"


def outcome(row):
    """Short text on a row's result."""
    for name in ("error", "skipped"):
        if name in row:
            return f"{name}: {row[name]}"
    if "advice" in row:
        return row["advice"]["recommendation"]
    return f"{number(row['steps_per_s'])} steps/s"


def cells(row, rows):
    sent = row.get("sent_bytes")
    launched = row.get("num_exchanges", row.get("num_steps"))
    sent_all = sent * launched if sent is not None and launched is not None else None
    payload = ratio(row.get("payload_mbit_per_s"), row.get("iperf3_mbit_per_s"))
    counted = ratio(max(row["interface_sent_bytes"]), sent_all) if "interface_sent_bytes" in row else None
    ddp = max((other["steps_per_s"] for other in measured(rows, "steps_per_s") if other["system"] == "ddp"), default=None)
    return [
        row["row"],
        number(row["steps_per_s"]),
        number(row.get("examples_per_s")),
        number(row.get("wire_seconds")),
        number(None if sent is None else sent * 1e-6),
        number(ratio(row["steps_per_s"], baseline(rows, "fp32"))),
        number(ratio(row["steps_per_s"], baseline(rows, "bf16"))),
        number(ratio(row["steps_per_s"], ddp)),
        verdict(row, rows),
        advised(row, advice_of(rows)),
        number(row.get("iperf3_mbit_per_s")),
        "-" if payload is None else f"{100 * payload:.0f} %",
        "-" if counted is None else f"{counted:.3f}",
        f"{row['stolen_percent']:.1f} %" if "stolen_percent" in row else "-",
    ]


HEADERS = ["row", "steps/s", "examples/s", "wire, s", "MB sent", "to fp32", "to bf16", "to DDP", "measured", "advised beforehand",
           "iperf3, Mbit/s", "payload of it", "interface / payload", "stolen"]


def table(rows):
    lines = [HEADERS, ["---"] * len(HEADERS), *(cells(row, rows) for row in measured(rows, "steps_per_s"))]
    return [f"| {' | '.join(line)} |" for line in lines]


def wire_lines(rows):
    """Lines on the reduction of wire time by a codec, where it is measured separately."""
    lines = []
    for row in measured(rows, "num_exchanges"):
        if row["codec"] in FLOATS:
            continue
        factors = [(codec, ratio(baseline(rows, codec, "wire_seconds", min), row["wire_seconds"])) for codec in ("fp32", "bf16")]
        text = ", ".join(f"1/{factor:.1f} of {codec}'s" for codec, factor in factors if factor is not None)
        if text:
            lines.append(f"- Wire time of {row['row']}, scalers included: {text}, the faster of ours and vendor's.")
    return lines


def comparison_lines(rows):
    """Lines on the fastest row and the speed of the recommended one."""
    advice = advice_of(rows)
    ours = [row for row in measured(rows, "steps_per_s") if row["system"] in SYSTEMS]
    if advice is None or not ours:
        return []

    fastest = max(ours, key=lambda row: row["steps_per_s"])
    best = max((row["steps_per_s"] for row in ours if is_recommended(row, advice)), default=None)
    name = ("vendor-" if advice["recommended_exchange"] == "vendor" else "") + advice["recommended"]
    part = "which was not measured" if best is None else f"which reaches {100 * best / fastest['steps_per_s']:.0f} % of it"
    measured_systems = "ours and vendor's" if any(row["system"] == "vendor" for row in ours) else "ours, vendor's not measured"
    return [f"- Fastest of {measured_systems}: {fastest['row']}. Recommended beforehand: {name}, {part}."]


def group_lines(rate, net, rows):
    lines = [f"## {net}, {NAMES.get(rate, rate)}", ""]
    advice = advice_of(rows)
    if advice:
        lines += [f"`terngrad_advise`, before: {advice['recommendation'].removeprefix('recommendation: ')}", ""]
    if measured(rows, "steps_per_s"):
        lines += [*table(rows), ""]
    notes = comparison_lines(rows) + wire_lines(rows)
    notes += [f"- {row['row']}: {outcome(row)}" for row in rows if "error" in row or "skipped" in row]
    return lines + ([*notes, ""] if notes else [])


def to_markdown(report):
    machine = report["machine"]
    lines = [
        "# Two hosts joined by slow links",
        "",
        f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel']}; {report['version']}; "
        f"{report['written']}.",
        "",
        "Steps per second to those of the fastest fp32, bf16 (ours or vendor's) and DDP row. A codec pays from 1.05 times fp32's "
        "on, and loses below 1. MB are those that a worker sends in a step, to others on its host too. `interface / payload` are the "
        "bytes that an interface counted to those of one worker's messages. `stolen` is processor time that other machines took while a row was measured.",
        "",
    ]
    groups = {}
    for row in report["rows"]:
        groups.setdefault((row["rate"], row["net"]), []).append(row)
    for (rate, net), rows in groups.items():
        lines += group_lines(rate, net, rows)
    lines += ["## Commands", "", "```", *(row["command"] for row in report["rows"]), "```"]
    return "\n".join(lines) + "\n"
