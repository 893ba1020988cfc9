"""terngrad for PyTorch: compressed DistributedDataParallel with one line, and workers emulated in one process.

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    state = terngrad.torch.compress(ddp, codec="ternary", clip_factor=2.5)

Backends: Gloo or MPI on CPUs, NCCL on GPUs.
"""

from terngrad.torch._communicator import GroupCommunicator
from terngrad.torch._device_communicator import GroupDeviceCommunicator
from terngrad.torch._gathered_state import GatheredState
from terngrad.torch._hook import CompressedAllReduceHook, compress, hook
from terngrad.torch._transforms import WeightDecay
from terngrad.torch._virtual import ComparedMean, VirtualWorkers

__all__ = ["ComparedMean", "CompressedAllReduceHook", "GatheredState", "GroupCommunicator", "GroupDeviceCommunicator",
           "VirtualWorkers", "WeightDecay", "compress", "hook"]
