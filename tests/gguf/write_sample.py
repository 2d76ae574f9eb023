"""Writes the file that python_writer_test.cpp expects, byte for byte: write_sample.py OUT"""

import sys

import numpy as np
from gguf_writer import TENSOR_TYPES, GgufWriter, tensor_bytes

w = GgufWriter(alignment=64)
for name, value in [("u8", 255), ("i8", -128), ("u16", 65535), ("i16", -32768), ("u32", 4294967295),
                    ("i32", -2147483648), ("f32", 0.1), ("bool", True), ("string", "café"),
                    ("u64", 18446744073709551615), ("i64", -9223372036854775808), ("f64", 0.1)]:
    w.set("scalar." + name, value, name)
    w.set("array." + name, [value, value], name)
w.set("guess.int", 7).set("guess.negative", -7).set("guess.float", 1.5).set("guess.bool", False)
w.set("guess.text", "x").set("guess.array", ["a", "b"]).set("guess.bytes", b"\xff")
w.add("numpy", np.arange(6, dtype=np.float32).reshape(2, 3))
for name, (_, block, _) in TENSOR_TYPES.items():
    n = tensor_bytes(name, (block, 2))
    w.add_raw("raw." + name, name, (block, 2), bytes(i % 251 for i in range(n)))
w.write(sys.argv[1])
