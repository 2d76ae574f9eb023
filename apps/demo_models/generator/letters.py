"""Letters and digits: spelling, spelling backwards, counting, copying, reversing digits.

Half of the words are invented, so the spelling of every vocabulary token has to be learned, not the word. Listed words are
never held out in the spelling tasks: many are one token, whose letters nothing else would teach.
"""

import re
from random import Random

from .lexicon import WORDS, any_word
from .task import Instance, Task, phrase

SPELL = ["Spell the word {w}.", "Spell {w}.", "How do you spell {w}?", "Spell {w} letter by letter.", "Can you spell {w}?"]
BACKWARDS = ["Spell {w} backwards.", "Spell the word {w} backwards.", "Write the letters of {w} in reverse order."]


LISTED = frozenset(WORDS)


def key_of(word: str) -> str | None:
    return None if word in LISTED else word


def make_spell(rng: Random) -> Instance:
    word = any_word(rng)
    return Instance(key_of(word), phrase(rng, SPELL, w=word), "-".join(word))


def asked_word(prompt: str) -> str:
    """The word that a spelling prompt is about."""
    return re.search(r"(?:spell(?: the word)?|letters of) (\w+)", prompt.lower())[1]


def check_spell(prompt: str, answer: str) -> bool:
    return answer.replace("-", "") == asked_word(prompt) and set(answer[1::2]) == {"-"}


def make_spell_backwards(rng: Random) -> Instance:
    word = any_word(rng)
    return Instance(key_of(word), phrase(rng, BACKWARDS, w=word), "-".join(reversed(word)))


def check_spell_backwards(prompt: str, answer: str) -> bool:
    return answer[::-1].replace("-", "") == asked_word(prompt) and set(answer[1::2]) == {"-"}


# The answer marks every letter, then adds up the marks: b0-a1-n0-a1-n0-a1: 3.
COUNT = ["How many times does the letter {c} appear in {w}?", "How many {c}'s are in the word {w}?",
         "Count the letter {c} in {w}.", "How often does {c} occur in {w}?", "How often is the letter {c} in {w}?",
         "How many times does {c} appear in the word {w}?"]


def make_count_letters(rng: Random) -> Instance:
    word = any_word(rng)
    letter = rng.choice(word) if rng.random() < 0.85 else rng.choice("abcdefghijklmnopqrstuvwxyz")
    marked = "-".join(f"{c}{int(c == letter)}" for c in word)
    return Instance(f"{letter},{word}", phrase(rng, COUNT, c=letter, w=word), f"{marked}: {word.count(letter)}")


def check_count_letters(prompt: str, answer: str) -> bool:
    words = prompt.rstrip(".?").split()
    letters = [w.removesuffix("'s") for w in words[:-1] if len(w.removesuffix("'s")) == 1]
    marks, _, total = answer.partition(": ")
    right = all(mark == c + "01"[c == letters[-1]] for c, mark in zip(words[-1], marks.split("-")))
    return right and marks.count("-") == len(words[-1]) - 1 and total == str(marks.count("1"))


COPY = ["Repeat exactly: {s}", "Repeat after me: {s}", "Copy this text: {s}", "Echo: {s}"]


def make_copy(rng: Random) -> Instance:
    items = [any_word(rng) if rng.random() < 0.7 else str(rng.randrange(10 ** rng.randint(1, 5)))
             for _ in range(rng.randint(1, 9))]
    items.insert(0, rng.choice(WORDS))       # an invented first word would lose its leading space and be cut differently
    shown = " ".join(items)
    return Instance(shown, phrase(rng, COPY, s=shown), shown)


def check_copy(prompt: str, answer: str) -> bool:
    return prompt.partition(": ")[2] == answer


REVERSE_DIGITS = ["Write the digits of {n} in reverse order.", "Reverse the digits of {n}.", "Write {n} backwards."]


def make_reverse_digits(rng: Random) -> Instance:
    digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(3, 14)))
    return Instance(digits, phrase(rng, REVERSE_DIGITS, n=digits), digits[::-1])


def check_reverse_digits(prompt: str, answer: str) -> bool:
    given = [c for c in prompt if c.isdigit()]
    return len(answer) == len(given) and all(given.pop() == c for c in answer)


TASKS = [
    Task("spell", make_spell, check_spell, 2.5),
    Task("spell_backwards", make_spell_backwards, check_spell_backwards, 5.0),
    Task("count_letters", make_count_letters, check_count_letters, 5.0),
    Task("copy", make_copy, check_copy, 5.0),
    Task("reverse_digits", make_reverse_digits, check_reverse_digits, 2.5),
]
