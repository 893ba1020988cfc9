#!/usr/bin/env python3
"""Compares the messages of terngrad_train with those of the reference for the same gradients, bit for bit.

    tests/reference/training_test.py build/ci/bin/terngrad_train

The gradients come from a run with fp32 messages. The learning rate is too small to change a parameter, so runs with
other codecs have the same gradients. Skipped (exit code 77) without numpy.
"""

import math
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
try:
    from reference import codecs, low_rank, messages, packing, scalers, topk, worker_tree
    from support import dumped_run
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    print(f"skipped: {missing}")
    sys.exit(77)

NUM_WORKERS = 3
NUM_STEPS = 2
SEED = 7


class Run(dumped_run.DumpedRun):
    """A training run, with the codecs of the reference."""

    def codec(self, segment):
        """The reference codec for the options text in layout.json."""
        tensor = self.tensors[segment]
        options = [item for item in tensor["options"].split() if not item.startswith("workers=")]
        return codecs.parse(":".join([tensor["codec"], ",".join(options)] if options else [tensor["codec"]])).codec

    def draw_offset(self, segment):
        return sum(-(-math.prod(self.shape(i)) // 64) * 64 for i in range(segment))

    def cut(self, record):
        whole = codecs.Cut.whole(self.shape(record.segment))
        return codecs.Cut(record.first, record.count, whole.columns)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gradients = {}
        run = cls.train("--exchange", "all_gather")
        for message in run.of_kind("gradient"):
            for record in message.records:
                shape = run.shape(record.segment)
                cls.gradients[message.step, record.segment, message.worker] = record.values().reshape(shape)

    @staticmethod
    def train(*options):
        with tempfile.TemporaryDirectory() as folder:
            return Run(TRAIN, folder, NUM_WORKERS, NUM_STEPS, "--seed", SEED, *options)

    def compensated(self, run, memory):
        """Compensated gradients (h) by step, segment and worker; the memories follow the workers' own messages."""
        encoded = {}
        for segment in range(len(run.tensors)):
            codec = run.codec(segment)
            kept = codecs.memory_of(memory, codec)
            states = [kept.begin(run.shape(segment)) for _ in range(NUM_WORKERS)]
            for step in range(NUM_STEPS):
                gradients = [self.gradients[step, segment, worker] for worker in range(NUM_WORKERS)]
                own = [kept.compensate(state, gradient) for state, gradient in zip(states, gradients)]
                sent = codecs.exchange(codec, own, SEED, step, run.draw_offset(segment)).decoded
                states = [kept.commit(state, gradient, decoded.reshape(gradient.shape))
                          for state, gradient, decoded in zip(states, gradients, sent)]
                encoded.update({(step, segment, worker): each for worker, each in enumerate(own)})
        return encoded

    def check(self, *options, model=False, memory=None):
        """Compares scalers, payloads and means of a run with these options. Returns the number of means."""
        run = self.train(*options)
        num_tensors = len(run.tensors)
        encoded = self.compensated(run, memory) if memory else self.gradients
        local = {}
        for step in range(NUM_STEPS):
            for worker in range(NUM_WORKERS):
                gradients = [encoded[step, segment, worker] for segment in range(num_tensors)]
                measured = (run.codec(0).measure_model(gradients) if model else
                            [run.codec(segment).measure(gradient) for segment, gradient in enumerate(gradients)])
                local.update({(step, segment, worker): of_tensor for segment, of_tensor in enumerate(measured)})
        self.assertEqual(len(run.of_kind("scalers")), NUM_STEPS * NUM_WORKERS)
        for message in run.of_kind("scalers"):
            for record in message.records:
                codec = run.codec(record.segment)
                shares = codec.sharing != "none" or codec.aggregation in ("floats", "sparse")
                expected = scalers.told(local[message.step, record.segment, message.worker], shares)
                self.assertEqual(record.format, 0 if shares else 1)
                self.assertEqual(record.scalers.tobytes(), expected.tobytes())
        sent = {}
        for message in run.of_kind("gradient"):
            for record in message.records:
                codec, segment = run.codec(record.segment), record.segment
                joint = codec.share([local[message.step, segment, worker]
                                     for worker in range(NUM_WORKERS)])[message.worker]
                expected = codec.encode(encoded[message.step, segment, message.worker], joint,
                                        local[message.step, segment, message.worker],
                                        codecs.Draws(SEED, message.step, message.worker, run.draw_offset(segment),
                                                     NUM_WORKERS),
                                        run.cut(record))
                self.assertEqual((record.codec, record.format), (codec.wire_id, codec.format_id()))
                self.assertEqual(record.scalers.tobytes(), expected.scalers.tobytes())
                self.assertEqual(record.payload, expected.payload)
                sent.setdefault((message.step, segment, record.first), []).append(expected)
        self.assertTrue(all(len(of_all) == NUM_WORKERS for of_all in sent.values()))
        num_means = 0
        for message in run.of_kind("mean"):
            for record in message.records:
                codec, cut = run.codec(record.segment), run.cut(record)
                of_workers = sent[message.step, record.segment, record.first]
                mean = codec.mean(of_workers, cut)
                if (record.codec, record.format) == (codec.wire_id, messages.RUNS):
                    self.assertEqual(record.payload, topk.pack_nonzeros(mean))
                elif record.codec == messages.BF16:
                    self.assertEqual(record.payload, codecs.parse("bf16").codec.pack(mean))
                elif record.codec == messages.FP32:
                    self.assertEqual(record.payload, mean.tobytes())
                else:
                    self.assertEqual((record.codec, record.format), (codec.wire_id, messages.LANES))
                    numbers = sum(codec.lane_numbers(codec.unpack(one.payload, cut.count)) for one in of_workers)
                    self.assertEqual(record.payload, packing.pack_lanes(numbers, codec.lane_levels, NUM_WORKERS))
                num_means += 1
        return num_means

    def check_ternary(self, *options, **arguments):
        return self.check("--codec", "ternary", "--quantize_logits", "--exchange", "scatter_reduce", *options,
                          **arguments)

    def test_gradients_differ_between_steps_and_workers(self):
        seen = {gradient.tobytes() for (_, segment, _), gradient in self.gradients.items() if segment == 0}
        self.assertEqual(len(seen), NUM_STEPS * NUM_WORKERS)

    def test_floats(self):
        for codec in "fp32", "bf16":
            self.assertGreater(self.check("--codec", codec, "--exchange", "scatter_reduce"), 0)

    def test_mixed_codecs(self):
        # Logits travel as fp32; shards hold tensors of both codecs.
        self.assertGreater(self.check("--codec", "ternary", "--exchange", "scatter_reduce"), 0)

    def test_formats(self):
        for form in "t2", "t5", "tmask", "trans":
            self.assertGreater(self.check_ternary("--clip_factor", "2.5", "--ternary_format", form), 0)

    def test_downlinks(self):
        for downlink in "bf16", "sums":
            self.assertGreater(self.check_ternary("--downlink_codec", downlink), 0)

    def test_means_of_few_elements(self):
        for spec in "topk:density=0.05", "topk:scope=block,block=256", "randomk:density=0.125":
            options = ("--codec", spec, "--codec_memory", "none", "--exchange", "scatter_reduce", "--downlink_codec", "sparse")
            self.assertGreater(self.check(*options), 0)

    def test_sharing_and_clipping(self):
        for options in (("max", "--clip_scope", "local"), ("mean", "--clip_scope", "local"),
                        ("none", "--scaler", "original")):
            self.assertGreater(self.check_ternary("--clip_factor", "1.5", "--scaler_sharing", *options), 0)

    def test_asymmetric_levels(self):
        for options in ("levels=asymmetric", "levels=asymmetric,sharing=none,clip_factor=1.5,scope=block,block=640"):
            self.assertGreater(self.check("--codec", f"ternary:{options}", "--quantize_logits", "--exchange",
                                          "scatter_reduce"), 0)

    def test_codecs_that_share_no_scalers(self):
        for spec in "qsgd:block=640", "fp8", "natural:bits=4,block=64":
            self.assertGreater(self.check("--codec", spec, "--exchange", "scatter_reduce"), 0)

    def test_sparse_codecs(self):
        for spec in ("topk:density=0.05", "topk:scope=block,block=256,values=bf16", "topk:density=0.01,stage_steps=1",
                     "randomk:density=0.125", "randomk:density=0.02,scale=q,values=bf16"):
            self.assertGreater(self.check("--codec", spec, "--codec_memory", "none", "--exchange", "scatter_reduce"), 0)

    def test_momentum_that_is_masked_where_it_was_sent(self):
        for spec in "topk:density=0.05", "topk:density=0.01,stage_steps=1", "randomk:density=0.125":
            options = ("--codec", spec, "--codec_memory", "dgc", "--exchange", "scatter_reduce")
            self.assertGreater(self.check(*options, memory="dgc"), 0)

    def test_low_rank(self):
        for spec in ("powersgd:rank=1,min_ratio=1", "powersgd:rank=2,min_ratio=1,warm_start=false",
                     "powersgd:rank=3,min_ratio=1,factors=bf16"):
            self.check_low_rank(spec)

    def check_low_rank(self, spec):
        """Compares both rounds and the means, with Q of the previous step."""
        run = self.train("--codec", spec, "--quantize_logits", "--codec_memory", "none", "--exchange", "scatter_reduce")
        num_tensors = 1 + max(segment for _, segment, _ in self.gradients)
        shapes = [self.gradients[0, segment, 0].shape for segment in range(num_tensors)]
        offsets = [sum(-(-math.prod(shape) // 64) * 64 for shape in shapes[:i]) for i in range(num_tensors)]
        (names,) = {tuple(tensor["name"] for tensor in of) for of in run.layouts.values() if len(of) == num_tensors}
        codec = codecs.parse(spec).codec
        rounds = {names[i]: low_rank.Rounds(codec, shape, SEED, offsets[i]) for i, shape in enumerate(shapes)
                  if len(shape) > 1 and codec.sizes(math.prod(shape), shape[-1])}
        self.assertGreater(len(rounds), 1)
        self.assertLess(len(rounds), num_tensors)
        expected = {}
        for step in range(NUM_STEPS):
            for name, of_tensor in rounds.items():
                own = [self.gradients[step, names.index(name), worker] for worker in range(NUM_WORKERS)]
                expected[step, name] = of_tensor.step(own, step)[:2]
        seen = set()
        for message in run.messages:
            tensors = run.layouts[f"{message.fingerprint:016x}"]
            of_second = len(tensors) < num_tensors
            for record in message.records:
                name = tensors[record.segment]["name"]
                if name not in rounds or message.kind == "scalers":
                    continue
                of_workers = expected[message.step, name][1 if of_second else 0]
                values = (worker_tree.tree_mean(of_workers) if message.kind == "mean"
                          else of_workers[message.worker]).reshape(-1)
                name_of_codec = "fp32" if message.kind == "mean" else codec.factors
                self.assertEqual(record.codec, codecs.parse(name_of_codec).codec.wire_id)
                self.assertEqual(record.payload, codecs.parse(name_of_codec).codec.pack(
                    values[record.first : record.first + record.count]))
                seen.add((message.kind, message.step, name, of_second))
        self.assertEqual(len(seen), 2 * NUM_STEPS * len(rounds) * 2)

    def test_scopes(self):
        # 640 does not divide 4096: slices begin inside of blocks.
        for options in (("64", "--scaler_sharing", "none"),
                        ("640", "--clip_scope", "local", "--downlink_codec", "sums"),
                        ("8192",)):
            blocks = ("--clip_factor", "2", "--scaler_scope", "block", "--block_size")
            self.assertGreater(self.check_ternary(*blocks, *options), 0)
        self.assertGreater(self.check_ternary("--clip_factor", "2.5", "--scaler_scope", "model", model=True), 0)


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
