#!/usr/bin/env python3
"""Tests terngrad_experiments.plots: the calls to matplotlib, and the files."""

import math
import unittest
import xml.etree.ElementTree

from scaffold import InFolder
from terngrad_experiments import plots
from terngrad_experiments.plots import Plot, Series


def plot_of(*series, **more):
    return Plot("title", "x axis", "y axis", list(series), **more)


def axes_of(*series, **more):
    """Axes of a drawing with one plot."""
    return plots.drawing([[plot_of(*series, **more)]], 1).figure.axes[0]


def legend_of(drawing):
    return [text.get_text() for axes in drawing.figure.axes if axes.get_legend() for text in axes.get_legend().get_texts()]


class Drawing(unittest.TestCase):
    def test_a_line_is_broken_where_a_point_is_not_finite(self):
        (line,) = axes_of(Series("a", [(0, 1), (1, math.inf), (2, math.nan), (3, 4)])).lines
        self.assertEqual([math.isnan(y) for y in line.get_ydata()], [False, True, True, False])

    def test_a_lone_point_of_a_line_has_a_marker(self):
        self.assertEqual(axes_of(Series("a", [(8, 99.2)])).lines[0].get_marker(), "o")
        self.assertIn(axes_of(Series("a", [(0, 1), (1, 2)])).lines[0].get_marker(), ("None", None))

    def test_markers_are_hollow_or_filled_without_a_line(self):
        hollow, filled = axes_of(Series("a", [(0, 1)], marker="hollow", line=False), Series("b", [(0, 2)], marker="filled", line=False)).lines
        self.assertEqual((hollow.get_linestyle(), hollow.get_markerfacecolor()), ("None", "white"))
        self.assertEqual(filled.get_markerfacecolor(), plots.COLORS[1])

    def test_what_goes_across_ends_where_the_others_do(self):
        axes = axes_of(Series("paper", [(0, 5)], [(0, 4, 6)], across=True), Series("a", [(10, 1), (20, 2)]))
        line = next(line for line in axes.lines if 5 in line.get_ydata())
        self.assertEqual(list(line.get_xdata()), list(axes.get_xlim()))
        self.assertGreater(axes.get_xlim()[0], 9)

    def test_bars_stand_around_their_mean(self):
        axes = axes_of(Series("a", [(2, 5), (4, 6)], [(2, 4, 7), (4, 5, 7)], bars=True, marker="filled"))
        (bars,) = axes.containers
        spans = [sorted(y for _, y in path.vertices) for path in bars.lines[2][0].get_paths()]
        self.assertEqual(spans, [[4, 7], [5, 7]])

    def test_logarithmic_axes_have_the_given_ticks_and_refuse_zero(self):
        axes = axes_of(Series("a", [(2, 1), (64, 2)]), x_log=True, x_ticks=[2, 8, 64])
        self.assertEqual((axes.get_xscale(), list(axes.get_xticks())), ("log", [2, 8, 64]))
        with self.assertRaisesRegex(ValueError, "series 'a': a logarithmic axis takes values above 0 only"):
            axes_of(Series("a", [(0, 1)]), x_log=True)

    def test_shade_is_drawn_only_within_the_axis(self):
        series = Series("a", [(1, 1), (100, 2)])
        self.assertEqual([text.get_text() for text in axes_of(series, x_log=True, shade_from=(10, "extrapolated")).texts], ["extrapolated"])
        self.assertEqual(list(axes_of(series, x_log=True, shade_from=(1e6, "extrapolated")).texts), [])

    def test_a_name_looks_the_same_in_all_plots_of_a_group(self):
        drawing = plots.drawing([[plot_of(Series("a", [(0, 1), (1, 1)]), Series("b", [(0, 1), (1, 1)])),
                                  plot_of(Series("b", [(0, 1), (1, 1)]))]], 2)
        first, second = drawing.figure.axes[:2]
        self.assertEqual(first.lines[1].get_color(), second.lines[0].get_color())
        self.assertNotEqual(first.lines[0].get_color(), first.lines[1].get_color())
        self.assertEqual(legend_of(drawing), ["a", "b"])

    def test_styles_apart_by_the_number_of_colours_share_one(self):
        one, other = axes_of(Series("a", [(0, 1), (1, 2)], style=0), Series("b", [(0, 2), (1, 3)], style=len(plots.COLORS))).lines
        self.assertEqual(one.get_color(), other.get_color())
        self.assertNotEqual(one.get_linestyle(), other.get_linestyle())

    def test_nothing_is_refused(self):
        for groups in ([], [[]]):
            with self.assertRaisesRegex(ValueError, "a figure needs a plot in each group"):
                plots.drawing(groups, 1)


class Files(InFolder):
    def test_equal_plots_are_equal_files_with_text_and_digest(self):
        first, second = (plots.drawing([[plot_of(Series("a & b", [(0, 1), (1, 2)]))]], 1) for _ in range(2))
        self.assertEqual(first.svg(), second.svg())
        root = xml.etree.ElementTree.fromstring(first.svg())
        self.assertIn("a & b", [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")])
        self.assertEqual(plots.digest_in(first.svg()), first.digest)
        self.assertNotEqual(plots.drawing([[plot_of(Series("a", [(0, 1), (1, 3)]))]], 1).digest, first.digest)

    def test_png_and_html(self):
        drawing = plots.drawing([[plot_of(Series("a", [(0, 1), (1, 2)]))]], 1)
        drawing.save(self.folder / "a.png", "png")
        self.assertEqual((self.folder / "a.png").read_bytes()[:4], b"\x89PNG")
        self.assertTrue(drawing.html().startswith('<figure><img alt="title: y axis over x axis, of a." data-digest="'))
        wide = plots.drawing([[plot_of(Series("a", [(0, 1)])), plot_of(Series("a", [(0, 1)]))]], 2)
        self.assertTrue(wide.html().startswith('<figure class="wide">'))


if __name__ == "__main__":
    unittest.main()
