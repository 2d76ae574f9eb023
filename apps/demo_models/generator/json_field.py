"""Reading one field from a small JSON object."""

import json
from random import Random

from .lexicon import ANIMALS, BOYS, COLORS, FOODS, GIRLS, THINGS, pseudo_word
from .task import Instance, Task, phrase

FIELDS = {
    "name": lambda rng: rng.choice(GIRLS + BOYS),
    "friend": lambda rng: rng.choice(GIRLS + BOYS),
    "age": lambda rng: rng.randint(1, 99),
    "city": lambda rng: pseudo_word(rng).capitalize(),
    "color": lambda rng: rng.choice(COLORS),
    "pet": lambda rng: rng.choice(ANIMALS),
    "food": lambda rng: rng.choice(FOODS),
    "item": lambda rng: rng.choice(THINGS),
    "price": lambda rng: rng.randint(1, 999),
    "count": lambda rng: rng.randint(0, 50),
    "code": lambda rng: rng.randrange(1000, 100000),
    "id": lambda rng: pseudo_word(rng) + str(rng.randrange(100)),
    "open": lambda rng: rng.random() < 0.5,
    "year": lambda rng: rng.randint(1900, 2099),
}

ASK = ['What is the value of "{f}" in {s}', 'Extract the "{f}" field from {s}', 'Give the {f} from this JSON: {s}',
       'Read this JSON and give the {f}: {s}', '{s}\nWhat is the {f}?']


def make_json_field(rng: Random) -> Instance:
    names = rng.sample(list(FIELDS), rng.randint(2, 6))
    record = {name: FIELDS[name](rng) for name in names}
    field = rng.choice(names)
    text = json.dumps(record)
    value = record[field]
    answer = value if isinstance(value, str) else json.dumps(value)
    # The braces of the object must not meet str.format, so the slot is filled last.
    prompt = phrase(rng, ASK, f=field, s="\0").replace("\0", text)
    return Instance(f"{field} {text}", prompt, answer)


def check_json_field(prompt: str, answer: str) -> bool:
    start, end = prompt.index("{"), prompt.rindex("}") + 1
    record = json.loads(prompt[start:end])
    around = (prompt[:start] + prompt[end:]).replace('"', "").rstrip("?: ").split()
    asked = [word.rstrip(":") for word in around if word.rstrip(":") in record]
    value = record[asked[-1]]
    return answer == (value if isinstance(value, str) else str(value).lower())


TASKS = [Task("json_field", make_json_field, check_json_field, 3.5)]
