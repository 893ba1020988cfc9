#!/usr/bin/env python3
"""Tests of what is accepted of the exchange model, and of its figure and section of the report, on rows made up here."""

import html.parser
import json
import re
import unittest
import xml.etree.ElementTree

from scaffold import ROOT, InFolder
from terngrad_experiments import cli, report, store, svg, validation, validation_figure

NAMESPACE = "{http://www.w3.org/2000/svg}"


def row(codec, measured, predicted, hosts=2, exchange="all_gather", **more):
    parts = {"encode_seconds": 0.25 * measured, "wire_seconds": 0.5 * measured, "decode_seconds": 0.25 * measured}
    return {"schema": 1, "kind": "model-validation", "layout": "lenet", "hosts": hosts, "rate": "1gbit", "exchange": exchange,
            "codec": codec, "measured_seconds": measured, "predicted_seconds": predicted,
            "measured": parts | {"measure_seconds": 0.001}, "predicted": parts,
            "link": {"latency_seconds": 1e-4, "bytes_per_second": 1.25e8}, "iperf3_mbit_per_s": 941.0, "stolen_percent": 0.25,
            "busy_before_percent": 2.0, "machine": {"cpu": "Xeon <x>", "cores": 2}, "commit": "abc"} | more


def good_rows():
    """10 rows, one of them between what is typical and what is accepted."""
    return [row(codec, seconds, seconds * (1.1 if exchange == "all_gather" else 0.9), hosts, exchange)
            for hosts in (2, 4) for exchange in ("all_gather", "scatter_reduce")
            for codec, seconds in (("fp32", 0.4), ("bf16", 0.2))] + [row("t2", 0.02, 0.0205), row("t5", 0.02, 0.025)]


class Accepted(unittest.TestCase):
    def test_errors_are_of_what_was_measured(self):
        self.assertAlmostEqual(validation.error_of(row("t2", 2.0, 2.5)), 0.25)
        self.assertAlmostEqual(validation.error_of(row("t2", 2.0, 1.0)), -0.5)
        self.assertIsNone(validation.error_of(row("t2", 2.0, 1.0), "predicted_by_two_seconds"))

    def test_nine_rows_of_ten_within_15_percent(self):
        summary = validation.summarize(good_rows())
        self.assertEqual((summary.num_rows, summary.num_typical, summary.worst["codec"]), (10, 9, "t5"))
        self.assertAlmostEqual(summary.worst_error, 0.25)
        self.assertTrue(summary.is_accepted())
        self.assertFalse(validation.summarize(good_rows()[:-1] + [row("t5", 0.02, 0.0262)]).is_accepted())  # beyond 30 %
        self.assertFalse(validation.summarize(good_rows()[1:]).is_accepted())  # 8 of 9

    def test_codecs_of_one_exchange_are_ranked_if_they_differ(self):
        self.assertEqual(validation.summarize(good_rows()).num_pairs, 4 + 4)  # t2 and t5 do not differ
        for slower, predicted, num_pairs, num_wrong in ((1.09, 0.98, 0, 0), (1.12, 1.1, 1, 0), (1.12, 1.0, 1, 1),
                                                        (1.12, 0.97, 1, 1)):
            t2, t5 = row("t2", 1.0, 1.0), row("t5", slower, predicted)
            for rows in ([t2, t5], [t5, t2]):
                summary = validation.summarize(rows)
                self.assertEqual((summary.num_pairs, len(summary.wrong_pairs)), (num_pairs, num_wrong))
                self.assertEqual(summary.is_accepted(), num_wrong == 0)
        for other in ({"hosts": 4}, {"exchange": "scatter_reduce"}, {"rate": "100mbit"}, {"layout": "alexnet"}):
            self.assertEqual(validation.summarize([row("t2", 1.0, 1.0), row("t5", 2.0, 2.0, **other)]).num_pairs, 0, other)

    def test_the_summary_says_why(self):
        lines = validation.summary_lines([row("t2", 1.0, 1.3), row("t5", 1.2, 1.2)])
        self.assertTrue(lines[0].startswith("Not accepted (asked for: 90 % of the rows within 15 %, none beyond 30 %, "), lines)
        self.assertEqual(lines[1:], ["1 of 2 rows (50 %) are within 15 %.",
                                     "Worst row: t2, all_gather, 2 hosts, 1gbit, lenet: +30.0 %.",
                                     "Two codecs whose measured times differ by more than 10 % are ranked right in 0 of 1 cases.",
                                     "Ranked wrong: t2 is faster than t5; all_gather, 2 hosts, 1gbit, lenet."])
        self.assertEqual(validation.summary_lines([]), ["No row was measured."])

    def test_the_link_of_two_hosts_is_judged_by_rows_of_more(self):
        rows = [row("t2", 1.0, 1.0, predicted_by_two_seconds=1.0), row("t2", 1.0, 1.0, 4, predicted_by_two_seconds=0.8),
                row("t2", 1.0, 1.0, 8, predicted_by_two_seconds=0.9)]
        lines = validation.summary_lines(rows)
        self.assertTrue(lines[0].startswith("Accepted ("), lines)
        self.assertEqual(lines[-1], "With the link as two hosts measured it, 1 of 2 rows of more hosts are within 15 %; "
                                    "worst: t2, all_gather, 4 hosts, 1gbit, lenet: -20.0 %.")

    def test_cells_have_measured_and_predicted_parts(self):
        self.assertEqual(validation.cells_of(row("t2", 0.1, 0.11, 4, predicted_by_two_seconds=0.09)),
                         ("lenet", "4", "1gbit", "all_gather", "t2", "100", "110", "+10.0 %", "-10.0 %", "26 / 25", "50 / 50",
                          "25 / 25"))
        self.assertEqual(validation.cells_of(row("t2", 12.3456, 0.00123))[5:9], ("12346", "1.23", "-100.0 %", "-"))
        self.assertEqual(len(validation.HEADER), 12)

    def test_a_launch_has_one_line(self):
        unlimited = {"latency_seconds": 0, "bytes_per_second": None}
        lines = validation.link_cells([row("t2", 1.0, 1.0), row("t5", 1.0, 0.8), row("t2", 1.0, 1.0, 4, link=unlimited)])
        self.assertEqual(lines, [("lenet", "2", "1gbit", "100", "1000", "941", "0.2 %", "2 %", "1 of 2"),
                                 ("lenet", "4", "1gbit", "0", "unlimited", "941", "0.2 %", "2 %", "1 of 1")])
        self.assertEqual(len(lines[0]), len(validation.LINK_HEADER))


class Recorded(InFolder):
    def setUp(self):
        super().setUp()
        self.results = self.folder
        self.record = self.results / validation.RECORD
        self.record.parent.mkdir()

    def write(self, rows):
        self.record.write_text("".join(map(store.to_line, rows)), encoding="utf-8")

    def test_of_equal_rows_the_last_counts(self):
        self.assertEqual(validation.read(self.record), [])
        self.write([row("t2", 1.0, 1.0), row("t5", 1.0, 1.0), row("t2", 2.0, 2.0)])
        self.assertEqual([(each["codec"], each["measured_seconds"]) for each in validation.read(self.record)],
                         [("t5", 1.0), ("t2", 2.0)])

    def test_what_is_no_row_is_named(self):
        for line, why in (("{", "not JSON"), ("[]", "not of kind"), ('{"schema":1,"kind":"run"}', "not of kind model-validation"),
                          (json.dumps(row("t2", 1, 1) | {"schema": 2}), "schema 1"),
                          (json.dumps({k: v for k, v in row("t2", 1, 1).items() if k != "link"}), "lacks link")):
            self.record.write_text(store.to_line(row("t5", 1, 1)) + line + "\n", encoding="utf-8")
            with self.assertRaisesRegex(store.StoreError, f"{validation.FILE}:2: .*{why}"):
                validation.read(self.record)

    def test_runs_are_read_as_if_it_were_not_there(self):
        self.write(good_rows())
        options = cli.make_parser("x", ROOT / "experiments").parse_args(
            ["--results", str(self.results), "--out", str(self.results / "none"), "report"])
        self.assertEqual(cli.recorded(options), [])

    def test_the_report_has_it_if_it_is_there(self):
        page = self.results / "page.html"
        words = ["--results", str(self.results), "--out", str(self.results / "none"), "report", "-o", str(page)]

        def written(*names):
            self.assertEqual(cli.main("x", ROOT / "experiments", [*words, *names]), 0)
            return page.read_text(encoding="utf-8")
        self.assertNotIn(validation.KIND, written())
        self.write(good_rows())
        text = written()
        self.assertIn('<a href="#model-validation">', text)
        self.assertIn("<li>9 of 10 rows (90 %) are within 15 %.</li>", text)
        self.assertIn("2 cores of Xeon &lt;x&gt;; commits abc.", text)
        self.assertIn("<td>+25.0 %</td>", text)
        html.parser.HTMLParser().feed(text)
        self.assertEqual(set(re.findall(r"https?://[^\"' <]*", text)) - {"http://www.w3.org/2000/svg"}, set())
        self.assertNotIn(validation.KIND, written("table1"))

    def test_what_cannot_be_read_is_said(self):
        self.record.write_text("{}\n", encoding="utf-8")
        self.assertEqual(cli.main("x", ROOT / "experiments", ["--results", str(self.results), "report", "-o",
                                                             str(self.results / "page.html")]), 1)

    def test_what_the_project_records_is_in_its_form(self):
        record = ROOT / "experiments/results" / validation.RECORD
        if not record.exists():
            self.skipTest("nothing is recorded")
        self.assertEqual("".join(map(store.to_line, validation.read(record))), record.read_text(encoding="utf-8"))


class Figure(unittest.TestCase):
    def test_a_row_is_a_point_of_its_codec_and_exchange(self):
        plot = validation_figure.plot_of([row("fp32", 0.1, 0.12), row("t2", 0.01, 0.009), row("t2", 0.02, 0.021, 4),
                                          row("t2", 0.03, 0.03, exchange="scatter_reduce")])
        self.assertTrue(plot.x_log and plot.y_log)
        points = {one.name: (one.marker, one.style, one.points) for one in plot.series if one.marker}
        self.assertEqual(list(points), ["fp32, all_gather", "t2, all_gather", "t2, scatter_reduce"])
        self.assertEqual(points["t2, scatter_reduce"][:2], ("filled", points["t2, all_gather"][1]))
        marker, _, both = points["t2, all_gather"]
        self.assertEqual(marker, "hollow")
        for (x, y), expected in zip(both, ((10, 9), (20, 21))):
            self.assertAlmostEqual(x, expected[0])
            self.assertAlmostEqual(y, expected[1])

    def test_points_within_bounds_lie_in_their_band(self):
        plot = validation_figure.plot_of([row("t2", 1.0, 1.0), row("t5", 2.0, 0.5)])
        wide, narrow = plot.series[:2]
        self.assertIn("30 %", wide.name)
        self.assertIn("15 %", narrow.name)
        for one, error in ((wide, 0.3), (narrow, 0.15)):
            (left, low, high), (right, _, _) = one.band
            self.assertTrue(left < 500 and right > 2000)  # all that is drawn
            self.assertAlmostEqual(low / left, 1 - error)
            self.assertAlmostEqual(high / left, 1 + error)
        self.assertEqual([x for x, y in narrow.points], [y for x, y in narrow.points])

    def test_the_drawing_is_sound(self):
        root = xml.etree.ElementTree.fromstring(svg.to_svg(validation_figure.plot_of(good_rows())))
        texts = [element.text for element in root.iter(f"{NAMESPACE}text")]
        for text in ("measured, ms", "predicted, ms", "fp32, all_gather", "t5, all_gather", "bf16, scatter_reduce"):
            self.assertIn(text, texts)

    def test_a_page_has_more_sections_at_its_end(self):
        page = report.make_page([], [], more={"a": '<h2 id="a">b</h2>'})
        self.assertIn('<a href="#a">a</a>', page)
        self.assertIn('<h2 id="a">b</h2>', page)


if __name__ == "__main__":
    unittest.main()
