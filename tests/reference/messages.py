"""Parses message headers and records, from docs/wire-format.md. The codecs of this folder decode the payloads."""

import dataclasses
import struct

import numpy as np

from .packing import require

KINDS = {1: "scalers", 2: "gradient", 3: "mean", 4: "pull", 5: "push", 6: "state", 7: "parameters", 8: "stop", 9: "leave",
         10: "sum"}
FP32, BF16 = 1, 2
LANES, RUNS = 4, 19  # formats of means
HEADER = struct.Struct("<4sHHQQQIIQQII")
RECORD = struct.Struct("<IBBHQQQQII")
CHUNK = 4096
CHECKED_BYTES = 1 << 16  # longer payloads: the checksum is too slow here


def crc32c(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ CRC_TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def _crc_entry(register: int) -> int:
    for _ in range(8):
        register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register


CRC_TABLE = [_crc_entry(byte) for byte in range(256)]


def up_to(multiple: int, number: int) -> int:
    return -(-number // multiple) * multiple


@dataclasses.dataclass
class Record:
    """A slice of a tensor."""

    segment: int
    codec: int
    format: int
    first: int
    count: int
    scalers: np.ndarray
    payload: bytes

    def values(self) -> np.ndarray:
        """Elements of an fp32 or bf16 slice, as fp32."""
        if self.codec == FP32:
            return np.frombuffer(self.payload, "<f4")
        require(self.codec == BF16, "no slice of fp32 or bf16")
        halves = np.frombuffer(self.payload, "<u2")[: self.count]
        return (halves.astype(np.uint32) << 16).view(np.float32)


@dataclasses.dataclass
class Message:
    kind: str
    fingerprint: int
    step: int
    worker: int
    records: list[Record]


def read(data: bytes) -> Message:
    """Raises packing.MalformedPayload for lengths, offsets, padding and checksums that violate docs/wire-format.md."""
    (magic, version, kind, _, fingerprint, step, worker, num_records, payload_bytes, num_elements, payload_checksum,
     header_checksum) = HEADER.unpack_from(data)
    begin = HEADER.size + num_records * RECORD.size
    payload = data[begin:]
    require((magic, version) == (b"TGRD", 1) and kind in KINDS, "magic, version or kind")
    require(crc32c(data[: HEADER.size - 4] + data[HEADER.size : begin]) == header_checksum, "header checksum")
    require(payload_bytes == len(payload), "length of the payload")
    require(payload_bytes > CHECKED_BYTES or crc32c(payload) == payload_checksum, "payload checksum")
    records, end = [], 0
    for index in range(num_records):
        segment, codec, form, zero, first, count, offset, num_bytes, num_scalers, zero2 = RECORD.unpack_from(
            data, HEADER.size + index * RECORD.size)
        require(zero == zero2 == first % CHUNK == 0 and offset == up_to(8, end), f"record {index}")
        codes = up_to(8, offset + 4 * num_scalers)
        require(not any(payload[end:offset] + payload[offset + 4 * num_scalers : codes]), f"padding before record {index}")
        end = codes + num_bytes
        records.append(Record(segment, codec, form, first, count, np.frombuffer(payload, "<f4", num_scalers, offset)
                              if num_scalers else np.zeros(0, np.float32), payload[codes:end]))
    require(not records or end == len(payload), "end of the last codes")
    require(sum(record.count for record in records) == num_elements, "number of elements")
    return Message(KINDS[kind], fingerprint, step, worker, records)
