"""Shared by tests of recipes: the project's recipes, and a folder for a test's own recipes."""

from scaffold import ROOT, InFolder

FOLDER = ROOT / "experiments" / "recipes"

RECIPE = """
[experiment]
name = "small"
title = "a recipe"
kind = "table"
source = "nowhere"
metric = "top1"
seeds = [1, 2]
test_examples = 1000
margin = 0.5
[options]
dataset = "synthetic"
net = "lenet"
optimizer = "momentum"
[[cell]]
name = "float"
options = {num_nodes = 2, batch_size = 8, max_steps = 600, grad_bits = 32}
paper = {top1 = 90.5, confidence = "A"}
[[cell]]
name = "ternary"
baseline = "float"
options = {num_nodes = 2, batch_size = 8, max_steps = 600, grad_bits = 1, clip_factor = 2.5}
paper = {top1 = 90.1, confidence = "B"}
assumed = ["clip_factor"]
[[variant]]
name = "slow"
options = {initial_learning_rate = 0.001}
[[variant]]
name = "original-scaler"
options = {scaler = "original"}
"""


def fields_of(cell, *names):
    return tuple(cell.options[name] for name in names)


class Folder(InFolder):
    def write(self, text, name="small.toml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def edited(self, *changes):
        text = RECIPE
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        return text
