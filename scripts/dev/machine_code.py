"""Reads the machine code of CUDA kernels that nvcc has embedded in object files. Without the toolkit's cuobjdump, which is not
part of every installation, takes 31 s to print what is read here in under 2 s, and has the scoreboards in hexadecimal only.

Instructions are as of compute capability 8.0 and 9.0: 16 bytes each. What is read of one, by bits:

    0-8      the kind; 9-11 say where its operands are
    12-14    the predicate it depends on (7: none), 15: negated
    34-81    of a branch: the signed distance in units of 4 bytes from the instruction behind it; from 9.0 on its lowest
             byte is in bits 16-23, except for BSSY's
    87-90    of a branch: one more predicate, as in 12-15
    73-75    of an access: its width
    110-112  the scoreboard that is released when its result is there (7: none)
    116-121  the scoreboards that it waits for

The encoding is documented by people who measured it (Jia et al. 2018, arXiv:1804.06826, section 2, for the control bits)
and by the source of Mesa's compiler NAK. The tests of this module compile known kernels with the nvcc at hand, so that
another encoding does not go unnoticed.
"""

import collections
import dataclasses
import functools
import re
import struct

ARCHITECTURES = range(80, 91)  # whose encoding is known here
INSTRUCTION_BYTES = 16

# LD and ST, of generic addresses, are what becomes of pointers that a kernel reads from a table.
ACCESSES = {0x181: "LDG", 0x186: "STG", 0x180: "LD", 0x185: "ST", 0x184: "LDS", 0x188: "STS", 0x183: "LDL", 0x187: "STL"}
LOADS = {0x181, 0x180}
STORES = {0x186, 0x185}
SHARED = {0x184, 0x188}
WIDTHS = (8, 8, 16, 16, 32, 64, 128, 0)
EXIT, BRANCH, JOIN, CALL = 0x14D, 0x147, 0x141, 0x144
# The integer and logic pipe, of 64 lanes in a multiprocessor and cycle where others have 128: VOTE, SEL, FSEL, FMNMX,
# FSETP, ISETP, VIMNMX3, IADD3, LEA, LOP3, PRMT, SHF, PLOP3, VIADD, VIADDMNMX, VIMNMX and moves of predicates.
LOGIC = {0x003, 0x004, 0x006, 0x007, 0x008, 0x009, 0x00B, 0x00C, 0x00F, 0x010, 0x011, 0x012, 0x016, 0x017, 0x019, 0x01C,
         0x036, 0x046, 0x048}
# 16 lanes: conversions, square roots, counts of bits. Double precision has 64.
SLOW = {0x100, 0x101, 0x102, 0x105, 0x106, 0x107, 0x108, 0x109, 0x110, 0x111, 0x112}

FATBIN_MAGIC = 0xBA55ED50
FATBIN_ELF = 2  # kind of an entry; PTX is 1
ATTRIBUTE_WITH_SIZE = 4  # format of an entry of .nv.info
ATTRIBUTE_FRAME_SIZE = 0x11
ATTRIBUTE_REGISTERS = 0x2F
RESERVED_SHARED_BYTES = 1024  # of each block from 9.0 on, by the system, which are not of the block's 48 KiB


class BadObject(Exception):
    """The object is not laid out as this module knows it."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    low: int
    high: int
    architecture: int

    @property
    def kind(self):
        return self.low & 0x1FF

    @property
    def is_conditional(self):
        is_jump = self.kind in (EXIT, BRANCH, JOIN)
        return (self.low >> 12 & 15) != 7 or (is_jump and (self.high >> 23 & 15) != 7)

    @property
    def access_bits(self):
        """0 if it is none of global memory."""
        return WIDTHS[self.high >> 9 & 7] if self.kind in LOADS | STORES else 0

    @property
    def distance(self):
        """Of a branch, in instructions from the one behind it."""
        units = (self.low >> 34 | self.high << 30) & ((1 << 48) - 1)
        if units >> 47:
            units -= 1 << 48
        if self.kind == BRANCH and self.architecture >= 90:
            units = units << 8 | self.low >> 16 & 0xFF
        return units * 4 // INSTRUCTION_BYTES

    @property
    def sets(self):
        """The scoreboard of its result, None if it has none."""
        number = self.high >> 46 & 7
        return None if number == 7 else number

    @property
    def waits_for(self):
        mask = self.high >> 52 & 63
        return {number for number in range(6) if mask >> number & 1}


@dataclasses.dataclass(frozen=True)
class Path:
    """A way from a kernel's first instruction to an EXIT."""

    num_accesses: int  # of at least the width that was asked for
    num_instructions: int
    num_logic: int
    num_slow: int


@dataclasses.dataclass
class Kernel:
    name: str  # mangled
    architecture: int
    instructions: list
    frame_bytes: int = 0  # of local memory
    num_registers: int = 0
    shared_bytes: int = 0  # static, without the system's

    @functools.cached_property
    def accesses(self):
        """How many there are of each name and width, "LDG.128"."""
        return collections.Counter(
            f"{ACCESSES[each.kind]}.{WIDTHS[each.high >> 9 & 7]}" for each in self.instructions if each.kind in ACCESSES
        )

    @property
    def num_instructions(self):
        return len(self.instructions)

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

    def loads_in_flight(self, bits):
        """The most loads of at least `bits` that are on their way before the kernel waits for any of them, in the order
        of the code: the memory's latency is hidden by so many in a thread."""
        most = 0
        pending = collections.Counter()
        for each in self.instructions:
            if any(pending[number] for number in each.waits_for):
                pending.clear()
            if each.kind in LOADS and each.access_bits >= bits and each.sets is not None:
                pending[each.sets] += 1
                most = max(most, pending.total())
        return most

    def fast_path(self, bits, shared=False):
        """Of the ways to an EXIT, each loop gone through once, the one with the most accesses of at least `bits` to global
        memory, or with `shared` to any memory, and of those the one with the fewest instructions: what is for rare cases
        only is not on it. None if there is no way."""
        order, back = self._order
        best = {}  # from here to the end: (accesses, -instructions, -logic, -slow)
        again = {}  # the head of a loop that is left there, by the instruction that goes back to it
        while True:
            for at in order:
                each = self.instructions[at]
                ways = [best[to] for to in self._successors[at] if to in best and (at, to) not in back]
                ways += [again[at]] if at in again else []
                ways += [(0, 0, 0, 0)] if each.kind == EXIT else []
                if ways:
                    accesses, instructions, logic, slow = max(ways)
                    counts = each.access_bits >= max(bits, 1) or (shared and each.kind in SHARED)
                    best[at] = (
                        accesses + counts,
                        instructions - 1,
                        logic - (each.kind in LOGIC),
                        slow - (each.kind in SLOW),
                    )
            new = {at: best[to] for at, to in back if at not in best and to in best}
            if not new:
                break
            again |= new
        return Path(best[0][0], *(-count for count in best[0][1:])) if 0 in best else None

    @functools.cached_property
    def _order(self):
        """Indices of the instructions that can be reached, each behind all that may come after it, jumps back to the head of a
        loop left out; and those jumps."""
        order, back = [], set()
        on_the_way, done = set(), set()
        stack = [(0, iter(self._successors[0]))] if self.instructions else []
        on_the_way.add(0)
        while stack:
            at, left = stack[-1]
            to = next(left, None)
            if to is None:
                stack.pop()
                on_the_way.discard(at)
                done.add(at)
                order.append(at)
            elif to in on_the_way:
                back.add((at, to))
            elif to not in done:
                on_the_way.add(to)
                stack.append((to, iter(self._successors[to])))
        return order, back

    @functools.cached_property
    def _successors(self):
        """Of each instruction, the indices of those that may come next."""
        joins = self._joins()
        found = []
        for at, each in enumerate(self.instructions):
            next_ones = [] if each.kind in (EXIT, BRANCH, JOIN) and not each.is_conditional else [at + 1]
            if each.kind == BRANCH:
                next_ones.append(at + 1 + each.distance)
            elif each.kind == JOIN:
                next_ones.append(joins.get(at, at + 1))
            elif each.kind == CALL and each.is_conditional:
                next_ones.append(at + 1 + each.distance)  # a jump; functions are called unconditionally, and return
            found.append([to for to in next_ones if 0 <= to < len(self.instructions)])
        return found

    def _joins(self):
        """By the index of each BSYNC, where the threads of a warp continue: the BSSY before it of the same barrier says."""
        begin, found, targets = 0x145, {}, {}
        for at, each in enumerate(self.instructions):
            barrier = each.low >> 16 & 15
            if each.kind == begin:
                found[barrier] = at + 1 + each.distance
            elif each.kind == JOIN:
                targets[at] = found.get(barrier, at + 1)
        return targets


class Elf:
    """Sections of a 64-bit little-endian ELF file."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise BadObject("not a 64-bit little-endian ELF file")
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        entry_bytes, count, names = struct.unpack_from("<HHH", data, 0x3A)
        self.sections = []  # (name, bytes, contents)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry_bytes) for i in range(count)]
        for header in headers:
            begin = headers[names][4] + header[0]
            name = data[begin : data.index(b"\0", begin)].decode()
            no_bits = 8
            contents = b"" if header[1] == no_bits else data[header[4] : header[4] + header[5]]
            self.sections.append((name, header[5], contents))

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


def compilers(obj):
    """The releases of ptxas that have made an object file's cubins, "13.0"; usually one."""
    found = set()
    for _, cubin in cubins(obj):
        found |= {release.decode() for release in re.findall(rb"release ([0-9]+\.[0-9]+), V", cubin)}
    return found


def _attributes(elf):
    """Numbers that the assembler has noted of functions: {attribute: {function: number}}."""
    names = list(elf.symbol_names())
    info = elf.contents(".nv.info")
    found = collections.defaultdict(dict)
    at = 0
    while at + 4 <= len(info):
        attribute_format, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if attribute_format != ATTRIBUTE_WITH_SIZE:
            continue
        if value == 8:
            symbol, number = struct.unpack_from("<II", info, at)
            if symbol < len(names):
                found[attribute][names[symbol]] = number
        at += value
    return found


def kernels(obj):
    """The kernels in an object file, one of each name and known architecture. None in an object of a host's source."""
    for architecture, cubin in cubins(obj):
        if architecture not in ARCHITECTURES:
            continue
        if cubin[:4] != b"\x7fELF":
            raise BadObject("its cubins are compressed: compile with nvcc --compress-mode=default or --no-compress")
        elf = Elf(cubin)
        attributes = _attributes(elf)
        sizes = {section: num_bytes for section, num_bytes, _ in elf.sections}
        for section, _, code in elf.sections:
            if not section.startswith(".text."):
                continue
            name = section[len(".text.") :]
            for attribute, of_what in ((ATTRIBUTE_FRAME_SIZE, "frame size"), (ATTRIBUTE_REGISTERS, "number of registers")):
                if name not in attributes[attribute]:
                    raise BadObject(f"no {of_what} of {name} in .nv.info")
            yield Kernel(
                name,
                architecture,
                [Instruction(*struct.unpack_from("<QQ", code, at), architecture) for at in range(0, len(code), INSTRUCTION_BYTES)],
                attributes[ATTRIBUTE_FRAME_SIZE][name],
                attributes[ATTRIBUTE_REGISTERS][name],
                max(0, sizes.get(f".nv.shared.{name}", 0) - (RESERVED_SHARED_BYTES if architecture >= 90 else 0)),
            )
