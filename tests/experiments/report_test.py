#!/usr/bin/env python3
"""Tests of the report: its contents, its text for missing results, and that the committed report matches the records."""

import dataclasses
import html.parser
import re
import unittest

from recipe_folder import FOLDER
from scaffold import EXPERIMENT, ROOT, InFolder, full_results, result, run_driver
from terngrad_experiments import figures, page, recipes, report, store, table_text, tables

# Needs the data sets' files, which may be absent.
OF_LABELS = re.compile(r'<section class="labels">.*?</section>', re.DOTALL)


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order."""

    VOID = {"meta", "br", "img"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing")


class Report(unittest.TestCase):
    def test_the_page_is_well_formed_and_needs_no_network(self):
        page = report.make_page([EXPERIMENT], full_results())
        parser = Page()
        parser.feed(page)
        self.assertEqual(parser.open, [])
        self.assertIn("CifarNet &lt;on&gt; CIFAR-10", page)
        self.assertNotIn("<script", page)
        for outside in re.findall(r"(?:src|href)=\"([^\"]*)\"", page):
            self.assertTrue(outside.startswith(("#", "data:image/svg+xml;base64,")), outside)
        self.assertEqual(set(re.findall(r"https?://[^\"' <]*", page)) - {"http://www.w3.org/2000/svg"}, set())

    def test_what_is_not_run_says_why(self):
        cells = recipes.load_all(FOLDER)
        text = report.make_page([cells["table1"], cells["table2"]], [], all_experiments=cells)
        self.assertIn("<li>not run yet: b128-n2-float, b128-n2-ternary, b2048-n16-float, b2048-n16-ternary; terngrad_experiment run "
                      "table1</li>", text)
        self.assertRegex(text, "<li>not run yet: n2-float, .*; terngrad_experiment run table2</li>")
        lacking = dataclasses.replace(cells["table2"], cells=[dataclasses.replace(cell, needs=("a microscope",))
                                                              for cell in cells["table2"].cells])
        self.assertRegex(report.make_page([lacking], [], all_experiments=cells), "<li>not run: n2-float, .*: need a microscope</li>")
        self.assertNotIn("not run", report.make_page([EXPERIMENT], full_results()))

    def test_a_figure_without_runs_says_so_and_one_with_runs_what_its_marks_mean(self):
        cells = recipes.load_all(FOLDER)
        self.assertIn("<p>No figure yet: no run that it draws is recorded.</p>",
                      report.make_page([cells["fig4"]], [], all_experiments=cells))
        text = report.make_page([cells["fig3"]], [result("fig3/momentum-n8-ternary", 1, 0.99)], all_experiments=cells)
        self.assertIn("Paper: one run each, read off its chart to 0.01 points.", text)
        self.assertNotIn("No figure yet", text)
        self.assertIn("bands reach from the lowest to the highest seed", figures.caption_of(cells["table1"]))

    def test_numbers_have_units(self):
        text = report.make_page([EXPERIMENT], full_results())
        self.assertIn("Top-1 accuracy in % of 10,000 test images, by the averaged weights after the last step", text)

    def test_of_each_seed_the_last_run_counts_and_names_say_scale_and_device(self):
        telemetry = {"tensors": {"fc": {"zero_fraction": 0.5}}, "options": {"grad_bits": 1}}
        sent = {"bytes": {"bytes_per_worker_step": 1000.0, "ratio": 16.0}}
        first = result("table1/ternary", 1, 0.5, commit="old", tensors={"fc": {"zero_fraction": 0.1}}, options={"grad_bits": 1})
        runs = [first, result("table1/ternary", 1, 0.5, **telemetry, **sent), result("table1/ternary", 1, 0.5, "1/30", **telemetry),
                result("table1/ternary", 1, 0.5, backend="gpu", **telemetry),
                result("table1/float", 1, 0.5, tensors={"fc": {"zero_fraction": 0.9}}, options={"grad_bits": 32})]
        self.assertEqual([row[:3] for row in report.tensor_rows(EXPERIMENT, runs)],
                         [(f"table1/ternary{more}", "fc", "50.0") for more in ("", " (GPU)", "~1/30")])
        self.assertEqual(report.bytes_rows(EXPERIMENT, runs), [("table1/ternary", "1,000", "16.00")])

    def test_a_failure_counts_until_the_run_is_made(self):
        failed = {**result("table1/float", 1, 0.5, commit="old"), "status": "failed", "error": "out of memory"}
        self.assertIn("<h3>Failed</h3>", report.make_page([EXPERIMENT], [failed]))
        self.assertEqual(report.failed_lines(EXPERIMENT, [failed]), ["table1/float seed 1: out of memory"])
        self.assertEqual(report.failed_lines(EXPERIMENT, [failed, result("table1/float", 1, 0.5)]), [])

    def test_a_row_that_compresses_without_a_float_cell_says_why_it_has_no_gap(self):
        alone = dataclasses.replace(EXPERIMENT.cells[1], name="alone", baseline=None)
        experiment = dataclasses.replace(EXPERIMENT, cells=(*EXPERIMENT.cells, alone))
        note = "no gap: alone, without a float cell that differs in compression, dropout and decay alone"
        for results, has_note in (([*full_results(), result("table1/alone", 1, 0.5)], True), (full_results(), False)):
            self.assertEqual(note in table_text.notes_of(tables.make_table(experiment, results)), has_note)


class Order(unittest.TestCase):
    def test_whole_runs_come_first_and_rows_without_runs_are_one_line(self):
        second = dataclasses.replace(EXPERIMENT, name="other", cells=tuple(
            dataclasses.replace(cell, experiment="other") for cell in EXPERIMENT.cells))
        runs = [result("table1/float", 1, 0.5, "1/30"), result("other/float", 1, 0.5)]
        text = report.make_page([EXPERIMENT, second], runs)
        self.assertEqual(re.findall('<h2 id="([^"]*)"', text), ["other", "table1"])
        self.assertIn("Grey rows are runs of 1/30 of the steps", text)
        self.assertNotIn("<td>not run</td>", text)


class Elements(unittest.TestCase):
    def test_columns_that_say_nothing_are_left_out(self):
        self.assertEqual(re.findall("<t[hd]>([^<]*)<", page.html_table(("a", "b", "c"), [("1", "-", "-"), ("2", "-", "3")])),
                         ["a", "c", "1", "-", "2", "3"])
        self.assertEqual(re.findall("<th>([^<]*)<", page.html_table(("a", "b"), [])), ["a", "b"])

    def test_long_cells_break_where_they_may(self):
        self.assertEqual(page.html_cell("-0.04 (-0.22..+0.14) p 0.438, Holm p 1.000"),
                         '<td class="broken"><span>-0.04 (-0.22..+0.14)</span> <span>p 0.438,</span> <span>Holm p 1.000</span></td>')
        self.assertEqual(page.html_cell("no (99.21..99.40) <"), "<td>no (99.21..99.40) &lt;</td>")
        self.assertEqual(page.html_cell("b128-n2-ternary@rate-0.0003~1/30"), "<td>b128-n2-ternary@rate-0.0003~1/30</td>")


class Recorded(InFolder):
    def test_the_report_is_what_the_records_say(self):
        made = self.folder / "report.html"
        code, _, error = run_driver("report", "-o", made, "--out", self.folder / "none")
        self.assertEqual((code, error), (0, ""))
        # Drawings are compared by digests of their data, because their bytes depend on the version of matplotlib.
        texts = [re.sub('src="data:[^"]*"', "", path.read_text(encoding="utf-8")) for path in (made, ROOT / "experiments/results/report.html")]
        if "no test on the same images" in texts[0]:
            texts = [OF_LABELS.sub("", text) for text in texts]
        self.assertTrue(texts[0] == texts[1], "run experiments/terngrad_experiment.py report -o "
                                              "experiments/results/report.html --data DIR")

    def test_what_is_not_of_the_paper_is_there_only_if_it_was_run(self):
        made = self.folder / "report.html"
        run_driver("report", "-o", made, "--out", self.folder, "--results", self.folder)
        self.assertEqual(re.findall('<h2 id="([^"]*)"', made.read_text(encoding="utf-8")),
                         ["fig5", "table1", "table2", "table3", "fig2", "fig3", "fig4", "codecs", "codecs-cifar", "less-error",
                          "open-questions", "resnet", "time-to-accuracy", "text-claims"])
        store.append(self.folder / "runs.jsonl", result("smoke/n2-float", 1, 0.5))
        run_driver("report", "-o", made, "--out", self.folder, "--results", self.folder)
        self.assertIn('<h2 id="smoke">', made.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
