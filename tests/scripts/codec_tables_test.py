#!/usr/bin/env python3
"""The codec tables of README.md and docs/codecs.md match the registry; tests of their generator.

Argument: terngrad_train."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/dev"))

import codec_tables  # noqa: E402
import generated_tables  # noqa: E402

TRAIN = None


class Tables(unittest.TestCase):
    def test_both_pages_are_what_the_registry_says(self):
        for path, text in codec_tables.contents(ROOT, codec_tables.listed(TRAIN)).items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, "run scripts/dev/codec_tables.py")

    def test_every_codec_has_a_section(self):
        page = (ROOT / codec_tables.PAGE).read_text(encoding="utf-8")
        for codec in codec_tables.listed(TRAIN)["codecs"]:
            self.assertIn(f"\n## {codec['name']}\n", page)

    def test_the_readme_stays_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 160)


class Lines(unittest.TestCase):
    def test_only_what_is_between_the_marks_is_replaced(self):
        begin, end = generated_tables.marks("x", "script")
        self.assertEqual(begin, "<!-- x: scripts/dev/script.py -->")
        self.assertEqual(generated_tables.with_lines(f"a\n{begin}\nold\n{end}\nb\n", "x", ["new"], "script"),
                         f"a\n{begin}\nnew\n{end}\nb\n")
        with self.assertRaisesRegex(ValueError, "expected one line"):
            generated_tables.with_lines("no marks", "x", [], "script")

    def test_facts(self):
        def text(by_default, *changed_by):
            return codec_tables.fact_text({"by_default": by_default, "changed_by": list(changed_by)})
        self.assertEqual(text(True), "yes")
        self.assertEqual(text(False), "no")
        self.assertEqual(text(True, "a=b", "c=d"), "yes, not with `a=b`, `c=d`")
        self.assertEqual(text(False, "a=b"), "with `a=b`")

    def test_a_row(self):
        codec = {"name": "x", "bits_per_element": [1.6, 2.0], "varying_by": ["format=m"], "most_bits": 0, "source": "", "sums_as_float": False,
                 "unbiased": {"by_default": True, "changed_by": []}, "summable": {"by_default": False, "changed_by": []},
                 "runs_on_gpus": False, "rounds": 1, "keys": []}
        self.assertEqual(codec_tables.overview([codec], "p#{}", {})[2], "| [`x`](p#x) | 1.6, 2; varies with `format=m` | yes | no | through the host | baseline |")
        self.assertEqual(codec_tables.keys_table(codec), ["It has no keys."])

    def test_presets(self):
        row = codec_tables.presets_table([{"name": "x", "spec": "ternary:format=t5", "memory": "", "summary": "of a test"}])[2]
        self.assertEqual(row, "| `x` | `ternary:format=t5` | that of the codec | of a test |")


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
