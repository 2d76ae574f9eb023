"""Lists: sorting numbers and words, reversing, picking an item by place, by size or by the alphabet.

Prompts separate the items as people do (`written`); answers always with a comma and a space.
"""

import re
from random import Random

from .lexicon import WORDS
from .task import Instance, Task, phrase


def written(rng: Random, items: list[str]) -> str:
    """The items of a prompt: mostly `a, b, c`, also `a b c`, `a, b and c`, `a, b, c.` and, numbers only, `1,2,3`."""
    draw = rng.random()
    if draw < 0.22:
        return " ".join(items)
    if draw < 0.30:
        return ", ".join(items[:-1]) + rng.choice((" and ", ", and ")) + items[-1]
    if draw < 0.36:
        return ", ".join(items) + "."
    if draw < 0.42 and items[0].isdigit():
        return ",".join(items)
    return ", ".join(items)


def listed(prompt: str) -> list[str]:
    """The items after the last colon of a prompt."""
    return re.findall(r"\w+", prompt.rsplit(": ", 1)[1].replace(" and ", " "))


SORT_UP = ["Sort these numbers: {s}", "Sort in ascending order: {s}", "Put these numbers in order from smallest to "
           "largest: {s}", "Arrange the numbers in increasing order: {s}", "Sort from smallest to largest: {s}",
           "Order these numbers: {s}", "Sort: {s}"]
SORT_DOWN = ["Sort in descending order: {s}", "Put these numbers in order from largest to smallest: {s}",
             "Arrange the numbers in decreasing order: {s}", "Sort from largest to smallest: {s}"]


def make_sort_numbers(rng: Random) -> Instance:
    top = rng.choice((20, 100, 100, 1000))
    numbers = rng.sample(range(top), rng.randint(4, 12))
    down = rng.random() < 0.35
    items = [str(n) for n in numbers]
    prompt = phrase(rng, SORT_DOWN if down else SORT_UP, s=written(rng, items))
    return Instance(", ".join(items), prompt, ", ".join(map(str, sorted(numbers, reverse=down))))


def check_sort_numbers(prompt: str, answer: str) -> bool:
    down = any(mark in prompt.lower() for mark in ("descending", "decreasing", "largest to smallest"))
    got = [int(n) for n in answer.split(", ") if n.isdigit()]
    pairs = list(zip(got, got[1:]))
    ordered = all(x >= y for x, y in pairs) if down else all(x <= y for x, y in pairs)
    return ordered and sorted(answer.split(", ")) == sorted(listed(prompt))


SORT_WORDS = ["Sort these words: {s}", "Sort alphabetically: {s}", "Put these words in alphabetical order: {s}",
              "Arrange in alphabetical order: {s}", "Sort these: {s}", "Sort: {s}", "Alphabetize: {s}",
              "List in alphabetical order: {s}"]


def make_sort_words(rng: Random) -> Instance:
    words = rng.sample(WORDS, rng.randint(3, 9))
    return Instance(", ".join(words), phrase(rng, SORT_WORDS, s=written(rng, words)), ", ".join(sorted(words)))


def check_sort_words(prompt: str, answer: str) -> bool:
    got, given = answer.split(", "), listed(prompt)
    return all(x <= y for x, y in zip(got, got[1:])) and len(got) == len(given) and set(got) == set(given)


REVERSE = ["Reverse this list: {s}", "Write this list backwards: {s}", "Give these items in reverse order: {s}",
           "Turn the list around: {s}", "Reverse the order of: {s}", "Reverse: {s}"]


def make_reverse_list(rng: Random) -> Instance:
    n = rng.randint(3, 10)
    items = rng.sample(WORDS, n) if rng.random() < 0.6 else [str(rng.randrange(1000)) for _ in range(n)]
    return Instance(", ".join(items), phrase(rng, REVERSE, s=written(rng, items)), ", ".join(items[::-1]))


def check_reverse_list(prompt: str, answer: str) -> bool:
    given, got = listed(prompt), answer.split(", ")
    return len(got) == len(given) and all(got[i] == given[-1 - i] for i in range(len(given)))


PLACES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
PICK_PLACE = ["What is the {p} item in this list: {s}", "Give the {p} item: {s}", "Which item is {p}: {s}"]
PICK_ALPHABET = ["Which word comes {p} in alphabetical order: {s}", "Which of these words is {p} in the alphabet: {s}"]
PICK_MOST = ["What is the {p} number in this list: {s}", "Which number is the {p}: {s}", "Find the {p} number: {s}"]


def make_pick(rng: Random) -> Instance:
    n = rng.randint(4, 10)
    kind = rng.random()
    if kind < 0.35:
        items = rng.sample(WORDS, rng.randint(2, 6))
        place = rng.choice(("first", "last"))
        answer, templates = min(items) if place == "first" else max(items), PICK_ALPHABET
    elif kind < 0.65:
        items = rng.sample(WORDS, n)
        index = rng.randrange(min(n, 8) + 1)
        place, answer = ("last", items[-1]) if index == min(n, 8) else (PLACES[index], items[index])
        templates = PICK_PLACE
    else:
        numbers = rng.sample(range(rng.choice((100, 1000, 10000))), n)
        place = rng.choice(("largest", "smallest"))
        items, answer = [str(x) for x in numbers], str(max(numbers) if place == "largest" else min(numbers))
        templates = PICK_MOST
    return Instance(", ".join(items), phrase(rng, templates, p=place, s=written(rng, items)), answer)


def check_pick(prompt: str, answer: str) -> bool:
    items, head = listed(prompt), prompt.rsplit(": ", 1)[0].split()
    if "alphabetical" in head or "alphabet" in head:
        ordered = sorted(items)
        return answer == (ordered[0] if "first" in head else ordered[-1])
    for word in head:
        if word in PLACES:
            return answer == items[PLACES.index(word)]
        if word == "last":
            return answer == items[-1]
    numbers = [int(x) for x in items]
    better = (lambda x: x > int(answer)) if "largest" in head else (lambda x: x < int(answer))
    return answer.isdigit() and int(answer) in numbers and not any(better(x) for x in numbers)


TASKS = [
    Task("sort_numbers", make_sort_numbers, check_sort_numbers, 5.0),
    Task("sort_words", make_sort_words, check_sort_words, 14.0),
    Task("reverse_list", make_reverse_list, check_reverse_list, 3.0),
    Task("pick", make_pick, check_pick, 4.0),
]
