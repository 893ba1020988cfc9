#!/usr/bin/env python3
"""docs/options.md and scripts/common/train_options.json match the declared options; tests of their generator.

Argument: terngrad_train."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/dev"))

import option_tables  # noqa: E402

TRAIN = None


def option(**known):
    return {"name": "rate", "aliases": [], "group": "Model (or so)", "help": "a|b", "type": "number", "accepted": "", "default": "0.5",
            "role": "result", "identity": ["rate"], "compared": True, "needs": [], "original": "", "original_name": known.get("name", "rate"), **known}


class Files(unittest.TestCase):
    def test_both_are_what_the_declarations_say(self):
        for path, text in option_tables.contents(ROOT, option_tables.listed(TRAIN)).items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, "run scripts/dev/option_tables.py")


class Tables(unittest.TestCase):
    def test_values(self):
        self.assertEqual(option_tables.values_text(option()), "a number; `0.5`")
        self.assertEqual(option_tables.values_text(option(type="flag", default="false")), "flag")
        self.assertEqual(option_tables.values_text(option(type="text", accepted="one of a, b", default="a")), "`a`, `b`; `a`")
        self.assertEqual(option_tables.values_text(option(type="list", default="")), "text, repeatable")

    def test_rows(self):
        row = option(aliases=["lr"], identity=["rate", "first_rate"], needs=["x", "y"])
        self.assertEqual(option_tables.reference([row]), [
            "### Model", "", "| option | accepted; default | role | needs | what it is |", "| --- | --- | --- | --- | --- |",
            "| `--rate`, `--lr` | a number; `0.5` | result: `rate`, `first_rate` | x<br>y | a\\|b |"])

    def test_the_original(self):
        registry = {"options": [option(original="same"), option(name="own")],
                    "refused": [{"name": "a", "reason": "gone"}, {"name": "b", "reason": "gone"}]}
        self.assertEqual(option_tables.original_table(registry)[2:], ["| `rate` | same |", "| `a`, `b` | refused: gone |"])
        self.assertEqual(option_tables.own_options(registry), ["`--own`."])

    def test_what_is_not_compared(self):
        self.assertEqual(option_tables.not_compared([option(), option(name="log_steps", compared=False)]), ["log_steps"])


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
