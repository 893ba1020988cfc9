#!/usr/bin/env python3
"""The recipe reader refuses unknown, missing and inconsistent entries in one line that names the place."""

import unittest

from recipe_folder import FOLDER, RECIPE, Folder
from terngrad_experiments import recipes


class Refusals(Folder):
    def refuse(self, text, *parts):
        """Expects an error in one line that contains the parts."""
        path = self.write(text)
        with self.assertRaises(recipes.RecipeError) as caught:
            recipes.load_all(self.folder)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        for part in (path.name, *parts):
            self.assertIn(part, message)

    def test_the_recipe_itself_is_accepted(self):
        self.write(RECIPE)
        self.assertEqual(list(recipes.load_all(self.folder)), ["small"])

    def test_the_example_of_a_recipe_needs_no_kind_and_source(self):
        self.write(self.edited(('kind = "table"\nsource = "nowhere"\n', "")))
        self.assertEqual(recipes.load_all(self.folder)["small"].kind, "table")

    def test_what_is_no_toml(self):
        self.refuse("[experiment\nname = 1", "is not TOML", "line 1")

    def test_unknown_keys(self):
        self.refuse("speed = 1\n" + RECIPE, "'speed': is unknown", "accepted: experiment")
        self.refuse(self.edited(("margin = 0.5", "margins = 0.5")), "[experiment]", "'margins'", "margin")
        self.refuse(self.edited(('assumed = ["clip', 'asumed = ["clip')), "cell 'ternary'", "'asumed'")
        self.refuse(self.edited(('confidence = "B"', 'confidence = "B", top2 = 3')), "cell 'ternary'", "'paper'", "'top2'")
        self.refuse(self.edited(('name = "slow"', 'name = "slow"\nnames = 1')), "variant 'slow'", "'names'")
        over_steps = '[[curve]]\nname = "a"\nx = "step"\ny = "test_top1"\ncells = "*"\n'
        self.refuse(RECIPE + over_steps, "'curve'", "those of a table are over bytes")

    def test_missing_keys(self):
        self.refuse(self.edited(('title = "a recipe"\n', "")), "[experiment]", "'title': is missing")
        self.refuse(self.edited(("seeds = [1, 2]\n", "")), "'seeds': is missing")
        self.refuse(self.edited(('name = "ternary"\n', "")), "cell 2", "'name': is missing")
        self.refuse(self.edited(('dataset = "synthetic"\n', "")), "cell 'float'", "'dataset': is missing")
        self.refuse(self.edited(("max_steps = 600, ", "")), "cell 'float'", "'max_steps': is missing")
        self.refuse(RECIPE[:RECIPE.index("[[cell]]")], "'cell': there is none")

    def test_values_of_other_kinds(self):
        self.refuse(self.edited(("seeds = [1, 2]", "seeds = [1, 1]")), "'seeds': expected a list without repetitions")
        self.refuse(self.edited(("seeds = [1, 2]", "seeds = [true]")), "'seeds'", "integer")
        self.refuse(self.edited(('metric = "top1"', 'metric = "top2"')), "'metric': accepted: top1, top5")
        self.refuse(self.edited(('kind = "table"', 'kind = "tables"')), "'kind': accepted: table, figure, model, claims")
        self.refuse(self.edited(('name = "float"', 'name = "float@1"')), "'name': expected a name")
        self.refuse(self.edited(("margin = 0.5", "margin = 0")), "'margin': expected a number above 0")
        self.refuse(self.edited(("max_steps = 600", "max_steps = 600.0")), "cell 'float'", "'max_steps': expected an integer")
        self.refuse(self.edited(("batch_size = 8", "batch_size = 9")), "cell 'float'", "'batch_size': 9", "num_nodes 2")
        self.refuse(self.edited(("top1 = 90.5", "top1 = 905")), "cell 'float'", "'paper'", "'top1': expected percent")
        self.refuse(self.edited(("top1 = 90.5", "top1 = nan")), "'top1': expected a finite number")
        self.refuse(self.edited(('net = "lenet"', "net = {a = 1}")), "[options]", "'net'")

    def test_duplicate_names(self):
        self.refuse(self.edited(('name = "ternary"', 'name = "float"'), ('baseline = "float"\n', "")), "cell 'float'", "twice")
        self.refuse(self.edited(('name = "slow"', 'name = "original-scaler"')), "variant 'original-scaler'", "twice")
        self.write(RECIPE, "other.toml")
        self.refuse(RECIPE, "'name': other.toml has 'small' too")

    def test_a_missing_baseline(self):
        self.refuse(self.edited(('baseline = "float"', 'baseline = "flaot"')), "cell 'ternary'", "'baseline'", "'flaot'")
        self.refuse(self.edited(('baseline = "float"', 'baseline = "ternary"')), "cell 'ternary'", "'baseline'", "other cell")

    def test_a_baseline_that_differs_in_more_than_compression(self):
        for change in ("max_steps = 601", "optimizer = 'adam', max_steps = 600", "eval_steps = 5, max_steps = 600",
                       "floating_grad_epoch = 2, max_steps = 600", "reduce = 'sum', max_steps = 600"):
            name = change.split()[0]
            text = RECIPE.replace("max_steps = 600, grad_bits = 1", f"{change}, grad_bits = 1", 1)
            self.refuse(text, "cell 'ternary'", "'baseline'", f"differs in {name}")

    def test_a_baseline_may_have_the_momentum_in_its_optimizer(self):
        ternary = "grad_bits = 1, clip_factor = 2.5}"
        self.write(self.edited((ternary, 'codec = "dgc:density=0.01", optimizer = "gd"}')))
        recipes.load_all(self.folder)
        self.write(self.edited((ternary, 'codec = "topk", codec_memory = "dgc", optimizer = "gd"}')))
        recipes.load_all(self.folder)
        for options in ('codec = "topk", optimizer = "gd"}', 'codec = "dgc", optimizer = "adam"}',
                        'codec = "dgc", codec_memory = "ef", optimizer = "gd"}',
                        'codec = "topk", codec_memory = "dgc:momentum=0.5", optimizer = "gd"}'):
            self.refuse(self.edited((ternary, options)), "cell 'ternary'", "'baseline'", "differs in optimizer")

    def test_a_baseline_may_be_the_adam_of_one_that_sends_directions(self):
        adam = ("max_steps = 600", 'optimizer = "adam", max_steps = 600')
        ternary = "clip_factor = 2.5}"
        for options in ('optimizer = "onebit_adam", compress_from = 5}', 'optimizer = "zero_one_adam"}'):
            text = RECIPE.replace(*adam, 1).replace(ternary, f"clip_factor = 2.5, {options}", 1)
            self.write(text)
            recipes.load_all(self.folder)
            self.refuse(self.edited((ternary, f"clip_factor = 2.5, {options}")), "differs in ")

    def test_a_baseline_may_differ_in_compression_dropout_and_decay(self):
        more = ("codec = 'ternary', codec_for = ['*/biases=fp32'], scaler = 'paper', scaler_sharing = 'max', "
                "scaler_scope = 'block', clip_scope = 'local', block_size = 64, ternary_format = 't5', size_to_binarize = 2, "
                "quantize_logits = true, exchange = 'all_gather', downlink_codec = 'bf16', dropout_keep_prob = 0.8, "
                "weight_decay = 0.1")
        self.write(self.edited(("clip_factor = 2.5", f"clip_factor = 2.5, {more}")))
        recipes.load_all(self.folder)

    def test_a_float_baseline_may_have_another_number_of_workers(self):
        four = ("num_nodes = 2, batch_size = 8, max_steps = 600, grad_bits = 1",
                "num_nodes = 4, batch_size = 8, max_steps = 600, grad_bits = 1")
        self.write(self.edited(four))
        self.assertEqual(recipes.load_all(self.folder)["small"].cells[1].baseline, "float")
        self.refuse(self.edited((four[0], four[1].replace("batch_size = 8", "batch_size = 16"))), "differs in batch_size")

    def test_another_baseline_must_have_as_many_workers(self):
        four = ("num_nodes = 2, batch_size = 8, max_steps = 600, grad_bits = 1",
                "num_nodes = 4, batch_size = 8, max_steps = 600, grad_bits = 1")
        for bits, name in (("grad_bits = 1", "compression"), ("grad_bits = 16", "compression"),
                           ("codec = 'ternary'", "compression"), ("grad_bits = 32, codec_for = ['*=bf16']", "compression"),
                           ("grad_bits = 32, downlink_codec = 'bf16'", "downlink_codec")):
            self.refuse(self.edited(("grad_bits = 32", bits), four), "cell 'ternary'", "'baseline'",
                        "'float' differs in num_nodes; "
                        f"only a baseline may whose mean of gradients does not depend on it, as by its {name}")
        for both, name in (("reduce = 'sum'", "reduce"), ("strategy = 'async'", "strategy"),
                           ("clip_by_global_norm = 1.0", "clip_by_global_norm")):
            self.refuse(self.edited(('optimizer = "momentum"', both), four), "cell 'ternary'", "num_nodes", f"by its {name} ")

    def test_a_paper_value_without_confidence(self):
        self.refuse(self.edited((', confidence = "A"', "")), "cell 'float'", "'paper'", "'confidence': is missing")
        self.refuse(self.edited(('confidence = "A"', 'confidence = "E"')), "cell 'float'", "'confidence': accepted: A, B, C, D")
        self.refuse(self.edited(('top1 = 90.5, confidence', "confidence")), "cell 'float'", "'confidence': is of no value")
        self.refuse(self.edited(('{top1 = 90.5, confidence = "A"}', "{}")), "cell 'float'", "'confidence': is missing")
        self.refuse(self.edited(("top1 = 90.5", "top5 = 90.5")), "cell 'float'", "'paper': has no top1")
        self.refuse(self.edited(("top1 = 90.5", "zero_percent = 3")), "cell 'float'", "'zero_percent': is unknown")

    def test_options_that_are_not_a_recipes(self):
        for name in ("seed", "train_dir", "data_dir", "resume", "threads", "device"):
            self.refuse(self.edited(("grad_bits = 32", f"grad_bits = 32, {name} = 1")), "cell 'float'", f"'{name}'", "driver")
        self.refuse(self.edited(('optimizer = "momentum"', 'dataset_name = "mnist"')), "[options]", "'dataset_name'")

    def test_an_exponential_schedule_without_its_epochs(self):
        self.refuse(self.edited(('optimizer = "momentum"', 'learning_rate_decay_type = "exponential"')), "num_epochs_per_decay")

    def test_lists_of_steps_that_could_not_be_scaled(self):
        for name in ("eval_at", "learning_rate_boundaries"):
            for value in ("'0:100:10'", "'1,'", "''", "5", "['1', '2']"):
                self.refuse(self.edited(("[[cell]]", f"{name} = {value}\n[[cell]]")), f"'{name}'", "separated by commas")

    def test_availability_that_contradicts_itself(self):
        self.refuse(self.edited(("margin = 0.5", "available = false")), "[experiment]", "'needs': is missing")
        self.refuse(self.edited(("margin = 0.5", 'available = true\nneeds = ["a"]')), "'available'")

    def test_a_variant_that_changes_nothing(self):
        self.refuse(self.edited(("initial_learning_rate = 0.001", 'net = "lenet"')), "variant 'slow'", "'options'")

    def test_runs_of_cells_that_do_not_exist(self):
        for name in ("small/none", "small/*", "small", "small/float@slow~2", "small/ternary@none"):
            self.refuse(RECIPE + f'[[cell]]\nname = "view"\nruns_of = ["{name}"]\n', "cell 'view'", "'runs_of'", f"'{name}'")
        view = RECIPE + '[[cell]]\nname = "view"\n'
        self.refuse(view + 'runs_of = ["small/float"]\noptions = {net = "a"}\n', "cell 'view'", "'runs_of'")
        self.refuse(view + 'command = "true"\nbaseline = "float"\n', "cell 'view'", "'command'")

    def test_curves(self):
        figure = self.edited(('kind = "table"', 'kind = "figure"')) + '[[curve]]\nname = "a"\n'
        good = 'x = "num_nodes"\ny = "top1"\ncells = "*"\n'
        self.write(figure + good)
        recipes.load_all(self.folder)
        self.refuse(figure + good.replace('"*"', '"none-*"'), "curve 'a'", "'cells'", "'none-*'")
        self.refuse(figure + good.replace("num_nodes", "num_servers"), "curve 'a'", "'x'", "cell 'float'")
        self.refuse(figure + good.replace("num_nodes", "step"), "curve 'a'", "'x'", "top1")
        self.refuse(figure + good.replace('"top1"', '"top2"'), "curve 'a'", "'y': accepted")
        both = good + '[[curve]]\nname = "b"\nx = "value"\ny = "histogram/fc3/weights"\ncells = "*"\n'
        self.refuse(figure + both, "'curve': histograms (x = 'value') and other curves are recipes of their own")
        self.refuse(figure + good + "whole_axis = true\n", "curve 'a'", "'whole_axis'", "there are 5 over num_nodes")
        self.refuse(figure + good.replace("num_nodes", "step").replace('"top1"', '"train_loss"').replace('"*"', '"float"')
                    + "whole_axis = true\n", "curve 'a'", "'whole_axis'", "1 over step")
        self.write(RECIPE + '[[curve]]\nname = "a"\n' + good.replace("num_nodes", "bytes"))
        recipes.load_all(self.folder)
        self.refuse(figure + good.replace("num_nodes", "bytes") + 'paper = [{x = 1, y = 2, confidence = "A"}]\n', "curve 'a'",
                    "'x': bytes are those of our runs")
        self.refuse(figure + good + "paper = [{x = 1, y = 2}]\n", "curve 'a': paper 1", "'confidence': is missing")
        self.refuse(figure + good + 'paper = [{y = 2, cell = "b", confidence = "A"}]\n', "curve 'a': paper 1", "'cell'")

    def test_models(self):
        text = (FOLDER / "fig5.toml").read_text(encoding="utf-8")
        self.refuse(text.replace("[394, 758, ", "[394, "), "reading 1", "'images_per_second': expected 10 numbers")
        twice = text.replace('gradients = "ternary"', 'gradients = "fp32"', 1)
        self.refuse(twice, "'reading': a, alexnet, fp32 is there twice")
        self.refuse(text.replace("googlenet = 0.361, ", ""), "cluster a", "'fit'", "'step_seconds'", "'googlenet': is missing")
        self.refuse(text[:text.rindex("[[reading]]")], "'reading': there is none of b, vgg_a, ternary")
        self.refuse(text + '[[cell]]\nname = "a"\n', "'cell': is unknown")
        self.refuse(text.replace("latency_us = 290\n", "latency_us = 290\nspeed = 1\n"), "cluster a", "'fit'", "'speed'")

    def test_folders_without_recipes(self):
        with self.assertRaisesRegex(recipes.RecipeError, "there are no recipes"):
            recipes.load_all(self.folder)

    def test_presets(self):
        self.assertEqual(recipes.load_presets(self.folder), {})
        self.write('[presets]\nall = ["small/*~1/30", "small"]\n', "presets.toml")
        self.assertEqual(recipes.load_presets(self.folder), {"all": ("small/*~1/30", "small")})
        for text, part in (('[presets]\nall = "small"', "'all': expected a list"), ("[preset]\nall = []", "'preset'"),
                           ('[presets]\nall = ["a~2"]', "'all': scale '2'"),
                           ('[presets]\nall = ["/a"]', "'all': pattern '/a'")):
            self.write(text, "presets.toml")
            with self.assertRaises(recipes.RecipeError) as caught:
                recipes.load_presets(self.folder)
            self.assertIn("presets.toml", str(caught.exception))
            self.assertIn(part, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
