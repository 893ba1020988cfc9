"""Weights of PyTorch's nets (torchvision) as checkpoints of terngrad_train, and back.

    terngrad_checkpoint import resnet18.pth --net resnet_18 --output resnet18.safetensors
    terngrad_train --net resnet_18 --dataset imagenet --init_from resnet18.safetensors --fine_tune ...
    terngrad_checkpoint export runs/x/checkpoint-0000001000.safetensors --output trained.pth

The command comes with the package; ``python -m terngrad.checkpoint`` is the same. Files that end in .pth or .pt are a ``state_dict`` as torch.save writes it, and need PyTorch; .safetensors files do not.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy
import numpy.typing

from terngrad import _core
from terngrad._runs import read_safetensors, write_safetensors

Tensors = dict[str, numpy.typing.NDArray[Any]]

# Groups of a checkpoint that hold parameters, and the state of the net: those of averages, and of the raw weights.
_PARAMETER_GROUPS = ("ema", "parameters")
_STATE_GROUPS = ("ema_state", "state/worker-0000")
# Tensors of a state_dict that nets here do not have: auxiliary classifiers of GoogLeNet, counters of batch norms.
_LEFT_OUT = ("aux1.", "aux2.")
_COUNTER = ".num_batches_tracked"
# Logit of the class 0 that --background adds.
_BACKGROUND_LOGIT = -1e4


class _Layer(NamedTuple):
    """A layer with tensors. `map_channels`: channels of the map that a fully connected layer flattens; else 0."""

    ours: str
    theirs: str
    is_norm: bool = False
    has_biases: bool = True
    map_channels: int = 0


def _normalized(ours: str, theirs: str) -> Iterator[_Layer]:
    """torchvision's BasicConv2d."""
    yield _Layer(ours, f"{theirs}.conv", has_biases=False)
    yield _Layer(f"{ours}_norm", f"{theirs}.bn", is_norm=True)


def _resnet(units: tuple[int, ...], num_convolutions: int) -> Iterator[_Layer]:
    def pair(ours: str, norm: str, theirs: str, their_norm: str) -> Iterator[_Layer]:
        yield _Layer(ours, theirs, has_biases=False)
        yield _Layer(norm, their_norm, is_norm=True)

    yield from pair("conv1", "norm1", "conv1", "bn1")
    for stage, count in enumerate(units, 1):
        for unit in range(count):
            ours, theirs = f"stage{stage}_unit{unit + 1}_", f"layer{stage}.{unit}."
            for i in range(1, num_convolutions + 1):
                yield from pair(f"{ours}conv{i}", f"{ours}norm{i}", f"{theirs}conv{i}", f"{theirs}bn{i}")
            if unit == 0 and (stage > 1 or num_convolutions == 3):
                yield from pair(f"{ours}shortcut", f"{ours}shortcut_norm", f"{theirs}downsample.0", f"{theirs}downsample.1")
    yield _Layer("logits", "fc")


def _sequential(blocks: list[list[str]], classifier: tuple[int, int, int], map_channels: int) -> Iterator[_Layer]:
    """Convolutions with ReLUs, a pool after each block, three fully connected layers. `classifier`: their places."""
    place = 0
    for block in blocks:
        for name in block:
            yield _Layer(name, f"features.{place}")
            place += 2
        place += 1
    for name, index in zip(("fc6", "fc7", "logits"), classifier):
        yield _Layer(name, f"classifier.{index}", map_channels=map_channels if name == "fc6" else 0)


def _googlenet() -> Iterator[_Layer]:
    for ours, theirs in (("conv1", "conv1"), ("conv2_1x1", "conv2"), ("conv2_3x3", "conv3")):
        yield from _normalized(ours, theirs)
    branches = (("0_1x1", "1"), ("1_1x1", "2.0"), ("1_3x3", "2.1"), ("2_1x1", "3.0"), ("2_3x3", "3.1"), ("3_1x1", "4.1"))
    for stage, blocks in ((3, "bc"), (4, "bcdef"), (5, "bc")):
        for block in blocks:
            for ours, theirs in branches:  # torchvision counts from a
                yield from _normalized(f"mixed_{stage}{block}_branch{ours}", f"inception{stage}{chr(ord(block) - 1)}.branch{theirs}")
    yield _Layer("logits", "fc")


# Names of torchvision's convolutions in a block of Inception v3, in the order of our branches and their places.
_BLOCK_35 = {"branch0_0": "1x1", "branch1_0": "5x5_1", "branch1_1": "5x5_2", "branch2_0": "3x3dbl_1", "branch2_1": "3x3dbl_2",
             "branch2_2": "3x3dbl_3", "branch3_0": "_pool"}
_BLOCK_17 = {"branch0_0": "1x1", "branch1_0": "7x7_1", "branch1_1": "7x7_2", "branch1_2": "7x7_3", "branch2_0": "7x7dbl_1",
             "branch2_1": "7x7dbl_2", "branch2_2": "7x7dbl_3", "branch2_3": "7x7dbl_4", "branch2_4": "7x7dbl_5", "branch3_0": "_pool"}
_BLOCK_8 = {"branch0_0": "1x1", "branch1_0": "3x3_1", "branch1_row": "3x3_2a", "branch1_column": "3x3_2b", "branch2_0": "3x3dbl_1",
            "branch2_1": "3x3dbl_2", "branch2_row": "3x3dbl_3a", "branch2_column": "3x3dbl_3b", "branch3_0": "_pool"}
_INCEPTION_BLOCKS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("mixed_35a", "Mixed_5b", _BLOCK_35), ("mixed_35b", "Mixed_5c", _BLOCK_35), ("mixed_35c", "Mixed_5d", _BLOCK_35),
    ("mixed_17a", "Mixed_6a", {"branch0_0": "3x3", "branch1_0": "3x3dbl_1", "branch1_1": "3x3dbl_2", "branch1_2": "3x3dbl_3"}),
    ("mixed_17b", "Mixed_6b", _BLOCK_17), ("mixed_17c", "Mixed_6c", _BLOCK_17), ("mixed_17d", "Mixed_6d", _BLOCK_17),
    ("mixed_17e", "Mixed_6e", _BLOCK_17), ("auxiliary", "AuxLogits", {}),
    ("mixed_8a", "Mixed_7a", {"branch0_0": "3x3_1", "branch0_1": "3x3_2", "branch1_0": "7x7x3_1", "branch1_1": "7x7x3_2",
                              "branch1_2": "7x7x3_3", "branch1_3": "7x7x3_4"}),
    ("mixed_8b", "Mixed_7b", _BLOCK_8), ("mixed_8c", "Mixed_7c", _BLOCK_8))


def _inception_v3() -> Iterator[_Layer]:
    for place, theirs in enumerate(("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")):
        yield from _normalized(f"conv{place}", f"Conv2d_{theirs}")
    for block, module, convolutions in _INCEPTION_BLOCKS:
        if block == "auxiliary":
            yield from _normalized("auxiliary_1x1", f"{module}.conv0")
            yield from _normalized("auxiliary_whole", f"{module}.conv1")
            yield _Layer("auxiliary_logits", f"{module}.fc")
        for ours, theirs in convolutions.items():
            yield from _normalized(f"{block}_{ours}", f"{module}.branch{theirs}")
    yield _Layer("logits", "fc")


_NETS: dict[str, list[_Layer]] = {
    "resnet_18": list(_resnet((2, 2, 2, 2), 2)),
    "resnet_50": list(_resnet((3, 4, 6, 3), 3)),
    "torchvision_alexnet": list(_sequential([["conv1"], ["conv2"], ["conv3", "conv4", "conv5"]], (1, 4, 6), 256)),
    "torchvision_googlenet": list(_googlenet()),
    "torchvision_inception_v3": list(_inception_v3()),
    "torchvision_vgg_16": list(_sequential([[f"conv{block}_{i}" for i in range(1, count + 1)]
                                            for block, count in enumerate((2, 2, 3, 3, 3), 1)], (0, 3, 6), 512)),
}


# Parameters besides those of logits layers, for the usual images.
_NUM_ELEMENTS = {"resnet_18": 11_176_512, "resnet_50": 23_508_032, "torchvision_alexnet": 57_003_840,
                 "torchvision_googlenet": 5_599_904, "torchvision_inception_v3": 24_343_264, "torchvision_vgg_16": 134_260_544}


def nets() -> list[str]:
    """Names of the nets whose weights can be imported and exported."""
    return list(_NETS)


def _layers_of(net: str) -> list[_Layer]:
    if net not in _NETS:
        raise _core.InvalidArgument(f"net must be one of {', '.join(_NETS)}, got {net!r}")
    return _NETS[net]


def _pairs(layers: list[_Layer]) -> Iterator[tuple[str, str, _Layer, bool]]:
    """(our tensor, their tensor, layer, True if it is state), in the order of our layouts."""
    for layer in layers:
        if layer.is_norm:
            yield f"{layer.ours}/beta", f"{layer.theirs}.bias", layer, False
            yield f"{layer.ours}/gamma", f"{layer.theirs}.weight", layer, False
            yield f"{layer.ours}/moving_mean", f"{layer.theirs}.running_mean", layer, True
            yield f"{layer.ours}/moving_variance", f"{layer.theirs}.running_var", layer, True
        else:
            yield f"{layer.ours}/weights", f"{layer.theirs}.weight", layer, False
            if layer.has_biases:
                yield f"{layer.ours}/biases", f"{layer.theirs}.bias", layer, False


def _to_ours(values: numpy.typing.NDArray[Any], layer: _Layer) -> numpy.typing.NDArray[Any]:
    """[out, in, rows, columns] to [rows, columns, in, out], [out, in] to [in, out]; a flattened map's channels become the last
    of its axes."""
    if layer.map_channels and values.ndim == 2:
        side = math.isqrt(values.shape[1] // layer.map_channels)
        if side * side * layer.map_channels != values.shape[1]:
            raise _core.InvalidArgument(f"tensor '{layer.theirs}.weight' has {values.shape[1]} inputs, expected a square map of "
                                        f"{layer.map_channels} channels")
        values = values.reshape(-1, layer.map_channels, side, side).transpose(0, 2, 3, 1).reshape(values.shape)
    return values.transpose(2, 3, 1, 0) if values.ndim == 4 else values.T


def _to_theirs(values: numpy.typing.NDArray[Any], layer: _Layer) -> numpy.typing.NDArray[Any]:
    """The inverse of _to_ours."""
    values = values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T
    if layer.map_channels and values.ndim == 2:
        side = math.isqrt(values.shape[1] // layer.map_channels)
        values = values.reshape(-1, side, side, layer.map_channels).transpose(0, 3, 1, 2).reshape(values.shape)
    return values


def from_state_dict(state_dict: Mapping[str, Any], net: str, background: bool = False) -> tuple[Tensors, Tensors]:
    """The parameters and the state of a net here, by name, from a torchvision net's ``state_dict``.

    :param state_dict: tensors of PyTorch or arrays of numpy by name; a prefix ``module.`` of all names is removed
    :param net: one of `nets()`
    :param background: adds class 0, which no image has, before the others: nets for ImageNet have 1001 classes here
    :raises InvalidArgument: for an unknown net, or naming a tensor that is missing, superfluous or not float32
    """
    prefix = "module." if state_dict and all(name.startswith("module.") for name in state_dict) else ""
    left = {name.removeprefix(prefix): value for name, value in state_dict.items()}
    parameters: Tensors = {}
    state: Tensors = {}
    num_elements = 0
    for ours, theirs, layer, is_state in _pairs(_layers_of(net)):
        if theirs not in left:
            raise _core.InvalidArgument(f"the state_dict has no tensor {theirs!r}, which {net} needs")
        values = _to_ours(_array(theirs, left.pop(theirs)), layer)
        if not is_state and not layer.ours.endswith("logits"):
            num_elements += values.size
        if background and layer.ours.endswith("logits"):
            first = numpy.full((*values.shape[:-1], 1), _BACKGROUND_LOGIT if values.ndim == 1 else 0, numpy.float32)
            values = numpy.concatenate([first, values], axis=-1)
        (state if is_state else parameters)[ours] = numpy.ascontiguousarray(values)
        if ours.endswith("/moving_variance"):
            # The weight of the values: 1 after many steps.
            state[f"{layer.ours}/moving_weight"] = numpy.ones(1, numpy.float32)
    superfluous = [name for name in left if not name.startswith(_LEFT_OUT) and not name.endswith(_COUNTER)]
    if superfluous:
        raise _core.InvalidArgument(f"the state_dict has tensor {superfluous[0]!r}, which {net} does not have")
    if num_elements != _NUM_ELEMENTS[net]:
        raise _core.InvalidArgument(f"the state_dict has {num_elements} parameters besides the logits, {net} has "
                                    f"{_NUM_ELEMENTS[net]}: it is of another net with the same names")
    return parameters, state


def to_state_dict(parameters: Mapping[str, Any], state: Mapping[str, Any], net: str, background: bool = False) -> Tensors:
    """The inverse of `from_state_dict`: arrays for ``load_state_dict`` of torchvision's net, once they are tensors.

    :raises InvalidArgument: for an unknown net, or naming a tensor that is missing
    """
    result: Tensors = {}
    for ours, theirs, layer, is_state in _pairs(_layers_of(net)):
        values = (state if is_state else parameters).get(ours)
        if values is None:
            raise _core.InvalidArgument(f"the checkpoint has no tensor {ours!r} of {net}")
        if background and layer.ours.endswith("logits"):
            values = values[..., 1:]
        result[theirs] = numpy.array(_to_theirs(values, layer), order="C")  # a copy, which may be written to
    return result


def _fingerprint(parameters: Tensors) -> int:
    """Layout::fingerprint (kernels/tensor/layout.cpp): FNV-1a over the tensors' names and shapes, in order."""
    value = 0xcbf29ce484222325

    def add(data: bytes) -> None:
        nonlocal value
        for byte in data:
            value = (value ^ byte) * 0x100000001b3 % 2**64

    def add_number(number: int) -> None:
        add(number.to_bytes(8, "little"))

    add_number(len(parameters))
    for name, values in parameters.items():
        add_number(len(name))
        add(name.encode())
        for number in (values.ndim, *values.shape, int(name.startswith("logits/"))):
            add_number(number)
    return value


def _read_state_dict(path: pathlib.Path) -> Mapping[str, Any]:
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    try:
        import torch
    except ImportError:
        raise _core.NotSupported(f"{path}: reading it needs PyTorch; a .safetensors file does not") from None
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise _core.DataError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # whatever a damaged or foreign file raises
        raise _core.DataError(f"{path} is no state_dict as torch.save writes it: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    loaded = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else {}
    if not loaded or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise _core.DataError(f"{path} has no state_dict: expected tensors by name")
    return dict(loaded)


def _array(name: str, value: Any) -> numpy.typing.NDArray[Any]:
    """A float32 tensor of PyTorch, on any device, or an array. @raises InvalidArgument for another type"""
    kind = str(getattr(value, "dtype", type(value))).removeprefix("torch.")
    if kind != "float32":
        raise _core.InvalidArgument(f"tensor {name!r} must be of float32, is of {kind}")
    return numpy.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def import_weights(source: pathlib.Path, output: pathlib.Path, net: str, *, background: bool = False,
                   dataset: str = "imagenet") -> None:
    """Makes a checkpoint of step 0 from a ``state_dict``, for ``--init_from`` and ``terngrad_eval --checkpoint``.

    :param source: .pth, .pt or .safetensors
    :param background: see `from_state_dict`
    :param dataset: the data set that terngrad_eval takes by default
    :raises InvalidArgument: see `from_state_dict`
    :raises DataError: for a file that cannot be read or written
    """
    parameters, state = from_state_dict(_read_state_dict(source), net, background)
    # torchvision's GoogLeNet and Inception v3 take pixels from -1 to 1.
    preprocessing = "standard" if net in ("torchvision_googlenet", "torchvision_inception_v3") else "torchvision"
    metadata = {"format_version": "1", "step": "0", "net": net, "layout_fingerprint": f"{_fingerprint(parameters):016x}",
                "optimizer": "none", "num_workers": "1", "seed": "0", "dataset": dataset,
                "image_size": "299" if net == "torchvision_inception_v3" else "224",
                "preprocessing": preprocessing if dataset in ("imagenet", "records", "flowers") else "auto"}
    if dataset == "imagenet" and not background:
        metadata["label_offset"] = "-1"  # its labels are from 1
    groups = {group: parameters for group in _PARAMETER_GROUPS} | ({group: state for group in _STATE_GROUPS} if state else {})
    write_safetensors(output, {f"{group}/{name}": values for group, tensors in groups.items() for name, values in tensors.items()},
                      metadata)


def export_weights(source: pathlib.Path, output: pathlib.Path, *, background: bool = False, averaged: bool = True) -> None:
    """Writes the weights of a checkpoint as a ``state_dict`` of torchvision's net.

    :param output: .pth, .pt or .safetensors
    :param background: leaves class 0 out
    :param averaged: the averaged weights, else the raw ones with the statistics of worker 0
    :raises InvalidArgument: for a net that torchvision does not have
    :raises DataError: for a file that cannot be read or written
    """
    tensors, metadata, checksum = read_safetensors(source)
    if metadata.get("checksum") != checksum:
        raise _core.DataError(f"{source} is no intact checkpoint: its checksum is {metadata.get('checksum')}, its content has "
                              f"{checksum}")

    def group(prefix: str) -> Tensors:
        return {name.removeprefix(f"{prefix}/"): values for name, values in tensors.items() if name.startswith(f"{prefix}/")}

    which = 0 if averaged else 1
    state_dict = to_state_dict(group(_PARAMETER_GROUPS[which]), group(_STATE_GROUPS[which]), metadata["net"], background)
    if output.suffix == ".safetensors":
        write_safetensors(output, state_dict, {"format": "pt"}, has_checksum=False)
        return
    try:
        import torch
    except ImportError:
        raise _core.NotSupported(f"{output}: writing it needs PyTorch; a .safetensors file does not") from None
    torch.save({name: torch.from_numpy(values) for name, values in state_dict.items()}, output)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="terngrad_checkpoint", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    importing = commands.add_parser("import", help="makes a checkpoint of a state_dict")
    exporting = commands.add_parser("export", help="makes a state_dict of a checkpoint")
    for command, suffixes in ((importing, ".safetensors"), (exporting, ".pth, .pt or .safetensors")):
        command.add_argument("source", type=pathlib.Path)
        command.add_argument("--output", type=pathlib.Path, required=True, help=f"file to write: {suffixes}")
    importing.add_argument("--net", choices=nets(), required=True)
    importing.add_argument("--background", action="store_true", help="add class 0, which no image has: 1001 classes for 1000")
    importing.add_argument("--dataset", default="imagenet", help="data set that terngrad_eval takes (default: imagenet)")
    exporting.add_argument("--background", action="store_true", help="leave class 0 out: 1000 classes for 1001")
    exporting.add_argument("--raw", action="store_true", help="the raw weights, not the averaged ones")
    options = parser.parse_args(arguments)
    accepted = (".safetensors",) if options.command == "import" else (".safetensors", ".pth", ".pt")
    if options.output.suffix not in accepted:
        parser.error(f"--output {options.output}: must end in {' or '.join(accepted)}")
    try:
        if options.command == "import":
            import_weights(options.source, options.output, options.net, background=options.background, dataset=options.dataset)
        else:
            export_weights(options.source, options.output, background=options.background, averaged=not options.raw)
    except (_core.Error, OSError) as error:
        print(f"terngrad_checkpoint: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
