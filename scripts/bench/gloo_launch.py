"""One process of a launch of PyTorch over Gloo, on CPUs: rank, rendezvous, and output of rank 0. For the scripts that measure
DistributedDataParallel.

Rank and number of processes come from --rank and --world_size, or from slow_link.sh, Open MPI or torchrun."""

import datetime
import json
import math
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import missing_package

# A preset core type makes OpenBLAS use another processor's kernels, at half the speed. The variable is read at import.
os.environ.pop("OPENBLAS_CORETYPE", None)
try:
    import torch
    from torch import distributed
except ImportError as error:
    torch, WHY_NO_TORCH = None, missing_package.hint(error)

SKIPPED = 77
LAUNCHERS = (  # environment variables with the rank and the number of processes
    ("TERNGRAD_HOST_RANK", "TERNGRAD_HOST_COUNT"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("RANK", "WORLD_SIZE"),
)
DEFAULT_PORT = "29500"


def unavailable_reason():
    """The reason why nothing can be measured here, or None."""
    if torch is None:
        return f"no PyTorch: {WHY_NO_TORCH}"
    if not (distributed.is_available() and hasattr(distributed, "ProcessGroupGloo")):
        return f"PyTorch {torch.__version__} was built without Gloo"
    return None


def say(options, text):
    print(f"{pathlib.Path(sys.argv[0]).name}: rank {options.rank}: {text}", file=sys.stderr)


def first_line(error):
    return str(error).strip().splitlines()[0]


def add_options(parser):
    """Adds the options common to all processes of a launch."""
    parser.add_argument("--threads", type=int, default=1, help="threads of a process (default 1)")
    parser.add_argument("--timeout", type=int, default=600, help="seconds that an operation of Gloo may take (default 600)")
    parser.add_argument("--rank", type=int, help="of this process (default: the launcher's)")
    parser.add_argument("--world_size", type=int, help="number of processes (default: the launcher's)")
    parser.add_argument("--master", help="ADDRESS:PORT of rank 0")
    parser.add_argument("--out", help="file for the JSON, written by rank 0")


def check_options(parser, options, numbers):
    """Checks ranges, and fills in rank, number of processes and master from the launcher's environment.
    @param numbers  names of options that must be at least 1"""
    for name in (*numbers, "threads", "timeout"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    if (options.rank is None) != (options.world_size is None):
        parser.error("--rank and --world_size: go together")
    if options.rank is None:
        found = [(rank, size) for rank, size in LAUNCHERS if rank in os.environ and size in os.environ]
        rank, size = found[0] if found else (None, None)
        options.rank, options.world_size = (int(os.environ[rank]), int(os.environ[size])) if found else (0, 1)
    if options.world_size < 1 or not 0 <= options.rank < options.world_size:
        parser.error(f"--rank {options.rank}: must be below --world_size {options.world_size}")
    if options.master:
        if ":" not in options.master:
            parser.error(f"--master: '{options.master}' is not ADDRESS:PORT")
        return
    hosts = os.environ.get("TERNGRAD_HOST_ADDRESSES", "")
    address = hosts.split(",")[0] or os.environ.get("MASTER_ADDR") or ("127.0.0.1" if options.world_size == 1 else None)
    if address is None:
        parser.error(f"--master: {options.world_size} processes need ADDRESS:PORT, where rank 0 listens")
    options.master = f"{address}:{os.environ.get('MASTER_PORT', DEFAULT_PORT)}"


def meet(options):
    """Creates the default process group. @returns False, after an error message, if that failed"""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", os.environ.get("TERNGRAD_HOST_INTERFACE", ""))
    if not os.environ["GLOO_SOCKET_IFNAME"]:
        del os.environ["GLOO_SOCKET_IFNAME"]
    torch.set_num_threads(options.threads)
    try:
        distributed.init_process_group("gloo", init_method=f"tcp://{options.master}", rank=options.rank,
                                       world_size=options.world_size, timeout=datetime.timedelta(seconds=options.timeout))
    except RuntimeError as error:
        say(options, f"the {options.world_size} processes did not meet at {options.master}: {first_line(error)}")
        return False
    return True


def check_equal_parameters(net):
    """@raises RuntimeError unless all ranks have the same parameters, bit for bit"""
    own = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    of_rank_0 = own.clone()
    distributed.broadcast(of_rank_0, 0)
    if not torch.equal(own, of_rank_0):
        raise RuntimeError("parameters differ between ranks")


class TrainStep:
    """Base class with a training step; subclasses set `net`, `ddp`, `optimizer`, `images` and `labels`."""

    loss = math.nan

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.ddp(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()

    def check(self):
        """Checks that the loss is finite and that all ranks have the same parameters."""
        if not math.isfinite(self.loss):
            raise RuntimeError(f"the loss is {self.loss}")
        check_equal_parameters(self.net)


def write(report, options):
    """Writes the report to standard output and to --out."""
    text = json.dumps(report, indent=1)
    print(text, flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
