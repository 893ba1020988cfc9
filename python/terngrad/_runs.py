"""Run directories of terngrad_train."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy
import numpy.typing

from terngrad import _core

Columns = dict[str, numpy.typing.NDArray[Any]]

# Types of safetensors files, as numpy names them; bfloat16, which it has not, as the upper half of float32.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4",
          "U8": "u1", "I8": "i1", "BOOL": "?"}


def _lines(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The records of a file; a half-written last line, of a run under way or killed, is no record yet."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise _core.DataError(f"{path}, line {number}, is damaged: {error}") from None


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(f"{prefix}/{key}" if prefix else key, member)
    else:
        yield prefix, value


def _columns(rows: list[dict[str, Any]]) -> Columns:
    """Rows as one array for each key: of float64 with NaN for what is missing or null, of text as objects."""
    names = dict.fromkeys(name for row in rows for name in row)
    result: Columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            result[name] = numpy.array(values, numpy.int64)
        elif any(isinstance(value, str) for value in values):
            result[name] = numpy.array(values, object)
        else:
            result[name] = numpy.array([numpy.nan if value is None else value for value in values], numpy.float64)
    return result


class Run:
    """A run directory, also of a run that is under way. Files are read when they are asked for.

    Columns are dictionaries of arrays of numpy, each as long as there are records: ``pandas.DataFrame(run.metrics())``
    makes a table of them.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        try:
            self.folder = pathlib.Path(folder)
        except TypeError:
            raise _core.InvalidArgument(f"folder must be a path, got {folder!r:.80}") from None
        if not (self.folder / "config.json").is_file():
            raise _core.DataError(f"{self.folder} is no run directory: it has no config.json")
        #: What config.json says: options, version, machine.
        self.config: dict[str, Any] = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        #: The options of the run, by name.
        self.options: dict[str, Any] = self.config["options"]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def metrics(self, kind: str = "train") -> Columns:
        """Columns of metrics.jsonl, one value for each record. @param kind  train: of the steps; test: of evaluations.
        Columns of members are called ``wire_bytes_per_worker/sent/gradient``"""
        return _columns([dict(_flat("", record)) for record in self._records() if record["kind"] == kind])

    def layers(self) -> Columns:
        """What compression did to each tensor, one value for each step and tensor: step, tensor, scaler, zero_fraction,
        snr_db, ... (docs/measuring.md). Runs with ``--telemetry_steps`` have them"""
        return _columns([{"step": record["step"], "tensor": tensor, **quantities}
                         for record in self._records() if record["kind"] == "tensors"
                         for tensor, quantities in record["tensors"].items()])

    def _records(self) -> Iterator[dict[str, Any]]:
        yield from _lines(self.folder / "metrics.jsonl")
        yield from _lines(self.folder / "eval" / "metrics.jsonl")

    def checkpoint_steps(self) -> list[int]:
        """The steps of which there are checkpoints, ascending."""
        return sorted(int(path.stem.split("-")[1]) for path in self.folder.glob("checkpoint-*.safetensors"))

    def checkpoint(self, step: int | None = None) -> dict[str, numpy.typing.NDArray[Any]]:
        """The tensors of a checkpoint by name (``parameters/conv1/weights``), as read-only views of the file.

        @param step  None: the last
        @raises DataError if there is none, or it is damaged
        """
        steps = self.checkpoint_steps()
        if step is None and steps:
            step = steps[-1]
        if step not in steps:
            raise _core.DataError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")
        return read_safetensors(self.folder / f"checkpoint-{step:010d}.safetensors")


def read_safetensors(path: pathlib.Path) -> dict[str, numpy.typing.NDArray[Any]]:
    """The tensors of a safetensors file, as views of a memory map. bfloat16 is widened to float32."""
    try:
        data = numpy.memmap(path, numpy.uint8, "r")
        size = int.from_bytes(bytes(data[:8]), "little")
        header = json.loads(bytes(data[8:8 + size]))
        tensors = {}
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            first, last = tensor["data_offsets"]
            array = data[8 + size + first:8 + size + last].view(_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
            if tensor["dtype"] == "BF16":
                array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
            tensors[name] = array
    except (ValueError, KeyError, TypeError) as error:
        raise _core.DataError(f"{path} is no safetensors file that can be read: {error}") from None
    return tensors


def read_run(folder: str | pathlib.Path) -> Run:
    """The run directory of a terngrad_train, as a `Run`. @raises DataError for a folder that is none"""
    return Run(folder)
