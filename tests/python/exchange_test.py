"""Exchanges of the Python package, alone and between ranks."""

import gc
import os
import subprocess
import sys
import threading
import time
import unittest
import weakref

import numpy
import terngrad
from threads import ThreadCommunicator, run_ranks

LAYOUT = terngrad.Layout({"conv": (9, 500), "biases": (7,), "empty": (0,), "fc": (8193,), "one": ()})
WORKERS = 4


def gradients_of(step, workers=range(WORKERS)):
    result = []
    for worker in workers:
        random = numpy.random.default_rng(1000 * step + worker)
        result.append({name: random.standard_normal(shape).astype(numpy.float32) for name, shape in LAYOUT.shapes.items()})
    return result


def assert_same(test, expected, found, what=""):
    for name in expected:
        test.assertEqual(expected[name].tobytes(), numpy.ascontiguousarray(found[name]).tobytes(), f"{what} {name}")


class Exchanges(unittest.TestCase):
    def test_the_mean_of_floats_is_numpys(self):
        gradients = gradients_of(1)
        report = terngrad.Exchange(LAYOUT, WORKERS, "fp32").exchange(gradients, step=0)
        for name in LAYOUT.names:
            numpy.testing.assert_allclose(report.mean_tensors[name], sum(tensors[name] for tensors in gradients) / WORKERS,
                                          rtol=1e-5, atol=1e-7)
        # 2 workers by all_gather: each sends its message to the other.
        two = terngrad.Exchange(LAYOUT, 2, "fp32").exchange(gradients[:2], step=0)
        self.assertGreater(two.sent_bytes, 2 * 4 * LAYOUT.num_elements)
        self.assertEqual(two.sent_bytes, two.received_bytes)
        self.assertEqual((two.skipped, two.nonfinite), (False, ""))

    def test_ranks_parts_and_places_change_no_bit(self):
        for codec, algorithm in (("ternary:clip_factor=2.5", "all_gather"), ("ternary", "integer_sum"),
                                 ("ternary", "scatter_reduce"), ("terngrad_ef", "auto"), ("qsgd:bits=4", "auto"),
                                 ("signum", "auto"), ("fp32", "scatter_reduce")):
            alone = terngrad.Exchange(LAYOUT, WORKERS, codec, algorithm=algorithm, seed=5)
            expected = [alone.exchange(gradients_of(step), step=step).mean_tensors for step in range(3)]

            def body(communicator, codec=codec, algorithm=algorithm):
                exchange = terngrad.Exchange(LAYOUT, WORKERS, codec, algorithm=algorithm, seed=5, communicator=communicator)
                means = []
                for step in range(3):
                    gradients = gradients_of(step, exchange.local_workers)
                    exchange.begin(step)
                    mean = gradients[0] if step == 1 else {name: numpy.empty_like(gradients[0][name]) for name in LAYOUT.names}
                    for names in (("fc", "one"), ("conv", "biases", "empty")) if step else (LAYOUT.names,):
                        exchange.part([{name: tensors[name] for name in names} for tensors in gradients], mean)
                    exchange.finish()
                    means.append(mean)
                return means

            for size in (1, 2, 3):
                for rank, means in enumerate(run_ranks(size, body)):
                    for step in range(3):
                        assert_same(self, expected[step], means[step], f"{codec}, {algorithm}, {size} ranks, rank {rank}")

    def test_what_workers_keep_can_be_saved_and_restored(self):
        for codec in ("terngrad_ef", "signum", "ternary", "dgc:density=0.1", "powersgd:rank=1,min_ratio=1"):
            whole = terngrad.Exchange(LAYOUT, WORKERS, codec)
            for step in range(2):
                whole.exchange(gradients_of(step), step=step)
            state = whole.state_dict()
            expected = ["memory"] + ([] if codec == "ternary" else list(range(WORKERS)))
            self.assertEqual(list(state), expected + (["shared"] if codec.startswith("powersgd") else []))
            resumed = terngrad.Exchange(LAYOUT, WORKERS, codec)
            resumed.load_state_dict(state)
            assert_same(self, whole.exchange(gradients_of(2), step=2).mean_tensors,
                        resumed.exchange(gradients_of(2), step=2).mean_tensors, codec)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "state of all ranks is missing"):
            resumed.load_state_dict({key: value for key, value in state.items() if key != "shared"})
        resumed.reset_state()
        self.assertFalse(any(array.any() for array in resumed.state_dict()["shared"].values()))
        target = terngrad.Exchange(LAYOUT, WORKERS, "terngrad_ef")
        before = target.state_dict()
        state = terngrad.Exchange(LAYOUT, WORKERS, "terngrad_ef").state_dict()
        state[0]["fc"] += 1
        target.load_state_dict({**before, "memory": "ef:decay=1"})  # an equal memory
        for wrong, word in (({}, "memory None"), ({**state, "memory": "momentum"}, "memory momentum"),
                            ({"memory": "ef", 0: state[0]}, "state of worker 1"),
                            ({**state, 3: {**state[3], "conv": state[3]["conv"].T}}, "worker 3, tensor 'conv'"),
                            ({**state, 3: {**state[3], "conv": state[3]["conv"].astype(float)}}, "tensor 'conv', is float64")):
            with self.assertRaisesRegex(terngrad.InvalidArgument, word):
                target.load_state_dict(wrong)
        assert_same(self, before[0], target.state_dict()[0], "nothing is restored")

    def test_states_are_taken_over_where_they_fit(self):
        def started(codec):
            exchange = terngrad.Exchange(LAYOUT, WORKERS, codec)
            exchange.exchange(gradients_of(0), step=0)
            return exchange

        source = started("powersgd:rank=2,min_ratio=1")
        kept = source.state_dict()
        for codec, has_factors in (("powersgd:rank=2,min_ratio=1,warm_start=true", True), ("powersgd:rank=1,min_ratio=1", False)):
            target = terngrad.Exchange(LAYOUT, WORKERS, codec)
            target._take_over(source)
            found = target.state_dict()
            assert_same(self, kept[1], found[1], codec)
            self.assertEqual(all(numpy.array_equal(found["shared"][name], array) for name, array in kept["shared"].items()),
                             has_factors)
        target = terngrad.Exchange(LAYOUT, WORKERS, "signum")
        target._take_over(source)
        self.assertFalse(any(array.any() for array in target.state_dict()[0].values()), "another memory begins with zeros")

    def test_messages_of_workers_can_be_looked_at(self):
        gradients = gradients_of(1)
        exchange = terngrad.Exchange(LAYOUT, WORKERS, "ternary")
        exchange.exchange(gradients, step=0)
        sent, scaler = exchange.decode_local(2, "fc")
        self.assertEqual(set(numpy.unique(sent)), {-numpy.float32(scaler), 0, numpy.float32(scaler)})
        found = terngrad.telemetry(gradients[2]["fc"], sent, scaler)
        self.assertGreater(found["zero_fraction"], 0.5)

    def test_means_follow_the_gradients_scale(self):
        # Scaling gradients by a power of two scales all means exactly, also with state between steps. Exceptions:
        # scalers below 2^-86 give zero codes, and the scaler of fp8 is 448 times smaller than the largest element.
        # Votes have no scale.
        layout = terngrad.Layout({"w": (24, 40), "b": (40,)})
        gradients = [{name: numpy.random.default_rng((step, worker)).standard_normal(shape).astype(numpy.float32)
                      for name, shape in layout.shapes.items()} for step in range(3) for worker in range(2)]

        def means(codec, memory, scale):
            exchange = terngrad.Exchange(layout, 2, codec, memory=memory)
            scaled = [{name: tensor * numpy.float32(scale) for name, tensor in each.items()} for each in gradients]
            return [exchange.exchange(scaled[2 * step : 2 * step + 2], step=step).mean_tensors for step in range(3)]

        has_no_floor = set()
        for codec in (*terngrad.codecs(), *terngrad.presets(), "ternary:clip_factor=2.5", "ternary:levels=asymmetric",
                      "ternary:rotate=64", "qsgd:norm=l2", "qsgd:sharing=max", "powersgd:factors=bf16"):
            for memory in "none", "ef", "momentum", "dgc", "loco", "ef21":
                try:
                    unscaled = means(codec, memory, 1)
                except terngrad.InvalidArgument:
                    continue  # a memory that the codec refuses
                for power in -100, -74, -40, 40, 100:
                    factor = 1 if codec in ("signsgd", "signum") else 2.0**power
                    scaled = means(codec, memory, 2.0**power)
                    is_same = all(numpy.array_equal(expected[name] * factor, found[name])
                                  for expected, found in zip(unscaled, scaled) for name in found)
                    if power > -100:
                        self.assertTrue(is_same, f"{codec}, {memory}, 2^{power}")
                    elif is_same:
                        has_no_floor.add(codec)
                    else:
                        self.assertFalse(any(found[name].any() for found in scaled for name in found), f"{codec}, {memory}")
        self.assertEqual(has_no_floor, {"fp32", "bf16", "topk", "dgc", "randomk", "powersgd", "powersgd:factors=bf16",
                                        "signsgd", "signum"})

    def test_plans_say_how_tensors_travel(self):
        exchange = terngrad.Exchange(LAYOUT, 2, "ternary", codec_for={"conv*": "qsgd:bits=8"}, min_elements=10)
        codecs = {tensor.name: tensor.codec.split(":")[0] for tensor in exchange.plan()}
        self.assertEqual(codecs, {"conv": "qsgd", "biases": "fp32", "empty": "fp32", "fc": "ternary", "one": "fp32"})
        for memory, fc, conv in (("none", 0, 0), ("ef", 4 * 8193, 4 * 4500), ("loco", 129 * 68, 71 * 68)):
            plan = terngrad.Exchange(LAYOUT, 2, "ternary", codec_for={"one": "fp32"}, memory=memory).plan()
            kept = {tensor.name: tensor.nbytes_kept for tensor in plan}
            self.assertEqual((kept["fc"], kept["conv"], kept["one"]), (fc, conv, 0), memory)
            self.assertEqual("kept" in str(plan), memory != "none")
        layout = terngrad.Layout({"hidden": (50,), "last": (50,)}, logits=["last"])
        self.assertEqual([tensor.codec.split(":")[0] for tensor in terngrad.Exchange(layout, 2).plan()],
                         ["ternary", "fp32"])
        self.assertEqual([tensor.codec.split(":")[0] for tensor in terngrad.Exchange(layout, 2, quantize_logits=True).plan()],
                         ["ternary", "ternary"])


class Refusals(unittest.TestCase):
    def test_nothing_is_kept_where_all_tensors_travel_as_they_are(self):
        small = terngrad.Layout({"w": (8, 8)})
        for codec in "topk", "powersgd", "terngrad_ef":
            exchange = terngrad.Exchange(small, 2, codec, min_elements=1000)
            self.assertEqual((exchange.memory, exchange.plan()[0].codec), ("none", "fp32"))
        with self.assertRaisesRegex(terngrad.InvalidArgument, "min_elements"):
            terngrad.Exchange(small, 2, "topk", min_elements=1000, memory="ef")

    def test_options_are_refused_by_name(self):
        for options, word in (({"algorithm": "ring"}, "all_gather"), ({"downlink_codec": "int8"}, "bf16"),
                              ({"on_nonfinite": "raise"}, "stop"), ({"memory": "adam"}, "ef"),
                              ({"codec_for": {"none*": "fp32"}}, "none*"), ({"num_threads": 0}, "num_threads"),
                              ({"codec": "fp32", "algorithm": "integer_sum"}, "integer_sum"),
                              ({"codec": "fp32", "memory": "ef"}, "nothing to keep")):
            with self.assertRaises(terngrad.InvalidArgument, msg=str(options)) as raised:
                terngrad.Exchange(LAYOUT, 2, **options)
            self.assertIn(word, str(raised.exception))
        with self.assertRaisesRegex(terngrad.InvalidArgument, "nothing"):
            terngrad.Layout({"a": (3,)}, logits=["nothing"])

    def test_tensors_are_refused_with_worker_and_name(self):
        exchange = terngrad.Exchange(LAYOUT, 2)
        exchange.begin(0)
        right, wrong = gradients_of(1, range(2))
        for tensors, word in (({**wrong, "fc": wrong["fc"][:-1]}, "gradient of worker 1, tensor 'fc' has the shape"),
                              ({**wrong, "fc": wrong["fc"].astype(float)}, "worker 1, tensor 'fc' has elements of float64"),
                              ({"fc": wrong["fc"]}, "different tensors")):
            with self.assertRaises(terngrad.InvalidArgument) as raised:
                exchange.part([right, tensors])
            self.assertIn(word, str(raised.exception))
        for gradients, word in (([right], "has 2 workers"), ([{"no": right["fc"]}] * 2, "'no'")):
            with self.assertRaises(terngrad.InvalidArgument) as raised:
                exchange.part(gradients)
            self.assertIn(word, str(raised.exception))

    def test_what_is_not_finite_is_named(self):
        gradients = gradients_of(1, range(2))
        gradients[1]["fc"][3] = numpy.nan
        with self.assertRaisesRegex(terngrad.NonFiniteError, "tensor 'fc' of worker 1"):
            terngrad.Exchange(LAYOUT, 2).exchange(gradients, step=0)
        skipped = terngrad.Exchange(LAYOUT, 2, on_nonfinite="skip").exchange(gradients, step=0)
        self.assertEqual((skipped.skipped, skipped.mean_tensors), (True, {}))
        report = terngrad.Exchange(LAYOUT, 2, on_nonfinite="zero").exchange(gradients, step=0)
        self.assertIn("worker 1", report.nonfinite)
        self.assertTrue(numpy.isfinite(report.mean_tensors["fc"]).all())

    def test_ranks_of_different_options_refuse_each_other(self):
        def body(communicator):
            exchange = terngrad.Exchange(LAYOUT, 2, "ternary", algorithm="all_gather", seed=1 + communicator.rank,
                                         communicator=communicator)
            exchange.exchange(gradients_of(0, exchange.local_workers), step=0)

        with self.assertRaisesRegex(terngrad.CommunicationError, "fingerprint"):
            run_ranks(2, body)

    def test_errors_of_a_transport_pass_through(self):
        class Broken(terngrad.Communicator):
            rank, size = 0, 2

            def all_gather(self, message):
                raise ConnectionResetError("the cable")

            def all_to_all(self, messages):
                return [numpy.zeros(3, numpy.uint8)] * 2

            all_reduce_sum = all_reduce_max = None

        exchange = terngrad.Exchange(LAYOUT, 2, "ternary", communicator=Broken())
        with self.assertRaisesRegex(ConnectionResetError, "the cable"):
            exchange.exchange(gradients_of(0, range(1)), step=0)

        class Wrong(Broken):
            answer = None

            def all_gather(self, message):
                return self.answer

        for answer, word in (([numpy.zeros(3, numpy.uint8)], "1 messages, there are 2 ranks"),
                             ([b"no array", b""], "no array of bytes|no parcels"),
                             ([numpy.zeros(3, numpy.uint8)] * 2, "no parcels"),
                             ([numpy.full(16, 255, numpy.uint8)] * 2, "no parcels")):
            transport = Wrong()
            transport.answer = answer
            exchange = terngrad.Exchange(LAYOUT, 2, "ternary", communicator=transport)
            with self.assertRaisesRegex(terngrad.CommunicationError, word):
                exchange.exchange(gradients_of(0, range(1)), step=0)


    def test_reductions_that_are_not_in_place_are_refused(self):
        class Wrong(ThreadCommunicator):
            def all_reduce_sum(self, values):
                return sum(self.meet(values.copy()))

        def body(communicator):
            exchange = terngrad.Exchange(LAYOUT, 2, "ternary", algorithm="integer_sum", communicator=communicator)
            exchange.exchange(gradients_of(0, exchange.local_workers), step=0)

        with self.assertRaisesRegex(terngrad.CommunicationError, "all_reduce_sum gave something back"):
            run_ranks(2, body, Wrong)

    def test_arguments_that_are_refused_leave_the_step_as_it_is(self):
        exchange = terngrad.Exchange(LAYOUT, 2, "terngrad_ef", on_nonfinite="stop")
        gradients = gradients_of(0, range(2))
        exchange.begin(0)
        exchange.part([{"conv": tensors["conv"]} for tensors in gradients])
        with self.assertRaises(terngrad.InvalidArgument):
            exchange.part([{"conv": tensors["conv"]} for tensors in gradients])  # twice
        exchange.finish()
        with self.assertRaisesRegex(terngrad.InvalidArgument, "no tensor"):
            exchange.exchange([{"conv": tensors["conv"]} for tensors in gradients], step=1)


class Lifetimes(unittest.TestCase):
    def test_nothing_is_kept_of_arguments_and_results(self):
        gradients = gradients_of(0, range(2))
        exchange = terngrad.Exchange(LAYOUT, 2, "terngrad_ef")
        exchange.exchange(gradients, step=0)
        gc.collect()
        before = [sys.getrefcount(tensor) for tensors in gradients for tensor in tensors.values()]
        for step in range(1, 200):
            exchange.exchange(gradients, step=step)
        gc.collect()
        self.assertEqual([sys.getrefcount(tensor) for tensors in gradients for tensor in tensors.values()], before)

    def test_other_threads_run_while_the_library_works(self):
        layout = terngrad.Layout({"w": (2_000_000,)})
        gradients = [{"w": numpy.ones(2_000_000, numpy.float32)}] * 4
        exchange = terngrad.Exchange(layout, 4, "ternary")
        out = {"w": numpy.empty(2_000_000, numpy.float32)}
        ticks, ends = [], threading.Event()

        def tick():
            while not ends.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.0005)

        ticker = threading.Thread(target=tick)
        ticker.start()
        most = 0
        try:
            for step in range(50):
                begin = time.perf_counter()
                exchange.exchange(gradients, out, step=step)
                end = time.perf_counter()
                most = max(most, sum(begin < moment < end for moment in ticks))
                if most > 3:
                    break
        finally:
            ends.set()
            ticker.join()
        # If calls held the GIL, the ticker would stand still. On a busy machine a few calls may be needed to see it
        # tick.
        self.assertGreater(most, 3)

    def test_a_second_call_meanwhile_is_refused(self):
        class Calls(terngrad.Communicator):
            rank, size, found = 0, 2, None

            def all_gather(self, message):
                try:
                    self.exchange.begin(1)
                except terngrad.InvalidArgument as error:
                    self.found = str(error)
                raise ConnectionResetError("enough")

            all_to_all = all_reduce_sum = all_reduce_max = None

        communicator = Calls()
        communicator.exchange = terngrad.Exchange(LAYOUT, 2, "ternary", communicator=communicator)
        with self.assertRaises(ConnectionResetError):
            communicator.exchange.exchange(gradients_of(0, range(1)), step=0)
        self.assertIn("in use", communicator.found)
        # A failed part ends the step.
        with self.assertRaisesRegex(terngrad.InvalidArgument, "failed"):
            communicator.exchange.finish()
        # Communicator and exchange refer to each other, and are still collected.
        core = weakref.ref(communicator)
        del communicator
        gc.collect()
        self.assertIsNone(core())

    def run_script(self, text, **more):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=os.environ | more)

    def test_scripts_leak_nothing(self):
        ended = self.run_script("""
import numpy, terngrad
class Mine(terngrad.Communicator):
    rank, size = 0, 1
    all_gather = all_to_all = all_reduce_sum = all_reduce_max = None
gradients = [{"w": numpy.ones(1000, numpy.float32)}] * 4
exchange = terngrad.Exchange(terngrad.Layout.of(gradients[0]), 4, communicator=Mine())
exchange.exchange(gradients, step=0)
codec = terngrad.Codec("ternary")
message = codec.encode(gradients[0])
codec.decode(message)
""", TERNGRAD_LEAK_WARNINGS="1")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_the_interpreter_ends_with_calls_under_way(self):
        ended = self.run_script("""
import threading, numpy, terngrad
gradients = [{"w": numpy.ones(1_000_000, numpy.float32)}] * 4
exchange = terngrad.Exchange(terngrad.Layout.of(gradients[0]), 4)
begun = threading.Event()
def work():
    for step in range(10_000):
        begun.set()
        exchange.exchange(gradients, step=step)
threading.Thread(target=work, daemon=True).start()
begun.wait()
""")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))


class Memory(unittest.TestCase):
    def test_ten_thousand_exchanges_and_messages_take_no_more_memory_than_a_thousand(self):
        gradients = [{"w": numpy.ones((30, 7), numpy.float32), "b": numpy.ones(7, numpy.float32)} for _ in range(2)]
        layout = terngrad.Layout.of(gradients[0])
        exchange = terngrad.Exchange(layout, 2, "qsgd", bits=4, memory="ef")
        codec = terngrad.Codec("natural")

        def work(steps):
            for step in steps:
                exchange.begin(step)
                exchange.part([{"w": tensors["w"]} for tensors in gradients])
                exchange.part([{"b": tensors["b"]} for tensors in gradients])
                exchange.finish()
                codec.decode(codec.encode(gradients[0], step=step))

        def resident_pages():
            with open("/proc/self/statm", encoding="utf-8") as file:
                return int(file.read().split()[1])

        work(range(1000))
        before = resident_pages()
        work(range(1000, 10_000))
        self.assertLess((resident_pages() - before) * 4096, 1 << 20)


if __name__ == "__main__":
    unittest.main()
