"""Weekdays and calendar dates. Date arithmetic is in a common year: prompts carry no year, so there is no 29 February."""

import datetime
import re
from random import Random

from .task import Instance, Task, phrase

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December"]
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

WEEKDAY = {
    1: ["What day is {n} days after {d}?", "Today is {d}. What day will it be in {n} days?",
        "Which weekday comes {n} days after {d}?", "It is {d}. Which day is it in {n} days?"],
    -1: ["What day is {n} days before {d}?", "Today is {d}. What day was it {n} days ago?",
         "Which weekday comes {n} days before {d}?", "It is {d}. Which day was it {n} days ago?"],
}


def make_weekday(rng: Random) -> Instance:
    day, n, sign = rng.randrange(7), rng.randint(2, 99), rng.choice((1, -1))
    side = "after" if sign > 0 else "before"
    answer = f"{n} = {n // 7} x 7 + {n % 7}. {n % 7} days {side} {DAYS[day]} is {DAYS[(day + sign * n) % 7]}."
    return Instance(f"{day}{sign * n:+d}", phrase(rng, WEEKDAY[sign], n=n, d=DAYS[day]), answer)


def goes_back(prompt: str) -> bool:
    return " before " in prompt or " ago" in prompt or " minus " in prompt


def check_weekday(prompt: str, answer: str) -> bool:
    """Walks the week one day at a time; the weeks and days of the working must make up the number."""
    start = day = next(i for i, name in enumerate(DAYS) if name in prompt)
    n = int(re.search(r"\d+", prompt)[0])
    for _ in range(n):
        day = (day + (6 if goes_back(prompt) else 1)) % 7
    found = re.fullmatch(r"(\d+) = (\d+) x 7 \+ ([0-6])\. ([0-6]) days (after|before) (\w+) is (\w+)\.", answer)
    return (bool(found) and int(found[1]) == n == int(found[2]) * 7 + int(found[3]) and found[3] == found[4]
            and (found[5] == "before") == goes_back(prompt) and found[6] == DAYS[start] and found[7] == DAYS[day])


SHIFT = {
    1: ["What date is {n} days after {d}?", "It is {d}. What will the date be in {n} days?",
        "Which date comes {n} days after {d}?", "What is {d} plus {n} days?", "{n} days after {d}"],
    -1: ["What date is {n} days before {d}?", "It is {d}. What was the date {n} days ago?",
         "Which date comes {n} days before {d}?", "What is {d} minus {n} days?", "{n} days before {d}"],
}


def carried(month: int, day: int, n: int, sign: int) -> str:
    """The working of a shifted date, where a day beyond its month is carried into the next month, or borrowed from it:

    January 31 + 45 = January 76 = February 45 = March 17.
    March 1 - 45 = February 29 - 45 = January 60 - 45 = January 15.
    """
    steps = [f"{MONTHS[month]} {day} {'+' if sign > 0 else '-'} {n}"]
    if sign > 0:
        day += n
        steps.append(f"{MONTHS[month]} {day}")
        while day > MONTH_DAYS[month]:
            day -= MONTH_DAYS[month]
            month = (month + 1) % 12
            steps.append(f"{MONTHS[month]} {day}")
    else:
        while day <= n:
            month = (month - 1) % 12
            day += MONTH_DAYS[month]
            steps.append(f"{MONTHS[month]} {day} - {n}")
        steps.append(f"{MONTHS[month]} {day - n}")
    return " = ".join(steps) + "."


def make_date_shift(rng: Random) -> Instance:
    month = rng.randrange(12)
    day, n, sign = rng.randint(1, MONTH_DAYS[month]), rng.randint(2, 45), rng.choice((1, -1))
    shown = f"{MONTHS[month]} {day}"
    return Instance(f"{shown}{sign * n:+d}", phrase(rng, SHIFT[sign], n=n, d=shown), carried(month, day, n, sign))


def check_date_shift(prompt: str, answer: str) -> bool:
    """With the standard library's calendar, in years where no leap day is near: every step names the same day."""
    month, day = re.search(r"([A-Z][a-z]+) (\d+)", prompt[re.search("|".join(MONTHS), prompt).start():]).groups()
    n = int(re.search(r"(\d+) days", prompt)[1])
    start = datetime.date(2022, MONTHS.index(month) + 1, int(day))
    end = start + datetime.timedelta(days=-n if goes_back(prompt) else n)
    steps = re.findall(r"([A-Z][a-z]+) (\d+)(?: ([-+]) (\d+))?", answer)
    if not steps or any(m not in MONTHS or (s and int(k) != n) for m, _, s, k in steps):
        return False

    def days_off(m, d, s, k):
        """How far a step is from the end, in days of a common year."""
        first = datetime.date(2022, MONTHS.index(m) + 1, 1)
        return (first - end).days + int(d) - 1 + (int(k) if s == "+" else -int(k) if s else 0)

    asked = f"{month} {day} {'-' if goes_back(prompt) else '+'} {n} = "
    return (answer.startswith(asked) and answer.endswith(f" = {MONTHS[end.month - 1]} {end.day}.")
            and answer == " = ".join(f"{m} {d}" + (f" {s} {k}" if s else "") for m, d, s, k in steps) + "."
            and all(days_off(*step) % 365 == 0 for step in steps))


TO_LONG = ["Write the date {s} in words.", "Write {s} as a long date.", "Which date is {s}?"]
TO_SHORT = ["Write {s} as year-month-day.", "Write the date {s} in numbers.", "Convert {s} to the form YYYY-MM-DD."]


def make_date_format(rng: Random) -> Instance:
    year, month = rng.randint(1900, 2099), rng.randrange(12)
    day = rng.randint(1, MONTH_DAYS[month])
    short, long = f"{year}-{month + 1:02d}-{day:02d}", f"{MONTHS[month]} {day}, {year}"
    if rng.random() < 0.5:
        return Instance(short, phrase(rng, TO_LONG, s=short), long)
    return Instance(short, phrase(rng, TO_SHORT, s=long), short)


def check_date_format(prompt: str, answer: str) -> bool:
    short, long = (answer, prompt) if re.match(r"\d{4}-", answer) else (prompt, answer)
    date = datetime.date.fromisoformat(re.search(r"\d{4}-\d\d-\d\d", short)[0])
    text = f"{date:%B} {date.day}, {date.year}"
    return text == answer or (text in long and answer == date.isoformat())


TASKS = [
    Task("weekday", make_weekday, check_weekday, 4.5, holdout_every=8),
    Task("date_shift", make_date_shift, check_date_shift, 5.0),
    Task("date_format", make_date_format, check_date_format, 2.0),
]
