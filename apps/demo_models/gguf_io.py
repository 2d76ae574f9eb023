"""A GGUF v3 writer and reader with the decoders of the types that the demo files use. Standard library and numpy only.

    metadata, tensors = read("demo-llada.gguf")      # tensors: {name: (type name, shape innermost first, bytes)}
    weights = dequantize(*tensors["blk.0.attn_q.weight"])                    # float32 [rows, columns]
"""

import math
import struct
from pathlib import Path

import numpy as np

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPES = {"F32": (0, 1, 4), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210)}
TYPE_NAMES = {number: name for name, (number, _, _) in TYPES.items()}


def size_of(kind: str, shape) -> int:
    _, values, size = TYPES[kind]
    return math.prod(shape) // values * size


def packed_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def packed_value(value) -> bytes:
    """int -> u32, float -> f32, bool, str, list of str, list of int -> i32; with the type number in front."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + packed_string(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(packed_string, value))
    return struct.pack("<IIQ", ARRAY, I32, len(value)) + np.asarray(value, "<i4").tobytes()


def write(path: Path, metadata: dict, tensors: list) -> None:
    """tensors: (name, type name, shape innermost first, bytes)."""
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        head += packed_string(key) + packed_value(value)
    offset = 0
    for name, kind, shape, data in tensors:
        if len(data) != size_of(kind, shape):
            raise ValueError(f"{name}: {len(data)} bytes, {kind} {shape} needs {size_of(kind, shape)}")
        head += packed_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", TYPES[kind][0], offset)
        offset += len(data) + -len(data) % ALIGNMENT
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for _, _, _, data in tensors:
            out.write(data + bytes(-len(data) % ALIGNMENT))


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, form: str):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def string(self) -> str:
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind: int):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, n = self.take("IQ")
            return [self.value(inner) for _ in range(n)]
        return self.take({U32: "I", I32: "i", F32: "f", BOOL: "?"}[kind])


def read(path: Path):
    """(metadata, {name: (type name, shape, bytes)}). For our own files: it trusts what it reads."""
    reader = Reader(Path(path).read_bytes())
    if reader.data[:4] != b"GGUF":
        raise ValueError(f"{path}: no GGUF file")
    reader.at = 4
    _, n_tensors, n_keys = reader.take("IQQ")
    metadata = {reader.string(): reader.value(reader.take("I")) for _ in range(n_keys)}
    infos = []
    for _ in range(n_tensors):
        name = reader.string()
        n = reader.take("I")
        shape = tuple(reader.take("Q") for _ in range(n))
        kind, offset = reader.take("IQ")
        infos.append((name, TYPE_NAMES[kind], shape, offset))
    start = reader.at + -reader.at % ALIGNMENT
    tensors = {name: (kind, shape, reader.data[start + offset:start + offset + size_of(kind, shape)])
               for name, kind, shape, offset in infos}
    return metadata, tensors


def halves(block, at):
    return block[:, at:at + 2].copy().view("<f2").astype(np.float32)


def decode_q8_0(b):
    return halves(b, 0) * b[:, 2:].view(np.int8)


def decode_q6_k(b):
    ql, qh = b[:, :128].reshape(-1, 2, 64), b[:, 128:192].reshape(-1, 2, 32)
    low = np.stack((ql[..., :32] & 15, ql[..., 32:] & 15, ql[..., :32] >> 4, ql[..., 32:] >> 4), 2)
    high = np.stack([(qh >> shift) & 3 for shift in (0, 2, 4, 6)], 2)
    codes = (low | high << 4).astype(np.int8).reshape(-1, 16, 16) - 32
    scale = halves(b, 208) * b[:, 192:208].view(np.int8)
    return (scale[..., None] * codes).reshape(-1, 256)


def six_bit_pairs(b):
    """The eight (scale, minimum) pairs of a Q4_K or Q5_K block, times d and dmin."""
    p = b[:, 4:16]
    sc = np.concatenate((p[:, :4] & 63, p[:, 8:] & 15 | p[:, :4] >> 6 << 4), 1)
    mn = np.concatenate((p[:, 4:8] & 63, p[:, 8:] >> 4 | p[:, 4:8] >> 6 << 4), 1)
    return (halves(b, 0) * sc)[..., None], (halves(b, 2) * mn)[..., None]


def nibbles(q):
    """[n, 128] bytes -> [n, 8, 32]: groups 2k in the low, 2k+1 in the high nibbles of bytes 32k .. 32k+31."""
    q = q.reshape(-1, 4, 32)
    return np.stack((q & 15, q >> 4), 2).reshape(-1, 8, 32)


def decode_q4_k(b):
    step, low = six_bit_pairs(b)
    return (step * nibbles(b[:, 16:]) - low).reshape(-1, 256)


def decode_q5_k(b):
    step, low = six_bit_pairs(b)
    fifth = np.stack([(b[:, 16:48] >> j) & 1 for j in range(8)], 1)
    return (step * (nibbles(b[:, 48:]) | fifth << 4) - low).reshape(-1, 256)


DECODERS = {"Q8_0": decode_q8_0, "Q4_K": decode_q4_k, "Q5_K": decode_q5_k, "Q6_K": decode_q6_k}


def dequantize(kind: str, shape, data: bytes):
    """float32, in row-major order: the shape reversed."""
    if kind == "F32":
        values = np.frombuffer(data, "<f4")
    else:
        values = DECODERS[kind](np.frombuffer(data, np.uint8).reshape(-1, TYPES[kind][2]))
    return values.astype(np.float32).reshape(tuple(shape)[::-1])
