#!/usr/bin/env python3
"""The recipes have the paper's numbers and settings, and list the assumed ones."""

import math
import unittest

from recipe_folder import FOLDER, fields_of
from terngrad_experiments import paper_model, recipes

# Wen et al., tables 1 to 3: (workers, batch, steps, learning rate) and top-1, top-5 in percent.
TABLE1 = {"b128-n2-float": ((2, 128, 300000), 86.56), "b128-n2-ternary": ((2, 128, 300000), 85.64),
          "b2048-n16-float": ((16, 2048, 18750), 83.19), "b2048-n16-ternary": ((16, 2048, 18750), 82.80)}
TABLE2 = {"n2-float": ((2, 256, 370000, 0.01), 0.5, (57.33, 80.56)),
          "n2-ternary": ((2, 256, 370000, 0.01), 0.2, (57.61, 80.47)),
          "n2-ternary-noclip": ((2, 256, 370000, 0.01), 0.2, (54.63, 78.16)),
          "n4-float": ((4, 512, 185000, 0.02), 0.5, (57.32, 80.73)),
          "n4-ternary": ((4, 512, 185000, 0.02), 0.2, (57.28, 80.23)),
          "n8-float": ((8, 1024, 92500, 0.04), 0.5, (56.62, 80.28)),
          "n8-ternary": ((8, 1024, 92500, 0.04), 0.2, (57.54, 80.25))}
TABLE3 = {"n2-float": ((2, 128, 600000, 0.04), 4e-5, 0.2, 88.30), "n2-ternary": ((2, 128, 600000, 0.04), 1e-5, 0.08, 86.77),
          "n4-float": ((4, 256, 300000, 0.08), 4e-5, 0.2, 87.82), "n4-ternary": ((4, 256, 300000, 0.08), 1e-5, 0.08, 85.96),
          "n8-float": ((8, 512, 300000, 0.10), 4e-5, 0.2, 89.00), "n8-ternary": ((8, 512, 300000, 0.10), 2e-5, 0.08, 86.47)}
# Figure 3: the float baseline, then 2 to 64 workers.
WORKERS = (2, 4, 8, 16, 32, 64)
FIGURE3 = {"momentum": ("momentum", 0.01, 99.20, (99.22, 99.09, 99.11, 99.26, 99.35, 99.21)),
           "vanilla": ("gd", 0.1, 99.25, (99.23, 99.09, 99.03, 99.20, 99.22, 99.17))}
# Figure 5: images/s with fp32 and ternary gradients, and their ratio computed from the chart, for 1 to 512 GPUs.
FIGURE5 = {
    ("a", "alexnet"): ((394, 758, 1503, 719, 830, 1667, 3251, 6542, 13043, 25709),
                       (387, 768, 1536, 2189, 3459, 6833, 13626, 26959, 53126, 99417),
                       (.98, 1.01, 1.02, 3.04, 4.17, 4.10, 4.19, 4.12, 4.07, 3.87)),
    ("a", "googlenet"): ((174, 348, 692, 850, 1283, 2500, 4917, 9709, 19000, 36542),
                         (174, 348, 696, 1231, 2326, 4459, 8793, 17167, 33167, 62542),
                         (1.0, 1.0, 1.01, 1.45, 1.81, 1.78, 1.79, 1.77, 1.75, 1.71)),
    ("a", "vgg_a"): ((95, 167, 318, 49, 52, 126, 209, 417, 834, 1667), (89, 174, 351, 322, 420, 876, 1667, 3251, 6417, 12584),
                     (.94, 1.04, 1.10, 6.6, 8.1, 7.0, 8.0, 7.8, 7.7, 7.55)),
    ("b", "alexnet"): ((436, 867, 1734, 2787, 5301, 10349, 20403, 40707, 80920, 161548),
                       (427, 854, 1712, 3347, 6602, 13207, 26513, 52928, 105660, 211225),
                       (.98, .99, .99, 1.20, 1.25, 1.28, 1.30, 1.30, 1.31, 1.31)),
    ("b", "googlenet"): ((194, 388, 776, 1501, 2972, 5914, 11827, 23556, 46916, 93931),
                         (194, 388, 772, 1540, 3071, 6110, 12221, 24543, 48985, 97973),
                         (1.0, 1.0, .99, 1.03, 1.03, 1.03, 1.03, 1.04, 1.04, 1.04)),
    ("b", "vgg_a"): ((108, 207, 410, 406, 720, 1282, 2662, 5124, 10251, 20305),
                     (95, 194, 388, 716, 1410, 2760, 5520, 11139, 22176, 44254),
                     (.88, .94, .95, 1.77, 1.96, 2.15, 2.07, 2.17, 2.16, 2.18))}
DOWNLINK = {2: 13.78, 4: 10.09, 8: 7.83, 16: 6.34, 64: 4.56, 128: 4.00, 512: 3.20}
# Options that terngrad_train refuses without the codec ternary.
OF_TERNARY = {"clip_factor", "scaler", "clip_scope", "ternary_format", "block_size", "size_to_binarize", "quantize_logits"}


class Published(unittest.TestCase):
    """Recipes of the paper."""

    @classmethod
    def setUpClass(cls):
        cls.experiments = recipes.load_all(FOLDER)

    def cell(self, name):
        (cell,) = recipes.match(self.experiments, name)
        return cell

    def cells(self, experiment):
        return {cell.name: cell for cell in self.experiments[experiment].cells}

    def test_each_recipe_is_there_under_the_name_of_its_file(self):
        self.assertEqual(list(self.experiments),
                         ["codecs", "codecs-cifar", "less-error", "open-questions", "smoke", "table1", "table2", "table3", "fig2", "fig3", "fig4",
                          "resnet", "time-to-accuracy", "fig5", "text-claims"])
        for name in self.experiments:
            self.assertEqual(recipes.load(FOLDER / f"{name}.toml"), self.experiments[name])

    def test_table_1(self):
        cells = self.cells("table1")
        self.assertEqual(set(cells), set(TABLE1))
        for name, (shape, top1) in TABLE1.items():
            cell = cells[name]
            self.assertEqual(fields_of(cell, "num_nodes", "batch_size", "max_steps"), shape)
            self.assertEqual(cell.paper, {"top1": top1, "confidence": "A"})
            self.assertEqual(fields_of(cell, "dataset", "net", "image_size", "optimizer", "initial_learning_rate",
                                       "learning_rate_decay_type", "weight_decay", "ema_decay"),
                             ("cifar10", "cifar10_alexnet", 24, "adam", 0.0002, "fixed", 0.004, 0.9999))
            if name.endswith("ternary"):
                self.assertEqual(fields_of(cell, "grad_bits", "clip_factor", "quantize_logits"), (1, 2.5, True))
        self.assertEqual([cells[name].margin for name in ("b128-n2-ternary", "b2048-n16-ternary")], [0.92, 0.39])

    def test_table_2(self):
        cells = self.cells("table2")
        self.assertEqual(set(cells), set(TABLE2))
        for name, (shape, dropped, (top1, top5)) in TABLE2.items():
            cell = cells[name]
            self.assertEqual(fields_of(cell, "num_nodes", "batch_size", "max_steps", "initial_learning_rate"), shape)
            self.assertEqual(cell.options["batch_size"], 128 * cell.options["num_nodes"])
            self.assertAlmostEqual(1 - cell.options["dropout_keep_prob"], dropped)
            self.assertEqual(cell.paper, {"top1": top1, "top5": top5, "confidence": "A"})
            self.assertEqual(fields_of(cell, "optimizer", "momentum", "weight_decay", "learning_rate_decay_type",
                                       "num_epochs_per_decay", "learning_rate_decay_factor", "image_size"),
                             ("momentum", 0.9, 0.0005, "exponential", 20, 0.1, 224))
            if "ternary" in name:
                self.assertEqual(fields_of(cell, "grad_bits", "clip_factor", "size_to_binarize"),
                                 (1, 0 if name.endswith("noclip") else 2.5, 9217))
                self.assertNotIn("quantize_logits", cell.options)
            self.assertEqual(cell.needs, ())

    def test_table_3(self):
        cells = self.cells("table3")
        self.assertEqual(set(cells), set(TABLE3))
        for name, (shape, decay, dropped, top5) in TABLE3.items():
            cell = cells[name]
            self.assertEqual(fields_of(cell, "num_nodes", "batch_size", "max_steps", "initial_learning_rate"), shape)
            self.assertEqual(cell.options["weight_decay"], decay)
            self.assertAlmostEqual(1 - cell.options["dropout_keep_prob"], dropped)
            self.assertEqual(cell.paper, {"top5": top5, "confidence": "A"})
            self.assertEqual(fields_of(cell, "optimizer", "learning_rate_decay_type"), ("momentum", "polynomial"))
            self.assertEqual(cell.needs, ())
        self.assertEqual(self.experiments["table3"].metric, "top5")

    def test_figure_3(self):
        cells = self.cells("fig3")
        self.assertEqual(len(cells), 2 * (1 + 6))
        for name, (optimizer, rate, line, values) in FIGURE3.items():
            baseline = f"{name}-n8-float"
            expected = {baseline: (8, line)} | {f"{name}-n{n}-ternary": (n, value) for n, value in zip(WORKERS, values)}
            for cell, (workers, top1) in ((cells[key], value) for key, value in expected.items()):
                self.assertEqual(cell.paper, {"top1": top1, "confidence": "A"})
                self.assertEqual(fields_of(cell, "dataset", "net", "num_nodes", "batch_size", "max_steps", "optimizer",
                                           "initial_learning_rate", "learning_rate_decay_type", "weight_decay"),
                                 ("mnist", "lenet", workers, 64, 10000, optimizer, rate, "polynomial", 0.0005))
                if cell.name == baseline:
                    self.assertEqual((cell.options["grad_bits"], cell.baseline), (32, None))
                else:
                    self.assertEqual(fields_of(cell, "grad_bits", "clip_factor", "quantize_logits"), (1, 2.5, True))
                    self.assertEqual(cell.baseline, baseline)
        experiment = self.experiments["fig3"]
        self.assertEqual((experiment.margin, experiment.reading_error), (0.22, 0.01))

    def test_figure_3_has_the_envelope_that_the_text_states(self):
        cells = self.cells("fig3")
        gaps = [cell.paper["top1"] - cells[cell.baseline].paper["top1"] for cell in cells.values() if cell.baseline]
        self.assertEqual((round(max(gaps), 2), round(min(gaps), 2)), (0.15, -0.22))

    def test_curves_of_figure_3_have_the_papers_points(self):
        experiment = self.experiments["fig3"]
        self.assertEqual([curve.name for curve in experiment.curves],
                         ["momentum-ternary", "momentum-float", "vanilla-ternary", "vanilla-float"])
        points = experiment.paper_points(experiment.curves[0])
        self.assertEqual([(point.x, point.y, point.error, point.confidence) for point in points],
                         [(n, y, 0.01, "A") for n, y in zip(WORKERS, FIGURE3["momentum"][3])])
        (line,) = experiment.paper_points(experiment.curves[1])
        self.assertEqual((line.x, line.y, line.error), (None, 99.20, 0.01))  # no x: a line across the plot

    def test_variants_of_figure_3_leave_float_cells_alone(self):
        experiment = self.experiments["fig3"]
        self.assertEqual(len(recipes.match(self.experiments, "fig3/*@noclip")), 12)
        self.assertEqual(self.cell("fig3/momentum-n8-ternary@noclip").options["clip_factor"], 0)
        logits = self.cell("fig3/momentum-n8-ternary@float-logits")
        self.assertIs(logits.options["quantize_logits"], False)
        self.assertEqual(logits.baseline, "momentum-n8-float")
        self.assertEqual(len(experiment.variant_cells()), 24)

    def test_figure_4(self):
        experiment = self.experiments["fig4"]
        cells = self.cells("fig4")
        self.assertEqual(cells["alexnet-n4-ternary"].runs_of, ("table2/n4-ternary",))
        self.assertEqual(cells["alexnet-n4-float"].runs_of, ("table2/n4-float",))
        self.assertEqual(cells["cifarnet-n4-ternary"].options["num_nodes"], 4)
        points = {curve.name: [(point.x, point.y, point.low, point.high) for point in experiment.paper_points(curve)]
                  for curve in experiment.curves}
        self.assertEqual(points["a-alexnet"], 2 * [(185000, 57.3, None, None)])
        self.assertEqual(points["b-alexnet"], [(185000, 1.4, None, None), (185000, 1.2, None, None)])
        self.assertEqual(points["c-alexnet"], [(None, 71.6, 67.9, 73.5)])
        self.assertEqual(points["c-cifarnet"], [])

    def test_the_stand_in_of_figure_4_is_table_1_with_4_workers(self):
        for kind in ("float", "ternary"):
            stand_in, row = self.cell(f"fig4/cifarnet-n4-{kind}").options, self.cell(f"table1/b128-n2-{kind}").options
            self.assertEqual({name for name in {*row, *stand_in} if row.get(name) != stand_in.get(name)},
                             {"num_nodes", "eval_steps"})

    def test_figure_2_looks_at_runs_of_tables(self):
        cells = self.cells("fig2")
        self.assertEqual(cells["alexnet-n2-ternary"].runs_of, ("table2/n2-ternary",))
        (name,) = cells["cifarnet-n2-ternary"].runs_of
        self.assertEqual(fields_of(self.cell(name), "num_nodes", "max_steps"), (2, 10000))
        self.assertEqual([cell.is_available for cell in cells.values()], [True, True])
        self.assertEqual([curve.y for curve in self.experiments["fig2"].curves],
                         [f"histogram/{tensor}/weights" for tensor in ("conv3_1", "fc6", "conv2", "fc3")])

    def test_figure_5_has_all_120_bars(self):
        model = self.experiments["fig5"].model
        self.assertEqual(model.gpus, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
        self.assertEqual(sum(len(one.images_per_second) for one in model.readings), 120)
        for (cluster, net), (fp32, ternary, ratios) in FIGURE5.items():
            self.assertEqual(model.reading(cluster, net, "fp32").images_per_second, fp32)
            self.assertEqual(model.reading(cluster, net, "ternary").images_per_second, ternary)
            for theirs, ours, ratio in zip(fp32, ternary, ratios):
                self.assertAlmostEqual(ours / theirs, ratio, delta=0.051 if ratio > 5 else 0.0101)
        self.assertEqual(model.reading("a", "vgg_a", "fp32").weights, (1, 1, 1, 1, 1, 0.3, 0.3, 1, 1, 1))
        self.assertEqual([cluster.file for cluster in model.clusters], ["paper-ethernet.json", "paper-infiniband.json"])
        errors = [model.reading_error(*place) for place in (("a", 16), ("a", 32), ("b", 16), ("b", 32))]
        self.assertEqual(errors, [4, 40, 4, 100])
        self.assertEqual([(one.cluster, one.net, one.gpus, one.value, one.confidence) for one in model.speed_ups],
                         [("a", "alexnet", 8, 3.04, "B"), ("b", "vgg_a", 512, 2, "B")])

    def test_figure_5_fits_as_well_as_its_recipe_says(self):
        model = self.experiments["fig5"].model
        for cluster in model.clusters:
            self.assertAlmostEqual(paper_model.rms_percent(model, cluster), cluster.fit.rms_percent, delta=0.005)

    def test_nets_of_figure_5(self):
        nets = {net.name: net for net in self.experiments["fig5"].model.nets}
        self.assertEqual({name: (net.parameters, net.last_layer, net.batch, net.batch_stated) for name, net in nets.items()},
                         {"alexnet": (60969321, 4101097, 256, 128), "googlenet": (6618649, 1026025, 64, 64),
                          "vgg_a": (132867433, 4101097, 32, 32)})

    def test_claims(self):
        cells = self.cells("text-claims")
        papers = {name: cell.paper for name, cell in cells.items() if cell.paper}
        self.assertEqual(papers.pop("text-clip"),
                         {"norm_change_percent": (1.0, 1.5), "angle_degrees": (2.0, 3.0), "confidence": "A"})
        self.assertEqual(papers.pop("text-sparsity"), {"zero_percent": 71.32, "confidence": "B"})
        self.assertEqual(papers.pop("text-noclip"), {"top1_gap": -2.98, "confidence": "D"})
        self.assertEqual(papers.pop("text-bits"), {"uplink_ratio": 20.18, "confidence": "B"})
        self.assertEqual(papers.pop("text-bits-2bit"), {"uplink_ratio": 16, "confidence": "B"})
        for workers, ratio in DOWNLINK.items():
            self.assertEqual(papers.pop(f"text-bits-down-n{workers}"), {"downlink_ratio": ratio, "confidence": "D"})
            self.assertAlmostEqual(32 / math.log2(1 + 2 * workers), ratio, delta=0.006)
        self.assertEqual(papers, {})

    def test_the_gap_of_noclip_is_that_of_its_runs(self):
        first, second = (self.cell(name).paper["top1"] for name in self.cells("text-claims")["text-noclip"].runs_of)
        self.assertEqual(round(first - second, 2), -2.98)

    def test_smoke(self):
        for cell in self.experiments["smoke"].cells:
            self.assertEqual(fields_of(cell, "dataset", "net", "num_nodes", "max_steps"), ("synthetic", "lenet", 2, 60))
            self.assertEqual(cell.seeds, (1, 2))
            self.assertIsNone(cell.paper)
        self.assertEqual([cell.options["grad_bits"] for cell in self.experiments["smoke"].cells], [32, 1])

    def test_ternary_cells_have_baselines_and_float_cells_no_options_of_codecs(self):
        for experiment in self.experiments.values():
            for cell in (each for each in experiment.all_cells() if each.options):
                # Their float runs have other baselines or learning rates.
                if cell.options.get("strategy") != "async" and cell.options.get("codec") not in ("signsgd", "signum"):
                    self.assertEqual(recipes.compresses(cell.options), cell.baseline is not None, cell.full_name)
                if not recipes.compresses(cell.options):
                    self.assertFalse(OF_TERNARY & set(cell.options), cell.full_name)

    def test_what_the_paper_leaves_open_is_said(self):
        for name in ("table1/b128-n2-ternary", "table2/n2-ternary", "table3/n8-ternary", "fig3/vanilla-n64-ternary"):
            self.assertTrue(any("clip_factor" in text for text in self.cell(name).assumed), name)

    def test_presets_match_cells_that_can_run(self):
        presets = recipes.load_presets(FOLDER)
        self.assertEqual(list(presets), ["smoke", "cpu-evening", "cpu-weekend", "gpu-day"])
        for patterns in presets.values():
            for pattern in patterns:
                cells = recipes.match(self.experiments, pattern)
                self.assertTrue(cells, pattern)
                self.assertTrue(all(cell.is_available and cell.options for cell in cells), pattern)
        evening = {cell.full_name: cell for pattern in presets["cpu-evening"]
                   for cell in recipes.match(self.experiments, pattern)}
        self.assertIn("fig3/vanilla-n64-ternary", evening)
        self.assertIn("table1/b128-n2-ternary~1/30", evening)
        self.assertEqual(sum(len(cell.seeds) for cell in evening.values() if cell.experiment == "fig3"), 42)
        self.assertEqual(len(evening), 14 + 4)


if __name__ == "__main__":
    unittest.main()
