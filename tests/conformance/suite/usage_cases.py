"""Requests that must be refused before a model is read, and lengths that meet the context."""

from models import TOKENS

PROMPT = b"q"
ABSENT = "no-such-model.gguf"       # whoever reads it says so, which gives away that the request was accepted

# (name, settings, words of the message): each of them alone, beside a valid request
BAD_SETTINGS = [
    ("n_is_zero", {"n": 0}, ("0",)), ("n_is_negative", {"n": -1}, ("-1",)), ("n_is_2_to_31", {"n": 2**31}, (2**31,)),
    ("n_with_a_letter", {"n": "8x"}, ("8x",)), ("n_is_a_word", {"n": "abc"}, ("abc",)),
    ("temperature_is_no_number", {"temperature": "nan"}, ("nan",)), ("temperature_is_infinite", {"temperature": "inf"}, ("inf",)),
    ("temperature_is_negative", {"temperature": -1.0}, ("-1",)), ("threads_are_zero", {"threads": 0}, ("0",)),
    ("top_p_is_zero", {"top_p": 0}, ("0",)), ("top_p_above_one", {"top_p": 1.5}, ("1.5",)),
    ("steps_are_zero", {"steps": 0}, ("0",)), ("unknown_sampler", {"sampler": "llda"}, ("llda", "llada")),
    ("unknown_backend", {"backend": "cpuu"}, ("cpuu", "cpu")),
    ("unknown_rule", {"algorithm": "entropie"}, ("entropie", "entropy")),
    ("mask_id_is_negative", {"mask_id": -3}, ("-3",)),
]


def register(registry):
    for name, settings, words in BAD_SETTINGS:
        registry.add(f"usage.{name}", f"{settings} is refused before the model is read, naming the value and what is near or allowed",
                     lambda t, settings=settings, words=words: refused_unread(t, settings, words))
    for each in (fewer_steps_than_blocks, context_is_filled_exactly, one_more_than_the_context, prompt_longer_than_the_context,
                 mask_id_outside_the_vocabulary, absent_model):
        registry.case("usage")(each)


def refused_unread(t, settings, words):
    t.refuses(lambda: t.runtime.generate(ABSENT, PROMPT, {"n": 4, **settings}), *words, usage=True)
    try:
        t.runtime.generate(ABSENT, PROMPT, {"n": 4, **settings})
    except Exception as refusal:  # noqa: BLE001: the message is all that matters here
        t.claim(ABSENT not in str(refusal), f"the model was looked for: {refusal}")


def absent_model(t):
    """a valid request for a file that is not there names the file"""
    t.refuses(lambda: t.runtime.generate(ABSENT, PROMPT, {"n": 4}), ABSENT)


def fewer_steps_than_blocks(t):
    """3 steps over 4 blocks are refused with both numbers, before weights are read"""
    path = t.files.random("llada", width=256, head_dim=64, quant_of={"ffn_up.weight": "IQ2_XXS"})    # its weights cannot be read
    t.refuses(lambda: t.runtime.generate(path, PROMPT, {"n": 16, "steps": 3, "block_length": 4}), "3", "4", says=("4 blocks",), usage=True)


def context_is_filled_exactly(t):
    """prompt and generation together may fill the context: 64 = start, 3 letters, 60 to generate"""
    got = t.runtime.generate(t.files.known("always_A", context=64), b"qjx", {"n": 60, "steps": 1, "block_length": 60})
    t.equal(bytes(got.tokens) if got.tokens is not None else got.text, b"A" * 60, "text")


def one_more_than_the_context(t):
    """one token more is refused with the numbers, before weights are read"""
    path = t.files.random("llada", width=256, head_dim=64, context=64, quant_of={"ffn_up.weight": "IQ2_XXS"})
    t.refuses(lambda: t.runtime.generate(path, b"qjx", {"n": 61}), "64", "61|65", says=("65", "61", "64"), usage=True)


def prompt_longer_than_the_context(t):
    """a prompt that is too long alone is refused with both numbers"""
    t.refuses(lambda: t.runtime.generate(t.files.known("always_A", context=64), b"q" * 64, {"n": 1}), "64", "65", usage=True)


def mask_id_outside_the_vocabulary(t):
    """a mask id given by hand must be a token"""
    t.refuses(lambda: t.runtime.generate(t.files.known("always_A"), PROMPT, {"n": 2, "mask_id": TOKENS}), str(TOKENS), usage=True)
