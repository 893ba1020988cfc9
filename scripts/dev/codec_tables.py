#!/usr/bin/env python3
"""Writes the tables of codecs in README.md and docs/codecs.md from the registry (terngrad_train --list_codecs_json).

    scripts/dev/codec_tables.py --program build/ci/bin/terngrad_train           # writes them
    scripts/dev/codec_tables.py --program build/ci/bin/terngrad_train --check   # exit code 1 if they differ, as in the tests
"""

import re
import sys

from generated_tables import ROOT, answer, code, update, with_lines

PAGE = "docs/codecs.md"
SCRIPT = "codec_tables"


def fact_text(fact):
    """Text for a fact: "yes", "no", "yes, not with `a=b`", "with `a=b`"."""
    if not fact["changed_by"]:
        return "yes" if fact["by_default"] else "no"
    return ("yes, not with " if fact["by_default"] else "with ") + code(fact["changed_by"])


def measured_bits(page):
    """{spec: bits} from the table of docs/codecs.md that a test measures."""
    return {spec: float(bits) for spec, bits in re.findall(r"^\| `([^`]+)` \| ([\d.]+) \| [\d.e+-]+ \|$", page, re.MULTILINE)}


def bits_text(codec, measured):
    """Bits per element. @param measured  measured bits of the codec with defaults, if its size depends on the data or shape"""
    varying = [f"{measured:.2g} measured"] if codec["most_bits"] else []
    text = ", ".join(varying + [f"{bits:.3g}" for bits in codec["bits_per_element"]])
    return f"{text}; varies with {code(codec['varying_by'])}" if codec["varying_by"] else text


def gpus_text(codec):
    return "yes" if codec["runs_on_gpus"] else "through the host"


def overview(codecs, link, measured):
    """Table with a row per codec. @param link  format of a link, with {} for the codec's name. @param measured  measured_bits()"""
    lines = ["| codec | bits per element | unbiased | codes of workers add up | on GPUs | from |", "| --- | --- | --- | --- | --- | --- |"]
    for codec in codecs:
        adds_up = "as floats" if codec["sums_as_float"] else fact_text(codec["summable"])
        lines.append(f"| [`{codec['name']}`]({link.format(codec['name'])}) | {bits_text(codec, measured.get(codec['name']))} | {fact_text(codec['unbiased'])} | "
                     f"{adds_up} | {gpus_text(codec)} | {codec['source'] or 'baseline'} |")
    return lines


def keys_table(codec):
    if not codec["keys"]:
        return ["It has no keys."]
    return ["| key | default | accepted | meaning |", "| --- | --- | --- | --- |",
            *(f"| `{key['name']}` | {key['default']} | {key['accepted']} | {key['meaning'].replace('|', chr(92) + '|')} |"
              for key in codec["keys"])]


def presets_table(presets):
    if not presets:
        return ["There are none yet."]
    return ["| preset | stands for | memory | from |", "| --- | --- | --- | --- |",
            *(f"| `{preset['name']}` | `{preset['spec']}` | {preset['memory'] or 'that of the codec'} | {preset['summary']} |"
              for preset in presets)]


def combinations_table(combinations):
    """Table with a row per codec and a column per option, whose refusals are numbered and explained below."""
    options = combinations["options"]
    reasons = list(dict.fromkeys(reason for row in combinations["codecs"] for reason in row["refused"].values()))
    cells = [[f"no ({reasons.index(row['refused'][option]) + 1})" if option in row["refused"] else "yes" for option in options]
             for row in combinations["codecs"]]
    lines = [f"| codec of all tensors | {' | '.join(f'`{option}`' for option in options)} |", "| --- |" + " --- |" * len(options)]
    lines += [f"| `{row['spec']}` | {' | '.join(row_cells)} |" for row, row_cells in zip(combinations["codecs"], cells, strict=True)]
    return lines + ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]


def listed(program):
    return answer(program, "--list_codecs_json")


def contents(root, registry):
    """{path: text} of both pages."""
    codecs = registry["codecs"]
    readme = (root / "README.md").read_text(encoding="utf-8")
    page = (root / PAGE).read_text(encoding="utf-8")
    measured = measured_bits(page)
    page = with_lines(page, "codecs", overview(codecs, "#{}", measured), SCRIPT)
    for codec in codecs:
        page = with_lines(page, f"keys of {codec['name']}", keys_table(codec), SCRIPT)
    page = with_lines(page, "combinations", combinations_table(registry["combinations"]), SCRIPT)
    page = with_lines(page, "presets", presets_table(registry["presets"]), SCRIPT)
    return {root / "README.md": with_lines(readme, "codecs", overview(codecs, PAGE + "#{}", measured), SCRIPT), root / PAGE: page}


if __name__ == "__main__":
    sys.exit(update(__doc__, lambda program: contents(ROOT, listed(program))))
