#!/usr/bin/env python3
"""Tests scripts/read_messages.py: on the examples of docs/wire-format.md, and on messages of a training, by what the training
says of itself. Exits 77 (skipped) if there is no numpy.

Argument: terngrad_train."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts/common")]
TRAIN = None
CODES = [0, -1, 0, -1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0]  # of the document's example


def document_messages():
    """The messages that the document shows as bytes, each from its offset 0000 on."""
    messages = []
    for line in (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"    ([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", line)
        if match and match[1] == "0000":
            messages.append(b"")
        if match:
            messages[-1] += bytes.fromhex(match[2])
    return messages


def document_payload(form):
    text = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
    return bytes.fromhex(re.search(rf"^    {form} +((?:[0-9a-f]{{2}} )*[0-9a-f]{{2}})(?: |$)", text, re.MULTILINE)[1])


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def read(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts" / "read_messages.py", *map(str, arguments)], capture_output=True,
                              text=True, check=False)


class Document(Folder):
    def test_checksum(self):
        self.assertEqual(wire_format.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(wire_format.crc32c(bytes(32)), 0x8A9136AA)  # RFC 3720, B.4
        # Rows are joined as if there were none.
        data = bytes(i * i % 251 for i in range(3000))
        register = 0xFFFFFFFF
        for byte in data:
            register ^= byte
            for _ in range(8):
                register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
        self.assertEqual(wire_format.crc32c(data), register ^ 0xFFFFFFFF)

    def test_messages(self):
        scalers, gradient = map(wire_format.read_message, document_messages())
        self.assertEqual((scalers.kind_name(), gradient.kind_name()), ("scalers", "gradient"))
        for message in scalers, gradient:
            self.assertEqual((message.run_id, message.fingerprint, message.step, message.worker),
                             (0x1122334455667788, 0x33AE8B39BD4FE14D, 3, 1))
        self.assertEqual([record.scalers.tolist() for record in scalers.records], [[1.125], [0]])
        weights, biases = gradient.records
        self.assertEqual((weights.codec_name(), biases.codec_name()), ("ternary t2", "fp32"))
        self.assertEqual(weights.codes().tolist(), CODES)
        self.assertEqual(weights.values().tolist(), [1.5 * code for code in CODES])
        self.assertEqual(biases.values().tolist(), [0.5, -0.25, 2])

    def test_formats(self):
        self.assertEqual(wire_format.t2_codes(document_payload("t2"), 18).tolist(), CODES)
        self.assertEqual(wire_format.t5_codes(document_payload("t5"), 18).tolist(), CODES)
        self.assertEqual(wire_format.tmask_codes(document_payload("tmask"), 18).tolist(), CODES)
        self.assertEqual(wire_format.trans_codes(document_payload("trans"), 18).tolist(), CODES)
        # A lane of one worker holds code + 1, and the sum of two workers' lanes the sum of codes + 2.
        self.assertEqual((wire_format.lane_sums(document_payload("lanes"), 18, 2) + 1).tolist(), CODES)
        self.assertEqual(wire_format.bfloat16_payload(bytes.fromhex("803f00c0803e0000"), 3).tolist(), [1, -2, 0.25])

    def test_signs_and_votes(self):
        self.assertEqual(wire_format.sign_values(bytes.fromhex("05010000"), 10).tolist(), [-1, 1, -1, 1, 1, 1, 1, 1, -1, 1])
        # Three workers: two bits a lane, of which 3, 0, 1 and 2 are negative.
        self.assertEqual(wire_format.lane_votes(bytes.fromhex("9300000000000000"), 4, 3).tolist(), [-3, 3, 1, -1])
        with self.assertRaises(wire_format.DamagedMessage):
            wire_format.lane_votes(bytes.fromhex("0300000000000000"), 1, 2)

    def test_sides(self):
        signs = bytes.fromhex("9a000000")  # of 8: + - + - - + + -

        def values(scalers, block_size=None, first=0):
            record = wire_format.Record(0, 7, 18, first, 8, np.array(scalers, np.float32), signs)
            return record.values(block_size=block_size).tolist()

        self.assertEqual(values([2, 3]), [3, -2, 3, -2, -2, 3, 3, -2])
        self.assertEqual(values([1, 2, 3, 4, 5, 6]), [2, -3, 6, -1, -3, 6, 2, -3])
        self.assertEqual(values([1, 2, 3, 4], block_size=4), [2, -1, 2, -1, -3, 4, 4, -3])
        with self.assertRaises(wire_format.DamagedMessage):
            values([1, 2], block_size=4)

    def test_sparse_elements(self):
        runs = bytes.fromhex("0300000000000000" "0300000004000000" "90010000" "0000803f000000c00000003f")
        record = wire_format.Record(0, 8, 19, 0, 40, np.zeros(1, np.float32), runs)
        elements = record.values(options="density=0.075 scope=layer values=fp32 workers=2")
        self.assertEqual({int(i): float(elements[i]) for i in np.flatnonzero(elements)}, {3: 1, 13: -2, 15: 0.5})
        local = bytes.fromhex("01ff0200" "803f00c0" "003f0000")
        record = wire_format.Record(0, 8, 20, 0, 300, np.zeros(1, np.float32), local)
        options = "density=0.0078125 scope=block block=256 values=bf16 workers=2"
        elements = record.values(options=options)
        self.assertEqual({int(i): float(elements[i]) for i in np.flatnonzero(elements)}, {1: 1, 255: -2, 258: 0.5})
        self.assertEqual(record.codec_name(), "topk local")
        with self.assertRaises(ValueError):
            record.values()
        for form, payload, count, text in ((19, runs[:-4], 40, "density=0.075 values=fp32"),
                                           (19, runs, 41, "density=0.1 values=fp32"),
                                           (19, runs, 14, "density=0.2 values=fp32"), (20, local, 257, options)):
            with self.subTest(form=form, count=count), self.assertRaises(wire_format.DamagedMessage):
                wire_format.Record(0, 8, form, 0, count, np.zeros(1, np.float32), payload).values(options=text)

    def test_the_first_stages_of_a_warm_up(self):
        runs = bytes.fromhex("0300000000000000" "0300000004000000" "90010000" "0000803f000000c00000003f")
        record = wire_format.Record(0, 8, 19, 0, 12, np.zeros(1, np.float32), runs)
        with self.assertRaises(wire_format.DamagedMessage):
            record.values(options="density=0.01 scope=layer values=fp32 workers=2")
        record = wire_format.Record(0, 8, 19, 0, 48, np.zeros(1, np.float32), runs)
        elements = record.values(options="density=0.01 scope=layer values=fp32 stage_steps=5 workers=2")
        self.assertEqual(np.flatnonzero(elements).tolist(), [3, 13, 15])

    def test_drawn_elements(self):
        # Published with Random123: Philox4x32-10 of zeros.
        self.assertEqual(philox.block(0, 0, 0, 0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
        draws = list(philox.draws32(7, 0, 0, philox.SELECT, 2, 3))
        self.assertEqual(draws, [*philox.block(7, 0, 0, 13, 0)[2:], philox.block(7, 0, 0, 13, 1)[0]])
        # Elements 8 to 19 in groups of 4, numbers 2 to 4.
        options = "density=0.25 scale=1 values=fp32 workers=2"
        payload = (7).to_bytes(8, "little") + np.array([1, 2, 3], "<f4").tobytes()
        record = wire_format.Record(0, 9, 25, 8, 12, np.zeros(1, np.float32), payload)
        elements = record.values(options=options)
        self.assertEqual([(int(i), float(elements[i])) for i in np.flatnonzero(elements)],
                         [(4 * i + (draw >> 30), i + 1) for i, draw in enumerate(draws)])
        self.assertEqual(record.codec_name(), "randomk drawn")
        # Of elements 0 to 9 the last group's may lie beyond them; for some key it does.
        def reads(key):
            payload = key.to_bytes(8, "little") + np.array([1, 1, 1], "<f4").tobytes()
            try:
                wire_format.Record(0, 9, 25, 0, 10, np.zeros(1, np.float32), payload).values(options=options)
            except wire_format.DamagedMessage:
                return False
            return True

        self.assertEqual([reads(key) for key in range(20)],
                         [list(philox.draws32(key, 0, 0, philox.SELECT, 2, 1))[0] >> 30 < 2 for key in range(20)])
        with self.assertRaises(wire_format.DamagedMessage):
            wire_format.Record(0, 9, 25, 8, 13, np.zeros(1, np.float32), payload).values(options=options)

    def test_every_damaged_byte_is_found(self):
        message = document_messages()[1]
        for at in range(len(message)):
            damaged = bytearray(message)
            damaged[at] ^= 0x10
            with self.assertRaises(wire_format.DamagedMessage):
                wire_format.read_message(bytes(damaged))
        for length in (0, 63, len(message) - 1):
            with self.assertRaises(wire_format.DamagedMessage):
                wire_format.read_message(message[:length])

    def test_codes_that_no_encoder_writes_are_refused(self):
        for decode, payload, count in [(wire_format.t2_codes, "02000000", 1), (wire_format.t2_codes, "04000000", 1),
                                       (wire_format.t2_codes, "0000000000000000", 16), (wire_format.t5_codes, "f3000000", 5),
                                       (wire_format.tmask_codes, "0000000001000000" "01000000" "02000000", 1),
                                       (wire_format.tmask_codes, "0000000002000000" "01000000" "00000000", 1),
                                       (wire_format.trans_codes, "0000000002000000" "0000" "0102", 1),
                                       (wire_format.trans_codes, "0000000002000000" "0000" "0300", 1),
                                       (wire_format.trans_codes, "0000000002000000" "0b00" "0100", 1),
                                       (wire_format.trans_codes, "0000000006000000" "3f00" + 10 * "00", 72),
                                       (wire_format.sign_values, "08000000", 3), (wire_format.sign_values, "00000000", 33)]:
            with self.subTest(payload), self.assertRaises(wire_format.DamagedMessage):
                decode(bytes.fromhex(payload), count)
        with self.assertRaises(wire_format.DamagedMessage):
            wire_format.lane_sums(bytes.fromhex("0700000000000000"), 1, 2)  # 3 bits, but at most 4

    def test_what_it_prints(self):
        path = self.folder / "example.msg"
        path.write_bytes(document_messages()[1])
        result = self.read(path, "--codes", "4")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"""{path}
  gradient of worker 1, step 3: 196 bytes, run 1122334455667788, fingerprint 33ae8b39bd4fe14d, checksums right
  segment 0, elements 0 to 17: ternary t2, scaler 1.5, 61.11 % zeros: 0 -1 0 -1 ...
  segment 1, elements 0 to 2: fp32, scaler 0, 0.00 % zeros: 0.5 -0.25 2
""")

    def test_damage_is_named_and_other_messages_are_read(self):
        good, bad = self.folder / "a.msg", self.folder / "b.msg"
        good.write_bytes(document_messages()[0])
        bad.write_bytes(document_messages()[1][:-1] + b"\x41")
        result = self.read(bad, good)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"read_messages.py: \S+b.msg: payload checksum: expected [0-9a-f]{8}, got bc0d9e00")
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("scalers of worker 1", result.stdout)

    def test_what_is_no_message_is_refused(self):
        for path, words in [(self.folder / "none", "no such file"), (self.folder, "has no messages")]:
            result = self.read(path)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)


def added_by_halves(sums):
    """Number j takes number j + half, until there is one."""
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return sums[0]


def sum_of_chunk(values):
    """Of up to 4096 numbers in binary64, in the document's order."""
    lanes = np.zeros((8, 16))
    for i in range(0, len(values), 16):
        group = values[i : i + 16]
        lanes[i // 512, : len(group)] += group
    pairs = lanes[0::2] + lanes[1::2]
    return added_by_halves((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]))


def sum_of(values):
    chunks = [sum_of_chunk(values[i : i + 4096]) for i in range(0, len(values), 4096)]
    if len(chunks) == 1:
        return chunks[0]
    slots = np.zeros(256)
    for index, chunk in enumerate(chunks):
        slots[index % 256] += chunk
    return added_by_halves(slots)


def local_scaler(gradient, clip_factor):
    """The scaler of a tensor as the document has it, for scaler=paper."""
    wide = gradient.astype(np.float64)
    mean, mean_square = sum_of(wide) / len(wide), sum_of(wide * wide) / len(wide)
    variance = mean_square - mean * mean
    sigma = np.sqrt(variance) if variance > 0 and variance >= 2.0**-40 * mean_square else 0.0
    largest, clipped = np.abs(gradient).max(), np.float32(clip_factor * sigma)
    return float(clipped if sigma > 0 and clipped < largest else largest)


class Training(Folder):
    def train(self, *options, name="dump", codec=("--grad_bits", "1", "--clip_factor", "2.5")):
        """Trains two steps of two workers, each dumped. @returns the messages in order"""
        dump = self.folder / name
        subprocess.run([TRAIN, "--benchmark_mode", "--image_size", "8", "--batch_size", "4", "--num_nodes", "2", "--threads", "1",
                        "--device", "cpu", "--max_steps", "2", "--dump_messages", dump, "--dump_steps", "2", "--telemetry_steps",
                        "1", *codec, "--train_dir", self.folder / f"run-{name}", *options],
                       check=True, capture_output=True)
        self.layouts = read_messages.Layouts(dump, None)
        return [wire_format.read_message(path.read_bytes()) for path in sorted(dump.glob("*.msg"))]

    def values(self, message, record):
        return self.layouts.values(message, record)

    def test_codes_and_scalers_are_those_of_the_telemetry(self):
        messages = self.train("--ternary_format", "t5")
        lines = [json.loads(line) for line in (self.folder / "run-dump" / "metrics.jsonl").read_text().splitlines()]
        telemetry = {line["step"]: line["tensors"] for line in lines if line["kind"] == "tensors"}
        checked = 0
        for message in messages:
            if (message.kind_name(), message.worker) != ("gradient", 0):
                continue
            for record in message.records:
                tensor = telemetry[message.step + 1][self.layouts.tensor(message, record)["name"]]
                if record.codec_name() != "ternary t5":
                    continue
                self.assertEqual(record.scalers.tolist(), [tensor["scaler"]])
                self.assertAlmostEqual((record.codes() == 0).mean(), tensor["zero_fraction"], delta=1e-12)
                checked += 1
        self.assertEqual(checked, 2 * 6)  # all tensors but those of the logits
        result = self.read(self.folder / "dump", "--npy", self.folder / "npy")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("segment 0 conv1/weights [5x5x1x20], elements 0 to 499: ternary t5, scaler ", result.stdout)
        written = np.load(self.folder / "npy" / "step-000001-rank-0-0003-gradient-worker-1-segment-2-from-0.npy")
        last = messages[-1]
        self.assertEqual(written.tobytes(), self.values(last, last.records[2]).tobytes())

    def test_scalers_are_those_of_the_document(self):
        # Before the first update gradients are the same, which fp32 shows whole and ternary by their scalers.
        gradients = {}
        for message in self.train("--exchange", "all_gather", name="fp32", codec=()):
            if message.kind_name() == "gradient" and message.step == 0:
                for record in message.records:
                    gradients[message.worker, record.segment] = record.values()
        checked = 0
        for message in self.train():
            for record in message.records:
                if message.kind_name() != "scalers" or message.step != 0 or record.codec != 3:
                    continue
                gradient = gradients[message.worker, record.segment]
                self.assertEqual(record.scalers.tolist(), [local_scaler(gradient, 2.5)])
                checked += 1
        self.assertEqual(checked, 2 * 6)

    def test_scalers_that_are_not_shared_are_told_as_flags(self):
        checked = 0
        for message in self.train("--exchange", "all_gather", codec=("--codec", "qsgd:block=64")):
            for record in message.records:
                if record.codec != 4:
                    continue
                if message.kind_name() == "scalers":
                    self.assertTrue(record.is_flag())
                    self.assertEqual((record.codec_name(), record.scalers.tolist()), ("qsgd", [0]))
                    checked += 1
                else:
                    self.assertEqual((record.is_flag(), len(record.scalers)), (False, -(-record.count // 64)))
        self.assertEqual(checked, 2 * 2 * 6)
        printed = self.read(self.folder / "dump").stdout
        self.assertIn("segment 0 conv1/weights [5x5x1x20], elements 0 to 499: qsgd, finite\n", printed)
        self.assertIn("segment 0 conv1/weights [5x5x1x20], elements 0 to 499: qsgd q4, 8 scalers from ", printed)

    def test_means_of_levels_are_those_of_the_gradients(self):
        for spec, form in (("qsgd:bits=4,block=640,sharing=max", "qsgd q4"), ("qsgd:bits=8,sharing=max", "qsgd q8")):
            messages = self.train("--exchange", "scatter_reduce", "--downlink_codec", "sums", name=form[-2:], codec=("--codec", spec))
            sums = {}
            checked = 0
            for message in messages:
                for record in message.records:
                    place = (message.step, record.segment, record.first)
                    if record.codec != 4 or record.count == 0 or message.kind_name() == "scalers":
                        continue
                    if message.kind_name() == "gradient":
                        self.assertEqual(record.codec_name(), form)
                        sums[place] = sums.get(place, 0) + record.codes().astype(np.int32)
                        continue
                    self.assertEqual(record.codec_name(), "qsgd lanes")
                    mean = record.codes(2, self.layouts.levels(message, record))
                    self.assertEqual(mean.tolist(), sums[place].tolist())
                    checked += 1
            self.assertGreater(checked, 10)

    def test_votes_are_those_of_the_gradients(self):
        for spec in ("sign:reduce=vote", "sign:reduce=vote,scale=one"):
            messages = self.train("--exchange", "scatter_reduce", "--downlink_codec", "sums", "--quantize_logits",
                                  name=spec[-4:], codec=("--codec", spec))
            sums = {}
            checked = 0
            for message in messages:
                for record in message.records:
                    place = (message.step, record.segment, record.first)
                    if record.codec != 6 or record.count == 0 or message.kind_name() == "scalers":
                        continue
                    if message.kind_name() == "gradient":
                        self.assertEqual(record.codec_name(), "sign bits")
                        sums[place] = sums.get(place, 0) + record.codes().astype(np.int32)
                        continue
                    self.assertEqual(record.codec_name(), "sign t2")
                    self.assertEqual(record.codes().tolist(), np.sign(sums[place]).tolist())
                    checked += 1
            self.assertGreater(checked, 10)

    def test_means_are_those_of_the_gradients(self):
        # Shards of both workers, blocks with scalers of their own, masks there and sums in lanes back.
        messages = self.train("--exchange", "scatter_reduce", "--downlink_codec", "sums", "--ternary_format", "tmask",
                              "--scaler_scope", "block", "--block_size", "640")
        sums = {}
        checked = 0
        for message in messages:
            for record in message.records:
                place = (message.step, record.segment, record.first)
                if message.kind_name() == "gradient":
                    sums.setdefault(place, []).append(self.values(message, record))
                if message.kind_name() != "mean" or record.codec_name() != "ternary lanes":
                    continue
                first, second = sums[place]
                # A half is a power of two, so the mean is exact, whatever the order.
                self.assertEqual(((first + second) / 2).tobytes(), self.values(message, record).tobytes())
                checked += 1
        self.assertGreaterEqual(checked, 2 * 6)


if __name__ == "__main__":
    try:
        import numpy as np
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    import philox
    import read_messages
    import wire_format
    TRAIN = sys.argv.pop(1)
    unittest.main()
