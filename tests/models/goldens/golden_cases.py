"""The tiny models and token sequences of the llama.cpp goldens."""

from make_tiny_gguf import TinyModel

IDS = [5, 17, 290, 33, 34, 100, 297, 297, 297, 260, 0, 297]

# name -> (model, why it is here)
CASES = {
    # Plain floats: everything but rounding must agree.
    "llada_f32": TinyModel("llada", layers=3, width=128, heads=4, ffn=192, tokens=300, seed=11),
    "dream_f32_tied": TinyModel("dream", layers=3, width=192, heads=6, kv_heads=2, ffn=160,
                                tokens=300, tied=True, seed=12),
    # What llama-quantize makes: Q4_K and Q6_K, here with Q8_0 and Q5_K among them.
    "llada_mix": TinyModel("llada", layers=3, width=256, heads=4, ffn=512, tokens=300,
                           quant="Q4_K_M", quant_of={"attn_output.weight": "Q8_0"}, seed=13),
    "dream_mix": TinyModel("dream", layers=2, width=512, heads=8, kv_heads=2, ffn=768, tokens=300,
                           quant="Q4_K_M", quant_of={"attn_q.weight": "Q5_K"}, seed=14),
}
