"""Codecs and messages of the Python package."""

import pathlib
import pickle
import sys
import unittest

import numpy
import terngrad

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from reference import messages  # noqa: E402

SPECS = ["fp32", "bf16", "ternary", "ternary:clip_factor=2.5,format=t5", "ternary:levels=asymmetric", "qsgd:bits=4",
         "qsgd:bits=8,sharing=max", "natural", "sign", "onebit", "fp8", "int8", "terngrad_ef", "eden"]


def gradient_of(seed, shape=(100, 70)):
    return (numpy.random.default_rng(seed).standard_normal(shape) * 0.01).astype(numpy.float32)


class Codecs(unittest.TestCase):
    def test_all_of_the_registry_are_described(self):
        for name, codec in terngrad.codecs().items():
            self.assertEqual(codec.name, name)
            self.assertTrue(codec.summary)
            self.assertEqual(len({key.name for key in codec.keys}), len(codec.keys))
            # Every key accepts its default.
            for key in codec.keys:
                self.assertEqual(terngrad.Codec(name, **{key.name: key.default}).spec, terngrad.Codec(name).spec)
        self.assertEqual(terngrad.presets()["terngrad_ef"]["memory"], "ef")

    def test_what_is_unknown_is_refused_with_what_is_accepted(self):
        for make, expected in ((lambda: terngrad.Codec("nocodec"), "ternary"),
                               (lambda: terngrad.Codec("ternary", bits=4), "clip_factor"),
                               (lambda: terngrad.Codec("ternary", clip_factor=-1), "at least 0"),
                               (lambda: terngrad.Codec("qsgd", bits=3), "2"),
                               (lambda: terngrad.Codec("fp32", num_workers=0), "num_workers")):
            with self.assertRaises(terngrad.InvalidArgument) as raised:
                make()
            self.assertIn(expected, str(raised.exception))
        self.assertTrue(issubclass(terngrad.InvalidArgument, ValueError))
        self.assertTrue(issubclass(terngrad.InvalidArgument, terngrad.Error))
        self.assertTrue(issubclass(terngrad.CommunicationError, RuntimeError))

    def test_messages_come_back_as_what_they_say(self):
        tensors = {"weights": gradient_of(1), "biases": gradient_of(2, (70,)), "empty": gradient_of(3, (0, 5)),
                   "one": gradient_of(4, ())}
        for spec in SPECS:
            with self.subTest(spec):
                codec = terngrad.Codec(spec)
                message = codec.encode(tensors, seed=3, step=5)
                decoded = codec.decode(message)
                self.assertEqual(list(decoded), list(tensors))
                for name, tensor in tensors.items():
                    self.assertEqual((decoded[name].shape, decoded[name].dtype), (tensor.shape, numpy.float32))
                self.assertEqual(message.nbytes, len(bytes(message)))
                out = {name: numpy.full_like(tensor, 9) for name, tensor in tensors.items()}
                self.assertIs(codec.decode(message, out=out), out)
                for name in tensors:
                    numpy.testing.assert_array_equal(out[name], decoded[name])
                # The draws depend on nothing else.
                self.assertEqual(bytes(codec.encode(tensors, seed=3, step=5)), bytes(message))
        numpy.testing.assert_array_equal(terngrad.Codec("fp32").decode(terngrad.Codec("fp32").encode(tensors))["weights"],
                                         tensors["weights"])

    def test_messages_are_those_of_the_document(self):
        message = terngrad.Codec("ternary").encode({"weights": gradient_of(1)}, step=5)
        read = messages.read(bytes(message))
        self.assertEqual((read.kind, read.step, read.worker, len(read.records)), ("gradient", 5, 0, 1))

    def test_unbiased_codecs_are_right_on_average(self):
        gradient = gradient_of(7, (500,))
        for spec in ("ternary", "qsgd:bits=2", "natural:bits=4"):
            codec = terngrad.Codec(spec)
            self.assertTrue(codec.unbiased)
            decoded = numpy.stack([codec.decode(codec.encode(gradient, step=step)) for step in range(2000)])
            # The projection on the signs, where a bias would show, and its variance over the draws.
            along = (decoded * numpy.sign(gradient)).sum(1, numpy.float64)
            error = along.mean() - numpy.abs(gradient).sum(dtype=numpy.float64)
            self.assertLess(abs(error), 5 * along.std() / numpy.sqrt(len(along)), spec)
            self.assertGreater(along.std(), 0)

    def test_scalers_are_shared_by_hand(self):
        workers = [{"w": gradient_of(seed) * (1 + seed)} for seed in range(3)]
        codec = terngrad.Codec("ternary", num_workers=3)
        scalers = [codec.measure(tensors, worker=worker) for worker, tensors in enumerate(workers)]
        decoded = []
        for worker, tensors in enumerate(workers):
            others = {other: scalers[other] for other in range(3) if other != worker}
            decoded.append(codec.decode(codec.encode(tensors, worker=worker, scalers=others))["w"])
        largest = max(numpy.abs(tensors["w"]).max() for tensors in workers)
        for found in decoded:
            self.assertEqual(set(numpy.unique(numpy.abs(found))) - {0}, {largest})
        exchange = terngrad.Exchange(terngrad.Layout.of(workers[0]), 3, "ternary")
        mean = exchange.exchange(workers, step=0).mean_tensors["w"]
        numpy.testing.assert_allclose(mean, sum(decoded) / 3, rtol=1e-6)
        with self.assertRaisesRegex(terngrad.InvalidArgument, r"scalers of all others, \[1, 2\]"):
            codec.encode(workers[0])

    def test_damaged_and_foreign_messages_are_refused(self):
        codec = terngrad.Codec("ternary")
        message = codec.encode(gradient_of(1))
        for damaged in (b"", message.data[:40], message.data[:-1], message.data + b"\0",
                        message.data[:100] + bytes([message.data[100] ^ 1]) + message.data[101:]):
            with self.assertRaises(terngrad.CommunicationError):
                codec.decode(terngrad.Message(damaged, message.shapes, True))
        with self.assertRaisesRegex(terngrad.CommunicationError, "fingerprint"):
            terngrad.Codec("qsgd").decode(message)
        with self.assertRaisesRegex(terngrad.CommunicationError, "step"):
            codec.decode(terngrad.Message(message.data, message.shapes, True, step=3))

    def test_ternarize_draws_what_messages_hold(self):
        gradient = gradient_of(1)
        codes, scaler = terngrad.ternarize(gradient, clip_factor=2.5, seed=4, step=9)
        codec = terngrad.Codec("ternary", clip_factor=2.5)
        decoded = codec.decode(codec.encode(gradient, seed=4, step=9))
        self.assertEqual((codes.dtype, codes.shape), (numpy.int8, (100, 70)))
        numpy.testing.assert_array_equal(codes * numpy.float32(scaler), decoded)
        self.assertEqual(terngrad.ternarize(gradient, scaler=0.5)[1], 0.5)
        for wrong in ({"clip_factor": -1}, {"scaler": float("nan")}, {"step": 2**40}, {"draw_offset": 32},
                      {"draw_offset": -64}, {"seed": -1}, {"step": True}, {"worker": 1.5}):
            with self.assertRaises(terngrad.InvalidArgument):
                terngrad.ternarize(gradient, **wrong)

    def test_draws_of_an_exchange_can_be_made_again(self):
        workers = [{"a": gradient_of(1, (100,)), "b": gradient_of(2, (300,))} for _ in range(2)]
        exchange = terngrad.Exchange(terngrad.Layout.of(workers[0]), 2, "ternary", seed=4)
        exchange.exchange(workers, step=6)
        (offset,) = [tensor.draw_offset for tensor in exchange.plan() if tensor.name == "b"]
        sent, scaler = exchange.decode_local(1, "b")
        codes, _ = terngrad.ternarize(workers[1]["b"], scaler=scaler, seed=4, step=6, worker=1, draw_offset=offset)
        numpy.testing.assert_array_equal(codes * numpy.float32(scaler), sent)

    def test_what_is_not_finite_is_refused_unless_it_counts_as_zeros(self):
        tensors = {"fine": gradient_of(1), "broken": gradient_of(2)}
        for value in (numpy.nan, numpy.inf):
            tensors["broken"][3, 3] = value
            for spec in SPECS:
                codec = terngrad.Codec(spec)
                with self.assertRaisesRegex(terngrad.NonFiniteError, "'broken'", msg=spec):
                    codec.encode(tensors)
                decoded = codec.decode(codec.encode(tensors, on_nonfinite="zero"))
                self.assertEqual(numpy.abs(decoded["broken"]).max(), 0, spec)
                self.assertGreater(numpy.abs(decoded["fine"]).max(), 0)
        found = terngrad.telemetry(tensors["broken"], tensors["broken"])
        self.assertTrue(numpy.isnan(found["snr_db"]))
        self.assertTrue(numpy.isnan(terngrad.statistics(tensors["broken"]).std))

    def test_messages_travel_as_bytes(self):
        codec = terngrad.Codec("qsgd", num_workers=3)
        sent = codec.encode(gradient_of(1), worker=2, step=7, run_id=5)
        received = terngrad.Message.of(bytes(sent), (100, 70), run_id=5)
        self.assertEqual((received.worker, received.step, received), (2, 7, sent))
        numpy.testing.assert_array_equal(codec.decode(received), codec.decode(sent))
        self.assertLess(len(repr(sent)), 200)
        self.assertEqual(hash(sent), hash(received))
        with self.assertRaisesRegex(terngrad.CommunicationError, "worker 2's, not worker 1's"):
            codec.decode(terngrad.Message(sent.data, sent.shapes, True, worker=1, step=7, run_id=5))

    def test_what_is_rotated_is_read_with_the_seed_of_its_draws(self):
        gradient = gradient_of(1)
        codec = terngrad.Codec("qsgd", bits=8, rotate=1024)
        sent = codec.encode(gradient, seed=11, step=7)
        decoded = codec.decode(sent)
        largest = numpy.abs(gradient).max()
        numpy.testing.assert_allclose(decoded, gradient, rtol=0, atol=largest / 20)
        shape = gradient.shape
        numpy.testing.assert_array_equal(codec.decode(terngrad.Message.of(bytes(sent), shape, seed=11)), decoded)
        numpy.testing.assert_array_equal(codec.aggregate([sent]), decoded)
        of_another_run = codec.decode(terngrad.Message.of(bytes(sent), shape))
        self.assertGreater(numpy.abs(of_another_run - gradient).max(), largest / 2)

    def test_statistics_are_numpys(self):
        gradient = gradient_of(3, (10_000,))
        found = terngrad.statistics(gradient)
        wide = gradient.astype(numpy.float64)
        for name, expected in (("mean", wide.mean()), ("std", wide.std()), ("l1", numpy.abs(wide).sum()),
                               ("l2", numpy.sqrt((wide ** 2).sum())), ("max_abs", numpy.abs(wide).max())):
            self.assertAlmostEqual(getattr(found, name), expected, delta=1e-9 * abs(expected) + 1e-15, msg=name)
        self.assertEqual((found.count, found.finite), (10_000, True))
        blocks = terngrad.statistics(gradient, block=4096)
        self.assertEqual([block.count for block in blocks], [4096, 4096, 1808])
        self.assertFalse(terngrad.statistics(numpy.array([1, numpy.inf], numpy.float32)).finite)
        self.assertEqual(terngrad.statistics(numpy.zeros(0, numpy.float32)).count, 0)


class Arguments(unittest.TestCase):
    def refuse(self, tensor, *words):
        with self.assertRaises(terngrad.InvalidArgument) as raised:
            terngrad.Codec("ternary").encode({"fc": tensor})
        for word in ("fc", *words):
            self.assertIn(word, str(raised.exception))

    def test_what_is_no_tensor_is_refused_by_name(self):
        self.refuse(numpy.zeros((4, 4)), "float64", "float32")
        self.refuse(numpy.zeros(4, numpy.int32), "int32")
        self.refuse(numpy.zeros((4, 4), numpy.float32).T[:, :2], "contiguous")
        self.refuse(numpy.zeros(8, numpy.float32)[::2], "contiguous")

        misaligned = numpy.frombuffer(bytes(17), numpy.uint8)[1:].view(numpy.float32)
        self.refuse(misaligned, "aligned")
        self.refuse([1.0, 2.0], "list", "__dlpack__")

        class Text:
            shape = (3,)

        self.refuse(Text(), "Text", "__dlpack__")

    def test_read_only_and_narrow_tensors_are_read(self):
        tensor = gradient_of(1)
        tensor.flags.writeable = False
        codec = terngrad.Codec("fp32")
        numpy.testing.assert_array_equal(codec.decode(codec.encode(tensor)), tensor)
        half = gradient_of(1).astype(numpy.float16)
        numpy.testing.assert_array_equal(codec.decode(codec.encode(half)), half.astype(numpy.float32))
        # A row of a matrix is contiguous, and so is a matrix with one row.
        numpy.testing.assert_array_equal(codec.decode(codec.encode(tensor[3])), tensor[3])

    def test_numbers_and_names_are_refused_by_name(self):
        codec, tensor = terngrad.Codec("ternary", num_workers=2), gradient_of(1)
        for options, word in (({"step": -1}, "step"), ({"step": 2**40}, "step"), ({"step": 1.0}, "step"),
                              ({"seed": 2**64}, "seed"), ({"worker": 2}, "worker"), ({"worker": True}, "worker"),
                              ({"scalers": [[1.0]]}, "scalers"), ({"scalers": {1: [-1.0]}}, "scalers of worker 1"),
                              ({"scalers": {1: [float("inf")]}}, "scalers of worker 1"), ({"scalers": {"1": [1.0]}}, "others"),
                              ({"on_nonfinite": "skip"}, "on_nonfinite")):
            with self.assertRaises(terngrad.InvalidArgument, msg=str(options)) as raised:
                codec.encode(tensor, **options)
            self.assertIn(word, str(raised.exception))
        with self.assertRaisesRegex(terngrad.InvalidArgument, "scalers"):
            terngrad.Codec("fp32", num_workers=2).encode(tensor, scalers={1: [1.0]})
        for make in (lambda: terngrad.Codec(None), lambda: codec.encode({1: tensor}), lambda: terngrad.Layout({"a": (1.9,)}),
                     lambda: terngrad.Layout({1: (1,)}), lambda: terngrad.Layout({"a": (-1,)})):
            self.assertRaises(terngrad.InvalidArgument, make)

    def test_results_go_where_they_may_be_written(self):
        codec = terngrad.Codec("fp32")
        message = codec.encode(gradient_of(1))
        out = numpy.zeros((100, 70), numpy.float32)
        out.flags.writeable = False
        with self.assertRaisesRegex(terngrad.InvalidArgument, "read-only"):
            codec.decode(message, out=out)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "float32"):
            codec.decode(message, out=numpy.zeros((100, 70), numpy.float16))
        two = codec.encode({"a": gradient_of(1, (10,)), "b": gradient_of(2, (10,))})
        memory = numpy.zeros(15, numpy.float32)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "overlaps"):
            codec.decode(two, out={"a": memory[:10], "b": memory[5:]})
        with self.assertRaisesRegex(terngrad.InvalidArgument, "no tensor 'b'"):
            codec.decode(two, out={"a": memory[:10]})
        with self.assertRaisesRegex(terngrad.InvalidArgument, r"shape \[70, 100\], expected \[100, 70\]"):
            codec.decode(message, out=numpy.zeros((70, 100), numpy.float32))


class Aggregates(unittest.TestCase):
    def test_means_of_messages_have_the_bits_of_an_exchange(self):
        shapes = {"weights": (90, 61), "biases": (61,), "empty": (0, 5)}
        gradients = [{name: gradient_of(10 * worker + len(name), shape) for name, shape in shapes.items()} for worker in range(3)]
        for spec in [*SPECS, "ternary:sharing=mean,scope=block,block=640", "sign:reduce=vote,scale=l1"]:
            with self.subTest(spec):
                exchange = terngrad.Exchange(terngrad.Layout(shapes), 3, spec, memory="none", quantize_logits=True, seed=4)
                expected = exchange.exchange(gradients, step=6).mean_tensors
                codec = terngrad.Codec(spec, num_workers=3)
                scalers = [codec.measure(gradients[worker], worker=worker, step=6, seed=4) for worker in range(3)]
                messages = []
                for worker in range(3):
                    others = {other: scalers[other] for other in range(3) if other != worker} if codec.shares_scalers else None
                    messages.append(codec.encode(gradients[worker], worker=worker, step=6, seed=4, scalers=others))
                mean = codec.aggregate(messages[::-1])
                for name in shapes:
                    self.assertEqual(mean[name].tobytes(), expected[name].tobytes())
                out = {name: numpy.full(shape, 9, numpy.float32) for name, shape in shapes.items()}
                self.assertIs(terngrad.aggregate(messages, out), out)
                self.assertEqual(out["weights"].tobytes(), mean["weights"].tobytes())

    def test_messages_that_make_no_mean_are_refused(self):
        gradient = gradient_of(1)
        codec = terngrad.Codec("qsgd", num_workers=2)
        first, second = (codec.encode(gradient, worker=worker) for worker in range(2))
        for messages, error, word in (
                ([], terngrad.InvalidArgument, "got none"), ([first], terngrad.InvalidArgument, "one of each of 2 workers"),
                ([first, first], terngrad.CommunicationError, "two messages are worker 0's"),
                ([first, codec.encode(gradient, worker=1, step=1)], terngrad.InvalidArgument, "steps"),
                ([first, codec.encode(gradient[1:], worker=1)], terngrad.InvalidArgument, "different tensors"),
                ([first, terngrad.Codec("fp8", num_workers=2).encode(gradient, worker=1)], terngrad.CommunicationError, "fingerprint")):
            with self.assertRaisesRegex(error, word):
                codec.aggregate(messages)
        received = [terngrad.Message.of(bytes(message), gradient.shape) for message in (first, second)]
        self.assertEqual(codec.aggregate(received).tobytes(), codec.aggregate([first, second]).tobytes())
        with self.assertRaisesRegex(terngrad.InvalidArgument, "came as bytes"):
            terngrad.decode(received[0])

    def test_a_worker_that_is_not_finite_counts_as_zeros(self):
        gradients = [gradient_of(1), gradient_of(2)]
        gradients[1][3, 4] = numpy.inf
        codec = terngrad.Codec("ternary", num_workers=2)
        with self.assertRaises(terngrad.NonFiniteError):
            codec.measure(gradients[1], worker=1)
        scalers = [codec.measure(gradient, worker=worker, on_nonfinite="zero") for worker, gradient in enumerate(gradients)]
        self.assertTrue(numpy.isnan(scalers[1]).all())
        with self.assertRaisesRegex(terngrad.NonFiniteError, "worker 1"):
            codec.encode(gradients[0], scalers={1: scalers[1]})
        messages = [codec.encode(gradient, worker=worker, scalers={1 - worker: scalers[1 - worker]}, on_nonfinite="zero")
                    for worker, gradient in enumerate(gradients)]
        layout = terngrad.Layout({"tensor": (100, 70)})
        exchange = terngrad.Exchange(layout, 2, "ternary", on_nonfinite="zero")
        expected = exchange.exchange([{"tensor": gradient} for gradient in gradients], step=0).mean_tensors["tensor"]
        self.assertEqual(codec.aggregate(messages).tobytes(), expected.tobytes())

    def test_any_message_is_inspected(self):
        message = terngrad.encode({"a": gradient_of(1), "b": gradient_of(2, (3,))}, "qsgd", bits=4, step=9, run_id=5)
        for data in (message, bytes(message), bytearray(bytes(message))):
            info = terngrad.inspect(data)
            self.assertEqual((info.kind, info.worker, info.step, info.run_id, info.nbytes), ("gradient", 0, 9, 5, message.nbytes))
            self.assertEqual([(record.codec, record.tensor, record.first, record.count) for record in info.records],
                             [("qsgd", 0, 0, 7000), ("qsgd", 1, 0, 3)])
            self.assertEqual(info.records[0].code_bytes, 3500)
        codec, shapes = terngrad.Codec("qsgd", bits=4), {"a": (100, 70), "b": (3,)}
        self.assertEqual(codec.decode_record(message, 1, shapes).tobytes(), codec.decode(message)["b"].tobytes())
        for error, arguments in ((terngrad.InvalidArgument, (2, shapes)), (terngrad.InvalidArgument, (1, {"a": (100, 70)})),
                                 (terngrad.InvalidArgument, (0, {"a": (3,)}))):
            with self.assertRaises(error):
                codec.decode_record(message, *arguments)
        for other in ("ternary", "qsgd:bits=8", "qsgd:bits=4,block=64"):
            with self.assertRaises((terngrad.NotSupported, terngrad.CommunicationError)):
                terngrad.Codec(other).decode_record(message, 0, shapes)
        self.assertEqual(info.fingerprint, messages.read(bytes(message)).fingerprint)
        for place in (0, 6, 30, 70, len(bytes(message)) - 1):
            damaged = bytearray(bytes(message))
            damaged[place] ^= 4
            with self.assertRaises(terngrad.CommunicationError):
                terngrad.inspect(damaged)
        with self.assertRaises(terngrad.CommunicationError):
            terngrad.inspect(b"")

    def test_codecs_are_pickled(self):
        codec = pickle.loads(pickle.dumps(terngrad.Codec("qsgd", bits=4, num_workers=3)))
        self.assertEqual((codec.spec, codec.num_workers), (terngrad.Codec("qsgd", bits=4).spec, 3))
        message = pickle.loads(pickle.dumps(codec.encode(gradient_of(1), worker=2)))
        self.assertEqual(terngrad.decode(message).tobytes(), codec.decode(message).tobytes())


if __name__ == "__main__":
    unittest.main()
