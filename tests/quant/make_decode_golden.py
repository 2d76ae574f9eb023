#!/usr/bin/env python3
"""Writes decode_golden.txt: what PyPI `gguf` 0.19.0 (numpy 2.4.6) decodes, for decode_golden_test.cpp.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0
    venv/bin/python make_decode_golden.py > decode_golden.txt

Lines:
    hash TYPE N_BLOCKS SEED HASH     FNV-1a 64 over the f32 bits of N_BLOCKS blocks of splitmix64 bytes
    block TYPE HEX                   one block, followed by
    values HEX32 HEX32 ...           its elements as f32 bits
Random bytes include every code, and one block in 32 has an infinite or NaN scale. A NaN's sign and
payload depend on the order of operands, so every NaN counts as 7fc00000 (arithmetic types only).
"""

import struct

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGML_QUANT_SIZES, dequantize

NAMES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL",
         "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]
N_BLOCKS = 1024
MASK = (1 << 64) - 1

# Byte offsets of the halves of a block: where readable examples get chosen scales.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_XS": [0]}
SCALES = {"ordinary": [0.0123, 0.3], "subnormal": [3e-6, 6e-8], "negative": [-65504.0, -0.0]}


def splitmix_bytes(seed, n):
    """Steele, Lea, Flood 2014; eight little-endian bytes a draw."""
    out = bytearray()
    while len(out) < n:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out += struct.pack("<Q", z ^ (z >> 31))
    return bytes(out[:n])


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def decode(name, data):
    with np.errstate(all="ignore"):
        values = dequantize(np.frombuffer(data, np.uint8).reshape(1, -1), Type[name])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).ravel().copy()
    if name not in ("F32", "BF16"):  # these two are copies of bits
        bits[np.isnan(bits.view(np.float32))] = 0x7FC00000
    return bits


def main():
    for seed, name in enumerate(NAMES, 1):
        size = GGML_QUANT_SIZES[Type[name]][1]
        bits = decode(name, splitmix_bytes(seed, size * N_BLOCKS))
        print(f"hash {name} {N_BLOCKS} {seed} {fnv1a(bits.tobytes()):016x}")
    print(f"hash_all_f16 F16 65536 0 {fnv1a(decode('F16', np.arange(65536, dtype=np.uint16).tobytes()).tobytes()):016x}")
    for seed, (name, offsets) in enumerate(HALVES.items(), 100):
        size = GGML_QUANT_SIZES[Type[name]][1]
        for kind, scales in enumerate(SCALES.values()):
            block = bytearray(splitmix_bytes(1000 * kind + seed, size))
            for offset, scale in zip(offsets, scales):
                block[offset:offset + 2] = np.float16(scale).tobytes()
            print(f"block {name} {block.hex()}")
            print("values", *(f"{b:08x}" for b in decode(name, bytes(block))))


if __name__ == "__main__":
    main()
