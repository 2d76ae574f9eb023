"""Byte-level BPE: the maker of the two vocabularies and the encoder that training and evaluation use.

The encoder gives what any GPT-2 style BPE with the `qwen2` or `bailingmoe` pre-tokenizer gives (both split alike): greedy
merging, lowest rank first. It handles ASCII text only, which is all the generator writes; a runtime handles the rest,
since all 256 bytes are in the vocabulary.

    python3 tokenizer.py make        # learns vocab/llada.json and vocab/dream.json from today's generator

The committed vocabularies belong to the committed models: making them again after a change of the generator means training
again.
"""

import json
import re
import sys
from collections import Counter
from functools import lru_cache
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parent

# The pre-tokenizer for ASCII: contractions; a word with at most one other character before it; single digits; runs of
# marks with a space before and line ends after; line ends; spaces.
PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|"
                   r"\s+(?!\S)|\s+", re.IGNORECASE | re.ASCII)


def byte_characters() -> list[str]:
    """The printable character that stands for each of the 256 bytes in GGUF token texts (GPT-2's map)."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in own else chr(next(others)) for b in range(256)]


BYTE_CHARACTER = byte_characters()

# Control tokens in id order, placed after the ordinary tokens, as in the real models.
SPECIALS = {
    "llada": ["<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "dream": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"],
}
ROLES = {
    "llada": {"bos": "<|startoftext|>", "eos": "<|endoftext|>", "eot": "<|eot_id|>", "mask": "<|mdm_mask|>"},
    "dream": {"bos": "<|beginoftext|>", "eos": "<|endoftext|>", "eot": "<|im_end|>", "mask": "<|mask|>"},
}
VOCABULARY_SIZE = {"llada": 1920, "dream": 2048}      # specials included


def spelled(text: str) -> str:
    return "".join(BYTE_CHARACTER[b] for b in text.encode())


def learn_merges(counts: Counter, count: int) -> list[tuple[str, str]]:
    """The usual BPE training on pre-token counts; ties go to the smaller pair, so the result is reproducible."""
    words = [(list(word), n) for word, n in counts.items()]
    merges = []
    while len(merges) < count:
        pairs = Counter()
        for parts, n in words:
            for pair in zip(parts, parts[1:]):
                pairs[pair] += n
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for parts, _ in words:
            join(parts, best)
    return merges


def join(parts: list[str], pair: tuple[str, str]) -> None:
    """Merges every occurrence of `pair` in `parts`, left to right, in place."""
    i = 0
    while i < len(parts) - 1:
        if parts[i] == pair[0] and parts[i + 1] == pair[1]:
            parts[i:i + 2] = [pair[0] + pair[1]]
        i += 1


class Tokenizer:
    def __init__(self, architecture: str):
        self.architecture = architecture
        self.merges = [tuple(m) for m in json.loads((HERE / "vocab" / f"{architecture}.json").read_text())["merges"]]
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        base = sorted(BYTE_CHARACTER) + ["".join(pair) for pair in self.merges]
        self.tokens = base + SPECIALS[architecture]
        self.n_ordinary = len(base)
        self.id = {text: i for i, text in enumerate(self.tokens)}
        if len(self.id) != len(self.tokens):
            raise ValueError(f"{architecture}: two merges give the same token text")
        roles = ROLES[architecture]
        self.bos, self.eos, self.eot, self.mask = (self.id[roles[r]] for r in ("bos", "eos", "eot", "mask"))
        self.byte_of = {c: b for b, c in enumerate(BYTE_CHARACTER)}

    @lru_cache(maxsize=1 << 18)
    def piece_ids(self, piece: str) -> tuple[int, ...]:
        parts = list(spelled(piece))
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.rank.get(pair, 1 << 30))
            if best not in self.rank:
                break
            join(parts, best)
        return tuple(self.id[p] for p in parts)

    def encode(self, text: str) -> list[int]:
        if not text.isascii():
            raise ValueError(f"only ASCII can be encoded here, got {text!r}")
        return [i for piece in PIECE.findall(text) for i in self.piece_ids(piece)]

    def decode(self, ids) -> str:
        """Text of ordinary tokens; special ones give nothing."""
        data = bytes(self.byte_of[c] for i in ids if i < self.n_ordinary for c in self.tokens[i])
        return data.decode("utf-8", errors="replace")

    def prompt_ids(self, prompt: str) -> list[int]:
        """The chat-formatted prompt, up to where the answer starts."""
        def s(text):
            return self.id[text]
        if self.architecture == "llada":
            start, end, lines = s("<|start_header_id|>"), s("<|end_header_id|>"), self.encode("\n\n")
            return [self.bos, start, *self.encode("user"), end, *lines, *self.encode(prompt), self.eot,
                    start, *self.encode("assistant"), end, *lines]
        start, end, line = s("<|im_start|>"), s("<|im_end|>"), self.encode("\n")
        return [start, *self.encode("system\nYou are a helpful assistant."), end, *line,
                start, *self.encode("user\n" + prompt), end, *line, start, *self.encode("assistant\n")]

    def answer_ids(self, answer: str) -> list[int]:
        return [*self.encode(answer), self.eot]


# Text outside the exercises that should not fall apart into bytes either.
COMMON = """the of and to in is that it was for on are as with his they at be this from have or by one had not but what all
were when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down only
way find use may water very after called just where most know get through back much before go good new write our me man
any day same right look think also around another came come work must because does part even place well such here take why
help away again off went old tell men say small every found still between name should give air line set own under read last
never us left end along while might next below saw something thought both few those always show large often together""".split()


def make_vocabularies() -> None:
    from generator import stream
    counts = Counter()
    for _, instance in islice(stream(seed=20), 60_000):
        counts.update(PIECE.findall(instance.prompt))
        counts.update(PIECE.findall(instance.answer))
    # Roots, so that long frequent texts (stories) do not crowd out rare words.
    weights = Counter({spelled(piece): int(n ** 0.6) + 1 for piece, n in counts.items() if n > 1})
    weights.update({spelled(form): 12 for word in COMMON for form in (word, " " + word, word.capitalize())})
    weights.update({spelled(text): 40 for text in ("user", "assistant", "system", "\n\n")})
    # One token for every letter after a hyphen and after a space, so that spelled words are even.
    weights.update({spelled(mark + letter): 10 ** 6 for mark in "- " for letter in "abcdefghijklmnopqrstuvwxyz"})
    (HERE / "vocab").mkdir(exist_ok=True)
    needed = {a: VOCABULARY_SIZE[a] - 256 - len(SPECIALS[a]) for a in SPECIALS}
    merges = learn_merges(weights, max(needed.values()))
    for architecture, count in needed.items():
        text = json.dumps({"merges": merges[:count]}, ensure_ascii=True, indent=0)
        (HERE / "vocab" / f"{architecture}.json").write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["make"]:
        sys.exit("usage: tokenizer.py make")
    make_vocabularies()
