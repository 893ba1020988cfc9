#!/usr/bin/env python3
"""Tests the spec parser of the reference (specs.py): defaults, presets, wire format numbers, errors."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

from reference import codecs, specs  # noqa: E402


class Specs(unittest.TestCase):
    @staticmethod
    def codecs_of_all():
        return [(text, codecs.parse(text).codec) for text in testing.SPECS]

    def options(self, text):
        """All options of a codec, with defaults."""
        codec = codecs.parse(text).codec
        return {key: getattr(codec, key) for key in codec.options}

    def test_every_codec_of_the_wire_format_is_there(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/wire-format.md").read_text(encoding="utf-8")
        listed = re.search(r"\| codec \| (.*?);", page)[1]
        self.assertEqual({name: codec.wire_id for name, codec in specs.CODECS.items()},
                         {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", listed)})

    def test_defaults(self):
        self.assertEqual(self.options("qsgd"), {"bits": 4, "norm": "max", "block": 512, "rounding": "stochastic",
                                                "sharing": "none", "clip": 2.154, "rotate": 0})
        self.assertEqual(self.options("natural"), {"bits": 8, "norm": "max", "block": 0})
        self.assertEqual(self.options("sign"), {"reduce": "mean", "scale": "l1", "zeros": "alternate", "block": 0,
                                                "rotate": 0})
        self.assertEqual(self.options("onebit")["group"], "column")
        self.assertEqual(self.options("fp8"), {"block": 128, "rounding": "nearest"})
        self.assertEqual(self.options("ternary"), {"clip_factor": 0, "scaler": "paper", "sharing": "max",
                                                   "clip_scope": "shared", "scope": "layer", "block": 32768,
                                                   "format": "t2", "rounding": "stochastic", "levels": "symmetric",
                                                   "rotate": 0})

    def test_presets(self):
        for preset, spec in (("int8", "qsgd:bits=8,rounding=nearest,block=128"),
                             ("nuqsgd", "natural:bits=4,norm=l2,block=8192"), ("signsgd", "sign:reduce=vote,scale=one"),
                             ("signum", "sign:reduce=vote,scale=one"), ("efsignsgd", "sign"),
                             ("terngrad_ef", "ternary:rounding=nearest,clip_factor=1.22"),
                             ("thc", "qsgd:bits=4,norm=rms,clip=2.154,sharing=max,rotate=1024"),
                             ("int8:block=64", "qsgd:bits=8,rounding=nearest,block=64")):
            self.assertEqual((type(codecs.parse(preset).codec), self.options(preset)),
                             (type(codecs.parse(spec).codec), self.options(spec)))

    def test_numbers_of_the_wire_format(self):
        numbers = {text: (codec.wire_id, codec.format_id()) for text, codec in self.codecs_of_all()}
        for text, expected in (("fp32", (1, 0)), ("bf16", (2, 0)), ("ternary", (3, 1)),
                               ("ternary:format=t5,clip_factor=2.5", (3, 2)),
                               ("ternary:format=tmask,clip_factor=1.5,clip_scope=local", (3, 3)),
                               ("ternary:format=trans,clip_factor=2.5", (3, 5)), ("qsgd", (4, 16)),
                               ("int8", (4, 17)), ("qsgd:bits=2", (4, 1)), ("natural", (5, 21)),
                               ("natural:bits=4", (5, 22)), ("sign", (6, 18)), ("signsgd", (6, 18)),
                               ("onebit", (7, 18)), ("randomk", (9, 25)), ("topk", (8, 19)),
                               ("topk:scope=block,block=256,density=0.05", (8, 20)),
                               ("fp8", (10, 23)), ("eden", (12, 2)), ("eden:levels=2", (12, 18)),
                               ("eden:levels=8,rotate=128", (12, 27))):
            self.assertEqual(numbers[text], expected)

    def test_classes(self):
        classes = {text: codec.aggregation for text, codec in self.codecs_of_all()}
        for text, expected in (("fp32", "floats"), ("ternary", "shared"), ("ternary:sharing=none,block=64", "unshared"),
                               ("ternary:levels=asymmetric", "unshared"), ("qsgd", "unshared"),
                               ("qsgd:bits=2,sharing=max,block=64", "shared"), ("sign", "unshared"),
                               ("signsgd", "vote"), ("sign:reduce=vote", "vote"), ("onebit", "unshared"), ("topk", "sparse")):
            self.assertEqual(classes[text], expected)

    def test_what_is_refused(self):
        for text, words in (("zip", "expected one of fp32, bf16, ternary"),
                            ("qsgd:bits=3", "bits=3: expected one of 2, 4, 8"),
                            ("qsgd:block=100", "expected a multiple of 64"),
                            ("qsgd:levels=3", "key levels: expected one of bits, norm"),
                            ("qsgd:bits", "expected key=value"), ("qsgd:bits=2,bits=2", "each key once"),
                            ("qsgd:", "expected key=value"), ("qsgd:clip=2", "expected norm=rms"),
                            ("qsgd:norm=rms,clip=0", "expected more than 0"),
                            ("qsgd:norm=rms,clip=nan", "expected a number"), ("qsgd:block=-64", "at least 0"),
                            ("qsgd:block=6.4e1", "a number"), ("natural:norm=l2", "expected bits=4"),
                            ("sign:scale=one", "expected one of l1, l2, drive"),
                            ("sign:reduce=vote,scale=l2", "expected one of one, l1"),
                            ("signsgd:block=64", "has one scaler"), ("onebit:block=64", "expected group=block"),
                            ("onebit:group=block,block=0", "group=layer"), ("topk:block=256", "expected scope=block"),
                            ("topk:density=0", "more than 0"), ("topk:density=2", "at most 1"),
                            ("topk:scope=block,stage_steps=3", "scope=layer"),
                            ("randomk:density=0.3", "one over an integer"),
                            ("ternary:levels=asymmetric,sharing=mean", "expected none or max"),
                            ("fp32:block=64", "expected one of none"),
                            ("ternary:scope=layer,block=64", "expected scope=block"),
                            ("ternary:block=0", "scope=layer")):
            with self.assertRaisesRegex(ValueError, words):
                codecs.parse(text)


if __name__ == "__main__":
    unittest.main()
