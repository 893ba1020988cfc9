#!/usr/bin/env python3
"""Writes the tables of codecs in README.md and docs/codecs.md from the registry (terngrad_train --list_codecs_json).

    scripts/dev/codec_tables.py --program build/ci/bin/terngrad_train           # writes them
    scripts/dev/codec_tables.py --program build/ci/bin/terngrad_train --check   # exit code 1 if they differ, as in the tests
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/codecs.md"


def marks(name, script="codec_tables"):
    return f"<!-- {name}: scripts/dev/{script}.py -->", f"<!-- end of {name} -->"


def with_lines(text, name, lines, script="codec_tables"):
    """The text with these lines between the marks of that name. @param script  that writes them. @throws ValueError unless they
    are there once"""
    begin, end = marks(name, script)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"expected one line '{begin}' and one '{end}'")
    before, rest = text.split(begin)
    return before + begin + "\n" + "".join(line + "\n" for line in lines) + end + rest.split(end)[1]


def code(words):
    return ", ".join(f"`{word}`" for word in words)


def fact_text(fact):
    """"yes", "no", "yes, not with `a=b`", "with `a=b`"."""
    if not fact["changed_by"]:
        return "yes" if fact["by_default"] else "no"
    return ("yes, not with " if fact["by_default"] else "with ") + code(fact["changed_by"])


def bits_text(codec):
    at_most = [f"at most {codec['most_bits']:.3f}"] if codec["most_bits"] else []
    text = ", ".join(at_most + [f"{bits:.3g}" for bits in codec["bits_per_element"]])
    return f"{text}; varies with {code(codec['varying_by'])}" if codec["varying_by"] else text


def gpus_text(codec):
    return "yes" if codec["runs_on_gpus"] else "through the host"


def overview(codecs, link):
    """One row for each codec. @param link  of a codec's name, {} its name"""
    lines = ["| codec | bits per element | unbiased | codes of workers add up | on GPUs | from |", "| --- | --- | --- | --- | --- | --- |"]
    for codec in codecs:
        adds_up = "as floats" if codec["sums_as_float"] else fact_text(codec["summable"])
        lines.append(f"| [`{codec['name']}`]({link.format(codec['name'])}) | {bits_text(codec)} | {fact_text(codec['unbiased'])} | "
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
            *(f"| `{preset['name']}` | `{preset['spec']}` | {preset['memory'] or 'of the codec'} | {preset['summary']} |"
              for preset in presets)]


def listed(program):
    return json.loads(subprocess.run([program, "--list_codecs_json"], check=True, capture_output=True, text=True).stdout)


def contents(root, registry):
    """{path: text} of both pages."""
    codecs = registry["codecs"]
    readme = (root / "README.md").read_text(encoding="utf-8")
    page = (root / PAGE).read_text(encoding="utf-8")
    page = with_lines(page, "codecs", overview(codecs, "#{}"))
    for codec in codecs:
        page = with_lines(page, f"keys of {codec['name']}", keys_table(codec))
    page = with_lines(page, "presets", presets_table(registry["presets"]))
    return {root / "README.md": with_lines(readme, "codecs", overview(codecs, PAGE + "#{}")), root / PAGE: page}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/terngrad_train", help="terngrad_train")
    parser.add_argument("--check", action="store_true", help="writes nothing; exit code 1 if a table differs")
    options = parser.parse_args(arguments)
    stale = [(path, text) for path, text in contents(ROOT, listed(options.program)).items()
             if path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from the registry' if options.check else 'written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
