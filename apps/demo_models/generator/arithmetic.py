"""Sums, differences, products, products with their working, comparisons, chains of steps, sequences."""

import re
from random import Random

from .task import Instance, Task, phrase


def integers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def number_of_digits(rng: Random, digits: int) -> int:
    """A random number of exactly `digits` digits; one in five is rich in nines and zeros, which makes carries ripple."""
    if digits > 1 and rng.random() < 0.2:
        return int(rng.choice("123456789") + "".join(rng.choice("0999123450") for _ in range(digits - 1)))
    return rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10 ** digits)


def operand_pair(rng: Random, most_digits: int) -> tuple[int, int]:
    n = rng.randint(1, most_digits)
    m = n if rng.random() < 0.6 else rng.randint(1, n)
    a, b = number_of_digits(rng, n), number_of_digits(rng, m)
    return (a, b) if rng.random() < 0.5 else (b, a)


ADD = ["What is {a} + {b}?", "What is {a} plus {b}?", "Add {a} and {b}.", "Compute {a} + {b}.", "{a} + {b} = ?",
       "Calculate the sum of {a} and {b}.", "How much is {a} + {b}?", "{a} + {b}", "{a}+{b}", "What is {a}+{b}?",
       "What is the sum of {a} and {b}?"]


def make_add(rng: Random) -> Instance:
    a, b = operand_pair(rng, 12)
    return Instance(f"{min(a, b)}+{max(a, b)}", phrase(rng, ADD, a=a, b=b), str(a + b))


def check_add(prompt: str, answer: str) -> bool:
    return answer == str(sum(integers(prompt)))


SUBTRACT = ["What is {a} - {b}?", "What is {a} minus {b}?", "Subtract {b} from {a}.", "Compute {a} - {b}.",
            "{a} - {b} = ?", "Calculate {a} minus {b}.", "How much is {a} - {b}?", "{a} - {b}", "{a}-{b}", "What is {a}-{b}?"]


def make_subtract(rng: Random) -> Instance:
    a, b = sorted(operand_pair(rng, 10), reverse=True)
    return Instance(f"{a}-{b}", phrase(rng, SUBTRACT, a=a, b=b), str(a - b))


def check_subtract(prompt: str, answer: str) -> bool:
    return answer == str(abs(integers(prompt)[0] - integers(prompt)[1]))


MULTIPLY = ["What is {a} x {b}?", "What is {a} times {b}?", "Multiply {a} by {b}.", "Compute {a} * {b}.",
            "{a} * {b} = ?", "How much is {a} times {b}?", "{a} x {b}", "{a}*{b}", "What is {a} * {b}?", "{a} * {b}"]


def make_multiply(rng: Random) -> Instance:
    a, b = number_of_digits(rng, rng.choice((1, 2, 2, 3, 3, 4))), rng.randint(2, 9)
    key = f"{a}*{b}"
    if rng.random() < 0.5:
        a, b = b, a
    return Instance(key, phrase(rng, MULTIPLY, a=a, b=b), str(a * b))


def check_multiply(prompt: str, answer: str) -> bool:
    a, b = integers(prompt)
    return answer == str(sum([a] * b) if b < a else sum([b] * a))


WORKED = ["Multiply {a} by {b} and show your work.", "What is {a} x {b}? Show your work.",
          "Work out {a} times {b} step by step.", "Compute {a} x {b} with all steps."]


def make_worked_product(rng: Random) -> Instance:
    a = rng.randrange(11, 100) if rng.random() < 0.5 else rng.randrange(100, 1000)
    b = rng.randrange(1, 10) * 10 + rng.randrange(1, 10)
    ones, tens = b % 10, b - b % 10
    answer = (f"{a} x {ones} = {a * ones}, {a} x {tens} = {a * tens}, "
              f"{a * ones} + {a * tens} = {a * b}. The answer is {a * b}.")
    return Instance(f"{a}x{b}", phrase(rng, WORKED, a=a, b=b), answer)


def equations_hold(text: str) -> bool:
    """Every 'x op y = z' in the text is true, and there is at least one."""
    found = re.findall(r"(\d+) ([-+x/]) (\d+) = (\d+)", text)
    apply = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__, "/": lambda x, y: x // y if x % y == 0 else -1}
    return bool(found) and all(apply[op](int(x), int(y)) == int(z) for x, op, y, z in found)


def check_worked_product(prompt: str, answer: str) -> bool:
    a, b = integers(prompt)
    parts = answer.split(". The answer is ")
    return (len(parts) == 2 and parts[1] == f"{a * b}." and equations_hold(parts[0])
            and parts[0].count(", ") == 2 and parts[0].startswith(f"{a} x {b % 10} = "))


COMPARE = {
    "larger": ["Which is larger, {a} or {b}?", "Which number is bigger: {a} or {b}?", "Give the larger of {a} and {b}.",
               "What is the greater of {a} and {b}?"],
    "smaller": ["Which is smaller, {a} or {b}?", "Which number is less: {a} or {b}?", "Give the smaller of {a} and {b}.",
                "What is the lesser of {a} and {b}?"],
}


def make_compare(rng: Random) -> Instance:
    a = number_of_digits(rng, rng.randint(1, 8))
    b = a
    while b == a:
        if rng.random() < 0.5:                       # a near miss: one digit changed
            digits = list(str(a))
            digits[rng.randrange(len(digits))] = rng.choice("0123456789")
            b = int("".join(digits))
        else:
            b = number_of_digits(rng, max(1, len(str(a)) + rng.choice((-1, 0, 0, 1))))
    kind = rng.choice(list(COMPARE))
    answer = max(a, b) if kind == "larger" else min(a, b)
    return Instance(f"{min(a, b)},{max(a, b)}", phrase(rng, COMPARE[kind], a=a, b=b), str(answer))


def check_compare(prompt: str, answer: str) -> bool:
    a, b = integers(prompt)
    wants_large = any(word in prompt for word in ("larger", "bigger", "greater"))
    ordered = sorted((a, b))
    return answer == str(ordered[1] if wants_large else ordered[0])


STEP_ASK = ["Show each step.", "What do you get? Show each step.", "Show the steps."]


def make_steps(rng: Random) -> Instance:
    value = start = rng.randint(1, 50)
    orders, lines = [], []
    for _ in range(rng.randint(3, 6)):
        choices = [("+", rng.randint(1, 50))]
        if value > 1:
            choices.append(("-", rng.randint(1, min(value, 50))))
        if value <= 160:
            choices += [("x", 2), ("x", rng.randint(2, 5))]
        if value % 2 == 0 and value > 0:
            choices.append(("/", 2))
        op, n = rng.choice(choices)
        result = {"+": value + n, "-": value - n, "x": value * n, "/": value // n}[op]
        words = {"+": f"Add {n}.", "-": f"Subtract {n}.", "x": "Double it." if n == 2 else f"Multiply by {n}.",
                 "/": "Halve it."}[op]
        orders.append(words)
        lines.append(f"{value} {op} {n} = {result}.")
        value = result
    ask = rng.choice(STEP_ASK)
    prompt = f"{rng.choice(('Start with', 'Take the number', 'Begin with'))} {start}. {' '.join(orders)} {ask}"
    return Instance(f"{start} {' '.join(orders)}", prompt, f"{' '.join(lines)} The answer is {value}.")


def check_steps(prompt: str, answer: str) -> bool:
    """Replays the orders of the prompt sentence by sentence."""
    orders = prompt.split(". ")
    value = integers(orders[0])[0]
    expected = []
    for order in orders[1:]:
        number = integers(order)
        before = value
        if order.startswith("Add"):
            value += number[0]; expected.append(f"{before} + {number[0]} = {value}.")
        elif order.startswith("Subtract"):
            value -= number[0]; expected.append(f"{before} - {number[0]} = {value}.")
        elif order.startswith("Double"):
            value += value; expected.append(f"{before} x 2 = {value}.")
        elif order.startswith("Multiply"):
            value *= number[0]; expected.append(f"{before} x {number[0]} = {value}.")
        elif order.startswith("Halve"):
            value >>= 1; expected.append(f"{before} / 2 = {value}.")
    return answer == " ".join(expected) + f" The answer is {value}."


SEQUENCE = ["Continue the sequence: {s}", "Continue: {s}", "What are the next three numbers: {s}",
            "Give the next three numbers: {s}"]


def make_sequence(rng: Random) -> Instance:
    step = rng.choice([n for n in range(-25, 41) if n])
    start = rng.randint(0, 200) if step > 0 else rng.randint(-7 * step, -7 * step + 200)
    terms = [start + step * i for i in range(7)]
    shown = ", ".join(map(str, terms[:4]))
    rule = f"Add {step}" if step > 0 else f"Subtract {-step}"
    return Instance(shown, phrase(rng, SEQUENCE, s=shown), f"{rule}: " + ", ".join(map(str, terms[4:])))


def check_sequence(prompt: str, answer: str) -> bool:
    rule, _, rest = answer.partition(": ")
    terms = integers(prompt) + integers(rest)
    gaps = {y - x for x, y in zip(terms, terms[1:])}
    gap = terms[1] - terms[0]
    return (len(terms) == 7 and gaps == {gap} and rest == ", ".join(map(str, terms[4:]))
            and rule == ("Add " if gap > 0 else "Subtract ") + str(abs(gap)))


TASKS = [
    Task("add", make_add, check_add, 4.0),
    Task("subtract", make_subtract, check_subtract, 4.0),
    Task("multiply", make_multiply, check_multiply, 2.5),
    Task("worked_product", make_worked_product, check_worked_product, 5.0),
    Task("compare", make_compare, check_compare, 2.0),
    Task("steps", make_steps, check_steps, 5.0),
    Task("sequence", make_sequence, check_sequence, 5.0),
]
