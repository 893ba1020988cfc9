"""The DistributedDataParallel hook over Gloo on CPUs against virtual workers: equal bits. Skipped without PyTorch."""

import math
import unittest

from ranks import batch_of, make_ddp, Net, optimizer_of, parameters_of, run_ranks, train_step

import terngrad
import terngrad.torch
import torch

STEPS = 5


def train_virtual(num_workers, net, steps=range(STEPS), **options):
    model = Net(**net)
    optimizer = optimizer_of(model)
    virtual = terngrad.torch.VirtualWorkers(model, num_workers, **options)
    criterion = torch.nn.CrossEntropyLoss()
    for step in steps:
        virtual.backward(lambda x, y: criterion(model(x), y), *batch_of(step))
        optimizer.step()
    return model, virtual


# (codec and options of the state, options of DDP, options of the net)
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
    ({"codec": "ternary", "transforms": [terngrad.torch.WeightDecay(0.1, "fc.*")]}, {"bucket_cap_mb": 0.01}, {"channels_last": True}),
]


def run_bits(rank, size, expect, cases):
    for number, (options, ddp_options, net) in enumerate(cases):
        ddp = make_ddp(net, **ddp_options)
        state = terngrad.torch.compress(ddp, **options)
        optimizer = optimizer_of(ddp)
        for step in range(STEPS):
            train_step(ddp, optimizer, rank, size, step)
        options = {name: value for name, value in options.items() if name != "overlap"}
        options["find_unused_parameters"] = bool(ddp_options.keys() & {"find_unused_parameters", "static_graph"})
        model, virtual = train_virtual(size, net, **options)
        found, expected = parameters_of(ddp.module), parameters_of(model)
        what = f"case {number} ({options}, {ddp_options}) of {size}"
        buffers = {name for name, _ in model.named_buffers()}
        for name in expected:
            if name not in buffers or rank == 0:
                expect(found[name] == expected[name], f"{what}: {name} differs from that of virtual workers")
        expect(state.step == STEPS, f"{what}: {state.step} steps")
        # The report counts this worker's bytes. Each bucket's message has its own header.
        sent = torch.tensor([state.report().sent_bytes])
        torch.distributed.all_reduce(sent)
        expected_bytes = virtual.report().sent_bytes
        is_one = ddp_options.get("bucket_cap_mb", 25) == 25
        expect(sent == expected_bytes if is_one else expected_bytes <= sent < 1.5 * expected_bytes,
               f"{what}: {int(sent)} bytes, virtual workers {expected_bytes}")
        state.close()


class Ddp(unittest.TestCase):
    def test_ranks_have_the_bits_of_virtual_workers(self):
        for size in 2, 3, 4:
            with self.subTest(size):
                run_ranks(self, size, run_bits, arguments=(CASES,))


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
        twice = torch.nn.Module()
        twice.module = torch.nn.Linear(2, 2)
        twice.weight = torch.nn.Parameter(torch.zeros(3))
        for model, word in ((torch.nn.Linear(2, 2).double(), "'weight' is torch.float64"),
                            (torch.nn.Sequential(torch.nn.Embedding(9, 2, sparse=True)), "module '0' has sparse gradients"),
                            (twice, "two parameters are called 'weight'"),
                            (torch.nn.ReLU(), "no parameter")):
            with self.assertRaisesRegex(terngrad.InvalidArgument, word):
                terngrad.torch.VirtualWorkers(model, 2)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "12 examples is no multiple of 5"):
            train_virtual(5, {})
        with self.assertRaisesRegex(terngrad.InvalidArgument, "'none"):
            terngrad.torch.VirtualWorkers(Net(), 2, codec_for={"none*": "fp32"})

    def test_what_is_not_finite_propagates_raises_or_counts_as_zeros(self):
        for policy in "propagate", "raise", "zero":
            model = torch.nn.Linear(40, 30)
            virtual = terngrad.torch.VirtualWorkers(model, 2, "terngrad_ef", on_nonfinite=policy, compare=["bf16"], min_elements=1)
            x = torch.ones(4, 40)
            x[3] = float("inf")

            def backward(virtual=virtual, model=model, x=x):
                virtual.backward(lambda xk: model(xk).sum(), x)

            if policy == "raise":
                self.assertRaisesRegex(terngrad.NonFiniteError, "'weight' of worker 1", backward)
                continue
            backward()
            self.assertIn("worker 1", virtual.report().nonfinite)
            self.assertEqual(bool(torch.isnan(model.weight.grad).all()), policy == "propagate")
            self.assertEqual(bool(torch.isfinite(model.weight.grad).all()), policy == "zero")
            self.assertEqual(math.isnan(virtual.compared()["bf16"].snr_db), policy == "propagate")
        with self.assertRaisesRegex(terngrad.InvalidArgument, "on_nonfinite 'stop' is unknown; accepted: propagate"):
            terngrad.torch.VirtualWorkers(Net(), 2, on_nonfinite="stop")

    def test_means_of_16_bits_are_never_beyond_their_type(self):
        # Rounding may exceed the largest element: 65,500 becomes 65,536, which is infinity in fp16. A sum may be
        # infinite.
        for workers, reduction, largest in (1, "mean", 65504.0), (2, "mean", 65504.0), (2, "sum", math.inf):
            model = torch.nn.Linear(40, 30, bias=False).to(torch.float16)
            virtual = terngrad.torch.VirtualWorkers(model, workers, "natural", reduction=reduction, min_elements=1)
            virtual.backward(lambda x, model=model: (model.weight.float() * x.mean() * 65500.0).sum(), torch.ones(2))
            self.assertEqual(model.weight.grad.max().item(), largest, f"{reduction} of {workers}")
        self.assertRaisesRegex(terngrad.InvalidArgument, "reduction 'max' is refused; accepted: mean, sum",
                               terngrad.torch.VirtualWorkers, Net(), 2, reduction="max")

    def test_gradients_of_any_layout_are_those_of_plain_training(self):
        base = torch.randn(80, 8, generator=torch.Generator().manual_seed(1))
        for parameter in (base.t()[:, ::2], base[:, ::2].t(), base[::2], base.t(), base[:8, :1].expand(8, 40).t(), base[:, :3]):
            model = torch.nn.Module()
            model.weight = torch.nn.Parameter(parameter)
            x = torch.randn(6, parameter.shape[0], generator=torch.Generator().manual_seed(2))
            weights = torch.arange(parameter.shape[1]) + 1.0
            terngrad.torch.VirtualWorkers(model, 2, "fp32").backward(
                lambda xk, model=model, weights=weights: ((xk @ model.weight) * weights).sum(1).mean(), x)
            found = model.weight.grad
            plain = torch.autograd.grad(((x @ model.weight) * weights).sum(1).mean(), model.weight)[0]
            torch.testing.assert_close(found, plain, msg=f"{tuple(parameter.shape)}, strides {parameter.stride()}")

    def test_the_default_type_of_tensors_changes_nothing(self):
        torch.set_default_dtype(torch.float64)
        try:
            model = Net().float()
            virtual = terngrad.torch.VirtualWorkers(model, 2)
            virtual.backward(lambda x: model(x.float()).square().mean(), torch.ones(4, 3, 8, 8))
        finally:
            torch.set_default_dtype(torch.float32)
        self.assertEqual(model.fc.weight.grad.dtype, torch.float32)

    def test_what_is_no_batch_or_appears_in_the_forward_pass_is_refused(self):
        virtual = terngrad.torch.VirtualWorkers(torch.nn.Linear(4, 3), 2)
        for batch in {"x": torch.ones(4)}, [torch.ones(4)], torch.tensor(1.0), 3:
            with self.assertRaisesRegex(terngrad.InvalidArgument, "a batch is of tensors"):
                virtual.backward(lambda x: x.sum(), batch)
        model = torch.nn.Linear(4, 3)

        def loss_of(x):
            model.register_buffer("late", torch.ones(1))
            return model(x).sum()

        with self.assertRaisesRegex(terngrad.NotSupported, "buffer 'late'"):
            terngrad.torch.VirtualWorkers(model, 2).backward(loss_of, torch.ones(4, 4))

    def test_gradients_are_changed_before_they_are_compressed(self):
        found = {}
        for rate in 0.0, 0.5:
            model, _ = train_virtual(2, {}, steps=range(1), codec="fp32", transforms=[terngrad.torch.WeightDecay(rate, "fc.*")])
            found[rate] = {name: parameter.grad for name, parameter in model.named_parameters()}
        before = dict(Net().named_parameters())
        for name, gradient in found[0.5].items():
            decay = 0.5 * before[name].detach() if name.startswith("fc.") else 0.0
            torch.testing.assert_close(gradient, found[0.0][name] + decay, msg=name)

    def test_only_ddp_is_compressed(self):
        with self.assertRaisesRegex(terngrad.InvalidArgument, "takes a DistributedDataParallel, got Net"):
            terngrad.torch.compress(Net())


if __name__ == "__main__":
    unittest.main()
