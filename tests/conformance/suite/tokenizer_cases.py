"""Ids of texts against goldens of Hugging Face's tokenizers, and bytes that come back."""

import json
import random
import unicodedata
from pathlib import Path

from tiny_vocabulary import FAMILIES
from vocabulary import with_specials

GOLDENS = json.loads((Path(__file__).resolve().parents[1] / "goldens/tokenizer.json").read_text(encoding="utf-8"))
STEERING = {"llada": b"<|mdm_mask|> <|eot_id|> <|endoftext|> <|startoftext|> <|start_header_id|>user<|end_header_id|>",
            "dream": b"<|mask|> <|im_end|> <|endoftext|> <|beginoftext|> <|im_start|>user"}
BROKEN_UTF8 = [b"\xff", b"a\x80b", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98x", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80",
               b"\x00\xff\x00", b"caf\xe9 na\xefve"]


def register(registry):
    for golden in GOLDENS:
        registry.add(f"tokenizer.{golden['name']}", "ids equal Hugging Face's, with NFC and without: " + shown(golden["text"]),
                     lambda t, golden=golden: equals_golden(t, golden))
    for each in (nfc_of_random_text, every_byte_comes_back, broken_utf8_comes_back, random_bytes_come_back, user_text_never_steers_bare,
                 user_text_never_steers_in_chat, chat_markers_frame_the_text, a_megabyte):
        registry.case("text")(each)


def shown(text):
    return ascii(text if len(text) <= 40 else text[:37] + "...")


def equals_golden(t, golden):
    # LLaDA's start token stands before; its ids are the same otherwise (goldens/make_tokenizer_goldens.py).
    for arch in ("dream", "llada") if "none" in golden or len(golden["nfc"]) % 3 == 0 else ("dream",):
        _, _, _, ids = with_specials(arch)
        start = [ids[FAMILIES[arch].bos]] if FAMILIES[arch].add_bos else []
        path, text = t.files.tokenizer(arch), golden["text"].encode("utf-8")
        t.equal(t.runtime.tokenize(path, text), start + golden["nfc"], f"{arch}, NFC")
        if "none" in golden:
            t.equal(t.runtime.tokenize(path, text, normalize="none"), start + golden["none"], f"{arch}, no normalisation")


def random_unicode(rng, count):
    """Code points that were assigned in the Unicode of this Python: their NFC is fixed for ever."""
    kinds = [(0, 0x80), (0xA0, 0x250), (0x300, 0x370), (0x1E00, 0x2000), (0xAC00, 0xD7A4), (0x1100, 0x1200), (0, 0x110000)]
    out = []
    while len(out) < count:
        low, high = rng.choice(kinds)
        c = chr(rng.randrange(low, high))
        if unicodedata.category(c) not in ("Cn", "Cs"):
            out.append(c)
    return "".join(out)


def nfc_of_random_text(t):
    """decode(encode(x)) is the NFC of x, by Python's unicodedata, over 30,000 random characters"""
    text = random_unicode(random.Random(5), 30000)
    wanted = unicodedata.normalize("NFC", text)
    t.claim(wanted != text, "the text has nothing to normalise")
    path = t.files.tokenizer("dream")
    got = t.runtime.decode(path, t.runtime.tokenize(path, text.encode("utf-8")))
    differs(t, got, wanted.encode("utf-8"))


def differs(t, got, want):
    if got == want:
        return
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    t.equal((at, got[at - 8:at + 16]), (at, want[at - 8:at + 16]), "bytes at the first difference")


def comes_back(t, text):
    for arch in ("dream", "llada"):
        path = t.files.tokenizer(arch)
        _, _, _, ids = with_specials(arch)
        got = t.runtime.tokenize(path, text, normalize="none")
        if FAMILIES[arch].add_bos:
            t.equal(got[:1], [ids[FAMILIES[arch].bos]], "the start token")
            got = got[1:]
        differs(t, t.runtime.decode(path, got), text)


def every_byte_comes_back(t):
    """decode(encode(x)) == x for every byte, alone and in a row, NUL and control bytes among them"""
    comes_back(t, bytes(range(256)))
    comes_back(t, b" ".join(bytes([byte]) for byte in range(256)))


def broken_utf8_comes_back(t):
    """decode(encode(x)) == x for bytes that are no UTF-8: cut characters, surrogates, overlong forms"""
    comes_back(t, b" ".join(BROKEN_UTF8))
    comes_back(t, b"".join(BROKEN_UTF8))


def random_bytes_come_back(t):
    """decode(encode(x)) == x for 20,000 random bytes and 5,000 random characters, without normalisation"""
    comes_back(t, random.Random(6).randbytes(20000))
    comes_back(t, random_unicode(random.Random(7), 5000).encode("utf-8"))


def steering_ids(arch):
    """Every special id but those that user text may give."""
    _, types, _, ids = with_specials(arch)
    return {at: text for text, at in ids.items() if types[at] == 3}


def steers(t, chat):
    for arch, text in STEERING.items():
        path = t.files.tokenizer(arch)
        plain = t.runtime.tokenize(path, b"", chat=chat)
        got = t.runtime.tokenize(path, text, chat=chat)
        for at, name in steering_ids(arch).items():
            t.equal(got.count(at), plain.count(at), f"{arch}: number of {name} that user text brought")
        if not chat:
            t.claim(t.runtime.decode(path, got).endswith(text), f"{arch}: the text does not come back: {got}")


def user_text_never_steers_bare(t):
    """the mask, end-of-turn markers and role headers in user text stay text, without a chat format"""
    steers(t, False)


def user_text_never_steers_in_chat(t):
    """the mask, end-of-turn markers and role headers in user text stay text, in the chat format"""
    steers(t, True)


def chat_markers_frame_the_text(t):
    """the chat format's own markers are tokens: LLaDA's headers, Dream's ChatML with its default system"""
    for arch, wanted in {
            "llada": "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
                     "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "dream": "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                     "<|im_start|>assistant\n"}.items():
        path = t.files.tokenizer(arch)
        got = t.runtime.tokenize(path, b"hi", chat=True)
        t.equal(t.runtime.decode(path, got), wanted.encode(), arch)
        markers = [text for text in steering_ids(arch).values() if text in wanted]
        t.equal(sum(at in steering_ids(arch) for at in got), sum(wanted.count(text) for text in markers), f"{arch}: markers as tokens")


def a_megabyte(t):
    """a text of a megabyte is tokenised, and every byte of it is there"""
    text = b"hello world, " * 80660
    path = t.files.tokenizer("dream")
    ids = t.runtime.tokenize(path, text)
    piece = t.runtime.tokenize(path, b"hello world, " * 5)
    t.claim(len(text) / 8 < len(ids) < len(text), f"{len(ids)} ids of {len(text)} bytes")
    t.equal(ids[:len(piece) - 2], piece[:-2], "first ids")
