"""Between the network and its GGUF file: tensor names, metadata, which type each tensor gets, and the way back.

Quantisation: LLaDA is Q6_K throughout. Dream is deeper and has Q5_K where it hurts least (q, attention output, gate, up)
and Q6_K in k, v, down and the embedding, which is the output matrix too. Norms and biases stay F32.
"""

from pathlib import Path

import torch

import gguf_io
from model import Config, DiffusionModel
from quantize import encode

CONTEXT = 512

TENSORS = {"wq": "attn_q.weight", "wk": "attn_k.weight", "wv": "attn_v.weight", "wo": "attn_output.weight",
           "wg": "ffn_gate.weight", "wu": "ffn_up.weight", "wd": "ffn_down.weight",
           "bq": "attn_q.bias", "bk": "attn_k.bias", "bv": "attn_v.bias",
           "attn_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight"}
SMALLER = {"llada": (), "dream": ("wq", "wo", "wg", "wu")}        # Q5_K; all other matrices Q6_K
FILE_TYPE = {"llada": 18, "dream": 17}                            # mostly Q6_K; Q5_K_M
NAMES = {"llada": "dllm demo LLaDA", "dream": "dllm demo Dream"}

CHAT_TEMPLATE = {
    "llada": "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
             "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
             "{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "dream": "{% if messages[0]['role'] != 'system' %}"
             "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
             "{% for message in messages %}"
             "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
}

CONTROL, NORMAL = 3, 1


def metadata_of(config: Config, tokenizer, n_parameters: int) -> dict:
    a = config.architecture
    meta = {
        "general.architecture": a, "general.type": "model", "general.name": NAMES[a],
        "general.description": "Small diffusion language model trained on generated exercises and stories; ships with dllm",
        "general.license": "apache-2.0", "general.size_label": f"{n_parameters / 1e6:.0f}M",
        f"{a}.block_count": config.layers, f"{a}.context_length": CONTEXT, f"{a}.embedding_length": config.width,
        f"{a}.feed_forward_length": config.ffn, f"{a}.attention.head_count": config.heads,
        f"{a}.attention.head_count_kv": config.kv_heads, f"{a}.rope.freq_base": config.rope_base,
        f"{a}.attention.layer_norm_rms_epsilon": config.norm_epsilon, "general.file_type": FILE_TYPE[a],
    }
    if a == "llada":
        meta.update({"llada.vocab_size": config.vocab, "llada.rope.dimension_count": config.head_dim})
    n = tokenizer.n_ordinary
    meta.update({
        f"{a}.attention.causal": False, "diffusion.shift_logits": config.shifted, "general.quantization_version": 2,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "bailingmoe" if a == "llada" else "qwen2",
        "tokenizer.ggml.tokens": tokenizer.tokens,
        "tokenizer.ggml.token_type": [NORMAL] * n + [CONTROL] * (len(tokenizer.tokens) - n),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer.merges],
        "tokenizer.ggml.bos_token_id": tokenizer.bos, "tokenizer.ggml.eos_token_id": tokenizer.eos,
        "tokenizer.ggml.eot_token_id": tokenizer.eot, "tokenizer.ggml.padding_token_id": tokenizer.eos,
        "tokenizer.ggml.mask_token_id": tokenizer.mask, "tokenizer.ggml.add_bos_token": a == "llada",
        "tokenizer.chat_template": CHAT_TEMPLATE[a],
    })
    return meta


def kind_of(architecture: str, parameter: str) -> str:
    """The type that the file holds a matrix in."""
    return "Q5_K" if parameter in SMALLER[architecture] else "Q6_K"


def write(model: DiffusionModel, tokenizer, path: Path, exact: bool = False) -> None:
    """exact: everything as F32, to see what quantisation costs. The file appears at once, never in part."""
    config = model.config
    tensors = [("token_embd.weight", kind_of(config.architecture, "embedding"), model.embedding), ("output_norm.weight", "F32", model.output_norm)]
    for layer in range(config.layers):
        for parameter, name in TENSORS.items():
            if hasattr(model, parameter):
                values = getattr(model, parameter)[layer]
                kind = "F32" if values.dim() == 1 else kind_of(config.architecture, parameter)
                tensors.append((f"blk.{layer}.{name}", kind, values))
    packed = [(name, kind, tuple(values.shape)[::-1], encode(values, kind))
              for name, kind, values in ((name, "F32" if exact else kind, values) for name, kind, values in tensors)]
    unfinished = path.with_name(path.name + ".part")
    gguf_io.write(unfinished, metadata_of(config, tokenizer, sum(p.numel() for p in model.parameters())), packed)
    unfinished.replace(path)


@torch.no_grad()
def load_into(model: DiffusionModel, path: Path) -> None:
    """Replaces the weights by what the file holds."""
    _, tensors = gguf_io.read(path)

    def values(name):
        return torch.from_numpy(gguf_io.dequantize(*tensors[name]))

    model.embedding.copy_(values("token_embd.weight"))
    model.output_norm.copy_(values("output_norm.weight"))
    for parameter, name in TENSORS.items():
        if hasattr(model, parameter):
            for layer in range(model.config.layers):
                getattr(model, parameter)[layer].copy_(values(f"blk.{layer}.{name}"))


def load(path: Path) -> DiffusionModel:
    meta, _ = gguf_io.read(path)
    a = meta["general.architecture"]
    config = Config(a, len(meta["tokenizer.ggml.tokens"]), meta[f"{a}.block_count"], meta[f"{a}.embedding_length"],
                    meta[f"{a}.attention.head_count"], meta[f"{a}.attention.head_count_kv"], meta[f"{a}.feed_forward_length"],
                    meta[f"{a}.rope.freq_base"], meta[f"{a}.attention.layer_norm_rms_epsilon"])
    model = DiffusionModel(config)
    load_into(model, path)
    return model
