"""Harder instances of some tasks, for training only: the same questions and answers, drawn where a first training went wrong.

Held-out prompts are drawn by the tasks' own `make`, so what is practised here decides nothing about how they are measured;
`stream` keeps their keys out of practice too.
"""

import re
from random import Random

from . import arithmetic, dates, letters, number_words, ordering
from .lexicon import _CODAS, _ONSETS, _VOWELS, BOYS, GIRLS, WORDS, any_word, pseudo_word
from .stories import PLOTS
from .task import Instance, phrase

STORY_WORDS = sorted({word for plot in PLOTS for wordings in plot.beats for text in wordings
                      for word in re.findall(r"(?<![{\w'])[a-z]{3,}(?![}\w'])", text)})


def first_that(rng: Random, make, good, tries: int = 60) -> Instance:
    """The first instance that is `good`, or the last one tried."""
    for _ in range(tries):
        instance = make(rng)
        if good(instance):
            break
    return instance


def crossing(rng: Random, most_digits: int) -> int:
    """A number close to a power of ten, on either side."""
    power = 10 ** rng.randint(1, most_digits)
    return max(1, power + rng.randint(-max(2, power // 8), max(2, power // 8)))


def add(rng: Random) -> Instance:
    """Sums near a power of ten, and long ones whose digits are nearly all carried."""
    if rng.random() < 0.5:
        total = crossing(rng, 9)
        a = rng.randint(0, total)
        b = total - a
    else:
        n = rng.randint(5, 12)
        a = arithmetic.number_of_digits(rng, n)
        b = int("".join(str((rng.choice((9, 10, 10)) - int(c)) % 10) for c in str(a)))
    return Instance(f"{min(a, b)}+{max(a, b)}", phrase(rng, arithmetic.ADD, a=a, b=b), str(a + b))


def subtract(rng: Random) -> Instance:
    """Differences shorter than what they come from."""
    n = rng.randint(2, 10)
    difference = rng.randrange(10 ** rng.randint(1, n - 1)) if rng.random() < 0.7 else crossing(rng, n - 1)
    b = arithmetic.number_of_digits(rng, n) if rng.random() < 0.6 else crossing(rng, n - 1)
    a = b + difference
    return Instance(f"{a}-{b}", phrase(rng, arithmetic.SUBTRACT, a=a, b=b), str(difference))


def lengths_change(numbers) -> bool:
    return len({len(str(n)) for n in numbers}) > 1


def sequence(rng: Random) -> Instance:
    """Sequences whose numbers change length where they are continued, small steps among them."""
    def make(rng):
        step = rng.choice([n for n in range(-25, 41) if n] + [-3, -2, -1, 1, 2, 3] * 3)
        edge = rng.choice((10, 100, 100))
        start = edge - step * rng.randint(3, 6) + rng.randint(0, abs(step) - 1) * (1 if step > 0 else -1)
        return [start + step * i for i in range(7)], step
    while True:
        terms, step = make(rng)
        most = 200 if step > 0 else -7 * step + 200
        if min(terms) >= 0 and terms[0] <= most:
            break
    shown = ", ".join(map(str, terms[:4]))
    rule = f"Add {step}" if step > 0 else f"Subtract {-step}"
    return Instance(shown, phrase(rng, arithmetic.SEQUENCE, s=shown), f"{rule}: " + ", ".join(map(str, terms[4:])))


def steps(rng: Random) -> Instance:
    """Chains with results near 0, 10 and 100."""
    def good(made):
        results = [int(n) for n in re.findall(r"= (\d+)", made.answer)]
        return sum(0 < r < 3 or 8 <= r <= 11 or 96 <= r <= 112 for r in results) >= 2
    return first_that(rng, arithmetic.make_steps, good)


def worked_product(rng: Random) -> Instance:
    """Products whose parts have unlike lengths, or zeros."""
    def good(made):
        a, b, *_ = arithmetic.integers(made.prompt)
        return len(str(a * (b % 10))) == len(str(a)) or "0" in str(a * b)[:3]
    return first_that(rng, arithmetic.make_worked_product, good)


def compare(rng: Random) -> Instance:
    """Long numbers that differ in one digit."""
    return first_that(rng, arithmetic.make_compare, lambda made: len(re.findall(r"\d", made.prompt)) >= 12)


def sort_numbers(rng: Random) -> Instance:
    """Many numbers, of unlike lengths and with neighbours."""
    top = rng.choice((20, 100, 1000))
    count = rng.randint(7, 12)
    near = rng.randrange(top)
    numbers = set(rng.sample(range(top), count // 2))
    while len(numbers) < count:
        spread = rng.choice((6, 15, 60))
        n = near + rng.randint(-spread, spread) if rng.random() < 0.6 else rng.randrange(rng.choice((10, 100, top)))
        if 0 <= n < top:
            numbers.add(n)
    items = [str(n) for n in rng.sample(sorted(numbers), count)]
    down = rng.random() < 0.35
    prompt = phrase(rng, ordering.SORT_DOWN if down else ordering.SORT_UP, s=ordering.written(rng, items))
    return Instance(", ".join(items), prompt, ", ".join(map(str, sorted(numbers, reverse=down))))


def loose(rng: Random, items: list[str]) -> str:
    """Two lists in three without commas."""
    return " ".join(items) if rng.random() < 0.6 else ordering.written(rng, items)


def alike_words(rng: Random, count: int) -> list[str]:
    """Words of which many start alike."""
    words = rng.sample(WORDS, rng.randint(1, 2))
    while len(words) < count:
        start = rng.choice(words)[:rng.choice((1, 1, 2, 2, 3))]
        fitting = [w for w in WORDS if w.startswith(start) and w not in words]
        words.append(rng.choice(fitting or [w for w in WORDS if w not in words]))
    rng.shuffle(words)
    return words


def sort_words(rng: Random) -> Instance:
    words = alike_words(rng, rng.randint(3, 9))
    shown = ordering.written(rng, words)
    return Instance(", ".join(words), phrase(rng, ordering.SORT_WORDS, s=shown), ", ".join(sorted(words)))


def reverse_list(rng: Random) -> Instance:
    """Numbers of unlike lengths, and long lists."""
    n = rng.randint(3, 10)
    items = (rng.sample(WORDS, rng.randint(7, 10)) if rng.random() < 0.4
             else [str(rng.randrange(rng.choice((10, 100, 1000)))) for _ in range(n)])
    return Instance(", ".join(items), phrase(rng, ordering.REVERSE, s=loose(rng, items)), ", ".join(items[::-1]))


def pick(rng: Random) -> Instance:
    """By place, mostly from lists without commas; a third by the alphabet, among words that start alike."""
    if rng.random() < 0.3:
        items = alike_words(rng, rng.randint(2, 6))
        place = rng.choice(("first", "last"))
        answer = min(items) if place == "first" else max(items)
        return Instance(", ".join(items), phrase(rng, ordering.PICK_ALPHABET, p=place, s=ordering.written(rng, items)), answer)
    n = rng.randint(4, 10)
    items = rng.sample(WORDS, n)
    index = rng.randrange(min(n, 8) + 1)
    place, answer = ("last", items[-1]) if index == min(n, 8) else (ordering.PLACES[index], items[index])
    return Instance(", ".join(items), phrase(rng, ordering.PICK_PLACE, p=place, s=loose(rng, items)), answer)


def repetitive_word(rng: Random) -> str:
    """An invented word of few different letters: rortror, sassas."""
    onsets, vowels, codas = rng.sample(_ONSETS, rng.choice((1, 1, 2))), rng.sample(_VOWELS, 1), rng.sample(_CODAS, 2)
    for _ in range(50):
        word = "".join(rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas) for _ in range(rng.choice((2, 2, 3))))
        if 4 <= len(word) <= 9:
            return word
    return pseudo_word(rng)


def hard_word(rng: Random) -> str:
    """A repetitive word, a long invented one, or one that the stories use."""
    draw = rng.random()
    return repetitive_word(rng) if draw < 0.4 else pseudo_word(rng, 6) if draw < 0.8 else rng.choice(STORY_WORDS)


def spell(rng: Random) -> Instance:
    word = hard_word(rng)
    return Instance(letters.key_of(word), phrase(rng, letters.SPELL, w=word), "-".join(word))


def spell_backwards(rng: Random) -> Instance:
    word = hard_word(rng)
    return Instance(letters.key_of(word), phrase(rng, letters.BACKWARDS, w=word), "-".join(reversed(word)))


def count_letters(rng: Random) -> Instance:
    """Letters that occur several times, three and more in most."""
    draw = rng.random()
    word = repetitive_word(rng) if draw < 0.6 else any_word(rng)
    often = max(word, key=lambda c: (word.count(c), rng.random()))
    letter = often if rng.random() < 0.7 else rng.choice(word)
    marked = "-".join(f"{c}{int(c == letter)}" for c in word)
    return Instance(f"{letter},{word}", phrase(rng, letters.COUNT, c=letter, w=word), f"{marked}: {word.count(letter)}")


def copy(rng: Random) -> Instance:
    """Every kind of word: of the stories, names, invented ones."""
    items = [rng.choice(WORDS), *(rng.choice((hard_word(rng), hard_word(rng), rng.choice(STORY_WORDS), rng.choice(GIRLS + BOYS)))
                                  for _ in range(rng.randint(1, 9)))]
    shown = " ".join(items)
    return Instance(shown, phrase(rng, letters.COPY, s=shown), shown)


def date_shift(rng: Random) -> Instance:
    """Days at the edge of a month: the answer is the first or last, or one beyond."""
    month, n, sign = rng.randrange(12), rng.randint(2, 45), rng.choice((1, -1))
    edge = rng.choice((-1, 0, 0, 1, 1, 2))
    day = n + edge if sign < 0 else dates.MONTH_DAYS[month] - n + edge
    if not 1 <= day <= dates.MONTH_DAYS[month]:
        return dates.make_date_shift(rng)
    shown = f"{dates.MONTHS[month]} {day}"
    return Instance(f"{shown}{sign * n:+d}", phrase(rng, dates.SHIFT[sign], n=n, d=shown), dates.carried(month, day, n, sign))


def number_to_words(rng: Random) -> Instance:
    """Numbers with zeros inside."""
    n = int(rng.choice("123456789") + "".join(rng.choice("0001234567891") for _ in range(rng.randint(2, 5))))
    return Instance(str(n), phrase(rng, number_words.TO_WORDS, n=n), number_words.in_words(n))


PRACTICE = {make.__name__: make for make in (
    add, subtract, sequence, steps, worked_product, compare, sort_numbers, sort_words, reverse_list, pick, spell,
    spell_backwards, count_letters, copy, date_shift, number_to_words)}
