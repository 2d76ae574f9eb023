"""The two networks, as the GGUF runtimes define them: RMS norm, rotary positions, full attention, SwiGLU, tied output.

Weights of the same kind are stacked over layers (`wq` is [layers, out, in]), which lets the optimizer treat them in one
batch. Start with `hidden()`: it reads like the forward pass on paper.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Config:
    architecture: str        # "llada" or "dream"
    vocab: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    rope_base: float
    norm_epsilon: float

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def qkv_bias(self) -> bool:
        return self.architecture == "dream"

    @property
    def shifted(self) -> bool:
        """Row i-1 predicts position i."""
        return self.architecture == "dream"

    def as_dict(self) -> dict:
        return asdict(self)


CONFIGS = {
    "llada": Config("llada", vocab=1920, layers=8, width=512, heads=8, kv_heads=8, ffn=768, rope_base=10000.0,
                    norm_epsilon=1e-5),
    "dream": Config("dream", vocab=2048, layers=9, width=512, heads=8, kv_heads=2, ffn=1024, rope_base=10000.0,
                    norm_epsilon=1e-6),
}


def rms_norm(x, weight, epsilon):
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + epsilon) * weight).to(x.dtype)


def rotate(x, cos, sin, adjacent: bool):
    """Rotary positions. x [n, heads, d]; cos, sin [n, 1, d/2]. Adjacent pairs (NORM) for LLaDA, halves (NEOX) for Dream."""
    if adjacent:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def before_attention(h, norm, wq, wk, wv, bq, bk, bv, cos, sin, config: Config):
    """h [n, width] -> q [n, heads, d], k and v [n, kv_heads, d]."""
    a = rms_norm(h, norm, config.norm_epsilon)
    q, k, v = (F.linear(a, w, b).unflatten(-1, (-1, config.head_dim)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    adjacent = config.architecture == "llada"
    return rotate(q, cos, sin, adjacent).to(h.dtype), rotate(k, cos, sin, adjacent).to(h.dtype), v


def after_attention(h, o, wo, norm, wg, wu, wd, config: Config):
    """Adds the attention output and the feed-forward part. h [n, width], o [n, heads * d]."""
    h = h + F.linear(o, wo)
    f = rms_norm(h, norm, config.norm_epsilon)
    return h + F.linear(F.silu(F.linear(f, wg)) * F.linear(f, wu), wd)


class DiffusionModel(nn.Module):
    MATRICES = ("wq", "wk", "wv", "wo", "wg", "wu", "wd")
    BIASES = ("bq", "bk", "bv")

    def __init__(self, config: Config):
        super().__init__()
        self.config = c = config
        kv = c.kv_heads * c.head_dim
        shapes = {"wq": (c.width, c.width), "wk": (kv, c.width), "wv": (kv, c.width), "wo": (c.width, c.width),
                  "wg": (c.ffn, c.width), "wu": (c.ffn, c.width), "wd": (c.width, c.ffn)}
        self.embedding = nn.Parameter(torch.randn(c.vocab, c.width) * 0.02)
        for name, (rows, columns) in shapes.items():
            scale = columns ** -0.5 / ((2 * c.layers) ** 0.5 if name in ("wo", "wd") else 1.0)
            setattr(self, name, nn.Parameter(torch.randn(c.layers, rows, columns) * scale))
        if c.qkv_bias:
            for name, size in (("bq", c.width), ("bk", kv), ("bv", kv)):
                setattr(self, name, nn.Parameter(torch.zeros(c.layers, size)))
        self.attn_norm = nn.Parameter(torch.ones(c.layers, c.width))
        self.ffn_norm = nn.Parameter(torch.ones(c.layers, c.width))
        self.output_norm = nn.Parameter(torch.ones(c.width))
        self.compiled = (before_attention, after_attention)

    def compile_parts(self):
        """Compiles the parts between attentions. They see [tokens, width], so row length does not matter to them."""
        self.compiled = tuple(torch.compile(f, dynamic=False) for f in (before_attention, after_attention))

    def angles(self, length: int, device):
        half = self.config.head_dim // 2
        frequency = self.config.rope_base ** (-torch.arange(half, dtype=torch.float64, device=device) / half)
        angle = torch.arange(length, dtype=torch.float64, device=device)[:, None] * frequency
        return angle.cos().float(), angle.sin().float()

    def hidden(self, tokens, dtype, key_mask=None):
        """tokens [rows, length] -> normed hidden states [rows * length, width].

        key_mask [rows, length], true where a key may be seen: only needed when rows of different lengths are padded.
        """
        c = self.config
        rows, length = tokens.shape
        # Decoding meets a new number of rows at every step; compiling for each would take longer than running.
        before, after = self.compiled if key_mask is None else (before_attention, after_attention)
        cos, sin = (t.repeat(rows, 1)[:, None] for t in self.angles(length, tokens.device))
        layers = [getattr(self, name).to(dtype).unbind(0) for name in self.MATRICES]
        wq, wk, wv, wo, wg, wu, wd = layers
        if c.qkv_bias:
            bq, bk, bv = (getattr(self, name).to(dtype).unbind(0) for name in self.BIASES)
        else:
            bq = bk = bv = [None] * c.layers
        norm1, norm2 = self.attn_norm.unbind(0), self.ffn_norm.unbind(0)
        mask = None if key_mask is None else key_mask[:, None, None, :]
        h = F.embedding(tokens.flatten(), self.embedding.to(dtype))
        for i in range(c.layers):
            q, k, v = before(h, norm1[i], wq[i], wk[i], wv[i], bq[i], bk[i], bv[i], cos, sin, c)
            q, k, v = (x.view(rows, length, -1, c.head_dim).transpose(1, 2) for x in (q, k, v))
            if c.kv_heads != c.heads:
                k, v = (x.repeat_interleave(c.heads // c.kv_heads, 1) for x in (k, v))
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            h = after(h, o.transpose(1, 2).reshape(rows * length, -1), wo[i], norm2[i], wg[i], wu[i], wd[i], c)
        return rms_norm(h, self.output_norm, c.norm_epsilon)

    def logits(self, tokens, dtype=torch.float32, key_mask=None):
        """[rows, length, vocab]; row i scores position i for both architectures (Dream's shift is undone here)."""
        h = self.hidden(tokens, dtype, key_mask).view(*tokens.shape, -1)
        if self.config.shifted:
            h = torch.cat((h[:, :1], h[:, :-1]), 1)
        return F.linear(h, self.embedding.to(dtype)).float()
