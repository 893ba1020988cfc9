"""Tests of figure 5: what is recorded of terngrad_advise --cluster, its tables, drawings and page, on an advice made up here and
on what the project records."""

import csv
import io
import json
import types
import unittest
import xml.etree.ElementTree
from unittest import mock

from scaffold import ROOT, InFolder, run_driver
from terngrad_experiments import model_figures, model_results, model_tables, programs, recipes, record_shape, report, store

RECIPES = ROOT / "experiments/recipes"
RECORD = ROOT / "experiments/results/fig5.jsonl"


def step(workers, codec, downlink, seconds, **more):
    return {"workers": workers, "codec": codec, "downlink": downlink, "exchange": "ring", "best_of_codec": True,
            "extrapolated": False, "step_seconds": seconds, "images_per_second": 10 * workers / seconds,
            "message_bytes": {"up": 4e6, "down": None if downlink is None else 4e6},
            "parts": {"straggler_factor": 2, "compute_seconds": 0.5, "encode_seconds": 0.1, "exposed_exchange_seconds": 0.2,
                      "decode_seconds": 0.3, "update_seconds": 0.4},
            "inputs": {"measured": ["compute"], "given": [], "assumed": ["update"]}, **more}


def advice():
    """Of a cluster of 4 workers with one net, two numbers of workers beyond what was measured."""
    steps = [made for workers, fp32, t2 in ((1, 1.0, 1.0), (4, 2.0, 1.0), (8, 3.0, 1.0))
             for made in (step(workers, "fp32", "fp32", fp32), step(workers, "t2", None, t2),
                          step(workers, "t2", "bf16", 2 * t2))]
    cluster = {"name": "small", "num_workers": 4, "measured_workers": 1, "extrapolated_above": 4}
    return {"command": "terngrad_advise", "version": "0.1.0", "commit": "abc1234-dirty", "cluster": cluster, "calibration": None,
            "workers": [1, 4, 8], "figure5": None,
            "nets": [{"name": "net", "num_elements": 1000000, "plain_elements": 0, "examples_per_worker": 10, "steps": steps}]}


def experiment():
    return recipes.load_all(RECIPES)["fig5"]


def line(cluster, said=None):
    return model_results.make_result(experiment(), cluster, said or advice(), b"{}")


class Record(unittest.TestCase):
    def test_has_what_every_line_has_and_is_no_run(self):
        made = line(experiment().model.clusters[0])
        self.assertIsNone(record_shape.problem_of(made))
        self.assertEqual((made["cell"], made["status"], made["commit"], made["dirty"]), ("fig5/a", "computed", "abc1234", True))
        self.assertEqual(made["options"], {"cluster": "paper-ethernet.json"})
        self.assertIn("0 runs", report.where_text([made]))

    def test_has_lists_over_the_numbers_of_workers(self):
        model = model_results.compact(advice())
        self.assertEqual((model["workers"], model["own_size"]), ([1, 4, 8], 4))
        (net,) = model["nets"]
        self.assertEqual([(way["codec"], way["downlink"]) for way in net["ways"]],
                         [("fp32", "fp32"), ("t2", None), ("t2", "bf16")])
        self.assertEqual(net["ways"][0]["images_per_second"], [10, 20, 80 / 3])
        self.assertEqual(net["ways"][0]["own_size"]["parts"], [1.0, 0.1, 0.2, 0.3, 0.4])  # the slowest worker's computing
        self.assertEqual(net["inputs"], {"measured": ["compute"], "given": [], "assumed": ["update"]})

    def test_later_lines_supersede_earlier_ones(self):
        cluster = experiment().model.clusters[0]
        first, second = line(cluster), line(cluster, {**advice(), "workers": [1, 4]})
        self.assertEqual(model_results.model_of([first, second], experiment(), cluster)["workers"], [1, 4])
        self.assertIsNone(model_results.model_of([first], experiment(), experiment().model.clusters[1]))


class Patterns(unittest.TestCase):
    def split(self, *patterns):
        found, others = model_results.split(recipes.load_all(RECIPES), patterns)
        return [f"{model.name}/{cluster.name}" for model, cluster in found], others

    def test_name_clusters_as_cells(self):
        self.assertEqual(self.split("fig5"), (["fig5/a", "fig5/b"], []))
        self.assertEqual(self.split("fig5/b", "fig5/*"), (["fig5/b", "fig5/a"], []))
        self.assertEqual(self.split("fig5/c"), ([], ["fig5/c"]))
        self.assertEqual(self.split("table1/*", "fig5/a"), (["fig5/a"], ["table1/*"]))
        self.assertEqual(self.split("fig?/*"), (["fig5/a", "fig5/b"], ["fig?/*"]))  # cells too
        self.assertEqual(self.split("fig5/a~1/30"), ([], ["fig5/a~1/30"]))


class Tables(unittest.TestCase):
    def setUp(self):
        self.experiment = experiment()
        self.results = store.read(RECORD)

    def section(self, beginning, results=None):
        found = [one for one in model_tables.sections(self.experiment, self.results if results is None else results)
                 if one.title.startswith(beginning)]
        self.assertEqual(len(found), 1, beginning)
        return found[0]

    def row(self, section, *beginning):
        (row,) = [row for row in section.rows if row[:len(beginning)] == beginning]
        return row

    def test_bars_stand_over_the_model(self):
        section = self.section("(a)")
        self.assertIn("within 1.9 % rms", section.title)
        self.assertEqual(section.rows[2][:4] + section.rows[2][-1:], ("alexnet", "ternary", "chart", "387", "99,417"))
        self.assertEqual(section.rows[3][2:4] + section.rows[3][-1:], ("model", "386", "102,788"))

    def test_gains_are_those_of_the_chart_the_model_and_the_text(self):
        section = self.section("Ternary over fp32")
        self.assertEqual(self.row(section, "(a)", "alexnet")[2:], ("3.04", "3.05", "3.04", "3.87", "3.94", "-"))
        self.assertEqual(self.row(section, "(b)", "vgg_a")[5:], ("2.18", "2.15", "2"))

    def test_speed_ups_by_downlink_are_in_all_directions(self):
        section = self.section("Speed-up by downlink")
        self.assertEqual(len(section.rows), 8)
        self.assertEqual(self.row(section, "(a)", "2 bits", "fp32")[3:], ("1.59", "0.91", "1.26", "0.93", "1.76", "0.92"))
        self.assertEqual(self.row(section, "(b)", "2 bits", "sums of 11 bits")[3:5], ("1.24", "1.07"))

    def test_the_model_is_marked_where_it_is_extrapolated(self):
        section = self.section("Our model: times")
        self.assertEqual(section.header[3:], ("8", "64", "512", "4,096", "32,768", "100,000"))
        row = self.row(section, "(b)", "vgg_a", "t2, downlink t2")
        self.assertEqual([cell.endswith("*") for cell in row[3:]], [False, False, True, True, True, True])
        self.assertEqual(self.row(section, "(b)", "vgg_a", "t2, all-gather")[-1], "0.0014*")  # and not 0.00
        # Lanes as wide as bf16 gain nothing over it.
        wide = [float(self.row(section, "(b)", "vgg_a", name)[6].rstrip("*")) for name in ("t2, downlink sums in lanes", "bf16")]
        self.assertLess(*wide)

    def test_parts_add_up(self):
        section = self.section("Our model: parts")
        self.assertTrue(section.is_detail)
        for row in section.rows:
            self.assertAlmostEqual(sum(map(float, row[5:10])), float(row[10]), delta=0.3)

    def test_without_records_the_chart_is_shown(self):
        text = model_tables.render(self.experiment, [], "text")
        self.assertIn("99,417", text)
        self.assertIn("not all is computed: terngrad_experiment run 'fig5/*'", text)
        self.assertNotIn("Speed-up by downlink", text)

    def test_clusters_that_are_none_of_the_paper_have_no_fit(self):
        results = [line(cluster) for cluster in self.experiment.model.clusters]
        self.assertEqual(self.section("(a)", results).rows[1][3:], ("-",) * 10)
        self.assertEqual([one for one in model_tables.sections(self.experiment, results) if one.title.startswith("Speed-up by downlink")], [])
        model_figures.drawing(self.experiment, results)

    def test_a_bar_in_a_cell_is_no_end_of_it(self):
        section = model_tables.Section("title", ("net", "a|b"), [("c|d", "1")])
        with mock.patch.object(model_tables, "sections", return_value=[section]):
            text = model_tables.render(self.experiment, [], "markdown")
        self.assertIn("**title**\n\n| net | a\\|b |\n| --- | --- |\n| c\\|d | 1 |\n", text)

    def test_every_format(self):
        self.assertIn("| alexnet | ternary | chart | 387 |", model_tables.render(self.experiment, self.results, "markdown"))
        lines = list(csv.DictReader(io.StringIO(model_tables.render(self.experiment, self.results, "csv"))))
        self.assertEqual(len(lines), 120)
        self.assertEqual([lines[19][name] for name in ("cluster", "net", "gradients", "gpus", "chart")],
                         ["a", "alexnet", "ternary", "512", "99417"])
        self.assertAlmostEqual(float(lines[19]["model"]), 102788, delta=1)
        said = json.loads(model_tables.render(self.experiment, self.results, "json"))
        self.assertEqual([cluster["model"]["cluster"]["name"] for cluster in said["clusters"]],
                         ["paper-ethernet", "paper-infiniband"])


class Figures(unittest.TestCase):
    def setUp(self):
        self.experiment = experiment()
        self.results = store.read(RECORD)

    def test_have_all_readings_beside_the_model(self):
        (_, throughput, _), (_, gains, _), (_, scaling, _) = model_figures.groups(self.experiment, self.results)
        self.assertEqual([len(throughput), len(gains), len(scaling)], [2, 2, 6])
        markers = [series for plot in throughput for series in plot.series if series.marker]
        self.assertEqual(sum(len(series.points) for series in markers), 120)
        for plot in (*throughput, *gains):
            chart = {series.name: series.points for series in plot.series if series.marker}
            lines = {series.name: series.points for series in plot.series if not series.marker}
            self.assertEqual(chart.keys(), lines.keys())
            for name, points in lines.items():
                for (x, y), (own_x, own_y) in zip(points, chart[name]):
                    self.assertEqual(x, own_x)
                    self.assertAlmostEqual(y / own_y, 1, delta=0.25)

    def test_reach_100000_workers_and_say_where_they_are_extrapolated(self):
        *_, (_, scaling, _) = model_figures.groups(self.experiment, self.results)
        for plot in scaling:
            self.assertEqual(plot.shade_from, (64, "extrapolated"))
            self.assertEqual({series.points[-1][0] for series in plot.series}, {100000})
            self.assertEqual({gain for _, gain in plot.series[0].points}, {1.0})
        # A codec looks the same in all of them, which are drawn one by one.
        self.assertEqual(len({tuple((series.name, series.style) for series in plot.series) for plot in scaling}), 1)

    def test_are_one_drawing(self):
        drawing = model_figures.drawing(self.experiment, self.results)
        xml.etree.ElementTree.fromstring(drawing)
        self.assertEqual(drawing.count("<svg"), 1)
        self.assertEqual(drawing.count(">extrapolated<"), 6)
        self.assertEqual(drawing, model_figures.drawing(self.experiment, self.results))

    def test_the_page_has_them_and_the_tables(self):
        page = report.make_page([self.experiment], self.results)
        self.assertEqual(page.count("<svg"), 10)
        for text in ("the bars of vgg_a, fp32, on 32 and 64 GPUs of (a)", "beyond to 40 in (a) and 100 in (b)",
                     "Speed-up by downlink", "Ternary over fp32", "<summary>Our model: parts of a step", "assumed: batch of AlexNet"):
            self.assertIn(text, page)


class Recorded(unittest.TestCase):
    def test_readings_of_the_command_are_those_of_the_recipe(self):
        model = experiment().model
        results = store.read(RECORD)
        for cluster in model.clusters:
            bars = model_results.model_of(results, experiment(), cluster)["figure5"]["bars"]
            self.assertEqual(len(bars), 6)
            for one in bars:
                reading = model.reading(cluster.name, one["net"], one["gradients"])
                self.assertEqual(tuple(one["chart"]), reading.images_per_second)
                self.assertEqual(tuple(one["weights"]), reading.weights)

    def test_are_of_the_cluster_files_as_they_are(self):
        for cluster in experiment().model.clusters:
            content = model_results.cluster_path(RECIPES, cluster).read_bytes()
            wanted = model_results.make_result(experiment(), cluster, advice(), content)["identity"]
            self.assertEqual(model_results.result_of(store.read(RECORD), experiment(), cluster)["identity"], wanted,
                             f"run terngrad_experiment run 'fig5/*' again, and record what it writes: {cluster.file} has changed")

    def test_fits_are_as_good_as_the_recipe_says(self):
        for cluster in experiment().model.clusters:
            figure = model_results.model_of(store.read(RECORD), experiment(), cluster)["figure5"]
            self.assertEqual(figure["figure"], cluster.name)
            self.assertAlmostEqual(figure["rms_percent"], cluster.fit.rms_percent, delta=0.005)

    def test_lines_are_short(self):
        for text in RECORD.read_text(encoding="utf-8").splitlines():
            self.assertLess(len(text), 40000)
        self.assertFalse(any(result["dirty"] for result in store.read(RECORD)))


STAND_IN = """#!/usr/bin/env python3
import pathlib, sys
assert sys.argv[1] == "--cluster" and sys.argv[3] == "--json", sys.argv
assert pathlib.Path(sys.argv[2]).is_file(), sys.argv
pathlib.Path(sys.argv[4]).write_text({advice!r})
"""


class Command(InFolder):
    def setUp(self):
        super().setUp()
        self.write_program(json.dumps(advice()))

    def write_program(self, said):
        path = self.folder / "terngrad_advise"
        path.write_text(STAND_IN.format(advice=said), encoding="utf-8")
        path.chmod(0o755)

    def experiment(self, *words):
        return run_driver("--out", self.folder / "out", "--programs", self.folder, "--results", self.folder / "none", *words)

    def test_run_computes_and_records(self):
        code, out, _ = self.experiment("run", "fig5/*")
        self.assertEqual((code, out.count("computed, recorded in")), (0, 2))
        self.assertEqual([result["cell"] for result in store.read(self.folder / "out/results.jsonl")], ["fig5/a", "fig5/b"])
        self.assertEqual(self.experiment("table", "fig5")[0], 0)
        self.assertRegex(self.experiment("list", "fig5")[1], r"fig5/b .* computed\n")

    def test_dry_run_prints_the_command(self):
        code, out, _ = self.experiment("run", "fig5/a", "--dry_run")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^terngrad_advise --cluster .*experiments/clusters/paper-ethernet.json\n$")
        self.assertFalse((self.folder / "out").exists())

    def test_what_a_model_has_not_is_refused(self):
        for words in (("--seeds", "1-3"), ("--scale", "1/30"), ("--jobs", "auto"), ("--threads", "1"), ("--device", "cpu")):
            code, _, err = self.experiment("run", "fig5/a", *words)
            self.assertEqual(code, 2)
            self.assertIn(f"{words[0]}: fig5/a is computed, it has no runs", err)
        self.assertEqual(self.experiment("run", "fig5/c")[0], 2)

    def test_patterns_that_name_cells_too_leave_models_out_where_an_option_is_of_runs(self):
        code, out, err = self.experiment("run", "*", "--seeds", "1", "--dry_run")
        self.assertEqual(code, 0)
        self.assertIn("2 models are left out: --seeds is of runs, and they have none\n", err)
        self.assertNotIn("terngrad_advise", out)
        self.assertIn("terngrad_train", out)
        self.assertIn("terngrad_advise", self.experiment("run", "*", "--dry_run")[1])
        self.assertEqual(self.experiment("run", "*", "fig5/a", "--seeds", "1", "--dry_run")[0], 2)

    def test_status_says_what_is_computed(self):
        self.assertRegex(self.experiment("status", "fig5/*")[1], r"^fig5/a +not computed\nfig5/b +not computed\n$")
        self.experiment("run", "fig5/a")
        self.assertRegex(self.experiment("status", "fig5")[1], r"^fig5/a +computed\nfig5/b +not computed\n$")
        self.assertRegex(self.experiment("status")[1], r"^fig5/a +computed\nfig5/b +not computed\n$")

    def test_a_command_that_says_something_else_fails(self):
        self.write_program("{}")
        code, _, err = self.experiment("run", "fig5/a")
        self.assertEqual(code, 1)
        self.assertIn("did not write what is read here", err)
        self.write_program("not JSON")
        self.assertEqual(self.experiment("run", "fig5/a")[0], 1)

    def test_plot_and_report_need_no_programs(self):
        (self.folder / "terngrad_advise").unlink()
        drawing = self.folder / "fig5.svg"
        self.assertEqual(self.experiment("plot", "fig5", "-o", str(drawing))[0], 0)
        xml.etree.ElementTree.fromstring(drawing.read_text(encoding="utf-8"))
        self.assertEqual(self.experiment("report", "fig5", "-o", str(self.folder / "page.html"))[0], 0)

    def test_cluster_files_that_are_not_there_are_refused(self):
        cluster = types.SimpleNamespace(name="a", file="none.json")
        with self.assertRaisesRegex(recipes.RecipeError, "cluster a: 'file': .*none.json is not there"):
            model_results.cluster_path(RECIPES, cluster)
        with self.assertRaises(programs.ProgramError):
            programs.Programs(self.folder / "nowhere").output("terngrad_advise")


if __name__ == "__main__":
    unittest.main()
