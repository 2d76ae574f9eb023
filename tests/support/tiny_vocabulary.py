"""Small byte-level BPE vocabularies, with the special tokens and chat template of LLaDA or Dream.

    vocabulary = build_vocabulary("llada", 320)
    vocabulary.tokens, vocabulary.types, vocabulary.merges, vocabulary.ids["<|mdm_mask|>"]

All 256 bytes come first, then one token per merge rule, then the special tokens at the end, so every
text can be encoded. Nothing here depends on a model's weights.
"""

from dataclasses import dataclass, field

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

WORDS = ("the and is in of to a ing ed er on at it you that for with are what why how not blue sky "
         "hello world hi cat dog red sun day one two three four five yes no ok sum of").split()


@dataclass(frozen=True)
class Family:
    """What an architecture's tokenizer brings; ids are where the specials land."""
    pre: str
    specials: tuple          # (text, token type)
    bos: str
    eos: str
    mask: str
    add_bos: bool
    template: str


LLADA = Family(
    pre="bailingmoe",
    specials=(("<|startoftext|>", CONTROL), ("<|endoftext|>", CONTROL), ("<|mdm_mask|>", CONTROL),
              ("<|start_header_id|>", CONTROL), ("<|end_header_id|>", CONTROL),
              ("<|eot_id|>", CONTROL)),
    bos="<|startoftext|>", eos="<|endoftext|>", mask="<|mdm_mask|>", add_bos=True,
    template=("{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
              "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
              "{{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"))

DREAM = Family(
    pre="qwen2",
    specials=(("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL),
              ("<tool_call>", USER_DEFINED), ("</tool_call>", USER_DEFINED),
              ("<|beginoftext|>", CONTROL), ("<|mask|>", CONTROL)),
    bos="<|beginoftext|>", eos="<|endoftext|>", mask="<|mask|>", add_bos=False,
    template=("{% if messages[0]['role'] != 'system' %}"
              "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
              "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
              "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"))

FAMILIES = {"llada": LLADA, "dream": DREAM}


@dataclass
class Vocabulary:
    family: Family
    tokens: list = field(default_factory=list)
    types: list = field(default_factory=list)
    merges: list = field(default_factory=list)
    ids: dict = field(default_factory=dict)     # token text -> id


def byte_characters():
    """The character that stands for each byte: itself where printable, else U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        characters.setdefault(byte, chr(256 + len(characters) - len(printable)))
    return characters


class MergeRules:
    """Grows tokens by merge rules; later rules rank lower."""

    def __init__(self, capacity):
        self.characters = byte_characters()
        self.tokens = [self.characters[byte] for byte in range(256)]
        self.known = set(self.tokens)
        self.ranks = {}
        self.capacity = capacity

    def encode(self, text):
        pieces = [self.characters[byte] for byte in text.encode("utf-8")]
        while True:
            ranked = [(self.ranks[pair], at) for at, pair in enumerate(zip(pieces, pieces[1:]))
                      if pair in self.ranks]
            if not ranked:
                return pieces
            at = min(ranked)[1]
            pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]

    def learn(self, text):
        """Adds rules until `text` is one token, or the capacity is reached."""
        pieces = self.encode(text)
        while len(pieces) > 1 and len(self.tokens) < self.capacity:
            merged = pieces[0] + pieces[1]
            if merged not in self.known:
                self.tokens.append(merged)
                self.known.add(merged)
            self.ranks.setdefault((pieces[0], pieces[1]), len(self.ranks))
            pieces[:2] = [merged]

    def fill(self):
        letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
        for length_two in (a + b for a in letters for b in letters):
            self.learn(length_two)
        for length_three in (a + b + c for a in letters for b in letters for c in letters):
            if len(self.tokens) >= self.capacity:
                return
            self.learn(length_three)


def build_vocabulary(architecture, size):
    """Exactly `size` tokens; at least 256 and the special ones."""
    family = FAMILIES[architecture]
    base_size = size - len(family.specials)
    if base_size < 256:
        raise ValueError(f"vocabulary {size} is too small, {256 + len(family.specials)} needed")
    rules = MergeRules(base_size)
    for word in WORDS:
        rules.learn(word)
        rules.learn(" " + word)
    rules.fill()
    if len(rules.tokens) < base_size:
        raise ValueError(f"vocabulary {size} is too large for this generator")

    vocabulary = Vocabulary(family)
    vocabulary.tokens = rules.tokens + [text for text, _ in family.specials]
    vocabulary.types = [NORMAL] * base_size + [kind for _, kind in family.specials]
    vocabulary.merges = [f"{left} {right}" for left, right in rules.ranks]
    vocabulary.ids = {text: at for at, text in enumerate(vocabulary.tokens)}
    return vocabulary
