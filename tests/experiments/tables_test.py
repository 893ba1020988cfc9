"""Tests of tables and imported runs on invented results."""

import csv
import dataclasses
import io
import json
import re
import unittest

from scaffold import EXPERIMENT, FLOAT, full_results, result
from terngrad_experiments import cells, importing, pooling, predictions, report, statistics, table_text, tables

class Table(unittest.TestCase):
    def rows(self, results):
        return {row.cell + ("" if row.scale == "1" else "~" + row.scale): row for row in tables.make_table(EXPERIMENT, results).rows}

    def test_means_intervals_and_gaps_are_those_of_the_statistics(self):
        row = self.rows(full_results())["table1/ternary"]
        values = (85.70, 85.49, 85.91)
        self.assertAlmostEqual(row.mean, statistics.mean(values))
        pooled = pooling.pool([dict(zip((1, 2, 3), each)) for each in ((86.41, 86.24, 86.58), values)], 0.01).deviation
        self.assertAlmostEqual(row.interval.low, statistics.mean_interval(values, deviation=pooled).low)
        self.assertAlmostEqual(row.prediction.high, statistics.prediction_interval(values, deviation=pooled).high)
        self.assertAlmostEqual(row.deviation, statistics.sample_deviation(values))
        self.assertAlmostEqual(row.gap.difference, statistics.mean([85.70 - 86.41, 85.49 - 86.24, 85.91 - 86.58]))
        self.assertTrue(row.paper_is_inside)
        self.assertTrue(row.equivalence.equivalent)
        self.assertAlmostEqual(row.test_set_deviation, 0.35, 2)

    def test_gaps_go_by_their_own_pairs(self):
        row = self.rows(full_results())["table1/ternary"]
        own = statistics.compare_paired((85.70, 85.49, 85.91), (86.41, 86.24, 86.58))
        self.assertAlmostEqual(row.gap.interval.low, own.interval.low)
        self.assertEqual(row.gap.degrees_of_freedom, 2)

    def test_deviations_are_pooled_over_cells_and_that_is_said(self):
        table = tables.make_table(EXPERIMENT, full_results())
        (rows,) = table.poolings
        self.assertEqual((rows.scale, rows.backend, rows.net, rows.dataset), ("1", "cpu", "lenet", "synthetic"))
        self.assertEqual(rows.pooling.num_cells, 2)
        self.assertIn("95 % of mean and prediction: by one deviation of 0.19 points, pooled over 2 cells, 2.0 degrees of "
                      "freedom; Bartlett's test of equal deviations p 0.790, the largest over the smallest 1.2; gaps by their own pairs",
                      table_text.to_text(table))
        self.assertEqual(json.loads(table_text.to_json(table))["poolings"][0]["pooling"]["num_cells"], 2)

    def test_deviations_that_differ_are_not_pooled_and_that_is_said(self):
        results = [result("table1/float", seed, top1) for seed, top1 in enumerate((0.80, 0.80, 0.80, 0.8001), 1)] + \
                  [result("table1/ternary", seed, top1) for seed, top1 in enumerate((0.50, 0.90, 0.70, 0.60), 1)]
        table = tables.make_table(EXPERIMENT, results)
        row = {row.cell: row for row in table.rows}["table1/ternary"]
        self.assertIsNone(row.pooled)
        self.assertAlmostEqual(row.interval.low, statistics.mean_interval((50.0, 90.0, 70.0, 60.0)).low)
        self.assertIn("each by its own deviation; 2 cells, Bartlett's test of equal deviations p < 0.001", table_text.to_text(table))

    def test_a_cell_of_equal_seeds_is_pooled_and_its_ratio_is_no_number(self):
        results = [result("table1/float", seed, 0.8) for seed in (1, 2, 3)] + \
                  [result("table1/ternary", seed, top1) for seed, top1 in enumerate((0.8001, 0.8002, 0.8003), 1)]
        table = tables.make_table(EXPERIMENT, results)
        self.assertIn("the largest over the smallest without bound, for one has equal seeds", table_text.to_text(table))
        self.assertIsNone(json.loads(table_text.to_json(table))["poolings"][0]["pooling"]["ratio"])
        self.assertIsNotNone(table.rows[0].interval)

    def test_scales_and_devices_are_pooled_apart(self):
        results = [line | {"scale": scale, "backend": backend} for line in full_results()
                   for scale, backend in (("1", "cpu"), ("1/30", "cpu"), ("1", "gpu"))]
        table = tables.make_table(EXPERIMENT, results)
        self.assertEqual([(rows.scale, rows.backend, rows.pooling.num_cells) for rows in table.poolings],
                         [("1", "cpu", 2), ("1", "gpu", 2), ("1/30", "cpu", 2)])
        text = table_text.to_text(table)
        for label in ("(lenet, all steps)", "(lenet, all steps, GPU)", "(lenet, ~1/30)"):
            self.assertIn(f"95 % of mean and prediction {label}: ", text)

    def test_with_a_pooled_deviation_two_seeds_have_an_interval_and_one_has_none(self):
        results = [line for line in full_results() if line["seed"] < 3 or line["cell"] == "table1/ternary"]
        rows = self.rows(results)
        self.assertEqual(len(rows["table1/float"].values), 2)
        self.assertIsNotNone(rows["table1/float"].interval)
        rows = self.rows([line for line in results if line["seed"] < 2 or line["cell"] == "table1/ternary"])
        self.assertIsNone(rows["table1/float"].interval)  # and a single cell with several seeds is not pooled
        self.assertIsNone(rows["table1/ternary"].pooled)

    def test_gaps_are_of_the_seeds_that_both_have(self):
        results = [line for line in full_results() if (line["cell"], line["seed"]) != ("table1/float", 2)]
        row = self.rows(results)["table1/ternary"]
        self.assertAlmostEqual(row.gap.difference, ((85.70 - 86.41) + (85.91 - 86.58)) / 2)
        self.assertIsNone(row.gap.interval)  # two pairs do not show their spread

    def test_a_cell_without_runs_has_a_row(self):
        self.assertIn("not run", table_text.to_text(tables.make_table(EXPERIMENT, [])))

    def test_scaled_runs_are_never_set_against_the_paper(self):
        row = self.rows([result("table1/float", seed, 0.7, "1/30", max_steps=10) for seed in (1, 2, 3)])["table1/float~1/30"]
        self.assertIsNone(row.paper_is_inside)
        shown = table_text.cells_of(row)
        self.assertIn("full run: 86.56", shown)
        self.assertIn("10 of 300 steps", shown)
        self.assertEqual(shown[7], "-")

    def test_failed_and_unfinished_runs_are_shown(self):
        failed = result("table1/float", 1, 0, status="failed", error="told to")
        self.assertIn("FAILED (seed 1)", table_text.to_text(tables.make_table(EXPERIMENT, [failed])))
        unfinished = result("table1/float", 1, 0.8, status="unfinished", steps=100)
        self.assertIn("unfinished: 80.00 at 100 steps", table_text.to_text(tables.make_table(EXPERIMENT, [unfinished])))

    def test_of_a_seed_the_last_result_counts(self):
        row = self.rows([result("table1/float", 1, 0.5), result("table1/float", 1, 0.6, commit="def")])["table1/float"]
        self.assertEqual(row.values, (60.0,))

    def test_every_format_has_every_row(self):
        table = tables.make_table(EXPERIMENT, full_results())
        for form in ("text", "markdown", "csv", "json"):
            text = table_text.render(table, form)
            self.assertEqual(len(re.findall(r"(?<![a-z])ternary", text)) >= 1, True, form)
        self.assertEqual(len(json.loads(table_text.render(table, "json"))["rows"]), 2)

    def test_csv_has_what_intervals_go_by_and_what_the_same_images_say(self):
        same = predictions.SameImages((), statistics.sign_test([1, 1, -1]))
        table = tables.make_table(EXPERIMENT, full_results()[:-1] + [result("table1/ternary", 3, 0.8591, commit="def")])
        rows = [dataclasses.replace(row, same_images=same if row.baseline else None) for row in table.rows]
        first, second = csv.DictReader(io.StringIO(table_text.render(dataclasses.replace(table, rows=rows), "csv")))
        pooled = table.poolings[0].pooling.deviation
        for line, mixes in ((first, "False"), (second, "True")):
            self.assertEqual((line["source"], line["mixes_commits"]), ("", mixes))
            self.assertEqual((float(line["pooled_deviation"]), float(line["degrees_of_freedom"])),
                             (pooled.value, pooled.degrees_of_freedom))
        names = ("seeds_that_favour_cell", "seeds_that_favour_baseline", "sign_test_p")
        self.assertEqual([[line[name] for name in names] for line in (first, second)], [["", "", ""], ["2", "1", "1.0"]])
        alone = tables.make_table(EXPERIMENT, full_results()[:3])
        first, second = csv.DictReader(io.StringIO(table_text.render(alone, "csv")))
        self.assertEqual([(line["pooled_deviation"], line["degrees_of_freedom"]) for line in (first, second)],
                         [("", "2"), ("", "")])

    def test_headers_name_what_is_counted(self):
        self.assertEqual(table_text.SAME_IMAGES_HEADER[3:5], ("only cell correct", "only baseline correct"))

    def test_seeds_are_written_short(self):
        self.assertEqual([table_text.seeds_text(seeds) for seeds in ((), (3,), (1, 2, 3), (1, 3))], ["-", "3", "1-3", "1,3"])


class Views(unittest.TestCase):
    """Cells that show runs of other cells."""

    def setUp(self):
        looks = [cells.Cell("fig4", name, {}, runs_of=(of,)) for name, of in
                 (("all", "table1/ternary"), ("part", "table1/float~1/30"), ("float", "table1/float"))]
        self.figure = cells.Experiment("fig4", "A figure", "figure", "Wen et al.", "top1", (), 10000, cells=tuple(looks))
        self.experiments = {"table1": EXPERIMENT, "fig4": self.figure}

    def table(self, results):
        return tables.make_table(self.figure, results, experiments=self.experiments)

    def test_have_the_rows_of_the_runs(self):
        table = self.table(full_results() + [result("table1/float", 1, 0.7, "1/30", max_steps=10)])
        rows = {table_text.name_of(row): row for row in table.rows}
        self.assertEqual(list(rows), ["all (table1/ternary)", "float (table1/float)", "part (table1/float~1/30)",
                                      "float (table1/float~1/30)"])
        whole = rows["all (table1/ternary)"]
        self.assertEqual((whole.cell, whole.source, whole.values, whole.paper),
                         ("fig4/all", "table1/ternary", (85.70, 85.49, 85.91), 85.64))
        self.assertAlmostEqual(whole.gap.difference, -0.71, delta=0.001)
        self.assertEqual(rows["part (table1/float~1/30)"].values, (70.0,))
        self.assertEqual(rows["part (table1/float~1/30)"].full_steps, 300)

    def test_have_a_row_without_runs(self):
        text = table_text.to_text(self.table([]))
        for name in ("all (table1/ternary)", "part (table1/float~1/30)", "float (table1/float)"):
            self.assertRegex(text, rf"{re.escape(name)} +- +not run")

    def test_are_in_every_format_and_in_the_report(self):
        for form in ("text", "markdown", "csv", "json"):
            shown = "fig4/all" if form in ("csv", "json") else "all (table1/ternary)"
            self.assertIn(shown, table_text.render(self.table(full_results()), form))
        page = report.make_page([self.figure], full_results(), all_experiments=self.experiments)
        self.assertIn("all (table1/ternary)", page)
        self.assertNotIn("not run", page.split("float (table1/float)")[1].split("</tr>")[0])

    def test_deviations_of_other_data_sets_are_not_pooled_with_theirs(self):
        other = cells.Cell("fig4", "own", {**FLOAT.options, "dataset": "mnist"}, (1, 2, 3))
        figure = cells.Experiment("fig4", "A figure", "figure", "", "top1", (), 10000, cells=(other, *self.figure.cells[:1]))
        results = full_results() + [result("fig4/own", seed, 0.99 + 0.001 * seed) for seed in (1, 2, 3)]
        self.assertEqual(tables.make_table(figure, results, experiments=self.experiments).poolings, ())


class OtherOptions(unittest.TestCase):
    def test_runs_that_were_recorded_before_the_recipe_changed_are_named(self):
        runs = [{**line, "options": FLOAT.options} for line in full_results()[:3]]
        self.assertEqual(tables.make_table(EXPERIMENT, runs).rows[0].other_options, ())
        runs[1] = {**runs[1], "options": {**FLOAT.options, "batch_size": 16, "ema_decay": 0.9}}
        table = tables.make_table(EXPERIMENT, runs)
        self.assertEqual(table.rows[0].other_options, ("batch_size", "ema_decay"))
        self.assertIn("float: its runs were recorded with other options than the recipe's in batch_size, ema_decay",
                      table_text.notes_of(table))

    def test_those_of_a_part_of_the_steps_are_compared_with_the_part(self):
        part = cells.scaled(FLOAT, "1/30").options
        (row,) = [row for row in tables.make_table(EXPERIMENT, [result("table1/float", 1, 0.5, "1/30", options=part)]).rows
                  if row.is_scaled]
        self.assertEqual(row.other_options, ())


class Importing(unittest.TestCase):
    def config(self, keys={}, **others):
        keys = {"clip_factor": 2.5, "scaler": "paper", "sharing": "max", "format": "t2", "rounding": "stochastic"} | keys
        spec = "ternary:" + ",".join(f"{key}={value}" for key, value in keys.items())
        return {"identity": {"net": "lenet", "dataset": "synthetic", "num_workers": "2", "batch_size": "8", "max_steps": "300",
                             "seed": "4", "codec": "ternary", "codec_spec": spec, **others}}

    def test_a_run_is_of_the_cell_whose_options_it_has(self):
        found, _ = importing.find_cell({"table1": EXPERIMENT}, self.config())
        self.assertEqual((found.name, found.scale), ("ternary", "1"))
        found, _ = importing.find_cell({"table1": EXPERIMENT}, self.config(max_steps="10"))
        self.assertEqual((found.scale, found.options["max_steps"]), ("1/30", 10))

    def test_a_part_of_the_steps_may_be_rounded(self):
        # 300 / 7 is 42.9; no fraction 1/k of 300 rounds to 41.
        self.assertEqual(importing.find_cell({"table1": EXPERIMENT}, self.config(max_steps="43"))[0].scale, "1/7")
        for steps in ("41", "301", "0"):
            found, why = importing.find_cell({"table1": EXPERIMENT}, self.config(max_steps=steps))
            self.assertIsNone(found)
            self.assertIn(f"--max_steps {steps}", why)

    def test_what_differs_is_named(self):
        found, why = importing.find_cell({"table1": EXPERIMENT}, self.config({"clip_factor": 3}))
        self.assertIsNone(found)
        self.assertEqual(why, "closest is table1/ternary: --clip_factor 3 in place of 2.5")
        for keys, why in (({"format": "t5"}, "--ternary_format t5 in place of the default t2"),
                          ({"rounding": "nearest"}, "codec with rounding=nearest in place of stochastic")):
            self.assertEqual(importing.find_cell({"table1": EXPERIMENT}, self.config(keys)),
                             (None, f"closest is table1/ternary: {why}"))

    def test_what_a_cell_leaves_open_is_the_default(self):
        found, why = importing.find_cell({"table1": EXPERIMENT}, self.config({"scaler": "original"}, downlink_codec="bf16"))
        self.assertIsNone(found)
        self.assertIn("--scaler original in place of the default paper", why)
        self.assertIn("--downlink_codec bf16 in place of the default fp32", why)
        self.assertIsNotNone(importing.find_cell({"table1": EXPERIMENT}, self.config())[0])

    def test_a_spec_or_preset_is_compared_with_what_the_run_was_given(self):
        # The identity records the expanded preset.
        cell = cells.Cell("codecs", "efsignsgd", {"net": "lenet", "codec": "efsignsgd"})
        identity = {"net": "lenet", "codec": "sign", "codec_memory": "ef:decay=1"}
        given = {"codec": "efsignsgd", "codec_memory": "auto", "clip_factor": 0.0, "block_size": 32768}
        differences = lambda **others: importing.differences(cell, {"identity": identity, "options": given | others})
        self.assertEqual(differences(), [])
        self.assertEqual(differences(codec="sign"), ["codec sign in place of efsignsgd"])
        self.assertEqual(differences(codec_memory="none"), ["--codec_memory none beside --codec efsignsgd"])
        self.assertEqual(importing.differences(cell, {"identity": identity}), ["codec sign in place of efsignsgd"])
        # Without a spec the memory is compared like any option.
        plain = cells.Cell("codecs", "ternary", {"grad_bits": 1})
        self.assertEqual(importing.differences(plain, {"identity": {"codec": "ternary", "codec_memory": "ef:decay=1"}}),
                         ["--codec_memory ef:decay=1 in place of the default none"])


if __name__ == "__main__":
    unittest.main()
