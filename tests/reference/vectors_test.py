#!/usr/bin/env python3
"""Tests the committed vectors: equal to the output of make_vectors.py, and consistent with the format of vectors.py."""

import itertools
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from reference import testing  # noqa: E402  (the path comes first; it ends the test where numpy is missing)

import numpy as np  # noqa: E402

from reference import codecs, make_vectors, packing, philox, rotation, rounding, vectors  # noqa: E402

MAX_BYTES = 120_000  # all files together
CASES = list(itertools.chain.from_iterable(make_vectors.FILES.values()))


def read_vectors():
    """Each vector as {key: [values of a line, ...]}, in order of the files."""
    for name in make_vectors.FILES:
        vector = {}
        for line in (make_vectors.FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if line == "end":
                yield vector
                vector = {}
            elif line and not line.startswith("#"):
                key, *values = line.split(" ")
                vector.setdefault(key, []).append(values)


def by_worker(lines):
    return [values[1:] for values in sorted(lines, key=lambda values: int(values[0]))]


def numbers(digits):
    return np.array([int(one, 16) for one in digits], np.uint32).view(np.float32)


class Committed(unittest.TestCase):
    def test_they_are_what_the_script_writes(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(make_vectors, "FOLDER", pathlib.Path(folder)), \
                mock.patch.object(sys, "argv", ["make_vectors.py"]):
            self.assertEqual(make_vectors.main(), 0)
            written = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(folder).iterdir()}
        committed = {path.name: path.read_text(encoding="utf-8") for path in make_vectors.FOLDER.iterdir()}
        self.assertEqual(sorted(committed), sorted(written))
        for name, text in committed.items():
            # Line by line, for short messages.
            self.assertEqual(text.splitlines(), written[name].splitlines(),
                             f"{name}: tests/reference/make_vectors.py writes it")

    def test_their_size(self):
        self.assertLess(sum(path.stat().st_size for path in make_vectors.FOLDER.iterdir()), MAX_BYTES)

    def test_every_codec_and_every_value_of_its_keys_is_there(self):
        seen = {}
        for case in CASES:
            codec = codecs.parse(case.spec).codec
            for key, (_, choices) in codec.options.items():
                seen.setdefault((type(codec), key), set()).add(getattr(codec, key))
        for (kind, key), values in seen.items():
            choices = kind.options[key][1]
            # scope=model needs several tensors.
            self.assertEqual(values, set(choices) - {"model"} if choices else values, (kind.__name__, key))
        self.assertEqual({type(codecs.parse(case.spec).codec).__name__ for case in CASES},
                         {"Fp32", "Bf16", "Ternary", "Qsgd", "Natural", "Sign", "Onebit", "TopK", "Fp8", "Eden"})

    def test_refinements_are_seen_both_ways(self):
        """Where 16 bits tie, the other 24 decide: a codec that ignores them differs somewhere."""
        real, ties = rounding.rounds_up, set()

        def watched(fractions, r16, r24):
            up = real(fractions, r16, r24)
            scaled = fractions * np.float32(65536)
            ties.update((name, bool(one)) for one in up[(scaled > 0) & (r16 == np.floor(scaled))])
            return up

        with mock.patch.object(rounding, "rounds_up", watched):
            for case in CASES:
                name = type(codecs.parse(case.spec).codec).__name__
                vectors.vector_lines(case)
        self.assertEqual(ties, set(itertools.product(("Ternary", "Qsgd", "Natural", "Fp8"), (True, False))))


class Read(unittest.TestCase):
    """Reads vectors independently, from the lines only."""

    def test_gradients_follow_the_formula(self):
        case = vectors.Case("fp32", workers=3, shape=(500,), seed=2**40 + 1, step=2**33, exponent=-7,
                            set=((2, 1, 0x7FC00000),))
        for worker in range(3):
            gradient = vectors.gradient_of(case, case.step, worker)
            exponent = -7 + (0, -1, 1)[worker]
            words = philox.DrawKey(2**40 + 1, 2**33, worker, 9).blocks(0, 125).reshape(-1).tolist()
            for i, r in enumerate(words):
                m = (r >> 8) - 2**23
                expected = [m * 2.0 ** (exponent - 23)] * 4 + [m * 2.0 ** (exponent - 23 - r % 32),
                                                               math.floor(m / 2**19) * 2.0 ** (exponent - 4),
                                                               -0.0 if r % 2 else 0.0, m * 2.0**-149]
                if (worker, i) != (2, 1):
                    self.assertEqual(float(gradient[i]).hex(), float(expected[i % 8]).hex())
        self.assertEqual(gradient.view(np.uint32)[1], 0x7FC00000)

    def test_hash(self):
        # Published values: FNV-1a of "", "a" and "foobar".
        self.assertEqual([vectors.fnv1a(data) for data in (b"", b"a", b"foobar")],
                         [0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8])

    def test_payloads_decode_to_what_is_said(self):
        count = 0
        for vector in read_vectors():
            codec = codecs.parse(vector["spec"][0][0]).codec
            shape = tuple(map(int, vector["shape"][0]))
            first, size = map(int, vector["cut"][0])
            cut = codecs.Cut(first, size, codecs.Cut.whole(shape).columns)
            seed, begin, steps, offset = (int(vector[key][0][0]) for key in ("seed", "step", "steps", "offset"))

            def final(values, codec=codec, key=(seed, begin + steps - 1, offset + first)):
                if not codec.rotate:
                    return values
                return rotation.turn_back(values, codec.rotate, *key, codec.rotates_tails_twice)

            sent = zip(by_worker(vector["payload"]), by_worker(vector["scalers"]), strict=True)
            messages = [codecs.Message(bytes.fromhex(payload.replace("-", "")), numbers(scalers))
                        for (payload,), scalers in sent]
            self.assertEqual((len(messages), str(codec.wire_id), str(codec.format_id())),
                             (int(vector["workers"][0][0]), *vector["wire"][0]))
            for message, (digest, *shown) in zip(messages, by_worker(vector["decoded"]), strict=True):
                decoded = final(codec.decode(message, cut))
                self.assertEqual((decoded[:8].tobytes(), f"{vectors.fnv1a(decoded.tobytes()):016x}"),
                                 (numbers(shown).tobytes(), digest))
            mean = final(codec.mean(messages, cut))
            digest, *shown = vector["mean"][0]
            self.assertEqual((mean[:8].tobytes(), f"{vectors.fnv1a(mean.tobytes()):016x}"),
                             (numbers(shown).tobytes(), digest))
            if "lanes" in vector:
                lanes = packing.unpack_lanes(bytes.fromhex(vector["lanes"][0][0]), size, codec.lane_levels,
                                             len(messages))
                total = lanes - len(messages) * (codec.lane_levels // 2)
                joint = codec.runs.spread(messages[0].scalers, cut)
                of_sum = final(codec.mean_of_sum(total, joint, len(messages)))
                self.assertEqual(of_sum.tobytes(), mean.tobytes())
            count += 1
        self.assertEqual(count, len(CASES))


if __name__ == "__main__":
    unittest.main()
