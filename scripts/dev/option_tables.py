#!/usr/bin/env python3
"""Writes what is known of the options of terngrad_train where its declarations cannot be read (terngrad_train
--list_options_json): the tables of docs/options.md, and scripts/common/train_options.json for scripts/plot_run.py.

    scripts/dev/option_tables.py --program build/ci/bin/terngrad_train           # writes them
    scripts/dev/option_tables.py --program build/ci/bin/terngrad_train --check   # exit code 1 if they differ, as in the tests
"""

import argparse
import json
import pathlib
import subprocess
import sys

from codec_tables import with_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/options.md"
COMPARED = "scripts/common/train_options.json"


def cell(text):
    return text.replace("|", "\\|")


def code(words):
    return ", ".join(f"`{word}`" for word in words)


def values_text(option):
    """What is accepted, with the default."""
    if option["type"] == "flag":
        values = "flag"
    elif option["accepted"].startswith("one of "):
        values = code(option["accepted"].removeprefix("one of ").split(", "))
    else:
        values = option["accepted"] or {"integer": "an integer", "number": "a number", "text": "text", "list": "text, repeatable"}[
            option["type"]]
    default = option["default"]
    return cell(values + (f"; `{default}`" if default and default != "false" else ""))


def needs_text(option):
    return cell("<br>".join(option["needs"]))


def role_text(option):
    """The role, and the entries of the identity unless that is one of the option's name."""
    keys = option["identity"]
    return option["role"] + (f": {code(keys)}" if keys and keys != [option["name"]] else "")


def group_table(options):
    lines = ["| option | accepted; default | role | needs | what it is |", "| --- | --- | --- | --- | --- |"]
    for option in options:
        names = code("--" + name for name in (option["name"], *option["aliases"]))
        lines.append(f"| {names} | {values_text(option)} | {role_text(option)} | {needs_text(option)} | {cell(option['help'])} |")
    return lines


def reference(options):
    """A table for each group of --help."""
    lines = []
    for group in dict.fromkeys(option["group"] for option in options):
        lines += ([""] if lines else []) + [f"### {group.partition(' (')[0]}", ""]
        lines += group_table([option for option in options if option["group"] == group])
    return lines


def original_table(registry):
    """What became of the original's options: those that are here, then those that are refused."""
    lines = ["| flag of the original | here |", "| --- | --- |"]
    for option in registry["options"]:
        if option["original"]:
            lines.append(f"| `{option['original_name']}` | {cell(option['original'])} |")
    reasons = {}
    for refused in registry["refused"]:
        reasons.setdefault(refused["reason"], []).append(refused["name"])
    return lines + [f"| {code(names)} | refused: {cell(reason)} |" for reason, names in reasons.items()]


def own_options(registry):
    """One line with the names that only this program has."""
    return [code("--" + option["name"] for option in registry["options"] if not option["original"]) + "."]


def not_compared(options):
    """Options in which equal runs may differ."""
    return [option["name"] for option in options if not option["compared"]]


def listed(program):
    return json.loads(subprocess.run([program, "--list_options_json"], check=True, capture_output=True, text=True).stdout)


def contents(root, registry):
    """{path: text} of both files."""
    page = (root / PAGE).read_text(encoding="utf-8")
    page = with_lines(page, "options of the original", original_table(registry), "option_tables")
    page = with_lines(page, "options of its own", own_options(registry), "option_tables")
    page = with_lines(page, "all options", reference(registry["options"]), "option_tables")
    compared = json.dumps({"not_compared": not_compared(registry["options"])}, indent=1) + "\n"
    return {root / PAGE: page, root / COMPARED: compared}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/terngrad_train", help="terngrad_train")
    parser.add_argument("--check", action="store_true", help="writes nothing; exit code 1 if a file differs")
    options = parser.parse_args(arguments)
    stale = [(path, text) for path, text in contents(ROOT, listed(options.program)).items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from the declarations' if options.check else 'written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
