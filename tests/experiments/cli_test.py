#!/usr/bin/env python3
"""Tests of the command line: positions of options, contents of help, and errors."""

import pathlib
import re
import tempfile
import unittest

from scaffold import DRIVER, ROOT, run_driver
from terngrad_experiments import cli

FOLDERS = ("out", "recipes", "results", "programs", "data")
# Each command with its required arguments.
COMMANDS = {"list": (), "run": (), "status": (), "table": ("fig3",), "plot": ("fig3",), "report": (), "import": ("run",),
            "readme": (), "check": ()}


def parse(*words):
    return cli.make_parser(str(DRIVER), DRIVER.parent).parse_args(words)


class Folders(unittest.TestCase):
    def test_stand_before_and_after_every_command_and_the_later_one_counts(self):
        for command, needed in COMMANDS.items():
            for name in FOLDERS:
                option, first, second = f"--{name}", pathlib.Path("first"), pathlib.Path("second")
                self.assertEqual(getattr(parse(option, "first", command, *needed), name), first)
                self.assertEqual(getattr(parse(command, *needed, option, "first"), name), first)
                self.assertEqual(getattr(parse(command, option, "first", *needed), name), first)
                self.assertEqual(getattr(parse(option, "first", command, *needed, f"{option}=second"), name), second)
                self.assertEqual(getattr(parse(command, *needed, option, "first", option, "second"), name), second)

    def test_one_after_the_command_leaves_those_before_it(self):
        options = parse("--out", "a", "--results", "b", "run", "smoke", "--recipes", "c")
        self.assertEqual((options.out, options.results, options.recipes), tuple(map(pathlib.Path, "abc")))

    def test_have_defaults_without_either(self):
        options = parse("run", "smoke")
        self.assertEqual((options.out, options.recipes), (pathlib.Path("experiments-out"), DRIVER.parent / "recipes"))
        self.assertEqual(options.data, ROOT / "data")

    def test_are_honoured_after_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            code, text, _ = run_driver("run", "smoke/n2-float", "--seeds", "1", "--dry_run", "--out", folder)
            self.assertEqual(code, 0)
            self.assertIn(f"--train_dir={folder}/runs/smoke/n2-float/seed-1", text)
            code, _, error = run_driver("list", "--recipes", folder)
            self.assertEqual((code, error), (2, f"terngrad_experiment: {folder}: there are no recipes (*.toml)\n"))

    def test_seeds_and_numbers_that_mean_nothing_are_refused(self):
        self.assertEqual(cli.parse_seeds("1-3,7"), [1, 2, 3, 7])
        for words in (("--seeds", "3-1"), ("--seeds", "1-3,2"), ("--seeds", "1-"), ("--seeds", "x"), ("--threads", "0"),
                      ("--threads", "-1"), ("--jobs", "0"), ("--jobs", "many")):
            code, text, error = run_driver("run", "smoke", "--dry_run", *words)
            self.assertEqual((code, text), (2, ""), words)
            self.assertIn(f"argument {words[0]}: ", error)

    def test_a_dry_run_names_the_folder_that_a_run_would_read(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("cifar10", "cifar-10"):
                if name == "cifar-10":
                    (pathlib.Path(folder) / name).mkdir()
                _, text, _ = run_driver("run", "table1/b128-n2-float", "--seeds", "1", "--dry_run", "--data", folder)
                self.assertIn(f"--data_dir={folder}/{name} ", text)

    def test_help_shows_each_once_in_a_group(self):
        for command in ((), *((name,) for name in COMMANDS)):
            code, text, _ = run_driver(*command, "--help")
            self.assertEqual(code, 0)
            listed = text.partition("\nfolders:\n")[2]
            for name in FOLDERS:
                self.assertEqual(len(re.findall(rf"^  --{name} DIR ", listed, re.MULTILINE)), 1, (command, name))
                self.assertEqual(len(re.findall(rf"^  --{name} ", text, re.MULTILINE)), 1, (command, name))
            self.assertNotIn("SUPPRESS", text)

    def test_same_commit_says_where_it_stands(self):
        for command in ("table", "plot", "report"):
            self.assertIn("must follow NAME", " ".join(run_driver(command, "--help")[1].split()))

    def test_a_percent_sign_in_a_default_is_shown_as_it_is(self):
        parser = cli.make_parser(str(DRIVER), pathlib.Path("/100%s"))
        self.assertIn("/100%s/recipes", parser.format_help().replace("\n" + " " * 18, ""))


if __name__ == "__main__":
    unittest.main()
