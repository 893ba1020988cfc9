#!/usr/bin/env python3
"""Decodes messages between workers (docs/wire-format.md), as terngrad_train --dump_messages writes them.

    terngrad_train --grad_bits 1 --num_nodes 2 --max_steps 2 --dump_messages messages --dump_steps 2
    scripts/read_messages.py messages
    scripts/read_messages.py messages/step-000000-rank-0-0002-gradient-worker-0.msg --npy decoded

Prints the header of each message, whose checksums are checked, and for each slice its tensor, codec, scalers, fraction of zeros and
first elements. Names of tensors and options of codecs are those of layout.json in the message's folder; without it slices are not
decoded. A damaged message is named on stderr, and the exit code is 1 then. Needs the Python package (pip install .).
"""

import argparse
import functools
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "common"))
import missing_package

np = terngrad = None  # imported after parsing arguments


@functools.cache
def layouts_of(folder):
    """({fingerprint: tensors}, number of workers)"""
    path = folder / "layout.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content.get("layouts", {}), content.get("num_workers", 1)


def elements_of(data, index, record, tensors, num_workers, seed):
    """Decodes a record to fp32 [count]; None for an unknown layout, and for scalers, sums and votes."""
    if not tensors or record.code_bytes == 0:
        return None
    tensor = tensors[record.tensor]
    options = dict(item.split("=") for item in tensor["options"].split() if not item.startswith("workers="))
    codec = terngrad.Codec(tensor["codec"], num_workers=num_workers, **options)
    try:
        return codec.decode_record(data, index, {each["name"]: each["shape"] for each in tensors}, seed=seed)
    except terngrad.NotSupported:
        return None


def slice_text(record, tensors, elements):
    name = f" {tensors[record.tensor]['name']} {tensors[record.tensor]['shape']}" if tensors else ""
    scalers = (f"scaler {record.scalers[0]:.6g}" if len(record.scalers) == 1 else
               f"{len(record.scalers)} scalers" + (f" up to {max(record.scalers):.6g}" if record.scalers else ""))
    text = (f"tensor {record.tensor}{name}, {record.count} elements from {record.first}: {record.codec} format {record.format}, "
            f"{record.code_bytes} bytes, {scalers}")
    if elements is not None and len(elements) > 0:
        text += f", {100 * np.mean(elements == 0):.2f} % zeros: {' '.join(f'{x:.6g}' for x in elements[:8])}"
    return text


def show(path, options):
    data = path.read_bytes()
    info = terngrad.inspect(data)
    layouts, num_workers = layouts_of(path.parent)
    tensors = layouts.get(f"{info.fingerprint:016x}")
    print(f"{path}\n  {info.kind} of worker {info.worker}, step {info.step}: {info.nbytes} bytes, run {info.run_id:016x}")
    for index, record in enumerate(info.records):
        elements = elements_of(data, index, record, tensors, num_workers, options.seed)
        print(f"  {slice_text(record, tensors, elements)}")
        if options.npy and elements is not None:
            options.npy.mkdir(parents=True, exist_ok=True)
            np.save(options.npy / f"{path.stem}-tensor-{record.tensor}-from-{record.first}.npy", elements)


def main():
    global np, terngrad
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FILE|FOLDER", help="messages, or folders with *.msg")
    parser.add_argument("--npy", type=pathlib.Path, metavar="FOLDER",
                        help="write the elements of each slice there, in fp32: MESSAGE-tensor-T-from-FIRST.npy")
    parser.add_argument("--seed", type=int, default=1, help="of the run; looked at for codecs that rotate (default: 1)")
    options = parser.parse_args()
    files = [file for path in options.paths for file in (sorted(path.glob("*.msg")) if path.is_dir() else [path])]
    if not files:
        parser.error(f"{options.paths[0]} has no messages (*.msg)")
    try:
        import numpy as np
        import terngrad
    except ImportError as missing:
        sys.exit(f"read_messages.py: {missing_package.hint(missing)}")
    exit_code = 0
    for path in files:
        try:
            show(path, options)
        except (terngrad.Error, OSError) as error:
            print(f"read_messages.py: {path}: {error}", file=sys.stderr)
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has closed the pipe
        sys.exit(141)
