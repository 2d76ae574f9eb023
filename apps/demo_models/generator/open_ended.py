"""Tasks with many right answers whose tokens depend on each other.

One token at a time they are easy; committing several at once makes the parts contradict each other (a word twice, a sum
that does not add up), which is what tells one sampler from another.
"""

import re
from random import Random

from .lexicon import ANIMALS, COLORS, FOODS, THINGS, WORDS
from .ordering import listed, written
from .task import Instance, Task, phrase

SPLIT = ["Give two numbers that add up to {n}.", "Write {n} as a sum of two numbers.", "Find two numbers whose sum is {n}."]


def make_split_sum(rng: Random) -> Instance:
    n = rng.randrange(10, rng.choice((100, 1000, 10000)))
    a = rng.randint(1, n - 1)
    return Instance(str(n), phrase(rng, SPLIT, n=n), f"{a} + {n - a} = {n}")


def check_split_sum(prompt: str, answer: str) -> bool:
    found = re.fullmatch(r"(\d+) \+ (\d+) = (\d+)", answer)
    target = re.search(r"\d+", prompt)[0]
    return bool(found) and found[3] == target and int(found[1]) + int(found[2]) == int(target)


SHUFFLE = ["Shuffle this list: {s}", "Put these words in a different order: {s}", "Mix up the order of: {s}"]


def make_shuffle(rng: Random) -> Instance:
    words = rng.sample(WORDS, rng.randint(4, 9))
    mixed = words
    while mixed == words:
        mixed = rng.sample(words, len(words))
    return Instance(", ".join(words), phrase(rng, SHUFFLE, s=written(rng, words)), ", ".join(mixed))


def check_shuffle(prompt: str, answer: str) -> bool:
    given, got = listed(prompt), answer.split(", ")
    return got != given and sorted(got) == sorted(given)


KINDS = {"animals": ANIMALS, "foods": FOODS, "colors": COLORS, "things": THINGS}
COUNTS = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
NAME_SOME = ["Name {n} {k} in alphabetical order.", "List {n} {k} in alphabetical order.",
             "Give me {n} different {k}, sorted alphabetically.", "Write down {n} {k} in alphabetical order.",
             "I need {n} {k} in alphabetical order."]


def make_name_some(rng: Random) -> Instance:
    kind, count = rng.choice(list(KINDS)), rng.choice(list(COUNTS))
    prompt = phrase(rng, NAME_SOME, n=count, k=kind)
    return Instance(prompt, prompt, ", ".join(sorted(rng.sample(KINDS[kind], COUNTS[count]))))


def check_name_some(prompt: str, answer: str) -> bool:
    words = prompt.lower().replace(",", "").split()
    kind = next(k for k in KINDS if k in words)
    count = next(COUNTS[w] for w in words if w in COUNTS)
    got = answer.split(", ")
    return len(got) == count and all(w in KINDS[kind] for w in got) and all(x < y for x, y in zip(got, got[1:]))


PALINDROME = ["Make up a palindrome with {n} letters.", "Write a palindrome of {n} letters.",
              "Invent a word of {n} letters that reads the same backwards.", "Spell a palindrome that has {n} letters.",
              "Give me a palindrome with {n} letters.", "Make a palindrome of length {n}."]


def make_palindrome(rng: Random) -> Instance:
    n = rng.randint(4, 15)
    half = [rng.choice("abcdefghijklmnopqrstuvwxyz" if i % 2 else "aeiouaeioubdlmnrst") for i in range((n + 1) // 2)]
    letters = half + half[::-1][n % 2:]
    prompt = phrase(rng, PALINDROME, n=n)
    return Instance(prompt, prompt, "-".join(letters))


def check_palindrome(prompt: str, answer: str) -> bool:
    letters = answer.split("-")
    return (len(letters) == int(re.search(r"\d+", prompt)[0]) and letters == letters[::-1]
            and all(len(c) == 1 and c.islower() for c in letters))


TASKS = [
    Task("split_sum", make_split_sum, check_split_sum, 3.0, one_answer=False),
    Task("shuffle", make_shuffle, check_shuffle, 3.5, one_answer=False),
    # Few prompts and countless answers: prompts are held out, their answers could not be learned by heart anyway.
    Task("name_some", make_name_some, check_name_some, 3.0, one_answer=False, holdout_every=3),
    Task("palindrome", make_palindrome, check_palindrome, 3.0, one_answer=False, holdout_every=3),
]
