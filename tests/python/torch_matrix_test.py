"""The DistributedDataParallel hook against virtual workers: every codec with three bucket sizes and several options of
DDP. Skipped without PyTorch."""

import unittest

from ranks import run_ranks
from torch_test import run_bits

import terngrad

# (options of DDP, of the net)
WAYS = [({}, {}), ({"find_unused_parameters": True}, {"unused": True}), ({"static_graph": True}, {}),
        ({"gradient_as_bucket_view": True}, {"channels_last": True})]
SPECS = [*terngrad.codecs(), *terngrad.presets(), "ternary:sharing=none,levels=asymmetric", "qsgd:bits=4,sharing=max"]


class Matrix(unittest.TestCase):
    def check(self, num_ranks):
        cases = [({"codec": spec}, {"bucket_cap_mb": bucket_cap_mb, **ddp}, net)
                 for spec in SPECS for bucket_cap_mb in (25, 0.03, 0.001) for ddp, net in WAYS]
        run_ranks(self, num_ranks, run_bits, arguments=(cases,), seconds=400)

    def test_two_ranks(self):
        self.check(2)

    def test_three_ranks(self):
        self.check(3)


if __name__ == "__main__":
    unittest.main()
