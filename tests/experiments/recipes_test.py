#!/usr/bin/env python3
"""Tests of recipe cells: patterns, variants, views, scale and command lines."""

import json
import unittest

from recipe_folder import FOLDER, RECIPE, Folder, fields_of
from terngrad_experiments import recipes


def option(arguments, name):
    return [argument.partition("=")[2] for argument in arguments if argument.startswith(f"--{name}=")]


class Cells(Folder):
    def setUp(self):
        super().setUp()
        self.write(RECIPE)
        self.write(RECIPE.replace('name = "small"', 'name = "smaller"'), "smaller.toml")
        view = '[[cell]]\nname = "view"\nruns_of = ["small/ternary", "small/float~1/3"]\nassumed = ["a view"]\n'
        claims = self.edited(('name = "small"', 'name = "views"'), ('kind = "table"', 'kind = "claims"'))
        self.write(claims + view, "views.toml")
        self.experiments = recipes.load_all(self.folder)

    def names(self, pattern):
        return [cell.full_name for cell in recipes.match(self.experiments, pattern)]

    def cell(self, name):
        (cell,) = recipes.match(self.experiments, name)
        return cell

    def test_experiments_are_frozen(self):
        with self.assertRaises(AttributeError):
            self.experiments["small"].name = "other"
        with self.assertRaises(AttributeError):
            self.cell("small/float").name = "other"
        self.assertEqual(len({self.cell("small/float"), self.cell("small/float"), self.cell("small/ternary")}), 2)

    def test_options_of_the_experiment_are_those_of_its_cells(self):
        cell = self.cell("small/ternary")
        self.assertEqual(cell.options, {"dataset": "synthetic", "net": "lenet", "optimizer": "momentum", "num_nodes": 2,
                                        "batch_size": 8, "max_steps": 600, "grad_bits": 1, "clip_factor": 2.5})
        self.assertEqual((cell.seeds, cell.margin, cell.assumed, cell.needs), ((1, 2), 0.5, ("clip_factor",), ()))
        json.dumps(cell.options)

    def test_globs(self):
        self.assertEqual(self.names("small/float"), ["small/float"])
        self.assertEqual(self.names("small/*"), ["small/float", "small/ternary"])
        self.assertEqual(self.names("small"), ["small/float", "small/ternary"])
        self.assertEqual(self.names("small*/t?rnary"), ["small/ternary", "smaller/ternary"])
        self.assertEqual(self.names("none/*"), [])
        self.assertEqual(self.names("small/none"), [])
        self.assertEqual(len(self.names("*")), len(set(self.names("*"))))

    def test_variants_only_if_asked_for(self):
        self.assertEqual(self.names("small/*@slow"), ["small/float@slow", "small/ternary@slow"])
        self.assertEqual(self.names("small/*@original-scaler"), ["small/ternary@original-scaler"])
        self.assertEqual(len(self.names("small/*@*")), 3)
        self.assertEqual(self.names("small/*@none"), [])

    def test_the_baseline_of_a_variant(self):
        self.assertEqual(self.cell("small/ternary@slow").baseline, "float@slow")
        self.assertEqual(self.cell("small/ternary@original-scaler").baseline, "float")
        self.assertEqual(self.cell("small/ternary@original-scaler").options["scaler"], "original")
        self.assertIsNone(self.cell("small/float@slow").baseline)

    def test_names_with_scale(self):
        cell = self.cell("small/ternary@slow~1/30")
        self.assertEqual((cell.full_name, cell.base_name, cell.short_name, cell.scale),
                         ("small/ternary@slow~1/30", "small/ternary@slow", "ternary@slow", "1/30"))
        self.assertEqual(self.names("small/*~1/30"), ["small/float~1/30", "small/ternary~1/30"])
        self.assertEqual(self.names("small/float~1"), ["small/float"])

    def test_malformed_patterns(self):
        for pattern in ("small/float~", "small/float@", "/float", "", "small/float~30", "small/float~1/0", "small/float~0.5",
                        "none/none~x", "small/float~1/3@slow"):
            with self.assertRaises(recipes.RecipeError, msg=pattern):
                recipes.match(self.experiments, pattern)

    def test_a_view_stands_for_the_runs_that_it_looks_at(self):
        self.assertEqual(self.names("views/view"), ["small/ternary", "small/float~1/3"])
        self.assertEqual([cell.name for cell in self.experiments["views"].cells], ["float", "ternary", "view"])
        with self.assertRaisesRegex(recipes.RecipeError, "no runs of its own"):
            recipes.command_line(self.experiments["views"].cells[2], 1, "out")

    def test_a_view_that_needs_more_is_left_as_it_is(self):
        claims = self.edited(('name = "small"', 'name = "views"'), ('kind = "table"', 'kind = "claims"'))
        view = '[[cell]]\nname = "view"\nruns_of = ["small/float"]\nneeds = ["a microscope"]\n'
        self.write(claims + view, "views.toml")
        (cell,) = recipes.match(recipes.load_all(self.folder), "views/view~1/2")
        self.assertEqual((cell.full_name, cell.needs, cell.options), ("views/view", ("a microscope",), {}))


class Scale(Folder):
    def scaled(self, scale, more="", schedule="exponential"):
        rate = f'learning_rate_decay_type = "{schedule}"\nnum_epochs_per_decay = 20.0'
        self.write(self.edited(("[[cell]]", f"{more}\n[[cell]]"), ('optimizer = "momentum"', rate)))
        (cell,) = recipes.match(recipes.load_all(self.folder), "small/ternary")
        return recipes.scaled(cell, scale)

    def test_steps_epochs_and_evaluations_shrink_and_nothing_else_does(self):
        whole, part = self.scaled("1", "eval_steps = 60"), self.scaled("1/10", "eval_steps = 60")
        changed = {name: part.options[name] for name in whole.options if part.options[name] != whole.options[name]}
        self.assertEqual(changed, {"max_steps": 60, "num_epochs_per_decay": 2, "eval_steps": 6})
        self.assertEqual((whole.scale, part.scale, part.full_name), ("1", "1/10", "small/ternary~1/10"))

    def test_rounding_is_to_the_nearest_halves_up_at_least_1(self):
        part = self.scaled("1/16", "eval_steps = 40")  # 37.5, 2.5, 1.25
        self.assertEqual(fields_of(part, "max_steps", "eval_steps", "num_epochs_per_decay"), (38, 3, 1.25))
        part = self.scaled("1/100000", "eval_steps = 40")
        self.assertEqual(fields_of(part, "max_steps", "eval_steps", "num_epochs_per_decay"), (1, 1, 0.0002))

    def test_lists_of_steps_shrink_too(self):
        part = self.scaled("1/100", 'eval_at = "0,50,100,140,600"\nlearning_rate_boundaries = "300,400"')
        self.assertEqual(fields_of(part, "max_steps", "eval_at", "learning_rate_boundaries"), (6, "0,1,6", "3,4"))
        with self.assertRaisesRegex(recipes.RecipeError, "'300,310' has boundaries that are one at scale 1/100"):
            self.scaled("1/100", 'learning_rate_boundaries = "300,310"')

    def test_evaluation_at_the_end_only_stays_that(self):
        self.assertEqual(self.scaled("1/10", "eval_steps = 0").options["eval_steps"], 0)

    def test_epochs_of_other_schedules_stay(self):
        self.assertEqual(self.scaled("1/10", schedule="polynomial").options["num_epochs_per_decay"], 20.0)

    def test_the_recorded_cifar_runs_are_a_thirtieth(self):
        (cell,) = recipes.match(recipes.load_all(FOLDER), "table1/b128-n2-ternary~1/30")
        self.assertEqual(fields_of(cell, "max_steps", "eval_steps", "batch_size"), (10000, 200, 128))

    def test_a_scaled_cell_is_not_scaled_again(self):
        cell = self.scaled("1/10")
        self.assertEqual(recipes.scaled(cell, "1/10"), cell)
        self.assertEqual(recipes.scaled(cell, "1"), cell)
        with self.assertRaisesRegex(recipes.RecipeError, "small/ternary~1/10: is scaled already, asked for 1/5"):
            recipes.scaled(cell, "1/5")

    def test_other_scales(self):
        for scale in ("2", "0", "1/0", "1/-3", "3/4", "0.5", "1/30 ", "", "1/x"):
            with self.assertRaisesRegex(recipes.RecipeError, "expected 1/N"):
                self.scaled(scale)


class CommandLines(Folder):
    def test_options_come_by_name_then_seed_and_folders(self):
        experiments = recipes.load_all(FOLDER)
        (cell,) = recipes.match(experiments, "table1/b128-n2-ternary~1/30")
        self.assertEqual(recipes.command_line(cell, 2, "runs/a", "data/cifar10"), [
            "--batch_size=128", "--clip_factor=2.5", "--dataset=cifar10", "--ema_decay=0.9999", "--eval_steps=200",
            "--grad_bits=1", "--image_size=24", "--initial_learning_rate=0.0002", "--learning_rate_decay_type=fixed",
            "--max_steps=10000", "--net=cifar10_alexnet", "--num_nodes=2", "--optimizer=adam", "--quantize_logits=true",
            "--weight_decay=0.004", "--seed=2", "--train_dir=runs/a", "--data_dir=data/cifar10"])

    def test_the_built_in_set_has_no_folder(self):
        (cell,) = recipes.match(recipes.load_all(FOLDER), "smoke/n2-float")
        self.assertEqual(recipes.command_line(cell, 1, "out")[-2:], ["--seed=1", "--train_dir=out"])
        self.assertFalse(option(recipes.command_line(cell, 1, "out", None), "data_dir"))

    def test_the_order_is_not_the_files(self):
        self.write(RECIPE)
        (first,) = recipes.match(recipes.load_all(self.folder), "small/float")
        self.write(self.edited(("num_nodes = 2, batch_size = 8", "batch_size = 8, num_nodes = 2")))
        (second,) = recipes.match(recipes.load_all(self.folder), "small/float")
        self.assertEqual(recipes.command_line(first, 1, "out"), recipes.command_line(second, 1, "out"))

    def test_values(self):
        self.write(self.edited(('optimizer = "momentum"', "weight_decay = 4e-5\nnan_to_zero = false\nmomentum = 1.0"),
                               ("clip_factor = 2.5", 'codec_for = ["conv1/*=fp32", "*/biases=bf16"]')))
        (cell,) = recipes.match(recipes.load_all(self.folder), "small/ternary")
        line = recipes.command_line(cell, 1, "out")
        self.assertEqual([float(value) for value in option(line, "weight_decay")], [4e-5])
        self.assertEqual(option(line, "nan_to_zero"), ["false"])
        self.assertEqual(option(line, "codec_for"), ["conv1/*=fp32", "*/biases=bf16"])


if __name__ == "__main__":
    unittest.main()
