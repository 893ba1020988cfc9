"""The DistributedDataParallel hook against terngrad_train: equal gradients give equal messages and means.

    tests/python/trainer_test.py build/ci/bin/terngrad_train

Skipped without PyTorch.
"""

import os
import pathlib
import sys
import tempfile
import traceback
import unittest

import numpy
import terngrad

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
except ImportError:
    print("trainer_test.py: skipped: there is no PyTorch")
    sys.exit(77)
import terngrad.torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import dumped_run  # noqa: E402

STEPS = 3
SEED = 7
CODECS = ["fp32", "bf16", "ternary:clip_factor=2.5", "ternary:sharing=none,levels=asymmetric", "qsgd:bits=4", "natural",
          "sign:reduce=vote,scale=l1", "onebit", "fp8"]


def key(name, *numbers):
    return "/".join([name, *map(str, numbers)])


def content(message):
    """The records of a message, which do not depend on the run."""
    return b"".join(bytes([record.codec, record.format]) + record.scalers.tobytes() + record.payload
                    for record in message.records)


def dump(program, num_workers, codec_names):
    """Gradients, message records and means of the trainer's workers, by step and tensor."""
    found = {}

    def train(codec, exchange):
        options = ["--seed", SEED, "--codec", codec, "--exchange", exchange]
        if codec != "fp32":
            options.append("--quantize_logits")
        if terngrad.Codec(codec).wants_error_feedback:
            options += ["--codec_memory", "none"]
        with tempfile.TemporaryDirectory() as folder:
            return dumped_run.DumpedRun(program, folder, num_workers, STEPS, *options)

    run = train("fp32", "all_gather")
    shapes = {tensor["name"]: run.shape(segment) for segment, tensor in enumerate(run.tensors)}
    for message in run.of_kind("gradient"):
        for record in message.records:
            gradient = numpy.array(record.values(), numpy.float32).reshape(run.shape(record.segment))
            found[key("gradient", message.step, record.segment, message.worker)] = gradient
    for number, codec in enumerate(codec_names):
        run = train(codec, "scatter_reduce")
        for message in run.of_kind("gradient"):
            place = key("sent", number, message.step, message.worker)
            sent = numpy.frombuffer(content(message), numpy.uint8)
            found[place] = numpy.concatenate([found.get(place, sent[:0]), sent])
        for message in run.of_kind("mean"):
            for record in message.records:
                mean = found.setdefault(key("mean", number, message.step, record.segment),
                                        numpy.full(run.shape(record.segment), numpy.nan, numpy.float32))
                mean.reshape(-1)[record.first:record.first + record.count] = record.values()
    return shapes, found


class Given(torch.nn.Module):
    """A model with given gradients."""

    def __init__(self, shapes):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))

    def forward(self, gradients):
        return sum((parameter * gradient).sum() for parameter, gradient in zip(self.parameters(), gradients))


class Recorder(terngrad.torch.GroupCommunicator):
    """Records the shards of the gradient that this rank sends."""

    @staticmethod
    def message_of(parcels):
        """The only message of the parcels: count, size, message, padding."""
        count, size = numpy.frombuffer(parcels[:16], numpy.uint64).tolist()
        assert count == 1
        return bytes(parcels[16:16 + size])

    def all_to_all(self, messages):
        self.sent = b"".join(content(dumped_run.messages.read(self.message_of(parcels))) for parcels in messages)
        return super().all_to_all(messages)


def check(rank, size, shapes, found, codec_names):
    failures = []
    for number, codec in enumerate(codec_names):
        for bucket_cap_mb in (25, 0.002):
            model = Given(shapes)
            ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
            state = terngrad.torch.compress(ddp, codec, min_elements=1, seed=SEED, memory="none", algorithm="scatter_reduce")
            recorder = Recorder(state._communicator.group)
            state._communicator.all_to_all = recorder.all_to_all
            for step in range(STEPS):
                gradients = [torch.from_numpy(found[key("gradient", step, segment, rank)]) for segment in range(len(shapes))]
                model.zero_grad(set_to_none=True)
                ddp(gradients).backward()
                for segment, (name, parameter) in enumerate(model.named_parameters()):
                    # Adding 0 makes -0 and 0 equal: the trainer's means of votes and sums may be -0.
                    mean = found[key("mean", number, step, segment)] + numpy.float32(0)
                    if (parameter.grad.numpy() + numpy.float32(0)).tobytes() != mean.tobytes():
                        failures.append(f"{codec}, step {step}, buckets of {bucket_cap_mb} MB: the mean of {name}")
                if bucket_cap_mb == 25 and recorder.sent != found[key("sent", number, step, rank)].tobytes():
                    failures.append(f"{codec}, step {step}: the message of worker {rank}")
            state.close()
    return failures


def child(rank, size, shapes, folder, codec_names):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # independent of the host name
    dist.init_process_group("gloo", init_method=f"file://{folder}/init", rank=rank, world_size=size)
    try:
        failures = check(rank, size, shapes, dict(numpy.load(f"{folder}/dump.npz")), codec_names)
    except BaseException:
        failures = [traceback.format_exc()]
    (pathlib.Path(folder) / f"rank-{rank}.txt").write_text("\n".join(failures))
    os._exit(0)  # without waiting for threads of a failed exchange


class Trainer(unittest.TestCase):
    def check_workers(self, num_workers, codec_names):
        shapes, found = dump(TRAIN, num_workers, codec_names)
        with tempfile.TemporaryDirectory() as folder:
            numpy.savez(f"{folder}/dump.npz", **found)
            torch.multiprocessing.spawn(child, (num_workers, shapes, folder, codec_names), num_workers)
            for rank in range(num_workers):
                failures = (pathlib.Path(folder) / f"rank-{rank}.txt").read_text()
                self.assertFalse(failures, failures)

    def test_two_workers_have_its_messages_and_means(self):
        self.check_workers(2, CODECS)

    def test_four_workers_have_its_messages_and_means(self):
        self.check_workers(4, ["ternary:clip_factor=2.5", "sign:reduce=vote,scale=l1"])


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
