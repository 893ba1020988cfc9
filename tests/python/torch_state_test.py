"""State of the DistributedDataParallel hook: saving, loading, reports and errors. Skipped without PyTorch."""

import copy
import importlib.util
import io
import os
import pathlib
import pickle
import signal
import tempfile
import threading
import unittest

from ranks import batch_of, make_ddp, Net, optimizer_of, parameters_of, run_ranks, train_step

import terngrad
import terngrad.torch
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

CRITERION = torch.nn.CrossEntropyLoss()


def refused(expect, kind, word, call, *arguments, **options):
    """Expects that a call raises `kind` with `word` in its message."""
    try:
        call(*arguments, **options)
    except kind as error:
        expect(word in str(error), str(error))
        return
    expect(False, f"nothing was refused with '{word}'")


def run_resume_with_factors(rank, size, expect):
    """Resumes codecs with state that all ranks share (powersgd), or with two arrays per tensor (dgc)."""
    for codec in "powersgd:rank=1,min_ratio=1", "dgc:density=0.05":
        runs = []
        for _ in range(2):
            ddp = make_ddp({})
            runs.append((ddp, terngrad.torch.compress(ddp, codec), torch.optim.SGD(ddp.parameters(), lr=0.05)))
        (ddp, state, optimizer), (resumed, resumed_state, resumed_optimizer) = runs
        for step in range(2):
            train_step(ddp, optimizer, rank, size, step)
        saved = state.state_dict()
        resumed.load_state_dict(ddp.state_dict())
        resumed_state.load_state_dict(saved)
        for each, of_each in (ddp, optimizer), (resumed, resumed_optimizer):
            train_step(each, of_each, rank, size, 2)
        expect(parameters_of(ddp) == parameters_of(resumed), f"{codec} differs after it was resumed")
        expect(("shared" in saved["state"]) == codec.startswith("powersgd"), f"{codec}: {list(saved['state'])}")


def run_resume(rank, size, expect):
    def start():
        ddp = make_ddp({})
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
        refused(expect, terngrad.InvalidArgument, word, resumed_state.load_state_dict, other)


def run_nonfinite(rank, size, expect):
    for policy in ("propagate", "zero", "raise"):
        ddp = make_ddp({})
        state = terngrad.torch.compress(ddp, "terngrad_ef", on_nonfinite=policy)
        optimizer = optimizer_of(ddp)
        train_step(ddp, optimizer, rank, size, 0)
        kept = state.state_dict()["state"]
        x, y = (each.chunk(size)[rank] for each in batch_of(1))
        loss = CRITERION(ddp(x), y) * (float("inf") if rank == 1 else 1.0)
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
            expect(all(torch.equal(after[rank][name], kept[rank][name]) for name in kept[rank]),
                   "the state of a step that was not finite changed")
        else:
            expect(bool(torch.isfinite(gradients).all()), "a tensor that counts as zeros is not finite")
        expect("worker 1" in state.report().nonfinite, f"report: {state.report().nonfinite}")


def run_set_codecs(rank, size, expect):
    ddp = make_ddp({})
    state = terngrad.torch.compress(ddp, "terngrad_ef", warmup_steps=1)
    optimizer = optimizer_of(ddp)
    for step in range(2):
        train_step(ddp, optimizer, rank, size, step)
    kept, sent = state.state_dict()["state"], state.report().sent_bytes
    state.set_codecs("qsgd", bits=8, codec_for={"last.*": "fp32"})
    expect(state.report().sent_bytes == sent, "the report of the last step was lost")
    train_step(ddp, optimizer, rank, size, 2)
    expect(state.report().sent_bytes > 2 * sent and state.exchange.memory == "none", f"qsgd: {state.report()}")
    state.set_codecs("efsignsgd")
    expect(not any(array.any() for array in state.state_dict()["state"][rank].values()), "what is kept does not begin with zeros")
    train_step(ddp, optimizer, rank, size, 3)
    kept = state.state_dict()["state"][rank]
    expect(any(array.any() for array in kept.values()), "nothing is kept")
    state.set_codecs("terngrad_ef")
    expect(all(torch.equal(array, kept[name]) for name, array in state.state_dict()["state"][rank].items()),
           "what is kept was lost with a codec of the same memory")
    for codec, options, word in (("ternary", {"seed": 2}, "seed is of the constructor"), ("qsgd", {"bits": 4 + 4 * rank}, "bits of rank 1"),
                                 ("qsgd", {"bitz": 4}, "bitz"), ("dgc", {}, "rests in steps")):
        refused(expect, terngrad.InvalidArgument, word, state.set_codecs, codec, **options)
    expect(state.exchange.memory == "ef" and "terngrad_ef" in state._codec, "a refusal changed the codecs")


def run_disagreement(rank, size, expect):
    ddp = make_ddp({})
    for options, word in (({"seed": 1 + rank}, "seed of rank 1 is not that of rank 0: 2, not 1"),
                          ({"memory": "none" if rank else "ef"}, "memory of rank 1"),
                          ({"on_nonfinite": "raise" if rank else "propagate"}, "on_nonfinite of rank 1"),
                          ({"codec_for": dict([("fc.*", "fp32"), ("last.*", "bf16")][::1 - 2 * rank])}, "codec_for of rank 1"),
                          ({"grad_scaler": Scaler() if rank else None}, "grad_scaler of rank 1"),
                          ({"clip_factor": rank}, "clip_factor of rank 1"), ({"warmup_steps": rank}, "warmup_steps of rank 1")):
        refused(expect, terngrad.InvalidArgument, word, terngrad.torch.CompressedAllReduceHook, ddp, "ternary", **options)
    other = Net(unused=rank == 1)
    refused(expect, terngrad.InvalidArgument, "parameters of rank 1", terngrad.torch.CompressedAllReduceHook, other)
    try:
        terngrad.torch.CompressedAllReduceHook(Net().double() if rank else Net())
        expect(False, "a model of float64 was taken")
    except terngrad.InvalidArgument as error:
        expect("'conv.weight' is torch.float64" in str(error) and ("rank 1" in str(error)) == (rank == 0), str(error))
    whole, part = torch.distributed.new_group([0, 1]), torch.distributed.new_group([0])
    for options, word in (({"exchange_group": whole, "timeout": 5}, "timeout"), ({"exchange_group": part}, r"has the ranks [0]"),
                          ({"timeout": 0}, "above 0")):
        if rank == 1 and options.get("exchange_group") is part:
            continue  # rank 1 is no member of it
        refused(expect, terngrad.InvalidArgument, word, terngrad.torch.CompressedAllReduceHook, ddp, **options)
    state = terngrad.torch.compress(ddp)
    state.close()
    refused(expect, Exception, "was closed", train_step, ddp, optimizer_of(ddp), rank, size, 0)


def run_gathered(rank, size, expect):
    ddp = make_ddp({})
    state, optimizer = terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)
    for step in range(2):
        train_step(ddp, optimizer, rank, size, step)
    own, gathered = state.state_dict(), state.state_dict(gather=True)
    expect((gathered is None) == (rank != 0), "the gathered state is not on rank 0 alone")
    (gathered,) = broadcast([gathered])
    again = terngrad.torch.CompressedAllReduceHook(ddp, "terngrad_ef")
    again.load_state_dict(gathered)
    expect(same_state(again.state_dict(), own), "of a gathered state another one was loaded")
    framework = terngrad.torch.GatheredState(again)  # saves the states that rank 0 gathers, for all ranks
    file = io.BytesIO()
    torch.save(framework.state_dict(), file)
    again.load_state_dict(gathered, reset_residuals=True)
    (saved,) = broadcast([file.getvalue()])
    framework.load_state_dict(torch.load(io.BytesIO(saved), weights_only=True))
    expect(same_state(again.state_dict(), own), "GatheredState gave or loaded another state")
    gathered["ranks"].append(own)
    refused(expect, terngrad.InvalidArgument, "num_workers 3", again.load_state_dict, gathered)
    again.load_state_dict(gathered, reset_residuals=True)
    expect(again.step == 2 and not any(array.any() for array in again.state_dict()["state"][rank].values()), "residuals stayed")
    unpickled = pickle.loads(pickle.dumps(state))
    unpickled.bind(ddp)
    expect(same_state(unpickled.state_dict(), own), "a pickled state is another one")


def run_refused_models(rank, size, expect):
    """A model with another communication hook is refused, and nothing is created for it."""
    def made():
        return threading.active_count(), len(torch.distributed.distributed_c10d._world.pg_map
                                             if hasattr(torch.distributed.distributed_c10d, "_world")
                                             else torch.distributed.distributed_c10d._pg_map)

    twice, other, mixed, backward = (make_ddp({}) for _ in range(4))
    state = terngrad.torch.compress(twice)
    cases = [(twice, "set_codecs")]
    if hasattr(other, "_comm_hooks"):  # PyTorch 2
        other.register_comm_hook(None, default_hooks.fp16_compress_hook)
        mixed.mixed_precision = object()
        next(backward.parameters())._in_backward_optimizers = []
        cases += [(other, "fp16_compress_hook"), (mixed, "mixed_precision"), (backward, "in the backward pass"),
                  (torch.compile(make_ddp({})), "that torch.compile was given")]
    before = made()
    for model, word in cases:
        refused(expect, terngrad.Error, word, terngrad.torch.compress, model)
    expect(made() == before, "a refusal left a thread or a group")
    train_step(twice, optimizer_of(twice), rank, size, 0)
    expect(state.step == 1, "a refusal ended the state of the model")


def run_copies(rank, size, expect):
    """A copied model has no hook, as in PyTorch, and can be compressed itself. A copied state must be bound before use."""
    ddp = make_ddp({})
    state, optimizer = terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)
    train_step(ddp, optimizer, rank, size, 0)
    again = copy.deepcopy(copy.deepcopy(state))
    for ask in again.report, again.plan, lambda: again.exchange:
        refused(expect, terngrad.InvalidArgument, "bind connects it", ask)
    expect(same_state(again.state_dict(), state.state_dict()), "a copied state keeps something else")
    copied = copy.deepcopy(ddp)
    of_copy, optimizer_of_copy = terngrad.torch.compress(copied, "terngrad_ef"), optimizer_of(copied)
    of_copy.load_state_dict(state.state_dict())
    optimizer_of_copy.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each, of_each in (ddp, optimizer), (copied, optimizer_of_copy):
        train_step(each, of_each, rank, size, 1)
    expect(parameters_of(ddp.module) == parameters_of(copied.module), "a compressed copy trains otherwise")


def run_parameters_of_ddp(rank, size, expect):
    """Parameters that DDP ignores are in no plan; freezing a parameter after DDP was made raises an error that names it."""
    net = Net()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["fc.weight"])
    for of in (lambda ddp: terngrad.torch.compress(ddp)), (lambda ddp: terngrad.torch.CompressedAllReduceHook(ddp.module)):
        expect("fc.weight" not in {tensor.name for tensor in of(DistributedDataParallel(net)).plan()}, "an ignored parameter is in the plan")
    ddp = make_ddp({}, find_unused_parameters=True)
    ddp.module.fc.bias.requires_grad_(False)
    terngrad.torch.compress(ddp)
    refused(expect, Exception, "DDP exchanges parameter 'fc.bias'", train_step, ddp, optimizer_of(ddp), rank, size, 0)


def run_groups(rank, size, expect):
    """A process group with several backends, of which the device's backend is accepted."""
    if not hasattr(torch.distributed.ProcessGroup, "_get_backend"):
        return  # before PyTorch 2
    ddp = make_ddp({}, process_group=torch.distributed.new_group(backend="cpu:gloo"))
    state = terngrad.torch.compress(ddp)
    train_step(ddp, optimizer_of(ddp), rank, size, 0)
    expect(state.step == 1, "no step over a group of the backend cpu:gloo")


def run_bad_options(rank, size, expect):
    ddp = make_ddp({})
    for options, word in (({"timeout": "5"}, "timeout must be a number"), ({"codec_for": ["a"]}, "codec_for must be a dictionary"),
                          ({"transforms": terngrad.torch.WeightDecay(1e-4)}, "transforms must be a sequence"),
                          ({"transforms": ["x"]}, "transforms are functions"), ({"process_group": None}, "process_group is DDP's own"),
                          ({"exchange_group": "g"}, "exchange_group must be a group"), ({"overlap": "yes"}, "overlap must be True or False"),
                          ({"find_unused_parameters": "no"}, "find_unused_parameters must be True or False")):
        refused(expect, terngrad.InvalidArgument, word, terngrad.torch.compress, ddp, **options)
    state = terngrad.torch.compress(ddp, "terngrad_ef", transforms=[lambda name, parameter, gradient: gradient])
    saved = state.state_dict()
    for odd, word in ((None, "must be a dictionary"), ({"ranks": []}, "of no rank"), ({"ranks": [None]}, "must be a dictionary"),
                      ({name: value for name, value in saved.items() if name != "step"}, "the step of the saved state")):
        refused(expect, terngrad.InvalidArgument, word, state.load_state_dict, odd, reset_residuals=True)
    try:
        train_step(ddp, optimizer_of(ddp), rank, size, 0)
        expect(False, "a transform that returns something was ignored")
    except RuntimeError as error:
        expect("changes the gradient in place" in str(error), str(error))


def run_sum(rank, size, expect):
    """A sum equals the mean times the number of ranks, bit for bit for powers of two."""
    for codec in "ternary", "signum":
        gradients = []
        for reduction in "mean", "sum":
            ddp = make_ddp({})
            terngrad.torch.compress(ddp, codec, reduction=reduction)
            train_step(ddp, optimizer_of(ddp), rank, size, 0)
            gradients.append(torch.cat([parameter.grad.flatten() for parameter in ddp.parameters()]))
        expect(gradients[0].any() and torch.equal(gradients[0] * size, gradients[1]), f"{codec}: the sum is not {size} means")


def run_replicas(rank, size, expect):
    for every, fails_in in (2, 4), (0, None), (3, 3):
        ddp = make_ddp({})
        terngrad.torch.compress(ddp, check_replicas=every)
        optimizer = optimizer_of(ddp)
        for step in range(5):
            if step == 3 and rank == 1:
                with torch.no_grad():
                    ddp.module.last.bias[4] += 2**-20
                    ddp.module.conv.bias[0] += 1
            try:
                train_step(ddp, optimizer, rank, size, step)
                expect(step != fails_in, f"check_replicas={every} saw nothing")
            except RuntimeError as error:
                expect(step == fails_in, f"check_replicas={every}, step {step}: {error}")
                expect("of rank 1 is not that of rank 0" in str(error) and "before step" in str(error), str(error))
                expect("'conv." in str(error), str(error))
                break


def run_join(rank, size, expect):
    """Ranks with different numbers of steps (Join): a rank without data contributes zeros."""
    ddp = make_ddp({})
    state, optimizer = terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)
    with Join([ddp]):
        for step in range(2 + rank):
            train_step(ddp, optimizer, rank, size, step)
    expect(state.step == 3, f"{state.step} steps were exchanged")
    of_ranks = state._communicator.gather_objects(terngrad.torch._replicas.checksum(ddp.module.fc.weight))
    expect(len(set(of_ranks)) == 1, "ranks have other parameters after Join")
    try:
        with Join([ddp], divide_by_initial_world_size=False):
            train_step(ddp, optimizer, rank, size, 3)
        expect(False, "another divisor was ignored")
    except Exception as error:
        expect("divide_by_initial_world_size" in str(error), str(error))


def run_accelerate(rank, size, expect, folder):
    """Saves and loads the state with the real Accelerate package."""
    import accelerate

    def start():
        accelerator = accelerate.Accelerator(cpu=True)
        net = Net()
        ddp, optimizer = accelerator.prepare(net, optimizer_of(net))
        state = terngrad.torch.compress(ddp, "terngrad_ef")
        accelerator.register_for_checkpointing(terngrad.torch.GatheredState(state))
        return accelerator, ddp, optimizer, state

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    accelerator, ddp, optimizer, state = start()
    for step in range(2):
        train_step(ddp, optimizer, rank, size, step)
    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    resumed_accelerator, resumed, resumed_optimizer, resumed_state = start()
    resumed_accelerator.load_state(folder)
    expect(same_state(resumed_state.state_dict(), state.state_dict()), "Accelerate restored another state")
    for each, of_each in (ddp, optimizer), (resumed, resumed_optimizer):
        train_step(each, of_each, rank, size, 2)
    expect(parameters_of(ddp.module) == parameters_of(resumed.module), "a run that Accelerate resumed has other parameters")


def broadcast(objects):
    torch.distributed.broadcast_object_list(objects)
    return objects


def same_state(one, other):
    def plain(state):
        kept = {(worker, name): array.numpy().tobytes() for worker, arrays in state["state"].items() if worker != "memory"
                for name, array in arrays.items()}
        return {**state, "state": kept}

    return plain(one) == plain(other)


class Scaler:
    """Replaces GradScaler; the test sets the scale."""

    scale = 1.0

    def get_scale(self):
        return self.scale


def run_scaled(rank, size, expect):
    """Residuals and votes follow the loss scale: powers of two change no bit."""
    for codec, memory in (("signsgd", "auto"), ("signum", "auto"), ("sign", "loco"), ("topk", "ef21:decay=0.5"),
                          ("terngrad_ef", "auto")):
        found = []
        for scales in ((1, 1, 1, 1), (1024, 2048, 2048, 512)):
            ddp, scaler = make_ddp({}), Scaler()
            state = terngrad.torch.compress(ddp, codec, memory=memory, grad_scaler=scaler)
            optimizer = optimizer_of(ddp)
            for step, scaler.scale in enumerate(scales):
                x, y = (each.chunk(size)[rank] for each in batch_of(step))
                optimizer.zero_grad()
                (CRITERION(ddp(x), y) * scaler.scale).backward()
                for parameter in ddp.parameters():
                    parameter.grad /= scaler.scale
                optimizer.step()
            found.append(parameters_of(ddp.module))
        expect(found[0] == found[1], f"a loss scale changes what a run with {codec} does")
    # Saves at one loss scale and loads at another, or without a scaler.
    kept = state.state_dict()["state"][rank]["fc.weight"]
    scaler.scale = 256.0
    for grad_scaler, factor in ((None, 1 / 512), (scaler, 256 / 512)):
        other = terngrad.torch.CompressedAllReduceHook(make_ddp({}), "terngrad_ef", grad_scaler=grad_scaler)
        other.load_state_dict(state.state_dict())
        other._begin()
        found = other.state_dict()["state"][rank]["fc.weight"]
        expect(kept.any() and torch.equal(found, kept * factor), f"what is kept, at the scale of {grad_scaler}")


def run_warmup_and_telemetry(rank, size, expect):
    found = []
    for options in ({"codec": "fp32"}, {"codec": "terngrad_ef", "warmup_steps": 2, "telemetry_steps": 3}):
        ddp = make_ddp({})
        state, optimizer = terngrad.torch.compress(ddp, **options), optimizer_of(ddp)
        for step in range(2):
            train_step(ddp, optimizer, rank, size, step)
        found.append((parameters_of(ddp.module), state.report().sent_bytes))
    expect(found[0][0] == found[1][0], "warmup steps are not those of fp32")
    expect(found[0][1] == found[1][1], f"bytes of warmup steps: {found[1][1]}, of fp32 {found[0][1]}")
    expect(state.telemetry()["fc.weight"]["snr_db"] == float("inf"), "fp32 loses something")
    for step in range(2, 4):
        train_step(ddp, optimizer, rank, size, step)
    told = state.telemetry()
    expect(set(told) == {tensor.name for tensor in state.plan()}, f"telemetry of {set(told)}")
    expect(0 < told["fc.weight"]["zero_fraction"] < 1 and told["fc.weight"]["scaler"] > 0, str(told["fc.weight"]))
    expect(state.report().sent_bytes < found[0][1] / 4, "nothing was compressed after the warmup")


def run_unused(rank, size, expect):
    """A parameter that no rank uses keeps its residual, and its gradient stays as DDP leaves it."""
    ddp = make_ddp({}, find_unused_parameters=True)
    state = terngrad.torch.compress(ddp, "terngrad_ef")
    x, y = (each.chunk(size)[rank] for each in batch_of(0))
    CRITERION(ddp(x), y).backward()
    before = state.state_dict()["state"][rank]["fc.weight"].clone()
    expect(before.any(), "nothing was kept")
    ddp.zero_grad(set_to_none=True)
    ddp.module.forward = lambda x: ddp.module.conv(x).mean(dim=(2, 3))  # uses neither fc nor last
    CRITERION(ddp(x), y).backward()
    after = state.state_dict()["state"][rank]
    expect(torch.equal(after["fc.weight"], before), "what was kept of an unused parameter changed")
    expect(ddp.module.fc.weight.grad is None, "an unused parameter has a gradient")
    expect(ddp.module.conv.weight.grad is not None and ddp.module.conv.weight.grad.abs().sum() > 0, "a used one has none")


def run_whole_model(rank, size, expect):
    """With scope "model" the scaler covers all tensors, even if some gradients are zero."""
    ddp = make_ddp({})
    torch.nn.init.zeros_(ddp.module.last.weight)  # layers before it have no gradient in the first step
    terngrad.torch.compress(ddp, "terngrad_ef", scope="model")
    train_step(ddp, optimizer_of(ddp), rank, size, 0)
    expect(not ddp.module.fc.weight.grad.any() and bool(ddp.module.last.weight.grad.any()), "gradients of a zero layer")


def run_killed(rank, size, expect, codec, names):
    ddp = make_ddp({})
    state = terngrad.torch.compress(ddp, **codec, timeout=20)
    optimizer = optimizer_of(ddp)
    train_step(ddp, optimizer, rank, size, 0)
    x, y = (each.chunk(size)[rank] for each in batch_of(1))
    loss = CRITERION(ddp(x), y)  # the forward pass broadcasts buffers over DDP's own group
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        loss.backward()
        expect(False, "a step without rank 2 came to an end")
    except RuntimeError as error:
        expect(("rank 2" if names else "rank") + " does not answer" in str(error), str(error))
        expect(isinstance(state.error, terngrad.CommunicationError), repr(state.error))
    refused(expect, terngrad.CommunicationError, "has failed before", state._communicator.barrier)


def run_until_killed(rank, size, expect, folder):
    ddp = make_ddp({})
    state, optimizer = terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)
    for step in range(4):
        if step == 2:
            torch.save((ddp.module.state_dict(), optimizer.state_dict(), state.state_dict()), f"{folder}/{rank}.pt")
        train_step(ddp, optimizer, rank, size, step)
    torch.save(ddp.module.state_dict(), f"{folder}/{rank}-uninterrupted.pt")
    os.kill(os.getpid(), signal.SIGKILL)


def run_after_kill(rank, size, expect, folder):
    ddp = make_ddp({})
    state, optimizer = terngrad.torch.compress(ddp, "terngrad_ef"), optimizer_of(ddp)
    for each, saved in zip((ddp.module, optimizer, state), torch.load(f"{folder}/{rank}.pt", **LOAD)):
        each.load_state_dict(saved)
    for step in range(state.step, 4):
        train_step(ddp, optimizer, rank, size, step)
    expected = torch.load(f"{folder}/{rank}-uninterrupted.pt", **LOAD)
    expect(all(torch.equal(tensor, expected[name]) for name, tensor in ddp.module.state_dict().items()),
           "a run that was killed and resumed has other parameters")


# With weights_only, PyTorch 1.13 refuses the floats in optimizer states.
LOAD = {"weights_only": int(torch.__version__.split(".")[0]) >= 2}


class State(unittest.TestCase):
    def test_what_is_kept_resumes_and_what_differs_is_refused(self):
        run_ranks(self, 2, run_resume, run_resume_with_factors, run_nonfinite, run_set_codecs, run_disagreement, run_gathered,
                  run_refused_models, run_copies, run_parameters_of_ddp, run_groups, run_bad_options, run_sum, run_replicas, run_join, run_scaled, run_warmup_and_telemetry, run_unused, run_whole_model)

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "there is no Accelerate")
    def test_accelerate_saves_and_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            run_ranks(self, 2, run_accelerate, arguments=(folder,))

    def test_a_killed_rank_is_named(self):
        for codec, names in (({"codec": "ternary"}, True), ({"codec": "terngrad_ef"}, True),
                             ({"codec": "ternary", "algorithm": "integer_sum"}, True)):
            with self.subTest(codec):
                run_ranks(self, 3, run_killed, arguments=(codec, names), killed=(2,))

    def test_a_killed_run_resumes_with_its_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            run_ranks(self, 2, run_until_killed, arguments=(folder,), killed=(0, 1))
            self.assertEqual(len(list(pathlib.Path(folder).glob("*.pt"))), 4)
            run_ranks(self, 2, run_after_kill, arguments=(folder,))


if __name__ == "__main__":
    unittest.main()
