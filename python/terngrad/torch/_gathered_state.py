"""The hook states of all ranks as one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terngrad import _core
from terngrad.torch._hook import CompressedAllReduceHook


class GatheredState:
    """A hook's state for frameworks that call state_dict on all ranks, save that of rank 0 and load it on all, as Accelerate:

        accelerator.register_for_checkpointing(terngrad.torch.GatheredState(state))
    """

    def __init__(self, state: CompressedAllReduceHook) -> None:
        if not isinstance(state, CompressedAllReduceHook):
            raise _core.InvalidArgument(f"GatheredState takes a CompressedAllReduceHook, got {type(state).__name__}")
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        """The state of all ranks on rank 0, an empty dictionary on the others. Collective: all ranks must call it."""
        return self._state.state_dict(gather=True) or {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores rank 0's `state_dict`. @raises InvalidArgument as the hook's `load_state_dict`, and for an empty state"""
        if not state:
            raise _core.InvalidArgument("the state is empty, as GatheredState gives it to ranks other than 0: load that of rank 0")
        self._state.load_state_dict(state)
