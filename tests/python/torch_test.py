"""The hook for DistributedDataParallel, on CPUs over Gloo, and virtual workers. Skipped where there is no PyTorch."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
import unittest

import numpy
import terngrad

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    print("torch_test.py: skipped: there is no PyTorch")
    sys.exit(77)
import terngrad.torch

STEPS = 5
EXAMPLES = 12


class Net(torch.nn.Module):
    def __init__(self, channels_last=False, unused=False):
        super().__init__()
        torch.manual_seed(3)
        self.conv = torch.nn.Conv2d(3, 16, 3)
        self.norm = torch.nn.BatchNorm2d(16)
        self.fc = torch.nn.Linear(16 * 36, 40)
        self.last = torch.nn.Linear(40, 10)
        if unused:
            self.unused = torch.nn.Linear(40, 30)
        if channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.last(torch.relu(self.fc(x.contiguous().flatten(1))))


def batch_of(step):
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(EXAMPLES, 3, 8, 8, generator=generator), torch.randint(10, (EXAMPLES,), generator=generator))


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def parameters_of(model):
    return {terngrad.torch._parameters.plain_name(name): tensor.detach().contiguous().numpy().tobytes()
            for name, tensor in model.state_dict().items()}


def train_virtual(num_workers, net, steps=range(STEPS), **options):
    model = Net(**net)
    optimizer = optimizer_of(model)
    virtual = terngrad.torch.VirtualWorkers(model, num_workers, **options)
    criterion = torch.nn.CrossEntropyLoss()
    for step in steps:
        virtual.backward(lambda x, y: criterion(model(x), y), *batch_of(step))
        optimizer.step()
    return model, virtual


def make_ddp(group, net, **options):
    return DistributedDataParallel(Net(**net), process_group=group, **options)


def train_step(ddp, optimizer, rank, size, step):
    x, y = (each.chunk(size)[rank] for each in batch_of(step))
    optimizer.zero_grad()
    torch.nn.CrossEntropyLoss()(ddp(x), y).backward()
    optimizer.step()


# (codec and options of the state, of DDP, of the net)
CASES = [
    ({"codec": "ternary", "clip_factor": 2.5}, {}, {}),
    ({"codec": "ternary", "algorithm": "integer_sum", "min_elements": 1}, {"bucket_cap_mb": 0.01}, {}),
    ({"codec": "ternary", "algorithm": "scatter_reduce"}, {"bucket_cap_mb": 0.03, "gradient_as_bucket_view": True}, {}),
    ({"codec": "terngrad_ef"}, {"bucket_cap_mb": 0.01, "static_graph": True}, {}),
    ({"codec": "qsgd", "bits": 4, "codec_for": {"last.*": "bf16"}, "overlap": False}, {"bucket_cap_mb": 0.01}, {}),
    ({"codec": "efsignsgd"}, {"find_unused_parameters": True}, {"unused": True}),
    ({"codec": "onebit"}, {"bucket_cap_mb": 0.01}, {"channels_last": True}),
    ({"codec": "fp32"}, {}, {}),
    ({"codec": "natural"}, {"bucket_cap_mb": 0.01}, {}),
    ({"codec": "fp8", "downlink_codec": "bf16"}, {}, {}),
]


def run_bits(rank, group, size, expect):
    for number, (options, ddp_options, net) in enumerate(CASES):
        ddp = make_ddp(group, net, **ddp_options)
        state = terngrad.torch.compress(ddp, **options)
        optimizer = optimizer_of(ddp)
        for step in range(STEPS):
            train_step(ddp, optimizer, rank, size, step)
        options = {name: value for name, value in options.items() if name != "overlap"}
        model, virtual = train_virtual(size, net, **options)
        found, expected = parameters_of(ddp.module), parameters_of(model)
        what = f"case {number} of {size}"
        buffers = {name for name, _ in model.named_buffers()}
        for name in expected:
            if name not in buffers or rank == 0:
                expect(found[name] == expected[name], f"{what}: {name} differs from that of virtual workers")
        expect(state.step == STEPS, f"{what}: {state.step} steps")
        # Bytes are this worker's.
        expect(0 < state.report().sent_bytes <= virtual.report().sent_bytes * 2, f"{what}: {state.report().sent_bytes} bytes")
        state.close()


def run_resume(rank, group, size, expect):
    def start():
        ddp = make_ddp(group, {})
        return ddp, terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)

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
    other_codec = terngrad.torch.CompressedAllReduceHook(ddp, "terngrad_ef", clip_factor=3).state_dict()
    other_seed = terngrad.torch.CompressedAllReduceHook(ddp, "terngrad_ef", seed=2).state_dict()
    for other, word in (({**stopped_state.state_dict(), "rank": 1 - rank}, "rank"), (other_codec, "fingerprint"),
                        (other_seed, "seed")):
        try:
            resumed_state.load_state_dict(other)
            expect(False, f"the state of another {word} was loaded")
        except terngrad.InvalidArgument as error:
            expect(word in str(error), str(error))


def run_nonfinite(rank, group, size, expect):
    for policy in ("propagate", "zero", "raise"):
        ddp = make_ddp(group, {})
        state = terngrad.torch.compress(ddp, "terngrad_ef", on_nonfinite=policy)
        optimizer = optimizer_of(ddp)
        train_step(ddp, optimizer, rank, size, 0)
        kept = state.state_dict()["state"]
        x, y = (each.chunk(size)[rank] for each in batch_of(1))
        loss = torch.nn.CrossEntropyLoss()(ddp(x), y) * (float("inf") if rank == 1 else 1.0)
        optimizer.zero_grad()
        try:
            loss.backward()
            expect(policy != "raise", "backward did not raise")
        except RuntimeError as error:
            expect(policy == "raise" and "of worker 1" in str(error), f"{policy}: {error}")
            continue
        gradients = torch.cat([parameter.grad.flatten() for parameter in ddp.parameters()])
        if policy == "propagate":
            expect(bool(torch.isnan(gradients).any()), "a NaN was hidden")
            after = state.state_dict()["state"]
            expect(all(numpy.array_equal(after[rank][name], kept[rank][name]) for name in kept[rank]),
                   "the state of a step that was not finite changed")
        else:
            expect(bool(torch.isfinite(gradients).all()), "a tensor that counts as zeros is not finite")
        expect("worker 1" in state.report().nonfinite, f"report: {state.report().nonfinite}")


def run_disagreement(rank, group, size, expect):
    ddp = make_ddp(group, {})
    terngrad.torch.compress(ddp, "ternary", seed=1 + rank)
    try:
        train_step(ddp, optimizer_of(ddp), rank, size, 0)
        expect(False, "ranks with other seeds exchanged")
    except RuntimeError as error:
        expect("fingerprint" in str(error), str(error))


def child(rank, size, folder):
    failures = []

    def expect(holds, text):
        if not holds:
            failures.append(f"rank {rank}: {text}")

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine calls itself
    dist.init_process_group("gloo", init_method=f"file://{folder}/init", rank=rank, world_size=size)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # warnings of DDP
            run_bits(rank, None, size, expect)
        if size == 2:
            run_resume(rank, None, size, expect)
            run_nonfinite(rank, None, size, expect)
            run_disagreement(rank, None, size, expect)
    except BaseException:
        failures.append(f"rank {rank}: {traceback.format_exc()}")
    (pathlib.Path(folder) / f"rank-{rank}.json").write_text(json.dumps(failures))
    os._exit(0)  # whatever a failed exchange has left waiting


class Ddp(unittest.TestCase):
    def run_ranks(self, size):
        with tempfile.TemporaryDirectory() as folder:
            context = torch.multiprocessing.get_context("spawn")
            processes = [context.Process(target=child, args=(rank, size, folder)) for rank in range(size)]
            for process in processes:
                process.start()
            deadline = time.monotonic() + 120
            failures = []
            for rank, process in enumerate(processes):
                process.join(max(0, deadline - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    failures.append(f"rank {rank} did not end")
                result = pathlib.Path(folder) / f"rank-{rank}.json"
                failures += json.loads(result.read_text()) if result.exists() else [f"rank {rank} has no result"]
            self.assertEqual(failures, [])

    def test_two_ranks_have_the_bits_of_virtual_workers_resume_and_refuse(self):
        self.run_ranks(2)

    def test_three_ranks_have_the_bits_of_virtual_workers(self):
        self.run_ranks(3)

    def test_four_ranks_have_the_bits_of_virtual_workers(self):
        self.run_ranks(4)


class Virtual(unittest.TestCase):
    def test_gradients_are_the_mean_of_the_workers(self):
        model, virtual = train_virtual(3, {}, steps=range(1), codec="fp32")
        plain = Net()
        criterion = torch.nn.CrossEntropyLoss()
        x, y = batch_of(0)
        sum(criterion(plain(xk), yk) for xk, yk in zip(x.chunk(3), y.chunk(3))).backward()
        for (name, ours), theirs in zip(model.named_parameters(), plain.parameters()):
            torch.testing.assert_close(ours.grad, theirs.grad / 3, rtol=1e-4, atol=1e-6, msg=name)
        self.assertGreater(virtual.report().sent_bytes, 0)

    def test_what_cannot_be_compressed_is_refused_by_name(self):
        for model, word in ((torch.nn.Linear(2, 2).double(), "'weight' is torch.float64"),
                            (torch.nn.ReLU(), "no parameter")):
            with self.assertRaisesRegex(terngrad.InvalidArgument, word):
                terngrad.torch.VirtualWorkers(model, 2)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "12 examples is no multiple of 5"):
            train_virtual(5, {})
        with self.assertRaisesRegex(terngrad.InvalidArgument, "'none"):
            terngrad.torch.VirtualWorkers(Net(), 2, codec_for={"none*": "fp32"})


if __name__ == "__main__":
    unittest.main()
