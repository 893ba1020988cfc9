"""Run directories of terngrad_train."""

from __future__ import annotations

import json
import operator
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy
import numpy.typing

from terngrad import _core

Columns = dict[str, numpy.typing.NDArray[Any]]

# safetensors types as numpy types; bfloat16, which numpy lacks, is read as uint16: the upper half of a float32.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4",
          "U8": "u1", "I8": "i1", "BOOL": "?"}


# Exceptions that json.loads, and code that reads its result, raise for a damaged file.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def _lines(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The records of a metrics file. An incomplete last line, as of a run in progress or killed, is ignored. @raises DataError"""
    if not path.exists():
        return
    for number, line in enumerate(_bytes(path).split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
            record["kind"].encode()
            for name, value in _flat("", record):
                # Only values that fit a numpy column: text, null, floats, 64-bit integers.
                if not isinstance(value, (int, float, str, type(None))) or (isinstance(value, int) and not -2**63 <= value < 2**63):
                    raise ValueError(f"{name} is {value!r:.40}")
            for quantities in record["tensors"].values() if record["kind"] == "tensors" else ():
                quantities.items(), record["step"]
        except _DAMAGE as error:
            raise _core.DataError(f"{path}, line {number}, is damaged: {error}") from None
        yield record


def _bytes(path: pathlib.Path) -> bytes:
    """The content of a file. @raises DataError"""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _core.DataError(f"{path} cannot be read: {error.strerror}") from None


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(f"{prefix}/{key}" if prefix else key, member)
    else:
        yield prefix, value


def _columns(rows: list[dict[str, Any]]) -> Columns:
    """One array per key: int64 if every row has an integer, objects for text, else float64 with NaN for missing or null."""
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
    """A run directory, also of a run in progress. Each method reads its files when it is called.

    Columns are {name: numpy array}, with one element per record: ``pandas.DataFrame(run.metrics())`` makes a table.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        try:
            self.folder = pathlib.Path(folder)
        except TypeError:
            raise _core.InvalidArgument(f"folder must be a path, got {folder!r:.80}") from None
        path = self.folder / "config.json"
        if not path.is_file():
            raise _core.DataError(f"{self.folder} is no run directory: it has no config.json")
        try:
            #: Content of config.json: options, version, machine.
            self.config: dict[str, Any] = json.loads(_bytes(path))
            #: The options of the run, by name.
            self.options: dict[str, Any] = dict(self.config["options"])
        except _DAMAGE as error:
            raise _core.DataError(f"{path} is damaged: {error}") from None

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def metrics(self, kind: str = "train") -> Columns:
        """Columns of metrics.jsonl, one element per record. @param kind  train: training steps; test: evaluations.
        Nested values have names such as ``wire_bytes_per_worker/sent/gradient``"""
        return _columns([dict(_flat("", record)) for record in self._records() if record["kind"] == kind])

    def layers(self) -> Columns:
        """Compression telemetry, one element per step and tensor: step, tensor, scaler, zero_fraction, snr_db, ...
        (docs/measuring.md). Empty for runs without ``--telemetry_steps``"""
        return _columns([{"step": record["step"], "tensor": tensor, **quantities}
                         for record in self._records() if record["kind"] == "tensors"
                         for tensor, quantities in record["tensors"].items()])

    def _records(self) -> Iterator[dict[str, Any]]:
        yield from _lines(self.folder / "metrics.jsonl")
        yield from _lines(self.folder / "eval" / "metrics.jsonl")

    def checkpoint_steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        found = (re.fullmatch(r"checkpoint-(\d{10})", path.stem) for path in self.folder.glob("checkpoint-*.safetensors"))
        return sorted(int(match[1]) for match in found if match)

    def checkpoint(self, step: int | None = None) -> dict[str, numpy.typing.NDArray[Any]]:
        """The tensors of a checkpoint by name (``parameters/conv1/weights``), as read-only views of the file.

        @param step  None: the last checkpoint
        @raises DataError if it does not exist or is damaged (its checksum is verified); NotSupported without xxhash
        """
        steps = self.checkpoint_steps()
        if step is None and steps:
            step = steps[-1]
        if step not in steps:
            raise _core.DataError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")
        path = self.folder / f"checkpoint-{step:010d}.safetensors"
        tensors, metadata, checksum = read_safetensors(path)
        if metadata.get("checksum") != checksum:
            raise _core.DataError(f"{path} is damaged: its checksum is {metadata.get('checksum')}, its content has {checksum}")
        return tensors


class _Checksum:
    """The checksum of a checkpoint: of its metadata, then of its tensors in order of names. @raises NotSupported without xxhash"""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        try:
            import xxhash  # only needed for checkpoints
        except ImportError:
            raise _core.NotSupported("reading checkpoints needs xxhash: pip install terngrad[checkpoints]") from None
        self.hash = xxhash.xxh64()
        for key in sorted(metadata, key=str.encode):
            if key != "checksum":
                self._add_text(key)
                self._add_text(metadata[key])

    def _add_text(self, text: str) -> None:
        encoded = text.encode()
        self.hash.update(len(encoded).to_bytes(8, "little") + encoded)

    def add(self, name: str, kind: str, shape: Iterable[int], content: Any) -> None:
        self._add_text(name)
        self._add_text(kind)
        self.hash.update(b"".join(number.to_bytes(8, "little") for number in (len(tuple(shape)), *shape)))
        self.hash.update(content)

    def text(self) -> str:
        return str(self.hash.hexdigest())


def read_safetensors(path: pathlib.Path) -> tuple[dict[str, numpy.typing.NDArray[Any]], dict[str, str], str]:
    """The tensors of a safetensors file as views of a memory map, its metadata, and the checksum of both, computed as checkpoints
    do. bfloat16 is widened to float32. @raises DataError for an unreadable file, NotSupported without xxhash"""
    try:
        data = numpy.memmap(path, numpy.uint8, "r")
        size = int.from_bytes(bytes(data[:8]), "little")
        header = json.loads(bytes(data[8:8 + size]))
        content = data[8 + size:]
        metadata = dict(header.pop("__metadata__", {}))
        checksum = _Checksum(metadata)
        tensors, covered = {}, 0
        for name in sorted(header, key=str.encode):
            kind, shape, (first, last) = (header[name][field] for field in ("dtype", "shape", "data_offsets"))
            if not 0 <= first <= last <= len(content):
                raise ValueError(f"tensor '{name}' lies outside of the file")
            array = content[first:last].view(_TYPES[kind]).reshape(tuple(map(operator.index, shape)))
            covered += last - first
            checksum.add(name, kind, shape, content[first:last].data)
            tensors[name] = (array.astype(numpy.uint32) << 16).view(numpy.float32) if kind == "BF16" else array
        if covered != len(content):
            raise ValueError(f"its tensors have {covered} bytes, it has {len(content)}")
    except OSError as error:
        raise _core.DataError(f"{path} cannot be read: {error.strerror}") from None
    except _DAMAGE as error:
        raise _core.DataError(f"{path} is no safetensors file that can be read: {error}") from None
    return tensors, metadata, checksum.text()


def write_safetensors(path: pathlib.Path, tensors: Mapping[str, numpy.typing.NDArray[Any]], metadata: Mapping[str, str],
                      has_checksum: bool = True) -> None:
    """Writes contiguous float32 tensors and metadata, with the checksum of a checkpoint if `has_checksum`.

    @raises DataError if it cannot be written, NotSupported without xxhash"""
    names = sorted(tensors, key=str.encode)
    if has_checksum:
        checksum = _Checksum(metadata)
        for name in names:
            checksum.add(name, "F32", tensors[name].shape, tensors[name].data)
        metadata = {**metadata, "checksum": checksum.text()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        header[name] = {"dtype": "F32", "shape": tensors[name].shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in names:
                file.write(tensors[name].data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _core.DataError(f"{path} cannot be written: {error.strerror}") from None


def read_run(folder: str | pathlib.Path) -> Run:
    """The run directory `folder` of terngrad_train as a `Run`. @raises DataError if `folder` is not a run directory"""
    return Run(folder)
