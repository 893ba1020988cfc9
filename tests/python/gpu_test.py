"""The hook and virtual workers on emulated GPUs: device memory is CPU memory, kernels run synchronously, and ranks
communicate by Gloo. Results equal the CPU's bits. Skipped without PyTorch."""

import contextlib
import os
import pathlib
import sys
import unittest
from unittest import mock

from ranks import batch_of, make_ddp, Net, optimizer_of, parameters_of, run_ranks, train_step

import numpy
import terngrad
import terngrad.torch
from terngrad.torch import _device_communicator, _gpu
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
import check_package  # noqa: E402

os.environ["SIMT_DEVICES"] = "4"
STEPS = 4
CRITERION = torch.nn.CrossEntropyLoss()


class Side:
    """Replaces the CUDA side stream: everything completes at once."""

    handle = 0
    used = 0

    def __init__(self, device):
        self.device = device

    @contextlib.contextmanager
    def after_current(self, overlap):
        Side.used += 1
        yield

    def future(self):
        return torch.futures.Future()

    def require_no_capture(self):
        pass


def emulate(gpu):
    """Makes the code treat the CPU as this GPU, or as the CPU again (None)."""
    _gpu.index_of = lambda device: gpu
    _gpu.current_stream = lambda device: 0
    _gpu.SideStream = Side
    _device_communicator.BACKENDS = ("gloo",)


def train_virtual(num_workers, net, gpu, **options):
    emulate(gpu)
    model = Net(**net)
    optimizer = optimizer_of(model)
    virtual = terngrad.torch.VirtualWorkers(model, num_workers, **options)
    for step in range(STEPS):
        virtual.backward(lambda x, y: CRITERION(model(x), y), *batch_of(step))
        optimizer.step()
    return model, virtual


# (codec and options of the state, options of DDP, options of the net)
CASES = [
    ({"codec": "ternary", "clip_factor": 2.5}, {}, {}),
    ({"codec": "ternary", "algorithm": "integer_sum", "min_elements": 1}, {"bucket_cap_mb": 0.01}, {}),
    ({"codec": "ternary", "algorithm": "scatter_reduce"}, {"bucket_cap_mb": 0.03, "gradient_as_bucket_view": True}, {}),
    ({"codec": "terngrad_ef"}, {"bucket_cap_mb": 0.01, "static_graph": True}, {}),
    ({"codec": "efsignsgd"}, {"find_unused_parameters": True}, {"unused": True}),
    ({"codec": "onebit"}, {"bucket_cap_mb": 0.01}, {"channels_last": True}),
    ({"codec": "fp8", "downlink_codec": "bf16"}, {}, {}),
    ({"codec": "topk", "density": 0.02, "stage_steps": 1}, {"bucket_cap_mb": 0.01}, {}),
]


def run_bits(rank, size, expect):
    for number, (options, ddp_options, net) in enumerate(CASES):
        what = f"case {number} ({options}, {ddp_options}) of {size}"
        finds_unused = bool(ddp_options.keys() & {"find_unused_parameters", "static_graph"})
        model, virtual = train_virtual(size, net, None, find_unused_parameters=finds_unused, **options)
        emulate(rank)
        Side.used = 0
        ddp = make_ddp(net, **ddp_options)
        state = terngrad.torch.compress(ddp, **options)
        optimizer = optimizer_of(ddp)
        for step in range(STEPS):
            train_step(ddp, optimizer, rank, size, step)
        expect(state.exchange.device == rank and Side.used >= STEPS, f"{what}: not on the GPU")
        found, expected = parameters_of(ddp.module), parameters_of(model)
        buffers = {name for name, _ in model.named_buffers()}
        for name in expected:
            if name not in buffers or rank == 0:
                expect(found[name] == expected[name], f"{what}: {name} differs from that of virtual workers on the CPU")
        expect(state.report().sent_bytes > 0 and not state.report().nonfinite, f"{what}: {state.report()}")
        state.close()


def run_narrow(rank, size, expect):
    """16-bit gradients. (Gloo of PyTorch 1.13 has no bfloat16.)"""
    for spec in "ternary:clip_factor=2.5", "terngrad_ef":
        emulate(None)
        expected = check_package.run_virtual("cpu", spec, torch.float16, size)
        emulate(rank)
        found = check_package.compared(expected, check_package.run_hook, torch.device("cpu"), spec, torch.float16, False)
        expect(found == "equal", f"{spec}: {found}")


def run_nonfinite(rank, size, expect):
    emulate(rank)
    for policy in ("propagate", "zero", "raise"):
        ddp = make_ddp({})
        state = terngrad.torch.compress(ddp, "terngrad_ef", on_nonfinite=policy, telemetry_steps=1)
        optimizer = optimizer_of(ddp)
        train_step(ddp, optimizer, rank, size, 0)
        expect(state.telemetry()["fc.weight"]["snr_db"] > 0, f"telemetry: {state.telemetry()}")
        kept = state.state_dict()["state"]
        x, y = (each.chunk(size)[rank] for each in batch_of(1))
        optimizer.zero_grad()
        (CRITERION(ddp(x), y) * (float("inf") if rank == 1 else 1.0)).backward()
        gradients = torch.cat([parameter.grad.flatten() for parameter in ddp.parameters()])
        expect(bool(torch.isnan(gradients).any()) == (policy != "zero"), f"{policy}: NaN")
        expect("worker 1" in state.report().nonfinite, f"{policy}: {state.report()}")
        if policy != "zero":
            expect(state.report().skipped, f"{policy}: not skipped")
            after = state.state_dict()["state"]
            expect(all(numpy.array_equal(after[rank][name], kept[rank][name]) for name in kept[rank]),
                   f"{policy}: the state of a step that was not finite changed")
        optimizer.zero_grad()
        try:
            CRITERION(ddp(x), y).backward()
            expect(policy != "raise", "the next backward did not raise")
        except RuntimeError as error:
            expect(policy == "raise" and "of worker 1" in str(error), f"{policy}: {error}")


def run_resume(rank, size, expect):
    emulate(rank)

    def start():
        ddp = make_ddp({})
        return ddp, terngrad.torch.compress(ddp, "terngrad_ef", warmup_steps=1), optimizer_of(ddp)

    ddp, state, optimizer = start()
    for step in range(4):
        train_step(ddp, optimizer, rank, size, step)
    stopped, stopped_state, stopped_optimizer = start()
    for step in range(2):
        train_step(stopped, stopped_optimizer, rank, size, step)
    resumed, resumed_state, resumed_optimizer = start()
    resumed.load_state_dict(stopped.state_dict())
    resumed_optimizer.load_state_dict(stopped_optimizer.state_dict())
    resumed_state.load_state_dict(stopped_state.state_dict())
    for step in range(2, 4):
        train_step(resumed, resumed_optimizer, rank, size, step)
    expect(parameters_of(resumed.module) == parameters_of(ddp.module), "a resumed run has other parameters")
    saved = state.state_dict()
    expect(any(array.any() for array in saved["state"][rank].values()), "nothing was kept")
    state.load_state_dict(saved, reset_residuals=True)
    expect(not any(array.any() for array in state.state_dict()["state"][rank].values()), "residuals were not reset")


def run_refusals(rank, size, expect):
    emulate(rank)
    ddp = make_ddp({})
    for options, word in (({"timeout": 5}, "timeout is of a group that the exchange makes"),
                          ({"num_threads": 2}, "num_threads is of exchanges on the CPU"),
                          ({"seed": 1 + rank}, "seed of rank 1 is not that of rank 0: 2, not 1")):
        try:
            terngrad.torch.CompressedAllReduceHook(ddp, **options)
            expect(False, f"{options}: was taken")
        except terngrad.InvalidArgument as error:
            expect(word in str(error), str(error))
    _device_communicator.BACKENDS = ("nccl",)
    try:
        terngrad.torch.CompressedAllReduceHook(ddp)
        expect(False, "a group of Gloo was taken for GPUs")
    except terngrad.InvalidArgument as error:
        expect("of backend gloo; accepted for gradients on GPUs: nccl" in str(error), str(error))


class EmulatedGpus(unittest.TestCase):
    def test_ranks_have_the_bits_of_the_cpu(self):
        for size in 2, 3:
            with self.subTest(size):
                run_ranks(self, size, run_bits, run_narrow)

    def test_what_is_not_finite_resuming_and_refusals(self):
        run_ranks(self, 2, run_nonfinite, run_resume, run_refusals)

    def test_virtual_workers_have_the_bits_of_the_cpu(self):
        try:
            for codec in "ternary", "efsignsgd":
                (on_gpu, virtual), (on_cpu, _) = (train_virtual(3, {}, gpu, codec=codec, compare=["bf16"]) for gpu in (0, None))
                self.assertEqual(parameters_of(on_gpu), parameters_of(on_cpu))
                self.assertEqual(virtual.exchange.device, 0)
                self.assertGreater(virtual.report().sent_bytes, 0)
                self.assertGreater(virtual.compared()["bf16"].snr_db, 30)
        finally:
            emulate(None)

    def setUp(self):
        self.addCleanup(emulate, None)

    @mock.patch.dict(check_package.SHAPES, {"conv": (16, 8, 3, 3), "embedding": (50, 64), "linear": (60, 57)})
    def test_every_codec_and_type_has_the_cpus_bits(self):
        for case in check_package.cases("cuda"):
            with self.subTest(case=check_package.name_of(*case)):
                emulate(None)
                expected = check_package.run_virtual("cpu", *case, 4)
                emulate(0)
                self.assertEqual(check_package.compared(expected, check_package.run_virtual, torch.device("cpu"), *case, 4), "equal")

    def test_an_exchange_refuses_what_is_of_the_cpu(self):
        layout = terngrad.Layout({"w": (8,)})
        gradient = {"w": torch.ones(8)}
        for options, word in (({"num_threads": 2}, "num_threads"), ({"run_id": 3}, "run_id"), ({"device": None, "stream": 1}, "stream")):
            with self.assertRaisesRegex(terngrad.InvalidArgument, word):
                terngrad.Exchange(layout, 1, **{"device": 0, **options})
        exchange = terngrad.Exchange(layout, 1, device=0, min_elements=1, on_nonfinite="stop")
        with self.assertRaisesRegex(terngrad.InvalidArgument, "needs out"):
            exchange.exchange(gradient, step=0)
        mean = {"w": torch.zeros(8)}
        report = exchange.exchange(gradient, mean, step=0)
        self.assertEqual(report.mean_tensors["w"].tolist(), [1.0] * 8)
        self.assertEqual(exchange.decode_local(0, "w")[1], 1.0)
        with self.assertRaisesRegex(terngrad.NonFiniteError, "'w' of worker 0"):
            exchange.exchange({"w": torch.full((8,), float("nan"))}, mean, step=1)
        on_cpu = terngrad.Exchange(layout, 1)
        for use in on_cpu.wait, lambda: on_cpu.skip_flag:
            self.assertRaisesRegex(terngrad.InvalidArgument, "on the CPU", use)


if __name__ == "__main__":
    unittest.main()
