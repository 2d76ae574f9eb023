"""Quantisers for the block formats of the demo files: float32 [rows, columns] -> uint8 [rows, bytes].

Each looks for the scale of a group by trying several and keeping the one with the least squared error, where the scale for
a given set of codes is the least-squares one. `gguf_io.dequantize` is the independent other direction.
"""

import torch


def half(x):
    """Rounds to half precision, as the file will hold it. Returns (float32 value, bytes [..., 2])."""
    h = x.to(torch.float16)
    return h.float(), h[..., None].view(torch.uint8)


def safe_inverse(x):
    return torch.where(x == 0, 0.0, 1.0 / torch.where(x == 0, 1.0, x))


def best_symmetric_scale(groups, top):
    """groups [..., n] -> scale [...] so that scale * code is near, with codes in -top .. top-1."""
    peak = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))      # signed: it gets the code -top
    best = torch.full(groups.shape[:-1], -1.0, device=groups.device)
    scale = torch.zeros_like(best)
    for step in range(-9, 10):
        inverse = -(top + 0.1 * step) * safe_inverse(peak)
        codes = (groups * inverse).round().clamp(-top, top - 1)
        xq, qq = (groups * codes).sum(-1), codes.square().sum(-1)
        gain = xq.square() * safe_inverse(qq)                            # how much of the squared sum is explained
        better = gain > best
        best = torch.where(better, gain, best)
        scale = torch.where(better, xq * safe_inverse(qq), scale)
    return scale


def best_scale_and_min(groups, top):
    """groups [..., n] -> (scale, minimum >= 0) so that scale * code - minimum is near, with codes in 0 .. top."""
    low = groups.amin(-1, keepdim=True).clamp(max=0)
    spread = groups.amax(-1, keepdim=True).clamp(min=0) - low
    n = groups.size(-1)
    best = torch.full(groups.shape[:-1], torch.inf, device=groups.device)
    scale, minimum = torch.zeros_like(best), torch.zeros_like(best)
    for step in range(-10, 11):
        codes = ((groups - low) * (top + 0.1 * step) * safe_inverse(spread)).round().clamp(0, top)
        # Least squares for x = s * q + b, with b <= 0 because the file holds -b as an unsigned number.
        q, x = codes.sum(-1), groups.sum(-1)
        qq, xq = codes.square().sum(-1), (codes * groups).sum(-1)
        s = (n * xq - q * x) * safe_inverse(n * qq - q.square())
        b = (x - s * q) / n
        s = torch.where(b > 0, xq * safe_inverse(qq), s)
        b = b.clamp(max=0)
        error = (s[..., None] * codes + b[..., None] - groups).square().sum(-1)
        better = (error < best) & (s >= 0)
        best = torch.where(better, error, best)
        scale, minimum = torch.where(better, s, scale), torch.where(better, -b, minimum)
    return scale, minimum


def encode_q8_0(x):
    """Per 32: half scale, 32 signed bytes."""
    groups = x.view(-1, 32)
    d, d_bytes = half(groups.abs().amax(-1) / 127)
    codes = (groups * safe_inverse(d)[:, None]).round().clamp(-127, 127).to(torch.int8)
    return torch.cat((d_bytes, codes.view(torch.uint8)), -1).view(x.size(0), -1)


def codes_q6_k(x):
    """Codes [blocks, 16, 16] in -32 .. 31, the signed scale of each 16, and d: a value is d * scale * code."""
    groups = x.reshape(-1, 16, 16)
    scale = best_symmetric_scale(groups, 32)
    peak = scale.gather(-1, scale.abs().argmax(-1, keepdim=True))[:, 0]
    d, d_bytes = half(peak / -128)
    scales = (scale * safe_inverse(d)[:, None]).round().clamp(-128, 127)
    step = (d[:, None] * scales)[..., None]
    return (groups * safe_inverse(step)).round().clamp(-32, 31), scales, step, d_bytes


def encode_q6_k(x):
    """Per 256: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, half d."""
    codes, scales, _, d_bytes = codes_q6_k(x)
    quarter = (codes + 32).to(torch.uint8).view(-1, 2, 4, 32)   # two halves of four quarters
    low, high = quarter & 15, quarter >> 4
    ql = torch.cat((low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4), -1).flatten(1)
    qh = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).flatten(1)
    return torch.cat((ql, qh, scales.to(torch.int8).view(torch.uint8), d_bytes), -1).view(x.size(0), -1)


def codes_q4_k(x, top):
    """Of Q4_K (top 15) and Q5_K (31): codes [blocks, 8, 32], step and low of each 32 (a value is step * code - low), and the
    scales, minima and halves that these came from."""
    groups = x.reshape(-1, 8, 32)
    scale, minimum = best_scale_and_min(groups, top)
    d, d_bytes = half(scale.amax(-1) / 63)
    dmin, dmin_bytes = half(minimum.amax(-1) / 63)
    sc = (scale * safe_inverse(d)[:, None]).round().clamp(0, 63)
    mn = (minimum * safe_inverse(dmin)[:, None]).round().clamp(0, 63)
    step, low = (d[:, None] * sc)[..., None], (dmin[:, None] * mn)[..., None]
    return ((groups + low) * safe_inverse(step)).round().clamp(0, top), step, low, (sc, mn, d_bytes, dmin_bytes)


def header_and_codes(x, top):
    """The part that Q4_K and Q5_K share: (header bytes [blocks, 16], codes [blocks, 8, 32])."""
    codes, _, _, (sc, mn, d_bytes, dmin_bytes) = codes_q4_k(x, top)
    sc, mn = sc.to(torch.uint8), mn.to(torch.uint8)
    # Pairs 0-3 keep their six bits; pairs 4-7 have four bits in the last bytes and two on top of the first ones.
    packed = torch.cat((sc[:, :4] | sc[:, 4:] >> 4 << 6, mn[:, :4] | mn[:, 4:] >> 4 << 6,
                        sc[:, 4:] & 15 | (mn[:, 4:] & 15) << 4), -1)
    return torch.cat((d_bytes, dmin_bytes, packed), -1), codes.to(torch.uint8)


def encode_q4_k(x):
    """Per 256: half d and dmin, 12 bytes of scales and minima, 128 bytes of nibbles."""
    header, codes = header_and_codes(x, 15)
    return torch.cat((header, (codes[:, 0::2] | codes[:, 1::2] << 4).flatten(1)), -1).view(x.size(0), -1)


def encode_q5_k(x):
    """As Q4_K with 32 bytes of fifth bits (bit j of byte l belongs to value l of group j) before the nibbles."""
    header, codes = header_and_codes(x, 31)
    fifth = sum((codes[:, j] >> 4) << j for j in range(8))
    low = codes & 15
    return torch.cat((header, fifth, (low[:, 0::2] | low[:, 1::2] << 4).flatten(1)), -1).view(x.size(0), -1)


ENCODERS = {"Q8_0": encode_q8_0, "Q4_K": encode_q4_k, "Q5_K": encode_q5_k, "Q6_K": encode_q6_k}


def rounded(x, kind: str):
    """x [.., columns] as a file of that kind gives it back, without making the bytes."""
    if kind == "Q6_K":
        codes, _, step, _ = codes_q6_k(x)
        return (step * codes).view_as(x)
    codes, step, low, _ = codes_q4_k(x, {"Q4_K": 15, "Q5_K": 31}[kind])
    return (step * codes - low).view_as(x)


def encode(x, kind: str) -> bytes:
    if kind == "F32":
        return x.detach().float().cpu().numpy().astype("<f4").tobytes()
    return ENCODERS[kind](x.detach().float().contiguous()).cpu().numpy().tobytes()
