#!/usr/bin/env python3
"""Decodes messages between workers (docs/wire-format.md), as terngrad_train --dump_messages writes them.

    terngrad_train --grad_bits 1 --num_nodes 2 --max_steps 2 --dump_messages messages --dump_steps 2
    scripts/read_messages.py messages
    scripts/read_messages.py messages/step-000000-rank-0-0002-gradient-worker-0.msg --npy decoded

Prints the header of each message, both checksums of which are checked, and for each slice its tensor, codec, count, scalers,
fraction of zeros and first codes (of fp32 and bf16: first elements). Names of tensors, the number of workers and block sizes
are those of layout.json in the message's folder; without it tensors are numbered. A damaged message is named on stderr, and
the exit code is 1 then. Needs numpy (Debian and Ubuntu: python3-numpy).
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "common"))
import missing_package

np = wire_format = None  # imported once the arguments are read


class Layouts:
    """What messages do not say: the tensors of each fingerprint, and the number of workers."""

    def __init__(self, folder, num_workers):
        content = {}
        if (folder / "layout.json").exists():
            content = json.loads((folder / "layout.json").read_text(encoding="utf-8"))
        self.layouts = content.get("layouts", {})
        self.num_workers = num_workers or content.get("num_workers")

    def tensor(self, message, record):
        """{} where it is not known."""
        tensors = self.layouts.get(f"{message.fingerprint:016x}", [])
        return tensors[record.segment] if record.segment < len(tensors) else {}

    def block_size(self, message, record):
        return self.option(message, record, "block")

    def levels(self, message, record):
        """L of the codes from -L to L that lanes are sums of."""
        bits = self.option(message, record, "bits")
        return 2 ** (bits - 1) - 1 if bits else 1

    def is_asymmetric(self, message, record):
        """Whether the tensor's ternary codes have a scaler for each sign, which means do not."""
        options = self.tensor(message, record).get("options", "").split()
        return record.codec == 3 and "levels=asymmetric" in options

    def values(self, message, record):
        return record.values(self.num_workers, self.block_size(message, record), self.levels(message, record),
                             self.is_asymmetric(message, record), self.options(message, record))

    def codes(self, message, record):
        return record.codes(self.num_workers, self.levels(message, record), self.options(message, record))

    def options(self, message, record):
        """The options text of the tensor's codec."""
        return self.tensor(message, record).get("options", "")

    def option(self, message, record, key):
        """A whole number among the options of the tensor's codec; None where there is none."""
        match = re.search(rf"\b{key}=(\d+)", self.tensor(message, record).get("options", ""))
        return int(match.group(1)) if match else None


def number(value):
    return f"{value:.6g}"


def scalers_text(scalers):
    if len(scalers) == 0:
        return "no scaler"
    if len(scalers) == 1:
        return f"scaler {number(scalers[0])}"
    return f"{len(scalers)} scalers from {number(scalers.min())} to {number(scalers.max())}"


def flag_text(flags):
    return "no flag" if len(flags) == 0 else "not finite" if np.isnan(flags[0]) else "finite"


def tensor_text(tensor, record):
    shape = "x".join(str(extent) for extent in tensor.get("shape", []))
    name = f" {tensor['name']} [{shape}]" if tensor else ""
    elements = f"elements {record.first} to {record.first + record.count - 1}" if record.count else "no elements"
    scalers = flag_text(record.scalers) if record.is_flag() else scalers_text(record.scalers)
    return f"segment {record.segment}{name}, {elements}: {record.codec_name()}, {scalers}"


def codes_text(codes, num_codes):
    if len(codes) == 0:
        return ""
    shown = " ".join(number(code) for code in codes[:num_codes])
    more = " ..." if len(codes) > num_codes else ""
    return f", {100 * np.mean(codes == 0):.2f} % zeros: {shown}{more}"


def header_text(message):
    whose = {3: "shard", 10: "workers from"}.get(message.kind, "worker")
    return (f"{message.kind_name()} of {whose} {message.worker}, step {message.step}: {message.num_bytes} bytes, run "
            f"{message.run_id:016x}, fingerprint {message.fingerprint:016x}, checksums right")


def write_values(folder, path, message, layouts):
    folder.mkdir(parents=True, exist_ok=True)
    for record in message.records:
        if len(record.payload) == 0:
            continue
        np.save(folder / f"{path.stem}-segment-{record.segment}-from-{record.first}.npy", layouts.values(message, record))


def show(path, options):
    layouts = Layouts(path.parent, options.num_nodes)
    message = wire_format.read_message(path.read_bytes())
    print(f"{path}\n  {header_text(message)}")
    for record in message.records:
        line = tensor_text(layouts.tensor(message, record), record)
        if len(record.payload) > 0:
            line += codes_text(layouts.codes(message, record), options.codes)
        print(f"  {line}")
    if options.npy:
        write_values(options.npy, path, message, layouts)


def messages_of(paths, parser):
    """Files as they are, of folders their messages in order of steps, ranks and sending."""
    for path in paths:
        if path.is_dir():
            files = sorted(path.glob("*.msg"))
            if not files:
                parser.error(f"{path} has no messages (*.msg)")
            yield from files
        elif path.is_file():
            yield path
        else:
            parser.error(f"{path}: no such file or folder")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FILE|FOLDER", help="messages, or folders with *.msg")
    parser.add_argument("--npy", type=pathlib.Path, metavar="FOLDER",
                        help="write the decoded values of each slice there, in fp32: MESSAGE-segment-S-from-FIRST.npy")
    parser.add_argument("--codes", type=int, default=16, help="first codes to print of each slice (default 16)")
    parser.add_argument("--num_nodes", type=int, help="workers of the run, which lanes need where there is no layout.json")
    options = parser.parse_args()
    if options.codes < 0:
        parser.error(f"--codes {options.codes}: expected 0 or more")
    if options.num_nodes is not None and options.num_nodes < 1:
        parser.error(f"--num_nodes {options.num_nodes}: expected 1 or more")
    options.paths = list(messages_of(options.paths, parser))
    return options


def main():
    global np, wire_format
    options = arguments()
    try:
        import numpy as np
        import wire_format
    except ImportError as missing:
        sys.exit(f"read_messages.py: {missing_package.hint(missing)}")
    exit_code = 0
    for path in options.paths:
        try:
            show(path, options)
        except (wire_format.DamagedMessage, ValueError, OSError) as error:
            print(f"read_messages.py: {path}: {error}", file=sys.stderr)
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.stderr.close()  # `| head` has seen enough
        sys.exit(141)
