#!/usr/bin/env python3
"""Checks the machine code of the CUDA kernels in object files: that none uses local memory, and that those which stream
through tensors do so by accesses of 128 bits. Either is lost by small changes of a source and costs half the speed.

Usage: scripts/dev/check_kernels.py OBJECT... | --list OBJECT...

Exit codes: 0 nothing found, 1 something found, 2 wrong usage, 77 only code for GPUs whose encoding is unknown here.

Reads what nvcc has embedded in the objects, without the toolkit's cuobjdump. Instructions are as of
compute capability 8.0 and 9.0: 16 bytes each, the kind in the low 9 bits, the width of an access in bits 73 to 75. The
test of this script has known kernels compiled by the nvcc at hand, so that another encoding does not go unnoticed.
"""

import collections
import dataclasses
import re
import struct
import sys


@dataclasses.dataclass(frozen=True)
class Wide:
    """The smallest number of loads and of stores of 128 bits in the code of a kernel, for every architecture and
    instantiation. An access in an unrolled loop counts as often as the loop is copied."""

    kernel: str
    loads: int
    stores: int
    arguments: str = ""  # only instantiations in whose mangled arguments this regular expression is found
    target: str = "terngrad_kernels"  # of CMake, whose objects must have it

    def concerns(self, kernel):
        return kernel.function() == self.kernel and re.search(self.arguments, kernel.arguments()) is not None


# Of elementwise_kernel the instantiations that take 4 elements at once; those for addresses at odd places take 1.
AT_ONCE = "ILj256ELi4E.*"
# Types of a gradient's elements: of 16 bits there are twice as many in an access.
FLOAT32 = "^IfE"
FLOAT16_OR_BFLOAT16 = "7Float16|8Bfloat16"
# Of kernels that are compiled once more for nearest rounding and asymmetric levels, the one without.
FLOAT32_WITHOUT_MODES = "^IfLb0E"
FLOAT16_OR_BFLOAT16_WITHOUT_MODES = "(7Float16|8Bfloat16)ELb0E"
WIDE_ACCESSES = [
    Wide("chunk_statistics_kernel", 8, 0),
    Wide("encode_blocks_kernel", 12, 0, FLOAT32),  # 8 to measure, 4 to draw
    Wide("encode_blocks_kernel", 6, 0, FLOAT16_OR_BFLOAT16),
    Wide("ternarize_whole_kernel", 8, 0, FLOAT32),
    Wide("ternarize_whole_kernel", 4, 0, FLOAT16_OR_BFLOAT16),
    Wide("ternarize_t2_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_t2_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_t5_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_t5_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_lanes_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_lanes_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_masks_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_masks_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("float_payload_kernel", 8, 8, "ToFloat32|ToRoundedBfloat16"),  # 4 of whole chunks, 4 of others
    Wide("float_payload_kernel", 8, 0, "ToBfloat16"),
    Wide("code_sum_kernel", 0, 5),  # 4 of whole chunks, 1 of others
    Wide("lane_sum_kernel", 0, 4),
    Wide("tree_sum_kernel", 0, 1),
    Wide("tree_sum_kernel", 15, 1, "LeafFormatE0E"),  # fp32: 8 of a batch, 7 of the rest
    Wide("add_lanes_kernel", 2, 1),
    Wide("elementwise_kernel", 2, 2, AT_ONCE + "5Scale"),
    Wide("elementwise_kernel", 2, 2, AT_ONCE + "13ZeroNonfinite"),
    Wide("elementwise_kernel", 2, 0, AT_ONCE + "13FindNonfinite"),
    Wide("elementwise_kernel", 2, 2, AT_ONCE + "5Round"),
    Wide("elementwise_kernel", 4, 0, AT_ONCE + "6Encode"),
    Wide("elementwise_kernel", 0, 4, AT_ONCE + "6Decode"),
    Wide("elementwise_kernel", 4, 2, AT_ONCE + "2Gd"),
    Wide("elementwise_kernel", 6, 4, AT_ONCE + "8Momentum"),
    Wide("elementwise_kernel", 8, 6, AT_ONCE + "4Adam"),
    Wide("elementwise_kernel", 8, 6, AT_ONCE + "7Rmsprop"),
    Wide("elementwise_kernel", 4, 2, AT_ONCE + "3Ema"),
    Wide("elementwise_kernel", 4, 2, AT_ONCE + "11WeightDecay"),
    Wide("gather_images_kernel", 4, 4, "6float4", "terngrad_datasets"),
    Wide("copy_slot_kernel", 4, 4, "", "terngrad_datasets"),
    Wide("crop_images_kernel", 1, 0, "^ILb1E", "terngrad_datasets"),  # staged
    Wide("crop_images_kernel", 0, 1, "^ILb[01]ELb1E", "terngrad_datasets"),  # of whole vectors
    Wide("add_bias_kernel", 2, 1, "^ILi4E", "terngrad_nets"),
    Wide("max_pool_forward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("max_pool_backward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("average_pool_forward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("average_pool_backward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("normalize_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("input_gradient_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("elementwise_kernel", 4, 2, AT_ONCE + "12ReluGradient", "terngrad_nets"),
    Wide("weight_decay_kernel", 2, 1, "", "terngrad_trainers"),
    Wide("scale_workers_kernel", 1, 1, "", "terngrad_trainers"),
    Wide("elementwise_kernel", 2, 2, AT_ONCE + "6CopyIf", "terngrad_trainers"),
]

ARCHITECTURES = range(80, 91)  # whose encoding is known here
# LD and ST, of generic addresses, are what becomes of pointers that a kernel reads from a table.
ACCESSES = {0x181: "LDG", 0x186: "STG", 0x180: "LD", 0x185: "ST", 0x184: "LDS", 0x188: "STS", 0x183: "LDL", 0x187: "STL"}
WIDTHS = (8, 8, 16, 16, 32, 64, 128, 0)

FATBIN_MAGIC = 0xBA55ED50
FATBIN_ELF = 2  # kind of an entry; PTX is 1
ATTRIBUTE_WITH_SIZE = 4  # format of an entry of .nv.info
ATTRIBUTE_FRAME_SIZE = 0x11


class BadObject(Exception):
    """The object is not laid out as this script knows it."""


@dataclasses.dataclass
class Kernel:
    name: str  # mangled
    architecture: int
    num_instructions: int
    accesses: collections.Counter  # by name and width, "LDG.128"
    frame_bytes: int  # of local memory

    def _end_of_names(self):
        """Where the identifiers end, each with its length before it, that a mangled name begins with; and the last."""
        at = 3 if self.name.startswith("_ZN") else 2
        identifier = ""
        while digits := re.match("[0-9]+", self.name[at:]):
            at += digits.end()
            identifier = self.name[at : at + int(digits.group())]
            at += len(identifier)
        return at, identifier

    def function(self):
        """Its name without namespaces, template arguments and parameters."""
        return self._end_of_names()[1]

    def arguments(self):
        """Template arguments and types of parameters, mangled."""
        return self.name[self._end_of_names()[0] :]

    def wide_loads(self):
        return self.accesses["LDG.128"] + self.accesses["LD.128"]

    def wide_stores(self):
        return self.accesses["STG.128"] + self.accesses["ST.128"]

    def uses_local_memory(self):
        return self.frame_bytes > 0 or any(access.startswith(("LDL", "STL")) for access in self.accesses)


class Elf:
    """Sections of a 64-bit little-endian ELF file."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise BadObject("not a 64-bit little-endian ELF file")
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        entry_bytes, count, names = struct.unpack_from("<HHH", data, 0x3A)
        self.data = data
        self.sections = []  # (name, type, contents)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry_bytes) for i in range(count)]
        for header in headers:
            begin = headers[names][4] + header[0]
            name = data[begin : data.index(b"\0", begin)].decode()
            no_bits = 8
            contents = b"" if header[1] == no_bits else data[header[4] : header[4] + header[5]]
            self.sections.append((name, header[1], contents))

    def contents(self, name):
        return next((contents for section, _, contents in self.sections if section == name), b"")

    def symbol_names(self):
        """By index in the symbol table."""
        symbols, strings = self.contents(".symtab"), self.contents(".strtab")
        for at in range(0, len(symbols), 24):
            (name,) = struct.unpack_from("<I", symbols, at)
            yield strings[name : strings.index(b"\0", name)].decode()


def cubins(obj):
    """(architecture, contents) of each cubin that nvcc has embedded in an object file."""
    fatbin = Elf(obj).contents(".nv_fatbin")
    at = 0
    while at + 16 <= len(fatbin):
        magic, _, header_bytes, num_bytes = struct.unpack_from("<IHHQ", fatbin, at)
        if magic == 0:  # alignment
            at += 4
            continue
        if magic != FATBIN_MAGIC:
            raise BadObject(f"unknown magic {magic:#x} in .nv_fatbin")
        entry, at = at + header_bytes, at + header_bytes + num_bytes
        while entry < at:
            kind, _, entry_header_bytes, contents_bytes = struct.unpack_from("<HHIQ", fatbin, entry)
            (architecture,) = struct.unpack_from("<I", fatbin, entry + 28)
            entry += entry_header_bytes
            if kind == FATBIN_ELF:
                yield architecture, fatbin[entry : entry + contents_bytes]
            entry += contents_bytes


def frame_sizes(elf):
    """Bytes of local memory by function."""
    names = list(elf.symbol_names())
    info = elf.contents(".nv.info")
    sizes = {}
    at = 0
    while at + 4 <= len(info):
        attribute_format, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if attribute_format != ATTRIBUTE_WITH_SIZE:
            continue
        if attribute == ATTRIBUTE_FRAME_SIZE:
            symbol, size = struct.unpack_from("<II", info, at)
            sizes[names[symbol]] = size
        at += value
    return sizes


def kernels(obj):
    """The kernels in an object file, one of each name and known architecture. None in an object of a host's source."""
    for architecture, cubin in cubins(obj):
        if architecture not in ARCHITECTURES:
            continue
        if cubin[:4] != b"\x7fELF":
            raise BadObject("its cubins are compressed: compile with nvcc --compress-mode=default or --no-compress")
        elf = Elf(cubin)
        frames = frame_sizes(elf)
        for section, _, code in elf.sections:
            if not section.startswith(".text."):
                continue
            name = section[len(".text.") :]
            accesses = collections.Counter()
            for at in range(0, len(code), 16):
                low, high = struct.unpack_from("<QQ", code, at)
                access = ACCESSES.get(low & 0x1FF)
                if access:
                    accesses[f"{access}.{WIDTHS[high >> 9 & 7]}"] += 1
            if name not in frames:
                raise BadObject(f"no frame size of {name} in .nv.info")
            yield Kernel(name, architecture, len(code) // 16, accesses, frames[name])


def findings(found, wide_accesses):
    """What is wrong with kernels, a line each."""
    for kernel in found:
        if kernel.uses_local_memory():
            yield (
                f"{kernel.name} (sm_{kernel.architecture}) uses local memory: a frame of {kernel.frame_bytes} bytes, "
                f"{dict(kernel.accesses)}"
            )
    for wide in wide_accesses:
        concerned = [kernel for kernel in found if wide.concerns(kernel)]
        for architecture in sorted({kernel.architecture for kernel in found}):
            if not any(kernel.architecture == architecture for kernel in concerned):
                yield f"{wide.kernel}{wide.arguments} is nowhere for sm_{architecture}"
        for kernel in concerned:
            if kernel.wide_loads() < wide.loads or kernel.wide_stores() < wide.stores:
                yield (
                    f"{kernel.name} (sm_{kernel.architecture}) has {kernel.wide_loads()} loads and {kernel.wide_stores()} "
                    f"stores of 128 bits, wanted {wide.loads} and {wide.stores}: {dict(kernel.accesses)}"
                )


def wanted(paths):
    """The entries of the table for the libraries that the objects are of, by the folders in which CMake keeps them; those
    for kernels/ if there is none of that kind."""
    of_paths = {wide.target for wide in WIDE_ACCESSES if any(f"{wide.target}.dir/" in path for path in paths)}
    return [wide for wide in WIDE_ACCESSES if wide.target in (of_paths or {"terngrad_kernels"})]


def main(arguments):
    listing = arguments[:1] == ["--list"]
    paths = arguments[listing:]
    if not paths or any(path.startswith("-") for path in paths):
        print(__doc__, file=sys.stderr)
        return 2
    found = []
    architectures = set()
    for path in paths:
        try:
            with open(path, "rb") as file:
                obj = file.read()
            architectures |= {architecture for architecture, _ in cubins(obj)}
            found += kernels(obj)
        except (BadObject, OSError) as error:
            print(f"check_kernels.py: {path}: {error}", file=sys.stderr)
            return 1
    if listing:
        for kernel in found:
            print(f"sm_{kernel.architecture} {kernel.name}: {kernel.num_instructions} instructions, {dict(kernel.accesses)}")
        return 0
    if architectures and architectures.isdisjoint(ARCHITECTURES):
        print(f"check_kernels.py: skipped, for there is only code for {sorted(architectures)}")
        return 77
    complaints = list(findings(found, wanted(paths)))
    if not found:
        complaints.append("there are no kernels in these objects")
    for complaint in complaints:
        print(f"check_kernels.py: {complaint}", file=sys.stderr)
    print(f"check_kernels.py: {len(found)} kernels in {len(paths)} objects, {len(complaints)} findings")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
