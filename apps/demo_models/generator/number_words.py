"""Numbers below one million in English words, both ways."""

from random import Random

from .task import Instance, Task, phrase

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f"-{ONES[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    rest = f" {in_words(n % unit)}" if n % unit else ""
    return f"{in_words(n // unit)} {name}{rest}"


def value_of(words: str) -> int:
    """Reads number words by adding and scaling, the other way round from `in_words`."""
    total = group = 0
    for word in words.replace("-", " ").split():
        if word == "thousand":
            total, group = group * 1000, 0
        elif word == "hundred":
            group *= 100
        else:
            group += ONES.index(word) if word in ONES else 20 + 10 * TENS.index(word)
    return total + group


TO_WORDS = ["Write {n} in words.", "Write the number {n} in words.", "Spell out the number {n}.", "How do you say {n}?"]
TO_DIGITS = ["Write {n} in digits.", "Write {n} as a number.", "Which number is {n}?", "Convert to digits: {n}"]


def make_number(rng: Random) -> int:
    digits = rng.randint(1, 6)
    n = rng.randrange(10 ** digits)
    if rng.random() < 0.25:                  # round numbers, where parts fall away
        n -= n % 10 ** rng.randrange(digits)
    return n


def make_to_words(rng: Random) -> Instance:
    n = make_number(rng)
    return Instance(str(n), phrase(rng, TO_WORDS, n=n), in_words(n))


def check_to_words(prompt: str, answer: str) -> bool:
    n = int("".join(c for c in prompt if c.isdigit()))
    known = set(ONES) | set(TENS) | {"hundred", "thousand"}
    return (set(answer.replace("-", " ").split()) <= known and value_of(answer) == n
            and answer.count("-") == sum(1 for w in answer.split() if w.partition("-")[0] in TENS and "-" in w))


def make_to_digits(rng: Random) -> Instance:
    n = make_number(rng)
    return Instance(str(n), phrase(rng, TO_DIGITS, n=in_words(n)), str(n))


def check_to_digits(prompt: str, answer: str) -> bool:
    known = set(ONES) | set(TENS) | {"hundred", "thousand"}
    words = [w for w in prompt.rstrip(".?").replace("-", " ").split() if w in known]
    return answer == str(value_of(" ".join(words)))


TASKS = [
    Task("number_to_words", make_to_words, check_to_words, 3.0),
    Task("words_to_number", make_to_digits, check_to_digits, 2.5),
]
