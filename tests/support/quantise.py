"""Rounds real weights to quantised blocks, for test models whose weights come from a trained one.

    blocks = quantise("Q4_K", values)                # float [..., multiple of 256] -> uint8 [n, bytes]

Plain rounding to the nearest code with the scale that the extremes of a group ask for; the search for
better scales that llama-quantize does is of no use here. `quant_blocks.decode` is the other direction.
"""

import numpy as np

from quant_blocks import encode_plain


def half_bytes(values):
    return np.ascontiguousarray(values, "<f2").reshape(-1, 1).view(np.uint8)


def rounded_half(values):
    return np.asarray(values, "<f2").astype(np.float64)


def codes_of(values, step, low, high):
    """round(values / step) clipped to low .. high; 0 where step is 0."""
    safe = np.where(step == 0, 1, step)
    return np.where(step == 0, 0, np.clip(np.rint(values / safe), low, high)).astype(np.int64)


def quantise_q8_0(values):
    groups = values.reshape(-1, 32)
    step = rounded_half(np.abs(groups).max(1) / 127)
    codes = codes_of(groups, step[:, None], -127, 127).astype(np.int8)
    return np.hstack([half_bytes(step), codes.view(np.uint8)])


def quantise_q4_0(values):
    groups = values.reshape(-1, 32)
    largest = groups[np.arange(len(groups)), np.abs(groups).argmax(1)]
    step = rounded_half(largest / -8)
    codes = (codes_of(groups, step[:, None], -8, 7) + 8).astype(np.uint8)
    return np.hstack([half_bytes(step), codes[:, :16] | codes[:, 16:] << 4])


def scales_minima_codes(values, top):
    """What Q4_K and Q5_K share: header bytes [n, 16], codes uint8 [n, 8, 32] of 0 .. top."""
    groups = values.reshape(-1, 8, 32)
    low = -np.minimum(groups.min(2), 0)
    step = (groups.max(2) + low) / top
    d, dmin = rounded_half(step.max(1) / 63), rounded_half(low.max(1) / 63)
    scales = codes_of(step, d[:, None], 0, 63).astype(np.uint8)
    minima = codes_of(low, dmin[:, None], 0, 63).astype(np.uint8)
    offset = (dmin[:, None] * minima)[:, :, None]
    codes = codes_of(groups + offset, (d[:, None] * scales)[:, :, None], 0, top).astype(np.uint8)
    packed = np.hstack([scales[:, :4] | scales[:, 4:] >> 4 << 6, minima[:, :4] | minima[:, 4:] >> 4 << 6,
                        scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4])
    return np.hstack([half_bytes(d), half_bytes(dmin), packed]), codes


def quantise_q4_k(values):
    header, codes = scales_minima_codes(values, 15)
    return np.hstack([header, (codes[:, 0::2] | codes[:, 1::2] << 4).reshape(-1, 128)])


def quantise_q5_k(values):
    header, codes = scales_minima_codes(values, 31)
    fifth = np.bitwise_or.reduce((codes >> 4) << np.arange(8, dtype=np.uint8)[:, None], axis=1)
    low = codes & 15
    return np.hstack([header, fifth, (low[:, 0::2] | low[:, 1::2] << 4).reshape(-1, 128)])


def quantise_q6_k(values):
    groups = values.reshape(-1, 16, 16)
    step = np.abs(groups).max(2) / 31
    d = rounded_half(step.max(1) / 127)
    scales = codes_of(step, d[:, None], 0, 127)
    codes = codes_of(groups, (d[:, None] * scales)[:, :, None], -32, 31) + 32
    quarters = codes.astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = quarters & 15, quarters >> 4
    low_bytes = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], 2)
    high_bytes = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    return np.hstack([low_bytes.reshape(-1, 128), high_bytes.reshape(-1, 64),
                      scales.astype(np.int8).view(np.uint8), half_bytes(d)])


QUANTISERS = {"Q8_0": quantise_q8_0, "Q4_0": quantise_q4_0, "Q4_K": quantise_q4_k,
              "Q5_K": quantise_q5_k, "Q6_K": quantise_q6_k,
              **{kind: lambda values, kind=kind: encode_plain(kind, values.reshape(-1))
                 for kind in ("F32", "F16", "BF16")}}


def quantise(kind, values):
    return QUANTISERS[kind](np.asarray(values, np.float64))
