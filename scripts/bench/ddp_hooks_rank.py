#!/usr/bin/env python3
"""Measures a way in which the gradients of DistributedDataParallel travel over Gloo, on CPUs: one process of a launch.

    sudo scripts/hosts/slow_link.sh --no-mpi 100mbit 2 -- scripts/bench/ddp_hooks_rank.py --hook ternary:clip_factor=2.5

scripts/bench/bench_hooks.py launches it for each row of its tables. A step is forward, backward with the exchange that overlaps it,
and a momentum step of examples/ddp_cifar10.py's ResNet-18, on a batch in memory. --hook is none (DDP in fp32), fp16 (PyTorch's own
hook), powersgd:rank=R (PyTorch's own too), or a codec of ours by name, preset or spec.

PyTorch's PowerSGD has a single bucket over Gloo, and nothing overlaps (scripts/bench/ddp_powersgd.py); the others have DDP's own
buckets. It compresses from the third step on.

Rank 0 prints a JSON object; --out writes it to a file too: seconds of each step that counts, bytes that the host's interface sent
and received in a step, and of a codec of ours those that its exchange reports. On a host of slow_link.sh each rank sees its
interface alone. It is checked that every rank ends with the same parameters.

With --python_part it says instead how long Python takes for a bucket, without the time in the library and in collectives: the
hook's own code, and that of its communicator, which makes and fills the buffers for collectives. For that nothing overlaps, so that
all of it is done in one thread. The median over steps counts.

Exit codes: 1 if it failed, 2 for wrong usage, 77 without PyTorch, Gloo or the package terngrad.
"""

import argparse
import collections
import functools
import os
import pathlib
import statistics
import sys
import time

import gloo_launch
from ddp_hook_words import POWERSGD_BEGINS, checked, powersgd_rank

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples"))
try:
    import torch
    from torch import distributed

    import ddp_cifar10
    import ddp_powersgd
    import terngrad.torch
    import terngrad.torch._communicator
except ImportError as error:
    terngrad, WHY_NO_TERNGRAD = None, gloo_launch.missing_package.hint(error)

OPERATIONS = ("all_gather", "all_to_all", "all_reduce_sum", "all_reduce_max", "broadcast", "barrier")  # communicator methods
# Kinds of code, in calling order.
HOOK, LIBRARY, COMMUNICATOR, COLLECTIVE = "hook", "library", "communicator", "collective"


class SelfTimes:
    """Self time in seconds of each kind of code in a thread, without callees of other kinds."""

    def __init__(self):
        self.clear()
        self.kinds = []  # stack of the active calls' kinds
        self.since = 0.0

    def clear(self):
        self.seconds = collections.Counter()
        self.calls = collections.Counter()

    def pass_time(self):
        now = time.perf_counter()
        if self.kinds:
            self.seconds[self.kinds[-1]] += now - self.since
        self.since = now

    def timed(self, kind, function):
        @functools.wraps(function)
        def call(*arguments, **options):
            self.pass_time()
            self.kinds.append(kind)
            self.calls[kind] += 1
            try:
                return function(*arguments, **options)
            finally:
                self.pass_time()
                self.kinds.pop()

        return call

    def stands_for(self, kind, thing):
        """A proxy of a module or object whose functions are timed."""
        self_times = self

        class Timed:
            def __getattr__(self, name):
                value = getattr(thing, name)
                return self_times.timed(kind, value) if callable(value) and not isinstance(value, type) else value

        return Timed()


def interface_bytes():
    """(sent, received) bytes of this host's interface since its start; None outside of slow_link.sh."""
    name = os.environ.get("TERNGRAD_HOST_INTERFACE")
    if not name:
        return None
    folder = pathlib.Path("/sys/class/net") / name / "statistics"
    return [int((folder / counter).read_text(encoding="ascii")) for counter in ("tx_bytes", "rx_bytes")]


class Step(gloo_launch.TrainStep):
    """The measured training."""

    def __init__(self, options):
        torch.manual_seed(1)
        self.net = ddp_cifar10.ResNet18(options.width)
        self.num_buckets = 0  # buckets passed to the timed hook
        self.self_times = SelfTimes()
        power_rank = powersgd_rank(options.hook)
        if power_rank is not None:
            self.ddp = ddp_powersgd.wrap(self.net, power_rank)
            self.state = None
        else:
            self.ddp = torch.nn.parallel.DistributedDataParallel(self.net)
            self.state = self.time_python(options.hook) if options.python_part else ddp_cifar10.compress(self.ddp, options.hook)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        images, self.labels = ddp_cifar10.draw_set(options.batch_size, 1, options.rank)
        self.images = ddp_cifar10.normalize(images)

    def time_python(self, codec):
        """Registers our hook with timers around calls that leave our Python code. @returns its state"""
        state = terngrad.torch.CompressedAllReduceHook(self.ddp.module, codec, overlap=False)
        state.exchange._core = self.self_times.stands_for(LIBRARY, state.exchange._core)
        for name in OPERATIONS:
            setattr(state._communicator, name, self.self_times.timed(COMMUNICATOR, getattr(state._communicator, name)))
        terngrad.torch._communicator.dist = self.self_times.stands_for(COLLECTIVE, distributed)
        # _wait waits for collectives.
        state._communicator._wait = self.self_times.timed(COLLECTIVE, state._communicator._wait)
        timed_hook = self.self_times.timed(HOOK, terngrad.torch.hook)

        def hook(state, bucket):
            self.num_buckets += 1
            return timed_hook(state, bucket)

        self.ddp.register_comm_hook(state, hook)
        return state


def measure_steps(step, options):
    """Seconds of each step, and mean bytes per step."""
    distributed.barrier()
    before, seconds = interface_bytes(), []
    for _ in range(options.steps):
        begin = time.perf_counter()
        step.run()
        seconds.append(time.perf_counter() - begin)
    distributed.barrier()
    after = interface_bytes()
    result = {"seconds_of_steps": seconds}
    if after is not None:
        own = torch.tensor([(now - then) / options.steps for now, then in zip(after, before)], dtype=torch.float64)
        of_ranks = [torch.empty_like(own) for _ in range(options.world_size)]
        distributed.all_gather(of_ranks, own)
        sent, received = zip(*(of_rank.tolist() for of_rank in of_ranks))
        result |= {"interface_sent_bytes_per_step": sent, "interface_received_bytes_per_step": received}
    if step.state is not None:
        report = step.state.report()
        result |= {"reported_sent_bytes": report.sent_bytes, "reported_received_bytes": report.received_bytes}
    return result


def measure_python_part(step, options):
    """Rank 0's median seconds per bucket, over steps."""
    of_steps = []
    for _ in range(options.steps):
        step.num_buckets = 0
        step.self_times.clear()
        step.run()
        for kind in (HOOK, LIBRARY, COMMUNICATOR, COLLECTIVE):
            if step.self_times.calls[kind] == 0:
                raise RuntimeError(f"no call of {kind} was seen: the hook has another structure than is timed here")
        of_steps.append({kind: seconds / step.num_buckets for kind, seconds in step.self_times.seconds.items()})
    medians = {kind: statistics.median(each[kind] for each in of_steps) for kind in of_steps[0]}
    return {"buckets": step.num_buckets, **{f"{kind}_seconds_per_bucket": seconds for kind, seconds in medians.items()}}


def measure(options):
    step = Step(options)
    for _ in range(options.warmup):
        step.run()
    result = (measure_python_part if options.python_part else measure_steps)(step, options)
    step.check()
    return result


def run(options):
    if not gloo_launch.meet(options):
        return 1
    result = {"hook": options.hook, "processes": options.world_size, "batch_size": options.batch_size, "width": options.width,
              "threads": options.threads, "warmup": options.warmup, "steps": options.steps, "version": version()}
    try:
        result |= measure(options)
    except RuntimeError as error:  # includes the library's errors
        gloo_launch.say(options, f"error: {options.hook}: {gloo_launch.first_line(error)}")
        os._exit(1)  # the state of the other ranks is unknown, and an exchange may wait for them
    if options.rank == 0:
        gloo_launch.write(result, options)
    # DDP is destroyed by now. If it held the last reference to the group, the group would wait for its threads without
    # releasing the GIL, which one of them may be waiting for.
    distributed.destroy_process_group()
    # All output is written. Finalization, in which the interpreter ends PyTorch threads that wait for the GIL, has sometimes
    # aborted the process on a loaded machine ("terminate called without an active exception").
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def version():
    return f"terngrad {terngrad._core.version}, PyTorch {torch.__version__}"


def hook_word(word):
    """Checks the form of a hook argument; codecs are checked where the package is available."""
    checked(word)
    if terngrad is not None and powersgd_rank(word) is None:
        ddp_cifar10.codec_word(word)
    return word


def unavailable_reason():
    """The reason why nothing can be measured here, or None."""
    return gloo_launch.unavailable_reason() or (f"no package terngrad: {WHY_NO_TERNGRAD}" if terngrad is None else None)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hook", type=hook_word, default="none", help="default none")
    parser.add_argument("--steps", type=int, default=10, help="steps that count (default 10)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them (default 3, the fewest)")
    parser.add_argument("--batch_size", type=int, default=8, help="examples of a process in a step (default 8)")
    parser.add_argument("--width", type=int, default=64, help="channels of the stem: 64 (default) is ResNet-18")
    parser.add_argument("--python_part", action="store_true", help="measure what Python takes for a bucket")
    parser.add_argument("--version", action="store_true", help="check options, print the versions of what is measured, and exit")
    gloo_launch.add_options(parser)
    options = parser.parse_args()
    gloo_launch.check_options(parser, options, ("steps", "batch_size", "width"))
    # DDP rebuilds its buckets in the second step, and PowerSGD allocates its memory in the third.
    if options.warmup <= POWERSGD_BEGINS:
        parser.error(f"--warmup: must be at least {POWERSGD_BEGINS + 1}")
    if options.python_part and (options.hook in ("none", "fp16") or powersgd_rank(options.hook) is not None):
        parser.error(f"--python_part: is of our hook, '{options.hook}' is PyTorch's")
    return options


def main(options):
    reason = unavailable_reason()
    if options.version:
        print(version() if reason is None else f"ddp_hooks_rank.py: {reason}")
        return 0 if reason is None else gloo_launch.SKIPPED
    if reason is None:
        return run(options)
    if options.rank == 0:
        gloo_launch.write({"skipped": reason}, options)
    return gloo_launch.SKIPPED


if __name__ == "__main__":
    sys.exit(main(parse()))
