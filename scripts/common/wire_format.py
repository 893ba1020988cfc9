"""Reads messages between workers as docs/wire-format.md specifies them, without any of the project's code.

    message = read_message(open("x.msg", "rb").read())
    for record in message.records:
        values = record.values(num_workers=8)   # fp32, as the receiver takes them

What is refused raises DamagedMessage, which names the field, what was expected and what came. Layouts and codecs are not in
messages: see Record.values for what it needs of them.
"""

import dataclasses
import math
import pathlib
import struct
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import philox

KINDS = {1: "scalers", 2: "gradient", 3: "mean", 4: "pull", 5: "push", 6: "state", 7: "parameters", 8: "stop", 9: "leave",
         10: "sum"}
CODECS = {1: "fp32", 2: "bf16", 3: "ternary", 4: "qsgd", 5: "natural", 6: "sign", 7: "onebit", 8: "topk", 9: "randomk", 10: "fp8", 11: "powersgd"}
CODE_FORMATS = {1: "t2", 2: "t5", 3: "tmask", 4: "lanes", 5: "trans", 16: "q4", 17: "q8", 18: "bits", 19: "runs", 20: "local", 21: "n8", 22: "n4", 23: "e4m3", 24: "factors", 25: "drawn"}
LEVELS = {16: 7, 17: 127}  # L of codes from -L to L; 1 of the other formats
HEADER = struct.Struct("<4sHHQQQIIQQII")
RECORD = struct.Struct("<IBBHQQQQII")
CHUNK = 4096  # elements: slices begin at its multiples, and tmask and trans are made of chunks


class DamagedMessage(Exception):
    """Bytes that are no message of this format."""


def require(condition, field, expected, came):
    if not condition:
        raise DamagedMessage(f"{field}: expected {expected}, got {came}")


def rounded_up(number, multiple):
    return -(-number // multiple) * multiple


class Crc32c:
    """CRC32C, of rows of ROW bytes side by side, which are then joined in pairs: the remainder is linear."""

    ROW = 64

    def __init__(self):
        self.table = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            self.table = (self.table >> 1) ^ np.where(self.table & 1, np.uint32(0x82F63B78), np.uint32(0))
        # What a register becomes after ROW zero bytes, then twice as many and so on, for each value of each of its four bytes.
        skip = (np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]).astype(np.uint32)
        for _ in range(self.ROW):
            skip = self.table[skip & 0xFF] ^ (skip >> 8)
        self.skips = [skip]

    @staticmethod
    def skipped(skip, registers):
        return (skip[0][registers & 0xFF] ^ skip[1][(registers >> 8) & 0xFF] ^ skip[2][(registers >> 16) & 0xFF]
                ^ skip[3][registers >> 24])

    def __call__(self, data):
        # Zeros in front of the data change nothing once what the register begins with is part of the data.
        if len(data) < 4:
            return self.of_few(data)
        num_rows = 1 << ((len(data) - 1) // self.ROW).bit_length()
        padded = np.zeros(num_rows * self.ROW, np.uint8)
        begin = padded.size - len(data)
        padded[begin:] = np.frombuffer(data, np.uint8)
        padded[begin:begin + 4] ^= 0xFF
        registers = np.zeros(num_rows, np.uint32)
        for column in np.ascontiguousarray(padded.reshape(num_rows, self.ROW).T):
            registers = self.table[(registers ^ column) & 0xFF] ^ (registers >> 8)
        level = 0
        while registers.size > 1:
            if level == len(self.skips):
                self.skips.append(self.skipped(self.skips[-1], self.skips[-1]))
            registers = self.skipped(self.skips[level], registers[::2]) ^ registers[1::2]
            level += 1
        return int(registers[0]) ^ 0xFFFFFFFF

    def of_few(self, data):
        register = 0xFFFFFFFF
        for byte in data:
            register = (register >> 8) ^ int(self.table[(register ^ byte) & 0xFF])
        return register ^ 0xFFFFFFFF


crc32c = Crc32c()


@dataclasses.dataclass
class Record:
    """One slice of one segment."""

    segment: int
    codec: int
    format: int
    first: int
    count: int
    scalers: np.ndarray
    payload: bytes
    kind: int = 2  # of its message

    def is_flag(self):
        """Of kind 1, whether its scaler says no more than that the tensor is finite (0) or not (NaN)."""
        return self.kind == 1 and self.format == 1

    def codec_name(self):
        """'fp32', 'ternary t5'."""
        name = CODECS.get(self.codec, f"codec {self.codec}")
        if self.kind == 1:
            return name
        return f"{name} {CODE_FORMATS.get(self.format, self.format)}" if self.codec > 2 and self.format else name

    def has_codes(self):
        """Whether the elements are codes times scalers, not numbers."""
        return self.codec in (3, 4, 5, 6, 7, 10)

    def codes(self, num_workers=None, levels=1, options=""):
        """What stands for the elements: codes, sums of codes of lanes, numbers of fp32 and bf16.

        Lanes need the number of workers, and L of codes from -L to L; topk and randomk the options text of their codec."""
        if self.codec in (1, 2):
            return (float32_payload if self.codec == 1 else bfloat16_payload)(self.payload, self.count)
        if self.kind == 3 and self.format == 19:  # of a mean any number of elements
            return runs_of_any_number(self.payload, self.count)
        if self.codec == 8:
            return sparse_payload(self.payload, self.count, self.format, options_of(options))
        if self.codec == 9:
            require(self.format == 25, "format", 25, self.format)
            return drawn_payload(self.payload, self.first, self.count, options_of(options))
        decoder = DECODERS.get(self.format)
        require(self.has_codes() and decoder, "codec, format", "a known one", f"{self.codec}, {self.format}")
        if self.format == 4 and self.codec == 6:
            return lane_votes(self.payload, self.count, num_workers)
        if self.format == 4:
            return decoder(self.payload, self.count, num_workers, levels)
        return decoder(self.payload, self.count)

    def values(self, num_workers=None, block_size=None, levels=1, asymmetric=False, options=""):
        """The elements in fp32: each code times its unit, fl(scaler / L). Several scalers need the elements that each is for.

        Of asymmetric levels they are pairs: that of positive codes and that of negative ones."""
        codes = self.codes(num_workers, levels, options)
        if not self.has_codes():
            return codes
        if self.codec == 7:
            return self.sides(codes, block_size)
        if self.count == 0 or len(self.scalers) == 0:
            return np.zeros(self.count, np.float32)
        each = 2 if asymmetric else 1
        units = self.scalers / np.float32(LEVELS.get(self.format, 1))
        if len(units) <= each:
            run = np.zeros(self.count, np.int64)
        elif not block_size:
            raise ValueError(f"segment {self.segment} has {len(self.scalers)} scalers; for how many elements each is not known")
        else:
            run = (self.first + np.arange(self.count)) // block_size - self.first // block_size
        require(each * (run[-1] + 1) == len(units), "number of scalers", each * (run[-1] + 1), len(units))
        return codes.astype(np.float32) * units[each * run + (codes < 0 if asymmetric else 0)]


    def sides(self, signs, block_size):
        """The elements of onebit: scalers are a- and a+ of each block, or of each column, of which one may be all."""
        pairs = self.scalers.reshape(-1, 2)
        position = self.first + np.arange(self.count)
        group = position // block_size - self.first // block_size if block_size else position % max(len(pairs), 1)
        require(self.count == 0 or group.max() < len(pairs), "number of scalers", f"{group.max(initial=-1) + 1} pairs", len(self.scalers))
        return np.where(signs < 0, -pairs[group, 0], pairs[group, 1])


@dataclasses.dataclass
class Message:
    kind: int
    run_id: int
    fingerprint: int
    step: int
    worker: int
    num_bytes: int
    records: list
    payload: bytes

    def kind_name(self):
        return KINDS[self.kind]


def read_record(data, index, payload, begin, kind):
    """The record of that index, whose scalers begin at the first multiple of 8 from `begin` on, and where its codes end."""
    where = f"record {index}: "
    at = HEADER.size + index * RECORD.size
    segment, codec, form, zero, first, count, offset, num_bytes, num_scalers, zero2 = RECORD.unpack_from(data, at)
    require(zero == 0 and zero2 == 0, where + "reserved", 0, (zero, zero2))
    require(first % CHUNK == 0, where + "first", f"a multiple of {CHUNK}", first)
    require(offset == rounded_up(begin, 8), where + "offset", rounded_up(begin, 8), offset)
    end_of_scalers = offset + 4 * num_scalers
    codes = rounded_up(end_of_scalers, 8)
    require(codes + num_bytes <= len(payload), where + "bytes", f"at most {len(payload) - codes}", num_bytes)
    between = payload[begin:offset] + payload[end_of_scalers:codes]
    require(not any(between), where + "padding", "zeros", between.hex())
    scalers = np.frombuffer(payload, "<f4", num_scalers, offset) if num_scalers else np.zeros(0, np.float32)
    record = Record(segment, codec, form, first, count, scalers, payload[codes : codes + num_bytes], kind)
    if kind == 1:
        require(form <= 1, where + "format", "0 or 1", form)
        require(num_bytes == 0, where + "bytes", 0, num_bytes)
    if record.is_flag():
        require(num_scalers == min(count, 1), where + "number of scalers", min(count, 1), num_scalers)
        require(bool(np.all((scalers == 0) | np.isnan(scalers))), where + "flag", "0 or NaN", scalers.tolist())
    return record, codes + num_bytes


def read_message(data):
    """Takes a message apart and checks all that needs no layout, checksums included."""
    require(len(data) >= HEADER.size, "length", f"at least {HEADER.size}", len(data))
    (magic, version, kind, run_id, fingerprint, step, worker, num_records, payload_bytes, num_elements, payload_checksum,
     header_checksum) = HEADER.unpack_from(data)
    require(magic == b"TGRD", "magic", "TGRD", magic)
    require(version == 1, "version", 1, version)
    begin = HEADER.size + num_records * RECORD.size
    require(begin <= len(data), "number of records", f"at most {(len(data) - HEADER.size) // RECORD.size}", num_records)
    covered = data[: HEADER.size - 4] + data[HEADER.size : begin]
    require(crc32c(covered) == header_checksum, "header checksum", f"{crc32c(covered):08x}", f"{header_checksum:08x}")
    require(kind in KINDS, "kind", "1 to 10", kind)
    payload = data[begin:]
    require(payload_bytes == len(payload), "payload length", len(payload), payload_bytes)
    require(crc32c(payload) == payload_checksum, "payload checksum", f"{crc32c(payload):08x}", f"{payload_checksum:08x}")
    records = []
    end = 0
    for index in range(num_records):
        record, end = read_record(data, index, payload, end, kind)
        records.append(record)
    if records:
        require(end == len(payload), "end of the last codes", len(payload), end)
    total = sum(record.count for record in records)
    require(total == num_elements, "number of elements", total, num_elements)
    return Message(kind, run_id, fingerprint, step, worker, len(data), records, payload)


def require_length(payload, expected):
    require(len(payload) == expected, "length of the codes", expected, len(payload))


def without_padding(values, count, what):
    """The first `count`, if the rest is zero."""
    require(not values[count:].any(), "padding", f"zeros behind the last {what}", values[count:])
    return values[:count]


def float32_payload(payload, count):
    require_length(payload, 4 * count)
    return np.frombuffer(payload, "<f4")


def bfloat16_payload(payload, count):
    require_length(payload, rounded_up(2 * count, 4))
    halves = without_padding(np.frombuffer(payload, "<u2"), count, "element")
    return (halves.astype(np.uint32) << 16).view(np.float32)


def bits_of(words, width, fields):
    """Fields of that many bits of each word, low bits first, one after the other."""
    shifts = (width * np.arange(fields)).astype(words.dtype)
    mask = words.dtype.type((1 << width) - 1)
    return ((words[:, None] >> shifts) & mask).reshape(-1)


def t2_codes(payload, count):
    require_length(payload, 4 * -(-count // 16))
    fields = without_padding(bits_of(np.frombuffer(payload, "<u4"), 2, 16), count, "code")
    require(not (fields == 2).any(), "t2", "bits 00, 01 or 11", "10")
    return np.array([0, 1, 0, -1], np.int8)[fields]


def t5_codes(payload, count):
    num_bytes = -(-count // 5)
    require_length(payload, rounded_up(num_bytes, 4))
    numbers = without_padding(np.frombuffer(payload, np.uint8), num_bytes, "code").astype(np.int16)
    require((numbers <= 242).all(), "t5", "bytes of at most 242", numbers.max(initial=0))
    digits = (numbers[:, None] // 3 ** np.arange(5) % 3).reshape(-1)
    return (without_padding(digits, count, "code") - 1).astype(np.int8)


def tmask_codes(payload, count):
    num_chunks = -(-count // CHUNK)
    mask_bytes = 4 * -(-count // 32)
    begin = 4 * (num_chunks + 1) + mask_bytes
    require(len(payload) >= begin, "length of the codes", f"at least {begin}", len(payload))
    offsets = np.frombuffer(payload, "<u4", num_chunks + 1)
    words = np.frombuffer(payload, "<u4", mask_bytes // 4, 4 * (num_chunks + 1))
    mask = without_padding(bits_of(words, 1, 32), count, "bit of the mask")
    codes = np.zeros(count, np.int8)
    at = 0
    for chunk in range(num_chunks):
        require(offsets[chunk] == at, f"tmask: offset of chunk {chunk}", at, offsets[chunk])
        places = CHUNK * chunk + np.flatnonzero(mask[CHUNK * chunk : CHUNK * (chunk + 1)])
        end = at + -(-len(places) // 8)
        require(begin + end <= len(payload), "length of the codes", f"at least {begin + end}", len(payload))
        signs = np.unpackbits(np.frombuffer(payload[begin + at : begin + end], np.uint8), bitorder="little")
        codes[places] = 1 - 2 * without_padding(signs, len(places), "sign").astype(np.int8)
        at = end
    require(offsets[num_chunks] == at, "tmask: bytes of signs", at, offsets[num_chunks])
    require_length(payload, begin + rounded_up(at, 4))
    require(not any(payload[begin + at :]), "padding", "zeros behind the signs", payload[begin + at :].hex())
    return codes


def mask_frequencies(level):
    """Of the 256 bytes of a mask, level of 64 codes being 0; of 4096."""
    ones = [bin(byte).count("1") for byte in range(256)]
    found = [max(1, (level ** (8 - j) * (64 - level) ** j) >> 36) for j in ones]
    return [4096 - sum(found[1:]), *found[1:]]


def coded_mask(record, num_bytes):
    """Bytes of a mask that a record of trans codes by rANS, and where its signs begin."""
    frequencies = mask_frequencies(record[0])
    starts = np.cumsum([0, *frequencies]).tolist()
    byte_of = np.repeat(np.arange(256), frequencies).tolist()
    require(len(record) >= 10, "trans: length of a record", "10 or more", len(record))
    states = np.frombuffer(record, "<u4", 2, 2).tolist()
    end = 10
    mask = bytearray()
    for place in range(num_bytes):
        x = states[place % 2]
        byte = byte_of[x % 4096]
        x = frequencies[byte] * (x // 4096) + x % 4096 - starts[byte]
        if x < 2**15:
            require(len(record) >= end + 2, "trans: length of a record", f"{end + 2} or more", len(record))
            x = x * 2**16 + int.from_bytes(record[end : end + 2], "little")
            end += 2
        states[place % 2] = x
        mask.append(byte)
    require(states == [2**15, 2**15], "trans: states of a record", [2**15, 2**15], states)
    return bytes(mask), end


def trans_chunk(record, count):
    num_bytes = -(-count // 8)
    require(len(record) >= 2 and record[1] == 0 and (record[0] == 0 or 12 <= record[0] <= 63), "trans: L and 0",
            "0, or 12 to 63, and 0", record[:2].hex())
    mask, at = (record[2 : 2 + num_bytes], 2 + num_bytes) if record[0] == 0 else coded_mask(record, num_bytes)
    require(len(mask) == num_bytes, "trans: length of a record", f"{at} or more", len(record))
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
    places = np.flatnonzero(without_padding(bits, count, "bit of the mask"))
    end = at + -(-len(places) // 8)
    require(len(record) == rounded_up(end, 2), "trans: length of a record", rounded_up(end, 2), len(record))
    require(not any(record[end:]), "padding", "zeros behind the signs", record[end:].hex())
    signs = np.unpackbits(np.frombuffer(record[at:end], np.uint8), bitorder="little")
    codes = np.zeros(count, np.int8)
    codes[places] = 1 - 2 * without_padding(signs, len(places), "sign").astype(np.int8)
    return codes


def trans_codes(payload, count):
    num_chunks = -(-count // CHUNK)
    begin = 4 * (num_chunks + 1)
    require(len(payload) >= begin, "length of the codes", f"at least {begin}", len(payload))
    offsets = np.frombuffer(payload, "<u4", num_chunks + 1).tolist()
    require(offsets[0] == 0 and offsets == sorted(offsets), "trans: offsets of chunks", "0 and more", offsets)
    require_length(payload, begin + rounded_up(2 * offsets[-1], 4))
    require(not any(payload[begin + 2 * offsets[-1] :]), "padding", "zeros behind the records", payload[-2:].hex())
    chunks = [trans_chunk(payload[begin + 2 * offsets[chunk] : begin + 2 * offsets[chunk + 1]],
                          min(CHUNK, count - CHUNK * chunk)) for chunk in range(num_chunks)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.int8)


def q4_codes(payload, count):
    require_length(payload, 4 * -(-count // 8))
    fields = without_padding(bits_of(np.frombuffer(payload, "<u4"), 4, 8), count, "code")
    require((fields <= 14).all(), "q4", "codes of at most 14", fields.max(initial=0))
    return fields.astype(np.int8) - np.int8(7)


def q8_codes(payload, count):
    require_length(payload, rounded_up(count, 4))
    fields = without_padding(np.frombuffer(payload, np.uint8), count, "code")
    require((fields <= 254).all(), "q8", "codes of at most 254", fields.max(initial=0))
    return fields.astype(np.int16) - np.int16(127)


def sign_values(payload, count):
    """1 or -1, which scalers multiply."""
    require_length(payload, 4 * -(-count // 32))
    negative = without_padding(bits_of(np.frombuffer(payload, "<u4"), 1, 32), count, "sign")
    return np.int8(1) - np.int8(2) * negative.astype(np.int8)


def powers_of_two(codes, bits):
    """What codes of a sign and an exponent stand for, which scalers multiply."""
    require(not (codes == 1 << (bits - 1)).any(), f"n{bits}", "no minus zero", "one")
    exponent = codes & (1 << (bits - 1)) - 1
    magnitude = np.where(exponent == 0, 0.0, 2.0 ** (exponent - ((1 << (bits - 1)) - 1.0)))
    return np.where(codes >> (bits - 1), -magnitude, magnitude).astype(np.float32)


def n8_values(payload, count):
    require_length(payload, rounded_up(count, 4))
    return powers_of_two(without_padding(np.frombuffer(payload, np.uint8), count, "code").astype(np.int32), 8)


def n4_values(payload, count):
    require_length(payload, 4 * -(-count // 8))
    return powers_of_two(without_padding(bits_of(np.frombuffer(payload, "<u4"), 4, 8), count, "code").astype(np.int32), 4)


def e4m3_values(payload, count):
    """The numbers that the codes are, which scalers multiply."""
    require_length(payload, rounded_up(count, 4))
    codes = without_padding(np.frombuffer(payload, np.uint8), count, "code").astype(np.int32)
    require(not np.isin(codes, (0x7F, 0x80, 0xFF)).any(), "e4m3", "no 7f, 80 or ff", "one of them")
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


def fields_at(payload, begin, count, width):
    """`count` numbers of that many bits, low bits first, in the words from a byte on, and where these end."""
    end = begin + 4 * -(-count * width // 32)
    require(end <= len(payload), "length of the codes", f"at least {end}", len(payload))
    bits = np.unpackbits(np.frombuffer(payload[begin:end], np.uint8), bitorder="little")
    numbers = without_padding(bits, count * width, "place").reshape(count, width).astype(np.int64)
    return numbers @ (1 << np.arange(width, dtype=np.int64)), end


def kept_of(count, density):
    return min(count, max(1, math.ceil(count * density))) if count else 0


def runs_places(payload, kept):
    """The places of format runs, and where the values begin."""
    num_groups = -(-kept // 128)
    end = 8 + 8 * num_groups
    require(len(payload) >= end, "length of the codes", f"at least {end}", len(payload))
    groups = np.frombuffer(payload, "<u4", 2 * num_groups + 2).astype(np.int64).reshape(-1, 2)
    require(groups[0].tolist() == [kept, 0], "runs: number of places", [kept, 0], groups[0].tolist())
    places = [np.zeros(0, np.int64)]
    widths = 0
    for index, (first, packed) in enumerate(groups[1:].tolist()):
        require(packed >> 6 == widths and packed & 63 <= 32, "runs: widths", f"{widths} before", packed >> 6)
        gaps, end = fields_at(payload, end, min(128, kept - 128 * index), packed & 63)
        require(gaps[0] == 0, "runs: first gap of a group", 0, gaps[0])
        places.append(first + np.cumsum(gaps) + np.arange(len(gaps)))
        widths += packed & 63
    return np.concatenate(places), end


def options_of(text):
    return dict(item.split("=") for item in text.split())


def densities_of(options):
    """Those that messages of topk may have: of the stages of a warm-up, and the last."""
    density = float(options["density"])
    stages = [0.25 ** (stage + 1) for stage in range(16)] if "stage_steps" in options else []
    return [*(stage for stage in stages if stage > density), density]


def drawn_payload(payload, first, count, options):
    """The elements of randomk, zeros where nothing was sent. options: of its codec, by key."""
    if "density" not in options:
        raise ValueError("of how many elements randomk sends one is not known")
    group = round(1 / float(options["density"]))
    groups = range(first // group, -(-(first + count) // group) if count else first // group)
    if count == 0:
        require(len(payload) == 0, "length of the codes", 0, len(payload))
        return np.zeros(0, np.float32)
    require(len(payload) >= 8, "length of the codes", "at least 8", len(payload))
    values = (float32_payload if options["values"] == "fp32" else bfloat16_payload)(payload[8:], len(groups))
    elements = np.zeros(count, np.float32)
    draws = philox.draws32(int.from_bytes(payload[:8], "little"), 0, 0, philox.SELECT, groups.start, len(groups))
    for number, draw, value in zip(groups, draws, values):
        place = number * group + (draw * group >> 32) - first
        if 0 <= place < count:
            elements[place] = value
        else:
            require(value.tobytes() == bytes(4), "drawn: value of an element that is not in the slice", 0, value)
    return elements


def sparse_payload(payload, count, form, options):
    """The elements of topk, zeros where nothing was sent. options: of its codec, by key."""
    require(form in (19, 20), "format", "19 or 20", form)
    if "density" not in options:
        raise ValueError("how many elements topk keeps is not known")
    density = float(options["density"])
    if form == 19:
        kept = kept_of(count, density)
        told = int.from_bytes(payload[:4], "little")
        if told in [kept_of(count, of_stage) for of_stage in densities_of(options)]:
            kept = told
        places, end = runs_places(payload, kept)
    else:
        block = int(options["block"])
        kept_of_blocks = [kept_of(min(block, count - first), density) for first in range(0, count, block)]
        kept = sum(kept_of_blocks)
        within, end = fields_at(payload, 0, kept, block.bit_length() - 1)
        places = within + block * np.repeat(np.arange(len(kept_of_blocks)), kept_of_blocks)
    values = (float32_payload if options["values"] == "fp32" else bfloat16_payload)(payload[end:], kept)
    return elements_at(places, values, count)


def runs_of_any_number(payload, count):
    """The elements of a mean that travels as those which are not zero."""
    kept = int.from_bytes(payload[:4], "little")
    places, end = runs_places(payload, kept)
    values = float32_payload(payload[end:], kept)
    require(bool(values.view(np.uint32).all()), "values", "none of zero", "others")
    return elements_at(places, values, count)


def elements_at(places, values, count):
    """Zeros except at these places."""
    require(bool((np.diff(places) > 0).all()), "places", "ascending ones", "others")
    require(len(places) == 0 or places[-1] < count, "places", f"below {count}", places[-1:])
    elements = np.zeros(count, np.float32)
    elements[places] = values
    return elements


def lane_fields(payload, count, num_workers, lane_levels):
    """The counts in lanes of that many levels a worker."""
    if not num_workers:
        raise ValueError("lanes are as wide as the number of workers needs, which is not known")
    largest = lane_levels * num_workers
    width = largest.bit_length()  # ceil(log2(m N + 1))
    lanes = 64 // width
    require_length(payload, 8 * -(-count // lanes))
    fields = without_padding(bits_of(np.frombuffer(payload, "<u8"), width, lanes), count, "lane")
    require((fields <= largest).all(), "lanes", f"at most {largest}", fields.max(initial=0))
    return fields.astype(np.int32)


def lane_sums(payload, count, num_workers, levels=1):
    """Sums of the codes of all workers, of a mean; a single worker's code - L (N - 1) where it is its contribution."""
    return lane_fields(payload, count, num_workers, 2 * levels) - levels * num_workers


def lane_votes(payload, count, num_workers):
    """Sums of the signs of all workers; a single worker's sign + N - 1 where it is its contribution."""
    return num_workers - 2 * lane_fields(payload, count, num_workers, 1)


DECODERS = {1: t2_codes, 2: t5_codes, 3: tmask_codes, 4: lane_sums, 5: trans_codes, 16: q4_codes, 17: q8_codes, 18: sign_values, 21: n8_values,
            22: n4_values, 23: e4m3_values}
