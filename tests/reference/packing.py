"""Packs and unpacks codes: fields of 32-bit words, t2, t5, tmask, trans, lanes.

Bytes that no encoder writes (wrong length, bits after the last code, invalid values) raise MalformedPayload.
"""

import numpy as np

CHUNK = 4096  # codes per group of signs in tmask and trans


class MalformedPayload(ValueError):
    """Bytes that no encoder writes."""


def require(condition, what: str):
    if not condition:
        raise MalformedPayload(what)


def filled(payload: bytes, multiple: int = 4) -> bytes:
    """Pads with zero bytes to a multiple."""
    return payload + bytes(-len(payload) % multiple)


def unfilled(payload: bytes, size: int, multiple: int = 4) -> bytes:
    """The first `size` bytes; raises MalformedPayload unless the rest is the padding of filled()."""
    require(len(payload) == -(-size // multiple) * multiple,
            f"{len(payload)} bytes, expected {size} filled up to {multiple}")
    require(not any(payload[size:]), "padding is not zero")
    return payload[:size]


def pack_fields(fields: np.ndarray, width: int, word_bits: int = 32) -> bytes:
    """Fields of `width` bits, low bits first, floor(word_bits / width) to a word. fields: integers [n]"""
    per_word = word_bits // width
    num_words = -(-len(fields) // per_word)
    padded = np.zeros(num_words * per_word, np.uint64)
    padded[: len(fields)] = fields
    shifts = (width * np.arange(per_word)).astype(np.uint64)
    words = np.bitwise_or.reduce(padded.reshape(num_words, per_word) << shifts, axis=1)
    return words.astype(f"<u{word_bits // 8}").tobytes()


def unpack_fields(payload: bytes, count: int, width: int, word_bits: int = 32) -> np.ndarray:
    """Inverse of pack_fields(): `count` fields as int64."""
    per_word = word_bits // width
    num_words = -(-count // per_word)
    require(len(payload) == word_bits // 8 * num_words,
            f"{len(payload)} bytes, expected {num_words} words of {word_bits} bits")
    words = np.frombuffer(payload, f"<u{word_bits // 8}").astype(np.uint64)
    shifts = (width * np.arange(per_word)).astype(np.uint64)
    fields = ((words[:, None] >> shifts) & np.uint64(2**width - 1)).reshape(-1)[:count].astype(np.int64)
    # Packing again detects bits outside of the fields.
    require(pack_fields(fields, width, word_bits) == payload, "bits behind the last field are not zero")
    return fields


def pack_string(fields: np.ndarray, width: int, group: int) -> bytes:
    """Fields of `width` bits one after the other, low bits first, zero fields up to a multiple of `group`, zero bytes up
    to a multiple of 4."""
    padded = np.zeros(-(-len(fields) // group) * group, np.int64)
    padded[: len(fields)] = fields
    bits = (padded[:, None] >> np.arange(width) & 1).astype(np.uint8)
    return filled(np.packbits(bits, bitorder="little").tobytes())


def unpack_string(payload: bytes, count: int, width: int, group: int) -> np.ndarray:
    """Inverse of pack_string(): `count` fields as int64."""
    used = unfilled(payload, -(-count // group) * group * width // 8)
    bits = np.unpackbits(np.frombuffer(used, np.uint8), bitorder="little").reshape(-1, width).astype(np.int64)
    fields = bits @ (1 << np.arange(width))
    require(not fields[count:].any(), "bits behind the last field are not zero")
    return fields[:count]


def pack_t2(codes: np.ndarray) -> bytes:
    """2 bits a code: 00 is 0, 01 is +1, 11 is -1. codes: -1, 0, +1"""
    return pack_fields(codes.astype(np.int64) & 3, 2)


def unpack_t2(payload: bytes, count: int) -> np.ndarray:
    fields = unpack_fields(payload, count, 2)
    require(not (fields == 2).any(), "t2: bits 10")
    return np.where(fields == 3, -1, fields)


def pack_t5(codes: np.ndarray) -> bytes:
    """Five codes per byte: the sum of (code + 1) 3^i; missing codes of the last byte have digit 0."""
    digits = np.zeros(-(-len(codes) // 5) * 5, np.int64)
    digits[: len(codes)] = codes + 1
    return filled((digits.reshape(-1, 5) * 3 ** np.arange(5)).sum(axis=1).astype(np.uint8).tobytes())


def unpack_t5(payload: bytes, count: int) -> np.ndarray:
    numbers = np.frombuffer(unfilled(payload, -(-count // 5)), np.uint8).astype(np.int64)
    require((numbers <= 242).all(), "t5: a byte above 242")
    digits = (numbers[:, None] // 3 ** np.arange(5) % 3).reshape(-1)
    require(not digits[count:].any(), "t5: digits behind the last code")
    return digits[:count] - 1


def pack_tmask(codes: np.ndarray) -> bytes:
    """Byte offsets of each chunk's signs and their end, a mask of non-zeros, sign bits; chunks start at whole bytes."""
    signs = [np.packbits(chunk[chunk != 0] < 0, bitorder="little").tobytes()
             for chunk in (codes[i : i + CHUNK] for i in range(0, len(codes), CHUNK))]
    offsets = np.cumsum([0] + [len(of_chunk) for of_chunk in signs])
    return offsets.astype("<u4").tobytes() + pack_fields((codes != 0).astype(np.int64), 1) + filled(b"".join(signs))


def unpack_tmask(payload: bytes, count: int) -> np.ndarray:
    num_offsets = -(-count // CHUNK) + 1
    begin = 4 * num_offsets + 4 * -(-count // 32)
    require(len(payload) >= begin, f"tmask: {len(payload)} bytes, expected at least {begin}")
    offsets = np.frombuffer(payload, "<u4", num_offsets).tolist()
    mask = unpack_fields(payload[4 * num_offsets : begin], count, 1) == 1
    signs = unfilled(payload[begin:], offsets[-1])
    codes = np.zeros(count, np.int64)
    end = 0
    for chunk, offset in enumerate(offsets[:-1]):
        places = CHUNK * chunk + np.flatnonzero(mask[CHUNK * chunk : CHUNK * (chunk + 1)])
        begin, end = end, end + -(-len(places) // 8)
        require(offset == begin, f"tmask: signs of chunk {chunk} begin at {offset}, not at {begin}")
        require(end <= len(signs), f"tmask: {len(signs)} bytes of signs, but {end} are needed")
        bits = np.unpackbits(np.frombuffer(signs[begin:end], np.uint8), bitorder="little")
        require(not bits[len(places) :].any(), "tmask: signs behind the last of a chunk")
        codes[places] = 1 - 2 * bits[: len(places)].astype(np.int64)
    require(end == offsets[-1], f"tmask: {offsets[-1]} bytes of signs, but {end} are needed")
    return codes


def mask_level(mask: np.ndarray) -> int:
    """The fraction of zeros in 64ths, from 12 to 63. mask: at least one code, 1 where it is not 0"""
    return min(max((64 * int((mask == 0).sum()) + len(mask) // 2) // len(mask), 12), 63)


def mask_frequencies(level: int) -> np.ndarray:
    """rANS frequencies of the 256 mask bytes, with sum 4096; byte 0 has the remainder."""
    ones = [bin(byte).count("1") for byte in range(256)]
    frequencies = np.array([max(1, level ** (8 - j) * (64 - level) ** j >> 36) for j in ones])
    frequencies[0] += 4096 - frequencies.sum()
    return frequencies


def code_mask(mask: np.ndarray) -> bytes:
    """Level, a zero byte and the rANS-coded mask of a chunk (from the last byte to the first); level 0 and the raw mask
    if that is not longer."""
    plain = np.packbits(mask, bitorder="little").tobytes()
    level = mask_level(mask)
    frequencies = mask_frequencies(level).tolist()
    starts = np.cumsum([0, *frequencies]).tolist()
    states, words = [2**15, 2**15], []
    for place in reversed(range(len(plain))):
        x, f = states[place % 2], frequencies[plain[place]]
        if x >= f * 2**19:
            words.insert(0, x % 2**16)
            x >>= 16
        states[place % 2] = x // f * 4096 + x % f + starts[plain[place]]
    coded = np.array(states, "<u4").tobytes() + np.array(words, "<u2").tobytes()
    return bytes([level, 0]) + coded if len(coded) < len(plain) else bytes(2) + plain


def decode_mask(record: bytes, count: int) -> tuple[np.ndarray, int]:
    """The mask of a chunk's record, and the offset of its signs."""
    num_bytes = -(-count // 8)
    require(len(record) >= 2, f"trans: a record of {len(record)} bytes")
    level = record[0]
    require(record[1] == 0 and (level == 0 or 12 <= level <= 63), f"trans: a record of level {level}")
    plain, end = record[2 : 2 + num_bytes], 2 + num_bytes
    if level != 0:
        require(len(record) >= 10, f"trans: a coded record of {len(record)} bytes")
        frequencies = mask_frequencies(level)
        byte_of, starts = np.repeat(np.arange(256), frequencies).tolist(), np.cumsum([0, *frequencies]).tolist()
        states, end = np.frombuffer(record, "<u4", 2, 2).tolist(), 10
        plain = bytearray()
        for place in range(num_bytes):
            low = states[place % 2] % 4096
            plain.append(byte_of[low])
            x = int(frequencies[byte_of[low]]) * (states[place % 2] // 4096) + low - starts[byte_of[low]]
            if x < 2**15:
                require(end + 2 <= len(record), "trans: a record without its last words")
                x, end = x * 2**16 + int.from_bytes(record[end : end + 2], "little"), end + 2
            states[place % 2] = x
        require(states == [2**15, 2**15], f"trans: states end at {states}")
    require(len(plain) == num_bytes, f"trans: {len(plain)} mask bytes, expected {num_bytes}")
    bits = np.unpackbits(np.frombuffer(bytes(plain), np.uint8), bitorder="little")
    require(not bits[count:].any(), "trans: a mask behind the last code")
    require(record[:end] == code_mask(bits[:count]), "trans: a mask that is coded in another way")
    return bits[:count] == 1, end


def pack_trans(codes: np.ndarray) -> bytes:
    """Offsets of each chunk's record and the end, in units of 2 bytes; then records: coded mask, signs."""
    records = []
    for begin in range(0, len(codes), CHUNK):
        chunk = codes[begin : begin + CHUNK]
        signs = np.packbits(chunk[chunk != 0] < 0, bitorder="little").tobytes()
        records.append(filled(code_mask((chunk != 0).astype(np.uint8)) + signs, 2))
    offsets = np.cumsum([0] + [len(record) // 2 for record in records])
    return offsets.astype("<u4").tobytes() + filled(b"".join(records))


def unpack_trans(payload: bytes, count: int) -> np.ndarray:
    num_offsets = -(-count // CHUNK) + 1
    require(len(payload) >= 4 * num_offsets, f"trans: {len(payload)} bytes, expected at least {4 * num_offsets}")
    offsets = np.frombuffer(payload, "<u4", num_offsets).tolist()
    require(offsets[0] == 0 and offsets == sorted(offsets), f"trans: records begin at {offsets}")
    records = unfilled(payload[4 * num_offsets :], 2 * offsets[-1])
    codes = np.zeros(count, np.int64)
    for chunk, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        record = records[2 * begin : 2 * end]
        mask, signs_begin = decode_mask(record, min(CHUNK, count - CHUNK * chunk))
        places = CHUNK * chunk + np.flatnonzero(mask)
        signs = unfilled(record, signs_begin + -(-len(places) // 8), 2)[signs_begin:]
        bits = np.unpackbits(np.frombuffer(signs, np.uint8), bitorder="little")
        require(not bits[len(places) :].any(), "trans: signs behind the last of a chunk")
        codes[places] = 1 - 2 * bits[: len(places)].astype(np.int64)
    return codes


def lane_bits(levels: int, num_workers: int) -> int:
    """ceil(log2(levels N + 1)): bits of a sum of N numbers from 0 to `levels`."""
    return (levels * num_workers).bit_length()


def pack_lanes(numbers: np.ndarray, levels: int, num_workers: int) -> bytes:
    """Lanes of 64-bit words, which add as integers. numbers: 0 to `levels` of one worker, or sums over workers"""
    return pack_fields(numbers, lane_bits(levels, num_workers), 64)


def unpack_lanes(payload: bytes, count: int, levels: int, num_workers: int) -> np.ndarray:
    numbers = unpack_fields(payload, count, lane_bits(levels, num_workers), 64)
    require((numbers <= levels * num_workers).all(), f"lanes: a number above {levels} x {num_workers}")
    return numbers
