"""Makes tokenizer.json; needs PyPI's `tokenizers` (0.23.3). Run it with PYTHONPATH=../../support.

    make_tokenizer_goldens.py > tokenizer.json

Ids by Hugging Face tokenizers over the suite's small vocabulary (suite/vocabulary.py: 256 bytes and Qwen's
first 2,000 merges), with NFC ("nfc") and without ("none", where it differs). The texts are some of
tests/tokenizer/data/qwen.json, of every kind, and those of TEXTS. LLaDA's and Dream's patterns are tried
apart and must agree, as docs/tokenizers.md says they do.
"""

import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "suite"))
import vocabulary  # noqa: E402

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
BAILINGMOE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
              r"|\s+(?!\S)|\s+")
FAMILY, FIRST = "\U0001F469\u200d\U0001F469\u200d\U0001F467", "\U0001F1EB\U0001F1F7"
TEXTS = {
    "steering.mask": "a<|mdm_mask|>b<|mask|>c", "steering.end_of_turn": "<|eot_id|><|im_end|><|endoftext|>",
    "steering.role_header": "<|start_header_id|>user<|end_header_id|>\n\n<|im_start|>assistant\n",
    "steering.begin": "<|startoftext|><|beginoftext|>",
    "nfd.word": "cafe\u0301 re\u0301sume\u0301", "nfd.stacked": "a\u0323\u0302 o\u031b\u0301", "nfd.hangul": "\u1112\u1161\u11ab",
    "nfc.word": "caf\u00e9 r\u00e9sum\u00e9", "nfc.singleton": "\u212b \u2126 \u1e9b\u0323",
    "combining.alone": "\u0301\u0301x", "combining.after_digit": "1\u0301 2\u20e3",
    "crlf": "one\r\ntwo\r\n\r\nthree\r", "crlf.mixed": "\r\n \n\r \r\n",
    "emoji.joiners": f"{FAMILY} {FIRST} \U0001F44D\U0001F3FD \u2764\ufe0f", "code": "def f(x):\n\treturn x  # twice\n    y += 1\n",
    "spaces.run": "a" + " " * 40 + "b" + " " * 41, "spaces.kinds": "a\u00a0b\u2003c\u3000d\u180ee\u200bf\u2028g\u0085h",
    "control": "a\x01\x02\x1b[2J\x7f\x08b", "nul": "a\x00b\x00\x00", "unicode15.letters": "\U00011F04\U0001E4D0 \U00031350x",
    "unicode15.digits": "\U00011F50\U0001E4F03", "private": "\ue000\uffff\U0010ffff",
}


def tokenizer(pattern, normalise):
    tokens, merges = vocabulary.base()
    result = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)},
                                  [tuple(merge.split(" ")) for merge in merges]))
    result.normalizer = normalizers.NFC() if normalise else normalizers.Sequence([])
    result.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return result


def chosen_texts():
    """The first two short texts of every kind, then TEXTS."""
    vectors = json.loads((HERE.parents[1] / "tokenizer/data/qwen.json").read_text(encoding="utf-8"))
    taken = {}
    for vector in vectors:
        kind = vector["name"].split(".")[0]
        if len(vector["text"]) <= 160 and sum(name.startswith(kind + ".") for name in taken) < 2:
            taken[vector["name"]] = vector["text"]
    return {**taken, **TEXTS}


def main():
    columns = {(pattern, normalise): tokenizer(pattern, normalise)
               for pattern in (QWEN2, BAILINGMOE) for normalise in (True, False)}
    lines = []
    for name, text in chosen_texts().items():
        ids = {key: each.encode(text, add_special_tokens=False).ids for key, each in columns.items()}
        assert ids[QWEN2, True] == ids[BAILINGMOE, True] and ids[QWEN2, False] == ids[BAILINGMOE, False], name
        golden = {"name": name, "text": text, "nfc": ids[QWEN2, True]}
        if ids[QWEN2, False] != golden["nfc"]:
            golden["none"] = ids[QWEN2, False]
        lines.append(json.dumps(golden))
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
