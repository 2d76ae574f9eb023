"""Descriptions of a thing whose size, color and place the prompt names."""

import re
from random import Random

from .lexicon import COLORS
from .stories import PLACES, with_article
from .task import Instance, Task, phrase

SIZES = "small large tiny huge tall narrow wide short".split()

SUBJECTS = {
    "building": "house barn tower cottage hut church shop school inn".split(),
    "animal": "cat dog horse goat rabbit bird frog pig cow mouse".split(),
    "vehicle": "boat wagon bicycle cart train bus truck sled".split(),
}

SENTENCES = {
    "building": (
        ["The {n} is {s} and {c}.", "It is {a} {c} {n}.", "You see {a_c} {n} that is {s}."],
        ["It stands {at}, where the wind is soft.", "It was built {at} many years ago.", "You can find it {at}."],
        ["Its door creaks when you open it.", "Ivy grows along its walls.", "Warm light shines from its windows."],
        ["Inside, it smells of bread and wood.", "Inside, there is an old clock and a long table.",
         "Inside, a fire is always burning."],
        ["People say that it has never looked better.", "Children like to play in front of it.", "It is a good place to rest."]),
    "animal": (
        ["The {n} is {s} and {c}.", "It is {a} {c} {n}.", "You see {a_c} {n} that is {s}."],
        ["It lives {at}, and everybody knows it.", "Most days it sits {at}.", "You can find it {at}."],
        ["Its eyes are bright and friendly.", "It has soft ears and quick feet.", "It moves without a sound."],
        ["It likes to eat in the morning and sleep in the sun.", "In the evening it looks for something to eat.",
         "When it rains, it hides under a roof."],
        ["It is never in a hurry.", "Nobody knows how old it is.", "Children bring it little gifts."]),
    "vehicle": (
        ["The {n} is {s} and {c}.", "It is {a} {c} {n}.", "You see {a_c} {n} that is {s}."],
        ["It waits {at} for its next trip.", "You can find it {at}.", "It has been standing {at} since last week."],
        ["Its sides are worn, but it is strong.", "Someone has polished it with care.", "It makes a low sound when it moves."],
        ["It has carried apples, wool, and many people.", "There is room for two people and a basket.",
         "It knows every road and every turn, people say."],
        ["Its owner is proud of it.", "Soon it will be on its way again.", "It has never been late."]),
}

ASK = ["Describe {a} {c} {n} {at}.", "Write a description of {a} {c} {n} {at}.", "Describe {a_c} {n} {at}. It is {s}."]


def make_description(rng: Random) -> Instance:
    group = rng.choice(list(SUBJECTS))
    noun, size, color = rng.choice(SUBJECTS[group]), rng.choice(SIZES), rng.choice(COLORS)
    place, at, _ = rng.choice(PLACES)
    if place == noun:
        return make_description(rng)
    slots = {"n": noun, "s": size, "c": color, "a": with_article(size), "a_c": with_article(color), "at": at}
    text = " ".join(rng.choice(wordings).format(**slots) for wordings in SENTENCES[group])
    return Instance(f"{size} {color} {noun} {at}", phrase(rng, ASK, **slots), text)


def check_description(prompt: str, text: str) -> bool:
    words = re.findall(r"[a-z]+", text.lower())
    asked = re.findall(r"[a-z]+", prompt.lower())
    nouns = [n for group in SUBJECTS.values() for n in group]
    wanted = [w for w in asked if w in COLORS or w in SIZES or w in nouns]
    at = next(at for _, at, _ in PLACES if at in prompt)
    sentences = text.split(". ")
    return (all(w in words for w in wanted) and at in text and len(sentences) == 5 and len(set(sentences)) == 5
            and {w for w in words if w in COLORS} <= set(asked) and {w for w in words if w in SIZES} <= set(asked)
            and text.endswith("."))


TASKS = [Task("description", make_description, check_description, 4.0, one_answer=False)]
