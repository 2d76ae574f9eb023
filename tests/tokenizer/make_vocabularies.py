"""Writes the vocabulary-only GGUFs that the vector tests read, and unpacks the packed vectors.

    make_vocabularies.py OUTPUT_DIR

Qwen's base vocabulary is rebuilt from its merges: ids 0..255 are the bytes in the order of the byte
alphabet, merge i makes id 256 + i. data/README.md names sources and licences.
"""

import json
import lzma
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from gguf_writer import GgufWriter  # noqa: E402
from tiny_vocabulary import CONTROL, DREAM, NORMAL, UNUSED, USER_DEFINED, byte_characters  # noqa: E402

DATA = HERE / "data"
LLADA_BASE = 126080  # tokens below the added ones


def unpacked(name):
    return lzma.decompress((DATA / name).read_bytes())


def base_tokens(merges):
    return list(byte_characters().values()) + [merge.replace(" ", "") for merge in merges]


def write_vocabulary(path, pre, tokens, types, merges, **keys):
    writer = GgufWriter()
    writer.set("general.architecture", "none")
    writer.set("tokenizer.ggml.model", "gpt2")
    writer.set("tokenizer.ggml.pre", pre)
    writer.set("tokenizer.ggml.tokens", tokens)
    writer.set("tokenizer.ggml.token_type", types, "i32")
    writer.set("tokenizer.ggml.merges", merges)
    for key, value in keys.items():
        writer.set("tokenizer.chat_template" if key == "chat_template" else f"tokenizer.ggml.{key}", value)
    writer.write(path)


def write_qwen(path, pre, merges, added, **keys):
    tokens = base_tokens(merges)
    types = [NORMAL] * len(tokens)
    for token in added:
        assert token["id"] == len(tokens), token
        tokens.append(token["content"])
        types.append(CONTROL if token["special"] else USER_DEFINED)
    write_vocabulary(path, pre, tokens, types, merges, **keys)


def write_llada_layout(path, merges):
    """LLaDA-8B's added tokens at their own ids and its chat template, over the first 126,080 tokens of
    Qwen's vocabulary: LLaDA's own base vocabulary was not to be had."""
    llada = json.loads((DATA / "llada-added-tokens.json").read_text())
    tokens = base_tokens(merges[:LLADA_BASE - 256])
    types = [NORMAL] * len(tokens)
    added = {int(i): text for i, text in llada["added_tokens"].items()}
    for i in range(LLADA_BASE, max(added) + 1):
        tokens.append(added.get(i, f"[PAD{i}]"))
        types.append(CONTROL if i in added else UNUSED)
    write_vocabulary(path, "bailingmoe", tokens, types, merges[:LLADA_BASE - 256],
                     bos_token_id=126080, eos_token_id=126081, padding_token_id=126081,
                     mask_token_id=126336, add_bos_token=True, chat_template=llada["chat_template"])


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    merges = unpacked("qwen-merges.txt.xz").decode("utf-8").split("\n")[:-1]
    added = json.loads((DATA / "qwen-added-tokens.json").read_text())
    ids = {"eos_token_id": 151643, "padding_token_id": 151643, "add_bos_token": False}
    write_qwen(out / "qwen2.5.gguf", "qwen2", merges, added["qwen2.5"], **ids)
    write_qwen(out / "qwen3.gguf", "qwen2", merges, added["qwen3"], **ids)
    for name, pre in (("dream", "qwen2"), ("dream-bailingmoe", "bailingmoe"), ("dream-llada-moe", "llada-moe")):
        write_qwen(out / f"{name}.gguf", pre, merges, added["dream"], bos_token_id=151665,
                   mask_token_id=151666, chat_template=DREAM.template, **ids)
    write_llada_layout(out / "llada-layout.gguf", merges)
    (out / "qwen-fuzz-dream.jsonl").write_bytes(unpacked("qwen-fuzz-dream.jsonl.xz"))
    (out / "done").touch()


if __name__ == "__main__":
    main()
