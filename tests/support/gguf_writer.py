"""Tiny GGUF files for tests, written with the standard library and numpy only.

    w = GgufWriter()
    w.set("general.architecture", "llada")              # str, bool and float have one type each
    w.set("llada.block_count", 2)                       # int: u32 (i32 when negative)
    w.set("llada.rope.freq_base", 1e4, "f32")           # any type by name
    w.set("tokenizer.ggml.token_type", [1, 1, 3], "i32")  # a list is an array of that type
    w.add("output.weight", numpy_f32_or_f16_array)      # numpy order: last axis is the row
    w.add_raw("blk.0.ffn_up.weight", "Q4_K", (256, 8), block_bytes)  # GGUF order: row length first
    w.write("model.gguf")

Layout: ggml's gguf.h. Block sizes: ggml-common.h.
"""

import struct

import numpy as np

VALUE_TYPES = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7,
               "string": 8, "array": 9, "u64": 10, "i64": 11, "f64": 12}
_FORMATS = {"u8": "<B", "i8": "<b", "u16": "<H", "i16": "<h", "u32": "<I", "i32": "<i",
            "f32": "<f", "bool": "<?", "u64": "<Q", "i64": "<q", "f64": "<d"}

# name: (type id, elements per block, bytes per block)
TENSOR_TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q8_1": (9, 32, 36),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "Q8_K": (15, 256, 292), "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136), "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4),
    "I64": (27, 1, 8), "F64": (28, 1, 8), "IQ1_M": (29, 256, 56), "BF16": (30, 1, 2),
    "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36),
    "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18)}
_NUMPY_TYPES = {"float32": "F32", "float16": "F16", "float64": "F64", "int8": "I8", "int16": "I16",
                "int32": "I32", "int64": "I64"}


def tensor_bytes(type_name, shape):
    """Bytes of a tensor of this type and GGUF shape."""
    _, block, size = TENSOR_TYPES[type_name]
    if shape[0] % block:
        raise ValueError(f"row length {shape[0]} is no multiple of {type_name}'s block {block}")
    return int(np.prod(shape, dtype=np.int64)) // block * size


def _string(value):
    raw = value if isinstance(value, bytes) else value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _scalar(value, type_name):
    return _string(value) if type_name == "string" else struct.pack(_FORMATS[type_name], value)


def _guess_type(value):
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "u32" if value >= 0 else "i32"
    if isinstance(value, (float, np.floating)):
        return "f32"
    if isinstance(value, (str, bytes)):
        return "string"
    raise TypeError(f"no GGUF type for {type(value)}")


class GgufWriter:
    """Collects metadata and tensors; write() or to_bytes() makes the file.

    Lies are told by overwriting: `version`, `n_tensors`, `n_keys`, and the fields of `tensors`
    (dicts with name, shape, type, data, offset; n_dims where the number written shall differ from the shape's).
    """

    def __init__(self, alignment=32):
        self.version = 3
        self.alignment = alignment
        self.n_tensors = None
        self.n_keys = None
        self.entries = []
        self.tensors = []
        if alignment != 32:
            self.set("general.alignment", alignment)

    def set(self, key, value, type_name=None):
        """A scalar, or a list/tuple/array as an array of `type_name` (guessed from its first element)."""
        if isinstance(value, (list, tuple, np.ndarray)):
            element = type_name or (_guess_type(value[0]) if len(value) else "i32")
            head = struct.pack("<IQ", VALUE_TYPES[element], len(value))
            body = b"".join(_scalar(v, element) for v in value)
            return self.set_raw(key, VALUE_TYPES["array"], head + body)
        type_name = type_name or _guess_type(value)
        return self.set_raw(key, VALUE_TYPES[type_name], _scalar(value, type_name))

    def set_raw(self, key, type_id, value_bytes):
        """Any type id with any bytes."""
        self.entries.append((key, type_id, value_bytes))
        return self

    def add(self, name, array):
        """A tensor from a numpy array of float16/32/64 or int8..64; its axes are reversed on file."""
        array = np.ascontiguousarray(array)
        return self.add_raw(name, _NUMPY_TYPES[array.dtype.name], array.shape[::-1], array.tobytes())

    def add_raw(self, name, type_name, shape, data):
        """A tensor from its blocks; `shape` in GGUF order (row length first)."""
        data = bytes(data)
        if len(data) != tensor_bytes(type_name, shape):
            raise ValueError(f"{name}: {len(data)} bytes, {type_name} {tuple(shape)} needs "
                             f"{tensor_bytes(type_name, shape)}")
        self.tensors.append({"name": name, "type": TENSOR_TYPES[type_name][0],
                             "shape": [int(n) for n in shape], "data": data, "offset": None})
        return self

    def _padding(self, n_bytes):
        return b"\0" * (-n_bytes % self.alignment)

    def _directory(self):
        out, next_offset = [], 0
        for t in self.tensors:
            offset = next_offset if t["offset"] is None else t["offset"]
            out.append(_string(t["name"]) + struct.pack("<I", t.get("n_dims", len(t["shape"]))))
            out.append(struct.pack(f"<{len(t['shape'])}QIQ", *t["shape"], t["type"], offset))
            next_offset += len(t["data"]) + len(self._padding(len(t["data"])))
        return b"".join(out)

    def _pieces(self):
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.entries) if self.n_keys is None else self.n_keys
        head = b"GGUF" + struct.pack("<IQQ", self.version, n_tensors, n_keys)
        head += b"".join(_string(k) + struct.pack("<I", t) + v for k, t, v in self.entries)
        head += self._directory()
        yield head
        yield self._padding(len(head)) if self.tensors else b""
        for t in self.tensors:
            yield t["data"]
            yield self._padding(len(t["data"]))

    def to_bytes(self):
        return b"".join(self._pieces())

    def write(self, path):
        with open(path, "wb") as f:
            f.writelines(self._pieces())
