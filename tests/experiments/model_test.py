"""Tests of figure 5 and the cluster model: tables and plots of the recipe, cluster files, and single formulas."""

import csv
import io
import itertools
import json
import math
import statistics
import unittest
import xml.etree.ElementTree
from unittest import mock

from scaffold import ROOT, InFolder, run_driver
from terngrad_experiments import cluster_model, model_figures, model_tables, recipes, report

FILE = {"schema": 1, "name": "two", "machines": 2, "gpus_per_machine": 2, "measured_workers": 1,
        "links": {"gpu": {"latency_us": 1, "gbytes_per_second": 10, "source": "given"},
                  "host": {"latency_us": 2, "gbytes_per_second": 5, "source": "given"},
                  "network": {"latency_us": 100, "gbits_per_second": 8, "source": "given"}},
        "nets": [{"name": "net", "examples_per_worker": 10, "compute": {"points": [{"examples": 10, "seconds": 0.1}], "source": "given"},
                  "update": {"points": [{"elements": 1000, "seconds": 0.001}, {"elements": 2000, "seconds": 0.0015}], "source": "given"},
                  "buckets": [{"elements": 1000000, "plain_elements": 100000, "tensors": 3, "ready_fraction": 0.5},
                              {"elements": 500000, "plain_elements": 0, "tensors": 1, "ready_fraction": 1}]}],
        "codecs": [{"name": name, "encode": {"points": [{"elements": 1e9, "seconds": 1}], "source": "given"},
                    "decode": {"points": [{"elements": 1e9, "seconds": 0.5}], "source": "given"}} for name in ("fp32", "t2", "lanes")]}


def experiment():
    return recipes.load_all(ROOT / "experiments/recipes")["fig5"]


class Tables(unittest.TestCase):
    def setUp(self):
        self.experiment = experiment()

    def section(self, beginning):
        (found,) = [one for one in model_tables.sections(self.experiment) if one.title.startswith(beginning)]
        return found

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
        # Values of the implementation before the one in Python.
        self.assertEqual(self.row(section, "(a)", "alexnet", "t2, downlink sums in lanes")[3:],
                         ("2.48", "2.50", "1.93*", "1.67*", "1.36*", "1.36*"))

    def test_parts_add_up(self):
        section = self.section("Our model: parts")
        self.assertTrue(section.is_detail)
        for row in section.rows:
            self.assertAlmostEqual(sum(map(float, row[5:10])), float(row[10]), delta=0.3)

    def test_a_bar_in_a_cell_is_no_end_of_it(self):
        section = model_tables.Section("title", ("net", "a|b"), [("c|d", "1")])
        with mock.patch.object(model_tables, "sections", return_value=[section]):
            text = model_tables.render(self.experiment, "markdown")
        self.assertIn("**title**\n\n| net | a\\|b |\n| --- | --- |\n| c\\|d | 1 |\n", text)

    def test_every_format(self):
        self.assertIn("| alexnet | ternary | chart | 387 |", model_tables.render(self.experiment, "markdown"))
        lines = list(csv.DictReader(io.StringIO(model_tables.render(self.experiment, "csv"))))
        self.assertEqual((len(lines), lines[19]["net"], lines[19]["gpus"], lines[19]["chart"]), (120, "alexnet", "512", "99417"))
        self.assertAlmostEqual(float(lines[19]["model"]), 102788, delta=1)
        said = json.loads(model_tables.render(self.experiment, "json"))
        self.assertEqual((len(said["bars"]), len(said["tables"])), (120, 6))


class Figures(unittest.TestCase):
    def setUp(self):
        self.experiment = experiment()

    def test_have_all_readings_beside_the_model(self):
        (_, throughput, _), (_, gains, _), (_, scaling, _) = model_figures.groups(self.experiment)
        self.assertEqual([len(throughput), len(gains), len(scaling)], [2, 2, 6])
        markers = [series for plot in throughput for series in plot.series if series.marker]
        self.assertEqual(sum(len(series.points) for series in markers), 120)
        for plot in (*throughput, *gains):
            chart = {series.name: series.points for series in plot.series if series.marker}
            for series in plot.series:
                for (x, y), (own_x, own_y) in zip(series.points, chart[series.name]):
                    self.assertEqual(x, own_x)
                    self.assertAlmostEqual(y / own_y, 1, delta=0.25)

    def test_reach_100000_workers_and_say_where_they_are_extrapolated(self):
        *_, (_, scaling, _) = model_figures.groups(self.experiment)
        for plot in scaling:
            self.assertEqual(plot.shade_from, (64, "extrapolated"))
            self.assertEqual({series.points[-1][0] for series in plot.series}, {100000})
            self.assertEqual({gain for _, gain in plot.series[0].points}, {1.0})

    def test_are_one_drawing(self):
        drawing = model_figures.drawing(self.experiment)
        text = drawing.svg()
        xml.etree.ElementTree.fromstring(text)
        self.assertEqual(text.count(">extrapolated<"), 6)
        self.assertEqual(text, model_figures.drawing(self.experiment).svg())

    def test_the_page_has_them_and_the_tables(self):
        page = report.make_page([self.experiment], [])
        self.assertEqual(page.count("<img"), 10)
        for text in ("the bars of vgg_a, fp32, on 32 and 64 GPUs of (a)", "beyond to 40 in (a) and 100 in (b)",
                     "Speed-up by downlink", "Ternary over fp32", "<summary>Our model: parts of a step", "assumed: batch of AlexNet"):
            self.assertIn(text, page)


class Model(InFolder):
    def read(self, table):
        path = self.folder / f"cluster-{next(self.numbers)}.json"
        path.write_text("// A comment.\n" + (table if isinstance(table, str) else json.dumps(table)), encoding="utf-8")
        return cluster_model.read_cluster(path)

    def setUp(self):
        super().setUp()
        self.numbers = itertools.count()

    def test_a_step_is_what_its_formula_says(self):
        cluster = self.read(FILE)
        net, t2 = cluster.nets[0], cluster.codecs[1]
        step = cluster_model.predict(cluster, net, t2, cluster_model.Plan("servers", "fp32"), 4)
        exchanged = []
        for coded, plain, tensors in ((900000, 100000, 3), (500000, 0, 1)):
            up, down = 2 * (coded * 2 + plain * 32) / 8, (coded + plain) * 4  # two workers per machine
            scalers = 2 * 2e-6 + 4 * tensors / 5e9 + 2 * 1e-4 + 2 * 4 * tensors / 1e9
            exchanged.append(scalers + 2 * 2e-6 + (up + down) / 2 / 5e9 + 2 * 1e-4 + (up + down) / 1e9)
        ready = 0.1 - 0.1 * 2 / 3 * 0.5
        end = max(ready + exchanged[0], 0.1) + exchanged[1]
        expected = {"compute": 0.1, "encode": 1.5e-3, "exposed": end - 0.1, "decode": 0.5e-9 * 1.5e6 * 3, "update": 0.7505}
        self.assertEqual(step.parts.keys(), expected.keys())
        for name, seconds in expected.items():
            self.assertAlmostEqual(step.parts[name], seconds, 9, name)
        self.assertEqual((step.way, step.up), ("t2 by servers, down fp32", 900000 / 4 + 400000 + 125000))
        self.assertEqual(step.inputs["network link"], "given")
        with self.assertRaises(ValueError):
            cluster_model.predict(cluster, net, t2, cluster_model.Plan("servers", "fp32"), 3)

    def test_only_what_adds_up_goes_in_two_levels(self):
        cluster = self.read(FILE)
        for codec in ("fp32", "t2", "lanes"):
            nested = {plan.exchange for plan in cluster_model.suitable_plans(cluster, codec, 4) if plan.two_levels}
            self.assertEqual(nested, set() if codec == "t2" else set(cluster_model.IN_TRANSIT))

    def test_exchanges_take_their_closed_forms(self):
        link = cluster_model.Link(1.0, 10.0)
        for exchange, seconds in (("ring", 14 + 7 / 8 * 3), ("halving_doubling", 6 + 7 / 8 * 3), ("tree", 6 + 3), ("all_gather", 7 + 7 * 2),
                                  ("servers", 2 + 4 * 3)):
            self.assertAlmostEqual(cluster_model.exchange_seconds(exchange, 8, link, 20, 10, 2), seconds)
            self.assertEqual(cluster_model.exchange_seconds(exchange, 1, link, 20, 10), 0)

    def test_the_slowest_of_normals(self):
        normal = statistics.NormalDist()
        self.assertAlmostEqual(cluster_model.expected_max_of_normals(1), 0, 9)
        self.assertAlmostEqual(cluster_model.expected_max_of_normals(2), 1 / math.sqrt(math.pi), 9)
        self.assertAlmostEqual(cluster_model.expected_max_of_normals(3), 1.5 / math.sqrt(math.pi), 9)
        self.assertLess(abs(cluster_model.expected_max_of_normals(1000) - normal.inv_cdf(1 - 1 / 1000)), 0.2)

    def test_links_are_fitted_and_bits_are_those_of_the_formats(self):
        link = cluster_model.fitted_link([(size, 1e-3 + size / 1e8) for size in (1e3, 1e5, 1e7)])
        self.assertAlmostEqual(link.latency, 1e-3, 9)
        self.assertAlmostEqual(link.bytes_per_second / 1e8, 1, 6)
        bits = [cluster_model.bits_per_element(codec, 512) for codec in ("fp32", "t2", "t5", "tmask", "lanes")]
        self.assertEqual(bits, [32, 2, 1.6, 1.318, 64 / 5])
        self.assertAlmostEqual(cluster_model.bits_per_element("trans", 1), 1.25, 1)

    def test_files_that_are_wrong_are_refused_with_the_key(self):
        def changed(path, value):
            table = json.loads(json.dumps(FILE))
            place = table
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            return table

        for table, words in ((changed(["machines"], 0), "'machines': expected an integer of at least 1"),
                             (changed(["speed"], 1), "'speed': is unknown"), (changed(["links", "network"], {}), "links: 'network': is missing"),
                             (changed(["links", "gpu", "source"], "guessed"), "links.gpu: 'source': accepted: measured, given, assumed"),
                             (changed(["nets", 0, "compute", "source"], "measured"), "'calibration': is missing"),
                             (changed(["nets", 0, "buckets", 0, "plain_elements"], 2000000), "more than the 1000000 elements"),
                             (changed(["codecs", 0, "name"], "t2"), "'codecs': expected one or more, each of its own name"),
                             ('{"schema": 1, "schema": 1}', "the key 'schema' is there twice"), ("{", "is not JSON")):
            with self.assertRaisesRegex(recipes.RecipeError, words):
                self.read(table)


class Command(InFolder):
    def experiment(self, *words):
        return run_driver("--out", self.folder / "out", "--results", self.folder / "none", *words)

    def test_a_cluster_is_printed_and_written(self):
        code, out, _ = self.experiment("cluster", ROOT / "experiments/clusters/paper-ethernet.json")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("paper-ethernet: 128 machines of 4 GPUs, 512 workers\n"))
        self.assertIn("\n       8          714   1.63   1.63   2.48   lanes by two_levels/ring\n", out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()))
        path = self.folder / "steps.json"
        self.experiment("cluster", ROOT / "experiments/clusters/paper-infiniband.json", "--format", "json", "-o", path)
        self.assertEqual(len(json.loads(path.read_text())["steps"]), 3 * 18 * 7)
        code, _, err = self.experiment("cluster", "no/such/file.json")
        self.assertEqual((code, err), (2, "terngrad_experiment: no/such/file.json: No such file or directory\n"))

    def test_plot_table_and_report_need_no_runs(self):
        drawing = self.folder / "fig5.svg"
        self.assertEqual(self.experiment("plot", "fig5", "-o", drawing)[0], 0)
        xml.etree.ElementTree.fromstring(drawing.read_text(encoding="utf-8"))
        self.assertEqual(self.experiment("report", "fig5", "-o", self.folder / "page.html")[0], 0)
        code, _, err = self.experiment("run", "fig5")
        self.assertEqual(code, 2)
        self.assertIn("'fig5' matches no cell", err)


if __name__ == "__main__":
    unittest.main()
