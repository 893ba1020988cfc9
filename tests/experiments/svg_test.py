#!/usr/bin/env python3
"""Tests terngrad_experiments.svg. UPDATE_GOLDEN=1 writes golden/plot.svg anew: look at it before it is committed."""

import math
import os
import pathlib
import re
import unittest
import xml.etree.ElementTree

import scaffold  # noqa: F401  (puts the package on the path)
from terngrad_experiments import svg, svg_axes, svg_elements
from terngrad_experiments.svg import Bars, Plot, Series

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden/plot.svg"
NAMESPACE = "{http://www.w3.org/2000/svg}"
WORKERS = [2, 4, 8, 16, 32, 64]
# Wen et al., figure 3, momentum SGD.
PAPER = list(zip(WORKERS, (99.22, 99.09, 99.11, 99.26, 99.35, 99.21)))


def figure3():
    """Every kind of mark: a band, filled and hollow markers, error bars, a plain line."""
    ours = [(workers, accuracy - 0.02) for workers, accuracy in PAPER]
    band = [(workers, accuracy - 0.05, accuracy + 0.04) for workers, accuracy in ours]
    series = [Series("ours", ours, band, "filled"), Series("paper", PAPER, None, "hollow", False, 0.01),
              Series("paper, float", [(2, 99.2), (64, 99.2)])]
    return Plot("Figure 3: LeNet", "workers N", "top-1 %", series, x_log=True, x_ticks=WORKERS, width=480, height=300)


def plot_of(*series, **more):
    return Plot("title", "x axis", "y axis", list(series), **more)


def parsed(text):
    return xml.etree.ElementTree.fromstring(text)


def texts(root):
    return [element.text for element in root.iter(f"{NAMESPACE}text")]


def place(root, label):
    """x and y of the one text that reads label."""
    found = [element for element in root.iter(f"{NAMESPACE}text") if element.text == label]
    assert len(found) == 1, (label, texts(root))
    return float(found[0].get("x")), float(found[0].get("y"))


def paths(root, name, **attributes):
    """d of paths of a class that have the attributes, given with _ for -."""
    return [element.get("d") for element in root.iter(f"{NAMESPACE}path") if name in element.get("class", "").split()
            and all(element.get(key.replace("_", "-")) == value for key, value in attributes.items())]


def lines(root, color=0):
    return paths(root, f"plot-stroke-{color}", fill="none", stroke_width="2")


class Ticks(unittest.TestCase):
    def test_are_multiples_of_1_2_5(self):
        self.assertEqual(svg_axes.nice_ticks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1.0])
        self.assertEqual(svg_axes.nice_ticks(98.96, 99.37), [99.0, 99.1, 99.2, 99.3])
        self.assertEqual(svg_axes.nice_ticks(0, 300000), [0, 100000, 200000, 300000])
        self.assertEqual(svg_axes.nice_ticks(0, 300000, 7), [0, 50000, 100000, 150000, 200000, 250000, 300000])
        self.assertEqual(svg_axes.nice_ticks(-7, 12), [-5, 0, 5, 10])
        self.assertEqual(svg_axes.nice_ticks(0.00012, 0.00031), [0.00015, 0.0002, 0.00025, 0.0003])

    def test_stay_within_range_and_number(self):
        for exponent in range(-12, 13):
            for span in (1.0, 1.7, 2.3, 4.9, 9.99):
                for most in (3, 6, 8):
                    low, high = -0.3 * span * 10.0 ** exponent, 0.7 * span * 10.0 ** exponent
                    ticks = svg_axes.nice_ticks(low, high, most)
                    self.assertTrue(1 < len(ticks) <= most, (low, high, most, ticks))
                    self.assertTrue(low * 1.000001 <= ticks[0] and ticks[-1] <= high * 1.000001, (low, high, ticks))

    def test_of_log_axes_are_powers_of_ten(self):
        self.assertEqual(svg_axes.log_ticks(1, 100000), [1, 10, 100, 1000, 10000, 100000])
        self.assertEqual(svg_axes.log_ticks(0.0005, 2000), [0.001, 0.1, 10, 1000])
        self.assertEqual(svg_axes.log_ticks(0.9, 110, 10), [1, 2, 5, 10, 20, 50, 100])
        self.assertEqual(svg_axes.log_ticks(21, 48), [25, 30, 35, 40, 45])

    def test_labels_have_the_decimals_of_the_step(self):
        self.assertEqual(svg_axes.tick_labels([99.0, 99.1, 99.2]), ["99.0", "99.1", "99.2"])
        self.assertEqual(svg_axes.tick_labels([0, 100000, 200000]), ["0", "100,000", "200,000"])
        self.assertEqual(svg_axes.tick_labels([-0.05, -0.0, 0.05]), ["-0.05", "0.00", "0.05"])
        self.assertEqual(svg_axes.tick_labels([0, 5e7, 1e8]), ["0", "5e7", "1e8"])
        self.assertEqual(svg_axes.tick_labels([0, 1e-5, 2e-5]), ["0", "1e-5", "2e-5"])
        self.assertEqual(svg_axes.tick_labels([0.001, 1, 1000, 1e8], even=False), ["0.001", "1", "1,000", "1e8"])

    def test_labels_that_would_overlap_are_left_out(self):
        steps = [(step, 1) for step in range(0, 300001, 100000)]
        root = parsed(svg.to_svg(plot_of(Series("a", steps), x_ticks=list(range(0, 300001, 10000)), width=300)))
        shown = [text for text in texts(root) if text.endswith("0,000")]
        self.assertTrue(2 <= len(shown) <= 5, shown)


class Axes(unittest.TestCase):
    def test_a_log_axis_has_equal_factors_at_equal_distances(self):
        root = parsed(svg.to_svg(figure3()))
        places = [place(root, str(workers))[0] for workers in WORKERS]
        gaps = [b - a for a, b in zip(places, places[1:])]
        self.assertGreater(gaps[0], 40)
        for gap in gaps:
            self.assertAlmostEqual(gap, gaps[0], delta=0.02)

    def test_points_lie_at_their_ticks(self):
        root = parsed(svg.to_svg(plot_of(Series("a", [(1, 1), (10, 100), (100, 10000)]), x_log=True, y_log=True, height=200)))
        points = [tuple(map(float, point.split())) for point in lines(root)[0][1:].split("L")]
        self.assertAlmostEqual(points[1][0], place(root, "10")[0], delta=0.02)
        self.assertAlmostEqual(points[2][1] + 4, place(root, "10,000")[1], delta=0.02)

    def test_y_range_clips_lines_and_drops_markers(self):
        series = Series("a", [(0, 1), (1, 50), (2, 2)], marker="filled")
        root = parsed(svg.to_svg(plot_of(series, y_range=(0, 5))))
        clip = root.find(f".//{NAMESPACE}clipPath").get("id")
        self.assertEqual(root.find(f".//{NAMESPACE}g[@clip-path]").get("clip-path"), f"url(#{clip})")
        marks = paths(root, "plot-stroke-0", stroke_width="1.5")
        self.assertEqual([d.count("M") for d in marks], [2, 1])  # the last is the legend's

    def test_ground_is_shaded_from_where_it_is_said(self):
        series = Series("a", [(1, 1), (1000, 2)])
        root = parsed(svg.to_svg(plot_of(series, x_log=True, shade_from=(100, "extrapolated"))))
        (ground,) = paths(root, "plot-fill-grid")
        left = float(re.match(r"M([0-9.]+) ", ground).group(1))
        self.assertAlmostEqual(left, place(root, "100")[0], delta=0.02)
        self.assertGreater(place(root, "extrapolated")[0], left)
        beyond = parsed(svg.to_svg(plot_of(series, x_log=True, shade_from=(1e5, "extrapolated"))))
        self.assertEqual(paths(beyond, "plot-fill-grid"), [])
        self.assertNotIn("extrapolated", texts(beyond))
        for wrong in (0, math.inf):
            with self.assertRaisesRegex(ValueError, "shade_from"):
                svg.to_svg(plot_of(series, x_log=True, shade_from=(wrong, "")))

    def test_coordinates_far_outside_stay_small(self):
        text = svg.to_svg(plot_of(Series("a", [(0, 1), (1, 1e200), (2, 2)]), y_range=(0, 5)))
        self.assertIsNone(re.search(r"\d{6}", "".join(lines(parsed(text)))))


class Drawing(unittest.TestCase):
    def test_nan_and_infinity_break_a_line(self):
        points = [(0, 1), (1, 2), (2, math.nan), (3, 1), (4, 2), (5, math.inf), (6, 1), (7, 2)]
        self.assertEqual(lines(parsed(svg.to_svg(plot_of(Series("a", points)))))[0].count("M"), 3)

    def test_a_lone_point_is_a_dot(self):
        for points in ([(8, 99.2)], [(1, 1), (2, math.nan)]):
            root = parsed(svg.to_svg(plot_of(Series("a", points))))
            self.assertEqual(len(paths(root, "plot-fill-0", stroke_width="1.5")), 1, points)

    def test_empty_plots_and_series_are_drawn(self):
        for plot in (plot_of(), plot_of(Series("a")), plot_of(Series("a", [(math.nan, math.nan)])),
                     plot_of(Series("a"), x_log=True, y_log=True), plot_of(Series("a"), x_ticks=[2, 4], x_log=True),
                     plot_of(Series("a", [], [(1, 2, 3)])), plot_of(Series("a", [(0, 0)])),
                     plot_of(Series("a", [(1, 5), (2, 5)]))):
            text = svg.to_svg(plot)
            self.assertIn("x axis", texts(parsed(text)))
            self.assertNotRegex(re.sub("<style>.*</style>", "", text, flags=re.DOTALL), r"\b(nan|inf)\b")

    def test_error_bars_have_the_height_of_the_error(self):
        root = parsed(svg.to_svg(plot_of(Series("a", [(1, 10.0), (2, 12.0)], marker="hollow", line=False, error=1.0))))
        bar = re.match(r"M[\d.]+ ([\d.]+)V([\d.]+)", paths(root, "plot-stroke-0", stroke_width="1.2")[0])
        two = place(root, "10")[1] - place(root, "12")[1]
        self.assertAlmostEqual(float(bar[1]) - float(bar[2]), two, delta=0.05)

    def test_bars_in_place_of_a_band_stand_at_their_points_alone(self):
        points, band = [(1, 10.0), (2, math.nan), (4, 12.0)], [(1, 9.0, 11.0), (4, 11.0, 14.0)]
        root = parsed(svg.to_svg(plot_of(Series("a", points, band, "filled", bars=True))))
        self.assertEqual(paths(root, "plot-fill-0", fill_opacity="0.18"), [])
        bars, _ = paths(root, "plot-stroke-0", stroke_width="1.2")  # of the plot and of the legend
        lows = [float(low) for low in re.findall(r"M[\d.]+ ([\d.]+)V", bars)]
        highs = [float(high) for high in re.findall(r"V([\d.]+)", bars)]
        self.assertEqual(len(highs), 2)
        two = place(root, "10")[1] - place(root, "12")[1]
        self.assertAlmostEqual(lows[0] - highs[0], two, delta=0.05)
        self.assertAlmostEqual(lows[1] - highs[1], 1.5 * two, delta=0.05)
        self.assertEqual(len(lines(root)), 1)  # that of the legend: nothing joins points with one missing between them

    def test_series_differ_in_color_and_dash(self):
        root = parsed(svg.to_svg(plot_of(*(Series(f"s{n}", [(0, n), (1, n)]) for n in range(14)))))
        looks = {(element.get("stroke"), element.get("stroke-dasharray")) for element in root.iter(f"{NAMESPACE}path")
                 if element.get("stroke-width") == "2"}
        self.assertEqual(len(looks), 14)

    def test_what_goes_across_reaches_both_ends_of_the_axis(self):
        across = Series("float", [(0, 3)], [(0, 2, 4)], across=True)
        root = parsed(svg.to_svg(plot_of(Series("a", [(2, 1), (64, 5)]), across, x_log=True, x_ticks=[2, 64])))
        frame = re.match(r"M(\S+) \S+V(\S+)H(\S+)", paths(root, "plot-stroke-axis")[0])
        ends = [point.split()[0] for point in lines(root, 1)[0][1:].split("L")]
        self.assertEqual(ends, [frame[1], frame[3]])
        band = re.findall(r"[\d.]+ ([\d.]+)", paths(root, "plot-fill-1", fill_opacity="0.18")[0])
        self.assertEqual(len(set(band)), 2)
        self.assertIn("float: y 3 across.", root[1].text)
        self.assertIn("x axis", texts(parsed(svg.to_svg(plot_of(across)))))

    def test_equal_names_and_styles_look_equal(self):
        line = [(0, 1), (1, 2)]
        series = [Series("seed", line), Series("seed", line), Series("ours", line, style=3), Series("paper", line, style=3),
                  Series("other", line)]
        root = parsed(svg.to_svg(plot_of(*series)))
        self.assertEqual([len(lines(root, color)) for color in range(4)], [2 + 1, 1 + 1, 0, 2 + 2])
        self.assertEqual(texts(root).count("seed"), 1)

    def test_the_legend_lies_below_the_panel(self):
        for count in (1, 12):
            series = [Series(f"a name that takes some room {n}", [(0, n)]) for n in range(count)]
            root = parsed(svg.to_svg(plot_of(*series, width=400, height=300)))
            heights = [place(root, one.name)[1] for one in series]
            self.assertGreater(min(heights), 300)
            self.assertLess(max(heights), float(root.get("height")))

    def test_long_texts_are_wrapped(self):
        root = parsed(svg.to_svg(Plot("word " * 40, "x", "y", [Series("unbreakable" * 20, [(0, 1)])], width=300)))
        for text in texts(root):
            self.assertLessEqual(svg_elements.text_width(text), 300)
        self.assertEqual("".join(text for text in texts(root) if "break" in text or "unbr" in text)[:11], "unbreakable")


class Documents(unittest.TestCase):
    def drawings(self):
        bars = svg.bars_svg("bars", [1, 2], [Bars("a", [1, 2]), Bars("b", [3, None])], "images/s")
        return [svg.to_svg(figure3()), svg.grid_svg([figure3(), plot_of(Series("paper", PAPER))], 2), bars]

    def test_are_well_formed_and_described(self):
        for text in self.drawings():
            root = parsed(text)
            self.assertEqual(root.tag, f"{NAMESPACE}svg")
            self.assertEqual([child.tag for child in root][:3], [NAMESPACE + tag for tag in ("title", "desc", "style")])
            self.assertTrue(root[0].text and root[1].text)
            self.assertEqual(root.get("role"), "img")
            self.assertEqual(root.get("viewBox"), f"0 0 {root.get('width')} {root.get('height')}")

    def test_refer_to_nothing_outside(self):
        for text in self.drawings():
            self.assertEqual(text.count("http"), 1)
            self.assertNotRegex(text, r"href|@import|@font-face|<script|<image|url\((?!#)")

    def test_texts_are_escaped(self):
        nasty = "a <b> & \"c\" 'd' ]]> \x00\x1b\ud800 \u00e4\u2026"
        shown = "a <b> & \"c\" 'd' ]]> \ufffd\ufffd\ufffd \u00e4\u2026"
        for text in (svg.to_svg(Plot(nasty, nasty, nasty, [Series(nasty, [(0, 1)])])),
                     svg.bars_svg(nasty, [nasty], [Bars(nasty, [1])], nasty, nasty)):
            text.encode("utf-8")
            root = parsed(text)
            self.assertEqual(root[0].text, shown)
            self.assertEqual(texts(root).count(shown), 4 if "over" in root[1].text else 5)

    def test_colors_have_fallbacks_and_a_dark_form(self):
        text = svg.to_svg(figure3())
        style = parsed(text).find(f"{NAMESPACE}style").text
        self.assertIn("prefers-color-scheme:dark", style)
        light = dict(re.findall(r"--plot-(\w+):(#\w{6})", style.split("@media")[0]))
        for name, fallback in re.findall(r"var\(--plot-(\w+),(#\w+)\)", style):
            self.assertEqual(light[name], fallback)
        for element in parsed(text).iter(f"{NAMESPACE}path"):
            for name in re.findall(r"plot-stroke-(\w+)", element.get("class", "")):
                self.assertEqual(element.get("stroke"), light[name])

    def test_are_the_same_every_time(self):
        self.assertEqual(self.drawings(), self.drawings())

    def test_golden_file(self):
        text = svg.to_svg(figure3())
        if os.environ.get("UPDATE_GOLDEN"):
            GOLDEN.parent.mkdir(exist_ok=True)
            GOLDEN.write_text(text, encoding="utf-8")
        self.assertEqual(text, GOLDEN.read_text(encoding="utf-8"), "if this is wanted: UPDATE_GOLDEN=1, and look at the file")


class Grid(unittest.TestCase):
    def test_panels_lie_in_rows_and_share_a_legend(self):
        plots = [plot_of(Series("float", [(0, 1)]), Series("ternary", [(0, 2)]), width=200, height=150) for _ in range(3)]
        root = parsed(svg.grid_svg(plots, 2))
        panels = [element.get("transform") for element in root if element.tag == f"{NAMESPACE}g"]
        self.assertEqual(panels, ["translate(0 0)", "translate(200 0)", "translate(0 150)"])
        self.assertEqual(root.get("width"), "400")
        self.assertEqual(texts(root).count("float"), 1)

    def test_a_name_has_one_color_in_all_panels(self):
        line = [(0, 1), (1, 2)]
        root = parsed(svg.grid_svg([plot_of(Series("a", line), Series("b", line)), plot_of(Series("b", line))], 1))
        self.assertEqual((len(lines(root, 0)), len(lines(root, 1))), (1 + 1, 2 + 1))

    def test_groups_are_stacked_with_a_legend_each(self):
        line = [(0, 1), (1, 2)]
        first, second = [plot_of(Series("a", line)), plot_of(Series("b", line))], [plot_of(Series("c", line), width=200)]
        root = parsed(svg.stacked_svg([first, second], 2))
        heights = [float(parsed(svg.grid_svg(plots, 2)).get("height")) for plots in (first, second)]
        self.assertAlmostEqual(float(root.get("height")), sum(heights), delta=0.02)
        groups = [element.get("transform") for element in root if element.tag == f"{NAMESPACE}g"]
        self.assertEqual(groups, ["translate(0 0)", f"translate(0 {svg_elements.number(heights[0])})"])
        self.assertEqual(len(list(root.iter(f"{NAMESPACE}svg"))), 1)
        # Each legend begins with the first look.
        self.assertEqual(len(lines(root, 0)), 2 * 2)
        with self.assertRaisesRegex(ValueError, "0 groups"):
            svg.stacked_svg([], 2)

    def test_without_plots_or_columns_is_refused(self):
        for plots, columns in (([], 1), ([figure3()], 0)):
            with self.assertRaisesRegex(ValueError, "columns"):
                svg.grid_svg(plots, columns)


class GroupedBars(unittest.TestCase):
    # Wen et al., figure 5 (a), AlexNet.
    GPUS = [1, 8, 512]
    SERIES = [Bars("FP32", [394, 719, 25709]), Bars("ternary", [387, 2189, 99417])]

    def boxes(self, root, color):
        """Left, right, top and bottom of the bars, the legend's last."""
        found = []
        for d in paths(root, f"plot-fill-{color}", fill_opacity="0.25"):
            for box in re.findall(r"M(\S+) (\S+)V(\S+)H(\S+)V", d):
                left, bottom, top, right = map(float, box)
                found.append((left, right, top, bottom))
        return found[:-1]

    def test_heights_are_proportional(self):
        root = parsed(svg.bars_svg("t", self.GPUS, self.SERIES, "images/s"))
        heights = [bottom - top for _, _, top, bottom in self.boxes(root, 0) + self.boxes(root, 1)]
        for height, value in zip(heights, self.SERIES[0].values + self.SERIES[1].values):
            self.assertAlmostEqual(height / heights[-1], value / 99417, delta=0.0001)

    def test_do_not_overlap_and_stand_over_their_group(self):
        root = parsed(svg.bars_svg("t", self.GPUS, self.SERIES, "images/s", y_log=True))
        both = sorted(self.boxes(root, 0) + self.boxes(root, 1))
        for one, other in zip(both, both[1:]):
            self.assertLess(one[1], other[0])
        for group, first, second in zip(self.GPUS, self.boxes(root, 0), self.boxes(root, 1)):
            self.assertTrue(first[0] < place(root, str(group))[0] < second[1])

    def test_a_log_axis_has_its_powers_of_ten(self):
        root = parsed(svg.bars_svg("t", self.GPUS, self.SERIES, "images/s", y_log=True, height=240))
        tick = [place(root, label)[1] for label in ("100", "1,000", "10,000", "100,000")]
        for a, b, c in zip(tick, tick[1:], tick[2:]):
            self.assertAlmostEqual(a - b, b - c, delta=0.02)

    def test_missing_values_draw_nothing_and_negative_ones_hang(self):
        root = parsed(svg.bars_svg("t", ["a", "b", "c"], [Bars("s", [None, math.nan, -2.0]), Bars("u", [1, 1, 1])], "y"))
        (_, _, value, zero), = self.boxes(root, 0)
        self.assertLess(zero, value)
        self.assertEqual(len(self.boxes(root, 1)), 3)

    def test_nothing_to_draw_is_drawn(self):
        for groups, series in (([], []), (["a"], []), (["a"], [Bars("s", [None])]), (["a"], [Bars("s", [0])])):
            for y_log in (False, True):
                if not (y_log and series and series[0].values == [0]):
                    self.assertIn("y", texts(parsed(svg.bars_svg("t", groups, series, "y", y_log=y_log))))

    def test_refusals_name_the_series(self):
        for values, more, why in (([1], {}, "1 values for 2 groups"), ([1, math.inf], {}, "finite"),
                                  ([0, 1], {"y_log": True}, "log axis")):
            with self.assertRaisesRegex(ValueError, f"series 'mine'.*{why}"):
                svg.bars_svg("t", ["a", "b"], [Bars("fine", [1, 2]), Bars("mine", values)], "y", **more)


class Refusals(unittest.TestCase):
    def refused(self, why, *series, **more):
        with self.assertRaisesRegex(ValueError, why):
            svg.to_svg(plot_of(*series, **more))

    def test_log_axes_take_positive_values_only(self):
        fine = Series("fine", [(1, 1)])
        for value in (0, -3, -math.inf):
            self.refused("'mine': x = .* log axis", fine, Series("mine", [(1, 1), (value, 1)]), x_log=True)
            self.refused("'mine': y = .* log axis", fine, Series("mine", [(1, value)]), y_log=True)
        self.refused("'mine': y = 0 on a log axis", Series("mine", [], [(1, 0, 2)]), y_log=True)
        self.refused("'mine': x = 0 on a log axis", Series("mine", [], [(0, 1, 2)]), x_log=True)
        self.refused("'mine': y = -1 on a log axis", Series("mine", [(1, 2)], error=3), y_log=True)

    def test_bands_are_finite_and_ordered(self):
        for point in ((math.nan, 1, 2), (1, math.nan, 2), (1, 1, math.inf), (1, 2, 1)):
            self.refused("series 'mine': band", Series("fine", [(1, 1)]), Series("mine", [(1, 1)], [(0, 1, 2), point]))

    def test_marks_are_known(self):
        self.refused("series 'mine': marker 'round', not one of None, hollow, filled", Series("mine", marker="round"))
        for error in (-1, math.nan, math.inf):
            self.refused("series 'mine': error", Series("mine", [(1, 1)], error=error))

    def test_across_goes_one_line(self):
        for series in (Series("mine", [(1, 1), (2, 2)], across=True), Series("mine", [(1, 1)], marker="filled", across=True),
                       Series("mine", [(1, 1)], [(0, 1, 2), (1, 1, 2)], across=True)):
            self.refused("series 'mine': across the axis goes a line of one point", series)

    def test_ranges_and_ticks(self):
        for y_range in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1), (1,)):
            self.refused("y_range", y_range=y_range)
        self.refused("y_range.*log axis", y_range=(0, 1), y_log=True)
        self.refused("x_ticks", x_ticks=[0, 2], x_log=True)
        self.refused("x_ticks", x_ticks=[math.nan])


if __name__ == "__main__":
    unittest.main()
