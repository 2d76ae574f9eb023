"""Files that read well as GGUF and hold no model that can be run: one named fault each.

Made from the suite's small models by one change. Rules: what a loader must check of hyper-parameters, tensors
and the vocabulary (docs/models.md, docs/tokenizers.md).
"""

from dataclasses import dataclass, replace

from models import TOKENS, small
from make_tiny_gguf import write_tiny_model


@dataclass
class BrokenModel:
    name: str
    fault: str
    item: tuple                # words the message should hold ("a|b": one of them)
    changes: dict              # of a TinyModel
    says: tuple = ()           # dllm's own words
    arch: str = "llada"
    patch: tuple = ()          # (tensor, bytes from its start) that are overwritten in the written file

    def write(self, path):
        model = replace(small(self.arch), **self.changes)
        write_tiny_model(path, model)
        if self.patch:
            overwrite(path, *self.patch)


def overwrite(path, tensor, content):
    """Writes `content` over the beginning of a tensor's data."""
    from reference_forward import GgufContents
    with open(path, "rb") as file:
        whole = bytearray(file.read())
    at = data_offset(GgufContents(path), tensor)
    whole[at:at + len(content)] = content
    with open(path, "wb") as file:
        file.write(whole)


def data_offset(contents, tensor):
    """Where a tensor's data begin in the file."""
    contents.at = contents.metadata_end
    offsets = {}
    for _ in contents.tensors:
        name = contents.text()
        for _ in range(contents.take("<I")):
            contents.take("<q")
        contents.take("<i")
        offsets[name] = contents.take("<Q")
    return -(-contents.at // 32) * 32 + offsets[tensor]


def key(name, value, kind="u32"):
    return {"extra_keys": {name: (kind, value)}}


NAN, INFINITY = b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f"
HALF_NAN = b"\x00\x7e"


def hyper_parameter_faults():
    a = "llada"
    return [
        BrokenModel("NoArchitecture", "general.architecture is missing", ("general.architecture",),
                    {"drop_keys": ("general.architecture",)}),
        BrokenModel("Qwen2", "an autoregressive architecture", ("qwen2",), key("general.architecture", "qwen2", "string"),
                    ("unsupported architecture 'qwen2'", "dream", "llada", "diffusion")),
        BrokenModel("Llama", "an autoregressive architecture", ("llama",), key("general.architecture", "llama", "string"),
                    ("unsupported architecture 'llama'", "no diffusion model")),
        BrokenModel("UnknownArchitecture", "an architecture nobody knows", ("xyz",), key("general.architecture", "xyz", "string"),
                    ("unsupported architecture 'xyz'", "dream", "llada")),
        BrokenModel("NoLayers", "block_count 0", ("block_count|layer",), key(f"{a}.block_count", 0), ("block_count is 0",)),
        BrokenModel("TooManyLayers", "block_count 513", ("block_count|layer",), key(f"{a}.block_count", 513),
                    ("block_count is 513", "1 to 512")),
        BrokenModel("LayersWithoutTensors", "block_count 3, tensors of 2 layers", ("blk.2",), key(f"{a}.block_count", 3)),
        BrokenModel("NoWidth", "embedding_length is missing", ("embedding_length",), {"drop_keys": (f"{a}.embedding_length",)}),
        BrokenModel("WidthInLetters", "embedding_length is a string", ("embedding_length",),
                    key(f"{a}.embedding_length", "128", "string"), ("string",)),
        BrokenModel("NoContext", "context_length is missing", ("context_length",), {"drop_keys": (f"{a}.context_length",)}),
        BrokenModel("NoFeedForward", "feed_forward_length is missing", ("feed_forward_length",),
                    {"drop_keys": (f"{a}.feed_forward_length",)}),
        BrokenModel("NoHeads", "head_count 0", ("head_count",), key(f"{a}.attention.head_count", 0), ("head_count is 0",)),
        BrokenModel("HeadsDoNotDivide", "4 heads, 3 key-value heads", ("head_count",), key(f"{a}.attention.head_count_kv", 3),
                    ("head_count 4", "head_count_kv 3")),
        BrokenModel("HeadCountsOfThreeLayers", "an array of 3 head counts for 2 layers", ("head_count",),
                    {"extra_keys": {f"{a}.attention.head_count": ("u32", [4, 4, 4])}}),
        BrokenModel("OddHead", "heads of 31 elements", ("key_length|head",), key(f"{a}.attention.key_length", 31),
                    ("head dimension 31 must be even",)),
        BrokenModel("RopeWiderThanHead", "34 rotated elements of 32", ("dimension_count",), key(f"{a}.rope.dimension_count", 34),
                    ("dimension_count 34", "head dimension 32")),
        BrokenModel("EpsZero", "a norm epsilon of 0", ("layer_norm_rms_epsilon",),
                    key(f"{a}.attention.layer_norm_rms_epsilon", 0.0, "f32"), ("is 0",)),
        BrokenModel("EpsNan", "a norm epsilon that is no number", ("layer_norm_rms_epsilon",),
                    key(f"{a}.attention.layer_norm_rms_epsilon", float("nan"), "f32"), ("is nan",)),
        BrokenModel("ThetaInfinite", "an infinite rope base", ("freq_base",), key(f"{a}.rope.freq_base", float("inf"), "f32"),
                    ("is inf",)),
        BrokenModel("Experts", "more experts used than there are", ("expert",),
                    {"extra_keys": {f"{a}.expert_count": ("u32", 4), f"{a}.expert_used_count": ("u32", 8)}}, ("expert_count",)),
        BrokenModel("TooManyExperts", "2,000 experts", ("expert",), key(f"{a}.expert_count", 2000), ("value 2000",)),
    ]


def tensor_faults():
    up = "blk.0.ffn_up.weight"
    return [
        BrokenModel("TypeNobodyDecodes", "a tensor of type IQ2_XXS", ("iq2_xxs", up),
                    {"width": 256, "head_dim": 64, "quant_of": {"ffn_up.weight": "IQ2_XXS"}}, ("IQ2_XXS",)),
        BrokenModel("MissingTensor", "attn_q of layer 0 is missing", ("blk.0.attn_q.weight",),
                    {"drop_tensors": ("blk.0.attn_q.weight",)}, ("missing",)),
        BrokenModel("MissingEmbedding", "token_embd is missing", ("token_embd.weight",), {"drop_tensors": ("token_embd.weight",)}),
        BrokenModel("MissingFinalNorm", "output_norm is missing", ("output_norm.weight",), {"drop_tensors": ("output_norm.weight",)}),
        BrokenModel("MissingBias", "one of six biases is missing", ("blk.1.attn_k.bias",), {"drop_tensors": ("blk.1.attn_k.bias",)},
                    arch="dream"),
        BrokenModel("WrongShape", "attn_q has half its rows", ("blk.0.attn_q.weight", "128", "64"),
                    {"shape_of": {"blk.0.attn_q.weight": (128, 64)}}, ("[128, 64]", "[128, 128]")),
        BrokenModel("Transposed", "ffn_down is transposed", ("blk.1.ffn_down.weight", "128", "160"),
                    {"shape_of": {"blk.1.ffn_down.weight": (128, 160)}}, ("[128, 160]", "[160, 128]")),
        BrokenModel("NarrowOutput", "output has 319 rows of 320", ("output.weight",), {"shape_of": {"output.weight": (128, 319)}},
                    ("[128, 319]", "[128, 320]")),
        BrokenModel("NanWeight", "a weight that is no number", (up,), {}, ("element 0",), patch=(up, NAN)),
        BrokenModel("InfiniteWeight", "a weight that is infinite", (up,), {}, ("element 0",), patch=(up, INFINITY)),
        BrokenModel("NanNorm", "a norm weight that is no number", ("blk.1.ffn_norm.weight",), {}, ("nan",),
                    patch=("blk.1.ffn_norm.weight", NAN)),
        BrokenModel("NanBlockScale", "a Q4_0 block whose scale is no number", (up,), {"quant_of": {"ffn_up.weight": "Q4_0"}},
                    ("element 0",), patch=(up, HALF_NAN)),
    ]


def vocabulary_faults():
    tokens, types = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    text = "string[]"
    return [
        BrokenModel("MoreTokensThanRows", "320 tokens, 300 rows", (tokens + "|vocab|token_embd", "300", "320"), {"rows": 300}),
        BrokenModel("NoTokens", "the tokens are missing", (tokens,), {"drop_keys": (tokens,)}),
        BrokenModel("NoMerges", "the merges are missing", ("tokenizer.ggml.merges",), {"drop_keys": ("tokenizer.ggml.merges",)}),
        BrokenModel("TypesTooShort", "319 token types for 320 tokens", (types, "319", "320"),
                    {"extra_keys": {types: ("i32[]", [1] * (TOKENS - 1))}}),
        BrokenModel("TypesInLetters", "token types that are strings", (types,), {"extra_keys": {types: (text, ["1"] * TOKENS)}}),
        BrokenModel("MergeWithoutSpace", "a merge that is no pair", ("tokenizer.ggml.merges|merge",),
                    {"extra_keys": {"tokenizer.ggml.merges": (text, ["ab"])}}, ("ab",)),
        BrokenModel("MergeWithoutRight", "a merge without a right half", ("tokenizer.ggml.merges|merge",),
                    {"extra_keys": {"tokenizer.ggml.merges": (text, ["a "])}}),
        BrokenModel("UnknownPreTokenizer", "a pre-tokenizer nobody knows", ("tokenizer.ggml.pre|pre-tokenizer", "no-such-pre"),
                    {"pre": "no-such-pre"}, ("tokenizer.ggml.pre", '"no-such-pre"')),
        BrokenModel("SentencePiece", "a tokenizer of another kind", ("llama",), key("tokenizer.ggml.model", "llama", "string"),
                    ("tokenizer.ggml.model",)),
        BrokenModel("NoMaskId", "mask_token_id is missing", ("mask_token_id",), {"mask_id": None},
                    ("tokenizer.ggml.mask_token_id", "--mask-id")),
        BrokenModel("MaskIdOutside", "mask_token_id 320 of 320 tokens", ("mask", "320"), {"mask_id": TOKENS},
                    ("tokenizer.ggml.mask_token_id",)),
        BrokenModel("EosIdOutside", "eos_token_id 5000 of 320 tokens", ("eos_token_id", "5000"),
                    key("tokenizer.ggml.eos_token_id", 5000)),
        BrokenModel("ShiftInLetters", "diffusion.shift_logits is a string", ("shift_logits",),
                    key("diffusion.shift_logits", "yes", "string")),
    ]


def model_faults():
    faults = hyper_parameter_faults() + tensor_faults() + vocabulary_faults()
    assert len({broken.name for broken in faults}) == len(faults)
    return faults
