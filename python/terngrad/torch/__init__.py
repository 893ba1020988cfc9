"""terngrad under PyTorch: one line for DistributedDataParallel, and workers emulated in one process.

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    state = terngrad.torch.compress(ddp, codec="ternary", clip_factor=2.5)

On the CPU, over Gloo or MPI. Gradients on GPUs are refused.
"""

from terngrad.torch._communicator import GroupCommunicator
from terngrad.torch._hook import CompressedAllReduceHook, compress, hook
from terngrad.torch._virtual import ComparedMean, VirtualWorkers

__all__ = ["ComparedMean", "CompressedAllReduceHook", "GroupCommunicator", "VirtualWorkers", "compress", "hook"]
