"""Cases, how they are registered and run, and what comes out.

    @case("logits")
    def rows_are_their_tokens_choice(t):
        "A row's logits are those that its token chose"     # the claim
        t.equal(t.runtime.logits(...), want, "row 3")

The case is named "logits.rows_are_their_tokens_choice". A claim that does not hold raises Failure.
"""

import fnmatch
import time
import traceback
from dataclasses import asdict, dataclass

import numpy as np

from runtime import NotApplicable, Refused

PASS, FAIL, NOT_APPLICABLE = "pass", "fail", "not applicable"


class Failure(AssertionError):
    """A claim that does not hold."""


@dataclass
class Case:
    name: str
    claim: str
    check: object


@dataclass
class Result:
    name: str
    claim: str
    status: str
    reason: str
    seconds: float


class Registry:
    def __init__(self):
        self.cases = []

    def add(self, name, claim, check):
        assert all(each.name != name for each in self.cases), f"two cases named {name}"
        self.cases.append(Case(name, claim, check))

    def case(self, group):
        def register(function):
            self.add(f"{group}.{function.__name__}", function.__doc__.strip().split("\n\n")[0], function)
            return function
        return register

    def chosen(self, patterns):
        return [each for each in self.cases
                if not patterns or any(fnmatch.fnmatchcase(each.name, pattern) for pattern in patterns)]


class Trial:
    """What a case gets: the runtime, the suite's files, and ways to claim something."""

    def __init__(self, runtime, files, limits):
        self.runtime, self.files, self.limits = runtime, files, limits

    @staticmethod
    def claim(holds, otherwise):
        if not holds:
            raise Failure(otherwise)

    @staticmethod
    def equal(got, want, what="result"):
        if got != want:
            raise Failure(f"{what}: got {got!r}, want {want!r}"[:2000])

    def close(self, got, want, what="logits", tolerance=0.04):
        """Arrays of one shape whose difference is at most `tolerance` deviations of `want`, root mean square.

        4 %: what a chain of products with inputs rounded to 8 bits may do (tests/models/logits_test.py).
        """
        got = np.asarray(got, np.float64)
        self.equal(got.shape, want.shape, f"shape of {what}")
        error = np.sqrt(np.mean((got - want) ** 2)) / want.std()
        self.claim(error <= tolerance, f"{what}: off by {error:.4f} deviations, {tolerance} allowed")

    def refused(self, outcome, item=(), says=(), limits=False):
        """An ordinary end with a failure, nothing on stdout, and a message that names the item."""
        self.claim(not outcome.timed_out, f"no end: {outcome}")
        self.claim(outcome.signal == 0, f"ended by a signal: {outcome}")
        self.claim(outcome.status != 0, "accepted: exit status 0")
        self.claim(not outcome.stdout.strip(), f"standard output holds {outcome.stdout[:200]!r} beside a failure")
        low = outcome.message.lower()
        for words in item:
            self.claim(any(str(word).lower() in low for word in str(words).split("|")), f"{words!r} is not named: {outcome}")
        for words in says if self.runtime.exact_words else ():
            self.claim(str(words) in outcome.message, f"{words!r} is not said: {outcome}")
        if limits:
            self.claim(outcome.cpu_seconds < self.limits.cpu_seconds,
                       f"{outcome.cpu_seconds:.2f} s of processor time, {self.limits.cpu_seconds} allowed")
            self.claim(outcome.peak_bytes < self.limits.peak_bytes,
                       f"{outcome.peak_bytes / 1e6:.0f} MB, {self.limits.peak_bytes / 1e6:.0f} allowed")

    def refuses(self, call, *item, says=(), usage=False):
        """`call()` is refused; with `usage` as bad usage, where the runtime tells that apart."""
        try:
            result = call()
        except Refused as refusal:
            self.refused(refusal.outcome, item, says)
            if usage and self.runtime.usage_status is not None:
                self.equal(refusal.outcome.status, self.runtime.usage_status, "exit status of bad usage")
            return
        raise Failure(f"accepted: {result!r}"[:1000])


@dataclass
class Limits:
    """Of a refusal. Processor time, not the clock's: another program beside it decides nothing."""
    cpu_seconds: float = 1.0
    peak_bytes: float = 100e6


def run_case(case, trial):
    begin = time.monotonic()
    status, reason = PASS, ""
    try:
        case.check(trial)
    except NotApplicable as absent:
        status, reason = NOT_APPLICABLE, str(absent)
    except Failure as failure:
        status, reason = FAIL, str(failure)
    except Refused as refusal:
        status, reason = FAIL, f"refused: {refusal}"
    except Exception:  # noqa: BLE001: a runtime under test may answer anything, the other cases still run
        status, reason = FAIL, traceback.format_exc(limit=-3)
    return Result(case.name, case.claim, status, reason, round(time.monotonic() - begin, 3))


def summary(results):
    return {status: sum(result.status == status for result in results) for status in (PASS, FAIL, NOT_APPLICABLE)}


def as_json(runtime, results):
    return {"suite": "dllm conformance 1", "runtime": {"name": runtime.name, "version": runtime.version()},
            "counts": summary(results), "cases": [asdict(result) for result in results]}
