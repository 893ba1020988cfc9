"""Invalid arguments raise an error of the package; none raises another error or ends the process."""

import subprocess
import sys
import unittest

import numpy
import terngrad

try:
    import torch
    import terngrad.torch
except ImportError:
    torch = None

GRADIENT = numpy.ones((64, 64), "f")
MESSAGE = terngrad.encode(GRADIENT, "ternary")
LAYOUT = terngrad.Layout({"w": (64, 64)})
ODD = (None, 3, 2.5, "x", b"x", [1], [None], {"a": 1}, object())


def exchange(**options):
    return terngrad.Exchange(**{"layout": LAYOUT, "num_workers": 2, "codec": "terngrad_ef", **options})


def entries():
    """Pairs of a callable and an argument that it must refuse."""
    codec, kept = terngrad.Codec("ternary", num_workers=2), exchange()
    calls = {
        terngrad.encode: ODD, terngrad.statistics: ODD, terngrad.decode: (*ODD, bytes(MESSAGE)), terngrad.aggregate: ODD,
        terngrad.inspect: (None, 3, 2.5, "x", b"x", [1], object()), terngrad.ternarize: ODD, terngrad.Codec: ODD, terngrad.Layout: ODD[:-2],
        kept.load_state_dict: ODD, kept.begin: (None, "x", -1, 2.5, 2**50), codec.decode: ODD, terngrad.Layout.of: (None, 3, "x", [1], object()),
        (lambda value: terngrad.telemetry(value, GRADIENT)): ODD, (lambda value: terngrad.telemetry(GRADIENT, value)): ODD,
        (lambda value: terngrad.telemetry(GRADIENT, GRADIENT, value)): ("2.5", None, [1]),
        (lambda value: terngrad.compare(GRADIENT, value)): (None, 3, "x", [None], [1]),
        (lambda value: terngrad.ternarize(GRADIENT, clip_factor=value)): ("2.5", None, -1, float("nan"), [1], True),
        (lambda value: terngrad.ternarize(GRADIENT, scaler=value)): ("2.5", -1, float("nan"), [1]),
        (lambda value: terngrad.ternarize(GRADIENT, draw_offset=value)): ("2", None, -1, 2**70),
        (lambda value: terngrad.statistics(GRADIENT, value)): ("x", None, -1, 2.5, 2**70),
        (lambda value: terngrad.Message.of(bytes(MESSAGE), value)): (
            *ODD, {"a": None}, {"a": (-1,)}, {"a": ("x",)}, {"a": (2**62, 2**62)}, {3: (3,)}, {"a": "xy"}, {}),
        (lambda value: terngrad.Message.of(value, {"tensor": (64, 64)})): (*ODD, bytes(MESSAGE)[:-4]),
        (lambda value: codec.encode(GRADIENT, scalers=value)): (None, 3, "x", {1: None}, {1: ["x"]}, {5: [1.0]}, {0: ["x"]}),
        (lambda value: codec.encode(GRADIENT, worker=value)): (None, "x", 7, 1.5),
        (lambda value: codec.encode(GRADIENT, on_nonfinite=value)): (None, "x", 7),
        (lambda value: terngrad.decode(MESSAGE, out=value)): (3, "x", [1], {}, GRADIENT[:3]),
        (lambda value: kept.exchange(value, step=0)): (*ODD, [GRADIENT] * 2, [{"w": GRADIENT}], [{"w": GRADIENT}, {"v": GRADIENT}]),
        (lambda value: kept.exchange([{"w": GRADIENT}] * 2, value, step=0)): (3, "x", {}, {"w": None}, {"w": GRADIENT[:3]}),
        (lambda value: kept.decode_local(value, "w")): (None, "x", 9),
        (lambda value: kept.decode_local(0, value)): (None, "v", 9),
        (lambda value: kept.load_state_dict({**kept.state_dict(), 0: value})): ODD,
        terngrad.read_run: (None, 3, b"x", "/nowhere"),
    }
    for option, values in {"num_workers": (None, "2"), "codec_for": (3, {1: 2}, ["a"]), "min_elements": ("x",), "communicator": (3,),
                           "seed": (None,), "memory": (3, None), "num_threads": (0,), "algorithm": (None,), "run_id": ("x",),
                           "on_nonfinite": (3,), "downlink_codec": (4,), "clip_factor": (None, [1]), "device": ("cuda", -1),
                           "stream": (4,)}.items():
        calls[lambda value, option=option: exchange(**{option: value})] = values
    return [(call, value) for call, values in calls.items() for value in values]


class Arguments(unittest.TestCase):
    def test_every_odd_value_is_refused_by_an_error_of_the_package(self):
        for call, value in entries():
            with self.subTest(call=call, value=f"{value!r:.40}"):
                self.assertRaises(terngrad.Error, call, value)

    def test_an_array_that_stands_for_terabytes_is_refused_before_memory_is_taken(self):
        wide = numpy.broadcast_to(numpy.float32(1), (10**12,))
        for call in terngrad.encode, terngrad.statistics, terngrad.ternarize:
            self.assertRaisesRegex(terngrad.InvalidArgument, "not contiguous", call, wide)

    def test_objects_that_were_never_made_end_no_process(self):
        script = """
import gc, terngrad._core as core
for kind in vars(core).values():
    if not isinstance(kind, type) or issubclass(kind, BaseException): continue
    try: made = kind.__new__(kind)
    except TypeError: continue
    for name in dir(made):
        if name.startswith("__"): continue
        try: getattr(made, name)()
        except Exception: pass
gc.collect()
print("alive")
"""
        result = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout, "alive\n", result.stderr)


@unittest.skipIf(torch is None, "there is no PyTorch")
class Tensors(unittest.TestCase):
    def test_tensors_without_memory_are_refused_by_type_and_name(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        freed = torch.randn(64, 64)
        part = freed[32:]
        freed.storage().resize_(0)
        fake = FakeTensorMode().from_tensor(torch.randn(64, 64))
        for tensor, words in ((freed, "'w' .*(memory|storage)"), (part, "'w' .*(memory|storage)"),
                              (fake, "'w' is a FakeTensor of 4096 elements without memory"), (fake[32:], "without memory"),
                              (torch.empty(64, 64, device="meta"), "'w' is of type Tensor: "),
                              (torch.eye(64).to_sparse(), "'w' is of type Tensor: "),
                              (torch.quantize_per_tensor(torch.ones(64, 64), 0.1, 0, torch.qint8), "'w' is of type Tensor: "),
                              (torch.nn.LazyLinear(3).weight, "'w' has no shape")):
            with self.subTest(words):
                self.assertRaisesRegex(terngrad.InvalidArgument, words, terngrad.encode, {"w": tensor})
                self.assertRaises(terngrad.Error, terngrad.statistics, tensor)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "out, tensor 'tensor' .*(memory|storage)"):
            terngrad.decode(MESSAGE, out=freed)

    def test_modules_whose_parameters_are_shards_are_refused_by_name(self):
        sharded = torch.nn.Linear(3, 3)
        sharded.weight.to_local = lambda: sharded.weight
        whole = type("FullyShardedDataParallel", (torch.nn.Module,), {})()
        for module, words in ((sharded, "parameter 'weight' is a Parameter, as fully_shard"), (whole, "by FullyShardedDataParallel")):
            for make in (terngrad.torch.compress, lambda module: terngrad.torch.VirtualWorkers(module, 2)):
                self.assertRaisesRegex(terngrad.NotSupported, words, make, module)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "parameter 'weight' has no shape yet"):
            terngrad.torch.VirtualWorkers(torch.nn.LazyLinear(3), 2)

    def test_the_hook_refuses_what_fsdp_calls_it_with(self):
        with self.assertRaisesRegex(terngrad.InvalidArgument, "set_all_reduce_hook"):
            terngrad.torch.hook(torch.ones(3))


if __name__ == "__main__":
    unittest.main()
