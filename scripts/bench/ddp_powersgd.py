"""PyTorch's own PowerSGD hook for DistributedDataParallel over Gloo.

PyTorch's PowerSGD starts collectives from callbacks, whose order differs between ranks over Gloo. So DDP gets a single bucket,
without overlap. Compression starts in the third step, the earliest that PyTorch accepts."""

import math

from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

from ddp_hook_words import POWERSGD_BEGINS


def wrap(net, rank):
    """DDP of `net` with PowerSGD of this rank, after `POWERSGD_BEGINS` steps in float32."""
    num_bytes = sum(4 * parameter.numel() for parameter in net.parameters())
    first_bucket_bytes = distributed._DEFAULT_FIRST_BUCKET_BYTES  # separate limit of the first bucket
    distributed._DEFAULT_FIRST_BUCKET_BYTES = 2 * num_bytes
    try:
        ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=math.ceil(2 * num_bytes / 2**20))
    finally:
        distributed._DEFAULT_FIRST_BUCKET_BYTES = first_bucket_bytes
    ddp.register_comm_hook(powerSGD_hook.PowerSGDState(None, rank, POWERSGD_BEGINS), one_bucket_powersgd)
    return ddp


def one_bucket_powersgd(state, bucket):
    if bucket.index() != 0 or not bucket.is_last():
        raise RuntimeError("DDP has several buckets, and PowerSGD over Gloo needs a single one")
    return powerSGD_hook.powerSGD_hook(state, bucket)
