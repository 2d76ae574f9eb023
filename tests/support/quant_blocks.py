"""Blocks of the quantised tensor types in numpy: decoding, and random blocks for tiny models.

    values = decode("Q4_K", blocks)                  # uint8 [n, bytes] -> float64 [n, elements]
    blocks = random_blocks("Q4_K", n, 0.02, random)  # uint8 [n, bytes], values of deviation 0.02

Written from the format's description (ggml `ggml-common.h`, `ggml-quants.c` dequantize_row_*), apart
from the C++ decoders, so that each is a check of the other. A row is a whole number of blocks.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10,
                       1, 13, 25, 38, 53, 69, 89, 113], np.float64)


def half(blocks, at):
    """The binary16 number at byte `at` of every block, as float64 [n, 1]."""
    return np.ascontiguousarray(blocks[:, at:at + 2]).view("<f2").astype(np.float64)


def nibbles(raw):
    """Low nibbles, then high nibbles: [n, k] -> [n, 2k]."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float64)


def fifth_bits(blocks, at):
    """The 32 bits of the little-endian word at byte `at`, lowest first, as 0 or 16."""
    return np.unpackbits(blocks[:, at:at + 4], axis=1, bitorder="little").astype(np.float64) * 16


def two_bit_fields(raw, shifts=(0, 2, 4, 6)):
    """[n, k] -> [n, 4, k]: field j holds bits 2j, 2j+1 of every byte."""
    return np.stack([(raw >> s) & 3 for s in shifts], axis=1)


def decode_f32(blocks):
    return blocks.view("<f4").astype(np.float64)


def decode_f16(blocks):
    return blocks.view("<f2").astype(np.float64)


def decode_bf16(blocks):
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def decode_q8_0(blocks):
    return half(blocks, 0) * blocks[:, 2:].view(np.int8)


def decode_q4_0(blocks):
    return half(blocks, 0) * (nibbles(blocks[:, 2:]) - 8)


def decode_q4_1(blocks):
    return half(blocks, 0) * nibbles(blocks[:, 4:]) + half(blocks, 2)


def decode_q5_0(blocks):
    return half(blocks, 0) * (nibbles(blocks[:, 6:]) + fifth_bits(blocks, 2) - 16)


def decode_q5_1(blocks):
    return half(blocks, 0) * (nibbles(blocks[:, 8:]) + fifth_bits(blocks, 4)) + half(blocks, 2)


def decode_iq4_nl(blocks):
    return half(blocks, 0) * IQ4_VALUES[nibbles(blocks[:, 2:]).astype(int)]


def decode_q2_k(blocks):
    n = len(blocks)
    scales = (blocks[:, :16] & 15).astype(np.float64).reshape(n, 16, 1)
    mins = (blocks[:, :16] >> 4).astype(np.float64).reshape(n, 16, 1)
    # Each half of 32 bytes holds four fields of 32 codes, so 8 groups of 16.
    codes = np.concatenate([two_bit_fields(blocks[:, 16:48]), two_bit_fields(blocks[:, 48:80])], 1)
    values = (half(blocks, 80)[:, :, None] * scales * codes.reshape(n, 16, 16)
              - half(blocks, 82)[:, :, None] * mins)
    return values.reshape(n, 256)


def decode_q3_k(blocks):
    n = len(blocks)
    packed = blocks[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = two_bit_fields(packed[:, 8:12]).reshape(n, 16)
    scales = (low | high << 4).astype(np.float64) - 32
    codes = np.concatenate([two_bit_fields(blocks[:, 32:64]), two_bit_fields(blocks[:, 64:96])], 1)
    mask_bits = np.stack([(blocks[:, :32] >> j) & 1 for j in range(8)], axis=1)
    values = codes.astype(np.float64) - np.where(mask_bits == 1, 0, 4)
    values = half(blocks, 108)[:, :, None] * scales[:, :, None] * values.reshape(n, 16, 16)
    return values.reshape(n, 256)


def six_bit_pairs(packed):
    """Q4_K and Q5_K: 12 bytes -> eight scales and eight minima."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], axis=1)
    return scales.astype(np.float64), minima.astype(np.float64)


def scaled_groups(blocks, codes):
    """Q4_K and Q5_K: codes [n, 8, 32] with the block's scales and minima."""
    scales, minima = six_bit_pairs(blocks[:, 4:16])
    values = (half(blocks, 0) * scales)[:, :, None] * codes - (half(blocks, 2) * minima)[:, :, None]
    return values.reshape(len(blocks), 256)


def k_nibbles(raw):
    """128 bytes -> [n, 8, 32]: of each 32 bytes, first the low nibbles, then the high ones."""
    quarters = raw.reshape(len(raw), 4, 1, 32)
    return np.concatenate([quarters & 15, quarters >> 4], axis=2).reshape(len(raw), 8, 32)


def decode_q4_k(blocks):
    return scaled_groups(blocks, k_nibbles(blocks[:, 16:144]).astype(np.float64))


def decode_q5_k(blocks):
    fifth = np.stack([(blocks[:, 16:48] >> j) & 1 for j in range(8)], axis=1)
    return scaled_groups(blocks, k_nibbles(blocks[:, 48:176]) + 16.0 * fifth)


def decode_q6_k(blocks):
    n = len(blocks)
    low = blocks[:, :128].reshape(n, 2, 2, 32)
    high = blocks[:, 128:192].reshape(n, 2, 1, 32)
    # Quarters of a half: low nibbles of both 32-byte runs, then their high nibbles.
    codes = np.concatenate([low & 15, low >> 4], axis=2)
    codes = codes | np.concatenate([(high >> s & 3) << 4 for s in (0, 2, 4, 6)], axis=2)
    scales = blocks[:, 192:208].view(np.int8).astype(np.float64)
    values = scales[:, :, None] * (codes.reshape(n, 16, 16).astype(np.float64) - 32)
    return half(blocks, 208) * values.reshape(n, 256)


def decode_iq4_xs(blocks):
    n = len(blocks)
    high_word = np.ascontiguousarray(blocks[:, 2:4]).view("<u2").astype(np.uint32)
    high = np.concatenate([high_word >> (2 * i) & 3 for i in range(8)], axis=1)
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], axis=2).reshape(n, 8)
    scales = (low | high << 4).astype(np.float64) - 32
    raw = blocks[:, 8:136].reshape(n, 8, 16)
    values = IQ4_VALUES[np.concatenate([raw & 15, raw >> 4], axis=2)]
    return ((half(blocks, 0) * scales)[:, :, None] * values).reshape(n, 256)


class Random:
    """Random numbers that are the same bytes on every machine and numpy version: raw words of PCG64
    and integer arithmetic only (numpy promises nothing about its normal and uniform streams)."""

    def __init__(self, *seed):
        self.words = np.random.PCG64(np.random.SeedSequence(seed))

    def bytes(self, n):
        return self.words.random_raw(-(-n // 8)).astype("<u8").view(np.uint8)[:n].copy()

    def normal(self, n):
        """Nearly normal, deviation 1: the sum of twelve 16-bit uniforms (Irwin-Hall), exact."""
        sums = self.bytes(24 * n).view("<u2").reshape(n, 12).sum(axis=1, dtype=np.int64)
        return (2 * sums - 12 * 65535) / 131072

    def uniform(self, n):
        """[0, 1), multiples of 2^-16."""
        return self.bytes(2 * n).view("<u2") / 65536


@dataclass(frozen=True)
class BlockType:
    ggml_id: int
    elements: int
    bytes: int
    decode: Callable
    scale_at: int = -1        # byte of the binary16 scale of the codes
    offset_at: int = -1       # byte of the binary16 scale or value of the minimum
    centre: float = 0         # offset, in units of the scale, that brings the mean to 0
    deviation: float = 1      # of random codes with a scale of 1 and that offset


TYPES = {
    "F32": BlockType(0, 1, 4, decode_f32),
    "F16": BlockType(1, 1, 2, decode_f16),
    "BF16": BlockType(30, 1, 2, decode_bf16),
    "Q4_0": BlockType(2, 32, 18, decode_q4_0, 0, -1, 0, 4.8),
    "Q4_1": BlockType(3, 32, 20, decode_q4_1, 0, 2, -7.5, 4.8),
    "Q5_0": BlockType(6, 32, 22, decode_q5_0, 0, -1, 0, 9.6),
    "Q5_1": BlockType(7, 32, 24, decode_q5_1, 0, 2, -15.5, 9.6),
    "Q8_0": BlockType(8, 32, 34, decode_q8_0, 0, -1, 0, 77),
    "Q2_K": BlockType(10, 256, 84, decode_q2_k, 80, 82, 1.5, 14.5),
    "Q3_K": BlockType(11, 256, 110, decode_q3_k, 108, -1, 0, 45),
    "Q4_K": BlockType(12, 256, 144, decode_q4_k, 0, 2, 7.5, 268),
    "Q5_K": BlockType(13, 256, 176, decode_q5_k, 0, 2, 15.5, 549),
    "Q6_K": BlockType(14, 256, 210, decode_q6_k, 208, -1, 0, 1424),
    "IQ4_NL": BlockType(20, 32, 18, decode_iq4_nl, 0, -1, 0, 70),
    "IQ4_XS": BlockType(23, 256, 136, decode_iq4_xs, 0, -1, 0, 1298),
}
NAMES = {kind.ggml_id: name for name, kind in TYPES.items()}


def decode(name, blocks):
    """uint8 [n, bytes of a block] -> float64 [n, elements of a block]."""
    return TYPES[name].decode(np.ascontiguousarray(blocks))


def put_half(blocks, at, values):
    blocks[:, at:at + 2] = values.astype("<f2").reshape(-1, 1).view(np.uint8)


def encode_plain(name, values):
    """F32, F16, BF16: float array -> uint8 [n, bytes of an element], rounded to nearest even."""
    flat = np.ascontiguousarray(values, "<f4").reshape(-1, 1)
    if name == "F32":
        return flat.view(np.uint8)
    if name == "F16":
        return flat.astype("<f2").view(np.uint8)
    bits = flat.view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").view(np.uint8)


def random_blocks(name, n, deviation, random):
    """`n` blocks of random codes and scales whose values have mean 0 and about this deviation."""
    kind = TYPES[name]
    if kind.scale_at < 0:
        return encode_plain(name, random.normal(n) * deviation)
    blocks = random.bytes(n * kind.bytes).reshape(n, kind.bytes)
    scales = (0.5 + random.uniform(n)) * (deviation / kind.deviation)
    put_half(blocks, kind.scale_at, scales)
    if kind.offset_at >= 0:
        put_half(blocks, kind.offset_at, scales * kind.centre)
    return blocks


def to_blocks(name, data):
    """Raw tensor bytes -> uint8 [n, bytes of a block]."""
    return np.frombuffer(data, np.uint8).reshape(-1, TYPES[name].bytes)
