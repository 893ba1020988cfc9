"""The plan of an exchange: codec and message size of each tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class TensorPlan:
    """Codec and message size of one tensor."""

    name: str
    shape: tuple[int, ...]
    elements: int
    codec: str                   #: canonical spec, with all options
    bits_per_element: float      #: bits of the codes, without scalers and headers
    nbytes: int                  #: bytes in a message: record, scalers, codes; the maximum if the size is not fixed
    nbytes_as_fp32: int          #: bytes if sent as fp32
    fixed_size: bool
    unbiased: bool
    exact: bool
    summable: bool
    wants_error_feedback: bool
    shares_scalers: bool
    num_scalers: int
    per_tensor: bool             #: False: all tensors of the codec must be exchanged in one part
    draw_offset: int             #: draw index of the first element, for `ternarize`
    nbytes_kept: int = 0         #: bytes that each worker keeps of it from step to step (memory, without what all ranks keep alike)


class Plan(list[TensorPlan]):
    """List with a `TensorPlan` for each tensor, in order; `str` formats it as a table, with the cost of exempting tensors."""

    def __init__(self, tensors: Iterable[TensorPlan]) -> None:
        super().__init__(tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of one worker's message, without its header."""
        return sum(tensor.nbytes for tensor in self)

    @property
    def nbytes_kept(self) -> int:
        """Bytes that each worker keeps from step to step, without the copy of the gradient that is encoded."""
        return sum(tensor.nbytes_kept for tensor in self)

    def cost_of_exempting(self, names: Iterable[str]) -> float:
        """Relative growth of a message if these tensors are sent as fp32."""
        chosen = set(names)
        more = sum(tensor.nbytes_as_fp32 - tensor.nbytes for tensor in self if tensor.name in chosen)
        return more / self.nbytes if self.nbytes else 0.0

    def worth_exempting(self, at_most: float = 0.02) -> list[str]:
        """Names of compressed tensors that could be sent as fp32 cheaply: one-dimensional ones and the last layer's, which are
        small in most nets and sensitive in some (the authors of TernGrad do not compress the last layer). Takes the smallest
        first, as long as messages grow by at most the fraction `at_most`."""
        last_layer = self[-1].name.rpartition(".")[0] if self else ""
        candidates = [tensor for tensor in self if not tensor.exact and tensor.elements > 0 and (
            len(tensor.shape) <= 1 or (last_layer and tensor.name.rpartition(".")[0] == last_layer))]
        chosen: list[str] = []
        for tensor in sorted(candidates, key=lambda tensor: tensor.elements):
            if self.cost_of_exempting([*chosen, tensor.name]) > at_most:
                break
            chosen.append(tensor.name)
        return [tensor.name for tensor in self if tensor.name in chosen]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("tensor", "shape", "codec", "bits", "bytes", "kept")]
        rows += [(tensor.name, "x".join(map(str, tensor.shape)) or "-", tensor.codec.split(":")[0],
                  f"{tensor.bits_per_element:g}", f"{tensor.nbytes:,}", f"{tensor.nbytes_kept:,}") for tensor in self]
        rows.append(("all", "", "", "", f"{self.nbytes:,}", f"{self.nbytes_kept:,}"))
        if self.nbytes_kept == 0:
            rows = [row[:5] for row in rows]
        as_fp32 = sum(tensor.nbytes_as_fp32 for tensor in self)
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) if column > 2 else cell.ljust(width)
                           for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]
        if self.nbytes and as_fp32 != self.nbytes:
            lines[-1] += f"  (fp32: {as_fp32:,}, {as_fp32 / self.nbytes:.1f} times as many)"
        worth = self.worth_exempting()
        if worth:
            rules = ", ".join(f"{name!r}: 'fp32'" for name in worth[:4]) + (", ..." if len(worth) > 4 else "")
            lines.append(f"{len(worth)} small tensors (of one dimension, or of the last layer) as fp32 would add "
                         f"{100 * self.cost_of_exempting(worth):.2g} % of bytes: codec_for={{{rules}}}")
        return "\n".join(lines)
