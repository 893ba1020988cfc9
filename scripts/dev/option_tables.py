#!/usr/bin/env python3
"""Writes what is known of the options of terngrad_train where its declarations cannot be read (terngrad_train
--list_options_json): the tables of docs/options.md, and scripts/common/train_options.json for scripts/plot_run.py.

    scripts/dev/option_tables.py --program build/ci/bin/terngrad_train           # writes them
    scripts/dev/option_tables.py --program build/ci/bin/terngrad_train --check   # exit code 1 if they differ, as in the tests
"""

import json
import sys
import textwrap

from generated_tables import ROOT, answer, code, update, with_lines

PAGE = "docs/options.md"
SCRIPT = "option_tables"
COMPARED = "scripts/common/train_options.json"


def cell(text):
    return text.replace("|", "\\|")


def values_text(option):
    """The accepted values with the default."""
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
    """The role, with the option's entries in the identity if their names differ from the option."""
    keys = option["identity"]
    return option["role"] + (f": {code(keys)}" if keys and keys != [option["name"]] else "")


def group_table(options):
    lines = ["| option | accepted; default | role | needs | what it is |", "| --- | --- | --- | --- | --- |"]
    for option in options:
        names = code("--" + name for name in (option["name"], *option["aliases"]))
        lines.append(f"| {names} | {values_text(option)} | {role_text(option)} | {needs_text(option)} | {cell(option['help'])} |")
    return lines


def reference(options):
    """A table for each group of options in --help."""
    lines = []
    for group in dict.fromkeys(option["group"] for option in options):
        lines += ([""] if lines else []) + [f"### {group.partition(' (')[0]}", ""]
        lines += group_table([option for option in options if option["group"] == group])
    return lines


def original_table(registry):
    """Table of the original's options: supported ones, then rejected ones."""
    lines = ["| flag of the original | here |", "| --- | --- |"]
    for option in registry["options"]:
        if option["original"]:
            lines.append(f"| `{option['original_name']}` | {cell(option['original'])} |")
    reasons = {}
    for refused in registry["refused"]:
        reasons.setdefault(refused["reason"], []).append(refused["name"])
    return lines + [f"| {code(names)} | refused: {cell(reason)} |" for reason, names in reasons.items()]


def own_options(registry):
    """Names of options that the original lacks, in lines of at most 120 characters."""
    return textwrap.wrap(code("--" + option["name"] for option in registry["options"] if not option["original"]) + ".", 120,
                         break_on_hyphens=False)


def not_compared(options):
    """Options that may differ between equal runs."""
    return [option["name"] for option in options if not option["compared"]]


def listed(program):
    return answer(program, "--list_options_json")


def contents(root, registry):
    """{path: text} of both files."""
    page = (root / PAGE).read_text(encoding="utf-8")
    page = with_lines(page, "options of the original", original_table(registry), SCRIPT)
    page = with_lines(page, "options of its own", own_options(registry), SCRIPT)
    page = with_lines(page, "all options", reference(registry["options"]), SCRIPT)
    compared = json.dumps({"not_compared": not_compared(registry["options"])}, indent=1) + "\n"
    return {root / PAGE: page, root / COMPARED: compared}


if __name__ == "__main__":
    sys.exit(update(__doc__, lambda program: contents(ROOT, listed(program))))
