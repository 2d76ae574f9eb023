"""The vocabulary of the tokenizer goldens: real merges, small enough to load in a moment.

256 bytes in the order of the byte alphabet, the first 2,000 merges of Qwen's tokenizer
(tests/tokenizer/data/README.md), then the special tokens of the architecture as in tests/support.
"""

import lzma
from pathlib import Path

from tiny_vocabulary import FAMILIES, NORMAL, byte_characters

MERGES = Path(__file__).resolve().parents[2] / "tokenizer/data/qwen-merges.txt.xz"
N_MERGES = 2000


def base():
    """(tokens, merges); ids are places in the list. Every merge makes a token of its own."""
    with lzma.open(MERGES, "rt", encoding="utf-8", newline="\n") as lines:
        merges = [line.rstrip("\n") for line, _ in zip(lines, range(N_MERGES))]
    return list(byte_characters().values()) + [merge.replace(" ", "") for merge in merges], merges


def with_specials(arch):
    """(tokens, types, merges, id of each special token's text)."""
    tokens, merges = base()
    specials = FAMILIES[arch].specials
    ids = {text: len(tokens) + at for at, (text, _) in enumerate(specials)}
    types = [NORMAL] * len(tokens) + [kind for _, kind in specials]
    return tokens + [text for text, _ in specials], types, merges, ids
